"""What was seen at a crash point, judged against what md promises: kept, broken, or more than promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from lab.arrays.stripes import stripe_rows
from lab.faults.configuration import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    MEMBER_BYTES,
    PARITY_LEVELS,
    CutConfiguration,
    KnownDefect,
    promises,
)
from lab.faults.guest.ledger import ALLOWED, Ledger
from lab.faults.guest.record import Cut, cut_of
from lab.faults.recording import DriveRecording
from lab.units import MIB, SECTOR_BYTES

DATA_OFFSET_BYTES = 2 * MIB
_BLOCKS_PER_CHUNK = CHUNK_BYTES // BLOCK_BYTES


class PointJudgement(StrEnum):
    """Of one crash point."""

    KEPT = "kept"
    MORE = "more than promised"
    """Nothing was promised of some blocks, and all the same they are right."""
    EXEMPT = "lost as the promise allows"
    """Wrong or unreadable data where the promise makes an exception: the write hole."""
    KNOWN = "a known defect of md"
    """A promise is broken, in just the way that docs/findings.md describes."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class PointVerdict:
    """One crash point with its judgement; ``reasons`` say what was seen, in words."""

    cut: str
    judgement: PointJudgement
    reasons: tuple[str, ...]
    seen: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Excuse:
    """Of what a known defect tells at one cut."""

    defect: KnownDefect
    blocks: frozenset[int]
    rows: frozenset[int]
    is_start: bool
    """Whether the array may be refused, also by force."""


@dataclass
class Tally:
    """What a configuration's points came to."""

    points: int = 0
    judgements: Counter[PointJudgement] = field(default_factory=Counter)
    refused: int = 0
    broken: list[PointVerdict] = field(default_factory=list)

    def add(self, verdict: PointVerdict) -> None:
        self.points += 1
        self.judgements[verdict.judgement] += 1
        self.refused += "refused" in verdict.seen
        if verdict.judgement is PointJudgement.BROKEN:
            self.broken.append(verdict)


class Judge:
    """Knows one recording's array, and judges what was seen at its cuts."""

    def __init__(self, recording: DriveRecording) -> None:
        self.recording = recording
        self.configuration: CutConfiguration = recording.configuration
        self.ledger = Ledger(recording.events)

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Block of the array -> (slot, page of the member's data), of levels with parity, before any reshape."""
        found = {}
        rows = stripe_rows(self.configuration.raid, None, self.configuration.members, MEMBER_BYTES // CHUNK_BYTES)
        for row in rows:
            for slot, chunk in enumerate(row.chunks):
                for page in range(_BLOCKS_PER_CHUNK) if not chunk.kind.is_parity else ():
                    block = chunk.number * _BLOCKS_PER_CHUNK + page
                    found[block] = (slot, row.row * _BLOCKS_PER_CHUNK + page)
        return found

    def verdict(self, seen: Mapping[str, Any]) -> PointVerdict:
        """The judgement of one document of guest/crash.py."""
        cut = cut_of(seen["cut"])
        if "broke" in seen:
            return PointVerdict(seen["cut"], PointJudgement.BROKEN, (f"could not be tried: {seen['broke']}",), seen)
        exempt, excuses = self._exempt(cut), [*self._excuses(cut, seen)]
        reasons = [*self._of_the_start(cut, seen)]
        used = [each for each in excuses if reasons and each.is_start]
        reasons = [] if used else reasons
        was_exempt = False
        for stage in ("started", "settled"):
            look = seen.get(stage, {})
            wrong = [each for each in look.get("bad", ()) if each[0] not in exempt]
            was_exempt = was_exempt or len(wrong) < self._bad_blocks(look)
            rows = list(look.get("wrong_rows", ()))
            for each in excuses:
                if any(one[0] in each.blocks for one in wrong) or any(row in each.rows for row in rows):
                    used.append(each)
                    wrong = [one for one in wrong if one[0] not in each.blocks]
                    rows = [row for row in rows if row not in each.rows]
            reasons += [f"{stage}: block {b} is {v} ({f}; allowed {a})" for b, v, f, a in wrong[:4]]
            if rows:
                reasons.append(f"{stage}: parity or copies do not fit in rows {rows[:8]}")
        if seen.get("idle") is False:
            reasons.append("md did not come to rest")
        if reasons:
            return PointVerdict(seen["cut"], PointJudgement.BROKEN, tuple(reasons), seen)
        if used:
            why = dict.fromkeys(f"{each.defect.why} (docs/findings.md, {each.defect.finding})" for each in used)
            return PointVerdict(seen["cut"], PointJudgement.KNOWN, tuple(why), seen)
        if was_exempt:
            return PointVerdict(seen["cut"], PointJudgement.EXEMPT, (), seen)
        return PointVerdict(seen["cut"], PointJudgement.MORE if exempt else PointJudgement.KEPT, (), seen)

    @cached_property
    def _known_defects(self) -> tuple[KnownDefect, ...]:
        return tuple(each for each in promises().known if each.covers(self.configuration))

    def _excuses(self, cut: Cut, seen: Mapping[str, Any]) -> Iterator[Excuse]:
        """Of what in particular known defects tell at this cut."""
        labels = seen.get("labels", ())
        for defect in self._known_defects:
            pages = {page for _, page in self._places(cut)}
            rows = self._rows(pages)
            blocks = {block for block, (_, page) in self.places.items() if page in pages}
            is_start = "start" in defect.what
            match defect.where:
                case "written":
                    written = self._places(cut, only_open=False)
                    blocks = {block for block in blocks if self.places[block] in written}
                case "first rows":
                    blocks = self._overwritten(cut, labels)
                case "offsets differ":
                    if len({each["data_offset"] for each in labels}) < 2:
                        continue
                    blocks, rows = set(self.places), self._rows(range(MEMBER_BYTES // BLOCK_BYTES))
                case "shapes differ":
                    is_start = len({each["raid_disks"] for each in labels}) > 1
            is_of = {name: name in defect.what for name in ("blocks", "rows")}
            yield Excuse(
                defect,
                frozenset(blocks if is_of["blocks"] else ()),
                frozenset(rows if is_of["rows"] else ()),
                is_start,
            )

    @cached_property
    def _row_chunks(self) -> list[set[int]]:
        """Which chunks of members each row has."""
        return [_chunks_of(row) for row in self.configuration.geometry["rows"]]

    def _rows(self, pages: Iterable[int]) -> set[int]:
        """Rows of what is compared that have one of these pages of a member."""
        chunks = {page // _BLOCKS_PER_CHUNK for page in pages}
        return {number for number, row in enumerate(self._row_chunks) if chunks & row}

    def _overwritten(self, cut: Cut, labels: Sequence[Mapping[str, Any]]) -> set[int]:
        """What a reshape that moves data by a chunk reads again though it has written there.

        Only what lies beyond its recorded position, and before the place from which on it reads so far ahead of where
        it writes that it records the position in time (reshape_request() in drivers/md/raid5.c).
        """
        if not labels or labels[0]["reshape_position"] is None:
            return set()
        raid, before, after = self.configuration.raid, self.configuration.members, self.configuration.final_members
        few, many = (members - raid.parity_members for members in (before, after))
        first = labels[0]["reshape_position"] * SECTOR_BYTES // BLOCK_BYTES
        end = 2 * _BLOCKS_PER_CHUNK * few * many // (many - few)
        written = self._places(cut, only_open=False)
        return {block for block, place in self.places.items() if first <= block < end and place in written}

    def _bad_blocks(self, look: Mapping[str, Any]) -> int:
        return sum(count for word, count in look.get("verdicts", {}).items() if word not in ALLOWED)

    def _of_the_start(self, cut: Cut, seen: Mapping[str, Any]) -> Iterable[str]:
        """Whether the array could be started as the promise says."""
        if "dead" in seen:
            yield f"could not be started, also forced: {seen['dead']}"
        elif "refused" in seen and not self._may_be_refused(cut):
            yield f"was refused: {seen['refused']}"

    def _may_be_refused(self, cut: Cut) -> bool:
        """Dirty and degraded (md(4), start_dirty_degraded).

        Not where nothing is missing, nor where parity is no matter.
        """
        is_degraded = bool(cut.missing) or self.configuration.removed is not None
        return self.configuration.policy.is_refused and self.configuration.level in PARITY_LEVELS and is_degraded

    def _exempt(self, cut: Cut) -> frozenset[int]:
        """Blocks of which the promise says nothing at this cut."""
        configuration = self.configuration
        is_degraded = bool(cut.missing) or configuration.removed is not None
        if configuration.level not in PARITY_LEVELS or not is_degraded or configuration.policy.exempt == "none":
            return frozenset()
        lost = {configuration.slot(each) for each in cut.missing}
        if configuration.removed is not None:
            lost.add(configuration.removed)
        if configuration.moment == "first-sync":
            # What the first resync has not reached has no parity yet.
            return frozenset(block for block, (slot, _) in self.places.items() if slot in lost)
        written = self._written_blocks(cut)
        if configuration.policy.exempt == "written":
            return frozenset(block for block in written if self.places[block][0] in lost)
        pages = {self.places[block][1] for block in written} | {page for _, page in self._places(cut)}
        return frozenset(block for block, (_, page) in self.places.items() if page in pages)

    def _written_blocks(self, cut: Cut) -> set[int]:
        """Blocks with a write that was not known to be on the media."""
        event = self.recording.record.ledger_event(cut.at)
        allowed = self.ledger.allowed(event, is_power_cut=True)
        return {block for block, generations in allowed.items() if len(generations) > 1 and block in self.places}

    def _places(self, cut: Cut, *, only_open: bool = True) -> set[tuple[int, int]]:
        """(slot, page of the member's data) where a drive had a write that it might lose, or any write at all."""
        places: set[tuple[int, int]] = set()
        for drive in self.recording.record.drives:
            if drive == self.configuration.journal:
                continue
            slot = self.configuration.slot(drive)
            sure, open_ = self.recording.record.split(drive, cut.at)
            for each in open_ if only_open else (*sure, *open_):
                start = each.sector * SECTOR_BYTES - DATA_OFFSET_BYTES
                end = start + each.count * SECTOR_BYTES
                pages = range(max(0, start) // BLOCK_BYTES, -(-end // BLOCK_BYTES)) if end > 0 else ()
                places.update((slot, page) for page in pages)
        return places


def _chunks_of(row: Sequence[Any]) -> set[int]:
    """Which chunks of members a row has (guest/arrays.py, ``disagreeing``)."""
    return {chunk for _, chunk in row[1]} if row[0] == "copies" else {row[1]}
