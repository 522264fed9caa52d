"""What a study published: its commands as it describes them, and what its text says. Read by the lint, never run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from lab.tomlfile import read_toml, unknown_word

FOLDER = Path(__file__).with_name("publications")


class Conclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conclusion about a parameter, and how many values of its partners were measured."""

    about: str
    partner: str
    partner_values: tuple[str, ...]


class Publication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One study as published. Empty or None where its text says nothing."""

    study: str
    source: str
    commands: str = ""
    fio_job: str = ""
    image_bytes: int | None = None
    """Size of the files behind loop devices."""
    file_bytes: int | None = None
    """What a job reads or writes in all."""
    members: dict[str, int] = {}
    """Array -> number of disks."""
    printed_members: dict[str, tuple[str, ...]] = {}
    """Array -> devices, as a table of the text has them."""
    runs: int | None = None
    """Of each configuration; None: not told."""
    shows_spread: bool = False
    shows_percentiles: bool = False
    promises: tuple[str, ...] = ()
    """Figures and checks that it announces."""
    reports: tuple[str, ...] = ()
    """Those that it gives."""
    conclusions: tuple[Conclusion, ...] = ()
    averages_over: tuple[str, ...] = ()
    """Dimensions over which means are taken."""
    percentiles_of: str = ""
    """``averages``, if percentiles are worked out from averaged logs."""
    backing: str = ""
    """``network``, ``local`` or empty."""
    platforms: tuple[str, ...] = ()
    """What it wants to compare."""
    measured_on: tuple[str, ...] = ()
    engine: str = ""
    """``simulator``, ``emulator`` or empty."""
    declared_bytes: int | None = None
    """The volume that its text names."""
    cpu_unit: str = ""
    """``percent``, if CPU use is given in no other unit."""
    compares_raw: bool = False
    """MB/s or IOPS of two platforms side by side."""
    shows_mttdl: bool = False


@cache
def built_in_names() -> tuple[str, ...]:
    """Studies whose publication comes with raidlab."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def find_publication(name: str) -> Publication:
    """A study's publication. Raises SpecError with the nearest name."""
    if name not in built_in_names():
        raise unknown_word("publication", name, built_in_names())
    return read_toml(FOLDER / f"{name}.toml", Publication)
