"""Run tests of mdadm's suite in embedded machines, one after another.

A machine is reused only after a test that passed or was skipped, if the kernel did not complain and no array remains.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lab.disks import DiskKind, DiskSpec, Lab, open_lab
from lab.errors import CommandTimedOut, LabError, MachineLost, SpecError
from lab.gates.files import open_plain
from lab.machine import GuestProgram, Host, Machine, Target, TargetKind
from lab.machine.embedded import GUEST_FOLDER
from lab.machine.kernel_image import quickest
from lab.machine.state_folder import CONSOLE_LOG
from lab.machine.stock_kernels import INIT_VARIABLE, LOGS_TAG
from lab.machine.watchdog import Watchdog
from lab.md_tests import prepare_program
from lab.md_tests.record import EndOfTest, LimitReached, Suite, SuiteJournal, SuiteOutcome, SuiteResult, judged
from lab.plans import Danger, Plan, Step
from lab.units import GIB, MIB

DATA_DISK_BYTES = 2 * GIB
"""Size of the machine's data disk. The suite's sparse files for loop devices take up to 544 MB of it."""
MODULES = ("raid0", "raid1", "raid10", "raid456", "linear", "multipath")
LOOP_DEVICES = 16
_PREPARE = GuestProgram(Path(__file__).with_name("prepare_program.py"), "prepare-suite")
_MOST_LOG_BYTES = MIB
MOST_LIVE_LOG_BYTES = 64 * MIB
"""Maximum size of a running test's log on this computer. Normal logs have a few MiB; endless loops write more."""
_START_UDEV_SECONDS = 30.0
_COMMAND_SECONDS = 30.0
_SYSRQ = "/proc/sysrq-trigger"
"""Writing ``w`` to this file prints all uninterruptible tasks (Documentation/admin-guide/sysrq.rst)."""
# Allow IMSM, Intel's metadata, without an Intel controller. env-imsm-template sets these variables too, but too late.
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
    """The time limits of one test, in seconds by the machine's clock and by this computer's clock."""

    machine_seconds: float
    computer_seconds: float


@dataclass(frozen=True, slots=True)
class Witness:
    """The console and the log of a running machine, as files on this computer. Both are removed with the machine."""

    console: Path
    folder: Path
    """The folder of the log. Its contents are untrusted, because the machine can write to it."""
    mounted: tuple[str, str, str]
    """The arguments with which the machine mounts the folder (mount(2)): source, type and options."""


class SuiteMachine:
    """A machine that runs tests. It must not be reused after a test that neither passed nor was skipped."""

    def __init__(self, lab: Lab, witness: Witness, file_kib: tuple[int, int] | None) -> None:
        self._lab = lab
        self._witness = witness
        self._file_kib = file_kib
        self.kernel = lab.machine.facts.kernel_release
        version = lab.machine.run((f"{prepare_program.BIN}/mdadm", "--version"))
        self.mdadm = (version.stdout or version.stderr).strip()

    def run(self, test: str, limits: SuiteLimits) -> tuple[EndOfTest, dict[str, str]]:
        """Run one test until it ends, reaches a limit, or the machine is lost.

        The loss of the machine does not raise an error. Also returns a map of the logs, whose keys are the suffixes of
        their file names: the test's ``log``, ``kernel.log``, and ``state.log``, which the suite saves after a failure
        (kernel messages, /proc/mdstat, details of the arrays).
        """
        clock = self._lab.host.clock
        begun, start = clock.monotonic_seconds(), self._witness.console.stat().st_size
        state = ""
        # Each test has its own log, because the machine cannot truncate a file by name through hostfs.
        log_path = self._witness.folder / f"{test}.log"

        seen: tuple[str, str] | None = None
        stopped = EndOfTest()

        def is_log_full() -> bool:
            with suppress(OSError):
                return log_path.lstat().st_size > MOST_LIVE_LOG_BYTES
            return False

        def words() -> tuple[str, str]:
            return _end_of(self._witness.console, start), _end_of(log_path)

        def note_limit() -> None:
            nonlocal seen, stopped
            seen = words()
            if is_log_full():
                stopped = EndOfTest(limit=LimitReached.LOG, limit_number=MOST_LIVE_LOG_BYTES / MIB)
            else:
                stopped = EndOfTest(limit=LimitReached.COMPUTER, limit_number=limits.computer_seconds)

        watchdog = Watchdog(
            self._lab.machine, limits.computer_seconds, is_exceeded=is_log_full, before_closing=note_limit
        )
        try:
            with watchdog:
                end, state = self._run(test, limits)
        except MachineLost as error:
            end = stopped if watchdog.has_closed else EndOfTest(loss=error.message)
        console, log = seen or words()
        end = replace(end, log=log, console=console, computer_seconds=clock.monotonic_seconds() - begun)
        return end, {"log": log, "state.log": state, "kernel.log": console}

    def _run(self, test: str, limits: SuiteLimits) -> tuple[EndOfTest, str]:
        machine = self._lab.machine
        small, large = map(str, self._file_kib or ("", ""))
        arguments = (prepare_program.SUITE, test, small, prepare_program.DATA, large, prepare_program.LOGS)
        log = f"{prepare_program.WITNESS}/{test}.log"
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
        """Return the content of /proc/mdstat, and make the kernel print its blocked tasks to the console."""
        machine = self._lab.machine
        shown = ""
        with suppress(CommandTimedOut):
            machine.run(("sh", "-c", f"echo w > {_SYSRQ}"), check=False, timeout_seconds=_COMMAND_SECONDS)
            shown = machine.run(("cat", "/proc/mdstat"), check=False, timeout_seconds=_COMMAND_SECONDS).stdout
        return shown

    def has_arrays(self) -> bool:
        """Whether arrays remain, so that the suite would refuse to run another test. True if this is unknown."""
        try:
            text = self._lab.machine.read(["/proc/mdstat"])["/proc/mdstat"] or ""
        except LabError:
            return True
        return any(line.startswith("md") for line in text.splitlines())


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
    """Start a machine with one disk, and prepare it for the suite."""
    disks = (DiskSpec(name="disk01", kind=DiskKind.FILE, size_bytes=DATA_DISK_BYTES),)
    if not names_mdadm(target):
        target = target.with_option("mdadm", str(copy))
    with (
        open_lab(
            *(target, host),
            wanted=disks,
            shown=(copy,),
            keeps_logs=True,
            on_notice=on_notice,
            on_machine=on_machine,
        ) as lab,
        # Close the machine before the lab stops arrays. Its disk is discarded, and a hung array cannot be stopped.
        closing(lab.machine) as machine,
    ):
        (disk,) = lab.disks
        step = Step(
            ("mkfs.ext4", "-q", "-F", "-O", "^has_journal", disk.node),
            "The suite stores its files for loop devices, its logs and its backup files of reshapes there.",
            danger=Danger.DATA,
            writes_devices=(disk.node,),
        )
        lab.execute(Plan("Make room for the suite's files", (step,)))
        witness = _witness_of(machine)
        machine.call(_PREPARE, (str(copy), disk.node, *witness.mounted))
        # Some of these modules are built in, and newer kernels lack others. The suite detects which are available.
        machine.run(("modprobe", "loop", f"max_loop={LOOP_DEVICES}"), check=False)
        for module in MODULES:
            machine.run(("modprobe", module), check=False)
        machine.run((udev_daemon, "--daemon"), timeout_seconds=_START_UDEV_SECONDS)
        if "debugfs" in (machine.read(["/proc/filesystems"])["/proc/filesystems"] or "").split():
            machine.run(("mount", "-t", "debugfs", "none", "/sys/kernel/debug"), check=False)
        # Send all kernel messages to the console, which is a file on this computer and survives a crash of the machine.
        machine.write("/proc/sys/kernel/printk", "8")
        yield SuiteMachine(lab, witness, file_kib)


def _witness_of(machine: Machine) -> Witness:
    """Return a machine's files, in the folder that its kernel command line names (lab/machine/embedded.py)."""
    words = (machine.read(["/proc/cmdline"])["/proc/cmdline"] or "").split()
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    if "uml_dir" in given:
        folder = Path(given["uml_dir"])
        return Witness(folder.parent / CONSOLE_LOG, folder, ("none", "hostfs", str(folder)))
    if INIT_VARIABLE in given:
        folder = Path(given[INIT_VARIABLE]).parent / GUEST_FOLDER
        # Without a cache, every write is a request to the computer (Documentation/filesystems/9p.rst).
        options = "trans=virtio,version=9p2000.L,cache=none"
        return Witness(folder.parent / CONSOLE_LOG, folder, (LOGS_TAG, "9p", options))
    raise LabError(
        "the embedded kernel's command line does not name its folder",
        hint="use another kernel: --on 'uml:?kernel=PATH'",
    )


def _end_of(path: Path, start: int = 0) -> str:
    """Return a regular file's text from ``start``, at most its last ``_MOST_LOG_BYTES``, or "" if it is unreadable."""
    try:
        with open(open_plain(path, is_own=True, error=LabError), "rb") as file:
            file.seek(max(start, os.fstat(file.fileno()).st_size - _MOST_LOG_BYTES))
            return file.read(_MOST_LOG_BYTES).decode("utf-8", "replace")
    except (OSError, LabError):
        return ""


VIRTUAL_LIMITS = SuiteLimits(machine_seconds=4 * 3600.0, computer_seconds=900.0)
REAL_LIMITS = SuiteLimits(machine_seconds=3600.0, computer_seconds=3900.0)
"""In real time, the machine's limit is reached first, while the machine can still be queried for its logs."""
_REUSABLE = (SuiteOutcome.PASSED, SuiteOutcome.SKIPPED)


def suite_target(target: Target, host: Host, *, is_chosen: bool) -> Target:
    """Return the target for the tests: the embedded kernel, by default in virtual time if such a kernel was built.

    A stock kernel in QEMU is also allowed. Raises SpecError if the user chose a machine of a different kind.
    """
    if not target.is_embedded:
        if is_chosen:
            raise SpecError(
                f"mdadm's tests do not run on {target}, because they use every array and loop device of a machine",
                hint="run them in an embedded kernel: --on uml:, or --on 'qemu:?kernel=6.12'",
            )
        target = Target(TargetKind.UML, text="uml:")
    return quickest(target, host.processes, host.files)


def names_mdadm(target: Target) -> bool:
    """Whether the tests run the target's own mdadm rather than the one built in their checkout."""
    return "mdadm" in target.options


def run_tests(
    journal: SuiteJournal,
    suite: Suite,
    target: Target,
    host: Host,
    udev_daemon: str,
    limits: SuiteLimits,
    *,
    on_notice: Callable[[str], None],
    on_machine: Callable[[Machine], None],
    on_start: Callable[[str], None],
) -> Generator[SuiteResult, None, None]:
    """Run the tests that have no result yet, and yield each result once it is stored.

    Raises LabError if no machine can be started, or if the suite does not start on a new machine.
    """
    while journal.left:
        with open_suite_machine(
            *(target, host, journal.copy, suite.file_kib, udev_daemon),
            on_notice=on_notice,
            on_machine=on_machine,
        ) as machine:
            journal.note_machine(machine.mdadm, machine.kernel)
            for test in journal.left:
                on_start(test)
                end, logs = machine.run(test, limits)
                result = judged(test, end, suite.broken.get(test))
                if not journal.results and result.outcome is SuiteOutcome.UNSTARTED:
                    raise LabError(
                        f"mdadm's suite stopped before its first test: {result.why}",
                        hint="run it with another kernel (raidlab kernels list), or use a complete checkout",
                    )
                needs_logs = result.outcome is not SuiteOutcome.PASSED or result.kernel
                yield journal.add(result, logs if needs_logs else {})
                if result.outcome not in _REUSABLE or result.kernel or machine.has_arrays():
                    # The state of the machine is unknown.
                    break
    journal.forget_copy()
