"""Every screen looks as it did when a person last checked it.

After an intended change, run ``pytest tests/tui/test_pictures.py --snapshot-update``, then check the changed files in
``__snapshots__`` with a browser before you commit them. For a new screen, add a row to PICTURES.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pytest_textual_snapshot import SVGImageExtension, normalize_svg  # type: ignore[import-untyped]
from textual.widgets import Input

from lab.adapt.layout import AdaptLevel
from lab.experiments.schedule import RunProgress
from lab.machine import TypedCommand
from lab.results.store import ResultStore
from lab.session.load import Forecast
from tests.tui.conftest import Start
from tests.tui.fake_lab import FakeLab
from tests.tui.lessons import begin
from tests.tui.results import STEADY, keep, result
from tests.tui.test_fleet_screen import all_known
from tests.tui.test_run_screen import measured, post, with_load
from tests.tui.test_sweeps import going, sweeping
from tests.tui.test_volumes import UNEQUAL, show_rebuild
from tests.tui.user import User, is_parsing
from tui.actions import Draft
from tui.build_screen import BuildScreen
from tui.runs import ExperimentView
from tui.state import LoadEnded, Origin

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

Prepare = Callable[[User], Awaitable[None]]
SIZES = ((80, 24), (120, 40))
THEMES = ("raidlab-dark", "raidlab-light")
IN_LIGHT = (
    "lab-rebuilding", "lab-lost", "plan-danger", "commands", "build-volume", "fleet", "results-compared", "welcome",
    "lesson", "lesson-why",
)  # fmt: skip
"""Pictures that are also compared in the light theme. Together they contain most kinds of widgets and states."""
_BUSY_BYTES = 3 << 20
_MOST_TRIES, _STILL_SECONDS = 20, 0.05


async def nothing(user: User) -> None:
    """Leave the lab as it is."""


async def new_raid5(user: User) -> None:
    """An array that was just created and has been busy for a while."""
    user.fake_lab.show("raid5")
    await user.look(30)


async def typed(user: User) -> None:
    """A command has been typed in the terminal of the Commands screen."""
    await user.until(lambda: user.fake_lab.machine.terminals, "a terminal")
    terminal = user.fake_lab.machine.terminals[-1]
    prompt = b"\x1b[1;31mlab\x1b[0m:\x1b[1;34m/\x1b[0m# "
    terminal.put(
        prompt + b"cat /proc/mdstat\r\nPersonalities : [raid6] [raid5] [raid4]\r\nunused devices: <none>\r\n"
        b"" + prompt + b"ls -d /etc /proc/mdstat\r\n\x1b[1;34m/etc\x1b[0m  /proc/mdstat\r\n" + prompt
    )
    terminal.put(TypedCommand("cat /proc/mdstat", 0, 0.02, "/"))
    terminal.put(TypedCommand("ls -d /etc /proc/mdstat", 0, 0.02, "/"))
    await user.see("unused devices")
    shell = Origin.SHELL
    await user.until(lambda: [each.origin for each in user.lab.commands].count(shell) == 2, "both commands have ended")


async def load_measured(user: User) -> None:
    """A load that has ended, shown with its prediction, after an earlier load."""
    for iops in (415.0, 470.0):
        await with_load(user, Forecast(480.0, "4 members of 120 reads per second each"))
        await post(user, LoadEnded(measured(iops)))


async def experiment_runs(user: User) -> None:
    """An experiment that is half finished."""
    user.lab.background = "antioquia-quick"
    progress = RunProgress("RAID 5: Random reads, 4 KiB, repeat 2 of 3", 0.4, 330.0, 12, 30)
    user.app.experiments.view = ExperimentView("antioquia-quick", progress)
    await user.choose("antioquia-quick")


async def two_results(user: User) -> None:
    """Two stored results; the newer one is shown."""
    keep(ResultStore(user.fake_lab.host.state.results), result(1, [value * 2 for value in STEADY]), result(2))
    await user.press("f5")
    await user.idle()


async def compared(user: User) -> None:
    """The older result compared with the newer one."""
    await two_results(user)
    await user.press("m", "down")
    await user.see("FASTER")


async def course(user: User) -> None:
    """The list of lessons before the first one was done; the same for drills."""
    await user.until(lambda: user.app.guide.course and user.app.drills.items, "the course is read")


async def drills(user: User) -> None:
    await user.until(lambda: user.app.drills.items, "the drills are read")


def in_lesson(lesson: str, shown: str, *keys: str, label: str = "") -> Prepare:
    """A lesson that was begun, an array, and these keys. Taken when the text ``shown`` is on the screen."""

    async def prepare(user: User) -> None:
        await begin(user, lesson)
        if label:
            user.fake_lab.show(label)
            await user.look(2)
        await user.idle()
        await user.press(*keys)
        await user.see(shown)

    return prepare


async def unequal_disks(user: User) -> None:
    """AdaptRaid5 on a small and four large disks, on the Build screen."""
    user.lab.disks = UNEQUAL
    user.at(BuildScreen)._take(Draft(AdaptLevel.ADAPT5, tuple(disk.name for disk in UNEQUAL[:5])))


async def volume_rebuilding(user: User) -> None:
    """A volume whose third disk failed and is being rebuilt, in the second of its arrays."""
    user.lab.disks = UNEQUAL
    show_rebuild(user.app)


async def fleet_turned(user: User) -> None:
    """A fleet that is now scrubbed every two weeks and was not scrubbed before."""
    await user.press(*["minus"] * 7, "z", *["minus"] * 7, "down", "right", "left", *["plus"] * 5)
    await all_known(user)


@dataclass(frozen=True, slots=True)
class Picture:
    """One state of the app: an array that has been busy for a while or none, a preparation, and keys."""

    name: str
    prepare: Prepare = nothing
    mode: str = "lab"
    shows: str = ""
    is_busy: bool = True
    keys: tuple[str, ...] = ()
    was_welcomed: bool = True
    is_resized: bool = True
    """Whether the larger picture is taken after a resize of the terminal instead of in its own app. False where a list
    was scrolled to its selection, which would look different."""


PICTURES = (
    Picture("lab-empty"),
    Picture("lab-first-sync", new_raid5),
    Picture("lab-rebuilding", shows="raid5-rebuilding"),
    Picture("lab-broken", shows="raid5-broken", is_busy=False),
    Picture("lab-lost", User.lose, shows="raid5-rebuilding"),
    Picture("menu", shows="raid5-failed", keys=("down", "enter")),
    Picture("plan-danger", shows="raid5-checking", keys=("delete",)),
    Picture("help", keys=("f1",), is_resized=False),
    Picture("palette", keys=("ctrl+p",)),
    Picture("welcome", was_welcomed=False),
    Picture("commands", typed, "commands"),
    Picture("lab-volume-rebuilding", volume_rebuilding),
    Picture("build", mode="build"),
    Picture("build-volume", unequal_disks, "build"),
    Picture("run-measured", load_measured, "run", shows="raid5", is_busy=False),
    Picture("run-experiment", experiment_runs, "run", is_resized=False),
    Picture("run-sweep", lambda user: sweeping(user, view=going()), "run", is_resized=False),
    Picture("fleet", fleet_turned, "fleet"),
    Picture("results", two_results, "results"),
    Picture("results-compared", compared, "results"),
    Picture("lessons", course, "lessons"),
    Picture("drills", drills, "drills"),
    Picture("lesson", in_lesson("05", "disk03; chunk 64 KiB", "h", "h", "h", label="raid5"), "lessons"),
    Picture("lesson-why", in_lesson("04", "One block of every stripe", "a", "t", *"11101010", "enter"), "lessons"),
    Picture("lesson-beside", in_lesson("05", "Lesson 5, step 1, 2/5", label="raid5"), is_busy=False),
)


@pytest.mark.parametrize(
    ("picture", "sizes"),
    [
        pytest.param(picture, sizes, id="-".join((picture.name, *("x".join(map(str, size)) for size in sizes))))
        for picture in PICTURES
        for sizes in ((SIZES,) if picture.is_resized else zip(SIZES, strict=True))
    ],
)
async def test_it_looks_as_it_did(
    picture: Picture, sizes: tuple[tuple[int, int], ...], start: Start, fake_lab: FakeLab, snapshot: SnapshotAssertion
) -> None:
    pictures = snapshot.use_extension(SVGImageExtension)
    fake_lab.busy = _BUSY_BYTES if picture.is_busy else 0
    async with start(
        size=sizes[0],
        theme=THEMES[0],
        mode=picture.mode,
        shows=picture.shows,
        looks=30 if picture.shows else 1,
        was_welcomed=picture.was_welcomed,
    ) as user:
        await picture.prepare(user)
        await user.press(*picture.keys)
        await user.idle()
        if picture.mode == "run":
            await user.until(lambda: user.app.sweeps.entries, "the sweeps are listed")
        for field in user.screen.query(Input):
            field.cursor_blink = False
            field._cursor_visible = True
        for size in sizes:
            if size != sizes[0]:
                await user.pilot.resize_terminal(*size)
            for theme in THEMES if size == SIZES[-1] and picture.name in IN_LIGHT else THEMES[:1]:
                user.app.theme = theme
                user.app.show_now()
                name = f"{size[0]}x{size[1]}-{theme.removeprefix('raidlab-')}"
                assert await settled(user) == pictures(name=name)


async def settled(user: User) -> str:
    """Return the picture once it no longer changes. The footer is composed after everything else."""
    before: object = None
    for _ in range(_MOST_TRIES):
        await user.pilot.pause(_STILL_SECONDS)
        # Comparing strips is many times faster than making a picture.
        now = user.screen._compositor.render_strips()
        if now == before and not is_parsing(user.app):
            picture: str = normalize_svg(user.app.export_screenshot(title="raidlab"))
            return picture
        before = now
    raise AssertionError("it never stands still")
