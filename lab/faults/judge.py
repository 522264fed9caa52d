"""Judges a history: compares what md did, and what the oracle read, with the level's arithmetic and md's promises.

The expected state follows from the acts and from the member states that md reports. The few exceptions to "every
acknowledged write is present" are each limited to the blocks that they can affect:

    write hole          blocks of strips that were being written, on a member that is missing, with the policies resync
                        and bitmap, if the array is dirty and degraded (md(4), start_dirty_degraded)
    PPL, written part   blocks that were themselves being written, on a member that is missing
                        (Documentation/driver-api/md/raid5-ppl.rst)
    corruption          deliberately corrupted data, until they are rewritten, because no level of md knows which copy
                        is correct (md(4), SCRUBBING AND MISMATCHES)
    known bugs          those of md and mdadm. Each explains only the damage that it can cause, under the conditions
                        under which it occurs, and is counted by name (docs/findings.md)

A block may be unreadable only if the level cannot reconstruct it without the missing members. Other differences
are a wrong count of missing members in sysfs, a rebuild that does not start, a member that is left out, a scrub that
counts mismatches where none exist or misses existing ones, and a complaint in the kernel log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lab.arrays.levels import LevelName
from lab.arrays.superblock_program import JOURNAL_ROLE, SPARE_ROLE
from lab.faults.arrays import BLOCK_BYTES, BlockMap
from lab.faults.guest.ledger import ALL, EVERYTHING, LOST, UNREADABLE
from lab.faults.history import Act, ActKind, FaultHistory, HistoryPolicy, PlannedStep, Purpose
from lab.units import SECTOR_BYTES


class KnownBug(StrEnum):
    """Known bugs in md and mdadm, under the names that docs/findings/ and promises.toml use."""

    RAID1_REBUILD = "known: raid1-rebuild"
    BITMAP_CHUNK = "known: bitmap-chunk"
    NEW_PART = "known: new-part"
    RESHAPE_READS = "known: reshape-reads"
    PPL_FLUSH = "known: ppl-flush"
    PPL_LEFT_OUT = "known: ppl-left-out"
    JOURNAL_LEFT_OUT = "known: journal-left-out"
    WRITE_BACK_FLUSH = "known: write-back-flush"
    FORCE_NOT_CLEAN = "known: force-not-clean"
    FORCE_TAKES_STALE = "known: force-takes-stale"
    GOOD_MEMBERS_IGNORED = "known: good-members-ignored"
    JOURNAL_AHEAD = "known: journal-ahead"
    SPARE_IN_SYNC = "known: spare-in-sync"
    REPLACED_BESIDE_REBUILD = "known: replaced-beside-rebuild"
    READDED_SPARE = "known: re-added-spare"
    BAD_BLOCK_REBUILD = "known: bad-block-rebuild"


COPY_LEVELS = (LevelName.RAID1, LevelName.RAID10)
HOLE, WRITTEN, CORRUPTION = "write hole", "written part of a lost member", "corruption on purpose"


@dataclass(frozen=True, slots=True)
class DriveState:
    """The state of one drive as md reports it: its slot (-1 if none) and the flags in its ``state`` attribute."""

    slot: int
    words: frozenset[str]

    @property
    def is_in_sync(self) -> bool:
        # md also reports a member in sync as faulty while it has unacknowledged bad blocks (state_show() in md.c).
        return self.slot >= 0 and "in_sync" in self.words

    @property
    def is_waiting(self) -> bool:
        """Whether it is a spare, or a member that is being rebuilt."""
        return "spare" in self.words and "faulty" not in self.words

    @property
    def is_being_replaced(self) -> bool:
        """Whether it is replacing a member that is still in the array."""
        return self.is_waiting and "replacement" in self.words and self.slot >= 0

    def __str__(self) -> str:
        return ",".join(sorted(self.words)) + (f" in slot {self.slot}" if self.slot >= 0 else "")


@dataclass
class ExpectedArray:
    """The expected state of the array, updated with each step of a history."""

    history: FaultHistory
    drives: dict[int, DriveState] = field(default_factory=dict)
    sure: set[int] = field(default_factory=set)
    """Drives that were in sync when md was last idle, as all superblocks record."""
    waived: set[int] = field(default_factory=set)
    """Drives that may have failed because an act or a pull affected them."""
    pulled: set[int] = field(default_factory=set)
    torn: set[int] = field(default_factory=set)
    """Strips whose parity may not match the data."""
    unlogged: set[int] = field(default_factory=set)
    """Strips that were being written while a member was being rebuilt, for which the journal has no entry."""
    open_blocks: set[int] = field(default_factory=set)
    """Blocks that were being written when their strips became ``torn``."""
    at_risk: dict[int, str] = field(default_factory=dict)
    """Block that may hold anything -> reason."""
    bad_pages: set[tuple[int, int]] = field(default_factory=set)
    """(slot, page) in md's bad block lists (md(4), BAD BLOCK LIST)."""
    members: int = 0
    is_broken: bool = False
    """Whether md was asked to fail a member that the array cannot lose, and now refuses writes (MD_BROKEN,
    raid1_error() in drivers/md/raid1.c).
    """
    has_died: bool = False
    """Whether more members failed than the array can lose. A forced start marks it as clean and replays no log."""
    was_rebuilding: bool = False
    """Whether a member was being rebuilt when the power failed."""
    unflushed: KnownBug | None = None
    """The known bug that may lose flushed data in a power cut whose result has not yet been read."""
    stale_by: KnownBug | None = None
    """The known bug by which a member with stale data became a member in sync."""
    readded: set[int] = field(default_factory=set)
    """Drives that were re-added while all slots were taken."""
    is_reshaping: bool = False
    reshaped_blocks: int = 0
    """Number of blocks of the array that a reshape has moved."""
    is_enlarged: bool = False
    """Whether the members were enlarged, and their new part may still have to be synced."""
    lost_new_part: bool = False
    """Whether the array was started before its new part was synced, which a known bug then leaves unsynced."""
    has_synced: bool = True
    """Whether parity and copies have been consistent everywhere at some time."""
    is_sync_due: bool = False
    """Whether a resync was incomplete when md last reported its state."""

    def __post_init__(self) -> None:
        self.shape = self.history.shape
        self.members = self.shape.members
        self.maps = {grown: self.shape.block_map(grown) for grown in (0, 1)}
        self.has_synced = not self.shape.has_junk
        in_sync = frozenset({"in_sync"})
        self.drives = {drive: DriveState(drive, in_sync) for drive in range(self.members)}
        self.sure = set(self.drives)

    @property
    def map(self) -> BlockMap:
        return self.maps[1 if self.members > self.shape.members and not self.is_reshaping else 0]

    @property
    def in_sync(self) -> set[int]:
        return {drive for drive, each in self.drives.items() if each.is_in_sync}

    @property
    def missing(self) -> frozenset[int]:
        """Slots without readable data: their members are not in sync, or were pulled and md has not noticed."""
        there = {each.slot for drive, each in self.drives.items() if each.is_in_sync and drive not in self.pulled}
        return frozenset(range(self.members)) - there

    @property
    def is_alive(self) -> bool:
        """Whether, by the level's arithmetic, all data can be read."""
        return self.shape.raid.survives(self.missing, self.members)

    @property
    def is_consistent(self) -> bool:
        """Whether parity and copies must be consistent everywhere."""
        unsure = (self.torn, self.unlogged, self.at_risk, self.bad_pages)
        return self.has_synced and not any((*unsure, self.is_broken, self.lost_new_part, self.stale_by))

    def on_line(self, line: str) -> None:
        """Update the set of pulled drives from a line that was sent to the drives' driver."""
        word, _, rest = line.partition(" ")
        if word == "pull":
            self.pulled.add(int(rest))
            self.waived.add(int(rest))
            self.mark_at_risk()
        elif word == "plug":
            self.pulled.discard(int(rest))

    def observe(self, seen: dict[str, Any]) -> None:
        state = seen.get("state", {})
        if not state:
            return
        self.drives = {
            int(node.removeprefix("/dev/drive")): DriveState(slot, frozenset(words.split(",")))
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
        if self.map.has_parity and is_more_due and any(each.is_being_replaced for each in self.drives.values()):
            self.stale_by = KnownBug.REPLACED_BESIDE_REBUILD
        if taken := self.readded & self.in_sync:
            self.readded -= taken
            self.stale_by = KnownBug.READDED_SPARE
        self.mark_at_risk()

    def on_enlarged(self, *, is_by_member: bool) -> None:
        """Note that a new part of the array must be synced; with a bitmap, a known bug may leave that part unsynced."""
        self.is_enlarged = True
        self.lost_new_part |= is_by_member and self.shape.policy is HistoryPolicy.BITMAP

    def on_readded(self, drive: int) -> None:
        """Note that md accepted a former member; if no slot is vacant, the drive is only a spare."""
        if not self.missing and self.shape.policy is HistoryPolicy.BITMAP:
            self.readded.add(drive)

    def cut(self, blocks: Iterable[int], kind: str) -> None:
        """Note a power cut during writes to these blocks; ``kind`` is what it left on the drives (guest/ledger.py)."""
        blocks = set(blocks)
        self.tear(blocks, is_cut=True)
        self.was_rebuilding = any(each.is_waiting and each.slot >= 0 for each in self.drives.values())
        if self.was_rebuilding and self.shape.policy.has_journal:
            self.unlogged |= self.map.strips(blocks)
        if kind not in (ALL, EVERYTHING):
            self.unflushed = {
                HistoryPolicy.PPL: KnownBug.PPL_FLUSH,
                HistoryPolicy.WRITE_BACK: KnownBug.WRITE_BACK_FLUSH,
            }.get(self.shape.policy)

    def on_settled(self, bad: Collection[int]) -> None:
        """Note that all blocks were read after a power cut.

        At levels without copies, a block that is correct now remains correct.
        """
        if self.unflushed:
            self.at_risk |= dict.fromkeys(bad, str(self.unflushed))
        self.unflushed = None
        if self.map.has_parity:
            self.at_risk = {block: reason for block, reason in self.at_risk.items() if block in set(bad)}

    def tear(self, blocks: Iterable[int], *, is_cut: bool) -> None:
        """Note that these blocks were being written when the power failed (``is_cut``) or the array failed."""
        blocks = set(blocks)
        self.open_blocks |= blocks
        self.has_died |= not is_cut
        # A journal contains full stripes, so it closes the write hole (raid5-cache.rst).
        if self.map.has_parity and not (is_cut and self.shape.policy.has_journal):
            for each in self.maps.values():
                self.torn |= each.strips(blocks)

    def mark_at_risk(self) -> None:
        """Mark the blocks of incompletely written strips on missing members, because they may hold anything."""
        self.at_risk |= dict.fromkeys(self.map.blocks_in(self.unlogged, self.missing), KnownBug.JOURNAL_LEFT_OUT.value)
        if not self.torn:
            return
        exposed = self.map.blocks_in(self.torn, self.missing)
        if self.shape.policy is HistoryPolicy.PPL and not self.has_died:
            self.at_risk |= dict.fromkeys(exposed & self.open_blocks, WRITTEN)
            if self.was_rebuilding:
                self.at_risk |= dict.fromkeys(exposed - self.open_blocks, KnownBug.PPL_LEFT_OUT.value)
        else:
            self.at_risk |= dict.fromkeys(exposed, HOLE)

    def on_started(self) -> None:
        """Note that the array was started.

        A replayed log has repaired the strips that it protects, but known bugs in md may leave damage.
        """
        self.lost_new_part |= self.is_enlarged and self.shape.policy is HistoryPolicy.BITMAP
        is_rebuilding = any(each.is_waiting for each in self.drives.values()) and bool(self.missing)
        if is_rebuilding and self.shape.raid.name is LevelName.RAID1 and len(self.in_sync) == 1:
            self.at_risk |= dict.fromkeys(self.open_blocks, KnownBug.RAID1_REBUILD.value)
        elif is_rebuilding and self.shape.raid.name in COPY_LEVELS and self.shape.policy is HistoryPolicy.BITMAP:
            self.at_risk |= dict.fromkeys(self.open_blocks, KnownBug.BITMAP_CHUNK.value)
        if self.shape.policy is HistoryPolicy.PPL:
            self.torn, self.open_blocks = set(), set()
        self.has_died = False

    def on_filled(self, blocks: Iterable[int] | None = None) -> None:
        if blocks is None:
            self.torn, self.unlogged, self.open_blocks = set(), set(), set()
            self.at_risk, self.stale_by = {}, None
        else:
            for block in blocks:
                self.at_risk.pop(block, None)

    def on_rest(self) -> None:
        self.sure = self.in_sync - self.pulled
        self.waived = self.waived & self.pulled
        if not self.missing and not self.pulled:
            self.torn, self.open_blocks = set(), set()
            self.has_synced, self.is_enlarged = True, False


def _bad_pages(members: Iterable[list[Any]]) -> Iterable[tuple[int, int]]:
    for slot, _, *more in members:
        for first, count in more[0] if more else ():
            start, end = first * SECTOR_BYTES // BLOCK_BYTES, -(-(first + count) * SECTOR_BYTES // BLOCK_BYTES)
            yield from ((slot, page) for page in range(start, end))


DECLARED = "declared lost"
REFUSED = "writes refused"
MOST_LISTED = 4
"""Maximum number of blocks listed for one difference."""


@dataclass(frozen=True, slots=True)
class HistoryDifference:
    """A deviation from the expected state; a shrunk history must still show the same ``kind``."""

    kind: str
    act: int
    text: str


@dataclass
class HistoryJudge:
    """Evaluates the documents of one history, in order."""

    history: FaultHistory
    differences: list[HistoryDifference] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    """Number of acts that mdadm or md refused, by kind."""
    failures: int = 0
    is_scrub_refused: bool = False
    has_spoiled: bool = False
    """Whether the last corruption changed data of a member in sync, not of a spare."""
    has_replaced_beside: bool = False
    """Whether a member was replaced while another slot was being rebuilt."""
    is_unread: bool = False
    """Whether nothing has been read since the array was started."""

    def __post_init__(self) -> None:
        self.expected = ExpectedArray(self.history)
        self.before: dict[int, DriveState] = {}
        self.missing_before: frozenset[int] = frozenset()
        self.was_whole = False

    def differ(self, kind: str, step: PlannedStep, text: str) -> None:
        self.differences.append(HistoryDifference(kind, step.act, text))

    def hear(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if "broke" in seen:
            self.differ("could not be played", step, f"{step.step[0]}: {seen['broke']}")
            return
        if step.step[0] == "line":
            self.expected.on_line(step.step[1])
        elif step.step[0] == "all_right":
            self.expected.pulled.clear()
        act = self._act(step)
        excused = (ActKind.FAIL, ActKind.REMOVE, ActKind.REPLACE, ActKind.READD, ActKind.ADD)
        if act and step.purpose is Purpose.TOOL and act.kind in excused:
            self.expected.waived.add(act.drive)
        self.before, self.missing_before = dict(self.expected.drives), self.expected.missing
        # A reshape of RAID 10 and an increase in size add a new part, which is synced afterwards.
        self.was_whole = not (
            self.missing_before or self.expected.is_sync_due or self.expected.is_enlarged or self.expected.is_reshaping
        )
        if "members" in seen:
            self.expected.observe(seen)
            self.has_replaced_beside |= self.expected.stale_by is KnownBug.REPLACED_BESIDE_REBUILD
            if step.purpose is not Purpose.START and seen["members"]:
                self._watch_members(step, seen)
        getattr(self, "_on_" + step.purpose.value)(step, seen)

    def _act(self, step: PlannedStep) -> Act | None:
        return self.history.acts[step.act] if 0 <= step.act < len(self.history.acts) else None

    def _watch_members(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        """Check that no member went out of sync without cause, and that md counts the missing members correctly."""
        expected = self.expected
        for drive, old in self.before.items():
            new = expected.drives.get(drive)
            is_waived = drive in expected.waived or "want_replacement" in old.words
            if old.is_in_sync and not (new and new.is_in_sync) and not is_waived:
                text = f"drive{drive} was in sync and is {new or 'gone'}, although nothing affected it"
                self.differ("member lost", step, text)
        filled = {each.slot for each in expected.drives.values() if each.is_in_sync}
        degraded = seen["state"].get("degraded", "0")
        if not expected.is_reshaping and int(degraded) != expected.members - len(filled):
            text = f"degraded is {degraded}, but {len(filled)} of {expected.members} slots have a member in sync"
            self.differ("degraded miscounted", step, text)

    def _on_part(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if step.step[0] == "open":
            self.failures = 0
        if "failures" in seen:
            self._on_failures(step, seen["failures"] - self.failures)
            self.failures = seen["failures"]

    def _on_seen(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        """Do nothing, because ``hear`` has already updated the state."""

    def _on_failures(self, step: PlannedStep, count: int) -> None:
        if count <= 0:
            return
        if self.expected.is_broken or not self.expected.is_alive:
            self.explained[REFUSED] += count
        else:
            self.differ("write failed", step, f"{count} writes failed, although enough members are present")

    def _on_create(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if seen.get("status") != 0:
            self.differ("not created", step, seen.get("output", "")[-300:])

    def _on_tool(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        refused = seen.get("refused") or (seen.get("output", "") if seen.get("status") else "")
        act = self._act(step)
        if "status" in seen and seen["status"] is None:
            self.differ("stood still", step, f"{' '.join(step.step[1])} did not end")
        self.is_scrub_refused = bool(refused)
        if act and not refused and act.kind is ActKind.READD:
            self.expected.on_readded(act.drive)
        # Growing RAID 10 by a member adds a part to each copy, which is synced after the reshape.
        is_raid10 = self.expected.shape.raid.name is LevelName.RAID10
        is_grown = act is not None and act.kind is ActKind.GROW and "--grow" in step.step[1] and is_raid10
        if act and not refused and (act.kind is ActKind.ENLARGE or is_grown):
            self.expected.on_enlarged(is_by_member=is_grown)
        if refused and act:
            self.rejected[act.kind] += 1
            if act.kind is ActKind.FAIL:
                self._on_fail_refused(step, act, refused)

    def _on_fail_refused(self, step: PlannedStep, act: Act, refused: str) -> None:
        """Judge the error (EBUSY) with which md answers a request to fail a member.

        RAID 1 and 10 keep a member that they cannot lose; other levels fail it, which breaks the array.
        """
        expected = self.expected
        member = expected.drives.get(act.drive)
        if not (member and member.is_in_sync):
            return
        # A drive that was pulled temporarily may have failed since md's last report.
        waived = {each.slot for drive, each in expected.drives.items() if drive in expected.waived and each.slot >= 0}
        lost = expected.missing | {member.slot} | waived
        if expected.shape.raid.survives(lost, expected.members):
            self.differ("fail refused", step, f"drive{act.drive}: {refused}, although the level survives its loss")
        elif not expected.map.has_parity:
            expected.is_broken = True

    def _on_cut(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        self._on_halt(step, seen)
        self.expected.cut(seen["open"], step.step[2])

    def _on_unsure(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        self.expected.tear(seen["open"], is_cut=False)

    def _on_halt(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if seen.get("refused"):
            self.differ("could not be stopped", step, seen["refused"])
        self.expected.is_broken = False

    def _on_start(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        expected, act = self.expected, self._act(step)
        was_cut = bool(act and act.kind is ActKind.CUT)
        was_alive = expected.shape.raid.survives(self.missing_before, expected.members)
        was_dead = bool(act and act.kind is ActKind.FORCE) or not was_alive
        if not seen.get("members"):
            if expected.is_alive or (act and act.kind is ActKind.FORCE):
                self.differ("not started", step, seen.get("output", "")[-300:])
            return
        if seen.get("forced") and "as it reports" in seen.get("refusal", "") and was_cut:
            self.explained[KnownBug.GOOD_MEMBERS_IGNORED.value] += 1
        elif seen.get("forced") and "stale journal" in seen.get("refusal", "") and self._is_journal_ahead(seen):
            self.explained[KnownBug.JOURNAL_AHEAD.value] += 1
        elif seen.get("forced") and not was_dead and not self._may_need_force():
            self.differ("started only by force", step, seen.get("refusal", "")[-300:])
        needed = len(self.missing_before) - expected.shape.raid.parity_members
        if was_dead and seen.get("output", "").count("forcing event count") > max(0, needed):
            expected.stale_by = KnownBug.FORCE_TAKES_STALE
        if was_cut and self._is_spare_taken(seen):
            expected.stale_by = KnownBug.SPARE_IN_SYNC
        if seen.get("forced", "--force") != "--force":
            if expected.shape.raid.name is LevelName.RAID4 and expected.members - 1 in expected.missing:
                self.explained[KnownBug.FORCE_NOT_CLEAN.value] += 1
            else:
                self.differ("not started by force", step, seen.get("refusal", "")[-300:])
        expected.on_started()
        self.is_unread = True
        self._compare_members(step, was_cut=was_cut, was_dead=was_dead)

    def _is_journal_ahead(self, seen: dict[str, Any]) -> bool:
        """Whether the power failed after the journal's superblock was written, but before any present member's was."""
        labels = list(seen["labels"].values())
        journal = next((events for events, role in labels if role == JOURNAL_ROLE), None)
        newest = max((events for events, role in labels if role < JOURNAL_ROLE), default=None)
        return journal is not None and newest is not None and journal == newest + 1

    def _is_spare_taken(self, seen: dict[str, Any]) -> bool:
        """Whether a drive that had yet to be rebuilt is in sync, although its superblock says that it is a spare."""
        return any(
            role == SPARE_ROLE
            and (drive := int(node.removeprefix("/dev/drive"))) in self.expected.in_sync
            and drive in self.before
            and self.before[drive].is_waiting
            for node, (_, role) in seen["labels"].items()
        )

    def _may_need_force(self) -> bool:
        """Whether the array may be dirty and degraded (md(4), start_dirty_degraded) without a log that repairs it."""
        expected = self.expected
        has_log = expected.shape.policy.has_journal or expected.shape.policy is HistoryPolicy.PPL
        is_degraded = bool(expected.missing | self.missing_before)
        return expected.map.has_parity and is_degraded and not has_log

    def _compare_members(self, step: PlannedStep, *, was_cut: bool, was_dead: bool) -> None:
        expected = self.expected
        if was_dead:
            return
        must = expected.sure if was_cut else {drive for drive, each in self.before.items() if each.is_in_sync}
        for drive in sorted(must - expected.waived - expected.pulled - expected.in_sync):
            now = expected.drives.get(drive, "not in the array")
            self.differ("member left out", step, f"drive{drive} was in sync, and is now {now}")
        out = {
            drive
            for drive in expected.in_sync
            if drive not in self.before or not (self.before[drive].is_in_sync or self.before[drive].is_waiting)
        }
        for drive in sorted(out - (expected.waived if was_cut else set())):
            before = self.before.get(drive, "not in the array")
            self.differ("stale member taken", step, f"drive{drive} was {before}, and is now in sync")

    def _on_look(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if "absent" in seen:
            if self.expected.is_alive:
                self.differ("not started", step, f"the array cannot be read: {seen['absent']}")
            return
        self._judge_blocks(step, seen)
        self.is_unread = False

    def _judge_blocks(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        expected = self.expected
        missing = expected.missing
        is_old_place_read = expected.shape.raid.name is LevelName.RAID10 and self.is_unread
        texts_by_verdict: dict[str, list[str]] = {}
        for block, verdict, found, allowed in seen["bad"]:
            if reason := expected.at_risk.get(block):
                self.explained[reason] += 1
            elif verdict == UNREADABLE and not self._is_readable(block, missing):
                self.explained[DECLARED] += 1
            elif expected.stale_by:
                self.explained[str(expected.stale_by)] += 1
            elif (bug := expected.unflushed) and (verdict == LOST or bug is KnownBug.WRITE_BACK_FLUSH):
                self.explained[str(bug)] += 1
            elif is_old_place_read and block < expected.reshaped_blocks:
                self.explained[KnownBug.RESHAPE_READS.value] += 1
            else:
                texts_by_verdict.setdefault(verdict, []).append(f"block {block} holds {found}, allowed: {allowed}")
        for verdict, texts in texts_by_verdict.items():
            self.differ(verdict, step, f"{len(texts)} blocks: " + "; ".join(texts[:MOST_LISTED]))

    def _is_readable(self, block: int, missing: frozenset[int]) -> bool:
        expected = self.expected
        if expected.is_reshaping:
            return expected.is_alive
        return expected.map.is_readable(block, missing, expected.bad_pages)

    def _on_settle(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if "verdicts" in seen:
            self._judge_blocks(step, seen)
            self.expected.on_settled([block for block, *_ in seen["bad"]])

    def _on_rest(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        expected = self.expected
        if not seen["idle"]:
            self.differ("stood still", step, f"md's sync_action is still {seen['state'].get('sync_action')}")
            return
        if not seen.get("members"):
            return
        if expected.is_alive and not expected.is_broken:
            spares = [
                drive for drive, each in expected.drives.items() if each.is_waiting and drive not in expected.pulled
            ]
            filled = {each.slot for each in expected.drives.values() if each.is_in_sync}
            vacant = sorted(set(range(expected.members)) - filled)
            idle = [drive for drive in spares if expected.drives[drive].slot >= 0 or vacant]
            if idle and expected.shape.raid.name is LevelName.RAID10 and expected.bad_pages:
                self.explained[KnownBug.BAD_BLOCK_REBUILD.value] += 1
                idle = []
            for drive in idle:
                text = f"drive{drive} is {expected.drives[drive]}, and slots {vacant} are vacant"
                self.differ("not rebuilt", step, text)
        if expected.is_alive and not expected.missing and seen["state"].get("resync_start", "none") != "none":
            self.differ("not resynced", step, f"md is idle, but resync_start is {seen['state']['resync_start']}")
        expected.on_rest()

    def _on_parity(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        expected = self.expected
        if "absent" in seen or not expected.has_synced or expected.is_broken or not expected.is_alive:
            return
        if expected.stale_by and seen["wrong"]:
            self.explained[str(expected.stale_by)] += 1
            return
        waived = expected.map.rows(expected.torn, set(expected.at_risk), expected.bad_pages)
        unlogged = expected.map.rows(expected.unlogged, (), ()) if expected.unlogged else set()
        if unlogged & set(seen["wrong"]) - waived:
            self.explained[KnownBug.JOURNAL_LEFT_OUT.value] += 1
        wrong = sorted(set(seen["wrong"]) - waived - unlogged)
        new_part = [row for row in wrong if row >= expected.maps[0].row_count] if expected.lost_new_part else []
        if new_part:
            self.explained[KnownBug.NEW_PART.value] += 1
            wrong = [row for row in wrong if row not in new_part]
        if wrong:
            self.differ("redundancy does not fit", step, f"parity or copies are inconsistent in rows {wrong[:16]}")

    def _on_fill(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if "failures" not in seen:
            return
        self._on_failures(step, seen["failures"])
        self.failures += seen["failures"]
        if not seen["failures"]:
            self.expected.on_filled(step.step[1] if step.step[0] == "rewrite" else None)

    def _on_scrubbed(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        expected, act = self.expected, self._act(step)
        if not seen["idle"]:
            self.differ("stood still", step, "the scrub did not end")
            return
        if expected.missing or expected.is_reshaping or self.is_scrub_refused or not act:
            return
        count = int(seen["state"].get("mismatch_cnt") or 0)
        if act.kind is ActKind.SPOIL:
            if not count and self.has_spoiled:
                what = f"{act.number} bytes of drive{act.drive} were inverted at {act.at}"
                self.differ("scrub missed corruption", step, f"{what}, but check counted no mismatches")
        elif count and expected.is_consistent and self.was_whole:
            # A scrub that is requested while a resync or a rebuild is pending runs in its place, and counts what that
            # sync would repair (md_choose_sync_action() in drivers/md/md.c).
            text = f"{act.word} counted {count} mismatched sectors, although nothing was corrupted"
            self.differ("scrub counts", step, text)

    def _on_spoiled(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        """Note which data blocks were corrupted. Corrupt parity does not affect any block yet."""
        act = self._act(step)
        member = self.expected.drives.get(act.drive) if act else None
        self.has_spoiled = bool(member and member.is_in_sync and "bytes" in seen)
        if act and member and self.has_spoiled:
            blocks = self.expected.map.blocks_in({act.at // BLOCK_BYTES}, {member.slot})
            self.expected.at_risk |= dict.fromkeys(blocks, CORRUPTION)

    def _on_trouble(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if self.has_replaced_beside and seen["trouble"] and all(map(_is_of_replacing, seen["trouble"])):
            self.explained[KnownBug.REPLACED_BESIDE_REBUILD.value] += 1
        elif seen["trouble"]:
            self.differ("kernel complained", step, " / ".join(seen["trouble"][:MOST_LISTED]))


def _is_of_replacing(line: str) -> bool:
    """Whether a line of the kernel log belongs to the warning that the known bug ``replaced-beside-rebuild`` causes."""
    return ("WARNING" in line and "raid5.c" in line and "handle_stripe" in line) or line.startswith("Call Trace")
