"""A student measures for a lesson in the real app, on the embedded kernel.

What else the app does with lessons: tests/tui/test_lessons.py; what lessons say of real arrays: test_lessons.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from lab.disks import DiskKind, specs
from lab.machine import Host
from lab.results.store import ResultStore
from lab.units import MIB
from tests.kernel.place import kernel_target
from tui.app import RaidlabApp, Settings, save_settings
from tui.lessons import LessonView

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
