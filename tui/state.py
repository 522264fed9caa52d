"""All that the app knows of the lab, as plain values. The app's own thread writes them, screens read them."""

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
    from lab.session.events import Event
    from lab.session.history import History
    from lab.session.load import Forecast
    from lab.session.monitor import Snapshot
    from lab.session.pace import Pace
    from lab.workloads.fio_output import LiveInterval

KEPT_COMMANDS = 500
KEPT_EVENTS = 200
KEPT_LOADS = 50
_STILL_LOOKS, _STILL_EVERY = 20, 20
"""After so many looks in which nothing moved, one of so many is shown."""


class MachinePhase(StrEnum):
    """What became of the machine."""

    OPENING = "opening"
    OPEN = "open"
    LOST = "lost"
    """It was open and has gone."""
    FAILED = "failed"
    """It could not be opened."""
    CLOSED = "closed"


class Origin(StrEnum):
    """Who ran a command."""

    PLAN = "plan"
    """A step of a plan that the user ran."""
    SHELL = "shell"
    """Typed by hand."""
    LAB = "lab"
    """The lab's own: looking, preparing, measuring."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command that has ended on the machine."""

    line: str
    status: int
    seconds: float
    origin: Origin
    why: str
    output: str
    ended: datetime


@dataclass(frozen=True, slots=True)
class RunningOperation:
    """The job that the lab's thread is busy with."""

    title: str
    line: str = ""
    """The step that runs, as it could be typed."""
    step: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class LoadView:
    """A workload that runs, or the last one that ran."""

    workload: str
    array: str
    runtime_seconds: float | None
    is_running: bool = True
    phase: str = "preparing"
    forecast: Forecast | None = None
    """What theory says, and why; None: not computed yet."""
    outcome: Measured | LabError | None = None
    newest: LiveInterval | None = None


@dataclass(frozen=True, slots=True)
class PastLoad:
    """Figures of a load that has ended, and how the array stood then: to compare the next one with."""

    workload: str
    array: str
    condition: str
    """``whole``, ``degraded, 1 missing``."""
    measured: Measured


@dataclass(frozen=True, slots=True)
class MarkView:
    """Known data on an array, and the verdict of the last look at them; None: not looked since they were written."""

    mark: DataMark
    verdict: MarkVerdict | None = None
    is_stale: bool = False
    """Something happened to the array after the verdict."""


@dataclass(slots=True)
class LabState:
    """The newest look, what came before it, and what the app is doing."""

    target: str = ""
    phase: MachinePhase = MachinePhase.OPENING
    problem: LabError | None = None
    facts: MachineFacts | None = None
    pace: Pace | None = None
    """How the machine's virtual time passes; None: it is real time."""
    disks: tuple[LabDisk, ...] = ()
    found: BroughtUp | None = None
    look: Snapshot | None = None
    history: History | None = None
    quiet_looks: int = 0
    has_ticked: bool = False
    """Whether the newest look is of another second of the machine's clock than the one before."""
    """The newest looks in a row before which nothing was read, written or changed."""
    new_events: tuple[Event, ...] = ()
    """Those that the newest look has brought."""
    first_syncs: set[str] = field(default_factory=set)
    """New arrays whose parity or copies md computes for the first time."""
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    operation: RunningOperation | None = None
    load: LoadView | None = None
    past_loads: deque[PastLoad] = field(default_factory=lambda: deque(maxlen=KEPT_LOADS))
    """Oldest first."""
    marks: dict[str, MarkView] = field(default_factory=dict)
    commands: deque[CommandEntry] = field(default_factory=lambda: deque(maxlen=KEPT_COMMANDS))
    command_count: int = 0
    """All commands so far, including those no longer in ``commands``."""
    selected_array: str | None = None
    selected_disk: str | None = None
    background: str = ""
    """Title of the long job that runs beside the lab; empty: none."""

    @property
    def arrays(self) -> tuple[ArrayStatus, ...]:
        """The running arrays, by number."""
        return self.look.arrays if self.look else ()

    @property
    def is_dull(self) -> bool:
        """Whether the newest look need not be shown.

        Where nothing moves looks are shown ever more rarely: an app that is only open is to cost next to nothing. A
        clock that is shown shows each second, since the look that comes when it halts is followed by no other.
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
        """The machine was lost or did not start; Ctrl+R starts it."""
        return self.phase in (MachinePhase.LOST, MachinePhase.FAILED)

    @property
    def selected(self) -> ArrayStatus | None:
        """The selected array; the first if none is, or the selected one has gone."""
        return self.array(self.selected_array or "") or next(iter(self.arrays), None)

    @property
    def selected_mark(self) -> MarkView | None:
        """Known data of the selected array."""
        status = self.selected
        return self.marks.get(status.name) if status else None

    @property
    def running_load(self) -> LoadView | None:
        """The workload that runs now."""
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
        """``disk02 (/dev/ubdb)``, or the node of what is no disk of the lab."""
        return next((disk.full_name for disk in self.disks if disk.node == node), node)

    def member_of(self, disk_name: str) -> tuple[ArrayStatus, MemberStatus] | None:
        """A disk as a member of the running array that has it."""
        disk = self.disk(disk_name)
        found = ((array, member) for array in self.arrays for member in array.members)
        return next(((array, member) for array, member in found if disk and member.device == disk.node), None)

    @property
    def resting_arrays(self) -> tuple[FoundArray, ...]:
        """Arrays that lie on the disks and do not run."""
        return tuple(each for each in self.found_arrays if self.array(each.name) is None)

    def resting_array(self, word: str) -> FoundArray | None:
        """The one that the word names."""
        array = self.found.array(word) if self.found else None
        return array if array in self.resting_arrays else None

    @property
    def found_arrays(self) -> tuple[FoundArray, ...]:
        """Arrays that lie on the disks, running or not, as they were last looked for."""
        return tuple(self.found.all) if self.found else ()

    @property
    def free_disks(self) -> tuple[LabDisk, ...]:
        """Disks that no array has, running or not, and that carry nothing but metadata of an array that they left."""
        held = {member.device for status in self.arrays for member in status.members}
        for array in self.found_arrays:
            held.update(array.devices)
        held.update(disk.node for disk in self.disks if self.carried_by(disk) and not self.former_array(disk))
        return tuple(disk for disk in self.disks if disk.node not in held)

    @property
    def blank_disks(self) -> tuple[LabDisk, ...]:
        """Free disks that carry nothing: those of which a new array can be made."""
        return tuple(disk for disk in self.free_disks if not self.former_array(disk))

    def carried_by(self, disk: LabDisk) -> tuple[str, ...]:
        """Types of what is on a disk, as blkid(8) names them."""
        return self.found.carried.get(disk.node, ()) if self.found else ()

    def former_array(self, disk: LabDisk) -> FoundArray | None:
        """The array that the disk has left, and whose metadata it still carries."""
        return self.found.former_holder_of(disk.node) if self.found else None
