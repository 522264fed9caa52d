"""The rules of the lint, each with its defect, consequence and remedy, and the findings of checks in other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from lab.tomlfile import read_toml, unknown_word

T = TypeVar("T")
RULES_FILE = Path(__file__).with_name("rules.toml")
NOT_PLAYED, NOT_ANALYSED = "not-played-here", "not-analysed"


class Effect(StrEnum):
    """The consequence of a violation."""

    REFUSE = "refuse"
    """The run does not start, or the figure is not computed, unless the defect is intentional."""
    STAMP = "stamp"
    """The run takes place, and its result is stamped with the name of the rule."""
    NOTE = "note"
    """Nothing is wrong, but the lint does not check this part."""


class LintStage(StrEnum):
    """The kind of object that a rule applies to."""

    PLAN = "plan"
    RECIPE = "recipe"
    PUBLICATION = "publication"
    MACHINE = "machine"
    CELL = "cell"
    RESULT = "result"
    COMPARISON = "comparison"


class LintRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule, as rules.toml defines it."""

    id: str
    effect: Effect
    says: str
    """The defect, as a clause."""
    why: str
    remedy: str
    source: str
    """The study that has the defect, or the origin of the rule."""
    looks_at: tuple[LintStage, ...]


class _RulesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[LintRule, ...]


@cache
def all_rules() -> Mapping[str, LintRule]:
    """Return every rule by its name, in the order of the file."""
    return {rule.id: rule for rule in read_toml(RULES_FILE, _RulesFile).rules}


def find_rule(name: str) -> LintRule:
    """Return a rule by name. Raises SpecError, which suggests the nearest name, if there is no such rule."""
    rules = all_rules()
    if name not in rules:
        raise unknown_word("rule", name, rules)
    return rules[name]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check observed: an object, the object's state, and the state that is required."""

    subject: str
    observed: str
    required: str


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A violation of a rule."""

    rule_id: str
    subject: str
    observed: str
    required: str

    @property
    def rule(self) -> LintRule:
        return find_rule(self.rule_id)

    @property
    def refuses(self) -> bool:
        return self.rule.effect is Effect.REFUSE

    @property
    def is_note(self) -> bool:
        return self.rule.effect is Effect.NOTE

    @property
    def stamp(self) -> str:
        """The form in which a result stores the finding, ``rule: sentence``."""
        return f"{self.rule_id}: {self.sentence}"

    @property
    def sentence(self) -> str:
        return f"{self.subject}: {self.observed}; needed: {self.required}"


Check = Callable[[T], Iterable[Seen]]
"""A function that yields violations. It yields none if the rule is satisfied or cannot be checked."""


def run_checks(checks: Mapping[str, Check[T]], facts: T) -> Iterator[LintFinding]:
    """Run all checks, and yield their findings rule by rule."""
    for rule_id, check in checks.items():
        for seen in check(facts):
            yield LintFinding(rule_id, seen.subject, seen.observed, seen.required)


def distinct(findings: Iterable[LintFinding]) -> tuple[LintFinding, ...]:
    """Return only the first finding for each rule and object, regardless of its text, in the order of the findings."""
    unique: dict[tuple[str, str], LintFinding] = {}
    for finding in findings:
        unique.setdefault((finding.rule_id, finding.subject), finding)
    return tuple(unique.values())


class FileLint(NamedTuple):
    """The lint of one type of file."""

    suffix: str
    lint: Callable[[str], Iterable[LintFinding]]
    """A function that takes the text of the file. Raises SpecError if it cannot parse the text."""


class PublicationLint(NamedTuple):
    """The lint of published studies."""

    names: Callable[[], Sequence[str]]
    lint: Callable[[str], Sequence[LintFinding]]
    """A function that takes the name of a study. Raises SpecError if the study is unknown."""
