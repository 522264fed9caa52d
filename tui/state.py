"""The app's state of the lab, as plain values. Only the app's own thread writes it; screens read it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from lab.arrays.discovery import BroughtUp, FoundArray
    from lab.arrays.status import ArrayStatus, MemberStatus
    from lab.disks import LabDisk
    from lab.errors import LabError
    from lab.machine.api import MachineFacts
    from lab.measure.job import Measured
    from lab.session.data_mark import DataMark, MarkVerdict
    from lab.session.load import Forecast
    from lab.session.monitor import Event, History, Snapshot
    from lab.session.pace import Pace
    from lab.workloads.fio_output import LiveInterval

KEPT_COMMANDS = 500
KEPT_EVENTS = 200
KEPT_LOADS = 50
_STILL_LOOKS, _STILL_EVERY = 20, 20
"""After the first number of unchanged samples, one in the second number is shown."""


class MachinePhase(StrEnum):
    """The state of the machine."""

    OPENING = "opening"
    OPEN = "open"
    LOST = "lost"
    """It was open and its connection is lost."""
    FAILED = "failed"
    """It could not be opened."""
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
    output: str
    ended: datetime


@dataclass(frozen=True, slots=True)
class RunningOperation:
    """The current job of the lab's thread."""

    title: str
    line: str = ""
    """The current step of its plan, as a shell line."""
    step: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class LoadView:
    """The current or the last load."""

    workload: str
    array: str
    runtime_seconds: float | None
    is_running: bool = True
    phase: str = "preparing"
    forecast: Forecast | None = None
    """The prediction of the theory; None: not computed yet."""
    outcome: Measured | LabError | None = None
    newest: LiveInterval | None = None


@dataclass(frozen=True, slots=True)
class PastLoad:
    """The figures of an ended load and the condition of its array, for comparison with later loads."""

    workload: str
    array: str
    condition: str
    """The condition of the array, such as ``whole`` or ``degraded, 1 missing``."""
    measured: Measured


@dataclass(frozen=True, slots=True)
class MarkView:
    """Known data on an array, and the last verdict on them; None: not verified since they were written."""

    mark: DataMark
    verdict: MarkVerdict | None = None
    is_stale: bool = False
    """An event of the array followed the verdict."""


@dataclass(slots=True)
class LabState:
    """The newest sample, the history and the current work of the app."""

    target: str = ""
    phase: MachinePhase = MachinePhase.OPENING
    problem: LabError | None = None
    facts: MachineFacts | None = None
    pace: Pace | None = None
    """The pace of the machine's virtual time; None: its time is real."""
    disks: tuple[LabDisk, ...] = ()
    found: BroughtUp | None = None
    look: Snapshot | None = None
    history: History | None = None
    quiet_looks: int = 0
    """Number of samples since something was last read, written or changed."""
    has_ticked: bool = False
    """Whether the newest sample is from another second of the machine's clock than the one before."""
    new_events: tuple[Event, ...] = ()
    """The events of the newest sample."""
    first_syncs: set[str] = field(default_factory=set)
    """New arrays whose parity or copies md computes for the first time."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    operation: RunningOperation | None = None
    load: LoadView | None = None
    past_loads: deque[PastLoad] = field(default_factory=lambda: deque(maxlen=KEPT_LOADS))
    """The ended loads, oldest first."""
    marks: dict[str, MarkView] = field(default_factory=dict)
    commands: deque[CommandEntry] = field(default_factory=lambda: deque(maxlen=KEPT_COMMANDS))
    command_count: int = 0
    """Number of all commands so far, including those no longer in ``commands``."""
    selected_array: str | None = None
    selected_disk: str | None = None
    background: str = ""
    """Title of the background job; empty: none."""

    @property
    def arrays(self) -> tuple[ArrayStatus, ...]:
        """The running arrays, by number."""
        return self.look.arrays if self.look else ()

    @property
    def is_dull(self) -> bool:
        """Whether the screens need not show the newest sample.

        While nothing changes, samples are shown less often, so that an idle app uses hardly any processor time. A
        virtual clock is shown at every second, because no sample follows the one at which the clock stops.
        """
        if self.pace:
            return self.quiet_looks > 0 and not self.has_ticked
        every = 4 if self.quiet_looks <= _STILL_LOOKS else _STILL_EVERY
        return self.quiet_looks % every > 0

    @property
    def is_open(self) -> bool:
        return self.phase is MachinePhase.OPEN

    @property
    def is_down(self) -> bool:
        """Whether the machine was lost or did not start; Ctrl+R starts it again."""
        return self.phase in (MachinePhase.LOST, MachinePhase.FAILED)

    @property
    def selected(self) -> ArrayStatus | None:
        """The selected array; the first one if none is selected or the selected array does not run."""
        return self.array(self.selected_array or "") or next(iter(self.arrays), None)

    @property
    def selected_mark(self) -> MarkView | None:
        """The known data of the selected array."""
        status = self.selected
        return self.marks.get(status.name) if status else None

    @property
    def running_load(self) -> LoadView | None:
        """The load, if it runs."""
        return self.load if self.load and self.load.is_running else None

    def array(self, name: str) -> ArrayStatus | None:
        """The running array of this name."""
        return next((status for status in self.arrays if status.name == name), None)

    def disk(self, name: str) -> LabDisk | None:
        """The disk of this name."""
        return next((disk for disk in self.disks if disk.name == name), None)

    def disk_name(self, node: str) -> str:
        """The lab's name of a device, or the node itself."""
        return next((disk.name for disk in self.disks if disk.node == node), node)

    def full_disk_name(self, node: str) -> str:
        """``disk02 (/dev/ubdb)``, or the node itself if it is not a disk of the lab."""
        return next((disk.full_name for disk in self.disks if disk.node == node), node)

    def member_of(self, disk_name: str) -> tuple[ArrayStatus, MemberStatus] | None:
        """The running array of which the disk is a member, and the member; None if there is none."""
        disk = self.disk(disk_name)
        found = ((array, member) for array in self.arrays for member in array.members)
        return next(((array, member) for array, member in found if disk and member.device == disk.node), None)

    @property
    def resting_arrays(self) -> tuple[FoundArray, ...]:
        """The arrays on the disks that do not run."""
        return tuple(each for each in self.found_arrays if self.array(each.name) is None)

    def resting_array(self, word: str) -> FoundArray | None:
        """The stopped array that the word names."""
        array = self.found.array(word) if self.found else None
        return array if array in self.resting_arrays else None

    @property
    def found_arrays(self) -> tuple[FoundArray, ...]:
        """All arrays on the disks, running or stopped, as of the last scan."""
        return tuple(self.found.all) if self.found else ()

    @property
    def free_disks(self) -> tuple[LabDisk, ...]:
        """Disks of no array, running or stopped, that are blank or have only metadata of a former array."""
        held = {member.device for status in self.arrays for member in status.members}
        for array in self.found_arrays:
            held.update(array.devices)
        held.update(disk.node for disk in self.disks if self.carried_by(disk) and not self.former_array(disk))
        return tuple(disk for disk in self.disks if disk.node not in held)

    @property
    def blank_disks(self) -> tuple[LabDisk, ...]:
        """Free disks without any metadata: a new array can be created on them."""
        return tuple(disk for disk in self.free_disks if not self.former_array(disk))

    def carried_by(self, disk: LabDisk) -> tuple[str, ...]:
        """The types of the contents of a disk, as in blkid(8)."""
        return self.found.carried.get(disk.node, ()) if self.found else ()

    def former_array(self, disk: LabDisk) -> FoundArray | None:
        """The array of which the disk was a member and whose metadata it still has."""
        return self.found.former_holder_of(disk.node) if self.found else None
