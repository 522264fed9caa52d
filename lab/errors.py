"""One error tree. Each error says what happened to which thing; ``hint`` says what to do next.

Library code raises these and never prints or exits; ``lab.cli`` turns ``exit_code`` into the exit status.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit statuses of the ``raidlab`` command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISSING = 3
    MACHINE_LOST = 4


class LabError(Exception):
    """Something could not be done; the message names the thing, the hint the next action."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.console = ""
        """The last lines of the embedded kernel's console, where the error came from one that was open."""

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class SpecError(LabError):
    """A specification (level, size, TOML file, target) that makes no sense as written."""

    exit_code = ExitCode.USAGE


class RequirementMissing(LabError):
    """The machine lacks something that the lab needs."""

    exit_code = ExitCode.MISSING


class ToolMissing(RequirementMissing):
    """A program is not installed on the machine."""


class ModuleMissing(RequirementMissing):
    """The machine's kernel has no such driver."""


class PrivilegeRefused(RequirementMissing):
    """sudo refused, or asked for a password that nobody can type."""


class UnfitVersion(LabError):
    """A program or the kernel of the machine is too old or too new for what was asked; another machine may do it."""


RUN_AGAIN = "run the command again"
"""The remedy for a lost machine, in hints; a client that goes on says its own instead."""


class MachineLost(LabError):
    """The machine or its agent vanished; nothing that was under way has an answer."""

    exit_code = ExitCode.MACHINE_LOST


class MachineBusy(LabError):
    """Another client has this lab open."""


class CommandFailed(LabError):
    """A command on the machine ended with a status that is not 0."""

    def __init__(self, argv: Sequence[str], status: int, stderr_tail: str, *, hint: str = "") -> None:
        self.argv = tuple(argv)
        self.status = status
        self.stderr_tail = stderr_tail.strip()
        detail = f": {self.stderr_tail}" if self.stderr_tail else ""
        super().__init__(f"'{' '.join(argv)}' ended with status {status}{detail}", hint=hint)


class CommandTimedOut(LabError):
    """A command on the machine did not end in time and was stopped."""


class WaitTimedOut(LabError):
    """A state that should have come did not come before the deadline."""


class DeviceRefused(LabError):
    """The guard does not let the lab write on this device."""


class ArrayError(LabError):
    """An array operation that its state does not allow."""


class WorkloadError(LabError):
    """fio failed, or printed something that is no result."""


class MeasurementDisturbed(WorkloadError):
    """The computer stood still so long that nothing is known of the measured time."""


class ExperimentError(LabError):
    """An experiment could not be carried out as written."""


class RunCancelled(ExperimentError):
    """Whoever started the experiment ended it before its time; what was measured is kept."""


class LessonError(LabError):
    """A lesson cannot be worked at in this way, or its progress cannot be kept."""


class DrillError(LabError):
    """A drill cannot be made, or not be worked at in this way."""


class ResultError(LabError):
    """A result, or another file that the lab keeps, could not be stored or read."""


class OutputLost(LabError):
    """Standard output took no more."""
