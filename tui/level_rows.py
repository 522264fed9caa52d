"""The same disks at every level, for tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.units import human_bytes
from tui.drafts import LEVELS, Draft, title_of
from tui.widgets.level_table import LevelRow

if TYPE_CHECKING:
    from lab.disks import LabDisk
    from lab.session.preview import ArrayPreview


def level_rows(draft: Draft, name: str, disks: Sequence[LabDisk], *, has_current: bool = True) -> list[LevelRow]:
    """What the disks of a draft would be at each level."""
    from lab.session.preview import preview

    rows = []
    for level in LEVELS:
        shown = preview(disks, replace(draft, level=level).spec(name, disks))
        rows.append(
            LevelRow(
                title_of(level),
                human_bytes(shown.usable_bytes) if shown.usable_bytes else "–",
                survives_words(shown) if shown.usable_bytes else "needs more disks",
                shown.write_penalty.partition(":")[0] if shown.usable_bytes else "",
                has_current and level is draft.level,
            )
        )
    return rows


def survives_words(shown: ArrayPreview) -> str:
    """``1 disk``, ``1 to 2 disks``, ``no loss``."""
    low, high = shown.failures_survived, shown.most_failures_survived
    if not high:
        return "no loss"
    return f"{low}{f' to {high}' if high > low else ''} disk{'' if high == 1 else 's'}"
