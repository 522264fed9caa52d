"""An array as it is being put together on the Build screen: the choices, the rows that show them, the spec. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.adapt.names import free_volume_name
from lab.adapt.spec import DEFAULT_CHUNK_BYTES as VOLUME_CHUNK_BYTES
from lab.adapt.spec import VolumeSpec
from lab.adapt.summary import VolumeArray
from lab.adapt.windows import Rule
from lab.arrays.filesystem import FileSystem
from lab.arrays.level_names import layout_words, parse_level
from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.units import KIB, MIB, human_bytes
from tui.widgets.choices import ChoiceRow

if TYPE_CHECKING:
    from lab.disks import LabDisk
    from lab.plans import Plan
    from lab.session.preview import ArrayPreview
    from lab.session.session import LabSession
    from tui.state import LabState

AnyLevel = LevelName | Rule
LEVELS: tuple[AnyLevel, ...] = (*(name for name in LevelName if name is not LevelName.SINGLE), *Rule)
_TITLES: dict[AnyLevel, str] = {
    LevelName.RAID0: "RAID 0",
    LevelName.RAID1: "RAID 1",
    LevelName.RAID4: "RAID 4",
    LevelName.RAID5: "RAID 5",
    LevelName.RAID6: "RAID 6",
    LevelName.RAID10: "RAID 10",
    Rule.ADAPT5: "AdaptRaid5",
    Rule.SHR: "SHR",
}
_IDEAS: dict[AnyLevel, str] = {
    LevelName.RAID0: "stripes, no safety",
    LevelName.RAID1: "every disk the same",
    LevelName.RAID4: "stripes, one parity disk",
    LevelName.RAID5: "stripes, parity rotates",
    LevelName.RAID6: "stripes, two parities",
    LevelName.RAID10: "stripes of mirrors",
    Rule.ADAPT5: "disks of different sizes",
    Rule.SHR: "the same, in plain tiers",
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
_INTERNAL = "internal"
_PPL = "partial parity log"
_MOST_SPARES = 2
FIRST_MEMBERS = 4
"""How many disks a newcomer finds chosen."""


def next_array_name(state: LabState, draft: Draft) -> str:
    """The name that the array would get."""
    from lab.session.checks import free_name

    taken = [status.name for status in state.arrays]
    taken += [array.name for array in state.found.all] if state.found else []
    return free_volume_name(taken) if draft.is_volume else free_name(taken)


def inner_names(state: LabState) -> tuple[str, ...]:
    """Md names that the running volumes have inside."""
    volumes = (status.whole for status in state.arrays if isinstance(status, VolumeArray))
    return tuple(each.array.name for volume in volumes for each in volume.windows if each.array)


def preview_of(draft: Draft, name: str, disks: Sequence[LabDisk], *, taken: Collection[str] = ()) -> ArrayPreview:
    """What a draft would be, with its file system."""
    from lab.session.preview import preview
    from lab.session.volume_preview import preview_volume

    if draft.is_volume:
        return preview_volume(draft.volume_spec(name, disks), draft.file_system, taken)
    return preview(disks, draft.spec(name, disks), draft.file_system)


def maker_of(draft: Draft, name: str, disks: Sequence[LabDisk]) -> Callable[[LabSession], Plan]:
    """Makes the plan that builds a draft."""
    from lab.session import plans, volumes

    if draft.is_volume:
        wanted = draft.volume_spec(name, disks)
        return lambda session: volumes.create(session, wanted, draft.file_system)
    spec = draft.spec(name, disks)
    return lambda session: plans.create(session, spec, draft.file_system)


def title_of(level: AnyLevel) -> str:
    """``RAID 5``."""
    return _TITLES[level]


@dataclass(frozen=True, slots=True)
class Draft:
    """Every choice; what a level does not know is kept, and comes back with a level that does."""

    level: AnyLevel = LevelName.RAID5
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
    volume_chunk_bytes: int = VOLUME_CHUNK_BYTES
    reference: int | None = None
    """Data chunks of the full stripe of AdaptRaid5; None: one for each disk but one."""

    @property
    def is_volume(self) -> bool:
        """Whether it is made of several md arrays."""
        return isinstance(self.level, Rule)

    @property
    def has_chunk(self) -> bool:
        return isinstance(self.level, Rule) or parse_level(self.level).has_chunk

    @property
    def is_redundant(self) -> bool:
        return isinstance(self.level, Rule) or parse_level(self.level).is_redundant

    @property
    def layout(self) -> str | None:
        """The layout word, where the level has a choice."""
        if isinstance(self.level, Rule):
            return None
        words = layout_words(self.level)
        if self.level is LevelName.RAID10:
            return self.copies
        return (self.rotation if self.rotation in words else words[0]) if words else None

    @property
    def spare_count(self) -> int:
        """Spares in force: none without redundancy, and none in a volume."""
        return min(self.spares, len(self.disks)) if self.is_redundant and not self.is_volume else 0

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

    def volume_spec(self, name: str, disks: Sequence[LabDisk]) -> VolumeSpec:
        """The volume, on these disks."""
        by_name = {disk.name: disk for disk in disks}
        members = tuple(by_name[disk] for disk in self.members if disk in by_name)
        is_adapt5 = self.level is Rule.ADAPT5
        return VolumeSpec(
            members,
            name=name,
            rule=Rule(self.level.value),
            chunk_bytes=self.volume_chunk_bytes,
            reference=self.reference if is_adapt5 and (self.reference or 0) < len(members) else None,
            bitmap=Bitmap.INTERNAL if self.bitmap == _INTERNAL else Bitmap.NONE,
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
        chunk = self.volume_chunk_bytes if self.is_volume else self.chunk_bytes
        return ChoiceRow("chunk", "Chunk", tuple(map(human_bytes, _CHUNKS)), human_bytes(chunk))

    def _layout_row(self) -> ChoiceRow:
        if self.level is Rule.ADAPT5:
            return self._reference_row()
        if isinstance(self.level, Rule):
            return ChoiceRow("layout", "Layout", note="each tier as wide as it is")
        if self.level is LevelName.RAID10:
            return ChoiceRow("layout", "Layout", tuple(_COPIES.values()), _COPIES[self.copies])
        words = layout_words(self.level)
        if not words:
            return ChoiceRow("layout", "Layout", note="only one")
        return ChoiceRow("layout", "Layout", words, self.layout or "")

    def _reference_row(self) -> ChoiceRow:
        widest = len(self.members) - 1
        if widest < 2:
            return ChoiceRow("reference", "Full stripe", note="needs 3 disks")
        current = self.reference if self.reference and self.reference <= widest else widest
        return ChoiceRow(
            "reference", "Full stripe", tuple(map(_chunks, range(widest, 0, -1))), _chunks(current), "of data"
        )

    def _bitmap_row(self) -> ChoiceRow:
        if not self.is_redundant:
            return ChoiceRow("bitmap", "Bitmap", note="nothing to keep in step")
        if self.is_volume:
            current = self.bitmap if self.bitmap == _INTERNAL else _NONE
            return ChoiceRow("bitmap", "Bitmap", (_NONE, _INTERNAL), current)
        values = (_NONE, *_BITMAP_CHUNKS, *((_PPL,) if self.level is LevelName.RAID5 else ()))
        return ChoiceRow("bitmap", "Bitmap", values, self.bitmap if self.bitmap in values else _NONE)

    def _spares_row(self) -> ChoiceRow:
        if not self.is_redundant:
            return ChoiceRow("spares", "Spares", note="nothing to rebuild from")
        if self.is_volume:
            return ChoiceRow("spares", "Spares", note="add a disk when one fails")
        note = "of the chosen disks, the last" if self.spare_count else ""
        return ChoiceRow("spares", "Spares", tuple(map(str, range(_MOST_SPARES + 1))), str(self.spare_count), note)

    def changed(self, key: str, value: str) -> Draft:
        """The same with one row's new value."""
        match key:
            case "level":
                return replace(self, level=next(name for name, title in _TITLES.items() if title == value))
            case "chunk":
                size = next(size for size in _CHUNKS if human_bytes(size) == value)
                return replace(self, volume_chunk_bytes=size) if self.is_volume else replace(self, chunk_bytes=size)
            case "reference":
                wanted = int(value.split()[0])
                return replace(self, reference=None if wanted == len(self.members) - 1 else wanted)
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


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count} chunks"


def _file_system_word(kind: FileSystem) -> str:
    return _NONE if kind is FileSystem.RAW else kind.value
