"""The exceptions of the lab. Each message says what failed and on which object, and ``hint`` says what to do next.

Library code raises these errors and never prints or exits. ``lab.cli`` maps ``exit_code`` to the exit status.
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
    """An operation failed. The message says which object is affected, and the hint says what to do next."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.console = ""
        """The last lines of the embedded kernel's console, if the error comes from an open embedded machine."""

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class SpecError(LabError):
    """An invalid specification (level, size, TOML file, target)."""

    exit_code = ExitCode.USAGE


class RequirementMissing(LabError):
    """The machine does not meet a requirement of the lab."""

    exit_code = ExitCode.MISSING


class ToolMissing(RequirementMissing):
    """A program is not installed on the machine."""


class ModuleMissing(RequirementMissing):
    """The machine's kernel does not have the driver."""


class PrivilegeRefused(RequirementMissing):
    """sudo refused, or requires a password in a non-interactive session."""


class UnfitVersion(LabError):
    """A program or kernel on the machine is too old or too new for the request. Another machine may support it."""


RUN_AGAIN = "run the command again"
"""The hint for a lost machine. A client that can continue replaces it with a hint of its own."""


class MachineLost(LabError):
    """The machine or its agent vanished, so that pending operations have no result."""

    exit_code = ExitCode.MACHINE_LOST


class MachineBusy(LabError):
    """Another client has this lab open."""


class CommandFailed(LabError):
    """A command on the machine exited with a nonzero status."""

    def __init__(self, argv: Sequence[str], status: int, stderr_tail: str) -> None:
        self.argv = tuple(argv)
        self.status = status
        self.stderr_tail = stderr_tail.strip()
        detail = f": {self.stderr_tail}" if self.stderr_tail else ""
        super().__init__(f"'{' '.join(argv)}' exited with status {status}{detail}")


class CommandTimedOut(LabError):
    """A command on the machine did not finish in time and was stopped."""


class WaitTimedOut(LabError):
    """An expected state was not reached before the deadline."""


class DeviceRefused(LabError):
    """The guard does not allow the lab to write to this device."""


class ArrayError(LabError):
    """The array's state does not allow this operation."""


class WorkloadError(LabError):
    """fio failed, or its output is not a valid result."""


class MeasurementDisturbed(WorkloadError):
    """The host was paused for too long, so the measured time is unreliable."""


class ExperimentError(LabError):
    """An experiment could not be carried out as specified."""


class RunCancelled(ExperimentError):
    """The user ended the experiment early. What was measured until then is stored."""


class LessonError(LabError):
    """A lesson does not allow this operation, or its progress cannot be stored."""


class DrillError(LabError):
    """A drill cannot be created, or does not allow this operation."""


class ResultError(LabError):
    """A result, or another of the lab's files, could not be stored or read."""


class BrokenOutput(LabError):
    """Standard output was closed, or the program that read it has exited."""
