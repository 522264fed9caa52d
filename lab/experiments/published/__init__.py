"""The published numbers of the studies, one TOML file each, to stand beside what is measured here."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from lab.tomlfile import read_toml


class PublishedArray(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Details of an array as a study prints them; None: it gives none, or says N/A."""

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
    read_megabytes_per_second: float | None = None
    write_megabytes_per_second: float | None = None


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One study."""

    title: str
    baseline: str
    """The array whose figures the others are divided by."""
    remarks: tuple[str, ...] = ()
    arrays: tuple[PublishedArray, ...] = ()
    figures: tuple[PublishedFigures, ...] = ()

    def array(self, array_id: str) -> PublishedArray | None:
        """Details of an array; None where the study has none."""
        return next((array for array in self.arrays if array.id == array_id), None)

    def figures_of(self, array_id: str) -> PublishedFigures | None:
        """Figures of an array; None where the study has none."""
        return next((figures for figures in self.figures if figures.array == array_id), None)


@cache
def find_published(study: str) -> Published | None:
    """The numbers of a study; None for one without a file."""
    path = Path(__file__).with_name(f"{study}.toml")
    return read_toml(path, Published) if study and path.is_file() else None
