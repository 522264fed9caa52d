"""An embedded machine on which tests of mdadm's suite run one by one, each within limits of two clocks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.disks import DiskKind, DiskSpec, Lab, LabDisk, open_lab
from lab.errors import CommandTimedOut, LabError, MachineLost
from lab.gates.files import open_plain
from lab.machine import GuestProgram, Host, Machine, Target
from lab.machine.embedded import CONSOLE_LOG
from lab.md_tests import prepare_program
from lab.md_tests.judging import EndOfTest, LimitReached
from lab.plans import Danger, Plan, Step
from lab.units import GIB, MIB

DATA_DISK_BYTES = 2 * GIB
"""The suite's files for loop devices take 544 MB of it, and are sparse."""
MODULES = ("raid0", "raid1", "raid10", "raid456", "linear", "multipath")
LOOP_DEVICES = 16
_PREPARE = GuestProgram(Path(__file__).with_name("prepare_program.py"), "prepare-suite")
_MOST_LOG_BYTES = MIB
MOST_LIVE_LOG_BYTES = 64 * MIB
"""Of a running test's log, on this computer. The longest of a test that ends have a few; what fills it goes round."""
_LOOK_AT_LOG_SECONDS = 0.5
_START_UDEV_SECONDS = 30.0
_LOOK_SECONDS = 30.0
_SYSRQ = "/proc/sysrq-trigger"
"""``w``: all tasks that wait without being able to be killed (Documentation/admin-guide/sysrq.rst)."""
# IMSM: Intel's metadata, on disks that no Intel controller knows (env-imsm-template has the same, but later).
_SCRIPT = """
cd "$1" || exit 9
test -z "$3" || truncate --size "$3K" "$4"/mdtest{0,1,2,3,4,5,6,7} || exit 9
test -z "$5" || truncate --size "$5K" "$4"/mdtest{8,9,10,11,12,13} || exit 9
ln -sfn "$7" "$4/log" || exit 9
export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1
exec bash ./test --tests="$2" --save-logs --logdir="$6"
"""


@dataclass(frozen=True, slots=True)
class SuiteLimits:
    """How long one test may take, in seconds of the machine's clock and of this computer's."""

    machine_seconds: float
    computer_seconds: float


@dataclass(frozen=True, slots=True)
class SuiteLogs:
    """What is kept of a test that did not simply pass, by the ending of its file's name."""

    test: str = ""
    state: str = ""
    """What the suite saved: kernel messages, /proc/mdstat, the arrays in detail."""
    kernel: str = ""

    def by_ending(self) -> dict[str, str]:
        return {"log": self.test, "state.log": self.state, "kernel.log": self.kernel}


@dataclass(frozen=True, slots=True)
class Witness:
    """What the computer has of a running machine's words, in the machine's folder, which goes with it."""

    console: Path
    folder: Path
    """The machine writes here, so what lies here may be anything."""

    @property
    def console_bytes(self) -> int:
        """How much the kernel has said so far."""
        return self.console.stat().st_size

    def log_bytes(self, test: str) -> int:
        """How long the test's log is by now."""
        try:
            return (self.folder / _log_name(test)).lstat().st_size
        except OSError:
            return 0

    def words(self, test: str, console_start: int) -> tuple[str, str]:
        """The kernel's from a place on, and the test's log; empty where the machine has been closed."""
        return _end_of(self.console, console_start), _end_of(self.folder / _log_name(test))


class SuiteMachine:
    """One machine. After a test that did not pass it is not to be used again."""

    def __init__(self, lab: Lab, witness: Witness, file_kib: tuple[int, int] | None) -> None:
        self._lab = lab
        self._witness = witness
        self._file_kib = file_kib
        self.kernel = lab.machine.facts.kernel_release
        said = lab.machine.run((f"{prepare_program.BIN}/mdadm", "--version"))
        self.mdadm = (said.stdout or said.stderr).strip()

    def run(self, test: str, limits: SuiteLimits) -> tuple[EndOfTest, SuiteLogs]:
        """One test to its end, to a limit, or to the machine's. Never raises for what a test does to the machine."""
        clock = self._lab.host.clock
        begun, start = clock.monotonic_seconds(), self._witness.console_bytes
        state = ""
        words = partial(self._witness.words, test, start)
        log_bytes = partial(self._witness.log_bytes, test)
        limit = ComputerLimit(self._lab.machine, limits.computer_seconds, log_bytes=log_bytes, before=words)
        try:
            with limit:
                end, state = self._run(test, limits)
        except MachineLost as error:
            end = EndOfTest(loss=error.message)
            if limit.reached:
                number = limits.computer_seconds
                number = MOST_LIVE_LOG_BYTES / MIB if limit.reached is LimitReached.LOG else number
                end = EndOfTest(limit=limit.reached, limit_number=number)
        console, log = limit.seen or words()
        end = replace(end, log=log, console=console, computer_seconds=clock.monotonic_seconds() - begun)
        return end, SuiteLogs(log, state, console)

    def _run(self, test: str, limits: SuiteLimits) -> tuple[EndOfTest, str]:
        machine = self._lab.machine
        small, large = map(str, self._file_kib or ("", ""))
        arguments = (prepare_program.SUITE, test, small, prepare_program.DATA, large, prepare_program.LOGS)
        log = f"{prepare_program.WITNESS}/{_log_name(test)}"
        script = ("bash", "-c", _SCRIPT, "md-tests", *arguments, log)
        try:
            done = machine.run(script, timeout_seconds=limits.machine_seconds, check=False)
        except CommandTimedOut:
            seconds = limits.machine_seconds
            end = EndOfTest(limit=LimitReached.MACHINE, limit_number=seconds, machine_seconds=seconds)
            return end, self._state_of_stuck()
        path = f"{prepare_program.LOGS}/fail{test}.log"
        saved = machine.run(("tail", "-c", str(_MOST_LOG_BYTES), path), check=False).stdout if done.status else ""
        return EndOfTest(done.status, done.stdout + done.stderr, machine_seconds=done.duration_seconds), saved

    def _state_of_stuck(self) -> str:
        """The arrays; the kernel is asked to tell on its console where each blocked task of it waits."""
        machine = self._lab.machine
        shown = ""
        with suppress(CommandTimedOut):
            machine.run(("sh", "-c", f"echo w > {_SYSRQ}"), check=False, timeout_seconds=_LOOK_SECONDS)
            shown = machine.run(("cat", "/proc/mdstat"), check=False, timeout_seconds=_LOOK_SECONDS).stdout
        return shown

    def has_arrays(self) -> bool:
        """Whether a test has left one behind: the suite would refuse to run the next. So, too, if nobody can tell."""
        try:
            text = self._lab.machine.read(["/proc/mdstat"])["/proc/mdstat"] or ""
        except LabError:
            return True
        return any(line.startswith("md") for line in text.splitlines())


class ComputerLimit:
    """Closes a machine whose test takes too much of this computer: whoever waits for the machine gets MachineLost.

    In virtual time a program that computes without end leaves the machine's clock where it is, and nothing in the
    machine can end it. ``before`` is asked just before, since much is gone with the machine.
    """

    def __init__(
        self, machine: Machine, seconds: float, *, log_bytes: Callable[[], int], before: Callable[[], tuple[str, str]]
    ) -> None:
        self.reached: LimitReached | None = None
        self.seen: tuple[str, str] | None = None
        self._machine = machine
        self._deadline = time.monotonic() + seconds
        self._log_bytes = log_bytes
        self._before = before
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="raidlab-suite-limit", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        left = _LOOK_AT_LOG_SECONDS
        while left > 0 and self._log_bytes() <= MOST_LIVE_LOG_BYTES:
            left = self._deadline - time.monotonic()
            if self._is_over.wait(max(0.0, min(left, _LOOK_AT_LOG_SECONDS))):
                return
        self.seen = self._before()
        self.reached = LimitReached.COMPUTER if left <= 0 else LimitReached.LOG
        self._machine.close()


@contextmanager
def open_suite_machine(
    target: Target,
    host: Host,
    copy: Path,
    file_kib: tuple[int, int] | None,
    udev_daemon: str,
    *,
    on_notice: Callable[[str], None],
    on_machine: Callable[[Machine], None],
) -> Iterator[SuiteMachine]:
    """Start a machine that has one disk of its own, and make it one that the suite takes."""
    wanted = (DiskSpec(name="disk01", kind=DiskKind.FILE, size_bytes=DATA_DISK_BYTES),)
    with (
        open_lab(target, host, wanted=wanted, shown=(copy,), on_notice=on_notice, on_machine=on_machine) as lab,
        # Before the lab stops arrays: what lies on its disk goes with it, and one that hangs cannot be stopped.
        closing(lab.machine) as machine,
    ):
        (disk,) = lab.disks
        lab.execute(_format_plan(disk))
        witness = _witness_of(machine)
        machine.call(_PREPARE, (str(copy), disk.node, str(witness.folder)))
        # Of these some are built in, and newer kernels have dropped some: the suite finds out what there is.
        machine.run(("modprobe", "loop", f"max_loop={LOOP_DEVICES}"), check=False)
        for module in MODULES:
            machine.run(("modprobe", module), check=False)
        machine.run((udev_daemon, "--daemon"), timeout_seconds=_START_UDEV_SECONDS)
        _mount_debugfs(machine)
        # All that the kernel says also goes to its console, a file of the computer that outlives it.
        machine.write("/proc/sys/kernel/printk", "8")
        yield SuiteMachine(lab, witness, file_kib)


def _format_plan(disk: LabDisk) -> Plan:
    step = Step(
        ("mkfs.ext4", "-q", "-F", "-O", "^has_journal", disk.node),
        "The suite's files for loop devices, its logs and its backups of reshapes go there.",
        danger=Danger.DATA,
        writes_devices=(disk.node,),
    )
    return Plan("Make room for the suite's files", (step,))


def _mount_debugfs(machine: Machine) -> None:
    known = machine.read(["/proc/filesystems"])["/proc/filesystems"] or ""
    if "debugfs" in known.split():
        machine.run(("mount", "-t", "debugfs", "none", "/sys/kernel/debug"), check=False)


def _witness_of(machine: Machine) -> Witness:
    """In the running machine's folder, which its command line names (lab/machine/embedded.py)."""
    words = (machine.read(["/proc/cmdline"])["/proc/cmdline"] or "").split()
    writable = next((word.removeprefix("uml_dir=") for word in words if word.startswith("uml_dir=")), None)
    if writable is None:
        raise LabError("the embedded kernel does not say where its folder is", hint="use one without own uml_dir")
    folder = Path(writable)
    return Witness(folder.parent / CONSOLE_LOG, folder)


def _log_name(test: str) -> str:
    """In the folder that the machine writes in: one file a test, since the computer lets it empty none by its name."""
    return f"{test}.log"


def _end_of(path: Path, start: int = 0) -> str:
    """A plain file from ``start`` on, but no more than is kept of a log; empty for anything else, or if it is gone."""
    try:
        with open(open_plain(path, is_own=True, error=LabError), "rb") as file:
            file.seek(max(start, os.fstat(file.fileno()).st_size - _MOST_LOG_BYTES))
            return file.read(_MOST_LOG_BYTES).decode("utf-8", "replace")
    except (OSError, LabError):
        return ""
