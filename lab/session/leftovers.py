"""Arrays that a finished drill has left on a lab's disks: reported on every start until they are cleared.

::

    STATE/labs/<name>/drill-left.json
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from lab.arrays.discovery import plain_uuid
from lab.errors import LabError
from lab.gates.own import read_own_json
from lab.host.files import write_file

_FILE = "drill-left.json"


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """Leftovers of one drill."""

    title: str
    disks: tuple[str, ...]
    """Names of the lab's disks that the drill used."""
    uuids: tuple[str, ...]
    """UUIDs of the arrays on the disks, as ``plain_uuid``."""


def read_leftovers(folder: Path) -> Leftovers | None:
    """Leftovers in the lab of this folder; None if there are none, or the file is unreadable."""
    try:
        return read_own_json(folder / _FILE, Leftovers, error=LabError)
    except (FileNotFoundError, LabError):
        return None


def keep_leftovers(folder: Path, left: Leftovers | None) -> None:
    """Store the leftovers for later sessions; None after the disks have been cleared. Raises ResultError."""
    if left is None:
        (folder / _FILE).unlink(missing_ok=True)
    else:
        write_file(folder / _FILE, msgspec.json.encode(left))


def still_there(folder: Path, uuids: Iterable[str]) -> Leftovers | None:
    """Leftovers among the arrays with these UUIDs; deletes the record if none of the drill's arrays exists any more."""
    left = read_leftovers(folder)
    if left is None:
        return None
    if not {*left.uuids} & {plain_uuid(uuid) for uuid in uuids}:
        keep_leftovers(folder, None)
        return None
    return left


def left_words(left: Leftovers, names: Iterable[str]) -> str:
    """One human-readable line: why these arrays were not started, and how to remove them."""
    arrays = ", ".join(dict.fromkeys(names))
    where = f"{left.disks[0]} to {left.disks[-1]}"
    return f"the drill '{left.title}' left {arrays} on {where}; 'raidlab drill clear' makes these disks blank"
