"""What the lab's threads tell the app, as facts in the past tense. Posting them is all that those threads do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.message import Message

if TYPE_CHECKING:
    from lab.arrays.bring_up import BroughtUp
    from lab.disks import LabDisk
    from lab.errors import LabError
    from lab.machine.api import MachineFacts
    from lab.measure.job import Measured
    from lab.session.data_mark import DataMark
    from lab.session.load import LoadPhase
    from lab.session.monitor import Look
    from lab.workloads.live import LiveInterval
    from tui.client.jobs import Job
    from tui.state import CommandEntry


class LabMessage(Message):
    """Goes to the app and to nobody else, where one handler takes them all."""

    bubble = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.handler_name = "on_lab_message"


class MachineOpening(LabMessage):
    """The machine is being started."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target


class SessionOpened(LabMessage):
    """The lab is open and its arrays run."""

    def __init__(self, facts: MachineFacts, disks: tuple[LabDisk, ...], found: BroughtUp) -> None:
        super().__init__()
        self.facts = facts
        self.disks = disks
        self.found = found


class SessionEnded(LabMessage):
    """The lab is closed. ``error`` is why it could not be opened or went away; None: someone closed it."""

    def __init__(self, error: LabError | None, *, was_open: bool) -> None:
        super().__init__()
        self.error = error
        self.was_open = was_open


class NoticeGiven(LabMessage):
    """The lab has something to say to its user."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class LabLooked(LabMessage):
    """The monitor has looked. A newer look that waits takes the place of this one."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LabLooked)


class DisksChanged(LabMessage):
    """Disks or the arrays on them were looked at anew."""

    def __init__(self, disks: tuple[LabDisk, ...], found: BroughtUp) -> None:
        super().__init__()
        self.disks = disks
        self.found = found


class CommandRan(LabMessage):
    """One command has ended on the machine."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__()
        self.entry = entry


class JobStarted(LabMessage):
    """A job's turn has come."""

    def __init__(self, job: Job[Any]) -> None:
        super().__init__()
        self.job = job


class StepStarted(LabMessage):
    """A job has come to the next step of its plan."""

    def __init__(self, job: Job[Any], number: int, line: str) -> None:
        super().__init__()
        self.job = job
        self.number = number
        self.line = line


class JobFinished(LabMessage):
    """A job is done."""

    def __init__(self, job: Job[Any], result: Any) -> None:
        super().__init__()
        self.job = job
        self.result = result


class JobFailed(LabMessage):
    """A job has raised."""

    def __init__(self, job: Job[Any], error: LabError) -> None:
        super().__init__()
        self.job = job
        self.error = error


class JobAdvanced(LabMessage):
    """A job of the background has got on."""

    def __init__(self, job: Job[Any], progress: object) -> None:
        super().__init__()
        self.job = job
        self.progress = progress


class LoadTicked(LabMessage):
    """What the running load did in the last moment."""

    def __init__(self, interval: LiveInterval, time_seconds: float) -> None:
        super().__init__()
        self.interval = interval
        self.time_seconds = time_seconds
        """End of the interval on the machine's clock, the axis of the looks."""


class LoadEntered(LabMessage):
    """The load has come to its next phase."""

    def __init__(self, phase: LoadPhase) -> None:
        super().__init__()
        self.phase = phase


class LoadEnded(LabMessage):
    """The load is over: what it measured (None: stopped before it measured anything), or why it failed."""

    def __init__(self, outcome: Measured | LabError | None) -> None:
        super().__init__()
        self.outcome = outcome


class MarksRead(LabMessage):
    """Which arrays carry known data."""

    def __init__(self, marks: dict[str, DataMark]) -> None:
        super().__init__()
        self.marks = marks


class ShellPrinted(LabMessage):
    """A command typed by hand has printed something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ShellEnded(LabMessage):
    """A command typed by hand has ended."""

    def __init__(self, status: int | None, error: LabError | None) -> None:
        super().__init__()
        self.status = status
        self.error = error
