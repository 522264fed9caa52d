"""Checksums over the data of an array, read past the caches: taken before and after every fault, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.machine.api import Machine
from lab.measure.programs import RUN_FOLDER, call_program

PROGRAM = f"{RUN_FOLDER}/sum-data"


class Verdict(StrEnum):
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


def verdict(before: DataSum, after: DataSum) -> Verdict:
    """Compare two checksums of the same place."""
    if not after.digest or not before.digest:
        return Verdict.UNREADABLE
    return Verdict.INTACT if before.digest == after.digest else Verdict.CHANGED


def _sum(machine: Machine, paths: Sequence[str], skip_bytes: int, length_bytes: int) -> DataSum:
    arguments = (str(skip_bytes), str(length_bytes), *paths)
    result = call_program(machine, "sum_program.py", "sum-data", arguments)
    said = result.stderr.strip()
    words = result.stdout.split()
    if result.status != 0 or len(words) != 2:
        return DataSum("", said.splitlines()[-1] if said else "reading failed")
    if words[1] == "0":
        return DataSum("", "there are no data")
    return DataSum(f"sha256:{words[0]}")
