"""Words of the command line that stand for disks or for sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.disks import LabDisk
from lab.disks.kinds import find_disk
from lab.errors import ArrayError
from lab.gates.numbers import SpareCount, checked, parse_bytes, whole


def disk_count(text: str | None) -> int | None:
    """How many disks are asked for; None where they are named, or nothing was typed. Raises SpecError for too many."""
    if text is None or not re.fullmatch(r"\s*[+-]?\d+\s*", text):
        return None
    return checked(whole(text, "number of disks"), SpareCount, "number of disks")


def explicit_disks(text: str | None, disks: Sequence[LabDisk]) -> list[LabDisk]:
    """The disks that are named; none where only a number is asked for."""
    return [] if text is None or disk_count(text) is not None else named_disks(text, disks)


def chosen_disks(text: str, disks: Sequence[LabDisk], free: Sequence[LabDisk]) -> list[LabDisk]:
    """The disks that are named, or so many of the free ones. Raises SpecError or ArrayError if there are none such."""
    count = disk_count(text)
    if count is None:
        return named_disks(text, disks)
    if count > len(free):
        raise ArrayError(
            f"{count} disks are wanted, and {len(free)} of {len(disks)} are free",
            hint="'raidlab disks' shows what uses them, 'raidlab disks add' makes more",
        )
    return list(free[:count])


def split_words(text: str) -> list[str]:
    """Words between commas and spaces. Raises SpecError for more than there can be disks."""
    words = [word for word in re.split(r"[,\s]+", text) if word]
    checked(len(words), SpareCount, "number of disks")
    return words


def named_disks(text: str, disks: Sequence[LabDisk]) -> list[LabDisk]:
    """The disks with these names, serials or nodes. Raises SpecError with the nearest name."""
    return [find_disk(word, disks) for word in split_words(text)]


def bytes_or_none(text: str | None, what: str) -> int | None:
    """The size that an option gives, or None where it was left out. Raises SpecError for what is no size."""
    return None if text is None else parse_bytes(text, what=what)
