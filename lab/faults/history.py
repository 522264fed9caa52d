"""Histories as values: one tiny array and what is done to it, act by act; and the ids from which each is made again.

An id is ``c1-7`` (the first version of what is chosen, seed 7), with what the campaign was bound to in between
(``c1-l5-ppl-7``: level 5 and PPL alone), and behind it what is left of a history that was shrunk:
``c1-7-s0_2w1.4.5`` has the acts 0 and 2, and of act 2's writes those with the numbers 1, 4 and 5. So an id is all that
a replay needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from lab.arrays.level_names import level_with_layout
from lab.arrays.levels import Level
from lab.errors import SpecError
from lab.faults.block_map import BlockMap
from lab.units import KIB

NOTHING = "none"
"""In an id: no act is left, what the array begins with is enough."""
VERSION = 1
"""Version of the generator: raise it when seeds produce different histories."""
MOST_SEED = 2**32 - 1
LEVELS = ("1", "4", "5", "6", "10")
LAYOUTS = ("n2", "f2", "o2")
DRIVES = 8
JOURNAL_DRIVE = DRIVES - 1
Write = tuple[int, int, int]
"""First block, blocks (0: a flush), and 1 for a write past all caches."""


class HistoryPolicy(StrEnum):
    """How redundancy is kept consistent (md(4), Documentation/admin-guide/md.rst consistency_policy)."""

    RESYNC = "resync"
    BITMAP = "bitmap"
    PPL = "ppl"
    JOURNAL = "journal"
    """Write-through: data and parity are in the log before they are on the members."""
    WRITE_BACK = "write-back"
    """The journal acknowledges."""

    @property
    def has_journal(self) -> bool:
        return self in (HistoryPolicy.JOURNAL, HistoryPolicy.WRITE_BACK)

    def fits(self, level: str) -> bool:
        """Whether md has it on a level (raid5-ppl.rst: RAID 5; raid5-cache.rst: 4, 5 and 6)."""
        if self is HistoryPolicy.PPL:
            return level == "5"
        return level in ("4", "5", "6") or not self.has_journal


class ActKind(StrEnum):
    """What can be done."""

    LOAD = "load"
    """Writes, of which some stay under way."""
    FAIL = "fail"
    REMOVE = "remove"
    ADD = "add"
    READD = "re-add"
    REPLACE = "replace"
    GROW = "grow"
    """By one member, the drive."""
    ENLARGE = "enlarge"
    """Each member gives more: ``number`` KiB."""
    SCRUB = "scrub"
    """``word``: check or repair."""
    CORRUPT = "corrupt"
    """``number`` bytes of the member turned over while the array is stopped; then check, repair, and the blocks written
    again.
    """
    SLOW = "slow"
    """Each request of the drive takes ``number`` milliseconds; 0: as before."""
    PULL = "pull"
    PLUG = "plug"
    CUT = "cut"
    """The power fails; ``word`` is what is left (guest/record.py), and ``drive`` a member that is lost with it.
    ``is_hasty``: what follows comes before md is done with it.
    """
    RESTART = "restart"
    """Stopped in good order, and assembled."""
    FORCE = "force"
    """An array that is dead, assembled by force."""
    PAUSE = "pause"
    """``number`` milliseconds."""
    IDLE = "idle"
    """Until md has nothing to do."""
    CHECK = "check"
    """All is read."""


class Act(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is done."""

    kind: ActKind
    drive: int = -1
    word: str = ""
    number: int = 0
    at: int = 0
    writes: tuple[Write, ...] = ()
    is_hasty: bool = False

    def title(self) -> str:
        """A line for people."""
        what = {ActKind.LOAD: f"{len(self.writes)} writes", ActKind.SCRUB: self.word, ActKind.CUT: self.word}
        words = [self.kind.value, what.get(self.kind, "")]
        if self.drive >= 0:
            words.append(f"drive{self.drive}" if self.kind is not ActKind.CUT else f"without drive{self.drive}")
        if self.number and self.kind is not ActKind.CUT:
            words.append(str(self.number))
        return " ".join(filter(None, words))


class ArrayShape(msgspec.Struct, frozen=True, kw_only=True):
    """The array that a history is about."""

    level: str
    members: int
    policy: HistoryPolicy
    layout: str = ""
    chunk_kib: int = 16
    size_kib: int = 1024
    depth: int = 4
    """Writes under way at most."""
    has_junk: bool = False
    """Its drives hold noise before, and a first resync makes them fit; else they are blank, and it is created as clean.
    """
    sync_kib: int = 0
    """The speed of a sync at most, in KiB a second; 0: as fast as it can."""

    @property
    def raid(self) -> Level:
        return level_with_layout(self.level, self.layout or None)

    def block_map(self, grown: int = 0, size_kib: int = 0) -> BlockMap:
        """Where its blocks are, after so many members more, and with members of another size."""
        # RAID 1 has no chunks: any size does.
        chunk = self.chunk_kib if self.raid.has_chunk else 4
        return BlockMap(self.raid, self.members + grown, (size_kib or self.size_kib) * KIB, chunk * KIB)

    def title(self) -> str:
        """A line for people."""
        layout = f" {self.layout}" if self.layout else ""
        chunk = f", chunks of {self.chunk_kib} KiB" if self.raid.has_chunk else ""
        return f"RAID {self.level}{layout} of {self.members}, {self.policy}{chunk}"


class FaultHistory(msgspec.Struct, frozen=True):
    """All of it. ``seed`` is also that of what the blocks hold."""

    seed: int
    shape: ArrayShape
    acts: tuple[Act, ...]

    @property
    def operations(self) -> int:
        """Acts that do something."""
        return sum(act.kind not in (ActKind.CHECK, ActKind.PAUSE) for act in self.acts)

    @property
    def writes(self) -> int:
        """Of all loads."""
        return sum(len(act.writes) for act in self.acts)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a campaign is bound to; empty words bind to nothing."""

    level: str = ""
    policy: str = ""

    def __post_init__(self) -> None:
        known = ", ".join(HistoryPolicy)
        if self.level and self.level not in LEVELS:
            raise SpecError(f"'{self.level}' is not a level of campaigns", hint=f"choose one of {', '.join(LEVELS)}")
        if self.policy and self.policy not in tuple(HistoryPolicy):
            raise SpecError(f"'{self.policy}' is not a consistency policy", hint=f"choose one of {known}")
        if self.level and self.policy and not HistoryPolicy(self.policy).fits(self.level):
            raise SpecError(
                f"md has no {self.policy} on RAID {self.level}", hint="PPL is RAID 5's; a journal, that of 4, 5 and 6"
            )

    def words(self) -> str:
        """As in an id."""
        return "".join((f"l{self.level}-" if self.level else "", f"{self.policy}-" if self.policy else ""))


_ID = re.compile(r"c(\d+)-(?:l(\d+)-)?(?:([a-z]+(?:-[a-z]+)*)-)?(?:p(\d+)-)?(\d+)(?:-a(\d+))?(?:-s([0-9w._]+|none))?")


@dataclass(frozen=True, slots=True)
class FindingId:
    """What a replay needs.

    ``planted`` is the number of a planted bug, ``before`` how many histories of the seeds before it the machine played.
    """

    bounds: Bounds
    seed: int
    planted: int = 0
    before: int = 0
    kept: str = ""

    def __str__(self) -> str:
        planted = f"p{self.planted}-" if self.planted else ""
        before = f"-a{self.before}" if self.before else ""
        return f"c{VERSION}-{self.bounds.words()}{planted}{self.seed}{before}" + (f"-s{self.kept}" if self.kept else "")


def parse_id(text: str, *, is_any_version: bool = False) -> FindingId:
    """Raises SpecError for what is no id, or one of another version."""
    match = _ID.fullmatch(text)
    if not match:
        raise SpecError(f"'{text}' is not the id of a finding", hint="raidlab fault findings lists those that are kept")
    if int(match[1]) != VERSION and not is_any_version:
        raise SpecError(
            f"'{text}' is of version {match[1]}, and this raidlab makes histories of version {VERSION}",
            hint="replay its folder: the history itself is kept there",
        )
    bounds = Bounds(match[2] or "", match[3] or "")
    found = FindingId(bounds, int(match[5]), int(match[4] or 0), int(match[6] or 0), match[7] or "")
    if found.before > found.seed or found.seed > MOST_SEED:
        raise SpecError(f"'{text}' is not the id of a finding: there are no such seeds", hint="check the id")
    return found


def kept_word(whole: FaultHistory, part: FaultHistory) -> str:
    """What of a history is in a part of it: ``0_2w1.4_5`` is act 0, act 2 with its writes 1 and 4, and act 5."""
    words, start = [], 0
    for act in part.acts:
        index = next(
            number
            for number in range(start, len(whole.acts))
            if msgspec.structs.replace(whole.acts[number], writes=()) == msgspec.structs.replace(act, writes=())
            and _is_part(act.writes, whole.acts[number].writes)
        )
        start = index + 1
        chosen = _places(act.writes, whole.acts[index].writes)
        is_whole = len(act.writes) == len(whole.acts[index].writes)
        words.append(f"{index}" if is_whole else f"{index}w{'.'.join(map(str, chosen))}")
    return "_".join(words) or NOTHING


def part_of(whole: FaultHistory, word: str) -> FaultHistory:
    """The part that ``kept_word`` tells. Raises SpecError for a word of something else."""
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
        raise SpecError(f"'-s{word}' is no part of this history", hint="check the id") from None
    return msgspec.structs.replace(whole, acts=tuple(acts))


def _places(part: tuple[Write, ...], whole: tuple[Write, ...]) -> list[int]:
    found, at = [], 0
    for write in part:
        at = whole.index(write, at)
        found.append(at)
        at += 1
    return found


def _is_part(part: tuple[Write, ...], whole: tuple[Write, ...]) -> bool:
    try:
        _places(part, whole)
    except ValueError:
        return False
    return True
