"""The agent's terminal, with a real pty and a real bash on this computer."""

from __future__ import annotations

import hashlib
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from lab.errors import MachineLost
from lab.host.clock import HostClock, wait_for
from lab.machine import agent_terminal
from lab.machine.terminal import WINDOW_BYTES, MarkFilter, TypedCommand
from tests.unit.machine.test_agent import AgentHere, here
from tests.waiting import PATIENCE_SECONDS, is_running, wait_until

__all__ = ["here"]


class Sitting:
    """A user at a terminal."""

    def __init__(self, here: AgentHere) -> None:
        self.shown = bytearray()
        self.commands: list[TypedCommand] = []
        self.failure: MachineLost | None = None
        self.terminal = here.machine.terminal(80, 24, on_command=self.commands.append)
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        self.until(lambda: b"# " in self.shown, "a prompt")

    def _look(self) -> None:
        try:
            for chunk in self.terminal.chunks():
                self.shown += chunk
        except MachineLost as error:
            self.failure = error

    def until(self, is_reached: Callable[[], bool], what: str) -> None:
        seen = lambda: (bytes(self.shown[-1000:]), self.commands[-2:], self.failure)  # noqa: E731
        wait_for(seen, lambda _: is_reached(), what=what, timeout_seconds=PATIENCE_SECONDS, clock=HostClock())

    def run(self, line: str) -> tuple[TypedCommand, str]:
        """Type a line, wait for its end, and return the command and its output."""
        count, start = len(self.commands), len(self.shown)
        self.terminal.type(f"{line}\r".encode())
        self.until(lambda: len(self.commands) > count and self._is_at_prompt(), line)
        printed = bytes(self.shown[start:]).partition(b"\x1b[?2004l\r")[2].partition(b"\x1b[?2004h")[0]
        return self.commands[-1], printed.decode()

    def _is_at_prompt(self) -> bool:
        # After a prompt as wide as the terminal, readline starts a new line.
        return self.shown.rpartition(b"\x1b[?2004h")[2].rstrip(b" \r").endswith(b"#")

    def leave(self) -> None:
        self.terminal.stop()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's files are in the test's folder, since only root may write to /run."""
    monkeypatch.setattr("lab.machine.terminal.RUN_FOLDER", str(tmp_path))


@pytest.fixture
def sitting(here: AgentHere) -> Iterator[Sitting]:
    found = Sitting(here)
    yield found
    found.leave()


def test_it_is_a_terminal_with_job_control_and_follows_its_size(sitting: Sitting) -> None:
    assert b"cannot set terminal process group" not in sitting.shown
    command, printed = sitting.run("stty size; [ -t 0 ] && [ -t 2 ] && echo $TERM")
    assert (command.status, printed) == (0, "24 80\r\nxterm-256color\r\n")
    sitting.terminal.resize(101, 33)
    assert sitting.run("stty size")[1].endswith("33 101\r\n")
    sitting.run("sleep 50 &")
    assert sitting.run("kill %1; wait %1")[0].status == 143


def test_a_typed_command_is_reported_at_its_end_and_stored_in_a_history(sitting: Sitting, tmp_path: Path) -> None:
    sitting.run(f"mkdir {tmp_path}/'a;b'; cd {tmp_path}/'a;b'")
    assert sitting.commands[-1].folder == f"{tmp_path}/a;b"
    reported, _ = sitting.run("false 'a; 100 %' é")
    assert (reported.line, reported.status) == ("false 'a; 100 %' é", 1)
    assert 0.15 <= sitting.run("sleep 0.2")[0].seconds < PATIENCE_SECONDS
    before = len(sitting.commands)
    # An empty line is not a command, nor is a line abandoned with Ctrl-C.
    sitting.terminal.type(b"\rnot this\x03\r")
    again, _ = sitting.run("false 'a; 100 %' é")
    assert (again.line, len(sitting.commands)) == (reported.line, before + 1)
    kept = (tmp_path / "history").read_text().splitlines()
    assert kept[-1] == reported.line
    assert kept[-2].startswith("#")
    assert abs(int(kept[-2][1:]) - time.time()) < 60


def test_a_prompt_may_be_just_as_wide_as_the_terminal(sitting: Sitting, tmp_path: Path) -> None:
    name = "x" * (80 - len("lab:~/# "))
    sitting.run(f"HOME={tmp_path}; mkdir ~/{name}; cd ~/{name}")
    assert not sitting.shown.endswith(b"# "), "the case that is meant"
    assert sitting.run("echo ${#PWD}")[1] == f"{len(str(tmp_path)) + 73}\r\n"


def test_what_a_terminal_has_no_room_for_is_written_when_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise BlockingIOError

    agent = Mock()
    terminal = object.__new__(agent_terminal.PseudoTerminal)
    terminal.agent, terminal.master, terminal.room, terminal.watched = agent, 7, 0, 0
    terminal.typed, terminal.typing = b"ls\r", [1]
    with monkeypatch.context() as patched:
        patched.setattr("lab.machine.agent_terminal.os.write", full)
        terminal.write()
    assert terminal.typed == b"ls\r"
    agent.send.assert_not_called()
    agent.selector.register.assert_called_once_with(7, selectors.EVENT_WRITE, terminal.on_ready)


def test_its_users_own_start_file_is_not_read(sitting: Sitting) -> None:
    assert sitting.run("echo ${RAIDLAB_WORD-none} ${RAIDLAB_RUN-none}; env | grep -c ^_lab")[1] == "none none\r\n0\r\n"


def test_ctrl_c_stops_a_flood_of_output_that_delays_no_other_request(sitting: Sitting, here: AgentHere) -> None:
    sitting.terminal.type(b"yes\r")
    sitting.until(lambda: len(sitting.shown) > 1_000_000, "a flood")
    for _ in range(20):
        assert here.ask_raw("read", paths=["/proc/uptime"])["done"]
    sitting.terminal.type(b"\x03")
    sitting.until(lambda: bool(sitting.commands), "the flood's end")
    assert (sitting.commands[-1].line, sitting.commands[-1].status) == ("yes", 130)


TEE_BYTES = 8192


def test_a_reader_that_stops_reading_blocks_the_program(here: AgentHere, tmp_path: Path) -> None:
    terminal = here.machine.terminal(80, 24)
    chunks = terminal.chunks()
    shown = next(chunks)
    terminal.type(f"yes | tee {tmp_path}/printed\r".encode())
    while len(shown) < 40_000:
        shown += next(chunks)
    printed = tmp_path / "printed"
    # Until the agent has filled its window, a pause says nothing. The client acknowledges a quarter of it at a time,
    # the terminal puts a third character into each line, and tee prints a buffer before it writes it to the file.
    filled_bytes = (40_000 + WINDOW_BYTES * 3 // 4) * 2 // 3 - TEE_BYTES
    wait_until(lambda: printed.stat().st_size >= filled_bytes, failure=lambda: str(printed.stat().st_size))
    sizes = [0, -1]
    while sizes[-1] != sizes[-2]:
        time.sleep(0.3)
        sizes.append(printed.stat().st_size)
    # The window, the terminal's buffers (at most 128 KiB: twice TTYB_DEFAULT_MEM_LIMIT) and those of the pipe.
    assert sizes[-1] < 40_000 + WINDOW_BYTES + 131_072 + 2 * 65_536
    terminal.stop()
    for _ in chunks:
        pass
    assert terminal.status is not None


def test_a_long_paste_arrives_whole(sitting: Sitting, tmp_path: Path) -> None:
    data = b"".join(b"%06d a line of what was pasted, long enough to count\n" % number for number in range(1900))
    sitting.terminal.type(f"cat > {tmp_path}/pasted\r".encode())
    sitting.until(lambda: sitting.shown.endswith(b"pasted\r\n\x1b[?2004l\r"), "cat")
    sitting.terminal.type(data + b"\x04")
    sitting.until(lambda: bool(sitting.commands), "its end")
    found = (tmp_path / "pasted").read_bytes()
    assert len(data) > 100_000
    assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest()


def test_the_end_reports_the_exit_status(here: AgentHere) -> None:
    sitting = Sitting(here)
    sitting.terminal.type(b"exit 7\r")
    sitting.thread.join(PATIENCE_SECONDS)
    assert sitting.terminal.status == 7
    # Later input is ignored.
    sitting.terminal.type(b"x")


def test_stopping_ends_what_ignores_it(here: AgentHere, tmp_path: Path) -> None:
    sitting = Sitting(here)
    sitting.terminal.type(f"trap '' HUP; sh -c 'echo $$ > {tmp_path}/pid; sleep 1000; :'\r".encode())
    sitting.until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()), "a program")
    pid = int((tmp_path / "pid").read_text())
    sitting.leave()
    sitting.until(lambda: not is_running(pid), "the program's end")
    assert sitting.terminal.status in (129, 137)


def test_a_reader_gets_an_error_when_the_agent_is_killed(here: AgentHere) -> None:
    sitting = Sitting(here)
    here.process.kill()
    sitting.thread.join(PATIENCE_SECONDS)
    assert sitting.failure is not None


def marked(*pieces: bytes) -> tuple[bytes, list[TypedCommand]]:
    heard: list[TypedCommand] = []
    marks = MarkFilter("word", heard.append)
    return b"".join(marks.clean(piece) for piece in pieces), heard


MARK = b"\x1b]7777;word;2;1500000;/a%3Bb;ls%0Als -l %25\x07"
TYPED = TypedCommand("ls\nls -l %", 2, 1.5, "/a;b")


def test_marks_are_taken_out_wherever_a_piece_ends() -> None:
    whole = b"before\x1b[1m" + MARK + b"after\x1b]0;title\x07"
    for cut in range(len(whole) + 1):
        shown, heard = marked(whole[:cut], whole[cut:])
        assert (shown, heard) == (b"before\x1b[1mafter\x1b]0;title\x07", [TYPED])


@pytest.mark.parametrize(
    "mark",
    [
        b"\x1b]7777;other;0;1;/;ls\x07",
        b"\x1b]7777;word;0;1;/\x07",
        b"\x1b]7777;word;-1;1;/;ls\x07",
        b"\x1b]7777;word;x;y;/;ls\x07",
        b"\x1b]7777;\xff\xfe\x07",
    ],
)
def test_forged_marks_of_the_shell_are_neither_shown_nor_trusted(mark: bytes) -> None:
    assert marked(b"a" + mark + b"b") == (b"ab", [])


def test_a_mark_brings_nothing_that_a_terminal_would_obey() -> None:
    _, heard = marked(b"\x1b]7777;word;0;1;/%1B[2J;ls %1B]52;c;x%07\x07", b"")
    assert heard == []
    _, heard = marked(b"\x1b]7777;word;0;1;/%1B[2J;ls %1B]52%07\x07", b"")
    assert heard[0].line.isprintable()
    assert heard[0].folder.isprintable()


def test_a_mark_without_end_is_not_waited_for() -> None:
    assert marked(b"\x1b]7777;word;" + b"x" * 200_000)[0].endswith(b"xxx")
