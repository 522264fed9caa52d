"""The same disks at every level, for tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.arrays.kinds import kind_of_level
from lab.units import human_bytes
from tui.drafts import LEVELS, Draft, title_of
from tui.widgets.level_table import LevelRow

if TYPE_CHECKING:
    from lab.arrays.preview import ArrayPreview
    from lab.disks import LabDisk


def level_rows(draft: Draft, disks: Sequence[LabDisk], *, has_current: bool = True) -> list[LevelRow]:
    """What the disks of a draft would be at each level; those for unequal disks only where disks differ."""
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
    """The same disks under each system for unequal disks; ``level`` is the chosen one."""
    rows = []
    for each in shown.systems:
        usable = human_bytes(each.capacity_bytes) if each.capacity_bytes else "–"
        share = f"{100 * each.capacity_bytes / shown.raw_bytes:.0f} %" if each.capacity_bytes else "not possible"
        reads = each.reads_words if each.capacity_bytes else ""
        rows.append(LevelRow(_SYSTEMS[each.system], usable, share, reads, each.system == level))
    return rows


def survives_words(shown: ArrayPreview) -> str:
    """``1 disk``, ``1 to 2 disks``, ``0 disks``."""
    low, high = shown.failures_survived, shown.most_failures_survived
    return f"{low}{f' to {high}' if high > low else ''} disk{'' if high == 1 else 's'}"
