"""The rules of the methodology guard: what is wrong, why it matters, and what to do. Data; the checks are beside."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from lab.tomlfile import read_toml, unknown_word

RULES_FILE = Path(__file__).with_name("rules.toml")


class Effect(StrEnum):
    """What a broken rule does."""

    REFUSE = "refuse"
    """Not started, or not computed, except where the defect is the point of it."""
    STAMP = "stamp"
    """Run, and the result carries the rule's name."""


class Stage(StrEnum):
    """What a rule looks at."""

    PLAN = "plan"
    RECIPE = "recipe"
    PUBLICATION = "publication"
    MACHINE = "machine"
    CELL = "cell"
    RESULT = "result"
    COMPARISON = "comparison"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule."""

    id: str
    effect: Effect
    says: str
    """The defect, as a clause."""
    why: str
    remedy: str
    source: str
    """The study that has the defect, or where the rule comes from."""
    looks_at: tuple[Stage, ...]


class _RulesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[Rule, ...]


@cache
def all_rules() -> Mapping[str, Rule]:
    """Every rule by its name, in the order of the file."""
    return {rule.id: rule for rule in read_toml(RULES_FILE, _RulesFile).rules}


def find_rule(name: str) -> Rule:
    """A rule by name. Raises SpecError with the nearest one."""
    rules = all_rules()
    if name not in rules:
        raise unknown_word("rule", name, rules)
    return rules[name]
