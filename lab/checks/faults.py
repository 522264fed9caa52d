"""Checks and readings of the fault scenarios and crash points that were run during a lesson."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import Check, CheckedState, CheckOutcome, Facts, PlayedFault
from lab.errors import SpecError
from lab.faults.crash_points import PointJudgement, StoredPoints, find_configuration, stored_points
from lab.faults.scenario import find_scenario
from lab.faults.scenario_run import FaultVerdict, load_run, stored_runs
from lab.gates.decoding import PointCount, Seed
from lab.host.clock import moment
from lab.machine import Host


class FaultPlayed(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.played"):
    """The scenario was run during this lesson with this seed, and ended as expected."""

    lasts = True
    scenario: int
    seed: Seed = 1

    def __post_init__(self) -> None:
        known_scenario(self.scenario)

    def look(self, lab: CheckedState) -> CheckOutcome:
        played = lab.played.get(str(self.scenario))
        if played is None:
            return CheckOutcome(False, "fault-missing", self.facts)
        if played.seed != self.seed:
            return CheckOutcome(False, "fault-other-seed", {**self.facts, "found": played.seed})
        facts: Facts = {**self.facts, "verdict": played.outcome.verdict.value}
        return CheckOutcome(played.outcome.verdict is FaultVerdict.AS_EXPECTED, "fault-verdict", facts)


class FaultOtherSeed(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.other_seed"):
    """The last run of the scenario had a seed other than this one."""

    scenario: int
    seed: Seed = 1

    def look(self, lab: CheckedState) -> CheckOutcome:
        played = lab.played.get(str(self.scenario))
        if played is None:
            return CheckOutcome(False, "fault-missing", self.facts)
        facts: Facts = {**self.facts, "found": played.seed}
        return CheckOutcome(played.seed != self.seed, "fault-other-seed", facts)


class PointsTried(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="points.tried"):
    """At least ``at_least`` crash points were tried during this lesson with this seed, and none broke a promise."""

    lasts = True
    configuration: str
    at_least: PointCount
    seed: Seed = 1

    def __post_init__(self) -> None:
        known_configuration(self.configuration)

    def look(self, lab: CheckedState) -> CheckOutcome:
        found = lab.points.get(self.configuration)
        if found is None or found.seed != str(self.seed):
            return CheckOutcome(False, "points-missing", self.facts)
        broken = found.judgements.get(PointJudgement.BROKEN, 0)
        facts: Facts = {**self.facts, "points": found.points, "broken": broken}
        return CheckOutcome(found.is_whole and found.points >= self.at_least and not broken, "points-tried", facts)


class FaultFigure(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.figure"):
    """A number from a scenario: the first numeric value that a check of the variant found for this fact."""

    needs_lab: ClassVar[bool] = False
    scenario: int
    variant: str
    fact: str

    is_of_result: ClassVar[bool] = True

    def __post_init__(self) -> None:
        known_scenario(self.scenario)

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        played = lab.played.get(str(self.scenario))
        variants = played.outcome.variants if played else ()
        for variant in variants:
            if variant.name != self.variant:
                other = msgspec.structs.replace(self, variant=variant.name).value(lab)
                if other is not None:
                    yield LikelyMistake(other, "reading-other-row", {"row": variant.name})
        own = next((variant for variant in variants if variant.name == self.variant), None)
        checks = [check.what for step in own.steps for check in step.checks] if own else []
        for fact in dict.fromkeys(checks):
            other = None if fact == self.fact else msgspec.structs.replace(self, fact=fact).value(lab)
            if other is not None:
                yield LikelyMistake(other, "reading-other-fact", {"fact": fact, "asked": self.fact})

    def value(self, lab: CheckedState) -> float | None:
        played = lab.played.get(str(self.scenario))
        for variant in played.outcome.variants if played else ():
            if variant.name != self.variant:
                continue
            for check in (check for step in variant.steps for check in step.checks):
                if check.what == self.fact and check.found.replace(".", "", 1).isdecimal():
                    return float(check.found)
        return None


class FaultRatio(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.ratio"):
    """The ratio of the same fact between two variants of a scenario."""

    scenario: int
    is_of_result: ClassVar[bool] = True
    fact: str
    of: str
    to: str

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        facts: Facts = {"of": self.of, "to": self.to}
        right = self.value(lab)
        if right:
            yield LikelyMistake(1 / right, "reading-upside-down", facts)
        for name in (self.of, self.to):
            alone = FaultFigure(scenario=self.scenario, variant=name, fact=self.fact).value(lab)
            if alone is not None:
                yield LikelyMistake(alone, "reading-not-divided", facts)

    def value(self, lab: CheckedState) -> float | None:
        above, below = (
            FaultFigure(scenario=self.scenario, variant=name, fact=self.fact).value(lab) for name in (self.of, self.to)
        )
        return None if above is None or not below else above / below


class PointsFigure(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="points.figure"):
    """The number of crash points of a configuration with this judgement."""

    is_of_result: ClassVar[bool] = True
    configuration: str
    judgement: PointJudgement

    def __post_init__(self) -> None:
        known_configuration(self.configuration)

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        found = lab.points.get(self.configuration)
        for other, count in (found.judgements if found else {}).items():
            if other != self.judgement:
                yield LikelyMistake(float(count), "reading-other-row", {"row": str(other)})
        if found:
            yield LikelyMistake(float(sum(found.judgements.values())), "reading-all-of-them", {})

    def value(self, lab: CheckedState) -> float | None:
        found = lab.points.get(self.configuration)
        return None if found is None else float(found.judgements.get(self.judgement, 0))


APART_FROM_THE_LAB = (FaultPlayed, FaultOtherSeed, PointsTried)
"""Checks that need no open lab."""


def played_since(host: Host, began_utc: str) -> Mapping[str, PlayedFault]:
    """Scenario number -> its newest outcome since ``began_utc``, in whole seconds, because runs have no finer time."""
    found: dict[str, PlayedFault] = {}
    for run in stored_runs(host):
        if moment(run.created_utc) < moment(began_utc).replace(microsecond=0):
            break
        for outcome in load_run(host, run.id).outcomes:
            found.setdefault(str(outcome.number), PlayedFault(run.seed, outcome))
    return found


def points_since(host: Host, began_utc: str) -> Mapping[str, StoredPoints]:
    """Configuration -> its newest crash points since ``began_utc``, in whole seconds."""
    found: dict[str, StoredPoints] = {}
    for kept in stored_points(host):
        if moment(kept.created_utc) < moment(began_utc).replace(microsecond=0):
            break
        found.setdefault(kept.configuration, kept)
    return found


def known_scenario(number: int) -> None:
    """Raises ValueError for an unknown scenario number; msgspec adds the position in the file."""
    try:
        find_scenario(str(number))
    except SpecError as error:
        raise ValueError(error.message) from None


def known_configuration(name: str) -> None:
    """Raises ValueError for an unknown configuration, as ``known_scenario``."""
    try:
        find_configuration(name)
    except SpecError as error:
        raise ValueError(error.message) from None
