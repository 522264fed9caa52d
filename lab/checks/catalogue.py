"""All checks and all sources of readings, by their names in TOML files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.checks import arrays, drills, faults, readings
from lab.checks.extension import LessonReading
from lab.checks.readings import Source
from lab.checks.state import Check
from lab.plugins import extensions
from lab.tomlfile import kinds_by_tag, make_tagged

ALL_CHECKS: Mapping[str, type[Check]] = kinds_by_tag("that", (arrays, readings, faults, drills))
CHECKS: Mapping[str, type[Check]] = {name: kind for name, kind in ALL_CHECKS.items() if kind.in_lessons}
"""The checks that lessons may use."""
SOURCES: Mapping[str, type[Source]] = {
    **kinds_by_tag("get", (readings, arrays, faults)),
    **{str(kind.__struct_config__.tag): kind for kind in (each.load() for each in extensions(LessonReading))},
}


def make_check(written: Mapping[str, Any], *, where: str, in_drill: bool = False) -> Check:
    """Create a check from its TOML table. Raises SpecError with the nearest name for an unknown check or key."""
    return make_tagged(written, ALL_CHECKS if in_drill else CHECKS, what="check", key="that", where=where)


def make_source(written: Mapping[str, Any], *, where: str) -> Source:
    """Create the source of a reading from its TOML table.

    Raises SpecError with the nearest name for an unknown source or key.
    """
    return make_tagged(written, SOURCES, what="source of a reading", key="get", where=where)
