"""The real embedded kernel: what boots, what is protected, and that nothing survives, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.disks.inventory import read_ends
from lab.errors import ExitCode, LabError, MachineLost, SpecError
from lab.machine import EmbeddedOptions, UbdDisk, open_machine, parse_target
from lab.machine.api import Machine
from lab.machine.target import TargetKind
from tests.kernel.place import disk_name, host_at, kernel_target, real_time_target, record_of
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.kernel

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENT_CLIENT = ("lab.machine.embedded.LOSS_SECONDS", PATIENCE_SECONDS)
"""Makes the client wait for a delayed supervisor, since only the supervisor's status says how the kernel ended."""
# A shell starts background jobs with SIGINT ignored, and child processes inherit that.
CLIENT = """
import signal
from lab.machine import Host, open_machine
from tests.kernel.place import kernel_target
signal.signal(signal.SIGINT, signal.default_int_handler)
with open_machine(kernel_target(), Host.real("client")) as machine:
    machine.stream(["sleep", "1000"])
    print(machine.read(["/proc/mounts"])["/proc/mounts"].count("hostfs"), flush=True)
    machine.run(["sleep", "1000"], timeout_seconds=2000)
"""


def sparse_disks(folder: Path, count: int) -> tuple[UbdDisk, ...]:
    disks = tuple(UbdDisk(folder / f"disk{number}", f"RAIDLAB-{number:02}") for number in range(count))
    for disk in disks:
        disk.path.touch()
        os.truncate(disk.path, 64 << 20)
    return disks


def processes_of(folder: Path) -> list[int]:
    """All processes whose open files or command line name a machine below the folder: kernel, helpers, supervisor."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            named = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            named += " ".join(str(fd.readlink()) for fd in (entry / "fd").iterdir())
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"{folder}/machines/" in named and state not in "ZX":
            found.append(int(entry.name))
    return found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def client(state: Path) -> Iterator[subprocess.Popen[str]]:
    """A client in its own process, with an open machine and running commands."""
    (temporary := state.with_name("tmp")).mkdir()
    own = {"RAIDLAB_STATE": str(state), "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)}
    argv = [sys.executable, "-c", CLIENT]
    with subprocess.Popen(
        argv, env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        # The guest sees one mount of the computer's files; in QEMU this is a 9p file system.
        assert process.stdout.readline() == {TargetKind.UML: "1\n", TargetKind.QEMU: "0\n"}[kernel_target().kind]
        yield process
        process.kill()
    assert temporary.is_dir()


@pytest.fixture(scope="module")
def disks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disks")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, disks_folder: Path) -> Iterator[Machine]:
    options = EmbeddedOptions(disks=sparse_disks(disks_folder, 16))
    with open_machine(kernel_target(), host_at(tmp_path_factory.mktemp("state")), embedded=options) as opened:
        yield opened


def test_no_disk_stalls_while_all_others_are_busy(machine: Machine) -> None:
    busy = ":".join(f"/dev/{disk_name(number)}" for number in range(15))
    job = ["--ioengine=libaio", "--direct=1", "--rw=randread", "--bs=64k", "--iodepth=640", "--time_based"]
    load = machine.stream(["fio", "--name=busy", f"--filename={busy}", "--runtime=600", *job])
    try:
        # On a busy computer fio may take seconds to start, and a load that has not begun would prove nothing.
        wait_until(lambda: reads_of(machine, disk_name(0)) > 100, 60)
        before = reads_of(machine, disk_name(0))
        # With 64 requests in flight on each disk, one of the first hundred reads used to stall.
        for _ in range(200):
            read_ends(machine, [f"/dev/{disk_name(15)}"], 4096)
        wait_until(lambda: reads_of(machine, disk_name(0)) > before + 1000, 60)
    finally:
        load.stop()
        load.result()


def reads_of(machine: Machine, name: str) -> int:
    path = f"/sys/block/{name}/stat"
    return int((machine.read([path])[path] or "0").split()[0])


def test_no_disk_seems_to_be_mounted(machine: Machine) -> None:
    shown = machine.run(["lsblk", "--noheadings", "--output", "NAME,MOUNTPOINT"]).stdout
    assert disk_name(0) in shown
    assert "/" not in shown


def test_long_requests_and_answers_pass_the_serial_line(machine: Machine) -> None:
    text = 'quotes " and \\ and é ' * 4000
    machine.write("/run/long", text)
    assert machine.read(["/run/long"])["/run/long"] == text
    assert machine.run(["cat"], stdin_text=text).stdout == text


def test_two_kernels_run_side_by_side(machine: Machine, state: Path) -> None:
    small = {TargetKind.UML: "mem=128M", TargetKind.QEMU: "memory=512M"}[kernel_target().kind]
    with open_machine(kernel_target(small), host_at(state)) as other:
        other.write("/run/mine", "other")
        assert machine.read(["/run/mine"]) == {"/run/mine": None}
        assert machine.facts.host_name == other.facts.host_name == "raidlab"
        assert other.facts.memory_bytes < machine.facts.memory_bytes
    assert machine.run(["true"]).status == 0
    assert list((state / "machines").glob("[0-9]*")) == []


# A client closes its machine only after SIGINT.
@pytest.mark.parametrize(
    ("number", "swept"),
    [(signal.SIGINT, []), (signal.SIGTERM, ["'client'"]), (signal.SIGKILL, ["'client'"])],
)
def test_a_client_ended_by_a_signal_leaves_no_process_and_the_next_one_sweeps(
    client: subprocess.Popen[str], state: Path, number: int, swept: list[str]
) -> None:
    client.send_signal(number)
    client.wait(timeout=PATIENCE_SECONDS)
    wait_until(lambda: processes_of(state) == [])
    assert [notice.partition(" (process ")[0] for notice in host_at(state).state.sweep()] == swept
    assert list((state / "machines").glob("[0-9]*")) == []


def test_client_and_supervisor_killed_together_are_swept(client: subprocess.Popen[str], state: Path) -> None:
    record = record_of(state)
    # A stopped supervisor cannot clean up between the two kills.
    os.kill(record["supervisor"], signal.SIGSTOP)
    client.kill()
    os.kill(record["supervisor"], signal.SIGKILL)
    client.wait()
    assert len(host_at(state).state.sweep()) == 1
    wait_until(lambda: processes_of(state) == [])


# Each child leaves its process group. If the kernel is gone, it would be a process of the computer.
FORKING = """
import subprocess
while True:
    subprocess.run(["setsid", "--fork", "sleep", "1000"])
"""


# Without a namespace the supervisor may still be killing programs when the client asks for its status.
@pytest.mark.parametrize(("layers", "why"), [(None, "killed"), (("landlock", "seccomp"), None)])
@pytest.mark.parametrize("victims", [["kernel_group"], ["supervisor"], ["kernel_group", "supervisor"]])
def test_no_program_of_the_guest_outlives_its_kernel(
    state: Path,
    layers: tuple[str, ...] | None,
    why: str | None,
    victims: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if why:
        monkeypatch.setattr(*PATIENT_CLIENT)
    with open_machine(kernel_target(), host_at(state), embedded=EmbeddedOptions(layers=layers)) as machine:
        machine.stream(["python3", "-c", FORKING])
        wait_until(lambda: machine.run(["pgrep", "-x", "sleep"], check=False).status == 0)
        record = record_of(state)
        for victim in victims:
            os.kill(record[victim], signal.SIGKILL)
        with pytest.raises(MachineLost, match=why) as lost:
            machine.run(["sleep", "10"])
        assert lost.value.hint
        wait_until(lambda: processes_of(state) in ([], [os.getpid()]))
    assert processes_of(state) == []
    assert list((state / "machines").glob("[0-9]*")) == []


def test_a_panic_is_named(state: Path) -> None:
    with open_machine(kernel_target(), host_at(state)) as machine:
        with pytest.raises(MachineLost, match=r"crashed: .*Kernel panic - not syncing: sysrq triggered crash") as lost:
            machine.write("/proc/sysrq-trigger", "c")
        assert lost.value.exit_code is ExitCode.MACHINE_LOST
        with pytest.raises(MachineLost):
            machine.read(["/proc/mdstat"])
    assert processes_of(state) == []


def test_a_killed_agent_is_a_lost_machine(state: Path) -> None:
    with open_machine(kernel_target(), host_at(state)) as machine, pytest.raises(MachineLost):
        # The agent is the guest's init. SIGTERM tells it to exit.
        machine.run(["sh", "-c", "kill -TERM 1; sleep 10"])
    assert processes_of(state) == []


def test_a_lab_stays_locked_as_long_as_its_kernel_runs(state: Path) -> None:
    host = host_at(state)
    lock = host.state.lock_lab("default")
    with open_machine(kernel_target(), host, embedded=EmbeddedOptions(held_locks=(lock.fd,))):
        lock.close()
        with pytest.raises(LabError, match="the lab 'default' is open"):
            host_at(state).state.lock_lab("default")
    host.state.lock_lab("default").close()


def test_no_descriptor_is_left_open(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PATIENT_CLIENT)

    def open_fds() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_fds()
    with open_machine(kernel_target(), host_at(state)) as machine:
        machine.run(["true"])
    broken = tmp_path / "not-a-kernel"
    broken.write_text("#!/bin/sh\necho no kernel here >&2\nexit 3\n")
    broken.chmod(0o755)
    target = parse_target(f"uml:?kernel={broken}")
    with pytest.raises(MachineLost, match="exited with status 3; its last message was: no kernel here"):
        open_machine(target, host_at(state)).__enter__()
    with pytest.raises(SpecError, match="too little"):
        open_machine(parse_target("uml:?mem=8M"), host_at(state)).__enter__()
    assert open_fds() == before
    assert list((state / "machines").glob("[0-9]*")) == []


MDADM = '#!/bin/sh\necho "mdadm - v9.9 - from $0"\n'


def test_another_mdadm_is_started_by_its_name_and_by_the_path_of_this_computers(
    machine: Machine, tmp_path: Path
) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    target = real_time_target().with_option("mdadm", str(folder))
    with pytest.raises(SpecError, match="there is no mdadm in"), open_machine(target, host_at(tmp_path / "state")):
        pass
    for name in ("mdadm", "mdmon"):
        (folder / name).write_text(MDADM)
        (folder / name).chmod(0o755)
    with open_machine(target, host_at(tmp_path / "state")) as other:
        for argv in (("mdadm",), ("/usr/sbin/mdadm",), ("/sbin/mdadm",), ("sh", "-c", "PATH=/usr/sbin mdmon")):
            assert other.run(argv).stdout.startswith("mdadm - v9.9 - from "), argv
    output = machine.run(("mdadm", "--version"))
    assert "v9.9" not in output.stdout + output.stderr
