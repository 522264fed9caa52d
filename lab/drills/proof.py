"""The proof of a drill on real arrays: nothing is saved by itself, right ways save, wrong ways are known by name."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from lab.drills.case import DrillCase, DrillOutcome
from lab.drills.desk import DrillDesk
from lab.drills.disks import run_lines
from lab.drills.schema import DrillWay, ReadyDrill
from lab.drills.verdict import DrillVerdict, judge
from lab.errors import CommandFailed, LabError
from lab.lessons.proof import WORKERS
from lab.machine import Host, Target
from lab.session.session import open_session


@dataclass(frozen=True, slots=True)
class DrillProof:
    """What became of it, for one seed."""

    drill: str
    seed: str
    right: int
    """Right ways that saved the data."""
    wrong: int
    """Wrong ways that failed, with their own mistake first."""
    seconds: float
    failures: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """One line for people."""
        seed = f" for '{self.seed}'" if self.seed else ""
        return f"{self.drill}{seed}: {self.right} right ways, {self.wrong} wrong ways told apart, {self.seconds:.0f} s"


def prove_all(drills: Sequence[ReadyDrill], target: Target, host: Host) -> Iterator[DrillProof]:
    """All of them, two side by side, in their order."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="raidlab-proof") as pool:
        yield from pool.map(lambda drill: prove(drill, target, host), drills)


def prove(
    drill: ReadyDrill,
    target: Target,
    host: Host,
    *,
    only: Sequence[str] = (),
    on_notice: Callable[[str], None] = lambda _: None,
) -> DrillProof:
    """Make the disaster once, and take each way from there, on a machine of its own.

    ``only``: ids of ways. All is done in a state folder of its own that is gone afterwards.
    """
    began = time.monotonic()
    failures: list[str] = []
    counts = {True: 0, False: 0}
    with tempfile.TemporaryDirectory(prefix="raidlab-drill-") as folder:
        own = replace(host, state=host.state.elsewhere(Path(folder)))
        with open_session(target, own, start_arrays=False, on_notice=on_notice) as session:
            desk = DrillDesk.begin(session, drill)
            fresh = judge(desk, outcome_id="fresh")
            if fresh.verdict == DrillVerdict.SAVED:
                failures.append(f"{drill.id}: it is saved before anything is done")
        for is_right, ways in ((True, drill.drill.right), (False, drill.drill.wrong)):
            for way in ways:
                if only and way.id not in only:
                    continue
                problem = _take(drill, way, target, own, on_notice)
                if problem:
                    failures.append(f"{drill.id} ('{drill.seed}'), way {way.id}: {problem}")
                else:
                    counts[is_right] += 1
    seconds = round(time.monotonic() - began, 1)
    return DrillProof(drill.id, drill.seed, counts[True], counts[False], seconds, tuple(failures))


def _take(drill: ReadyDrill, way: DrillWay, target: Target, host: Host, on_notice: Callable[[str], None]) -> str:
    """What is wrong with a way; empty: nothing."""
    case = DrillCase.find(host.state.lab_folder(target.lab_name))
    if case is None:
        return "the drill is gone from its lab"
    with open_session(target, host, start_arrays=False, on_notice=on_notice) as session:
        desk = DrillDesk(session, case)
        desk.reset()
        said = ""
        for step in way.steps:
            if step.commit:
                desk.commit()
                continue
            try:
                run_lines(session, ("set -e\n" if not way.mistake else "") + step.run, desk.environment())
            except CommandFailed as error:
                said = said or error.message
                if not way.mistake:
                    break
            for line in step.run.strip().splitlines():
                desk.note_command(line)
            desk.look()
        try:
            outcome = judge(desk, outcome_id="proof")
        except LabError as error:
            return f"it cannot be judged: {error.message}"
    return _wrong_end(way, outcome, said)


def _wrong_end(way: DrillWay, outcome: DrillOutcome, said: str) -> str:
    names = [mistake.id for mistake in outcome.mistakes]
    told = f"{outcome.verdict}, {outcome.saved_percent:g} %, written first {outcome.touched_bytes} bytes"
    details = "; ".join((*outcome.missing, *names, *([said] if said else [])))
    if way.mistake:
        if outcome.verdict == DrillVerdict.SAVED:
            return "a wrong way saves all"
        if names[:1] != [way.mistake]:
            return f"mistake {way.mistake} was to be recognised first ({told}; {details})"
        return ""
    return "" if outcome.verdict == DrillVerdict.SAVED else f"it does not save ({told}; {details})"
