"""Actions that only lessons have: shell lines, and measurements and faults on a separate lab."""

from __future__ import annotations

import shlex
from abc import abstractmethod

from lab.actions.action import Action
from lab.errors import LabError
from lab.faults.crash_points import find_configuration
from lab.faults.scenario import find_scenario
from lab.gates.decoding import Name, PointCount, Seed
from lab.session.session import LabSession, Shell, link_disks

_SHOWN_CHARACTERS = 400
"""The number of characters shown from the end of a failed line's output."""


class ShellLine(Action, frozen=True, kw_only=True, tag="shell"):
    """Run a shell command line as root on the machine; the disks are /dev/lab/disk01 and so on."""

    line: str

    def by_hand(self) -> str:
        return f"raidlab exec {shlex.quote(self.line)}"

    def perform(self, session: LabSession) -> None:
        """Run the line, but only in an embedded kernel, which can write only to its own disks.

        A lesson may come from an unknown author.

        Raises LabError on other machines, and if the line exits with a nonzero status.
        """
        if not session.is_embedded:
            raise LabError(
                f"the lab does not run a lesson's shell lines on {session.target}, where they could write to any disk",
                hint=f"read this line, and then type it yourself: {self.line}",
            )
        link_disks(session)
        shell = Shell(session)
        try:
            result = shell.run(self.line)
        finally:
            shell.close()
        session.rescan()
        if result.status:
            raise LabError(
                f"the line exited with status {result.status}: {self.line}",
                hint=f"it printed: {result.output.strip()[-_SHOWN_CHARACTERS:] or 'nothing'}",
            )


class ApartAction(Action, frozen=True, kw_only=True):
    """An action on a separate lab with its own disks; on some machines the open lab must be closed first."""

    @property
    @abstractmethod
    def description(self) -> str:
        """A short description of the action, for progress messages."""

    def perform(self, session: LabSession) -> None:
        """Do nothing, because ``LessonSession.do_apart`` runs the action."""


class RunMeasurement(ApartAction, frozen=True, kw_only=True, tag="measure"):
    """Run a measurement of the lesson on its own emulated drives."""

    measure: Name

    @property
    def description(self) -> str:
        return self.measure

    def by_hand(self) -> str:
        return f"raidlab lesson measure {self.measure}"


class PlayScenario(ApartAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.run"):
    """Run a fault scenario on the drives of a separate machine."""

    scenario: int
    seed: Seed = 1

    def __post_init__(self) -> None:
        find_scenario(str(self.scenario))

    @property
    def description(self) -> str:
        return f"scenario {self.scenario}"

    def by_hand(self) -> str:
        return f"raidlab fault run {self.scenario}{_seed_words(self.seed)}"


class TryPoints(ApartAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.points"):
    """Try crash points of a configuration on the drives of a separate machine."""

    configuration: str
    count: PointCount
    seed: Seed = 1

    def __post_init__(self) -> None:
        find_configuration(self.configuration)

    @property
    def description(self) -> str:
        return f"power cuts of {self.configuration}"

    def by_hand(self) -> str:
        return f"raidlab fault points {self.configuration} --count {self.count}{_seed_words(self.seed)}"


def _seed_words(seed: int) -> str:
    return f" --seed {seed}" if seed != 1 else ""
