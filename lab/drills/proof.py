"""The proof of a drill on real arrays: nothing is saved by itself, right ways save, wrong ways are known by name."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.disks.kinds import DEFAULT_COUNT, DiskKind, specs
from lab.disks.lab_files import lab_folder
from lab.drills.case import DrillCase, DrillOutcome
from lab.drills.desk import DrillDesk
from lab.drills.disks import run_lines
from lab.drills.schema import DrillWay, ReadyDrill
from lab.drills.verdict import DrillVerdict, judge
from lab.errors import CommandFailed, DrillError, LabError
from lab.machine import Host, Target, TargetKind
from lab.session.session import LabSession, open_session
from lab.units import MIB

NOTHING_RUNS = "nothing-runs"
"""The mistake that is no deed: of common_mistakes."""
DISK_BYTES = 128 * MIB
"""A quarter of what a lab has by itself, since some ways sync whole disks; mdadm puts data at the same offset."""


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
    ways = [(True, way) for way in drill.drill.right] + [(False, way) for way in drill.drill.wrong]
    rest = deque((is_right, way) for is_right, way in ways if not only or way.id in only)
    with tempfile.TemporaryDirectory(prefix="raidlab-drill-") as folder:
        own = replace(host, state=host.state.elsewhere(Path(folder)))
        if target.kind is TargetKind.UML:
            with lab_folder(own.state, target.lab_name) as disks:
                disks.save(specs(DEFAULT_COUNT, DiskKind.FILE, size_bytes=DISK_BYTES))
        is_made = False
        while rest:
            with open_session(target, own, start_arrays=False, on_notice=on_notice) as session:
                desk = _made(session, drill, failures) if not is_made else _found(session)
                is_made, taken = True, 0
                while rest:
                    try:
                        desk.reset()
                    except DrillError:
                        # What a way leaves may hold the disks until the machine starts again.
                        if not taken:
                            raise
                        break
                    taken += 1
                    is_right, way = rest.popleft()
                    problem = _take(desk, way)
                    counts[is_right] += not problem
                    failures += [f"{drill.id} ('{drill.seed}'), way {way.id}: {problem}"] if problem else []
    seconds = round(time.monotonic() - began, 1)
    return DrillProof(drill.id, drill.seed, counts[True], counts[False], seconds, tuple(failures))


def _made(session: LabSession, drill: ReadyDrill, failures: list[str]) -> DrillDesk:
    desk = DrillDesk.begin(session, drill)
    fresh = judge(desk, outcome_id="fresh")
    if fresh.verdict == DrillVerdict.SAVED:
        failures.append(f"{drill.id}: it is saved before anything is done")
    if wrong := [mistake.id for mistake in fresh.mistakes if mistake.id != NOTHING_RUNS]:
        failures.append(f"{drill.id}: {', '.join(wrong)}: recognised before anything is done")
    if fresh.verdict in (DrillVerdict.PARTLY, DrillVerdict.LOST):
        failures.append(f"{drill.id}: it is {fresh.verdict} before anything is done")
    return desk


def _found(session: LabSession) -> DrillDesk:
    case = DrillCase.find(session.folder)
    if case is None:
        raise DrillError("the drill is gone from its lab")
    return DrillDesk(session, case)


def _take(desk: DrillDesk, way: DrillWay) -> str:
    """What is wrong with a way; empty: nothing."""
    said = ""
    for step in way.steps:
        if step.commit:
            desk.commit()
            continue
        try:
            run_lines(desk.session, ("set -e\n" if not way.mistake else "") + step.run, desk.environment())
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
