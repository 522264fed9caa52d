"""An array as it is being put together on the Build screen: the choices, the rows that show them, the spec. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.arrays.filesystem import FileSystem
from lab.arrays.level_names import layout_words, parse_level
from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.units import KIB, MIB, human_bytes
from tui.widgets.choices import ChoiceRow

if TYPE_CHECKING:
    from lab.disks import LabDisk
    from tui.state import LabState

LEVELS = tuple(name for name in LevelName if name is not LevelName.SINGLE)
_TITLES = {
    LevelName.RAID0: "RAID 0",
    LevelName.RAID1: "RAID 1",
    LevelName.RAID4: "RAID 4",
    LevelName.RAID5: "RAID 5",
    LevelName.RAID6: "RAID 6",
    LevelName.RAID10: "RAID 10",
}
_IDEAS = {
    LevelName.RAID0: "stripes, no safety",
    LevelName.RAID1: "every disk the same",
    LevelName.RAID4: "stripes, one parity disk",
    LevelName.RAID5: "stripes, parity rotates",
    LevelName.RAID6: "stripes, two parities",
    LevelName.RAID10: "stripes of mirrors",
}
_CHUNKS = tuple(size * KIB for size in (4, 16, 64, 128, 256, 512, 1024))
_DEFAULT_CHUNK_BYTES = 512 * KIB
_BITMAP_CHUNKS = {"64 KiB": 64 * KIB, "1 MiB": MIB, "64 MiB": 64 * MIB}
_COPIES = {
    "n2": "near 2",
    "n3": "near 3",
    "f2": "far 2",
    "o2": "offset 2",
}
_NONE = "none"
_PPL = "partial parity log"
_MOST_SPARES = 2
FIRST_MEMBERS = 4
"""How many disks a newcomer finds chosen."""


def next_array_name(state: LabState) -> str:
    """The name that the next array would get."""
    from lab.session.checks import free_name

    taken = [status.name for status in state.arrays]
    taken += [array.name for array in state.found.all] if state.found else []
    return free_name(taken)


def title_of(level: LevelName) -> str:
    """``RAID 5``."""
    return _TITLES[level]


@dataclass(frozen=True, slots=True)
class Draft:
    """Every choice; what a level does not know is kept, and comes back with a level that does."""

    level: LevelName = LevelName.RAID5
    disks: tuple[str, ...] = ()
    """Names of the chosen disks; the last ``spares`` of them are spares."""
    spares: int = 0
    chunk_bytes: int = _DEFAULT_CHUNK_BYTES
    rotation: str = ""
    """RAID 5 and 6; empty: the first that the level knows."""
    copies: str = "n2"
    """RAID 10."""
    bitmap: str = _NONE
    file_system: FileSystem = FileSystem.RAW

    @property
    def has_chunk(self) -> bool:
        return parse_level(self.level).has_chunk

    @property
    def is_redundant(self) -> bool:
        return parse_level(self.level).is_redundant

    @property
    def layout(self) -> str | None:
        """The layout word, where the level has a choice."""
        words = layout_words(self.level)
        if self.level is LevelName.RAID10:
            return self.copies
        return (self.rotation if self.rotation in words else words[0]) if words else None

    @property
    def spare_count(self) -> int:
        """Spares in force: none without redundancy."""
        return min(self.spares, len(self.disks)) if self.is_redundant else 0

    @property
    def members(self) -> tuple[str, ...]:
        return self.disks[: len(self.disks) - self.spare_count]

    @property
    def spare_disks(self) -> tuple[str, ...]:
        return self.disks[len(self.members) :]

    def role(self, disk: str) -> str:
        """What a chosen disk would be: ``slot 0``, ``spare``."""
        if disk in self.members:
            return f"slot {self.members.index(disk)}"
        return "spare" if disk in self.disks else ""

    def spec(self, name: str, disks: Sequence[LabDisk]) -> ArraySpec:
        """The array, on the nodes of these disks."""
        nodes = {disk.name: disk.node for disk in disks}
        has_ppl = self.bitmap == _PPL and self.level is LevelName.RAID5
        has_bitmap = self.bitmap in _BITMAP_CHUNKS and self.is_redundant
        return ArraySpec(
            level=self.level.value,
            members=tuple(nodes[disk] for disk in self.members if disk in nodes),
            name=name,
            spares=tuple(nodes[disk] for disk in self.spare_disks if disk in nodes),
            chunk_bytes=self.chunk_bytes if self.has_chunk else None,
            layout=self.layout,
            bitmap=Bitmap.INTERNAL if has_bitmap else Bitmap.NONE,
            bitmap_chunk_bytes=_BITMAP_CHUNKS[self.bitmap] if has_bitmap else None,
            consistency_policy=ConsistencyPolicy.PPL if has_ppl else ConsistencyPolicy.RESYNC,
        )

    def rows(self) -> tuple[ChoiceRow, ...]:
        """The form."""
        return (
            ChoiceRow("level", "Level", tuple(_TITLES.values()), _TITLES[self.level], _IDEAS[self.level]),
            self._chunk_row(),
            self._layout_row(),
            self._bitmap_row(),
            self._spares_row(),
            ChoiceRow("file_system", "File system", ("none", "ext4", "xfs"), _file_system_word(self.file_system)),
        )

    def _chunk_row(self) -> ChoiceRow:
        if not self.has_chunk:
            return ChoiceRow("chunk", "Chunk", note=f"{_TITLES[self.level]} has none")
        return ChoiceRow("chunk", "Chunk", tuple(map(human_bytes, _CHUNKS)), human_bytes(self.chunk_bytes))

    def _layout_row(self) -> ChoiceRow:
        if self.level is LevelName.RAID10:
            return ChoiceRow("layout", "Layout", tuple(_COPIES.values()), _COPIES[self.copies])
        words = layout_words(self.level)
        if not words:
            return ChoiceRow("layout", "Layout", note="only one")
        return ChoiceRow("layout", "Layout", words, self.layout or "")

    def _bitmap_row(self) -> ChoiceRow:
        if not self.is_redundant:
            return ChoiceRow("bitmap", "Bitmap", note="nothing to keep in step")
        values = (_NONE, *_BITMAP_CHUNKS, *((_PPL,) if self.level is LevelName.RAID5 else ()))
        return ChoiceRow("bitmap", "Bitmap", values, self.bitmap if self.bitmap in values else _NONE)

    def _spares_row(self) -> ChoiceRow:
        if not self.is_redundant:
            return ChoiceRow("spares", "Spares", note="nothing to rebuild from")
        note = "of the chosen disks, the last" if self.spare_count else ""
        return ChoiceRow("spares", "Spares", tuple(map(str, range(_MOST_SPARES + 1))), str(self.spare_count), note)

    def changed(self, key: str, value: str) -> Draft:
        """The same with one row's new value."""
        match key:
            case "level":
                return replace(self, level=next(name for name, title in _TITLES.items() if title == value))
            case "chunk":
                return replace(self, chunk_bytes=next(size for size in _CHUNKS if human_bytes(size) == value))
            case "layout" if self.level is LevelName.RAID10:
                return replace(self, copies=next(word for word, title in _COPIES.items() if title == value))
            case "layout":
                return replace(self, rotation=value)
            case "bitmap":
                return replace(self, bitmap=value)
            case "spares":
                return replace(self, spares=int(value))
            case _:
                return replace(self, file_system=FileSystem.RAW if value == _NONE else FileSystem(value))

    def with_disks(self, disks: Sequence[str]) -> Draft:
        """The same on these disks."""
        return replace(self, disks=tuple(disks))

    def only(self, free: Collection[str]) -> Draft:
        """The same without disks that are free no longer."""
        return self.with_disks([disk for disk in self.disks if disk in free])


def _file_system_word(kind: FileSystem) -> str:
    return _NONE if kind is FileSystem.RAW else kind.value
