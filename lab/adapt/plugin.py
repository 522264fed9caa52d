"""The parts that arrays of unequal disks add to raidlab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lab.adapt.layout import AdaptLevel
from lab.arrays.levels import AddedKind
from lab.checks.extension import LessonReading
from lab.cli.context import Command
from lab.plugins import Plugin
from lab.report.extension import StudyReport
from lab.tables import Table

if TYPE_CHECKING:
    from lab.arrays.array import ArrayKind
    from lab.checks.readings import Source
    from lab.cli.context import Loaded
    from lab.experiments.published import Published
    from lab.report.page.blocks import PageGroup
    from lab.results.record import ResultRecord


def _capacity() -> Loaded:
    from lab.adapt.command import capacity

    return capacity


def _kind() -> ArrayKind:
    from lab.adapt.kind import ADAPT

    return ADAPT


def _reading() -> type[Source]:
    from lab.adapt.reading import Capacity

    return Capacity


def _tables(record: ResultRecord, published: Published | None) -> tuple[Table, ...]:
    from lab.adapt.study import tables

    return tables(record, published)


def _plots(record: ResultRecord) -> PageGroup:
    from lab.adapt.study import by_fast_disks

    return by_fast_disks(record)


PLUGIN = Plugin(
    (
        Command(
            "array capacity",
            _capacity,
            "Show what disks of different sizes hold under each system, without changing anything.",
        ),
        AddedKind(
            _kind,
            tuple(AdaptLevel),
            "a volume of unequal disks, made of several arrays",
            nicknames={"adaptraid5": AdaptLevel.ADAPT5},
        ),
        LessonReading(_reading),
        StudyReport("adaptraid", _tables, _plots),
    ),
    folder=Path(__file__).parent,
)
