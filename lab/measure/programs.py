"""The lab's programs that run inside the agent of a machine, as stand-alone files; and checksums.

Checksums cover the data of an array, read with direct I/O; those before and after every fault are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lab.errors import CommandFailed
from lab.machine import GuestProgram, Machine

LONGEST_SECONDS = 24 * 3600.0
_HERE = Path(__file__).resolve().parent
SUM_DATA = GuestProgram(_HERE / "sum_program.py", "sum-data")
MARK_DATA = GuestProgram(_HERE / "mark_program.py", "mark-data")
READ_PLACES = GuestProgram(_HERE / "read_program.py", "read-places")


class DataVerdict(StrEnum):
    """State of the data after a fault."""

    INTACT = "intact"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    """The array returns an error instead of data: the loss is reported."""


@dataclass(frozen=True, slots=True)
class DataSum:
    """Checksum of a device or of files, as ``sha256:…``; ``digest`` is empty if reading failed."""

    digest: str
    error: str = ""


def sum_device(machine: Machine, device: str, length_bytes: int = 0, *, skip_bytes: int = 0) -> DataSum:
    """Checksum of a block device, or of ``length_bytes`` of it after ``skip_bytes`` (multiples of 4 KiB)."""
    return _sum(machine, (device,), skip_bytes, length_bytes)


def sum_files(machine: Machine, folder: str) -> DataSum:
    """Checksum of all files directly in a folder, in order of their names; subfolders are skipped."""
    names = machine.list_dirs([folder])[folder]
    return _sum(machine, [f"{folder}/{name}" for name in names], 0, 0)


def verdict(before: DataSum, after: DataSum) -> DataVerdict:
    """Compare two checksums of the same data."""
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
