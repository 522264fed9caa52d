"""A student takes lessons in the real app, on the embedded kernel: keys on any screen, checks on real arrays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from lab.actions.action import Action
from lab.disks import DiskKind, specs
from lab.lessons.course import make_action
from lab.machine import Host
from lab.results.store import ResultStore
from lab.session.session import LabSession
from lab.units import MIB
from tests.kernel.place import kernel_target
from tui.app import RaidlabApp, Settings, save_settings
from tui.lessons import LessonView
from tui.plan_screen import PlanScreen

pytestmark = pytest.mark.kernel
PATIENCE_SECONDS = 240.0


def own_lab(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven small disks."""
    monkeypatch.setenv("RAIDLAB_STATE", str(folder / "state"))
    disks = folder / "state" / "labs" / "default"
    disks.mkdir(parents=True)
    (disks / "lab.json").write_bytes(msgspec.json.encode(specs(7, DiskKind.FILE, size_bytes=64 * MIB)))


@asynccontextmanager
async def student(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[RaidlabApp, Pilot[object]]]:
    """The app with an open lab of its own, on the screen of the lessons."""
    own_lab(folder, monkeypatch)
    settings = folder / "app.json"
    save_settings(settings, Settings(was_welcomed=True))
    app = RaidlabApp(kernel_target().text, settings_file=settings, keys_file=folder / "keys.toml")
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app.lab.look is not None, "the lab is open")
            await pilot.press("6")
            await until(pilot, lambda: bool(app.guide.course), "the course is read")
            yield app, pilot
    finally:
        app.client.close()


async def until(pilot: Pilot[object], is_reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_reached():
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.05)
    await pilot.pause()


def view_of(app: RaidlabApp) -> LessonView:
    assert app.guide.view is not None
    return app.guide.view


async def begin(app: RaidlabApp, pilot: Pilot[object], lesson: str) -> None:
    app.guide.begin(lesson)
    await until(pilot, lambda: app.guide.view is not None, "the lesson is open")


async def step_done(app: RaidlabApp, pilot: Pilot[object], number: int) -> None:
    """Wait for the end of the step, and read why."""
    await until(pilot, lambda: view_of(app).done_count == number, f"step {number} is done")
    explanation = view_of(app).explanation
    assert explanation is not None
    assert explanation.text
    app.show_now()
    await pilot.press("n")
    assert view_of(app).explanation is None


async def test_a_disk_fails_and_is_replaced_while_the_lesson_looks_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with student(tmp_path, monkeypatch) as (app, pilot):
        await begin(app, pilot, "05-failing-and-rebuilding")
        step = view_of(app).step
        assert step is not None
        assert step.passed_count == 0
        await pilot.press("o")
        await step_done(app, pilot, 1)

        # The wrong disk first: the lesson says so, and begins anew on blank disks.
        await pilot.press("c")
        do(app, {"act": "array.fail", "disk": "disk02"})
        await until(pilot, lambda: "classic accident" in mistake(app), "the mistake is recognised")
        await pilot.press("z")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen), "what will be lost is shown")
        await pilot.press("r")
        await until(pilot, lambda: view_of(app).done_count == 0 and not app.lab.arrays, "the lab is blank")

        for number, letter in ((1, ""), (2, "c"), (3, "b"), (4, "")):
            if letter:
                app.show_now()
                await pilot.press(letter)
            await until(pilot, lambda: app.screen.check_action("do_step", ()) is True, "the lab can do it")
            await pilot.press("o")
            await step_done(app, pilot, number)
        assert view_of(app).step is None
        assert next(item for item in app.guide.course if item.number == "5").is_done


async def test_what_is_typed_by_hand_counts_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with student(tmp_path, monkeypatch) as (app, pilot):
        await begin(app, pilot, "02-striping")
        await pilot.press("5")
        nodes = [disk.node for disk in app.lab.disks[:4]]
        line = f"mdadm --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=4 {' '.join(nodes)}"
        assert app.shell.run(line)
        await until(pilot, lambda: view_of(app).done_count == 1, "the lesson has seen it")


async def test_a_measurement_decides_a_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with student(tmp_path, monkeypatch) as (app, pilot):
        await begin(app, pilot, "01-what-a-disk-promises")
        app.show_now()
        await pilot.press("a", "r")
        await until(pilot, lambda: bool(view_of(app).activity), "it is measured")
        await until(pilot, lambda: not view_of(app).activity, "it is over")
        # What was predicted was wrong; before that is told, the student reads a figure off the result.
        assert view_of(app).explanation is None
        store = ResultStore(Host.real("tests").state.results)
        (record,) = (store.load(each.id) for each in store.list())
        reads = [cell.figures.reads for cell in record.cells if cell.workload == "many-at-a-time"]
        assert reads[0] is not None
        assert reads[0].p50_seconds is not None
        await pilot.press("t")
        await pilot.pause()
        await pilot.press(*f"{reads[0].p50_seconds * 1000:.1f}", "enter")
        await until(pilot, lambda: view_of(app).explanation is not None, "the reason is told")
        why = view_of(app).explanation
        assert why is not None
        assert why.is_right is False
        assert len(why.figures) == 2
        assert "ratio" in why.figures[0]


def do(app: RaidlabApp, *written: dict[str, object]) -> None:
    """What a student does elsewhere in the app."""
    actions: list[Action] = [make_action(each, where="test") for each in written]

    def work(session: LabSession) -> None:
        for action in actions:
            action.perform(session)
        session.rescan()

    app.job("by the student", work)


def mistake(app: RaidlabApp) -> str:
    step = view_of(app).step
    return step.mistake if step else ""
