"""The app on the real embedded kernel, driven by keys: the newcomer's story, and what becomes of it in accidents."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Button

from lab.disks import DiskKind, specs
from lab.disks.lab_files import lab_folder
from lab.errors import MachineLost
from lab.machine import Host
from lab.plans import Plan
from lab.results.store import ResultStore
from lab.session import plans
from lab.session.session import LabSession
from lab.units import MIB
from tui.app import RaidlabApp
from tui.screens.menu import MenuScreen
from tui.screens.plan import PlanScreen
from tui.screens.welcome import WelcomeScreen
from tui.settings import Settings, save_settings
from tui.state import LabState, PastLoad, Phase
from tui.widgets.frame import HintLine, ProblemBar
from tui.widgets.tiles import Verdict as VerdictBanner

pytestmark = pytest.mark.kernel
PATIENCE_SECONDS = 60.0
DISK_BYTES = 96 * MIB
KILLS = 20
LONGEST_STRETCH_SECONDS = 1.6
S = TypeVar("S", bound="Student")


class Student:
    """Looks at the screen and presses keys."""

    def __init__(self, app: RaidlabApp, pilot: Pilot[object], state: Path) -> None:
        self.app = app
        self.pilot = pilot
        self._state = state

    @property
    def lab(self) -> LabState:
        return self.app.lab

    async def until(self, is_reached: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_reached():
            assert time.monotonic() < deadline, f"never: {what}; the screen says: {self.hint()}"
            await asyncio.sleep(0.02)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def hint(self) -> str:
        """The line that says what to do next."""
        lines = [screen.query(HintLine) for screen in self.app.screen_stack]
        return "".join(plain(line) for found in lines for line in found)

    async def told(self, words: str) -> None:
        """Wait until the screen says so."""
        await self.until(lambda: words in self.hint(), f"the hint '{words}'")

    async def confirm(self) -> None:
        """Run the plan that a key has brought up; the screen closes when it has run."""
        await self.until(lambda: isinstance(self.app.screen, PlanScreen), "a plan")
        await self.press("r")
        await self.until(lambda: not isinstance(self.app.screen, PlanScreen), "the plan is carried out")

    async def to_disk(self, name: str) -> None:
        """Move the rack's cursor there."""
        await self.press("home")
        for _ in self.lab.disks:
            if self.lab.selected_disk == name:
                return
            await self.press("down")
        assert self.lab.selected_disk == name

    def kill_machine(self) -> None:
        """As when someone kills the kernel's process: nothing is closed in order."""
        (kernel,) = self.kernels()
        os.killpg(kernel, signal.SIGKILL)

    def kernels(self) -> set[int]:
        return kernels_of(os.getpid(), self._state)


def kernels_of(pid: int, state: Path) -> set[int]:
    """Process groups of the kernels that a process has started and not cleaned up yet."""
    records = (state / "machines").glob(f"{pid}-*/kernel.json")
    return {int(json.loads(path.read_text())["kernel_group"]) for path in records}


def plain(widget: HintLine | ProblemBar) -> str:
    shown = widget.render()
    return shown.plain if isinstance(shown, Content) else str(shown)


@asynccontextmanager
async def student_at(tmp_path: Path, *, was_welcomed: bool, kind: type[S]) -> AsyncIterator[S]:
    """The real app, at 120 x 40, on the nine disks of a first start, but small."""
    with lab_folder(Host.real("raidlab").state, "default") as folder:
        folder.save(specs(9, DiskKind.FILE, size_bytes=DISK_BYTES))
    settings = tmp_path / "app.json"
    if was_welcomed:
        save_settings(settings, Settings(was_welcomed=True))
    app = RaidlabApp("uml:", settings_file=settings, keys_file=tmp_path / "keys.toml")
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            yield kind(app, pilot, tmp_path)
    finally:
        app.client.close()


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    monkeypatch.setenv("RAIDLAB_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")


async def test_a_newcomer_gets_from_nothing_to_data_intact_by_following_the_screen(tmp_path: Path) -> None:
    async with student_at(tmp_path, was_welcomed=False, kind=Student) as student:
        lab = student.lab
        await student.until(lambda: isinstance(student.app.screen, WelcomeScreen), "the welcome")
        assert student.app.screen.query_one("#welcome-build", Button).has_focus
        await student.press("enter")
        await student.until(lambda: lab.selected, "a first array")
        assert lab.selected is not None
        assert (lab.selected.level, lab.selected.raid_disks) == ("raid5", 4)

        await student.told("m writes known data")
        await student.press("m")
        await student.told("w puts a load on md0")
        await student.press("w")
        await student.until(lambda: isinstance(student.app.screen, MenuScreen), "the workloads")
        await student.press("enter")
        await student.told("f fails it")
        await student.until(lambda: lab.load and lab.load.newest, "live figures of the load")

        await student.to_disk("disk02")
        await student.press("f")
        await student.confirm()
        await student.told("a adds disk05")
        await student.press("a")
        await student.confirm()
        await student.told("The data are intact, under load")
        banner = student.app.screen.query_one(VerdictBanner)
        assert banner.display
        assert "DATA INTACT" in banner.render_line(0).text
        status = lab.selected
        assert status.in_sync_count == 4
        assert {lab.disk_name(member.device) for member in status.members if member.is_in_sync} == {
            "disk01", "disk03", "disk04", "disk05",
        }  # fmt: skip
        kinds = [event.kind.value for event in lab.events]
        assert "restored" in kinds[kinds.index("member-faulty") :]

        await student.press("w")
        await student.until(lambda: lab.past_loads, "the figures of the load")
        assert any("--fail /dev/ubdb" in entry.line for entry in lab.commands)
        await student.told("Done")


def cleared(name: str) -> Callable[[LabSession], Plan]:
    return lambda session: plans.destroy(session, name)


class Restless(Student):
    """Goes round the story for ever, whatever state the lab is in: build, mark, load, fail, rebuild, clear away."""

    is_over = False

    def goes_on(self) -> asyncio.Task[None]:
        self.is_over = False
        return asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        while not self.is_over:
            await self.step()
            await self.pilot.pause(0.02)

    async def step(self) -> None:
        lab, status = self.lab, self.lab.selected
        view = lab.selected_mark
        if isinstance(self.app.screen, PlanScreen):
            await self.run_or_leave(self.app.screen)
        elif not lab.is_open or lab.look is None or lab.operation:
            await asyncio.sleep(0.05)
        elif status is None:
            await self.build()
        elif view is None:
            await self.press("m")
        elif not (lab.load and lab.load.is_running):
            self.app.start_load(status.name, "rand-mix-4k", 0.5)
        elif not lab.past_loads:
            # There must be figures that a kill could cost.
            await asyncio.sleep(0.05)
        elif status.sync_action.is_busy:
            await asyncio.sleep(0.05)
        elif status.is_degraded:
            await self.press("a")
        elif view.verdict and not view.is_stale:
            self.app.operations.make_and_run(cleared(status.name))
        else:
            await self.to_disk(lab.disk_name(status.members[0].device))
            await self.press("f")

    async def close_all(self) -> None:
        """Leave whatever has come up over the screen."""
        for _ in range(10):
            if len(self.app.screen_stack) == 1:
                return
            await self.press("escape")
        raise AssertionError(f"{self.app.screen} cannot be left")

    async def run_or_leave(self, screen: PlanScreen) -> None:
        """A plan that turns out to be impossible stays, and says so."""
        await self.press("r")
        for _ in range(100):
            if self.app.screen is not screen or self.is_over:
                return
            await asyncio.sleep(0.02)
        await self.press("escape")

    async def build(self) -> None:
        found = self.lab.found
        resting = (*found.stopped, *found.refused) if found else ()
        if resting:
            # What was dirty and degraded when the machine died is not started by md: clear it away.
            self.app.operations.make_and_run(cleared(resting[0].name))
        else:
            await self.press("b")


async def test_a_machine_killed_at_any_moment_is_missed_comes_back_and_costs_no_result(
    tmp_path: Path,
) -> None:
    seed = int(os.environ.get("RAIDLAB_TEST_SEED") or random.SystemRandom().randrange(2**32))
    sys.stdout.write(f"repeat this with RAIDLAB_TEST_SEED={seed}\n")
    random_numbers = random.Random(seed)
    async with student_at(tmp_path, was_welcomed=True, kind=Restless) as student:
        lab, app = student.lab, student.app
        seen: list[PastLoad] = []
        story = student.goes_on()
        await student.until(lambda: lab.past_loads or story.done(), "first figures of a load")
        for number in range(KILLS):
            sys.stdout.write(f"{time.monotonic():.1f} {number} {len(lab.past_loads)}\n")
            sys.stdout.flush()
            await asyncio.sleep(random_numbers.uniform(0.0, LONGEST_STRETCH_SECONDS))
            seen = list(lab.past_loads)
            commands = lab.command_count
            student.kill_machine()
            await student.until(lambda: lab.phase is Phase.LOST, "the loss is noticed")
            student.is_over = True
            await story
            await student.close_all()
            await student.until(lambda: app.screen.query_one(ProblemBar).display, "the loss is told")
            assert "The machine is lost" in plain(app.screen.query_one(ProblemBar))
            await student.told("Ctrl+R starts the machine again")
            assert list(lab.past_loads)[: len(seen)] == seen
            assert lab.command_count >= commands
            await student.press("ctrl+r")
            await student.until(lambda: lab.is_open and lab.look, "the machine is started again")
            assert not app.screen.query_one(ProblemBar).display
            story = student.goes_on()
        student.is_over = True
        await story


EXPERIMENT = """
format_version = 1
id = "short"
title = "Short measurements"
question = "What is kept of them?"
repeats = 40

[disks]
kind = "file"
size_bytes = "48M"

[[arrays]]
id = "raid1"
title = "RAID 1"
level = "raid1"
members = 2

[[jobs]]
workload = "rand-read-4k"
file_bytes = "2M"
runtime_seconds = 1.0
warmup_seconds = 0.0
"""


async def test_what_an_experiment_has_measured_outlives_its_machine_and_the_lab_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "short.toml"
    file.write_text(EXPERIMENT)
    async with student_at(tmp_path, was_welcomed=True, kind=Student) as student:
        lab, experiments = student.lab, student.app.experiments
        await student.until(lambda: lab.is_open and lab.look, "the machine runs")
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


class Terminal:
    """A terminal with the real command in it."""

    def __init__(self, argv: list[str]) -> None:
        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (40, 120))
        self.settings = termios.tcgetattr(self._theirs)
        self.output = b""
        self.process = subprocess.Popen(
            argv,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )

    def read_until(self, is_reached: Callable[[bytes], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_reached(self.output):
            assert time.monotonic() < deadline, f"never: {what}; the terminal shows {self.output[-500:]!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.output += os.read(self._ours, 65536)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """The exit status; what the command still prints is kept."""
        self.read_until(lambda _: self.process.poll() is not None, "the command ends")
        while select.select([self._ours], [], [], 0)[0]:
            self.output += os.read(self._ours, 65536)
        return self.process.wait()

    def assert_restored(self) -> None:
        """As it was before: modes of the line, the usual screen, a cursor, no reports of the mouse."""
        assert termios.tcgetattr(self._theirs) == self.settings
        for mode, wanted in ((1049, b"l"), (25, b"h"), (1000, b"l"), (1003, b"l"), (2004, b"l")):
            switches = re.findall(rb"\x1b\[\?%d([hl])" % mode, self.output)
            assert switches, mode
            assert switches[-1] == wanted, mode

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[str], Terminal]]:
    """Opens the app in a terminal, by a line of Python, and waits until its machine runs."""
    opened: list[Terminal] = []
    save_settings(tmp_path / "app.json", Settings(was_welcomed=True))

    def open_app(line: str) -> Terminal:
        made = Terminal([sys.executable, "-c", line, "--on", "uml:"])
        opened.append(made)
        made.read_until(lambda output: b"Nothing is built yet" in output, "the lab is open")
        return made

    yield open_app
    for each in opened:
        each.close()


RAIDLAB = "from lab.cli.main import main; main()"
WITH_A_BUG = f"""
from tui.screens.lab import LabScreen
def show_state(self, state, shown=LabScreen.show_state):
    shown(self, state)
    if state.selected_disk == "disk03":
        raise RuntimeError("a bug that only a test has")
LabScreen.show_state = show_state
{RAIDLAB}"""


def test_the_terminal_is_restored_after_the_machine_was_killed(
    terminal: Callable[[str], Terminal], tmp_path: Path
) -> None:
    app = terminal(RAIDLAB)
    (kernel,) = kernels_of(app.process.pid, tmp_path)
    os.killpg(kernel, signal.SIGKILL)
    app.read_until(lambda output: b"The machine is lost" in output, "the loss is told")
    app.type("q")
    assert app.end() == 0
    app.assert_restored()


def test_the_terminal_is_restored_and_the_machine_ended_by_a_signal(
    terminal: Callable[[str], Terminal], tmp_path: Path
) -> None:
    app = terminal(RAIDLAB)
    app.process.send_signal(signal.SIGTERM)
    assert app.end() == 128 + signal.SIGTERM
    app.assert_restored()
    assert kernels_of(app.process.pid, tmp_path) == set()


def test_the_terminal_is_restored_and_the_machine_ended_after_a_bug(
    terminal: Callable[[str], Terminal], tmp_path: Path
) -> None:
    app = terminal(WITH_A_BUG)
    app.type("\x1b[B\x1b[B")
    assert app.end() == 1
    app.assert_restored()
    assert b"a bug that only a test has" in app.output
    assert kernels_of(app.process.pid, tmp_path) == set()
