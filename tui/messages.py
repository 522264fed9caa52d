"""What the lab's threads tell the app, as facts in the past tense. Posting them is all that those threads do to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from lab.arrays.discovery import BroughtUp
    from lab.disks import LabDisk
    from lab.errors import LabError
    from lab.machine.api import MachineFacts, Terminal
    from lab.measure.job import Measured
    from lab.session.data_mark import DataMark
    from lab.session.load import LoadPhase
    from lab.session.monitor import Snapshot
    from lab.session.pace import Pace
    from lab.workloads.fio_output import LiveInterval
    from tui.client.jobs import Job
    from tui.state import CommandEntry


class LabMessage(Message):
    """Goes to the app and to nobody else, where one handler takes them all."""

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
    """The lab is open and its arrays run."""

    facts: MachineFacts
    disks: tuple[LabDisk, ...]
    found: BroughtUp


@dataclass
class SessionEnded(LabMessage):
    """The lab is closed. ``error`` is why it could not be opened or went away; None: someone closed it."""

    error: LabError | None
    was_open: bool


@dataclass
class NoticeGiven(LabMessage):
    """The lab has something to say to its user."""

    text: str


@dataclass
class LabLooked(LabMessage):
    """The monitor has looked. A newer look that waits takes the place of this one."""

    look: Snapshot

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LabLooked)


@dataclass
class PaceChosen(LabMessage):
    """From now on the machine's clock goes like this, and what there is to say about that."""

    pace: Pace
    note: str


@dataclass
class DisksChanged(LabMessage):
    """Disks or the arrays on them were looked at anew."""

    disks: tuple[LabDisk, ...]
    found: BroughtUp


@dataclass
class CommandRan(LabMessage):
    """One command has ended on the machine."""

    entry: CommandEntry


@dataclass
class JobStarted(LabMessage):
    """A job's turn has come."""

    job: Job[Any]


@dataclass
class StepStarted(LabMessage):
    """A job has come to the next step of its plan."""

    job: Job[Any]
    number: int
    line: str


@dataclass
class JobFinished(LabMessage):
    """A job is done."""

    job: Job[Any]
    result: Any


@dataclass
class JobFailed(LabMessage):
    """A job has raised."""

    job: Job[Any]
    error: LabError


@dataclass
class JobAdvanced(LabMessage):
    """A job of the background has got on."""

    job: Job[Any]
    progress: object


@dataclass
class LoadTicked(LabMessage):
    """What the running load did in the last moment."""

    interval: LiveInterval
    time_seconds: float
    """End of the interval on the machine's clock, the axis of the looks."""


@dataclass
class LoadEntered(LabMessage):
    """The load has come to its next phase."""

    phase: LoadPhase


@dataclass
class LoadEnded(LabMessage):
    """The load is over: what it measured (None: stopped before it measured anything), or why it failed."""

    outcome: Measured | LabError | None


@dataclass
class MarksRead(LabMessage):
    """Which arrays carry known data."""

    marks: dict[str, DataMark]


@dataclass
class ShellPrinted(LabMessage):
    """A command typed by hand has printed something."""

    text: str


@dataclass
class ShellEnded(LabMessage):
    """A command typed by hand has ended."""

    status: int | None
    error: LabError | None


@dataclass
class TerminalCommandEnded(LabMessage):
    """A line typed in the terminal has ended; it may have made or stopped arrays."""


@dataclass
class TerminalEnded(LabMessage):
    """The terminal's shell has ended, or the machine was lost."""

    terminal: Terminal
    error: LabError | None
