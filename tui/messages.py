"""The messages of the lab's threads to the app. Those threads affect the app only by posting them."""

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
    """A message to the app itself, which handles all of them in ``on_lab_message``; it does not bubble."""

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
    """The lab was closed. ``error`` is why it could not be opened or was lost; None: it was closed on request."""

    error: LabError | None
    was_open: bool


@dataclass
class NoticeGiven(LabMessage):
    """The lab sent a notice for the user."""

    text: str


@dataclass
class LabLooked(LabMessage):
    """The monitor took a sample. A newer sample in the message queue replaces this one."""

    look: Snapshot

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LabLooked)


@dataclass
class PaceChosen(LabMessage):
    """The pace of the machine's clock changed; ``note`` is a notice for the user, or empty."""

    pace: Pace
    note: str


@dataclass
class DisksChanged(LabMessage):
    """The disks and the arrays on them were read again."""

    disks: tuple[LabDisk, ...]
    found: BroughtUp


@dataclass
class CommandRan(LabMessage):
    """A command on the machine ended."""

    entry: CommandEntry


@dataclass
class JobStarted(LabMessage):
    """A job was started."""

    job: Job[Any]


@dataclass
class StepStarted(LabMessage):
    """A job started step ``number`` (from 1) of its plan; ``line`` is the command as a shell line."""

    job: Job[Any]
    number: int
    line: str


@dataclass
class JobFinished(LabMessage):
    """A job succeeded; ``result`` is what its work returned."""

    job: Job[Any]
    result: Any


@dataclass
class JobFailed(LabMessage):
    """A job failed with ``error``."""

    job: Job[Any]
    error: LabError


@dataclass
class JobAdvanced(LabMessage):
    """A background job reported its progress."""

    job: Job[Any]
    progress: object


@dataclass
class LoadTicked(LabMessage):
    """An interval of the running load ended."""

    interval: LiveInterval
    time_seconds: float
    """End of the interval on the machine's clock, on the time axis of the samples."""


@dataclass
class LoadEntered(LabMessage):
    """The load entered its next phase."""

    phase: LoadPhase


@dataclass
class LoadEnded(LabMessage):
    """The load ended. ``outcome`` is its measurement (None: stopped before it measured anything) or its error."""

    outcome: Measured | LabError | None


@dataclass
class MarksRead(LabMessage):
    """The marks of the arrays with known data were read; ``marks`` maps the name of an array to its mark."""

    marks: dict[str, DataMark]


@dataclass
class ShellPrinted(LabMessage):
    """A command that the user typed printed ``text``."""

    text: str


@dataclass
class ShellEnded(LabMessage):
    """A command that the user typed ended: with an exit status, or with an error of the lab."""

    status: int | None
    error: LabError | None


@dataclass
class TerminalCommandEnded(LabMessage):
    """A command line typed in the terminal ended; it may have created or stopped arrays."""


@dataclass
class TerminalEnded(LabMessage):
    """The terminal's shell ended, or the machine was lost."""

    terminal: Terminal
    error: LabError | None
