"""What a student's seed chooses, and how it gets into a lesson: ``{seed.members}`` in arguments and texts.

A choice depends on the lesson, the variable and the seed alone, by SHA-256, so it is the same on every computer and
with every Python, and a variable that is added later leaves the others as they were.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from lab.errors import SpecError
from lab.lessons.schema import Lesson, Variable
from lab.tomlfile import unknown_word

Value = int | float | str
Values = dict[str, Value]

_PLACEHOLDER = re.compile(r"\{seed\.([a-z_]+)\}")


def draw(lesson: Lesson, seed: str) -> Values:
    """All values of a lesson for this seed; those of the plain lesson for an empty one.

    Raises SpecError for a variable that cannot be drawn as written.
    """
    values: Values = {}
    for name, variable in lesson.seed.items():
        values[name] = _draw_one(lesson, name, variable, seed, values)
    return values


def fill(text: str, values: Mapping[str, Value]) -> str:
    """The text with every ``{seed.…}`` filled in. Raises SpecError with the nearest name for an unknown one."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            raise unknown_word("seed variable", name, values)
        return str(values[name])

    return _PLACEHOLDER.sub(value_of, text)


def fill_tree(tree: Any, values: Mapping[str, Value]) -> Any:
    """As ``fill`` for all texts of a tree; a text that is one placeholder becomes the value itself, number or text."""
    if isinstance(tree, dict):
        return {key: fill_tree(value, values) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [fill_tree(value, values) for value in tree]
    if not isinstance(tree, str):
        return tree
    whole = _PLACEHOLDER.fullmatch(tree)
    if whole and whole[1] in values:
        return values[whole[1]]
    return fill(tree, values)


def _draw_one(lesson: Lesson, name: str, variable: Variable, seed: str, values: Values) -> Value:
    choices = _choices(lesson, name, variable, values)
    if not choices:
        raise SpecError(
            f"lesson {lesson.id}: nothing can be drawn for seed.{name}",
            hint="give it something to choose from",
        )
    return choices[_number(f"{lesson.id}/{name}/{seed}") % len(choices) if seed else 0]


def _choices(lesson: Lesson, name: str, variable: Variable, values: Values) -> list[Value]:
    ways = {
        "one_of": bool(variable.one_of),
        "disks": variable.disks != "",
        "disk_from": bool(variable.disk_from),
        "disk_besides": bool(variable.disk_besides) and not variable.disk_from,
        "case": bool(variable.case),
    }
    if sum(ways.values()) != 1:
        raise SpecError(
            f"lesson {lesson.id}: seed.{name} has {sum(ways.values())} of the keys {', '.join(ways)}",
            hint="give exactly one",
        )
    if variable.one_of:
        return list(variable.one_of)
    if variable.case:
        return [_case(lesson, name, variable, values)]
    if variable.disk_from or variable.disk_besides:
        given = variable.disk_from
        disks = _disks_in(lesson, name, given, values) if given else _lab_disks(lesson.disks)
        taken = {disk for other in variable.disk_besides for disk in _disks_in(lesson, name, other, values)}
        left = [disk for disk in disks if disk not in taken]
        return list(left if variable.index is None else left[variable.index : variable.index + 1])
    count = _count(lesson, name, variable.disks, values)
    disks = _lab_disks(lesson.disks)
    return [",".join(disks[first : first + count]) for first in range(lesson.disks - count + 1)]


def _case(lesson: Lesson, name: str, variable: Variable, values: Values) -> Value:
    if variable.case not in values:
        raise _not_drawn_yet(lesson, name, variable.case)
    key = str(values[variable.case])
    if key not in variable.of:
        raise SpecError(
            f"lesson {lesson.id}: seed.{name} has no value for {variable.case} = {key}", hint=f"write of.{key} = …"
        )
    value = variable.of[key]
    return fill(value, values) if isinstance(value, str) else value


def _count(lesson: Lesson, name: str, asked: int | str, values: Values) -> int:
    count = asked if isinstance(asked, int) else values.get(asked)
    if not isinstance(count, int) or not 1 <= count <= lesson.disks:
        raise SpecError(
            f"lesson {lesson.id}: seed.{name} wants '{asked}' disks",
            hint=f"write a number up to {lesson.disks}, or the name of a number drawn above it",
        )
    return count


def _disks_in(lesson: Lesson, name: str, other: str, values: Values) -> list[str]:
    if other not in values:
        raise _not_drawn_yet(lesson, name, other)
    return str(values[other]).split(",")


def _not_drawn_yet(lesson: Lesson, name: str, other: str) -> SpecError:
    return SpecError(
        f"lesson {lesson.id}: seed.{name} builds on seed.{other}, which is not drawn before it",
        hint=f"put {other} above {name}",
    )


def _lab_disks(count: int) -> list[str]:
    return [f"disk{number:02d}" for number in range(1, count + 1)]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
