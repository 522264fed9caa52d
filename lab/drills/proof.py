"""Prove a drill on real arrays: every right way saves the data, and every wrong way shows its mistake."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from lab.checks.proof import Proof, Prover, Way, WayEnd
from lab.disks.kinds import DEFAULT_COUNT, DiskKind, specs
from lab.disks.lab import lab_folder
from lab.drills.case import DrillCase
from lab.drills.desk import DrillDesk, run_lines
from lab.drills.schema import DrillWay, ReadyDrill
from lab.drills.verdict import DrillVerdict, judge
from lab.errors import CommandFailed, DrillError, LabError
from lab.machine import Host, Target
from lab.session.session import Client, LabSession, open_session
from lab.units import MIB

NOTHING_RUNS = "nothing-runs"
"""The only one of the ``common_mistakes`` that can be recognised although nothing was done."""
DISK_BYTES = 128 * MIB
"""About a quarter of the default size, because some ways sync whole disks. The data offset is the same for both sizes.
"""


class DrillProver(Prover):
    """Creates the disaster once, and follows each way from there. Closing ``stack`` stops the machine."""

    kind = "drill"

    def __init__(self, drill: ReadyDrill, client: Client, stack: ExitStack) -> None:
        self._steps = {Way(way.id, way.mistake): way for way in (*drill.drill.right, *drill.drill.wrong)}
        super().__init__(drill.id, drill.seed, len(drill.goal_checks) + 1, [*self._steps])
        self._client, self._stack = client, stack
        self._desk = DrillDesk.begin(self._open_lab(), drill)
        self._is_first_way = True
        """No way has been followed on this machine yet."""

    def _open_lab(self) -> LabSession:
        return self._stack.enter_context(open_session(self._client, start_arrays=False))

    def count_fresh(self) -> int:
        fresh = judge(self._desk)
        if fresh.verdict in (DrillVerdict.SAVED, DrillVerdict.PARTLY, DrillVerdict.LOST):
            self.fail(f"its verdict is '{fresh.verdict}' before anything is done")
        if wrong := [mistake.id for mistake in fresh.mistakes if mistake.id != NOTHING_RUNS]:
            self.fail(f"mistakes are recognised before anything is done: {', '.join(wrong)}")
        return int(fresh.verdict == DrillVerdict.SAVED)

    def take(self, way: Way) -> WayEnd:
        self._reset()
        problem = self._carry_out(self._steps[way])
        try:
            outcome = judge(self._desk)
        except LabError as error:
            return WayEnd(False, details=f"it cannot be judged: {error.message}")
        written = f"{outcome.touched_bytes} bytes written before commit"
        figures = f"{outcome.verdict}, {outcome.saved_percent:g} % saved, {written}"
        names = tuple(mistake.id for mistake in outcome.mistakes)
        details = "; ".join((figures, *outcome.missing, *([problem] if problem else [])))
        return WayEnd(outcome.verdict == DrillVerdict.SAVED, names, details)

    def _reset(self) -> None:
        """Reset the drill. If something that a way left behind keeps the disks in use, restart the machine first."""
        try:
            self._desk.reset()
        except DrillError:
            if self._is_first_way:
                raise
            self._stack.close()
            session = self._open_lab()
            self._desk = DrillDesk(session, DrillCase.require(session.folder))
            self._desk.reset()
        self._is_first_way = False

    def _carry_out(self, way: DrillWay) -> str:
        """Run the steps of a way. Returns the message of the first line that failed, or an empty string."""
        problem = ""
        for step in way.steps:
            if step.commit:
                self._desk.commit()
                continue
            try:
                strict = "" if way.mistake else "set -e\n"
                run_lines(self._desk.session, strict + step.run, self._desk.environment())
            except CommandFailed as error:
                problem = problem or error.message
                if not way.mistake:
                    break
            for line in step.run.strip().splitlines():
                self._desk.note_command(line)
            self._desk.update()
        return problem


def prove(drill: ReadyDrill, target: Target, host: Host) -> Proof:
    """Prove a drill on a machine of its own, with a temporary state folder."""
    with tempfile.TemporaryDirectory(prefix="raidlab-drill-") as folder:
        own = replace(host, state=host.state.elsewhere(Path(folder)))
        if target.is_embedded:
            with lab_folder(own.state, target.lab_name) as disks:
                disks.save(specs(DEFAULT_COUNT, DiskKind.FILE, size_bytes=DISK_BYTES))
        with ExitStack() as stack:
            return DrillProver(drill, Client(target, own), stack).prove()
