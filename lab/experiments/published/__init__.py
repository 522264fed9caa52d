"""The published numbers of the studies, one TOML file each, for comparison with what is measured here."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from lab.plugins import catalogue
from lab.tomlfile import read_toml


class PublishedArray(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Details of an array as a study prints them; those that it does not give, or marks N/A, are None."""

    id: str
    metadata: str
    array_size_kib: int
    used_device_size_kib: int | None = None
    raid_devices: int
    total_devices: int
    chunk_kib: int | None = None
    layout: str = ""
    consistency_policy: str


class PublishedFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a study measured on one array."""

    array: str
    read_iops: float
    write_iops: float


class Quantity(StrEnum):
    """What a finding compares."""

    IOPS = "iops"
    BANDWIDTH = "bandwidth"
    MEAN_LATENCY = "mean-latency"
    CPU_PER_GIB = "cpu-per-gib"
    """CPU time of the whole machine per GiB, including md's threads and minus that of the idle machine."""
    CAPACITY = "capacity"
    """Size of the array itself; no workload is involved."""


class Relation(StrEnum):
    """What a finding says about its ratio."""

    MORE = "more"
    LESS = "less"
    SAME = "the same"


class Basis(StrEnum):
    """Where the published number comes from."""

    MEASURED = "measured"
    CALCULATED = "calculated"
    """The study's own expectation."""
    IN_WORDS = "in words"
    """The study prints no numbers from which to compute a ratio."""


class PublishedFinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One statement of a study as a ratio between two of its arrays, which can carry over to another computer."""

    says: str
    array: str
    beside: str
    workload: str = ""
    direction: Literal["read", "write", ""] = ""
    quantity: Quantity = Quantity.IOPS
    relation: Relation
    ratio: float | None = None
    basis: Basis = Basis.IN_WORDS
    difference: str

    def __post_init__(self) -> None:
        if (self.ratio is None) is not (self.basis is Basis.IN_WORDS):
            raise ValueError(f"finding '{self.says}' must have both a ratio and its basis, or neither")
        needs_load = self.quantity is not Quantity.CAPACITY
        if bool(self.workload) is not needs_load or bool(self.direction) is not needs_load:
            raise ValueError(f"finding '{self.says}' must have a workload and a direction, or the quantity 'capacity'")


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One study."""

    title: str
    baseline: str = ""
    """The array whose figures are the baseline, by which those of the other arrays are divided."""
    remarks: tuple[str, ...] = ()
    arrays: tuple[PublishedArray, ...] = ()
    figures: tuple[PublishedFigures, ...] = ()
    findings: tuple[PublishedFinding, ...] = ()
    explanations: dict[str, str] = {}
    """For each claim, by its number in the report, why its outcome may differ here."""

    def array(self, array_id: str) -> PublishedArray | None:
        return next((array for array in self.arrays if array.id == array_id), None)

    def figures_of(self, array_id: str) -> PublishedFigures | None:
        return next((figures for figures in self.figures if figures.array == array_id), None)


@cache
def find_published(study: str) -> Published | None:
    """Return the published numbers of a study; None for a study without a file."""
    path = catalogue(Path(__file__).parent).get(study)
    return read_toml(path, Published) if path else None


def study_names() -> tuple[str, ...]:
    """Return the studies with published numbers."""
    return tuple(catalogue(Path(__file__).parent))
