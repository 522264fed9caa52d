"""The state of arrays as sysfs tells it (kernel: Documentation/admin-guide/md.rst), one round trip per look.

Parsers are apart from reading. Every file may be missing (raid0 has no ``degraded``) and every word may be new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from lab.arrays.names import is_array_name, md_path, node_of
from lab.arrays.status import ArrayState, ArrayStatus, MemberStatus, SyncAction, SyncProgress
from lab.errors import ArrayError
from lab.machine.api import Machine
from lab.units import SECTOR_BYTES

__all__ = [
    "ArrayState",
    "ArrayStatus",
    "MemberStatus",
    "SyncAction",
    "SyncProgress",
    "array_paths",
    "parse_array",
    "parse_count",
    "parse_flags",
    "parse_member",
    "parse_progress",
    "read_array",
    "read_arrays",
]

ARRAY_FILES = (
    "level",
    "raid_disks",
    "chunk_size",
    "layout",
    "array_state",
    "degraded",
    "sync_action",
    "sync_completed",
    "sync_speed",
    "consistency_policy",
    "metadata_version",
    "component_size",
    "mismatch_cnt",
    "bitmap/location",
    "reshape_position",
    "resync_start",
    "uuid",
)
MEMBER_FILES = ("state", "slot", "errors", "offset", "size")
_MEMBER_PREFIX = "dev-"
E = TypeVar("E", bound=StrEnum)


def read_array(machine: Machine, name: str) -> ArrayStatus:
    """State of one array. Raises ArrayError if the machine has no such array."""
    for status in read_arrays(machine, (name,)):
        return status
    raise ArrayError(f"the machine has no array {name}", hint="create or assemble it first")


def read_arrays(machine: Machine, names: Sequence[str] | None = None) -> tuple[ArrayStatus, ...]:
    """State of every array of the machine, sorted by number, or of those of these ``names`` that are there."""
    if names is None:
        blocks = machine.list_dirs(("/sys/block",))["/sys/block"]
        found = [block for block in blocks if is_array_name(block)]
        names = sorted(found, key=lambda block: int(block.removeprefix("md")))
    folders = (
        machine.list_dirs([folder for name in names for folder in (md_path(name), _holders(name))]) if names else {}
    )
    present = [name for name in names if folders[md_path(name)]]
    paths = [path for name in present for path in array_paths(name, folders[md_path(name)])]
    texts = machine.read(paths) if paths else {}
    return tuple(parse_array(name, folders[md_path(name)], texts, folders[_holders(name)]) for name in present)


def _holders(name: str) -> str:
    return f"/sys/block/{name}/holders"


def array_paths(name: str, md_entries: Sequence[str]) -> tuple[str, ...]:
    """Every file that ``parse_array`` wants, given the names in the array's md folder."""
    member_folders = [entry for entry in md_entries if entry.startswith(_MEMBER_PREFIX)]
    files = [*ARRAY_FILES, *(f"{folder}/{file}" for folder in member_folders for file in MEMBER_FILES)]
    return (f"/sys/block/{name}/size", *(md_path(name, file) for file in files))


def _level_word(text: str) -> str:
    """Until an array is started md shows its level as a number (level_show in drivers/md/md.c)."""
    return f"raid{text}" if text.isdecimal() else text


def parse_array(
    name: str, md_entries: Sequence[str], texts: Mapping[str, str | None], holders: Sequence[str] = ()
) -> ArrayStatus:
    """The state told by ``texts`` (path -> content, None: unreadable)."""

    def text(file: str) -> str:
        return (texts.get(md_path(name, file)) or "").strip()

    location = text("bitmap/location")
    prefixed = [entry for entry in md_entries if entry.startswith(_MEMBER_PREFIX)]
    members = (parse_member(entry, {file: text(f"{entry}/{file}") for file in MEMBER_FILES}) for entry in prefixed)
    return ArrayStatus(
        name=name,
        level=_level_word(text("level")),
        state=_word(ArrayState, text("array_state")),
        raid_disks=parse_count(text("raid_disks")) or 0,
        degraded_count=parse_count(text("degraded")) or 0,
        size_bytes=(parse_count(texts.get(f"/sys/block/{name}/size") or "") or 0) * SECTOR_BYTES,
        chunk_bytes=parse_count(text("chunk_size")) or None,
        layout_number=parse_count(text("layout")),
        component_size_kib=parse_count(text("component_size")) or None,
        metadata_version=text("metadata_version"),
        consistency_policy=text("consistency_policy"),
        sync_action=_word(SyncAction, text("sync_action")) if text("sync_action") else SyncAction.NONE,
        sync_progress=parse_progress(text("sync_completed")),
        sync_speed_kib_per_second=parse_count(text("sync_speed")),
        mismatch_sectors=parse_count(text("mismatch_cnt")),
        bitmap_location=None if location in ("", "none") else location,
        reshape_position_sectors=parse_count(text("reshape_position")),
        resync_start_sectors=parse_count(text("resync_start")),
        uuid=text("uuid").replace("-", ""),
        members=tuple(sorted(members, key=_slot_order)),
        holders=tuple(holders),
    )


def parse_member(folder: str, texts: Mapping[str, str]) -> MemberStatus:
    """One member from its folder's name (``dev-sdb``) and the text of ``MEMBER_FILES``."""
    return MemberStatus(
        device=node_of(folder.removeprefix(_MEMBER_PREFIX)),
        slot=parse_count(texts.get("slot", "")),
        flags=parse_flags(texts.get("state", "")),
        error_count=parse_count(texts.get("errors", "")),
        data_offset_sectors=parse_count(texts.get("offset", "")),
        data_size_kib=parse_count(texts.get("size", "")),
    )


def parse_count(text: str) -> int | None:
    """A whole number; None for ``none``, nothing, or a word. During a reshape sysfs adds the old value in brackets."""
    words = text.split()
    return int(words[0]) if words and words[0].isdecimal() else None


def parse_flags(text: str) -> frozenset[str]:
    """The comma-separated words of dev-*/state."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def parse_progress(text: str) -> SyncProgress | None:
    """``1024 / 1019904``; None for ``none`` and ``delayed``."""
    done, slash, total = text.partition("/")
    done_sectors, total_sectors = parse_count(done), parse_count(total)
    if not slash or done_sectors is None or total_sectors is None:
        return None
    return SyncProgress(done_sectors, total_sectors)


def _word(words: type[E], text: str) -> E:
    try:
        return words(text)
    except ValueError:
        return words("unknown")


def _slot_order(member: MemberStatus) -> tuple[bool, int, str]:
    return (member.slot is None, member.slot or 0, member.device)
