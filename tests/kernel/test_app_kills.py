"""The app on the embedded kernel when machines are killed: it notices, restarts them, and loses no result."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.support.report import SMALL_EXPERIMENT
from lab.errors import MachineLost
from lab.machine import Host
from lab.plans import Plan
from lab.results.store import ResultStore
from lab.session.session import LabSession
from tests.kernel.student import Student, own_state, plain, student_at
from tui.mode import ProblemBar
from tui.plan_screen import PlanScreen
from tui.state import MachinePhase, PastLoad

__all__ = ["own_state"]
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800), pytest.mark.wide]
KILLS = 20
LONGEST_STRETCH_SECONDS = 1.6


def cleared(name: str) -> Callable[[LabSession], Plan]:
    return lambda session: session.array(name).destroy()


class Restless(Student):
    """Repeats a story forever, whatever state the lab is in: build, mark, load, fail, rebuild, destroy."""

    is_over = False

    def keeps_stepping(self) -> asyncio.Task[None]:
        self.is_over = False
        return asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        while not self.is_over:
            await self.step()
            await self.pilot.pause(0.02)

    async def step(self) -> None:
        lab, status = self.lab, self.lab.selected
        view = lab.marks.get(status.name) if status else None
        if isinstance(self.app.screen, PlanScreen):
            await self.run_or_leave(self.app.screen)
        elif not lab.is_open or lab.snapshot is None or lab.operation:
            await asyncio.sleep(0.05)
        elif status is None:
            await self.build()
        elif self.app.current_mode != "lab":
            # The key for building was pressed just before the array appeared.
            await self.press("1")
        elif view is None:
            await self.press("m")
        elif not (lab.load and lab.load.is_running):
            self.app.loads.start(status.name, "rand-mix-4k", 0.5)
        elif not lab.past_loads:
            # There must be figures that a kill could lose.
            await asyncio.sleep(0.05)
        elif status.sync_action.is_busy:
            await asyncio.sleep(0.05)
        elif status.is_degraded:
            await self.press("a")
        elif view.verdict and not view.is_stale:
            self.app.make_and_run(cleared(status.name))
        else:
            await self.to_disk(lab.disk_name(status.members[0].device))
            await self.press("f")

    async def close_all(self) -> None:
        """Leave all dialogs."""
        for _ in range(10):
            if len(self.app.screen_stack) == 1:
                return
            await self.press("escape")
        raise AssertionError(f"{self.app.screen} cannot be left")

    async def run_or_leave(self, screen: PlanScreen) -> None:
        """Run the plan; leave its screen if the plan cannot be run."""
        await self.press("r")
        for _ in range(100):
            if self.app.screen is not screen or self.is_over:
                return
            await asyncio.sleep(0.02)
        # The screen may have closed meanwhile.
        if self.app.screen is screen:
            await self.press("escape")

    async def build(self) -> None:
        found = self.lab.found
        resting = (*found.stopped, *found.refused) if found else ()
        if resting:
            # md does not start an array that was dirty and degraded when the machine died, so it is destroyed.
            self.app.make_and_run(cleared(resting[0].name))
        else:
            await self.press("b")


async def test_a_machine_killed_at_any_moment_is_missed_comes_back_and_costs_no_result(tmp_path: Path) -> None:
    seed = int(os.environ.get("RAIDLAB_TEST_SEED") or random.SystemRandom().randrange(2**32))
    sys.stdout.write(f"repeat this with RAIDLAB_TEST_SEED={seed}\n")
    random_numbers = random.Random(seed)
    async with student_at(tmp_path, Restless) as student:
        lab, app = student.lab, student.app
        seen: list[PastLoad] = []
        story = student.keeps_stepping()
        await student.until(lambda: lab.past_loads or story.done(), "first figures of a load")
        for number in range(KILLS):
            sys.stdout.write(f"{time.monotonic():.1f} {number} {len(lab.past_loads)}\n")
            sys.stdout.flush()
            await asyncio.sleep(random_numbers.uniform(0.0, LONGEST_STRETCH_SECONDS))
            seen = list(lab.past_loads)
            commands = lab.command_count
            student.kill_machine()
            await student.until(lambda: lab.phase is MachinePhase.LOST, "the loss is noticed")
            student.is_over = True
            await story
            await student.close_all()
            await student.until(lambda: app.screen.query_one(ProblemBar).display, "the loss is told")
            assert "The machine is lost" in plain(app.screen.query_one(ProblemBar))
            await student.sees_hint("Ctrl+R restarts the machine")
            assert list(lab.past_loads)[: len(seen)] == seen
            assert lab.command_count >= commands
            await student.press("ctrl+r")
            await student.until(lambda: lab.is_open and lab.snapshot, "the machine is started again")
            assert not app.screen.query_one(ProblemBar).display
            story = student.keeps_stepping()
        student.is_over = True
        await story


async def test_results_of_an_experiment_outlive_its_machine_and_the_lab_stays_open(tmp_path: Path) -> None:
    file = tmp_path / "short.toml"
    file.write_text(SMALL_EXPERIMENT.read_text().replace("repeats = 2", "repeats = 40"))
    async with student_at(tmp_path, Student) as student:
        lab, experiments = student.lab, student.app.experiments
        await student.until(lambda: lab.is_open and lab.snapshot, "the machine runs")
        own = student.kernels()
        assert experiments.start(str(file))
        view = experiments.view
        assert view is not None
        await student.until(lambda: view.done_count >= 2, "two measurements")
        (other,) = student.kernels() - own
        os.killpg(other, signal.SIGKILL)
        await student.until(lambda: not view.is_running, "the loss is told")
        assert isinstance(view.outcome, MachineLost)
        stored = ResultStore(Host.real("raidlab").state.results).load(view.result_id)
        assert len(stored.cells) >= 2
        assert lab.is_open
