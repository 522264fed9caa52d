"""The lab's own programs for machines, stand-alone files that run inside the agent; and checksums.

Checksums are over the data of an array, read past the caches: taken before and after every fault, and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lab.errors import CommandFailed
from lab.machine import AgentProgram, Machine

LONGEST_SECONDS = 24 * 3600.0
_HERE = Path(__file__).resolve().parent
SUM_DATA = AgentProgram(_HERE / "sum_program.py", "sum-data")
MARK_DATA = AgentProgram(_HERE / "mark_program.py", "mark-data")
READ_PLACES = AgentProgram(_HERE / "read_program.py", "read-places")


class DataVerdict(StrEnum):
    """What became of the data."""

    INTACT = "intact"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    """The array reports an error instead of data: lost, and said so."""


@dataclass(frozen=True, slots=True)
class DataSum:
    """A checksum of some place, as ``sha256:…``; ``digest`` is empty where reading failed."""

    digest: str
    error: str = ""


def sum_device(machine: Machine, device: str, length_bytes: int = 0, *, skip_bytes: int = 0) -> DataSum:
    """Checksum of a block device, or of ``length_bytes`` of it after ``skip_bytes`` (multiples of 4 KiB)."""
    return _sum(machine, (device,), skip_bytes, length_bytes)


def sum_files(machine: Machine, folder: str) -> DataSum:
    """Checksum of all files directly in a folder, in the order of their names; folders in it are left out."""
    names = machine.list_dirs([folder])[folder]
    return _sum(machine, [f"{folder}/{name}" for name in names], 0, 0)


def verdict(before: DataSum, after: DataSum) -> DataVerdict:
    """Compare two checksums of the same place."""
    if not after.digest or not before.digest:
        return DataVerdict.UNREADABLE
    return DataVerdict.INTACT if before.digest == after.digest else DataVerdict.CHANGED


def _sum(machine: Machine, paths: Sequence[str], skip_bytes: int, length_bytes: int) -> DataSum:
    arguments = (str(skip_bytes), str(length_bytes), *paths)
    try:
        digest, size = machine.call(SUM_DATA, arguments, timeout_seconds=LONGEST_SECONDS).split()
    except CommandFailed as error:
        return DataSum("", error.stderr_tail or "reading failed")
    return DataSum(f"sha256:{digest}") if size != "0" else DataSum("", "there are no data")
