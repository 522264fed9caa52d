"""A history as the steps of the player on the machine (guest/campaign.py), each with its act and what it is for.

The steps follow from the history alone, so that a part of it can be played like the whole. Where md decides differently
than was thought (a member is not taken back), mdadm says no, and that is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lab.faults.block_map import BLOCK_BYTES
from lab.faults.geometry import rows_of
from lab.faults.history import DRIVES, JOURNAL_DRIVE, Act, ActKind, ArrayShape, FaultHistory, HistoryPolicy
from lab.units import KIB, MIB

NODE, MD = "/dev/md0", "/sys/block/md0/md"
DATA_OFFSET = "2M"
JUNK_BYTES = 5 * MIB
"""Of each drive: as far as members reach."""
COMMAND_SECONDS = 60.0
IDLE_SECONDS = 4000.0
"""On the machine's clock: a rebuild on the slowest drive at the lowest speed takes some hundred."""


class Purpose(StrEnum):
    """Why a step is there: what the judge makes of what it tells."""

    CREATE = "create"
    TOOL = "tool"
    """What mdadm, or md, says to an act; it may say no."""
    START = "start"
    """The array is assembled."""
    CUT = "cut"
    LOOK = "look"
    """All is read."""
    SETTLE = "settle"
    """The same once md is done with a power cut: what is there now, stays."""
    REST = "rest"
    """md has nothing more to do."""
    PARITY = "parity"
    FILL = "fill"
    SCRUBBED = "scrubbed"
    """md has ended a check or a repair, and tells its count."""
    SPOILED = "spoiled"
    """Bytes of a member were turned over."""
    UNSURE = "unsure"
    HALT = "halt"
    SEEN = "seen"
    """What md says of its members."""
    TROUBLE = "trouble"
    PART = "part"
    """A part of something, of which nothing is expected."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """``act`` is its number in the history; -1: before all of them, and their count: after."""

    step: list[Any]
    act: int
    purpose: Purpose


def node(drive: int) -> str:
    """The device of a drive."""
    return f"/dev/drive{drive}"


def creation(shape: ArrayShape) -> list[str]:
    """Mdadm's words."""
    policy = {
        HistoryPolicy.RESYNC: ["--bitmap=none"],
        HistoryPolicy.BITMAP: ["--bitmap=internal", "--bitmap-chunk=64K"],
        HistoryPolicy.PPL: ["--consistency-policy=ppl"],
        HistoryPolicy.JOURNAL: [f"--write-journal={node(JOURNAL_DRIVE)}"],
        HistoryPolicy.WRITE_BACK: [f"--write-journal={node(JOURNAL_DRIVE)}"],
    }[shape.policy]
    return [
        *("mdadm", "--create", NODE, "--run", "--quiet", f"--level={shape.level}", f"--raid-devices={shape.members}"),
        *([f"--layout={shape.layout}"] if shape.layout else []),
        *([f"--chunk={shape.chunk_kib}"] if shape.raid.has_chunk else []),
        *(f"--size={shape.size_kib}", f"--data-offset={DATA_OFFSET}", *policy),
        # Without --force mdadm makes RAID 5 degraded and rebuilds the last member.
        "--force" if shape.has_junk else "--assume-clean",
        *map(node, range(shape.members)),
    ]


class Stepwise:
    """Makes the steps of one history."""

    def __init__(self, history: FaultHistory, *, has_evidence: bool = False) -> None:
        self.history, self.shape, self.has_evidence = history, history.shape, has_evidence
        self.act = -1
        self.map = self.shape.block_map()
        self.writable = self.map.blocks * 3 // 4 if self.shape.has_junk else self.map.blocks

    def steps(self) -> Iterator[PlannedStep]:
        """All of them."""
        yield from self.prelude()
        for number, act in enumerate(self.history.acts):
            self.act = number
            yield from getattr(self, "on_" + act.kind.name.lower())(act)
        self.act = len(self.history.acts)
        yield from self.epilogue()

    def make(self, purpose: Purpose, *step: Any) -> PlannedStep:
        return PlannedStep(list(step), self.act, purpose)

    def tool(self, *words: object) -> PlannedStep:
        return self.make(Purpose.TOOL, "run", ["mdadm", *map(str, words)], COMMAND_SECONDS)

    def part(self, *step: Any) -> PlannedStep:
        return self.make(Purpose.PART, *step)

    def prelude(self) -> Iterator[PlannedStep]:
        """Blank drives or noise, the array, a generation of every block; all of it recorded."""
        drives = list(range(DRIVES))
        junk = f"junk:{self.history.seed}" if self.shape.has_junk else ""
        yield self.part("begin", drives, JUNK_BYTES, junk)
        if self.shape.policy.has_journal:
            # With a journal that takes discards md may never end a stop (docs/findings.md, journal-stop).
            yield self.part("write", f"/sys/block/drive{JOURNAL_DRIVE}/queue/discard_max_bytes", "0")
        yield self.part("record", drives)
        yield self.make(Purpose.CREATE, "run", creation(self.shape), COMMAND_SECONDS)
        yield from self.started()
        yield from self.opened()
        yield self.make(Purpose.FILL, "fill")

    def started(self) -> Iterator[PlannedStep]:
        """What is set anew at each start."""
        if self.shape.sync_kib:
            yield self.part("write", f"{MD}/sync_speed_min", str(self.shape.sync_kib))
            yield self.part("write", f"{MD}/sync_speed_max", str(self.shape.sync_kib))
        if self.shape.policy is HistoryPolicy.WRITE_BACK:
            yield self.part("write", f"{MD}/journal_mode", "write-back")

    def opened(self) -> Iterator[PlannedStep]:
        yield self.part("open", NODE, {"first": 0, "count": self.writable, "depth": self.shape.depth})

    def look(self) -> PlannedStep:
        return self.make(Purpose.LOOK, "check")

    def assembled(self, *, is_forced: bool = False) -> Iterator[PlannedStep]:
        """From all drives with a superblock; what has to be done then, is begun."""
        yield self.make(Purpose.START, "assemble", list(range(DRIVES)), is_forced)
        yield from self.started()
        # Started arrays stay as they are until somebody writes (md_mod.start_ro).
        yield self.part("write", f"{MD}/array_state", "active")
        yield self.look()

    def rested(self) -> Iterator[PlannedStep]:
        yield self.make(Purpose.REST, "idle", IDLE_SECONDS)

    def compared(self) -> Iterator[PlannedStep]:
        """Parity and copies, read from the members, once nothing is under way."""
        yield self.part("drain")
        if self.shape.policy is HistoryPolicy.WRITE_BACK:
            # What only the journal holds is written out when the mode changes (r5c_journal_mode_set() in
            # raid5-cache.c).
            yield self.part("write", f"{MD}/journal_mode", "write-through")
        yield self.make(Purpose.PARITY, "parity")
        if self.shape.policy is HistoryPolicy.WRITE_BACK:
            yield self.part("write", f"{MD}/journal_mode", "write-back")

    def on_load(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("load", [list(write) for write in act.writes], self.shape.depth)

    def on_fail(self, act: Act) -> Iterator[PlannedStep]:
        yield self.make(Purpose.TOOL, "manage", "fail", node(act.drive))
        yield self.look()

    def on_remove(self, act: Act) -> Iterator[PlannedStep]:
        yield self.make(Purpose.TOOL, "manage", "remove", node(act.drive))

    def on_add(self, act: Act) -> Iterator[PlannedStep]:
        yield self.tool(NODE, "--add", node(act.drive))
        yield self.make(Purpose.SEEN, "state")

    def on_readd(self, act: Act) -> Iterator[PlannedStep]:
        yield self.tool(NODE, "--re-add", node(act.drive))
        yield self.make(Purpose.SEEN, "state")

    def on_replace(self, act: Act) -> Iterator[PlannedStep]:
        yield self.tool(NODE, "--replace", node(act.drive))
        yield self.make(Purpose.SEEN, "state")

    def on_grow(self, act: Act) -> Iterator[PlannedStep]:
        yield self.tool(NODE, "--add", node(act.drive))
        yield self.tool("--grow", NODE, f"--raid-devices={self.shape.members + 1}")
        yield self.look()

    def on_enlarge(self, act: Act) -> Iterator[PlannedStep]:
        yield self.tool("--grow", NODE, f"--size={act.number}")
        yield self.look()

    def on_scrub(self, act: Act) -> Iterator[PlannedStep]:
        yield self.make(Purpose.TOOL, "write", f"{MD}/sync_action", act.word)
        yield self.make(Purpose.SCRUBBED, "idle", IDLE_SECONDS)

    def on_corrupt(self, act: Act) -> Iterator[PlannedStep]:
        """The array is stopped first: what md still has in its stripe cache a check would not read."""
        yield self.part("drain")
        yield from self.rested()
        yield self.make(Purpose.SPOILED, "spoil", node(act.drive), act.at, act.number)
        yield from self.assembled()
        yield self.make(Purpose.TOOL, "write", f"{MD}/sync_action", "check")
        yield self.make(Purpose.SCRUBBED, "idle", IDLE_SECONDS)
        yield self.make(Purpose.TOOL, "write", f"{MD}/sync_action", "repair")
        yield self.part("idle", IDLE_SECONDS)
        yield from self.opened()
        yield self.make(Purpose.FILL, "rewrite", self._lost_with(act))
        yield from self.compared()
        yield self.look()

    def _lost_with(self, act: Act) -> list[int]:
        """The blocks that the damage can have spoiled."""
        blocks = self.map.blocks_in({act.at // BLOCK_BYTES}, set(range(self.map.members)))
        return [block for block in sorted(blocks) if block < self.writable]

    def on_slow(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("line", f"pace {act.drive} {act.number * 1_000_000}")

    def on_pull(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("line", f"pull {act.drive}")
        yield self.look()

    def on_plug(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("line", f"plug {act.drive}")

    def on_cut(self, act: Act) -> Iterator[PlannedStep]:
        drives = list(range(DRIVES))
        yield self.make(Purpose.CUT, "cut", drives, act.word, str(act.number))
        yield self.part("record", drives)
        if act.drive >= 0:
            yield self.part("line", f"pull {act.drive}")
        yield from self.assembled(is_forced=True)
        if not act.is_hasty:
            yield from self.rested()
            yield self.make(Purpose.SETTLE, "settle")
        yield from self.opened()
        if not act.is_hasty:
            yield self.make(Purpose.FILL, "heal")
            yield from self.compared()
            yield self.look()
        if act.drive >= 0:
            yield self.part("line", f"plug {act.drive}")

    def on_restart(self, act: Act) -> Iterator[PlannedStep]:
        yield self.make(Purpose.HALT, "halt")
        yield from self.assembled(is_forced=True)
        yield from self.opened()

    def on_force(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("drain")
        yield self.make(Purpose.UNSURE, "unsure")
        yield self.part("all_right", list(range(DRIVES)))
        yield self.make(Purpose.HALT, "halt")
        yield from self.assembled(is_forced=True)
        yield from self.opened()
        yield self.make(Purpose.FILL, "fill")
        yield from self.rested()
        yield self.look()

    def on_pause(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("pause", act.number / 1000)

    def on_idle(self, act: Act) -> Iterator[PlannedStep]:
        yield from self.rested()
        yield self.make(Purpose.SETTLE, "settle")
        yield from self.compared()
        yield self.look()

    def on_check(self, act: Act) -> Iterator[PlannedStep]:
        yield self.look()

    def epilogue(self) -> Iterator[PlannedStep]:
        """All drives answer again; md comes to rest; parity, and all that can be read."""
        yield self.part("all_right", list(range(DRIVES)))
        yield from self.rested()
        yield self.make(Purpose.SETTLE, "settle")
        yield from self.compared()
        yield self.look()
        if self.has_evidence:
            for words in (["cat", "/proc/mdstat"], ["mdadm", "--detail", NODE]):
                yield self.part("run", words, COMMAND_SECONDS)
        yield self.make(Purpose.TROUBLE, "trouble")
        yield self.make(Purpose.HALT, "halt")


def planned(history: FaultHistory, *, has_evidence: bool = False) -> list[PlannedStep]:
    """The steps of a history; with evidence md is asked at the end for all that it can tell."""
    return list(Stepwise(history, has_evidence=has_evidence).steps())


def geometries(history: FaultHistory) -> list[dict[str, Any]]:
    """Where parity and copies lie: as created, with a member more, and with larger members."""
    shape, sizes = history.shape, [act.number for act in history.acts if act.kind is ActKind.ENLARGE]
    chunk = (shape.chunk_kib if shape.raid.has_chunk else 4) * KIB
    forms = [
        (shape.members, shape.size_kib),
        (shape.members + 1, shape.size_kib),
        (shape.members, max(sizes, default=0)),
    ]
    return [
        {**rows_of(shape.raid, None, members, size * KIB, chunk), "members": members, "size_kib": size}
        for members, size in dict.fromkeys(forms)
        if size
    ]


def job_of(history: FaultHistory, steps: list[PlannedStep], **more: Any) -> dict[str, Any]:
    """What the program on the machine is given."""
    found = geometries(history) if any(step.purpose is Purpose.PARITY for step in steps) else []
    return {
        "seed": str(history.seed),
        "steps": [each.step for each in steps],
        "geometries": found,
        **more,
    }
