"""Actions that only lessons use: measurements, fault scenarios and crash points in a separate lab."""

from __future__ import annotations

from abc import abstractmethod

from lab.actions.action import Action
from lab.faults.crash_points import find_configuration
from lab.faults.scenario import find_scenario
from lab.gates.decoding import Name, PointCount, Seed
from lab.session.session import LabSession


class ApartAction(Action, frozen=True, kw_only=True):
    """An action in a separate lab with its own disks; on some machines the open lab must be closed first."""

    @property
    @abstractmethod
    def description(self) -> str:
        """A short description of the action, for progress messages."""

    def perform(self, session: LabSession) -> None:
        """Do nothing, because ``lab.lessons.student.do_apart`` runs the action."""


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
