"""/proc/mdstat, for two things only: that something changed, and how far syncs have come. State comes from sysfs.

One file tells both for all arrays, and its progress is finer than md/sync_completed, which moves in steps.
Source of the format: md_seq_show() and status_resync() in drivers/md/md.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.arrays.status import SyncProgress
from lab.units import KIB, SECTOR_BYTES

MDSTAT = "/proc/mdstat"
_ARRAY = re.compile(r"^(md\d+)\s*:")
_PROGRESS = re.compile(r"(resync|recovery|reshape|check)\s*=\s*[\d.]+%\s*\((\d+)/(\d+)\)")


@dataclass(frozen=True, slots=True)
class MdStat:
    """What one reading tells."""

    shape: str
    """Equal in two readings if only progress, speeds and the fill of bitmaps differ."""
    progress: dict[str, SyncProgress]
    """Array -> how far its sync has come."""
    names: tuple[str, ...]
    """The arrays, as listed."""


def parse_mdstat(text: str) -> MdStat:
    """Read the file's text; anything unknown only counts towards the shape."""
    shape, progress, names, name = [], {}, [], ""
    for line in text.splitlines():
        if found := _ARRAY.match(line):
            name = found[1]
            names.append(name)
        if moving := _PROGRESS.search(line):
            per_kib = KIB // SECTOR_BYTES
            progress[name] = SyncProgress(int(moving[2]) * per_kib, int(moving[3]) * per_kib)
            line = moving[1]
        elif line.lstrip().startswith("bitmap:"):
            line = "bitmap"
        shape.append(line)
    return MdStat("\n".join(shape), progress, tuple(names))
