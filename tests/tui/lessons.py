"""What the tests of lessons in the app share: a lesson that the captured arrays pass, and how it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tui.conftest import AppPilot, looked, read_out, until
from tests.tui.fake_lab import FakeLab
from tests.unit.lessons.samples import LESSON, TRANSLATION, write
from tui.app import RaidlabApp
from tui.lessons import LessonView, StepCard

# The captured RAID 5 lies on disk01 to disk03, rebuilds its last member, and has md's own chunk.
MINE = (
    LESSON.replace('["raid1", "raid5"]', '["raid5"]')
    .replace('{ case = "level", of = { raid1 = 2, raid5 = 3 } }', "{ one_of = [3] }")
    .replace('{ that = "array.healthy" }', '{ that = "array.disks", disks = "{seed.disks}" }')
    .replace('say = "Build `md0`', 'say = "Write with `raidlab array mark md0` when you have built `md0`')
    .replace('equals = 1 }, { that = "scrub.found" }', "equals = 2 }")
)


@pytest.fixture
def lesson(tmp_path: Path) -> str:
    """The path of a lesson that the captured arrays pass."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return str(write(folder, MINE, sv=TRANSLATION))


async def begin(app: RaidlabApp, pilot: AppPilot, fake_lab: FakeLab, lesson: str) -> None:
    """Open a lesson on a blank lab."""
    await looked(pilot, app, fake_lab)
    app.guide.open()
    await until(pilot, lambda: app.guide.is_ready, "the course is read")
    app.guide.begin(lesson)
    await until(pilot, lambda: app.guide.view is not None, "the lesson is open")
    await shown(app, pilot)


async def begin_on_its_screen(app: RaidlabApp, pilot: AppPilot, fake_lab: FakeLab, lesson: str) -> None:
    """Open a lesson on a blank lab, and look at it."""
    await begin(app, pilot, fake_lab, lesson)
    await pilot.press("6")
    await shown(app, pilot)


async def do_first_step(app: RaidlabApp, pilot: AppPilot, fake_lab: FakeLab, *, answer: str) -> None:
    """Predict, and build what the first step of ``lesson`` asks for."""
    app.guide.answer(answer)
    fake_lab.show("raid5")
    await looked(pilot, app, fake_lab)


async def shown(app: RaidlabApp, pilot: AppPilot) -> None:
    await read_out(pilot, app)


def view_of(app: RaidlabApp) -> LessonView:
    assert app.guide.view is not None
    return app.guide.view


def step_of(app: RaidlabApp) -> StepCard:
    step = view_of(app).step
    assert step is not None
    return step


def answer_of(app: RaidlabApp) -> str:
    return step_of(app).answer
