"""Runs histories on a machine, with or without planted bugs of md in its kernel, and judges each step.

Planted bugs are defects that campaigns must find. They are in a kernel of their own, which can switch on one at a time
at run time (planted.toml; the patches: provision/kernel/planted). With none switched on, that kernel behaves like the
one with virtual time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lab.errors import LabError, MachineLost, ToolMissing
from lab.faults.history import DRIVES, FaultHistory, PlannedStep, job_of, planned
from lab.faults.judge import HistoryDifference, HistoryJudge
from lab.faults.place import CAMPAIGN, FaultPlace, SilenceWatchdog, open_place, run_program
from lab.gates.decoding import FormatVersion
from lab.machine import Host, Target
from lab.machine.kernel_image import built_part, find_kernel
from lab.machine.programs import Change, unchanged
from lab.plans import Step, write_file_step
from lab.tomlfile import read_toml, unknown_word

PLANTED_FLAVOUR = "planted"
PLANTED_SWITCH = "/sys/module/md_mod/parameters/planted"
_FILE = Path(__file__).with_name("planted.toml")


class PlantedEffect(StrEnum):
    """How the oracle detects a planted bug: by verdicts on blocks, or by comparing parity and copies on the members."""

    CORRUPT = "silently corrupt"
    LOST = "lost after acknowledgement"
    DIFFERENT = "parity or copies differ"


class PlantedNeed(StrEnum):
    """What a history must contain, besides writes, to show a planted bug."""

    CRASH = "power cut"
    CACHE = "write cache that loses what it holds"
    DEGRADED = "a member less"
    DOUBLY_DEGRADED = "two members less"
    RE_ADD = "re-add of a member"
    SPARE = "another disk in place of a member"
    RESTART = "restart of the array"
    RESHAPE = "reshape"
    ABSENCE = "a drive that is gone for an instant"


class PlantedBug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planted bug of md; ``levels``, ``policies`` and ``moments`` are names of promises.toml."""

    number: Annotated[int, msgspec.Meta(ge=1, le=99)]
    """The value that switches it on."""
    name: str
    title: str
    broken: str
    """How md's behaviour differs from the correct one."""
    where: str
    """File in drivers/md, and function."""
    promise: str
    source: str
    """The source of the promise."""
    levels: tuple[str, ...]
    policies: tuple[str, ...]
    moments: tuple[str, ...]
    needs: tuple[PlantedNeed, ...] = ()
    history: tuple[str, ...]
    """The shortest history that shows it; the bug is on from the first step after the array was created and filled."""
    effects: tuple[PlantedEffect, ...]

    @property
    def patch(self) -> str:
        """The name of its file in provision/kernel/planted."""
        return f"{self.number:02d}-{self.name}.patch"


class _PlantedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    bug: tuple[PlantedBug, ...]


@cache
def planted_bugs() -> tuple[PlantedBug, ...]:
    """All planted bugs, by number."""
    return tuple(sorted(read_toml(_FILE, _PlantedFile).bug, key=lambda bug: bug.number))


def find_planted_bug(word: str) -> PlantedBug:
    """The planted bug with this name or number. Raises SpecError, with the nearest name as hint."""
    for bug in planted_bugs():
        if word in (bug.name, str(bug.number)):
            return bug
    raise unknown_word("planted bug", word, [bug.name for bug in planted_bugs()])


def planting(bug: PlantedBug | None) -> Step:
    """The step that switches this bug on and all others off; None: all off."""
    why = f"From now on md has planted bug {bug.number}: {bug.title}." if bug else "From now on md has no planted bug."
    return write_file_step(PLANTED_SWITCH, str(bug.number if bug else 0), why)


def planted_kernel(host: Host) -> Path:
    """The path of the kernel with planted bugs. Raises ToolMissing, with the command that builds it."""
    path = built_part(PLANTED_FLAVOUR) / "linux"
    try:
        return find_kernel(host.processes, host.files, virtual_time=True, chosen=str(path)).path
    except ToolMissing as error:
        reason = "the embedded kernel with planted bugs is not built, or not wholly"
        raise ToolMissing(reason, hint=f"remove {path.parent} if it is there, then: make planted-kernel") from error


def on_planted_kernel(target: Target, host: Host) -> Target:
    """The target with that kernel, in virtual time. Raises ToolMissing if it is not built."""
    for key, value in (("time", "virtual"), ("kernel", str(planted_kernel(host)))):
        if target.options.get(key) != value:
            target = target.with_option(key, value)
    return target


MACHINE_SEED = 1
"""The seed of all machines of campaigns: a history's outcome must not depend on what else ran."""
LOST, STOOD_STILL = "machine lost", "stood still"


@dataclass(frozen=True, slots=True)
class Arena:
    """Where histories run.

    ``planted`` is the number of the planted bug that is switched on (0: none), ``change`` a modification of the oracle.
    """

    target: Target
    host: Host
    planted: int = 0
    change: Change = unchanged
    is_control: bool = False
    """Run on the kernel with planted bugs, but with none of them switched on."""

    @contextmanager
    def opened(self) -> Iterator[FaultPlace]:
        """Open a newly started machine with blank drives."""
        target = on_planted_kernel(self.target, self.host) if self.planted else self.target
        with open_place(target, self.host, drives=DRIVES, seed=MACHINE_SEED) as place:
            if self.planted and not self.is_control:
                place.lab.machine.write(PLANTED_SWITCH, str(find_planted_bug(str(self.planted)).number))
            yield place


@dataclass(frozen=True)
class HistoryOutcome:
    """The outcome of one history; ``documents`` are the player's, with the step of each."""

    history: FaultHistory
    differences: tuple[HistoryDifference, ...]
    explained: Counter[str]
    said_no: Counter[str] = field(default_factory=Counter)
    documents: tuple[tuple[PlannedStep, dict[str, Any]], ...] = ()
    is_over: bool = False
    """Whether the machine must not be used any more."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(each.kind for each in self.differences)


def play(
    place: FaultPlace,
    histories: Sequence[FaultHistory],
    *,
    change: Change = unchanged,
    is_stopped: Callable[[], bool] = lambda: False,
    has_evidence: bool = False,
    **more: Any,
) -> Iterator[HistoryOutcome]:
    """Run histories one after the other in one process, and yield each outcome as the history ends.

    If the machine is lost or hangs, that is the outcome of the current history, and the last one; so is an outcome
    after which the machine cannot be trusted. After ``is_stopped`` nothing more is yielded.
    """
    plans = [planned(history, has_evidence=has_evidence) for history in histories]
    jobs = [job_of(history, plan, **more) for history, plan in zip(histories, plans, strict=True)]
    number, judge, documents = 0, HistoryJudge(histories[0]), list[tuple[PlannedStep, dict[str, Any]]]()
    with SilenceWatchdog(place.lab.machine) as watchdog:
        try:
            for seen in run_program(place.lab.machine, CAMPAIGN, {"histories": jobs}, change=change):
                watchdog.feed()
                if is_stopped():
                    return
                if "end" not in seen:
                    step = plans[number][seen["step"]]
                    documents.append((step, seen))
                    judge.hear(step, seen)
                    continue
                is_over = bool({each.kind for each in judge.differences} & SPOILING)
                yield _outcome(judge, documents, is_over=is_over)
                if is_over:
                    return
                number, documents = number + 1, []
                if number < len(histories):
                    judge = HistoryJudge(histories[number])
        except LabError as error:
            if is_stopped() or number == len(histories):
                raise
            step = documents[-1][0] if documents else plans[number][0]
            is_hung = watchdog.is_silent or not isinstance(error, MachineLost)
            judge.differ(STOOD_STILL if is_hung else LOST, step, f"{error.message} after {step.step[0]}")
            yield _outcome(judge, documents, is_over=True)


SPOILING = frozenset(
    {STOOD_STILL, LOST, "could not be played", "could not be stopped", "kernel complained", "not created"}
)
"""Kinds of differences after which the machine may be in an unknown state."""


def _outcome(
    judge: HistoryJudge, documents: list[tuple[PlannedStep, dict[str, Any]]], *, is_over: bool
) -> HistoryOutcome:
    return HistoryOutcome(
        judge.history, tuple(judge.differences), judge.explained, judge.said_no, tuple(documents), is_over
    )


def replayed(arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = (), **more: Any) -> HistoryOutcome:
    """The outcome of a history on a machine of its own, after the histories ``before``."""
    with arena.opened() as place:
        outcomes = list(play(place, [*before, history], change=arena.change, **more))
    return outcomes[-1]
