"""Histories played by a rule instead of a machine: what campaigns and shrinking make of what they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.faults.campaign import Arena, HistoryOutcome
from lab.faults.history import FaultHistory
from lab.faults.judge import HistoryDifference
from lab.host.clock import HostClock
from lab.machine import Host, parse_target
from tests.unit.disks import machines

Rule = Callable[[FaultHistory], str]
"""What a history shows: the kind of a difference, or nothing."""


def host_in(folder: Path) -> Host:
    return machines.host_in(folder / "state", HostClock())


def outcome_of(history: FaultHistory, kind: str, *, is_over: bool = False) -> HistoryOutcome:
    shown = (HistoryDifference(kind, len(history.acts) - 1, f"{kind}, as the rule says"),) if kind else ()
    return HistoryOutcome(history, shown, Counter({"write hole": 1}), is_over=is_over)


@dataclass
class PlayedByRule:
    """Stands in for ``play``: how many machines were opened, which histories were played, and what ends a machine."""

    rule: Rule
    host: Host
    opened: int = 0
    played: list[FaultHistory] = field(default_factory=list)
    ends_machine: frozenset[str] = frozenset()
    on_history: Callable[[FaultHistory], None] = lambda _: None
    planted: int = 0
    control: Rule = lambda _: ""
    """What a history shows while no bug is planted, where one is looked for."""

    @property
    def arena(self) -> Arena:
        return _RuledArena(parse_target("uml:?time=virtual"), self.host, self.planted, played=self)

    def play(self, _place: object, histories: Sequence[FaultHistory], **more: Any) -> Iterator[HistoryOutcome]:
        is_stopped = more.get("is_stopped", lambda: False)
        for history in histories:
            if is_stopped():
                return
            self.on_history(history)
            self.played.append(history)
            kind = self.rule(history)
            is_over = kind in self.ends_machine
            yield outcome_of(history, kind, is_over=is_over)
            if is_over:
                return

    def replayed(self, arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = ()) -> HistoryOutcome:
        if arena.is_control:
            return outcome_of(history, self.control(history))
        return list(self.play(None, [*before, history]))[-1]


@dataclass(frozen=True)
class _RuledArena(Arena):
    played: PlayedByRule = None  # type: ignore[assignment]

    @contextmanager
    def opened(self) -> Iterator[Any]:
        self.played.opened += 1
        yield object()
