"""Arrays for file systems under the oracle, and what each promises after a power cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.arrays.filesystem import FileSystem
from lab.arrays.level_names import level_with_layout
from lab.errors import SpecError
from lab.faults.geometry import rows_of
from lab.units import KIB, MIB

NODE = "/dev/md0"
DATA_BYTES = {FileSystem.EXT4: 9 * MIB, FileSystem.XFS: 18 * MIB}
"""Of an array: a little more than the smallest file system with a journal needs."""
_DATA_OFFSET_BYTES = 2 * MIB
_CHUNK_BYTES = 16 * KIB
JOURNAL = 5
"""Which drive is the journal of an array that has one."""


@dataclass(frozen=True, slots=True)
class FilesArray:
    """An array under a file system: how mdadm makes it, and what it promises with a member lost in a power cut."""

    name: str
    level: str
    members: int
    options: tuple[str, ...] = ()
    data_members: int = 1
    """Members' worth of data."""
    has_journal: bool = False
    is_write_back: bool = False
    survives_missing: bool = True
    """Whether with a member missing all that was synced is there.

    Not so where parity may be wrong after a power cut: md starts such an array only if forced (md(4), UNCLEAN
    SHUTDOWN).
    """
    known_fault: str = ""
    """What is known to be wrong with it in md itself; empty: nothing."""
    is_arbitrary: bool = False
    """Whether with a member missing a block that was being written may hold anything (driver-api/md/raid5-ppl.rst)."""

    def member_bytes(self, file_system: FileSystem) -> int:
        """Of data on each member."""
        return -(-DATA_BYTES[file_system] // self.data_members // (64 * KIB)) * 64 * KIB

    def geometry(self, file_system: FileSystem) -> dict[str, Any]:
        """Where its copies and its parity lie."""
        layout = next((word.partition("=")[2] for word in self.options if word.startswith("--layout=")), None)
        level = level_with_layout(f"raid{self.level}", layout)
        return rows_of(level, layout, self.members, self.member_bytes(file_system), _CHUNK_BYTES)

    def creation(self, nodes: Sequence[str], file_system: FileSystem) -> list[str]:
        """Mdadm's words."""
        each = self.member_bytes(file_system) // KIB
        chunk = () if self.level == "1" else (f"--chunk={_CHUNK_BYTES // KIB}",)
        shape = (f"--level={self.level}", f"--raid-devices={self.members}", f"--size={each}", *chunk)
        offset = f"--data-offset={_DATA_OFFSET_BYTES // MIB}M"
        journal = ("--write-journal", nodes[JOURNAL]) if self.has_journal else ()
        words = ("mdadm", "--create", NODE, "--run", "--assume-clean", offset, *shape, *self.options, *journal)
        return [*words, *nodes[: self.members]]

    @property
    def numbers(self) -> list[int]:
        """The drives that it is made of."""
        return [*range(self.members), *([JOURNAL] if self.has_journal else [])]


_NO_BITMAP = ("--bitmap=none",)
_FLUSHED_TOO_EARLY = (
    "the journal notes a stripe as flushed when its members have answered, and not when their caches are on the media "
    "(r5c_finish_stripe_write_out() in drivers/md/raid5-cache.c): a power cut loses acknowledged writes"
)
ARRAYS = (
    FilesArray("raid1", "1", 2, _NO_BITMAP),
    FilesArray("raid1-bitmap", "1", 2, ("--bitmap=internal", "--bitmap-chunk=64K")),
    FilesArray("raid10", "10", 4, _NO_BITMAP, 2),
    FilesArray("raid10-far", "10", 4, ("--layout=f2", *_NO_BITMAP), 2),
    FilesArray("raid5", "5", 4, ("--consistency-policy=resync", *_NO_BITMAP), 3, survives_missing=False),
    FilesArray("raid5-bitmap", "5", 4, ("--bitmap=internal", "--bitmap-chunk=64K"), 3, survives_missing=False),
    FilesArray("raid5-ppl", "5", 4, ("--consistency-policy=ppl",), 3, is_arbitrary=True),
    FilesArray("raid5-journal", "5", 4, _NO_BITMAP, 3, has_journal=True),
    FilesArray(
        "raid5-write-back", "5", 4, _NO_BITMAP, 3, has_journal=True, is_write_back=True, known_fault=_FLUSHED_TOO_EARLY
    ),
    FilesArray("raid6", "6", 5, ("--consistency-policy=resync", *_NO_BITMAP), 3, survives_missing=False),
    FilesArray("raid6-journal", "6", 5, _NO_BITMAP, 3, has_journal=True),
)


def find_files_array(name: str) -> FilesArray:
    """One of ``ARRAYS``. Raises SpecError."""
    for each in ARRAYS:
        if each.name == name:
            return each
    raise SpecError(
        f"there is no array '{name}' for files", hint=f"choose of {', '.join(each.name for each in ARRAYS)}"
    )
