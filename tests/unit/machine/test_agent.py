"""The agent as an ordinary process on pipes, with harmless requests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from lab.errors import CommandFailed, CommandTimedOut, LabError, MachineLost, ToolMissing
from lab.machine import GuestProgram, programs
from lab.machine.agent_programs import install
from lab.machine.api import CommandResult, Machine, MachineFacts, SampleRequest
from lab.machine.attached import AGENT_FILE
from lab.machine.channel import Channel
from tests.waiting import PATIENCE_SECONDS, is_running, wait_until

FACTS = MachineFacts("test:", "6.1", "x86_64", "here", 2, 1 << 30, False)


class AgentHere:
    """The process of an agent, and the ``Machine`` that sends it requests."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-IS", str(AGENT_FILE)], stdin=pipe, stdout=pipe, bufsize=0)
        assert self.process.stdin
        assert self.process.stdout
        read_fd, write_fd = os.dup(self.process.stdout.fileno()), os.dup(self.process.stdin.fileno())
        self.process.stdin.close()
        self.process.stdout.close()
        self.channel = Channel(read_fd, write_fd, lambda: MachineLost("the agent is gone"))
        self.channel.wait_hello(PATIENCE_SECONDS)
        self.machine = Machine(self.channel, FACTS, Mock())

    def ask_raw(self, verb: str, **fields: object) -> dict[str, Any]:
        return self.channel.request(verb, **fields).next(PATIENCE_SECONDS)


@pytest.fixture
def here() -> Iterator[AgentHere]:
    agent = AgentHere()
    yield agent
    agent.machine.close()
    assert agent.process.wait(PATIENCE_SECONDS) is not None


@pytest.fixture
def machine(here: AgentHere) -> Machine:
    return here.machine


def test_a_command_runs_to_its_end_and_listeners_hear_of_it(machine: Machine) -> None:
    seen: list[CommandResult] = []
    machine.on_command(seen.append)
    result = machine.run(["sh", "-c", "cat; echo oops >&2; exit 3"], stdin_text="héllo", check=False)
    assert (result.status, result.stdout, result.stderr) == (3, "héllo", "oops\n")
    assert seen == [result]


def test_failures_name_the_command(machine: Machine) -> None:
    with pytest.raises(CommandFailed, match="'false' exited with status 1"):
        machine.run(["false"])
    with pytest.raises(ToolMissing, match="mdadm-of-tomorrow is not installed"):
        machine.run(["mdadm-of-tomorrow"])
    with pytest.raises(LabError, match="could not be started"):
        machine.run(["/etc/passwd"])


def test_a_time_out_ends_the_whole_group(machine: Machine, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > {pid_file}; sleep 1000' & sleep 1000"
    # If the shell did not start within the time-out, try a longer one.
    for seconds in (2, 10, 60):
        with pytest.raises(CommandTimedOut, match=rf"within {seconds} s.*\n  next: "):
            machine.run(["sh", "-c", script], timeout_seconds=seconds)
        if pid_file.exists() and pid_file.read_text():
            break
    pid = int(pid_file.read_text())
    wait_until(lambda: not is_running(pid))


def test_output_streams_and_a_signal_stops_it(machine: Machine) -> None:
    command = machine.stream(["sh", "-c", "trap 'echo bye; exit 7' INT; echo hi; while :; do sleep 0.01; done"])
    chunks = command.chunks()
    assert next(chunks) == "hi\n"
    command.stop(signal_number=signal.SIGINT)
    assert "".join(chunks) == "bye\n"
    assert command.result().status == 7


def test_a_character_cut_in_two_stays_whole(machine: Machine) -> None:
    assert machine.run(["sh", "-c", r"printf '\303'; sleep 0.1; printf '\251'"]).stdout == "é"
    assert machine.run(["cat"], stdin_text="x" + "é" * 40_000).stdout == "x" + "é" * 40_000


def test_all_output_of_an_ended_command_arrives(machine: Machine) -> None:
    # A daemon that keeps the pipe open, and more output than one read takes.
    result = machine.run(["sh", "-c", "head -c 60000 /dev/zero | tr '\\0' x; sleep 200 & echo \" $!\""])
    printed, daemon = result.stdout.split()
    assert printed == "x" * 60_000
    assert is_running(int(daemon)), "its end was not awaited"
    os.kill(int(daemon), signal.SIGKILL)


PROGRAM = """
import os, sys, time

def main(arguments, is_stopped):
    what, place = arguments
    if what == "fail":
        raise OSError(f"{place}: gone")
    if what == "crash":
        sys.exit(place)
    if what == "wait":
        open(f"{place}.begun", "w").close()
    while what == "wait" and not is_stopped():
        time.sleep(0.01)
    if what == "wait":
        open(place, "w").close()
    return f"{what} {os.getpid()}"
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuestProgram:
    """A program that is installed below the test's folder, since only root may write to /run."""
    monkeypatch.setattr(programs, "RUN_FOLDER", str(tmp_path / "run"))
    (tmp_path / "program.py").write_text(PROGRAM)
    return GuestProgram(tmp_path / "program.py", "trial")


def test_a_program_runs_inside_the_agent_and_listeners_hear_of_it(here: AgentHere, program: GuestProgram) -> None:
    seen: list[CommandResult] = []
    here.machine.on_command(seen.append)
    # At the second call the program is already installed.
    for what in ("héllo", "again"):
        assert here.machine.call(program, (what, "first\nsecond")) == f"{what} {here.process.pid}"
    assert [(each.argv, each.status) for each in seen] == [
        (("agent:trial", "héllo", "first"), 0),
        (("agent:trial", "again", "first"), 0),
    ]
    assert seen[1].started_seconds >= seen[0].started_seconds + seen[0].duration_seconds


def test_the_slower_of_two_agents_finds_the_program_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, answers = tmp_path / "program", list[dict[str, object]]()
    agent: Any = SimpleNamespace(send=answers.append)
    request = {"id": 1, "folder": str(folder), "files": {"lab/one.py": "text"}}
    install(agent, request)
    is_dir, looks = os.path.isdir, iter([False])
    # The folder did not exist yet when the slower agent checked.
    monkeypatch.setattr(os.path, "isdir", lambda path: next(looks, is_dir(path)))
    install(agent, {**request, "id": 2})
    assert answers == [{"id": 1, "done": True}, {"id": 2, "done": True}]
    assert (folder / "lab/one.py").read_text() == "text"


@pytest.mark.parametrize(("what", "message"), [("fail", "/dev/md0: gone"), ("crash", "SystemExit('/dev/md0')")])
def test_a_failed_program_reports_its_error_and_the_agent_continues(
    machine: Machine, program: GuestProgram, what: str, message: str
) -> None:
    with pytest.raises(CommandFailed) as failed:
        machine.call(program, (what, "/dev/md0"))
    assert failed.value.stderr_tail == message
    assert machine.call(program, ("still", "")).startswith("still ")


def test_a_waiting_program_blocks_nothing_and_is_notified_of_its_timeout(
    machine: Machine, program: GuestProgram, tmp_path: Path
) -> None:
    waiting, marker = tmp_path / "waiting", tmp_path / "told"
    lost = ThreadPoolExecutor(1).submit(machine.call, program, ("wait", str(waiting)), timeout_seconds=1000)
    wait_until((tmp_path / "waiting.begun").exists)
    assert machine.call(program, ("quick", "")).startswith("quick ")
    assert machine.run(["echo", "hi"]).stdout == "hi\n"
    with pytest.raises(CommandTimedOut, match="agent:trial wait"):
        machine.call(program, ("wait", str(marker)), timeout_seconds=1)
    wait_until(marker.exists)
    assert not waiting.exists()
    machine.close()
    with pytest.raises(MachineLost):
        lost.result(PATIENCE_SECONDS)


def test_the_end_of_the_channel_ends_an_agent_whose_program_waits(
    here: AgentHere, program: GuestProgram, tmp_path: Path
) -> None:
    folder = here.machine.install(program).rpartition("/")[0]
    arguments = ["wait", str(tmp_path / "told")]
    here.channel.request("call", folder=folder, module=program.module, arguments=arguments)
    wait_until((tmp_path / "told.begun").exists)
    here.channel.close()
    assert here.process.wait(PATIENCE_SECONDS) == 0


def test_files_are_read_listed_and_written(machine: Machine, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    text = 'a long text with "quotes" and \\ and é' * 1000
    machine.write(path, text)
    machine.write(str(tmp_path / "empty"), "")
    assert machine.read([path, "/nowhere", str(tmp_path)]) == {path: text, "/nowhere": None, str(tmp_path): None}
    assert machine.list_dirs([str(tmp_path), "/nowhere"]) == {str(tmp_path): ("empty", "file"), "/nowhere": ()}
    with pytest.raises(LabError, match=r"could not write /nowhere/file: .*No such file"):
        machine.write("/nowhere/file", "x")
    with pytest.raises(LabError, match="could not list /\0 and 2 more: "):
        machine.list_dirs(["/\0", "/a", "/b"])


@pytest.mark.parametrize(("size", "read"), [(4096, 4096), (200_001, 200_001), (5 << 20, 4 << 20)])
def test_files_are_read_whole_up_to_a_limit(machine: Machine, tmp_path: Path, size: int, read: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert machine.read([str(path)]) == {str(path): "x" * read}


def test_a_file_that_the_kernel_hands_out_in_pieces_is_read_whole(machine: Machine) -> None:
    symbols = machine.read(["/proc/kallsyms"])["/proc/kallsyms"] or ""
    with open("/proc/kallsyms", "rb") as file:
        assert len(symbols) == len(file.read(4 << 20))


def test_samples_tick_until_stopped(machine: Machine, tmp_path: Path) -> None:
    path = str(tmp_path / "value")
    machine.write(path, "1")
    request = SampleRequest(0.01, files=(path, "/nowhere", "/proc/diskstats"), block_devices=("none",))
    stream = machine.sample(request)
    samples = []
    for sample in stream:
        samples.append(sample)
        if len(samples) == 5:
            stream.stop()
    assert samples[0].files == {path: "1", "/nowhere": None, "/proc/diskstats": ""}
    assert samples[0].thread_cpu_ticks == {}
    times = [sample.time_seconds for sample in samples]
    assert times == sorted(set(times))
    stream.stop()


def test_an_interval_of_0_is_one_sample_at_once(machine: Machine, tmp_path: Path) -> None:
    path = str(tmp_path / "value")
    machine.write(path, "1")
    (sample,) = machine.sample(SampleRequest(0.0, files=(path,)))
    assert sample.files == {path: "1"}


def test_waiting_for_a_file_that_is_not_there_is_an_error(machine: Machine) -> None:
    with pytest.raises(LabError, match="could not wait for /nowhere"):
        machine.sleep(1.0, until=("/nowhere",))


def test_many_streams_leave_room_for_short_reads_and_samples(machine: Machine) -> None:
    streams = [machine.stream(["sh", "-c", "yes | head -c 2000000"]) for _ in range(8)]
    streams += [machine.stream(["sleep", "300"]) for _ in range(8)]
    for _ in range(20):
        machine.read(["/proc/self/stat"])
    samples = machine.sample(SampleRequest(0.02, files=("/proc/uptime",)))
    times = [sample.time_seconds for sample, _ in zip(samples, range(5), strict=False)]
    samples.stop()
    assert len(times) == 5
    assert times == sorted(set(times))
    for stream in streams[8:]:
        stream.stop(signal_number=signal.SIGKILL)
    assert [sum(map(len, stream.chunks())) for stream in streams] == [2_000_000] * 8 + [0] * 8
    # All reads and samples were answered while these still ran.
    assert [stream.result().status for stream in streams[8:]] == [-signal.SIGKILL] * 8


def test_requests_of_many_threads_keep_apart(machine: Machine) -> None:
    def echoes(number: int) -> bool:
        texts = [f"{number}-{turn} " * 400 for turn in range(5)]
        return [machine.run(["cat"], stdin_text=text).stdout for text in texts] == texts

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(echoes, range(8)))


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("run", {"argv": []}),
        ("run", {"argv": ["a\0b"]}),
        ("run", {}),
        ("run", {"argv": ["true"], "timeout": "soon"}),
        ("sample", {"interval": "often", "files": [], "block_devices": [], "thread_prefixes": []}),
        ("dance", {}),
        ("read", {"paths": 7}),
        ("call", {"program": "none", "arguments": []}),
        ("load", {"name": "trial", "source": "not Python"}),
    ],
)
def test_a_bad_request_is_answered_and_does_no_harm(here: AgentHere, verb: str, fields: dict[str, object]) -> None:
    assert here.ask_raw(verb, **fields)["error"] in ("request", "not-found", "os")
    assert here.machine.run(["true"]).status == 0


def test_an_invalid_request_line_is_ignored(here: AgentHere) -> None:
    os.write(here.channel._write_fd, b'{"id":1,"verb":"ru\n[]\n\n')
    assert here.machine.run(["true"]).status == 0


def test_the_end_of_the_channel_ends_what_still_runs(here: AgentHere, tmp_path: Path) -> None:
    here.machine.stream(["sh", "-c", f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 1000"])
    wait_until((tmp_path / "pid").exists)
    here.channel.close()
    here.process.wait(PATIENCE_SECONDS)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_agent_is_a_lost_machine(here: AgentHere, number: int) -> None:
    command = here.machine.stream(["sleep", "60"])
    here.process.send_signal(number)
    with pytest.raises(MachineLost, match="gone"):
        command.result()
    with pytest.raises(MachineLost, match="gone"):
        here.machine.read(["/proc/mdstat"])


def test_an_error_leaves_an_open_machine_with_the_end_of_the_console() -> None:
    started = Mock(console_tail=lambda: "its last words")
    machine = Machine(Mock(spec=Channel), FACTS, started)
    with pytest.raises(LabError) as lost, machine:
        raise LabError("the array is gone")
    assert lost.value.console == "its last words"
    started.release.assert_called_once_with(True)
