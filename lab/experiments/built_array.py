"""An array that the bench has built."""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.array import Array
from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec, Spec
from lab.disks import LabDisk
from lab.experiments.schema import ArrayPlan
from lab.measure.job import LoadTarget
from lab.results.record import ArrayRecord


@dataclass(frozen=True, slots=True)
class BuiltArray:
    """An existing array: clean, with its file system mounted and its files written."""

    plan: ArrayPlan
    spec: Spec
    disks: tuple[LabDisk, ...]
    target: LoadTarget
    record: ArrayRecord
    array: Array | None = None
    """None for a single disk."""
    inner: tuple[str, ...] = ()
    """Names of the md arrays of a volume; empty for a single array."""

    @property
    def md(self) -> ArraySpec:
        """The spec of a single array; only these have rebuilds and predictions."""
        assert isinstance(self.spec, ArraySpec)
        return self.spec

    @property
    def parity_arrays(self) -> tuple[str, ...]:
        """Names of the md arrays with parity, which are all arrays of a volume."""
        if self.inner:
            return self.inner
        has_parity = self.md.raid.name in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6)
        return (self.md.name,) if has_parity else ()
