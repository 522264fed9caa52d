"""Words for disks or for sizes, as typed by the user."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.disks import LabDisk
from lab.disks.kinds import find_disk
from lab.errors import ArrayError
from lab.gates.decoding import SpareCount, checked, parse_bytes, whole


def disk_count(text: str | None) -> int | None:
    """The number of disks requested; None if they are named, or nothing was typed. Raises SpecError for too many."""
    if text is None or not re.fullmatch(r"\s*[+-]?\d+\s*", text):
        return None
    return checked(whole(text, "number of disks"), SpareCount, "number of disks")


def explicit_disks(text: str | None, disks: Sequence[LabDisk]) -> list[LabDisk]:
    """The named disks; empty if only a number is requested."""
    return [] if text is None or disk_count(text) is not None else named_disks(text, disks)


def chosen_disks(text: str, disks: Sequence[LabDisk], free: Sequence[LabDisk]) -> list[LabDisk]:
    """The named disks, or the requested number of free ones. Raises SpecError or ArrayError if they do not exist."""
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
    """Words separated by commas and spaces. Raises SpecError for more than the maximum number of disks."""
    words = [word for word in re.split(r"[,\s]+", text) if word]
    checked(len(words), SpareCount, "number of disks")
    return words


def named_disks(text: str, disks: Sequence[LabDisk]) -> list[LabDisk]:
    """The disks with these names, serials or nodes. Raises SpecError with the nearest name."""
    return [find_disk(word, disks) for word in split_words(text)]


def bytes_or_none(text: str | None, what: str) -> int | None:
    """The size in an option, or None if omitted. Raises SpecError for an invalid size."""
    return None if text is None else parse_bytes(text, what=what)
