"""The lab as the app shows it: the state, as plain values, and the messages of the lab's threads that change it.

Only the app's own thread writes the state, and screens read it. The first sync of a new array is not shown as a
rebuild, although md reports a new RAID 4 or 5 as degraded and computes its parity by rebuilding the last member
(mdadm(8), --create).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from textual.message import Message

from lab.errors import LabError
from tui.look import Tone

if TYPE_CHECKING:
    from datetime import datetime

    from lab.arrays.discovery import BroughtUp, FoundArray
    from lab.arrays.status import ArrayStatus, MemberStatus
    from lab.disks import LabDisk
    from lab.machine import MachineFacts
    from lab.measure.job import Measured
    from lab.session.data_mark import DataMark, MarkVerdict
    from lab.session.load import Forecast
    from lab.session.monitor import Event, History, Snapshot
    from lab.session.pace import Pace
    from lab.workloads.fio_output import LiveInterval


class LabMessage(Message):
    """A message to the app itself, which handles all of these in ``on_lab_message``. It does not bubble."""

    bubble = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.handler_name = "on_lab_message"


@dataclass
class MachineOpening(LabMessage):
    """The machine is being started."""

    target: str


@dataclass
class SessionOpened(LabMessage):
    """The lab was opened and its arrays were started."""

    facts: MachineFacts
    disks: tuple[LabDisk, ...]
    found: BroughtUp


@dataclass
class SessionEnded(LabMessage):
    """The lab was closed, was lost, or could not be opened. ``error`` is None if it was closed on request."""

    error: LabError | None
    was_open: bool


@dataclass
class NoticeGiven(LabMessage):
    """The lab sent a notice for the user."""

    text: str


@dataclass
class SnapshotTaken(LabMessage):
    """The monitor took a sample. A newer sample in the message queue replaces this one."""

    snapshot: Snapshot

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotTaken)


@dataclass
class PaceChosen(LabMessage):
    """The pace of the machine's clock changed. ``note`` is a notice for the user, or empty."""

    pace: Pace
    note: str


@dataclass
class DisksChanged(LabMessage):
    """The disks and the arrays on them were reread."""

    disks: tuple[LabDisk, ...]
    found: BroughtUp


@dataclass
class CommandRan(LabMessage):
    """A command on the machine ended."""

    entry: CommandEntry


@dataclass
class OperationChanged(LabMessage):
    """An operation on the lab began, reached its next step, or ended (None)."""

    operation: RunningOperation | None


@dataclass
class CallRequested(LabMessage):
    """A thread asks the app to call a function, after all messages posted earlier."""

    function: Callable[[], object]


@dataclass
class LoadTicked(LabMessage):
    """An interval of the running load ended."""

    interval: LiveInterval
    time_seconds: float
    """When the interval ended on the machine's clock, on the time axis of the samples."""


@dataclass
class LoadEnded(LabMessage):
    """The load ended. ``outcome`` is its measurement, its error, or None if it was stopped before any measurement."""

    outcome: Measured | LabError | None


@dataclass
class MarksRead(LabMessage):
    """The marks of the arrays with known data were read. ``marks`` maps the name of each array to its mark."""

    marks: dict[str, DataMark]


MOST_COMMANDS = 500
MOST_EVENTS = 200
MOST_LOADS = 50
_STILL_SNAPSHOTS, _STILL_EVERY = 20, 20
"""After ``_STILL_SNAPSHOTS`` unchanged samples, only one in ``_STILL_EVERY`` is shown."""


class MachinePhase(StrEnum):
    """The state of the machine."""

    OPENING = "opening"
    OPEN = "open"
    LOST = "lost"
    """The machine was open, but its connection was lost."""
    FAILED = "failed"
    """The machine could not be opened."""
    CLOSED = "closed"


class Origin(StrEnum):
    """The origin of a command."""

    PLAN = "plan"
    """A step of a plan that the user ran."""
    SHELL = "shell"
    """Typed by the user."""
    LAB = "lab"
    """Run by the lab itself to inspect, prepare or measure."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command that ended on the machine."""

    line: str
    status: int
    seconds: float
    origin: Origin
    why: str
    ended: datetime


@dataclass(frozen=True, slots=True)
class RunningOperation:
    """The current job of the lab's thread."""

    title: str
    line: str = ""
    """The current step of its plan, as a shell line."""


@dataclass(frozen=True, slots=True)
class LoadView:
    """The current or the last load."""

    workload: str
    array: str
    runtime_seconds: float | None
    is_running: bool = True
    phase: str = "preparing"
    forecast: Forecast | None = None
    """Theory's prediction; None if it is not computed yet."""
    outcome: Measured | LabError | None = None
    newest: LiveInterval | None = None


@dataclass(frozen=True, slots=True)
class PastLoad:
    """The figures of a load that has ended, and the condition of its array, for comparison with later loads."""

    workload: str
    array: str
    condition: str
    """The condition of the array, such as ``whole`` or ``degraded, 1 missing``."""
    measured: Measured


@dataclass(frozen=True, slots=True)
class MarkView:
    """Known data on an array, and the last verdict on them (None if not verified since they were written)."""

    mark: DataMark
    verdict: MarkVerdict | None = None
    is_stale: bool = False
    """Whether an event of the array followed the verdict."""


@dataclass(slots=True)
class LabState:
    """The newest sample, the history and the current work of the app."""

    target: str = ""
    phase: MachinePhase = MachinePhase.OPENING
    problem: LabError | None = None
    facts: MachineFacts | None = None
    pace: Pace | None = None
    """The pace of the machine's virtual time; None if it runs in real time."""
    disks: tuple[LabDisk, ...] = ()
    found: BroughtUp | None = None
    snapshot: Snapshot | None = None
    history: History | None = None
    quiet_snapshots: int = 0
    """Number of samples since something was last read, written or changed."""
    has_ticked: bool = False
    """Whether the newest sample is from a different second of the machine's clock than the one before."""
    new_events: tuple[Event, ...] = ()
    first_syncs: set[str] = field(default_factory=set)
    """New arrays whose parity or copies md computes for the first time."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    operation: RunningOperation | None = None
    load: LoadView | None = None
    past_loads: deque[PastLoad] = field(default_factory=lambda: deque(maxlen=MOST_LOADS))
    """The loads that have ended, oldest first."""
    marks: dict[str, MarkView] = field(default_factory=dict)
    commands: deque[CommandEntry] = field(default_factory=lambda: deque(maxlen=MOST_COMMANDS))
    command_count: int = 0
    """The number of commands so far, including those no longer in ``commands``."""
    selected_array: str | None = None
    selected_disk: str | None = None
    background: str = ""
    """The title of the background job; empty if there is none."""

    @property
    def arrays(self) -> tuple[ArrayStatus, ...]:
        return self.snapshot.arrays if self.snapshot else ()

    @property
    def is_dull(self) -> bool:
        """Whether the screens can skip the newest sample.

        While nothing changes, samples are shown less often, so that an idle app uses hardly any processor time. A
        virtual clock is shown at each of its seconds, because no sample follows the one at which the clock stops.
        """
        if self.pace:
            return self.quiet_snapshots > 0 and not self.has_ticked
        every = 4 if self.quiet_snapshots <= _STILL_SNAPSHOTS else _STILL_EVERY
        return self.quiet_snapshots % every > 0

    @property
    def is_open(self) -> bool:
        return self.phase is MachinePhase.OPEN

    @property
    def is_down(self) -> bool:
        """Whether the machine was lost or did not start. Ctrl+R starts it again."""
        return self.phase in (MachinePhase.LOST, MachinePhase.FAILED)

    @property
    def selected(self) -> ArrayStatus | None:
        """The selected array, or the first one if none is selected or the selected one is not running."""
        return self.array(self.selected_array or "") or next(iter(self.arrays), None)

    @property
    def running_load(self) -> LoadView | None:
        return self.load if self.load and self.load.is_running else None

    def array(self, name: str) -> ArrayStatus | None:
        return next((status for status in self.arrays if status.name == name), None)

    def disk(self, name: str) -> LabDisk | None:
        return next((disk for disk in self.disks if disk.name == name), None)

    def disk_name(self, node: str) -> str:
        """Return the lab's name for a device, or the node itself."""
        return next((disk.name for disk in self.disks if disk.node == node), node)

    def full_disk_name(self, node: str) -> str:
        """Return the full name, such as ``disk02 (/dev/ubdb)``, or the node itself if it is not a disk of the lab."""
        return next((disk.full_name for disk in self.disks if disk.node == node), node)

    def member_of(self, disk_name: str) -> tuple[ArrayStatus, MemberStatus] | None:
        """Return the running array that the disk is a member of, with the member, or None if there is none."""
        disk = self.disk(disk_name)
        found = ((array, member) for array in self.arrays for member in array.members)
        return next(((array, member) for array, member in found if disk and member.device == disk.node), None)

    @property
    def resting_arrays(self) -> tuple[FoundArray, ...]:
        return tuple(each for each in self.found_arrays if self.array(each.name) is None)

    def resting_array(self, word: str) -> FoundArray | None:
        array = self.found.array(word) if self.found else None
        return array if array in self.resting_arrays else None

    @property
    def found_arrays(self) -> tuple[FoundArray, ...]:
        """All arrays on the disks, running or stopped, as of the last scan."""
        return tuple(self.found.all) if self.found else ()

    @property
    def free_disks(self) -> tuple[LabDisk, ...]:
        """Disks that belong to no array, running or stopped, and are blank or hold only a former array's metadata."""
        held = {member.device for status in self.arrays for member in status.members}
        for array in self.found_arrays:
            held.update(array.devices)
        held.update(disk.node for disk in self.disks if self.carried_by(disk) and not self.former_array(disk))
        return tuple(disk for disk in self.disks if disk.node not in held)

    @property
    def blank_disks(self) -> tuple[LabDisk, ...]:
        """Free disks without any metadata, on which a new array can be created."""
        return tuple(disk for disk in self.free_disks if not self.former_array(disk))

    def carried_by(self, disk: LabDisk) -> tuple[str, ...]:
        """Return the types of a disk's contents, as named by blkid(8)."""
        return self.found.carried.get(disk.node, ()) if self.found else ()

    def former_array(self, disk: LabDisk) -> FoundArray | None:
        """Return the array that the disk was a member of, if the disk still holds its metadata."""
        return self.found.former_holder_of(disk.node) if self.found else None

    def begin_session(self, message: SessionOpened) -> None:
        self.phase, self.problem = MachinePhase.OPEN, None
        self.facts, self.disks, self.found = message.facts, message.disks, message.found
        # A new session has a new clock, so the history of the old one cannot continue.
        self.forget_past()

    def end_session(self, message: SessionEnded) -> None:
        self.problem, self.pace = message.error, None
        if message.error is None:
            self.phase = MachinePhase.CLOSED
        else:
            self.phase = MachinePhase.LOST if message.was_open else MachinePhase.FAILED
        self.operation = None
        if load := self.running_load:
            self.load = replace(load, is_running=False, phase="over", outcome=message.error)

    def forget_past(self) -> None:
        """Delete the samples, the history, the events and the first syncs."""
        from lab.session.monitor import History

        self.snapshot, self.history = None, History()
        self.events.clear()
        self.first_syncs.clear()

    def end_load(self, outcome: Measured | LabError | None) -> None:
        load = self.load
        if load is None:
            return
        self.load = replace(load, is_running=False, phase="over", outcome=outcome)
        if outcome is not None and not isinstance(outcome, LabError):
            status = self.array(load.array)
            words = condition(self, status)[1] if status else ""
            self.past_loads.append(PastLoad(load.workload, load.array, words, outcome))

    def store_marks(self, marks: Mapping[str, DataMark]) -> None:
        """Replace the marks, but keep a verdict if its mark is unchanged."""
        known = self.marks
        self.marks = {
            name: known[name] if name in known and known[name].mark.seed == mark.seed else MarkView(mark)
            for name, mark in marks.items()
        }


_LOSSES = ("member-faulty", "member-removed", "array-gone", "array-broken", "disk-vanished")


def with_first_syncs(events: Iterable[Event], snapshot: Snapshot, going_on: set[str]) -> tuple[Event, ...]:
    """Reword or omit events of first syncs. Update ``going_on``, which holds the current first syncs."""
    remaining = []
    for event in events:
        name, kind, status = event.array, event.kind.value, snapshot.array(event.array)
        if kind == "array-appeared" and status and _is_new(status):
            going_on.add(name)
        if name in going_on and kind in _LOSSES:
            going_on.discard(name)
        if name in going_on and status:
            # The inner arrays become ready one after another, but only the last one is reported.
            is_partial = bool(status.inner) and (
                kind == "member-in-sync" or (kind == "restored" and status.is_degraded)
            )
            if kind == "degraded" or is_partial:
                continue
            words = {
                "sync-started": f"md {purpose(status)} (first sync)",
                "sync-finished": f"the first sync of {name} has ended",
                "restored": f"{name} is ready: any one disk may fail now",
            }.get(kind)
            event = replace(event, sentence=words) if words else event
        remaining.append(event)
    for name in list(going_on):
        status = snapshot.array(name)
        if status is None or not status.owes_sync:
            going_on.discard(name)
    return tuple(remaining)


def purpose(status: ArrayStatus) -> str:
    """Return the purpose of the first sync, such as ``computes the parity of md0``."""
    if status.has_parity:
        return f"computes the parity of {status.name}"
    return f"makes the copies of {status.name} agree"


def _is_new(status: ArrayStatus) -> bool:
    """Whether md still has to sync the array, and each slot has a member or a spare for it."""
    fillers = sum(member.is_rebuilding or member.is_spare for member in status.members)
    is_complete = not any(member.is_faulty for member in status.members) and fillers >= status.degraded_count
    return is_complete and status.owes_sync


BROKEN = "broken"
FIRST_SYNC = "first sync"


def condition(state: LabState, status: ArrayStatus) -> tuple[Tone, str]:
    """Return the condition of an array as (tone, words). If several conditions apply, return the worst."""
    place = status.sync_place
    if status.has_lost_data:
        return Tone.BAD, status.loss_words or BROKEN
    if status.name in state.first_syncs:
        return Tone.BUSY, FIRST_SYNC
    if status.is_degraded:
        if status.sync_action.is_busy:
            return Tone.NOTICE, f"rebuilding array {place}" if place else "rebuilding"
        missing = f"degraded, {status.degraded_count} missing"
        return Tone.NOTICE, status.waits_words if status.awaits_rebuild else missing
    if status.sync_action.is_busy:
        return Tone.BUSY, f"{status.sync_action.noun} of array {place}" if place else status.sync_action.noun
    return Tone.GOOD, "whole" if status.is_redundant else "no redundancy"
