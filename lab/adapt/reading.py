"""A reading for lessons that gives the capacity of disks of different sizes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from lab.adapt.layout import System
from lab.adapt.spec import VolumeSpec, compare_systems, disks_of_sizes
from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import CheckedState
from lab.disks import LabDisk


class CapacityFigure(StrEnum):
    """A column of the table that ``raidlab array capacity`` prints."""

    BYTES = "bytes"
    ARRAYS = "arrays"
    READS_PERCENT = "reads-percent"


class Capacity(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="capacity"):
    """A figure that ``raidlab array capacity`` shows for disks of these sizes, under one system."""

    disks: str
    """Sizes, separated by spaces."""
    system: System
    figure: CapacityFigure = CapacityFigure.BYTES

    def __post_init__(self) -> None:
        self._made()

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        for row in compare_systems(VolumeSpec(self._made())):
            if row.system is not self.system:
                other = msgspec.structs.replace(self, system=row.system).value(lab)
                yield LikelyMistake(other, "reading-other-row", {"row": str(row.system)})

    def value(self, lab: CheckedState) -> float | None:
        row = next(row for row in compare_systems(VolumeSpec(self._made())) if row.system is self.system)
        values = {
            CapacityFigure.BYTES: row.capacity_bytes,
            CapacityFigure.ARRAYS: row.array_count,
            CapacityFigure.READS_PERCENT: round(100 * row.reads_share),
        }
        return float(values[self.figure])

    def _made(self) -> tuple[LabDisk, ...]:
        return disks_of_sizes(self.disks.split())
