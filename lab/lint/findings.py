"""What a check found, and how checks are registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lab.lint.rules import Effect, Rule, find_rule

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that a check saw: which object, what it is, and what it should be."""

    subject: str
    observed: str
    required: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule."""

    rule_id: str
    subject: str
    observed: str
    required: str

    @property
    def rule(self) -> Rule:
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


def run_checks(checks: Mapping[str, Check[T]], facts: T) -> Iterator[Finding]:
    """Every finding of every check, rule by rule."""
    for rule_id, check in checks.items():
        for seen in check(facts):
            yield Finding(rule_id, seen.subject, seen.observed, seen.required)


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Without repetitions, in order; of one rule about one object the first stays, whichever text showed it."""
    kept: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        kept.setdefault((finding.rule_id, finding.subject), finding)
    return tuple(kept.values())
