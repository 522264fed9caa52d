"""Helpers of the tests of lessons in the app: a lesson that the captured arrays pass, and how it is opened."""

from __future__ import annotations

from lab.lessons.engine import DisplayedStep
from tests.tui.user import User
from tests.unit.lessons.samples import LESSON
from tui.lessons import LessonView

# The captured RAID 5 lies on disk01 to disk03, rebuilds its last member, and has md's own chunk.
MINE = (
    LESSON.replace('["raid1", "raid5"]', '["raid5"]')
    .replace('{ case = "level", of = { raid1 = 2, raid5 = 3 } }', "{ one_of = [3] }")
    .replace('{ that = "array.healthy" }', '{ that = "array.disks", disks = "{seed.disks}" }')
    .replace('say = "Build `md0`', 'say = "Write with `raidlab array mark md0` when you have built `md0`')
    .replace('equals = 1 }, { that = "scrub.found" }', "equals = 2 }")
)


async def begin(user: User, lesson: str) -> None:
    """Open a lesson on a blank lab."""
    user.app.guide.open()
    await user.until(lambda: user.app.guide.course, "the course is read")
    user.app.guide.begin(lesson)
    await user.until(lambda: user.app.guide.view is not None, "the lesson is open")
    await user.read()


async def begin_on_its_screen(user: User, lesson: str) -> None:
    """Open a lesson on a blank lab, on the Lessons screen."""
    await begin(user, lesson)
    await user.read("6")


async def do_first_step(user: User, *, answer: str) -> None:
    """Predict, and build the array of the first step of ``lesson``."""
    user.app.guide.answer(answer)
    user.fake_lab.show("raid5")
    await user.look()


def view_of(user: User) -> LessonView:
    assert user.app.guide.view is not None
    return user.app.guide.view


def step_of(user: User) -> DisplayedStep:
    step = view_of(user).step
    assert step is not None
    return step
