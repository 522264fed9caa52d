"""The array that the user composes on the Build screen: choices, form, specification and comparisons. Does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.style import Style

from lab.arrays.array import ArrayKind
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import free_name, kind_of_level, kinds
from lab.arrays.levels import Level, LevelName, layout_words
from lab.arrays.spec import Bitmap, ConsistencyPolicy, CreateOptions, Spec
from lab.units import KIB, MIB, human_bytes
from tui.widgets.choices import ChoiceRow
from tui.widgets.lines import Line, RowsWidget

if TYPE_CHECKING:
    from lab.arrays.spec import ArrayPreview
    from lab.disks import LabDisk
    from tui.state import LabState

_TITLES = ("level", "usable", "survives", "small write")
_NARROW_TITLES = ("level", "usable", "survives", "write")
_GAP_CELLS, _NARROW_GAP_CELLS = 3, 1


@dataclass(frozen=True, slots=True)
class LevelRow:
    """A row of the table, as text; dashes if the array cannot be built."""

    level: str
    usable: str
    survives: str
    small_write: str
    is_current: bool = False


class LevelTable(RowsWidget[LevelRow]):
    """One level per line; a colour and a character mark the current one."""

    PREFIX = "level-table"
    HIDES_WHEN_EMPTY = False
    DEFAULT_CSS = """
    LevelTable {
        height: auto;
        & > .level-table--title { color: $foreground-muted; }
        & > .level-table--row { color: $foreground; }
        & > .level-table--current { color: $text-primary; text-style: bold; }
    }
    """

    titles: tuple[str, str, str, str] = _TITLES
    narrow_titles: tuple[str, str, str, str] = _NARROW_TITLES
    """The titles of the columns; set both before ``show``."""

    def paint(self, width: int, height: int) -> list[Line]:
        if not self._rows:
            return []
        cells = [(row.level, row.usable, row.survives, row.small_write) for row in self._rows]
        titles, gap = self.titles, _GAP_CELLS
        widths = _widths([titles, *cells])
        if 2 + sum(widths) + gap * (len(titles) - 1) > width:
            titles, gap = self.narrow_titles, _NARROW_GAP_CELLS
            widths = _widths([titles, *cells])
        lines = [self._line(width, " ", titles, widths, self.style("title"), gap)]
        for row, words in zip(self._rows, cells, strict=True):
            style = self.style("current" if row.is_current else "row")
            sign = self.glyphs.cursor if row.is_current else " "
            lines.append(self._line(width, sign, words, widths, style, gap))
        return lines

    def _line(self, width: int, sign: str, words: Sequence[str], widths: Sequence[int], style: Style, gap: int) -> Line:
        """A line of the table, after ``sign``; the second column is right-aligned, the others are left-aligned."""
        line = self.line(width).add(f"{sign} ", style)
        for column, (text, cells) in enumerate(zip(words, widths, strict=True)):
            line.add(text.rjust(cells) if column == 1 else text.ljust(cells), style).add(" " * gap)
        return line


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def level_rows(draft: Draft, disks: Sequence[LabDisk], *, has_current: bool = True) -> list[LevelRow]:
    """One row per level with the disks of the draft; levels for unequal disks only if the disks differ in size."""
    by_name = {disk.name: disk for disk in disks}
    chosen = [by_name[name] for name in draft.disks if name in by_name]
    levels = [level for level in LEVELS if kind_of_level(level).suits(chosen)]
    rows = []
    for level in levels:
        other = replace(draft, level=level)
        shown = other.spec(other.kind.name(0), disks).preview(disks, other.file_system, has_plan=False)
        rows.append(
            LevelRow(
                title_of(level),
                human_bytes(shown.usable_bytes) if shown.usable_bytes else "–",
                survives_words(shown) if shown.usable_bytes else "needs more disks",
                shown.write_penalty.partition(":")[0] if shown.usable_bytes else "",
                has_current and level == draft.level,
            )
        )
    return rows


SYSTEM_TITLES = ("system", "usable", "of all", "full writes read")
NARROW_SYSTEM_TITLES = ("system", "usable", "of all", "reads")
_SYSTEMS = {
    "raid5": "RAID 5",
    "onlyfast": "largest alone",
    "shr": "SHR",
    "adapt5": "AdaptRaid5",
}


def system_rows(shown: ArrayPreview, level: str) -> list[LevelRow]:
    """One row per system for unequal disks, with the same disks; ``level`` is the chosen system."""
    rows = []
    for each in shown.systems:
        usable = human_bytes(each.capacity_bytes) if each.capacity_bytes else "–"
        share = f"{100 * each.capacity_bytes / shown.raw_bytes:.0f} %" if each.capacity_bytes else "not possible"
        reads = each.reads_words if each.capacity_bytes else ""
        rows.append(LevelRow(_SYSTEMS[each.system], usable, share, reads, each.system == level))
    return rows


def survives_words(shown: ArrayPreview) -> str:
    """The number of disk failures that the array survives: ``1 disk``, ``1 to 2 disks``, ``0 disks``."""
    low, high = shown.failures_survived, shown.most_failures_survived
    return f"{low}{f' to {high}' if high > low else ''} disk{'' if high == 1 else 's'}"


LEVELS = tuple(level for kind in kinds() for level in kind.levels if level != LevelName.SINGLE)
_DRAFT_TITLES = {
    LevelName.RAID0: "RAID 0",
    LevelName.RAID1: "RAID 1",
    LevelName.RAID4: "RAID 4",
    LevelName.RAID5: "RAID 5",
    LevelName.RAID6: "RAID 6",
    LevelName.RAID10: "RAID 10",
    "adapt5": "AdaptRaid5",
    "shr": "SHR",
}
_IDEAS = {
    LevelName.RAID0: "stripes, no redundancy",
    LevelName.RAID1: "every disk the same",
    LevelName.RAID4: "stripes, one parity disk",
    LevelName.RAID5: "stripes, parity rotates",
    LevelName.RAID6: "stripes, two parities",
    LevelName.RAID10: "stripes of mirrors",
    "adapt5": "disks of different sizes",
    "shr": "the same, in plain tiers",
}
_CHUNKS = tuple(size * KIB for size in (4, 16, 64, 128, 256, 512, 1024))
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
"""Number of disks that are chosen at first, and of members of the first array."""


def next_array_name(state: LabState, draft: Draft) -> str:
    """The name for the new array: the first free one."""
    taken = [status.name for status in state.arrays]
    taken += [array.name for array in state.found.all] if state.found else []
    return free_name(draft.kind, taken)


def inner_names(state: LabState) -> tuple[str, ...]:
    """The md names of the inner arrays of the running arrays."""
    return tuple(inner.name for status in state.arrays for inner in status.inner)


def title_of(level: str) -> str:
    """The title of a level, such as ``RAID 5``."""
    return _DRAFT_TITLES.get(level, level)


@dataclass(frozen=True, slots=True)
class Draft:
    """All choices of the form. A choice without effect at the current level is kept for levels that have it."""

    level: str = LevelName.RAID5
    disks: tuple[str, ...] = ()
    """Names of the chosen disks; the last ``spares`` of them are spares."""
    spares: int = 0
    chunks: tuple[tuple[int, int], ...] = ()
    """(default chunk of a kind of array, chosen chunk), in bytes, for each kind whose chunk was chosen."""
    rotation: str = ""
    """The layout of RAID 5 and 6; empty: the first layout of the level."""
    copies: str = "n2"
    """The layout of RAID 10: a key of ``_COPIES``."""
    bitmap: str = _NONE
    file_system: FileSystem = FileSystem.RAW
    reference: int | None = None
    """Data chunks of the full stripe, for kinds that allow fewer than the members minus one; None: that many."""

    @property
    def kind(self) -> ArrayKind:
        return kind_of_level(self.level)

    @property
    def options(self) -> frozenset[str]:
        """The fields of ``CreateOptions`` that can be chosen at this level."""
        return self.kind.options(self.level)

    @property
    def raid(self) -> Level:
        return self.kind.raid(self.level)

    @property
    def chunk_bytes(self) -> int:
        """The chosen chunk, or the default of the kind; no effect at levels without chunks."""
        default = self.kind.default_chunk_bytes
        return dict(self.chunks).get(default, default)

    @property
    def layout(self) -> str | None:
        """The layout's name; None if the level has only one."""
        words = self._layouts
        if self.level == LevelName.RAID10:
            return self.copies
        return (self.rotation if self.rotation in words else words[0]) if words else None

    @property
    def _layouts(self) -> tuple[str, ...]:
        return layout_words(self.raid.name) if "layout" in self.options else ()

    @property
    def spare_count(self) -> int:
        """Number of spares; 0 at levels without redundancy and for kinds without spares."""
        return min(self.spares, len(self.disks)) if self.raid.is_redundant and "spares" in self.options else 0

    @property
    def members(self) -> tuple[str, ...]:
        return self.disks[: len(self.disks) - self.spare_count]

    @property
    def spare_disks(self) -> tuple[str, ...]:
        return self.disks[len(self.members) :]

    def role(self, disk: str) -> str:
        """The role of a chosen disk: ``slot 0``, ``spare``; empty if it is not chosen."""
        if disk in self.members:
            return f"slot {self.members.index(disk)}"
        return "spare" if disk in self.disks else ""

    def spec(self, name: str, disks: Sequence[LabDisk]) -> Spec:
        by_name = {disk.name: disk for disk in disks}
        members = tuple(by_name[disk] for disk in self.members if disk in by_name)
        has_ppl = self.bitmap == _PPL and self.level == LevelName.RAID5
        chunk = _BITMAP_CHUNKS.get(self.bitmap) if "bitmap_chunk_bytes" in self.options else None
        reference = self.reference if "reference" in self.options else None
        has_bitmap = self.raid.is_redundant and bool(chunk or self._bitmap == _INTERNAL)
        return self.kind.spec(
            CreateOptions(
                level=self.level,
                members=members,
                name=name,
                spares=tuple(by_name[disk] for disk in self.spare_disks if disk in by_name),
                chunk_bytes=self.chunk_bytes if self.raid.has_chunk else None,
                layout=self.layout,
                bitmap=Bitmap.INTERNAL if has_bitmap else Bitmap.NONE,
                bitmap_chunk_bytes=chunk if has_bitmap else None,
                policy=ConsistencyPolicy.PPL if has_ppl else ConsistencyPolicy.RESYNC,
                reference=reference if (reference or 0) < len(members) else None,
            )
        )

    def rows(self) -> tuple[ChoiceRow, ...]:
        return (
            ChoiceRow("level", "Level", tuple(map(title_of, LEVELS)), title_of(self.level), _IDEAS.get(self.level, "")),
            self._chunk_row(),
            self._layout_row(),
            self._bitmap_row(),
            self._spares_row(),
            ChoiceRow(
                "file_system",
                "File system",
                ("none", "ext4", "xfs"),
                _file_system_word(self.file_system),
            ),
        )

    def _chunk_row(self) -> ChoiceRow:
        if not self.raid.has_chunk:
            return ChoiceRow("chunk", "Chunk", note=f"{title_of(self.level)} has none")
        return ChoiceRow("chunk", "Chunk", tuple(map(human_bytes, _CHUNKS)), human_bytes(self.chunk_bytes))

    def _layout_row(self) -> ChoiceRow:
        if "reference" in self.options:
            return self._reference_row()
        if "layout" not in self.options:
            return ChoiceRow("layout", "Layout", note="fixed for each tier")
        if self.level == LevelName.RAID10:
            return ChoiceRow("layout", "Layout", tuple(_COPIES.values()), _COPIES[self.copies])
        if not self._layouts:
            return ChoiceRow("layout", "Layout", note="only one")
        return ChoiceRow("layout", "Layout", self._layouts, self.layout or "")

    def _reference_row(self) -> ChoiceRow:
        widest = len(self.members) - 1
        if widest < 2:
            return ChoiceRow("reference", "Full stripe", note="needs 3 disks")
        current = self.reference if self.reference and self.reference <= widest else widest
        return ChoiceRow(
            "reference", "Full stripe", tuple(map(_chunks, range(widest, 0, -1))), _chunks(current), "of data"
        )

    @property
    def _bitmaps(self) -> tuple[str, ...]:
        if "bitmap_chunk_bytes" not in self.options:
            return (_NONE, _INTERNAL)
        return (_NONE, *_BITMAP_CHUNKS, *((_PPL,) if self.level == LevelName.RAID5 else ()))

    @property
    def _bitmap(self) -> str:
        return self.bitmap if self.bitmap in self._bitmaps else _NONE

    def _bitmap_row(self) -> ChoiceRow:
        if not self.raid.is_redundant:
            return ChoiceRow("bitmap", "Bitmap", note="no redundancy to track")
        return ChoiceRow("bitmap", "Bitmap", self._bitmaps, self._bitmap)

    def _spares_row(self) -> ChoiceRow:
        if not self.raid.is_redundant:
            return ChoiceRow("spares", "Spares", note="no redundancy")
        if "spares" not in self.options:
            return ChoiceRow("spares", "Spares", note="add a disk when one fails")
        note = "the last of the chosen disks" if self.spare_count else ""
        return ChoiceRow("spares", "Spares", tuple(map(str, range(_MOST_SPARES + 1))), str(self.spare_count), note)

    def changed(self, key: str, value: str) -> Draft:
        """A copy with a new value for one row; ``value`` is the value as shown in the row."""
        match key:
            case "level":
                return replace(self, level=next(level for level in LEVELS if title_of(level) == value))
            case "chunk":
                size = next(size for size in _CHUNKS if human_bytes(size) == value)
                chosen = {**dict(self.chunks), self.kind.default_chunk_bytes: size}
                return replace(self, chunks=tuple(chosen.items()))
            case "reference":
                wanted = int(value.split()[0])
                return replace(self, reference=None if wanted == len(self.members) - 1 else wanted)
            case "layout" if self.level == LevelName.RAID10:
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
        return replace(self, disks=tuple(disks))

    def only(self, free: Collection[str]) -> Draft:
        """A copy without the disks that are not in ``free``."""
        return self.with_disks([disk for disk in self.disks if disk in free])


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count} chunks"


def _file_system_word(kind: FileSystem) -> str:
    return _NONE if kind is FileSystem.RAW else kind.value
