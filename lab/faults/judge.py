"""Judges a history: what md did and what the oracle read, against the level arithmetic and md's own promises.

What must hold is known at any moment from what was done and from what md says of its members (belief.py). Unreadable is
right only for a block that the level cannot give back without the members that are gone; anything but an allowed
generation only where an exception is named. md's own count of its members, a rebuild that does not come, a member that
is left out, a scrub that counts what is not there or misses what is, a complaint of the kernel: all of these are
differences too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from lab.arrays.levels import LevelName
from lab.faults.belief import CORRUPTION, ArrayBelief, Standing
from lab.faults.block_map import BLOCK_BYTES
from lab.faults.guest.arrays import JOURNAL_ROLE, SPARE_ROLE
from lab.faults.guest.ledger import LOST, UNREADABLE
from lab.faults.history import Act, ActKind, FaultHistory, HistoryPolicy
from lab.faults.history_steps import PlannedStep, Purpose
from lab.faults.known import (
    BAD_BLOCK_REBUILD,
    FORCE_NOT_CLEAN,
    FORCE_TAKES_STALE,
    GOOD_MEMBERS_IGNORED,
    JOURNAL_AHEAD,
    JOURNAL_LEFT_OUT,
    NEW_PART,
    REPLACED_BESIDE_REBUILD,
    RESHAPE_READS,
    SPARE_IN_SYNC,
    WRITE_BACK_FLUSH,
)

DECLARED = "declared lost"
REFUSED = "writes refused"
TOLD = 4
"""Blocks of one difference that are told one by one."""


@dataclass(frozen=True, slots=True)
class HistoryDifference:
    """Something that should not be. ``kind`` is what a shrunk history must still show."""

    kind: str
    act: int
    text: str


@dataclass
class HistoryJudge:
    """Hears the documents of one history, in order."""

    history: FaultHistory
    differences: list[HistoryDifference] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    said_no: Counter[str] = field(default_factory=Counter)
    """Acts to which mdadm or md said no."""
    failures: int = 0
    is_scrub_refused: bool = False
    has_spoiled: bool = False
    """Bytes of a member in sync were turned over, and not of a spare."""
    has_replaced_beside: bool = False
    """A member was being replaced while another slot was rebuilt."""
    is_first_look: bool = False
    """Nothing was read since the array was started."""

    def __post_init__(self) -> None:
        self.belief = ArrayBelief(self.history)
        self.before: dict[int, Standing] = {}
        self.missing_before: frozenset[int] = frozenset()
        self.was_whole = False

    def differ(self, kind: str, step: PlannedStep, text: str) -> None:
        self.differences.append(HistoryDifference(kind, step.act, text))

    def hear(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        """One document of the player."""
        if "broke" in seen:
            self.differ("could not be played", step, f"{step.step[0]}: {seen['broke']}")
            return
        if step.step[0] == "line":
            self.belief.on_line(step.step[1])
        elif step.step[0] == "all_right":
            self.belief.pulled.clear()
        act = self._act(step)
        if act and step.purpose is Purpose.TOOL:
            self._excuse(act)
        self.before, self.missing_before = dict(self.belief.drives), self.belief.missing
        # A reshape of RAID 10 and a larger size leave a new part, which is synced afterwards.
        self.was_whole = not (
            self.missing_before or self.belief.is_sync_due or self.belief.is_enlarged or self.belief.is_reshaping
        )
        if "members" in seen:
            self.belief.observe(seen)
            self.has_replaced_beside |= self.belief.stale_by is REPLACED_BESIDE_REBUILD
            if step.purpose is not Purpose.START and seen["members"]:
                self._watch_members(step, seen)
        getattr(self, "_on_" + step.purpose.value)(step, seen)

    def _act(self, step: PlannedStep) -> Act | None:
        return self.history.acts[step.act] if 0 <= step.act < len(self.history.acts) else None

    def _excuse(self, act: Act) -> None:
        if act.kind in (ActKind.FAIL, ActKind.REMOVE, ActKind.REPLACE, ActKind.READD, ActKind.ADD):
            self.belief.excused.add(act.drive)

    def _watch_members(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        """A member that was in sync and is not any more, though nothing was done to it; and md's own count."""
        belief = self.belief
        for drive, old in self.before.items():
            new = belief.drives.get(drive)
            is_excused = drive in belief.excused or "want_replacement" in old.words
            if old.is_in_sync and not (new and new.is_in_sync) and not is_excused:
                self.differ(
                    "member lost",
                    step,
                    f"drive{drive} was in sync and is {new or 'gone'}, though nothing was done to it",
                )
        filled = {each.slot for each in belief.drives.values() if each.is_in_sync}
        told = seen["state"].get("degraded", "0")
        if not belief.is_reshaping and int(told) != belief.members - len(filled):
            self.differ(
                "degraded miscounted",
                step,
                f"degraded is {told}, and {len(filled)} of {belief.members} slots have a member in sync",
            )

    def _on_part(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if step.step[0] == "open":
            self.failures = 0
        if "failures" in seen:
            self._on_failures(step, seen["failures"] - self.failures)
            self.failures = seen["failures"]

    def _on_seen(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        """It was taken over already."""

    def _on_failures(self, step: PlannedStep, count: int) -> None:
        if count <= 0:
            return
        if self.belief.is_broken or not self.belief.is_alive:
            self.explained[REFUSED] += count
        else:
            self.differ("write failed", step, f"{count} writes failed, though the members that are there are enough")

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
            self.belief.on_readded(act.drive)
        if act and not refused and (act.kind is ActKind.ENLARGE or self._is_grown_by_copies(act, step)):
            self.belief.on_enlarged(is_by_member=act.kind is ActKind.GROW)
        if refused and act:
            self.said_no[act.kind] += 1
            if act.kind is ActKind.FAIL:
                self._on_fail_refused(step, act, refused)

    def _is_grown_by_copies(self, act: Act, step: PlannedStep) -> bool:
        """A member more gives RAID 10 a new part, which is synced after the reshape."""
        is_grow = act.kind is ActKind.GROW and "--grow" in step.step[1]
        return is_grow and self.belief.shape.raid.name is LevelName.RAID10

    def _on_fail_refused(self, step: PlannedStep, act: Act, refused: str) -> None:
        """Levels 1 and 10 keep a member that they cannot do without; others let it go, and are dead then (EBUSY)."""
        belief = self.belief
        standing = belief.drives.get(act.drive)
        if not (standing and standing.is_in_sync):
            return
        # A drive that was gone for a while may have failed since md was last asked.
        gone = belief.missing | {standing.slot} | belief.slots_of(belief.excused)
        if belief.shape.raid.survives(frozenset(gone), belief.members):
            self.differ("fail refused", step, f"drive{act.drive}: {refused}, though the level survives without it")
        elif not belief.has_parity:
            belief.is_broken = True

    def _on_cut(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if seen.get("refused"):
            self.differ("could not be stopped", step, seen["refused"])
        self.belief.cut(seen["open"], step.step[2])

    def _on_unsure(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        self.belief.tear(seen["open"], is_cut=False)

    def _on_halt(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if seen.get("refused"):
            self.differ("could not be stopped", step, seen["refused"])
        self.belief.is_broken = False

    def _on_start(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        belief, act = self.belief, self._act(step)
        was_cut = bool(act and act.kind is ActKind.CUT)
        was_alive = belief.shape.raid.survives(self.missing_before, belief.members)
        was_dead = bool(act and act.kind is ActKind.FORCE) or not was_alive
        if not seen.get("members"):
            if belief.is_alive or (act and act.kind is ActKind.FORCE):
                self.differ("not started", step, seen.get("output", "")[-300:])
            return
        if seen.get("forced") and "as it reports" in seen.get("refusal", "") and was_cut:
            self.explained[str(GOOD_MEMBERS_IGNORED)] += 1
        elif seen.get("forced") and "stale journal" in seen.get("refusal", "") and self._is_journal_ahead(seen):
            self.explained[str(JOURNAL_AHEAD)] += 1
        elif seen.get("forced") and not was_dead and not self._may_need_force():
            self.differ("started only by force", step, seen.get("refusal", "")[-300:])
        needed = len(self.missing_before) - belief.shape.raid.parity_members
        if was_dead and seen.get("output", "").count("forcing event count") > max(0, needed):
            belief.stale_by = FORCE_TAKES_STALE
        if was_cut and self._is_spare_taken(seen):
            belief.stale_by = SPARE_IN_SYNC
        if seen.get("forced", "--force") != "--force":
            if belief.shape.raid.name is LevelName.RAID4 and belief.members - 1 in belief.missing:
                self.explained[str(FORCE_NOT_CLEAN)] += 1
            else:
                self.differ("not started by force", step, seen.get("refusal", "")[-300:])
        belief.on_started()
        self.is_first_look = True
        self._compare_members(step, was_cut=was_cut, was_dead=was_dead)

    def _is_journal_ahead(self, seen: dict[str, Any]) -> bool:
        """Whether the power failed when the journal's superblock was written, and no member's that is still there."""
        labels = list(seen["labels"].values())
        journal = next((events for events, role in labels if role == JOURNAL_ROLE), None)
        newest = max((events for events, role in labels if role < JOURNAL_ROLE), default=None)
        return journal is not None and newest is not None and journal == newest + 1

    def _is_spare_taken(self, seen: dict[str, Any]) -> bool:
        """Whether one is in sync that was to be rebuilt, and whose own superblock tells of a spare."""
        return any(
            role == SPARE_ROLE
            and (drive := int(node.removeprefix("/dev/drive"))) in self.belief.in_sync
            and drive in self.before
            and self.before[drive].is_waiting
            for node, (_, role) in seen["labels"].items()
        )

    def _may_need_force(self) -> bool:
        """Dirty and degraded (md(4), start_dirty_degraded), where no log makes it whole."""
        belief = self.belief
        has_log = belief.shape.policy.has_journal or belief.shape.policy is HistoryPolicy.PPL
        is_degraded = bool(belief.missing | self.missing_before)
        return belief.has_parity and is_degraded and not has_log

    def _compare_members(self, step: PlannedStep, *, was_cut: bool, was_dead: bool) -> None:
        belief = self.belief
        was_in_sync = {drive for drive, each in self.before.items() if each.is_in_sync}
        if was_dead:
            return
        must = belief.sure if was_cut else was_in_sync
        for drive in sorted(must - belief.excused - belief.pulled - belief.in_sync):
            self.differ(
                "member left out", step, f"drive{drive} was in sync, and is {belief.drives.get(drive, 'not taken')}"
            )
        out = {
            drive
            for drive in belief.in_sync
            if drive not in self.before or not (self.before[drive].is_in_sync or self.before[drive].is_waiting)
        }
        for drive in sorted(out - (belief.excused if was_cut else set())):
            self.differ(
                "stale member taken",
                step,
                f"drive{drive} was {self.before.get(drive, 'not in the array')}, and is in sync now",
            )

    def _on_look(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if "absent" in seen:
            if self.belief.is_alive:
                self.differ("not started", step, f"the array cannot be read: {seen['absent']}")
            return
        self._judge_blocks(step, seen)
        self.is_first_look = False

    def _judge_blocks(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        belief = self.belief
        missing, wrong = belief.missing, Counter[str]()
        told: dict[str, list[str]] = {}
        for block, verdict, found, allowed in seen["bad"]:
            if reason := belief.loose.get(block):
                self.explained[reason] += 1
            elif verdict == UNREADABLE and not self._is_readable(block, missing):
                self.explained[DECLARED] += 1
            elif belief.stale_by:
                self.explained[str(belief.stale_by)] += 1
            elif (bug := belief.unflushed) and (verdict == LOST or bug is WRITE_BACK_FLUSH):
                self.explained[str(bug)] += 1
            elif self._is_read_from_old_place(block):
                self.explained[str(RESHAPE_READS)] += 1
            else:
                wrong[verdict] += 1
                told.setdefault(verdict, []).append(f"block {block} holds {found}, allowed are {allowed}")
        for verdict, count in wrong.items():
            self.differ(verdict, step, f"{count} blocks: " + "; ".join(told[verdict][:TOLD]))

    def _is_read_from_old_place(self, block: int) -> bool:
        belief = self.belief
        return belief.shape.raid.name is LevelName.RAID10 and self.is_first_look and block < belief.reshaped_blocks

    def _is_readable(self, block: int, missing: frozenset[int]) -> bool:
        belief = self.belief
        if belief.is_reshaping:
            return belief.is_alive
        return belief.map.is_readable(block, missing, belief.bad_pages)

    def _on_settle(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if "verdicts" in seen:
            self._judge_blocks(step, seen)
            self.belief.on_settled([block for block, *_ in seen["bad"]])

    def _on_rest(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        belief = self.belief
        if not seen["idle"]:
            self.differ("stood still", step, f"md is at {seen['state'].get('sync_action')} after all this time")
            return
        if not seen.get("members"):
            return
        if belief.is_alive and not belief.is_broken:
            spares = [drive for drive, each in belief.drives.items() if each.is_waiting and drive not in belief.pulled]
            filled = {each.slot for each in belief.drives.values() if each.is_in_sync}
            vacant = sorted(set(range(belief.members)) - filled)
            idle = [drive for drive in spares if belief.drives[drive].slot >= 0 or vacant]
            if idle and belief.shape.raid.name is LevelName.RAID10 and belief.bad_pages:
                self.explained[str(BAD_BLOCK_REBUILD)] += 1
                idle = []
            for drive in idle:
                self.differ(
                    "not rebuilt", step, f"drive{drive} is {belief.drives[drive]}, and slots {vacant} are vacant"
                )
        if belief.is_alive and not belief.missing and seen["state"].get("resync_start", "none") != "none":
            self.differ("not resynced", step, f"md is idle, and resync_start is {seen['state']['resync_start']}")
        belief.on_rest()

    def _on_parity(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        belief = self.belief
        if "absent" in seen or not belief.has_synced or belief.is_broken or not belief.is_alive:
            return
        if belief.stale_by and seen["wrong"]:
            self.explained[str(belief.stale_by)] += 1
            return
        excused = belief.map.rows(belief.torn, set(belief.loose), belief.bad_pages)
        unlogged = belief.map.rows(belief.unlogged, (), ()) if belief.unlogged else set()
        if unlogged & set(seen["wrong"]) - excused:
            self.explained[str(JOURNAL_LEFT_OUT)] += 1
        wrong = sorted(set(seen["wrong"]) - excused - unlogged)
        new_part = [row for row in wrong if row >= belief.maps[0].row_count] if belief.lost_new_part else []
        if new_part:
            self.explained[str(NEW_PART)] += 1
            wrong = [row for row in wrong if row not in new_part]
        if wrong:
            self.differ("redundancy does not fit", step, f"rows {wrong[:16]} of parity or copies disagree")

    def _on_fill(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if "failures" not in seen:
            return
        self._on_failures(step, seen["failures"])
        self.failures += seen["failures"]
        if not seen["failures"]:
            self.belief.on_filled(step.step[1] if step.step[0] == "rewrite" else None)

    def _on_scrubbed(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        belief, act = self.belief, self._act(step)
        if not seen["idle"]:
            self.differ("stood still", step, "the scrub does not end")
            return
        if belief.missing or belief.is_reshaping or self.is_scrub_refused or not act:
            return
        count = int(seen["state"].get("mismatch_cnt") or 0)
        if act.kind is ActKind.CORRUPT:
            if not count and self.has_spoiled:
                self.differ(
                    "scrub missed corruption",
                    step,
                    f"{act.number} bytes of drive{act.drive} were turned over at {act.at}, and check counts nothing",
                )
        elif count and belief.is_consistent and self.was_whole:
            # A scrub that begins where a resync or a rebuild is due takes its place, and counts what that would mend
            # (md_choose_sync_action() in drivers/md/md.c).
            self.differ(
                "scrub counts", step, f"{act.word} counts {count} sectors that do not fit, though nothing was spoiled"
            )

    def _on_spoiled(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        """Data on that member; parity that is spoiled harms no block yet."""
        act = self._act(step)
        standing = self.belief.drives.get(act.drive) if act else None
        self.has_spoiled = bool(standing and standing.is_in_sync and "bytes" in seen)
        if act and standing and self.has_spoiled:
            blocks = self.belief.map.blocks_in({act.at // BLOCK_BYTES}, {standing.slot})
            self.belief.loose |= dict.fromkeys(blocks, CORRUPTION)

    def _on_trouble(self, step: PlannedStep, seen: dict[str, Any]) -> None:
        if self.has_replaced_beside and seen["trouble"] and all(map(_is_of_replacing, seen["trouble"])):
            self.explained[str(REPLACED_BESIDE_REBUILD)] += 1
        elif seen["trouble"]:
            self.differ("kernel complained", step, " / ".join(seen["trouble"][:TOLD]))


def _is_of_replacing(line: str) -> bool:
    """Whether this is the warning that known bug gives."""
    return ("WARNING" in line and "raid5.c" in line and "handle_stripe" in line) or line.startswith("Call Trace")
