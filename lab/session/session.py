"""An open lab with running arrays: the machine, its lab disks, the arrays on them, and plans that pass the guard.

The module also handles the scripts that drills run when a lab opens, the arrays that drills leave behind, disks that
are added to a lab, required versions of mdadm and the kernel, and commands typed by hand on the machine.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from lab.arrays.array import OpenArrays
from lab.arrays.discovery import BroughtUp, plain_uuid
from lab.arrays.kinds import StoppedArrays, bring_up, kinds, start_array
from lab.arrays.status import ArrayStatus
from lab.disks import DiskKind, DiskSpec, Lab, LabDisk, Opener, open_lab
from lab.disks.attaching import ram_attachments
from lab.disks.inventory import mapped_devices
from lab.disks.kinds import check_specs
from lab.disks.lab import LabFolder, embedded_memory_bytes
from lab.errors import DeviceRefused, DrillError, LabError, MachineLost, SpecError, UnfitVersion
from lab.gates.decoding import DiskCount, checked, version_numbers
from lab.machine import RUN_FOLDER, Host, Machine, RunningCommand, Target
from lab.machine.embedded import MAX_UBD_DISKS
from lab.machine.state_folder import memory_room_bytes
from lab.machine.target import target_words
from lab.plans import Plan, Step
from lab.store import RecordFile
from lab.units import MIB, human_bytes


class NeededMdadm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The oldest suitable mdadm on Linux ``from_kernel`` and later, or on all kernels if ``from_kernel`` is empty."""

    mdadm: str
    from_kernel: str = ""
    why: str
    """A sentence about the failure with an older mdadm."""

    @property
    def sentence(self) -> str:
        """The requirement as text: ``mdadm 4.5 or later on Linux 6.8 and later``."""
        return f"mdadm {self.mdadm} or later{f' on Linux {self.from_kernel} and later' if self.from_kernel else ''}"


class NeededKernel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kernel must be older than ``before``."""

    before: str
    why: str
    """A sentence about the failure on this kernel and later ones."""


_HINT = "choose another machine with --on: 'raidlab doctor --machine' lists a machine's versions"


def require_mdadm(machine: Machine, needed: NeededMdadm | None, what: str) -> None:
    """Raise UnfitVersion if the machine's mdadm is too old for ``what`` on the machine's kernel."""
    if needed is None or version_numbers(machine.facts.kernel_release) < version_numbers(needed.from_kernel):
        return
    result = machine.run(("mdadm", "--version"), check=False)
    there = version_numbers(result.stdout or result.stderr)
    if there < version_numbers(needed.mdadm):
        raise UnfitVersion(
            f"{what} needs {needed.sentence}, but {_place(machine)} has mdadm "
            f"{there[0]}.{there[1]} on Linux {machine.facts.kernel_release}: {needed.why}",
            hint=_HINT,
        )


def require_kernel(machine: Machine, needed: NeededKernel | None, what: str) -> None:
    """Raise UnfitVersion if the machine's kernel is too new for ``what``."""
    if needed is not None and version_numbers(machine.facts.kernel_release) >= version_numbers(needed.before):
        raise UnfitVersion(
            f"{what} needs a kernel before Linux {needed.before}, but {_place(machine)} has "
            f"{machine.facts.kernel_release}: {needed.why}",
            hint=_HINT,
        )


def _place(machine: Machine) -> str:
    return target_words(machine.facts.target, in_sentence=True)


LARGER_COUNT = 2
"""A single larger disk would gain nothing, because its additional space would have no redundancy."""


def new_specs(taken: Sequence[str], template: DiskSpec, count: int) -> tuple[DiskSpec, ...]:
    """Return ``count`` disks like ``template``, numbered after those in ``taken``.

    Raises SpecError if they are invalid.
    """
    checked(count, DiskCount, "count")
    if template.kind is DiskKind.PHYSICAL and count != 1:
        raise SpecError(f"{count} physical disks cannot be added at the same time", hint="add one disk at a time")
    numbers = [int(match[1]) for name in taken if (match := re.fullmatch(r"disk(\d+)", name))]
    first = max(numbers, default=0) + 1
    names = (f"disk{number:02d}" for number in range(first, first + count))
    made = tuple(msgspec.structs.replace(template, name=name) for name in names)
    check_specs(made, taken)
    return made


def add_to_list(folder: LabFolder, template: DiskSpec, count: int) -> tuple[str, ...]:
    """Add disks like ``template`` to an embedded lab for its next start, and return their names. Raises SpecError."""
    if template.kind in (DiskKind.PHYSICAL, DiskKind.VIRTIO):
        raise SpecError(
            f"the embedded kernel has no {template.kind} disks", hint="use --kind file, or --on local: for real disks"
        )
    made = new_specs([spec.name for spec in folder.specs], template, count)
    listed = (*folder.specs, *made)
    files = [spec for spec in listed if spec.kind is DiskKind.FILE]
    if len(files) > MAX_UBD_DISKS:
        raise SpecError(
            f"{len(files)} file disks are too many; the embedded kernel supports at most {MAX_UBD_DISKS}",
            hint="remove unused disks with 'raidlab disks remove', or add spindle or loop disks instead",
        )
    if rams := [spec for spec in listed if spec.kind is DiskKind.RAM]:
        ram_attachments(rams)
    _require_memory(folder, listed)
    folder.add(made)
    return tuple(spec.name for spec in made)


def _require_memory(folder: LabFolder, specs: Sequence[DiskSpec]) -> None:
    without, needed = embedded_memory_bytes([]), embedded_memory_bytes(specs)
    room = memory_room_bytes(folder.path)
    if needed > max(without, room):
        raise SpecError(
            f"with these disks, the embedded kernel needs {human_bytes(needed)} of memory, but only "
            f"{human_bytes(room)} is available",
            hint=f"disks that are not files may use {human_bytes(max(0, room - without))} in total: ask for "
            "smaller or fewer ones",
        )


def larger_bytes(disks: Sequence[LabDisk]) -> int:
    """Return the size of disks to add so that a lab's disks differ in size: twice the largest, in whole MiB."""
    largest = max((disk.size_bytes for disk in disks), default=0)
    return 2 * largest // MIB * MIB


def larger_line(disks: Sequence[LabDisk], *, is_embedded: bool) -> str:
    """Return the command line that adds ``LARGER_COUNT`` disks of the size ``larger_bytes``."""
    kind = DiskKind.FILE if is_embedded else DiskKind.LOOP
    return f"raidlab disks add --kind {kind} --count {LARGER_COUNT} --size {larger_bytes(disks) // MIB}M"


_FILE = "arrival.json"
_SECONDS = 60.0


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A bash script that runs as root each time the lab opens."""

    title: str
    script: str
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    """The texts of programs and other files that are written before the script runs, by path."""


def read_arrival(folder: Path) -> Arrival | None:
    """Return the arrival script, or None if the lab starts its arrays as usual. Raises LabError if it is damaged."""
    return RecordFile(folder / _FILE, Arrival, LabError).read()


def store_arrival(folder: Path, arrival: Arrival | None) -> None:
    """Store the arrival script for later sessions. None restores the usual start. Raises ResultError."""
    RecordFile(folder / _FILE, Arrival).replace(arrival)


def arrive(machine: Machine, arrival: Arrival) -> None:
    """Write the files and run the script. Commands in it may fail as part of the scenario.

    Raises MachineLost if the machine is lost.
    """
    if arrival.files:
        folders = sorted({path.rpartition("/")[0] for path in arrival.files})
        programs = [path for path, text in arrival.files.items() if text.startswith("#!")]
        machine.run(("mkdir", "-p", *folders), check=False)
        for path, text in arrival.files.items():
            # The user may have put something else at this path, or filled the file system.
            with contextlib.suppress(LabError):
                machine.write(path, text)
        machine.run(("chmod", "755", *programs), check=False)
    if arrival.script.strip():
        words = [f"{name}={value}" for name, value in arrival.environment.items()]
        machine.run(("env", *words, "bash", "-c", arrival.script), check=False, timeout_seconds=_SECONDS)


_LEFTOVER_FILE = "drill-left.json"


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """The disks and arrays that one drill left in the lab."""

    title: str
    disks: tuple[str, ...]
    """Names of the lab's disks that the drill used."""
    uuids: tuple[str, ...]
    """UUIDs of the arrays on the disks, in the form of ``plain_uuid``."""


def read_leftovers(folder: Path) -> Leftovers | None:
    """Return the leftovers in the lab with this folder, or None if there are none or the file cannot be read."""
    return RecordFile(folder / _LEFTOVER_FILE, Leftovers).read_or(None)


def store_leftovers(folder: Path, left: Leftovers | None) -> None:
    """Store the leftovers for later sessions, or None after the disks have been cleared. Raises ResultError."""
    RecordFile(folder / _LEFTOVER_FILE, Leftovers).replace(left)


def still_there(folder: Path, uuids: Iterable[str]) -> Leftovers | None:
    """Return the leftovers if any of their arrays is among ``uuids``. Otherwise delete the record and return None."""
    left = read_leftovers(folder)
    if left is None:
        return None
    if not {*left.uuids} & {plain_uuid(uuid) for uuid in uuids}:
        store_leftovers(folder, None)
        return None
    return left


def left_words(left: Leftovers, names: Iterable[str]) -> str:
    """Return a line for the user that says why these arrays were not started, and how to remove them."""
    arrays = ", ".join(dict.fromkeys(names))
    where = f"{left.disks[0]} to {left.disks[-1]}"
    return f"the drill '{left.title}' left {arrays} on {where}; 'raidlab drill clear' makes these disks blank"


DISK_LINKS = "/dev/lab"
"""Folder with a link to each lab disk. Commands typed by hand can use the same names on every machine."""


class LabSession(OpenArrays):
    """An open lab and its arrays. It runs plans."""

    def __init__(
        self, client: Client, lab: Lab, found: BroughtUp | None = None, stopped: StoppedArrays | None = None
    ) -> None:
        super().__init__(lab, kinds(), found)
        self.target, self.host = client.target, client.host
        self.written: set[tuple[object, ...]] = set()
        """Regions that have been written completely, so that later reads do not hit unallocated space."""
        self.on_typed: Callable[[str], None] = lambda _: None
        """Called with each command line, which may be a step of a plan or a line typed in a shell."""
        self.going_on: set[str] = set()
        """Names of arrays with a plan that continues in the background, during which md is idle for short periods."""
        self._rescanning = threading.Lock()
        self._client, self._stopped = client, stopped

    @property
    def folder(self) -> Path:
        """The folder for data that must outlive a session, beside the lab's disks."""
        return self.host.state.lab_folder(self.target.lab_name)

    @property
    def is_embedded(self) -> bool:
        """Whether arrays run only while this session is open."""
        return self.target.is_embedded

    def run(self, plan: Plan, *, before_step: Callable[[Step], None] | None = None) -> None:
        """Check a plan with the guard, run it, and rescan the disks. Raises the error of the first failing step."""
        self._client.on_plan(plan)
        for step in plan.steps:
            self.on_typed(step.shell_line())
        failure: LabError | None = None
        try:
            self.lab.execute(plan, before_step=before_step)
        except LabError as error:
            failure = error
        if plan.steps and not isinstance(failure, MachineLost):
            self.rescan()
        if failure:
            raise failure

    def start_all(self) -> tuple[ArrayStatus, ...]:
        """Start every stopped array, and return those that now run. ``found.refused`` lists the others."""
        tried = [(array, start_array(self.lab, array, self._client.on_plan)) for array in self.found.stopped]
        started = tuple(array for array, reason in tried if not reason)
        failed = tuple(replace(array, refusal=reason, obstacle=reason) for array, reason in tried if reason)
        self.found = replace(
            self.found, started=(*self.found.started, *started), stopped=(), refused=(*self.found.refused, *failed)
        )
        if self._stopped:
            self._stopped.write(self.found)
        self._client.on_found(self)
        names = {array.name for array in started}
        return tuple(status for status in self.statuses() if status.name in names)

    def rescan(self) -> None:
        """Scan all disks again, for example after a typed command. An embedded lab stores which arrays are stopped."""
        # A load mounts its array on a separate thread, with an ordinary plan.
        with self._rescanning:
            self.lab.guard.expect_data()
            self.found = bring_up(self.lab, before=self.found)
            # Nothing is stored during a drill, because the drill determines which arrays run on its disks.
            if self._stopped and not read_arrival(self.folder):
                self._stopped.write(self.found)
        self._client.on_found(self)

    def reset(self, disks: Sequence[str]) -> Plan:
        """Return the plan that makes disks blank. Raises DeviceRefused if one is mounted or is a member of an array."""
        chosen = [self.lab.disk(word) for word in disks]
        for disk in chosen:
            holder = self.found.holder_of(disk.node)
            if holder and holder in self.found.stopped:
                raise DeviceRefused(
                    f"{disk.name} is a member of {holder.name}, which is stopped",
                    hint=f"'raidlab array destroy {self.found.word(holder)}' removes it permanently",
                )
        self.lab.check_unused(chosen)
        return self.lab.reset_plan(chosen)

    def reset_all(self, *, ends_drill: bool = False, only: Collection[str] | None = None) -> Plan:
        """Return the plan that stops every array that consists only of lab disks, and makes all disks blank.

        ``only`` contains names of disks. If it is given, other disks and the arrays on them are left alone. On the
        embedded kernel, all devices belong to the lab, so mapped devices and the arrays on them are removed too. Raises
        DrillError if a drill is open on the disks, unless ``ends_drill`` is set.
        """
        if not ends_drill and (drill := read_arrival(self.folder)):
            raise DrillError(
                f"the drill '{drill.title}' is open on these disks",
                hint="'raidlab drill debrief' ends it with a verdict, 'raidlab drill leave' without one",
            )
        disks = [disk for disk in self.disks if only is None or disk.name in only]
        nodes = {disk.node for disk in disks}
        others = {disk.node for disk in self.disks} - nodes
        plan = Plan("Start again with blank disks")
        for status in self.statuses():
            members = {member.device for member in status.members}
            if members <= nodes:
                plan += self.array(status.name).stop()
            elif self.is_embedded and not members & others:
                why = "The array runs on mapped devices that were created by hand on the disks."
                plan += Plan.of("", [Step(("mdadm", "--stop", status.device), why)])
        if self.is_embedded and mapped_devices(self.machine):
            why = "Mapped devices that were created by hand on the disks are removed, so that nothing uses the disks."
            plan += Plan.of("", [Step(("dmsetup", "remove_all"), why)])
        return plan + self.lab.reset_plan(disks, used=self.used_nodes())


def link_disks(session: OpenArrays) -> None:
    """Create links such as ``/dev/lab/disk01`` to the lab's disks, like the links of udev."""
    pairs = [word for disk in session.disks for word in (disk.node, f"{DISK_LINKS}/{disk.name}")]
    # Starting a process is slow on an embedded kernel, so the shell itself tests for existing links.
    link = '[ "$1" -ef "$2" ] || ln -sfn "$1" "$2"; shift 2'
    script = f'[ -d {DISK_LINKS} ] || mkdir -p {DISK_LINKS}; while [ "$1" ]; do {link}; done'
    session.machine.run(("sh", "-c", script, "sh", *pairs), check=False)


def _refusals(folder: Path, found: BroughtUp) -> Iterator[str]:
    """Yield a line for each array that was not started, except those that start only on request.

    A drill's arrays share a line.
    """
    left = still_there(folder, (array.uuid for array in found.all))
    of_drill = [array for array in found.refused if left and plain_uuid(array.uuid) in left.uuids]
    if left and of_drill:
        yield left_words(left, (array.name for array in of_drill))
    for array in found.refused:
        if array not in of_drill and not array.needs_asking:
            yield f"array {array.name} ({array.uuid}) was not started: {array.refusal}"


@dataclass(frozen=True, slots=True)
class Client:
    """What a client that opens a lab specifies: the machine, and the callbacks while the lab is open."""

    target: Target
    host: Host
    on_notice: Callable[[str], None] = lambda _: None
    on_machine: Callable[[Machine], None] = lambda _: None
    """Called with the machine before its first command."""
    on_plan: Callable[[Plan], None] = lambda _: None
    """Called with every plan before it runs."""
    on_found: Callable[[LabSession], None] = lambda _: None
    """Called with the session after each scan of the disks, on the thread that scanned them."""
    while_open: Callable[[LabSession], AbstractContextManager[object]] = nullcontext
    """A context that is entered when the arrays have been started, and left before anything is stopped."""
    opener: Opener = open_lab
    """The function that opens the lab. Tests supply their own."""


@contextmanager
def open_session(client: Client, *, start_arrays: bool = True) -> Iterator[LabSession]:
    """Open the persistent lab and, on the embedded kernel, start its arrays. The lab is always closed at the end."""
    target, host = client.target, client.host
    with client.opener(target, host, on_notice=client.on_notice, on_machine=client.on_machine) as lab:
        folder = host.state.lab_folder(target.lab_name)
        arrival = read_arrival(folder)
        # Other machines start their arrays themselves. In a drill, the drill and its user decide which arrays run.
        stopped = StoppedArrays(folder) if target.is_embedded and not arrival else None
        if arrival and target.is_embedded:
            arrive(lab.machine, arrival)
        found = bring_up(lab, stopped, on_plan=client.on_plan) if arrival or start_arrays else BroughtUp()
        for line in _refusals(folder, found) if start_arrays and not arrival else ():
            client.on_notice(line)
        session = LabSession(client, lab, found, stopped)
        link_disks(session)
        with client.while_open(session):
            yield session


MOST_CHARACTERS = 64_000
"""Maximum number of characters of a command's output that are stored. Earlier output only reaches ``on_output``."""

# $1 is the folder (empty for the home folder), $2 the file with the saved state, $3 the line.
# set -a exports assignments, so that the next line sees them.
# The driver is loaded so that /proc/mdstat exists before the first array.
_SCRIPT = """exec 2>&1
cd "${1:-$HOME}" || cd /
[ -e /proc/mdstat ] || modprobe -q md_mod
_lab_kept=$2 _lab_line=$3; set --
[ -r "$_lab_kept" ] && . "$_lab_kept"
set -a; eval "$_lab_line"; status=$?; set +a
{ export -p; declare -f; echo "set -- ${*@Q}"; } > "$_lab_kept" 2>/dev/null; pwd > "$_lab_kept.folder"
exit $status"""
_SIGINT, _SIGKILL = 2, 9


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The result of one command line."""

    status: int
    """The exit status, which is 128 + N if signal N ended the line, for example 130 after an interrupt."""
    output: str
    """Standard output and standard error in order, of which only the end is stored if they are long."""
    seconds: float


class Shell:
    """A shell on the machine, for example ``shell.run("cat /proc/mdstat", on_output=print)``.

    ``interrupt`` ends the current line, and may be called on another thread. After a line, call ``session.rescan`` on
    the thread that runs plans, because the line may have created or stopped arrays.
    """

    def __init__(self, session: LabSession) -> None:
        self._session, self._machine = session, session.machine
        self._state = f"{RUN_FOLDER}/shell-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._command: RunningCommand | None = None
        self._interrupts = 0
        self.folder = ""
        """The folder in which the next line starts, or an empty string (the home folder) before the first line."""

    def run(self, line: str, *, on_output: Callable[[str], None] = lambda _: None) -> ShellResult:
        """Run one line and wait for its end. Raises LabError if another is still running, and MachineLost."""
        with self._lock:
            if self._command is not None:
                raise LabError("a command is still running in this shell", hint="wait for it, or interrupt it")
            # This is called for each line, because a drill may have begun since the last one, and before the line
            # starts, because the line may fail.
            self._session.on_typed(line)
            argv = ("bash", "-c", _SCRIPT, "bash", self.folder, self._state, line)
            self._command = command = self._machine.stream(argv)
            self._interrupts = 0
        chunks: deque[str] = deque()
        size = 0
        try:
            for chunk in command.chunks():
                chunks.append(chunk)
                size += len(chunk)
                while size - len(chunks[0]) > MOST_CHARACTERS:
                    size -= len(chunks.popleft())
                on_output(chunk)
            result = command.result()
        finally:
            with self._lock:
                self._command = None
        path = f"{self._state}.folder"
        self.folder = (self._machine.read([path])[path] or "").strip() or self.folder
        status = result.status if result.status >= 0 else 128 - result.status
        return ShellResult(status, "".join(chunks)[-MOST_CHARACTERS:], result.duration_seconds)

    def interrupt(self) -> None:
        """Send SIGINT, like Ctrl-C. A second call sends SIGKILL. This has no effect if no line is running."""
        with self._lock:
            command = self._command
            self._interrupts += 1
            number = _SIGINT if self._interrupts == 1 else _SIGKILL
        if command:
            with contextlib.suppress(MachineLost):
                command.stop(signal_number=number)

    def close(self) -> None:
        """Delete the saved state. On a lost machine, there is nothing to delete."""
        self.interrupt()
        with contextlib.suppress(LabError):
            self._machine.run(("rm", "-f", self._state, f"{self._state}.folder"), check=False)
