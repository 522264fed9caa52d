"""Histories, each consisting of a small array and the acts on it, generated from seeds and identified by ids.

An id looks like ``c1-7`` (version 1 of the generator, seed 7). The campaign's limits stand between the two
(``c1-l5-ppl-7`` means level 5 and PPL only). The id of a shrunk history ends with the parts that remain:
``c1-7-s0_2w1.4.5`` consists of acts 0 and 2, with only writes 1, 4 and 5 of act 2. A replay needs only the id.

The generator chooses sensible acts from a model of the array that knows the arithmetic of the level. The model is
optimistic: it assumes that a rebuild is complete after the next wait for md. What md really did is judged afterwards
(judge.py), so an error in the model only reduces variety and does not invalidate a history. Damage is bounded, as in
ZFS's ztest, because irreparable damage would excuse every difference. No fault is injected while an earlier one could
still be hidden, there is at most one corruption between two scrubs, and no more members are missing than the level
survives, except where that is itself the test.

The player's steps on the machine (guest/campaign.py) depend on the history alone, so a part of a history can be run in
the same way as a whole one. If md's state differs from the model's, mdadm may refuse an act; the judge takes this into
account.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from lab.actions.arrays import Add, Fail, ReAdd, Remove
from lab.arrays.levels import Level, level_with_layout
from lab.arrays.spec import ArraySpec
from lab.errors import SpecError
from lab.faults.arrays import BLOCK_BYTES, MD, NODE, BlockMap, HistoryArrays, array_spec
from lab.faults.guest.ledger import ALL, EVERYTHING, FLUSHED, PREFIX, SUBSET, TORN_WRITE
from lab.faults.place import DRIVES
from lab.units import KIB, MIB

NOTHING = "none"
"""Stands for no acts in an id: the newly created array shows the difference without any act."""
VERSION = 1
"""Version of the generator. Increment it whenever a change makes seeds produce different histories."""
MOST_SEED = 2**32 - 1
LEVELS = ("1", "4", "5", "6", "10")
LAYOUTS = ("n2", "f2", "o2")
JOURNAL_DRIVE = DRIVES - 1
Write = tuple[int, int, int]
"""First block, number of blocks (0 means a flush), and whether the write is O_DSYNC (1 or 0)."""


def node(drive: object) -> str:
    """Return the device node of the drive with this number."""
    return f"/dev/drive{drive}"


class HistoryPolicy(StrEnum):
    """How redundancy is kept consistent (md(4), Documentation/admin-guide/md.rst consistency_policy)."""

    RESYNC = "resync"
    BITMAP = "bitmap"
    PPL = "ppl"
    JOURNAL = "journal"
    """Write-through: data and parity are written to the journal before they are written to the members."""
    WRITE_BACK = "write-back"
    """Write-back: a write is acknowledged once it is in the journal."""

    @property
    def has_journal(self) -> bool:
        return self in (HistoryPolicy.JOURNAL, HistoryPolicy.WRITE_BACK)

    def fits(self, level: str) -> bool:
        """Whether md supports the policy at a level (raid5-ppl.rst: RAID 5; raid5-cache.rst: 4, 5 and 6)."""
        if self is HistoryPolicy.PPL:
            return level == "5"
        return level in ("4", "5", "6") or not self.has_journal


class ActKind(StrEnum):
    """The kinds of acts. A word that lessons or scenarios also use means the same operation there."""

    WRITES = "writes"
    """Writes, some of which remain in flight."""
    FAIL = "array.fail"
    REMOVE = "array.remove"
    ADD = "array.add"
    READD = "array.re-add"
    REPLACE = "array.replace"
    GROW = "array.grow"
    """Add ``drive``, and grow the array by one member."""
    ENLARGE = "enlarge"
    """Increase the component size to ``number`` KiB per member."""
    SCRUB = "array.scrub"
    """Scrub; ``word`` is check or repair."""
    SPOIL = "spoil"
    """Invert ``number`` bytes of the member while the array is stopped, then check, repair, and rewrite the blocks."""
    SLOW = "slow"
    """Make each request to the drive take ``number`` milliseconds; 0 restores its normal time."""
    PULL = "array.pull"
    PLUG_IN = "array.plug-in"
    CUT = "power-cut"
    """A power cut. ``word`` says what remains on the drives (guest/ledger.py).

    ``drive`` is a member that is lost at the same time. If ``is_hasty``, the next act begins before md has completed
    the recovery.
    """
    RESTART = "restart"
    FORCE = "force"
    """Assemble a failed array by force."""
    PAUSE = "pause"
    """Wait ``number`` milliseconds."""
    IDLE = "idle"
    CHECK = "check"
    """Read all blocks."""

    @classmethod
    def _missing_(cls, value: object) -> ActKind | None:
        """Return the kind that findings of format 1 call by this name."""
        old = {"load": cls.WRITES, "corrupt": cls.SPOIL, "plug": cls.PLUG_IN, "cut": cls.CUT}
        return old.get(str(value)) or next((kind for kind in cls if kind.value == f"array.{value}"), None)


class Act(msgspec.Struct, frozen=True, omit_defaults=True):
    """One act of a history."""

    kind: ActKind
    drive: int = -1
    word: str = ""
    number: int = 0
    at: int = 0
    writes: tuple[Write, ...] = ()
    is_hasty: bool = False

    def title(self) -> str:
        what = {ActKind.WRITES: str(len(self.writes)), ActKind.SCRUB: self.word, ActKind.CUT: self.word}
        words = [self.kind.value, what.get(self.kind, "")]
        if self.drive >= 0:
            words.append(f"drive{self.drive}" if self.kind is not ActKind.CUT else f"without drive{self.drive}")
        if self.number and self.kind is not ActKind.CUT:
            words.append(str(self.number))
        return " ".join(filter(None, words))


class ArrayShape(msgspec.Struct, frozen=True, kw_only=True):
    """The array of a history."""

    level: str
    members: int
    policy: HistoryPolicy
    layout: str = ""
    chunk_kib: int = 16
    size_kib: int = 1024
    depth: int = 4
    """Maximum number of writes in flight."""
    has_junk: bool = False
    """Whether the drives hold random data before creation, so that the array needs an initial resync. Otherwise they
    are blank, and the array is created as clean.
    """
    sync_kib: int = 0
    """Speed limit for syncs in KiB per second; 0 means no limit."""

    @property
    def spec(self) -> ArraySpec:
        return array_spec(
            f"raid{self.level}",
            [node(drive) for drive in range(self.members)],
            self.policy.value,
            size_bytes=self.size_kib * KIB,
            chunk_bytes=self.chunk_kib * KIB,
            layout=self.layout or None,
            journal_device=node(JOURNAL_DRIVE) if self.policy.has_journal else None,
            assume_clean=not self.has_junk,
            forces_resync=self.has_junk,
        )

    @property
    def raid(self) -> Level:
        return level_with_layout(self.level, self.layout or None)

    def block_map(self, grown: int = 0, size_kib: int = 0) -> BlockMap:
        """Return the layout of the array's blocks with ``grown`` more members, or with a different size per member."""
        # RAID 1 has no chunks, so any size will do.
        chunk = self.chunk_kib if self.raid.has_chunk else 4
        return BlockMap(self.raid, self.members + grown, (size_kib or self.size_kib) * KIB, chunk * KIB)

    @property
    def writable(self) -> int:
        """Number of blocks that the oracle writes: all, or three quarters of them if the array begins with a resync."""
        blocks = self.block_map().blocks
        return blocks * 3 // 4 if self.has_junk else blocks

    def title(self) -> str:
        layout = f" {self.layout}" if self.layout else ""
        chunk = f", chunks of {self.chunk_kib} KiB" if self.raid.has_chunk else ""
        return f"RAID {self.level}{layout} of {self.members}, {self.policy}{chunk}"


class FaultHistory(msgspec.Struct, frozen=True):
    """An array and the acts on it; ``seed`` also determines the content of the blocks."""

    seed: int
    shape: ArrayShape
    acts: tuple[Act, ...]

    @property
    def operations(self) -> int:
        return sum(act.kind not in (ActKind.CHECK, ActKind.PAUSE) for act in self.acts)

    @property
    def writes(self) -> int:
        return sum(len(act.writes) for act in self.acts)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a campaign; an empty string means no limit."""

    level: str = ""
    policy: str = ""

    def __post_init__(self) -> None:
        known = ", ".join(HistoryPolicy)
        if self.level and self.level not in LEVELS:
            raise SpecError(f"campaigns do not use level '{self.level}'", hint=f"choose one of {', '.join(LEVELS)}")
        if self.policy and self.policy not in tuple(HistoryPolicy):
            raise SpecError(f"'{self.policy}' is not a consistency policy", hint=f"choose one of {known}")
        if self.level and self.policy and not HistoryPolicy(self.policy).fits(self.level):
            raise SpecError(
                f"md does not support {self.policy} on RAID {self.level}",
                hint="PPL needs RAID 5; a journal needs RAID 4, 5 or 6",
            )

    def words(self) -> str:
        return "".join((f"l{self.level}-" if self.level else "", f"{self.policy}-" if self.policy else ""))


_ID = re.compile(r"c(\d+)-(?:l(\d+)-)?(?:([a-z]+(?:-[a-z]+)*)-)?(?:p(\d+)-)?(\d+)(?:-a(\d+))?(?:-s([0-9w._]+|none))?")


@dataclass(frozen=True, slots=True)
class FindingId:
    """Identifies a history for replay.

    ``planted`` is the number of a planted bug. ``before`` is the number of histories that run before it on the same
    machine; they are those of the preceding seeds.
    """

    bounds: Bounds
    seed: int
    planted: int = 0
    before: int = 0
    part: str = ""

    def __str__(self) -> str:
        planted = f"p{self.planted}-" if self.planted else ""
        before = f"-a{self.before}" if self.before else ""
        return f"c{VERSION}-{self.bounds.words()}{planted}{self.seed}{before}" + (f"-s{self.part}" if self.part else "")


def parse_id(text: str, *, is_any_version: bool = False) -> FindingId:
    """Parse the id of a history. Raises SpecError if it is invalid or from a different version of the generator."""
    match = _ID.fullmatch(text)
    if not match:
        raise SpecError(
            f"'{text}' is not the id of a finding", hint="'raidlab fault findings' lists the stored findings"
        )
    if int(match[1]) != VERSION and not is_any_version:
        raise SpecError(
            f"'{text}' has version {match[1]}, but this raidlab generates histories of version {VERSION}",
            hint="replay it from its folder, which contains the history",
        )
    bounds = Bounds(match[2] or "", match[3] or "")
    found = FindingId(bounds, int(match[5]), int(match[4] or 0), int(match[6] or 0), match[7] or "")
    if found.before > found.seed or found.seed > MOST_SEED:
        raise SpecError(f"'{text}' is not the id of a finding: its seeds are out of range", hint="check the id")
    return found


def part_word(whole: FaultHistory, part: FaultHistory) -> str:
    """Return the text that identifies a part: ``0_2w1.4_5`` means acts 0, 2 (only its writes 1 and 4) and 5."""
    words, start = [], 0
    for act in part.acts:
        for index in range(start, len(whole.acts)):
            other = whole.acts[index]
            chosen = _places(act.writes, other.writes)
            if chosen is not None and msgspec.structs.replace(other, writes=act.writes) == act:
                is_whole = len(act.writes) == len(other.writes)
                words.append(f"{index}" if is_whole else f"{index}w{'.'.join(map(str, chosen))}")
                start = index + 1
                break
    return "_".join(words) or NOTHING


def part_of(whole: FaultHistory, word: str) -> FaultHistory:
    """Return the part for which ``part_word`` gives this word. Raises SpecError if the history has no such part."""
    acts: list[Act] = []
    last = -1
    try:
        for each in () if word == NOTHING else word.split("_"):
            index, has_writes, numbers = each.partition("w")
            if int(index) <= last:
                raise ValueError(word)
            last = int(index)
            act = whole.acts[last]
            if has_writes:
                chosen = tuple(act.writes[int(number)] for number in filter(None, numbers.split(".")))
                act = msgspec.structs.replace(act, writes=chosen)
            acts.append(act)
    except (ValueError, IndexError):
        raise SpecError(f"'-s{word}' is not part of this history", hint="check the id") from None
    return msgspec.structs.replace(whole, acts=tuple(acts))


def _places(part: tuple[Write, ...], whole: tuple[Write, ...]) -> list[int] | None:
    """Return the indices of these writes in the whole, or None if they are not a part of it."""
    found: list[int] = []
    for write in part:
        try:
            found.append(whole.index(write, found[-1] + 1 if found else 0))
        except ValueError:
            return None
    return found


MEMBERS = {"1": (2, 3), "4": (3, 4), "5": (3, 4, 5), "6": (4, 5, 6), "10": (2, 3, 4, 5)}
FEWEST_ACTS, MOST_ACTS = 4, 12
MOST_CUTS = 2
CHANCES = 1 << 16
"""Number of different seeds for the choice of what a power cut leaves on the drives."""
CUT_KINDS = (ALL, FLUSHED, EVERYTHING, PREFIX, SUBSET, SUBSET, TORN_WRITE)
DEAD_CHANCE = 0.15
"""Probability of choosing a failure that the level does not survive, where one is possible."""


def generated(seed: int, bounds: Bounds | None = None) -> FaultHistory:
    """Generate the history of a seed."""
    bounds = bounds or Bounds()
    chance = random.Random(f"history:{seed}:{bounds.words()}")
    shape = _shape(chance, bounds)
    chooser = Chooser(chance, shape)
    acts = [chooser.load()]
    length = chance.randint(FEWEST_ACTS, MOST_ACTS)
    while len(acts) < length:
        acts.append(chooser.next())
    if chooser.is_dead:
        acts += [chooser.check(), chooser.force()]
    return FaultHistory(seed, shape, tuple(acts))


def _shape(chance: random.Random, bounds: Bounds) -> ArrayShape:
    fitting = [level for level in LEVELS if not bounds.policy or HistoryPolicy(bounds.policy).fits(level)]
    level = bounds.level or chance.choice(fitting)
    policies = [policy for policy in HistoryPolicy if policy.fits(level)]
    policy = HistoryPolicy(bounds.policy) if bounds.policy else chance.choice(policies)
    members = chance.choice(MEMBERS[level])
    return ArrayShape(
        level=level,
        members=members,
        policy=policy,
        layout=chance.choice(LAYOUTS if members > 2 else ("n2",)) if level == "10" else "",
        chunk_kib=chance.choice((16, 16, 32, 64)),
        depth=chance.choice((1, 4, 4, 8, 16)),
        has_junk=chance.random() < 0.2 and not policy.has_journal and policy is not HistoryPolicy.PPL,
        sync_kib=chance.choice((0, 200, 400)),
    )


@dataclass
class Chooser:
    """Chooses acts that suit the expected state of the array, and updates this state accordingly."""

    chance: random.Random
    shape: ArrayShape
    slots: list[int | None] = field(init=False)
    in_sync: set[int] = field(init=False)
    blank: set[int] = field(init=False)
    spares: set[int] = field(default_factory=set)
    faulty: set[int] = field(default_factory=set)
    stale: set[int] = field(default_factory=set)
    """Former members that are no longer in the array."""
    pulled: set[int] = field(default_factory=set)
    slowed: set[int] = field(default_factory=set)
    is_dead: bool = False
    is_broken: bool = False
    """Whether md was asked to fail a member that the array cannot lose, in which case md refuses writes until the next
    start (MD_BROKEN).
    """
    is_reshaping: bool = False
    is_hasty: bool = False
    """Whether md has not yet completed the recovery from a power cut."""
    grown: int = 0
    size_kib: int = 0
    cuts: int = 0
    may_have_bad_blocks: bool = False

    def __post_init__(self) -> None:
        self.slots = list(range(self.shape.members))
        self.in_sync = set(range(self.shape.members))
        self.blank = set(range(self.shape.members, DRIVES))
        if self.shape.policy.has_journal:
            self.blank.discard(JOURNAL_DRIVE)

    @cached_property
    def map(self) -> BlockMap:
        """The layout of the blocks of the initial array."""
        return self.shape.block_map()

    def missing(self) -> set[int]:
        """Return the slots without a readable member."""
        return {slot for slot, drive in enumerate(self.slots) if drive not in self.in_sync - self.pulled}

    def survives(self, *drives: int) -> bool:
        lost = self.missing() | {slot for slot, drive in enumerate(self.slots) if drive in drives}
        return self.shape.raid.survives(frozenset(lost), len(self.slots))

    @property
    def is_whole(self) -> bool:
        """Whether all members are in sync and no fault or reshape is pending."""
        return not (
            self.missing() or self.pulled or self.faulty or self.is_reshaping or self.is_hasty or self.is_broken
        )

    def take_spares(self) -> None:
        for slot, drive in enumerate(self.slots):
            ready = sorted(self.spares - self.pulled)
            if drive is None and ready:
                self.slots[slot] = ready[0]
                self.spares.discard(ready[0])

    def leave(self, drive: int) -> None:
        self.slots = [None if each == drive else each for each in self.slots]
        for group in (self.in_sync, self.spares, self.faulty):
            group.discard(drive)

    def rest(self) -> None:
        """Assume that all pending rebuilds, resyncs and reshapes have completed."""
        self.take_spares()
        self.in_sync |= {drive for drive in self.slots if drive is not None and drive not in self.pulled}
        self.is_reshaping = self.is_hasty = False

    def next(self) -> Act:
        """Choose one of the possible acts at random, according to their weights."""
        if self.is_dead:
            return self.chance.choice((self.check, self.load, self.force))()
        if self.is_broken:
            return self.restart()
        kinds = [(weight, make) for weight, make, is_possible in self._choices() if is_possible]
        return self.chance.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def _choices(self) -> list[tuple[int, Callable[[], Act], bool]]:
        is_calm = not self.is_reshaping and not self.is_hasty
        ready = self.in_sync - self.pulled
        has_log = self.shape.policy.has_journal or self.shape.policy is HistoryPolicy.PPL
        can_add = self.blank | self.stale - self.pulled
        can_grow = self.shape.level != "10" or (self.shape.layout == "n2" and self.shape.members > 2)
        return [
            (30, self.load, True),
            (10, self.fail, is_calm and bool(self._bearable() or (ready and not self.pulled))),
            (10, self.remove, bool(self.faulty)),
            (10, self.add, bool(can_add) and (None in self.slots or len(self.spares) < 1) and not self.is_reshaping),
            (12, self.readd, bool(self.stale - self.pulled) and None in self.slots and is_calm),
            (4, self.replace, self.is_whole and bool(self.spares)),
            (4, self.grow, self.is_whole and bool(self.blank) and not self.grown and not has_log and can_grow),
            (3, self.enlarge, self.is_whole and not self.size_kib and not has_log and not self.grown),
            (5, self.scrub, self.is_whole),
            (5, self.corrupt, self.is_whole and not self.may_have_bad_blocks),
            (3, self.slow, True),
            (6, self.pull, is_calm and bool(self._bearable())),
            (12, self.plug, bool(self.pulled)),
            (14, self.cut, self.cuts < MOST_CUTS and not self.is_hasty and not self.pulled),
            (8, self.restart, not self.pulled),
            (6, self.pause, True),
            (10, self.idle, True),
        ]

    def load(self) -> Act:
        """Choose writes anywhere in the array, in a small region of it, or at its end."""
        blocks, writable = self.map.blocks, self.shape.writable
        first, count = 0, writable
        place = self.chance.random()
        if place < 0.4:
            count = min(48, count)
            first = self.chance.randrange(writable - count + 1)
        elif place < 0.55 and not self.shape.has_junk:
            first, count = blocks - blocks // 8, blocks // 8
        writes = [self._write(first, count) for _ in range(self.chance.choice((2, 4, 8, 16, 24)))]
        return Act(ActKind.WRITES, writes=tuple(writes))

    def _write(self, first: int, count: int) -> Write:
        if self.chance.random() < 0.12:
            return (0, 0, 0)
        stripe = self.map.stripe_blocks
        if stripe and count >= 2 * stripe and self.chance.random() < 0.1:
            start = -(-first // stripe)
            return (self.chance.randrange(start, (first + count) // stripe) * stripe, stripe, 0)
        length = min(self.chance.choice((1, 1, 1, 2, 3, 8)), count)
        is_through = int(self.chance.random() < 0.08)
        return (first + self.chance.randrange(count - length + 1), length, is_through)

    def _bearable(self) -> list[int]:
        """Return the members whose loss the level survives."""
        return [drive for drive in sorted(self.in_sync - self.pulled) if self.survives(drive)]

    def fail(self) -> Act:
        """Fail a member whose loss the level survives or, occasionally, one whose loss it does not."""
        drives = sorted(self.in_sync - self.pulled)
        bearable = self._bearable()
        unbearable = [drive for drive in drives if not self.survives(drive)]
        if unbearable and not self.pulled and (not bearable or self.chance.random() < DEAD_CHANCE):
            drive = self.chance.choice(unbearable)
            if self.map.has_parity:
                self.is_dead = True
                self.leave(drive)
                self.faulty.add(drive)
            else:
                self.is_broken = True
            return Act(ActKind.FAIL, drive)
        drive = self.chance.choice(bearable)
        self.leave(drive)
        self.faulty.add(drive)
        self.take_spares()
        return Act(ActKind.FAIL, drive)

    def remove(self) -> Act:
        drive = self.chance.choice(sorted(self.faulty))
        self.faulty.discard(drive)
        self.stale.add(drive)
        return Act(ActKind.REMOVE, drive)

    def add(self) -> Act:
        drive = self.chance.choice(sorted((self.blank | self.stale) - self.pulled))
        self.blank.discard(drive)
        self.stale.discard(drive)
        self.spares.add(drive)
        self.take_spares()
        return Act(ActKind.ADD, drive)

    def readd(self) -> Act:
        drive = self.chance.choice(sorted(self.stale - self.pulled))
        if self.shape.policy is HistoryPolicy.BITMAP:
            self.stale.discard(drive)
            self.spares.add(drive)
            self.take_spares()
        return Act(ActKind.READD, drive)

    def replace(self) -> Act:
        drive = self.chance.choice(sorted(self.in_sync))
        spare = min(self.spares)
        self.slots = [spare if each == drive else each for each in self.slots]
        self.spares.discard(spare)
        self.in_sync.discard(drive)
        self.in_sync.add(spare)
        self.faulty.add(drive)
        return Act(ActKind.REPLACE, drive)

    def grow(self) -> Act:
        drive = min(self.blank)
        self.blank.discard(drive)
        self.slots.append(drive)
        self.grown, self.is_reshaping = 1, True
        return Act(ActKind.GROW, drive)

    def enlarge(self) -> Act:
        self.size_kib = self.shape.size_kib + self.chance.choice((256, 512))
        return Act(ActKind.ENLARGE, number=self.size_kib)

    def scrub(self) -> Act:
        return Act(ActKind.SCRUB, word=self.chance.choice(("check", "check", "repair")))

    def corrupt(self) -> Act:
        """Corrupt a few bytes within one page of one member, so that only one member of one strip is affected."""
        drive = self.chance.choice(sorted(self.in_sync))
        page = self.chance.randrange(self.shape.size_kib // 4)
        length = self.chance.choice((1, 16, 512))
        return Act(
            ActKind.SPOIL, drive, number=length, at=page * BLOCK_BYTES + self.chance.randrange(BLOCK_BYTES - length)
        )

    def slow(self) -> Act:
        drive = self.chance.choice(sorted({drive for drive in self.slots if drive is not None} | self.slowed))
        milliseconds = 0 if drive in self.slowed else self.chance.choice((2, 20, 100))
        self.slowed ^= {drive}
        return Act(ActKind.SLOW, drive, number=milliseconds)

    def pull(self) -> Act:
        """Pull a drive. Requests in flight fail; if there are none, md notices the loss only at the next request."""
        drive = self.chance.choice(self._bearable())
        self.pulled.add(drive)
        self.may_have_bad_blocks = True
        return Act(ActKind.PULL, drive)

    def plug(self) -> Act:
        drive = self.chance.choice(sorted(self.pulled))
        self.pulled.discard(drive)
        if drive in self.in_sync:
            self.leave(drive)
            self.faulty.add(drive)
        return Act(ActKind.PLUG_IN, drive)

    def cut(self) -> Act:
        self.cuts += 1
        kind = self.chance.choice(CUT_KINDS)
        ready = [drive for drive in sorted(self.in_sync) if self.survives(drive)]
        is_degraded = bool(self.missing())
        lost = -1
        if ready and not self.is_reshaping and self.chance.random() < 0.3:
            lost = self.chance.choice(ready)
            self.leave(lost)
            self.stale.add(lost)
        is_hasty = lost < 0 and not is_degraded and self.chance.random() < 0.3
        self._after_start()
        self.is_hasty = is_hasty
        if not is_hasty:
            self.rest()
        return Act(ActKind.CUT, lost, word=kind, number=self.chance.randrange(CHANCES), is_hasty=is_hasty)

    def restart(self) -> Act:
        self._after_start()
        self.is_broken = False
        return Act(ActKind.RESTART)

    def _after_start(self) -> None:
        """Leave failed members out of the assembled array."""
        self.stale |= self.faulty
        self.faulty.clear()

    def force(self) -> Act:
        self.is_dead = False
        self.pulled.clear()
        # The member that failed last returns; the others, as many as parity can replace, are stale.
        self.in_sync |= {drive for drive in self.slots if drive is not None}
        for slot, drive in enumerate(self.slots):
            if drive is None and len(self.missing()) > self.shape.raid.parity_members and self.faulty:
                self.slots[slot] = min(self.faulty)
                self.in_sync.add(min(self.faulty))
                self.faulty.discard(min(self.faulty))
        self._after_start()
        self.rest()
        return Act(ActKind.FORCE)

    def pause(self) -> Act:
        return Act(ActKind.PAUSE, number=self.chance.choice((1, 10, 100, 300, 700, 1500)))

    def idle(self) -> Act:
        self.rest()
        return Act(ActKind.IDLE)

    def check(self) -> Act:
        return Act(ActKind.CHECK)


JUNK_BYTES = 5 * MIB
"""Length of the random data on each drive, enough to cover all of the member's data."""
COMMAND_SECONDS = 60.0
IDLE_SECONDS = 4000.0
"""Time limit by the machine's clock; a rebuild of a slow drive with a speed limit takes several hundred seconds."""


class Purpose(StrEnum):
    """The purpose of a step, which determines how the judge evaluates its document."""

    CREATE = "create"
    TOOL = "tool"
    """A command that mdadm or md may refuse."""
    START = "start"
    CUT = "cut"
    LOOK = "look"
    """All blocks are read."""
    SETTLE = "settle"
    """All blocks are read after recovery from a power cut; their content must not change from then on."""
    REST = "rest"
    PARITY = "parity"
    FILL = "fill"
    SCRUBBED = "scrubbed"
    """A check or repair has ended, and its mismatch count is known."""
    SPOILED = "spoiled"
    """Bytes of a member were inverted."""
    UNSURE = "unsure"
    HALT = "halt"
    SEEN = "seen"
    TROUBLE = "trouble"
    PART = "part"
    """A step without expectations."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step.

    ``act`` is the index of its act. A step before all acts has -1, and a step after all acts has the number of acts.
    """

    step: list[Any]
    act: int
    purpose: Purpose


ACTIONS: Mapping[str, type[Fail | Remove | Add | ReAdd]] = {
    str(kind.__struct_config__.tag): kind for kind in (Fail, Remove, Add, ReAdd)
}
"""The actions of lab.actions from which the command lines of acts follow, by name."""


def commands(act: Act, shape: ArrayShape, node_of: Callable[[object], str] = node) -> Iterator[Sequence[str]]:
    """Yield the command lines of an act that is an operation on the array.

    Campaigns also do what the lab's own actions avoid but md and mdadm allow: md chooses the spare for a
    replacement, RAID 10 is reshaped, and the component size grows to less than the drives allow.
    """
    if action := Add if act.kind is ActKind.GROW else ACTIONS.get(act.kind):
        plan = action(disk=str(act.drive)).plan(HistoryArrays(shape.spec, node_of))
        yield from (step.argv for step in plan.steps)
    match act.kind:
        case ActKind.REPLACE:
            yield "mdadm", NODE, "--replace", node_of(act.drive)
        case ActKind.GROW:
            yield "mdadm", "--grow", NODE, f"--raid-devices={shape.members + 1}"
        case ActKind.ENLARGE:
            yield "mdadm", "--grow", NODE, f"--size={act.number}"


class Stepwise:
    """Translates a history into steps."""

    def __init__(self, history: FaultHistory, *, has_evidence: bool = False) -> None:
        self.history, self.shape, self.has_evidence = history, history.shape, has_evidence
        self.act = -1
        self.map = self.shape.block_map()

    def steps(self) -> Iterator[PlannedStep]:
        yield from self.prelude()
        for number, act in enumerate(self.history.acts):
            self.act = number
            yield from getattr(self, "on_" + act.kind.name.lower())(act)
        self.act = len(self.history.acts)
        yield from self.epilogue()

    def make(self, purpose: Purpose, *step: Any) -> PlannedStep:
        return PlannedStep(list(step), self.act, purpose)

    def tool(self, argv: Sequence[str]) -> PlannedStep:
        return self.make(Purpose.TOOL, "run", list(argv), COMMAND_SECONDS)

    def part(self, *step: Any) -> PlannedStep:
        return self.make(Purpose.PART, *step)

    def prelude(self) -> Iterator[PlannedStep]:
        """Fill the drives with zeros or random data, start recording, create the array, and write all blocks."""
        drives = list(range(DRIVES))
        junk = f"junk:{self.history.seed}" if self.shape.has_junk else ""
        yield self.part("begin", drives, JUNK_BYTES, junk)
        if self.shape.policy.has_journal:
            # If the journal supports discards, stopping the array may hang (docs/findings.md, journal-stop).
            yield self.part("write", f"/sys/block/drive{JOURNAL_DRIVE}/queue/discard_max_bytes", "0")
        yield self.part("record", drives)
        yield self.make(Purpose.CREATE, "run", list(self.shape.spec.create_argv), COMMAND_SECONDS)
        yield from self.started()
        yield from self.opened()
        yield self.make(Purpose.FILL, "fill")

    def started(self) -> Iterator[PlannedStep]:
        """Apply again the settings that are lost whenever the array is stopped."""
        if self.shape.sync_kib:
            yield self.part("write", f"{MD}/sync_speed_min", str(self.shape.sync_kib))
            yield self.part("write", f"{MD}/sync_speed_max", str(self.shape.sync_kib))
        if self.shape.policy is HistoryPolicy.WRITE_BACK:
            yield self.part("write", f"{MD}/journal_mode", "write-back")

    def opened(self) -> Iterator[PlannedStep]:
        yield self.part("open", NODE, {"first": 0, "count": self.shape.writable, "depth": self.shape.depth})

    def look(self) -> PlannedStep:
        return self.make(Purpose.LOOK, "check")

    def assembled(self, *, is_forced: bool = False) -> Iterator[PlannedStep]:
        """Assemble the array from all drives with a superblock, and let md start any pending sync."""
        yield self.make(Purpose.START, "assemble", list(range(DRIVES)), is_forced)
        yield from self.started()
        # A started array remains read-auto until the first write (md_mod.start_ro).
        yield self.part("write", f"{MD}/array_state", "active")
        yield self.look()

    def rested(self) -> Iterator[PlannedStep]:
        yield self.make(Purpose.REST, "idle", IDLE_SECONDS)

    def compared(self) -> Iterator[PlannedStep]:
        """Compare parity and copies on the members once no write is in flight."""
        yield self.part("drain")
        if self.shape.policy is HistoryPolicy.WRITE_BACK:
            # Changing the mode writes out the data that only the journal holds (r5c_journal_mode_set() in
            # raid5-cache.c).
            yield self.part("write", f"{MD}/journal_mode", "write-through")
        yield self.make(Purpose.PARITY, "parity")
        if self.shape.policy is HistoryPolicy.WRITE_BACK:
            yield self.part("write", f"{MD}/journal_mode", "write-back")

    def on_writes(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("load", [list(write) for write in act.writes], self.shape.depth)

    # Failing and removing use mdadm's ioctls directly, as starting mdadm takes too long while requests are in flight.

    def on_fail(self, act: Act) -> Iterator[PlannedStep]:
        yield self.make(Purpose.TOOL, "manage", "fail", node(act.drive))
        yield self.look()

    def on_remove(self, act: Act) -> Iterator[PlannedStep]:
        yield self.make(Purpose.TOOL, "manage", "remove", node(act.drive))

    def on_add(self, act: Act) -> Iterator[PlannedStep]:
        yield from map(self.tool, commands(act, self.shape))
        yield self.make(Purpose.SEEN, "state")

    on_readd = on_replace = on_add

    def on_grow(self, act: Act) -> Iterator[PlannedStep]:
        yield from map(self.tool, commands(act, self.shape))
        yield self.look()

    on_enlarge = on_grow

    def on_scrub(self, act: Act) -> Iterator[PlannedStep]:
        yield self.make(Purpose.TOOL, "write", f"{MD}/sync_action", act.word)
        yield self.make(Purpose.SCRUBBED, "idle", IDLE_SECONDS)

    def on_spoil(self, act: Act) -> Iterator[PlannedStep]:
        """Corrupt the member while the array is stopped, because a check would not read what md has in its cache."""
        yield self.part("drain")
        yield from self.rested()
        yield self.make(Purpose.SPOILED, "spoil", node(act.drive), act.at, act.number)
        yield from self.assembled()
        yield self.make(Purpose.TOOL, "write", f"{MD}/sync_action", "check")
        yield self.make(Purpose.SCRUBBED, "idle", IDLE_SECONDS)
        yield self.make(Purpose.TOOL, "write", f"{MD}/sync_action", "repair")
        yield self.part("idle", IDLE_SECONDS)
        yield from self.opened()
        spoiled = self.map.blocks_in({act.at // BLOCK_BYTES}, set(range(self.map.members)))
        yield self.make(Purpose.FILL, "rewrite", [block for block in sorted(spoiled) if block < self.shape.writable])
        yield from self.compared()
        yield self.look()

    def on_slow(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("line", f"pace {act.drive} {act.number * 1_000_000}")

    def on_pull(self, act: Act) -> Iterator[PlannedStep]:
        yield self.part("line", f"pull {act.drive}")
        yield self.look()

    def on_plug_in(self, act: Act) -> Iterator[PlannedStep]:
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
        """Restore all drives, wait until md is idle, compare parity, and read all blocks."""
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
    """Return the steps of a history. ``has_evidence`` adds mdadm's output and /proc/mdstat at the end."""
    return list(Stepwise(history, has_evidence=has_evidence).steps())


def geometries(history: FaultHistory) -> list[dict[str, Any]]:
    """Return the layouts of parity and copies as created, with one more member, and with larger members."""
    shape, sizes = history.shape, [act.number for act in history.acts if act.kind is ActKind.ENLARGE]
    forms = dict.fromkeys([(0, shape.size_kib), (1, shape.size_kib), (0, max(sizes, default=shape.size_kib))])
    return [
        {**shape.block_map(grown, size).geometry(), "members": shape.members + grown, "size_kib": size}
        for grown, size in forms
    ]


def job_of(history: FaultHistory, steps: list[PlannedStep], **more: Any) -> dict[str, Any]:
    """Return the job for the program on the machine."""
    found = geometries(history) if any(step.purpose is Purpose.PARITY for step in steps) else []
    return {"seed": str(history.seed), "steps": [each.step for each in steps], "geometries": found, **more}
