"""The state of arrays from sysfs (kernel: Documentation/admin-guide/md.rst), one round trip per reading.

Parsing is separate from reading. Every file may be missing (raid0 has no ``degraded``) and every word may be unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from lab.arrays.level_names import layout_name
from lab.arrays.levels import LevelName
from lab.arrays.names import is_array_name, md_path, node_of
from lab.arrays.status import ArrayState, ArrayStatus, MemberStatus, SyncAction, SyncProgress
from lab.errors import ArrayError
from lab.machine.api import Machine
from lab.units import KIB, SECTOR_BYTES

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
MEMBER_FILES = ("state", "slot", "errors", "offset", "size", "bad_blocks")
_MEMBER_PREFIX = "dev-"
E = TypeVar("E", bound=StrEnum)


def read_array(machine: Machine, name: str) -> ArrayStatus:
    """State of one array. Raises ArrayError if the machine has no such array."""
    for status in read_arrays(machine, (name,)):
        return status
    raise ArrayError(f"the machine has no array {name}", hint="create or assemble it first")


def read_arrays(machine: Machine, names: Sequence[str] | None = None) -> tuple[ArrayStatus, ...]:
    """State of every array of the machine, sorted by number, or of the existing ones among ``names``.

    An array in state ``clear`` is left out: it has no members, or was stopped. md removes its folder, and those of its
    members, shortly after ``mdadm --stop`` has ended, and refuses reads meanwhile (mddev_put() and md_attr_show() in
    drivers/md/md.c).
    """
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
    standing = (
        name for name in present if (texts[md_path(name, "array_state")] or "clear").strip() != ArrayState.CLEAR
    )
    return tuple(parse_array(name, folders[md_path(name)], texts, folders[_holders(name)]) for name in standing)


def _holders(name: str) -> str:
    return f"/sys/block/{name}/holders"


def array_paths(name: str, md_entries: Sequence[str]) -> tuple[str, ...]:
    """Every file that ``parse_array`` needs, given the names in the array's md folder."""
    member_folders = [entry for entry in md_entries if entry.startswith(_MEMBER_PREFIX)]
    files = [*ARRAY_FILES, *(f"{folder}/{file}" for folder in member_folders for file in MEMBER_FILES)]
    return (f"/sys/block/{name}/size", *(md_path(name, file) for file in files))


def _level_word(text: str) -> str:
    """Until an array is started md reports its level as a number (level_show in drivers/md/md.c)."""
    return f"raid{text}" if text.isdecimal() else text


def parse_array(
    name: str, md_entries: Sequence[str], texts: Mapping[str, str | None], holders: Sequence[str] = ()
) -> ArrayStatus:
    """The state from ``texts`` (path -> content, None: unreadable)."""

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
        members=tuple(sorted(members, key=lambda each: (each.slot is None, each.slot or 0, each.device))),
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
        bad_blocks=parse_stretches(texts.get("bad_blocks", "")),
    )


def parse_stretches(text: str) -> tuple[tuple[int, int], ...]:
    """Lines like ``4096 8``: first sector and number of sectors; a line truncated at the end of a page is skipped."""
    lines = (line.split() for line in text.splitlines())
    return tuple(
        (int(words[0]), int(words[1])) for words in lines if len(words) == 2 and all(map(str.isdecimal, words))
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


@dataclass(frozen=True, slots=True)
class ArrayDetail:
    """Properties that mere use of an array does not change, and its state in words. None: not applicable."""

    device: str
    level: str
    metadata_version: str
    array_size_kib: int
    used_device_size_kib: int | None
    """Of each member; None for levels that may use members unequally (raid0)."""
    raid_devices: int
    total_devices: int
    chunk_kib: int | None
    layout: str | None
    consistency_policy: str
    state: str
    uuid: str | None
    array_name: str | None
    """The name in the superblock, such as ``any:0``."""


def read_detail(machine: Machine, name: str) -> ArrayDetail:
    """Details of one array. Raises ArrayError if the machine has no such array."""
    status = read_array(machine, name)
    export = machine.run(("mdadm", "--detail", "--export", status.device)).stdout
    return detail_of(status, parse_export(export))


def detail_of(status: ArrayStatus, export: dict[str, str]) -> ArrayDetail:
    """Details from one status and the variables that mdadm exports."""
    return ArrayDetail(
        device=status.device,
        level=status.level,
        metadata_version=status.metadata_version,
        array_size_kib=status.size_bytes // KIB,
        used_device_size_kib=None if status.level == LevelName.RAID0 else status.component_size_kib,
        raid_devices=status.raid_disks,
        total_devices=len(status.members),
        chunk_kib=None if status.chunk_bytes is None else status.chunk_bytes // KIB,
        layout=_layout(status),
        consistency_policy=status.consistency_policy,
        state=status.state_words,
        uuid=export.get("MD_UUID"),
        array_name=export.get("MD_NAME"),
    )


def parse_export(text: str) -> dict[str, str]:
    """``KEY=value`` lines of ``mdadm --detail --export`` and ``--examine --export``."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _layout(status: ArrayStatus) -> str | None:
    if status.layout_number is None or status.level not in tuple(LevelName):
        return None
    return layout_name(LevelName(status.level), status.layout_number)


MDSTAT = "/proc/mdstat"
_ARRAY = re.compile(r"^(md\d+)\s*:")
_PROGRESS = re.compile(r"(resync|recovery|reshape|check)\s*=\s*[\d.]+%\s*\((\d{1,18})/(\d{1,18})\)")


@dataclass(frozen=True, slots=True)
class MdStat:
    """One reading of /proc/mdstat: it shows changes and the progress of syncs, for all arrays.

    Its progress is finer than md/sync_completed, which moves in steps. Source of the format: md_seq_show() and
    status_resync() in drivers/md/md.c.
    """

    shape: str
    """Equal in two readings if only progress, speeds and the fill of bitmaps differ."""
    progress: dict[str, SyncProgress]
    """Array -> progress of its sync."""
    names: tuple[str, ...]
    """The arrays, as listed."""


def parse_mdstat(text: str) -> MdStat:
    """Parse the file's text; unknown lines only affect ``shape``."""
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
