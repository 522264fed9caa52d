"""What was seen at a crash point, judged against what md promises: kept, broken, or more than promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from lab.arrays.stripes import stripe_rows
from lab.fault_lab.configuration import BLOCK_BYTES, CHUNK_BYTES, MEMBER_BYTES, PARITY_LEVELS, Configuration
from lab.fault_lab.ledger_program import ALLOWED, Ledger
from lab.fault_lab.record_program import Cut, cut_of
from lab.fault_lab.recording import Recording
from lab.units import MIB, SECTOR_BYTES

DATA_OFFSET_BYTES = 2 * MIB
_BLOCKS_PER_CHUNK = CHUNK_BYTES // BLOCK_BYTES


class Judgement(StrEnum):
    """Of one crash point."""

    KEPT = "kept"
    MORE = "more than promised"
    """Nothing was promised of some blocks, and all the same they are right."""
    EXEMPT = "lost as the promise allows"
    """Wrong or unreadable data where the promise makes an exception: the write hole."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class PointVerdict:
    """One crash point with its judgement; ``reasons`` say what was seen, in words."""

    cut: str
    judgement: Judgement
    reasons: tuple[str, ...]
    seen: Mapping[str, Any]


@dataclass
class Tally:
    """What a configuration's points came to."""

    points: int = 0
    judgements: Counter[Judgement] = field(default_factory=Counter)
    refused: int = 0
    broken: list[PointVerdict] = field(default_factory=list)

    def add(self, verdict: PointVerdict) -> None:
        self.points += 1
        self.judgements[verdict.judgement] += 1
        self.refused += "refused" in verdict.seen
        if verdict.judgement is Judgement.BROKEN:
            self.broken.append(verdict)


class Judge:
    """Knows one recording's array, and judges what was seen at its cuts."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.configuration: Configuration = recording.configuration
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
        """The judgement of one document of crash_program.py."""
        cut = cut_of(seen["cut"])
        if "broke" in seen:
            return PointVerdict(seen["cut"], Judgement.BROKEN, (f"could not be tried: {seen['broke']}",), seen)
        reasons = [*self._of_the_start(cut, seen)]
        exempt = self._exempt(cut)
        was_exempt = False
        for stage in ("started", "settled"):
            look = seen.get(stage, {})
            wrong = [each for each in look.get("bad", ()) if each[0] not in exempt]
            was_exempt = was_exempt or len(wrong) < self._bad_blocks(look)
            reasons += [f"{stage}: block {b} is {v} ({f}; allowed {a})" for b, v, f, a in wrong[:4]]
            if look.get("wrong_rows"):
                reasons.append(f"{stage}: parity or copies do not fit in rows {look['wrong_rows'][:8]}")
        if seen.get("idle") is False:
            reasons.append("md did not come to rest")
        if reasons:
            return PointVerdict(seen["cut"], Judgement.BROKEN, tuple(reasons), seen)
        if was_exempt:
            return PointVerdict(seen["cut"], Judgement.EXEMPT, (), seen)
        return PointVerdict(seen["cut"], Judgement.MORE if exempt else Judgement.KEPT, (), seen)

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
        pages = {self.places[block][1] for block in written} | self._open_pages(cut)
        return frozenset(block for block, (_, page) in self.places.items() if page in pages)

    def _written_blocks(self, cut: Cut) -> set[int]:
        """Blocks with a write that was not known to be on the media."""
        event = self.recording.record.ledger_event(cut.at)
        allowed = self.ledger.allowed(event, is_power_cut=True)
        return {block for block, generations in allowed.items() if len(generations) > 1 and block in self.places}

    def _open_pages(self, cut: Cut) -> set[int]:
        """Pages of the members' data on which some drive had a write that it may have lost."""
        pages: set[int] = set()
        for drive in self.recording.record.drives:
            if drive == self.configuration.journal:
                continue
            for each in self.recording.record.split(drive, cut.at)[1]:
                start = each.sector * SECTOR_BYTES - DATA_OFFSET_BYTES
                end = start + each.count * SECTOR_BYTES
                if end > 0:
                    pages.update(range(max(0, start) // BLOCK_BYTES, -(-end // BLOCK_BYTES)))
        return pages
