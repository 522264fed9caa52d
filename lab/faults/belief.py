"""What is known of an array at a moment of a history: its members, what was done to them, which blocks may be wrong.

The exceptions to "every acknowledged write is there" are few, each bound to the very blocks that it can hit:

    write hole          blocks of strips that were being written, on a member that is missing then, with the policies
                        resync and bitmap: dirty and degraded (md(4), start_dirty_degraded)
    PPL, written part   blocks that were being written themselves, on a member that is missing then
                        (Documentation/driver-api/md/raid5-ppl.rst)
    corruption          what was spoiled on purpose, until it is written again: no level of md knows which copy is
                        right (md(4), SCRUBBING AND MISMATCHES)
    known bugs          of md itself (known.py)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from lab.arrays.levels import LevelName
from lab.faults.block_map import BLOCK_BYTES, BlockMap
from lab.faults.guest.record import ALL, EVERYTHING
from lab.faults.history import FaultHistory, HistoryPolicy
from lab.faults.known import (
    BITMAP_CHUNK,
    COPY_LEVELS,
    JOURNAL_LEFT_OUT,
    PPL_FLUSH,
    PPL_LEFT_OUT,
    RAID1_REBUILD,
    READDED_SPARE,
    REPLACED_BESIDE_REBUILD,
    WRITE_BACK_FLUSH,
    KnownBug,
)
from lab.units import SECTOR_BYTES

HOLE, WRITTEN, CORRUPTION = "write hole", "written part of a lost member", "corruption on purpose"


@dataclass(frozen=True, slots=True)
class Standing:
    """What md says of one drive: its slot (-1: none) and the words of its state."""

    slot: int
    words: frozenset[str]

    @property
    def is_in_sync(self) -> bool:
        # One with bad blocks that are not recorded yet is told as faulty too, and is in sync all the same (state_show()
        # in md.c).
        return self.slot >= 0 and "in_sync" in self.words

    @property
    def is_waiting(self) -> bool:
        """A spare, or one that is being rebuilt."""
        return "spare" in self.words and "faulty" not in self.words

    @property
    def is_being_replaced(self) -> bool:
        """It takes over from a member that is there still."""
        return self.is_waiting and "replacement" in self.words and self.slot >= 0

    def __str__(self) -> str:
        return ",".join(sorted(self.words)) + (f" in slot {self.slot}" if self.slot >= 0 else "")


@dataclass
class ArrayBelief:
    """Follows the steps of one history."""

    history: FaultHistory
    drives: dict[int, Standing] = field(default_factory=dict)
    sure: set[int] = field(default_factory=set)
    """Drives that were in sync when md last had nothing to do: all superblocks know it."""
    excused: set[int] = field(default_factory=set)
    """Drives that may be failed: something was done to them."""
    pulled: set[int] = field(default_factory=set)
    torn: set[int] = field(default_factory=set)
    """Strips in which parity may not fit the data."""
    unlogged: set[int] = field(default_factory=set)
    """Strips that were being written while a member was rebuilt: a journal has nothing of them."""
    open_blocks: set[int] = field(default_factory=set)
    """Blocks that were being written when that began."""
    loose: dict[int, str] = field(default_factory=dict)
    """Blocks that may hold anything, and why."""
    bad_pages: set[tuple[int, int]] = field(default_factory=set)
    """(slot, page) that md itself knows to be bad (md(4), BAD BLOCK LIST)."""
    members: int = 0
    is_broken: bool = False
    """md was asked to fail a member that it cannot do without: it refuses writes from then on (MD_BROKEN, raid1_error()
    in drivers/md/raid1.c).
    """
    has_died: bool = False
    """More members failed than it can do without: a start by force marks it as clean, and no log is replayed."""
    was_rebuilding: bool = False
    """A member was being rebuilt when the power failed."""
    unflushed: KnownBug | None = None
    """By which known bug flushed data may be lost in a power cut that is not settled yet."""
    stale_by: KnownBug | None = None
    """The known bug by which a member was taken that has not all that was written."""
    readded: set[int] = field(default_factory=set)
    """Drives that were added again while all slots were taken."""
    is_reshaping: bool = False
    reshaped_blocks: int = 0
    """How many blocks of the array a reshape has moved."""
    is_enlarged: bool = False
    """Members are larger than they were, and the new part may not be synced yet."""
    lost_new_part: bool = False
    """It was started meanwhile: by a known bug the new part is never synced."""
    has_synced: bool = True
    """Whether parity and copies have ever fitted everywhere."""
    is_sync_due: bool = False
    """md's last answer named a part of the array that no resync has reached yet."""

    def __post_init__(self) -> None:
        self.shape = self.history.shape
        self.members = self.shape.members
        self.maps = {grown: self.shape.block_map(grown) for grown in (0, 1)}
        self.has_synced = not self.shape.has_junk
        in_sync = frozenset({"in_sync"})
        self.drives = {drive: Standing(drive, in_sync) for drive in range(self.members)}
        self.sure = set(self.drives)

    @property
    def map(self) -> BlockMap:
        return self.maps[1 if self.members > self.shape.members and not self.is_reshaping else 0]

    @property
    def has_parity(self) -> bool:
        return self.map.has_parity

    @property
    def in_sync(self) -> set[int]:
        return {drive for drive, each in self.drives.items() if each.is_in_sync}

    @property
    def missing(self) -> frozenset[int]:
        """Slots of which nothing can be had: not in sync, or pulled and not noticed yet."""
        there = {each.slot for drive, each in self.drives.items() if each.is_in_sync and drive not in self.pulled}
        return frozenset(range(self.members)) - there

    def slots_of(self, drives: Collection[int]) -> frozenset[int]:
        """The slots that md last named for these drives."""
        return frozenset(each.slot for drive, each in self.drives.items() if drive in drives and each.slot >= 0)

    @property
    def is_alive(self) -> bool:
        """Whether the level arithmetic says that all data are there."""
        return self.shape.raid.survives(self.missing, self.members)

    @property
    def is_consistent(self) -> bool:
        """Whether parity and copies must fit everywhere."""
        return self.has_synced and not (
            self.torn
            or self.unlogged
            or self.loose
            or self.bad_pages
            or self.is_broken
            or self.lost_new_part
            or self.stale_by
        )

    def on_line(self, line: str) -> None:
        """A line for the drives: those that are pulled are told, and those that are back."""
        word, _, rest = line.partition(" ")
        if word == "pull":
            self.pulled.add(int(rest))
            self.excused.add(int(rest))
            self.loosen()
        elif word == "plug":
            self.pulled.discard(int(rest))

    def observe(self, seen: dict[str, Any]) -> None:
        """Take over what md says."""
        state = seen.get("state", {})
        if not state:
            return
        self.drives = {
            int(node.removeprefix("/dev/drive")): Standing(slot, frozenset(words.split(",")))
            for node, (slot, words, *_) in seen["members"].items()
            if "journal" not in words.split(",")
        }
        self.members = int((state.get("raid_disks") or "0").split()[0]) or self.members
        position = state.get("reshape_position", "none")
        self.is_reshaping = position != "none"
        self.reshaped_blocks = int(position) * SECTOR_BYTES // BLOCK_BYTES if self.is_reshaping else 0
        self.bad_pages = set(_bad_pages(seen["members"].values()))
        self.is_sync_due = state.get("resync_start", "none") != "none"
        is_more_due = bool(self.missing) or self.is_sync_due
        if self.has_parity and is_more_due and any(each.is_being_replaced for each in self.drives.values()):
            self.stale_by = REPLACED_BESIDE_REBUILD
        if taken := self.readded & self.in_sync:
            self.readded -= taken
            self.stale_by = READDED_SPARE
        self.loosen()

    def on_enlarged(self, *, is_by_member: bool) -> None:
        """There is a new part, which is to be synced: with a bitmap that may be forgotten."""
        self.is_enlarged = True
        self.lost_new_part |= is_by_member and self.shape.policy is HistoryPolicy.BITMAP

    def on_readded(self, drive: int) -> None:
        """Md has taken a former member back: where no slot is vacant, only as a spare."""
        if not self.missing and self.shape.policy is HistoryPolicy.BITMAP:
            self.readded.add(drive)

    def cut(self, blocks: Iterable[int], kind: str) -> None:
        """The power failed while these blocks were being written; ``kind`` is what was left (guest/record.py)."""
        blocks = set(blocks)
        self.tear(blocks, is_cut=True)
        self.is_broken = False
        self.was_rebuilding = any(each.is_waiting and each.slot >= 0 for each in self.drives.values())
        if self.was_rebuilding and self.shape.policy.has_journal:
            self.unlogged |= self.map.strips(blocks)
        if kind not in (ALL, EVERYTHING):
            self.unflushed = {HistoryPolicy.PPL: PPL_FLUSH, HistoryPolicy.WRITE_BACK: WRITE_BACK_FLUSH}.get(
                self.shape.policy
            )

    def on_settled(self, bad: Collection[int]) -> None:
        """All was read after a power cut: what is right now, stays right, where there are no copies."""
        if self.unflushed:
            self.loose |= dict.fromkeys(bad, str(self.unflushed))
        self.unflushed = None
        if self.has_parity:
            self.loose = {block: reason for block, reason in self.loose.items() if block in set(bad)}

    def tear(self, blocks: Iterable[int], *, is_cut: bool) -> None:
        """These blocks were being written when the power failed, or the array died."""
        blocks = set(blocks)
        self.open_blocks |= blocks
        self.has_died |= not is_cut
        # A journal has whole stripes, hence it closes the hole (raid5-cache.rst).
        if self.has_parity and not (is_cut and self.shape.policy.has_journal):
            for each in self.maps.values():
                self.torn |= each.strips(blocks)

    def loosen(self) -> None:
        """What was being written and now lies on a member that is missing may be anything."""
        self.loose |= dict.fromkeys(self.map.blocks_in(self.unlogged, self.missing), str(JOURNAL_LEFT_OUT))
        if not self.torn:
            return
        exposed = self.map.blocks_in(self.torn, self.missing)
        if self.shape.policy is HistoryPolicy.PPL and not self.has_died:
            self.loose |= dict.fromkeys(exposed & self.open_blocks, WRITTEN)
            if self.was_rebuilding:
                self.loose |= dict.fromkeys(exposed - self.open_blocks, str(PPL_LEFT_OUT))
        else:
            self.loose |= dict.fromkeys(exposed, HOLE)

    def on_started(self) -> None:
        """A log has been replayed: what it protects is whole again. And what a known bug of md leaves behind."""
        self.lost_new_part |= self.is_enlarged and self.shape.policy is HistoryPolicy.BITMAP
        is_rebuilding = any(each.is_waiting for each in self.drives.values()) and bool(self.missing)
        if is_rebuilding and self.shape.raid.name is LevelName.RAID1 and len(self.in_sync) == 1:
            self.loose |= dict.fromkeys(self.open_blocks, str(RAID1_REBUILD))
        elif is_rebuilding and self.shape.raid.name in COPY_LEVELS and self.shape.policy is HistoryPolicy.BITMAP:
            self.loose |= dict.fromkeys(self.open_blocks, str(BITMAP_CHUNK))
        if self.shape.policy is HistoryPolicy.PPL:
            self.torn, self.open_blocks = set(), set()
        self.has_died = False

    def on_filled(self, blocks: Iterable[int] | None = None) -> None:
        """These blocks, or all, were written again."""
        if blocks is None:
            self.torn, self.unlogged, self.open_blocks = set(), set(), set()
            self.loose, self.stale_by = {}, None
        else:
            for block in blocks:
                self.loose.pop(block, None)

    def on_rest(self) -> None:
        """Md has done all that it had to do."""
        self.sure = self.in_sync - self.pulled
        self.excused = self.excused & self.pulled
        if not self.missing and not self.pulled:
            self.torn, self.open_blocks = set(), set()
            self.has_synced, self.is_enlarged = True, False


def _bad_pages(members: Iterable[list[Any]]) -> Iterable[tuple[int, int]]:
    for slot, _, *more in members:
        for first, count in more[0] if more else ():
            start, end = first * SECTOR_BYTES // BLOCK_BYTES, -(-(first + count) * SECTOR_BYTES // BLOCK_BYTES)
            yield from ((slot, page) for page in range(start, end))
