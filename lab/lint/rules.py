"""The rules of the methodology guard: what is wrong, why it matters, what to do; and what checks found. Data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from lab.tomlfile import read_toml, unknown_word

T = TypeVar("T")
RULES_FILE = Path(__file__).with_name("rules.toml")


class Effect(StrEnum):
    """What a broken rule does."""

    REFUSE = "refuse"
    """Not started, or not computed, except where the defect is the point of it."""
    STAMP = "stamp"
    """Run, and the result carries the rule's name."""


class LintStage(StrEnum):
    """What a rule looks at."""

    PLAN = "plan"
    RECIPE = "recipe"
    PUBLICATION = "publication"
    MACHINE = "machine"
    CELL = "cell"
    RESULT = "result"
    COMPARISON = "comparison"


class LintRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule."""

    id: str
    effect: Effect
    says: str
    """The defect, as a clause."""
    why: str
    remedy: str
    source: str
    """The study that has the defect, or where the rule comes from."""
    looks_at: tuple[LintStage, ...]


class _RulesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[LintRule, ...]


@cache
def all_rules() -> Mapping[str, LintRule]:
    """Every rule by its name, in the order of the file."""
    return {rule.id: rule for rule in read_toml(RULES_FILE, _RulesFile).rules}


def find_rule(name: str) -> LintRule:
    """A rule by name. Raises SpecError with the nearest one."""
    rules = all_rules()
    if name not in rules:
        raise unknown_word("rule", name, rules)
    return rules[name]


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that a check saw: which object, what it is, and what it should be."""

    subject: str
    observed: str
    required: str


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A broken rule."""

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
    def stamp(self) -> str:
        """``rule: sentence``: the form in which a result carries it."""
        return f"{self.rule_id}: {self.sentence}"

    @property
    def sentence(self) -> str:
        """Object, observed and required value."""
        return f"{self.subject}: {self.observed}; needed: {self.required}"


Check = Callable[[T], Iterable[Seen]]
"""Yields what is wrong; nothing if the rule is kept or cannot be told."""


def run_checks(checks: Mapping[str, Check[T]], facts: T) -> Iterator[LintFinding]:
    """Every finding of every check, rule by rule."""
    for rule_id, check in checks.items():
        for seen in check(facts):
            yield LintFinding(rule_id, seen.subject, seen.observed, seen.required)


def distinct(findings: Iterable[LintFinding]) -> tuple[LintFinding, ...]:
    """Without repetitions, in order; of one rule about one object the first stays, whichever text showed it."""
    kept: dict[tuple[str, str], LintFinding] = {}
    for finding in findings:
        kept.setdefault((finding.rule_id, finding.subject), finding)
    return tuple(kept.values())
