"""``make screenshots``: the pictures of README and docs, from the real app on real arrays in the embedded kernel.

The app is driven by keys through the story of a first session; nothing in a picture is drawn by hand. Labs, results
and settings lie in a folder of their own that is removed at the end. It takes about five minutes.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.widgets import OptionList

from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec
from lab.cli.main import run
from lab.plans import Plan
from lab.session.session import LabSession
from tests.kernel.student import Student, student_at
from tui.app import RaidlabApp
from tui.faults_screen import FaultsScreen
from tui.fleet_screen import FleetScreen

FOLDER = Path(__file__).resolve().parent
SIZE = (120, 36)
PICTURED_FRACTION = 0.4
SPINDLES = ("disks", "add", "--kind", "spindle", "--count", "4", "--model", "hdd-7200", "--size", "96M")
SLOW = ("disks", "add", "--kind", "spindle", "--count", "5", "--model", "slow", "--size", "256M")
Act = Callable[["Story"], Awaitable[None]]


def slim(svg: str) -> str:
    """The same picture without fonts from elsewhere, clip paths and long names: a quarter of the size."""
    svg = re.sub(r"@font-face\s*{[^}]*}", "", svg)
    svg = re.sub(r"<clipPath.*?</clipPath>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s*clip-path="[^"]*"', "", svg)
    svg = re.sub(r"terminal-\d+-", "t", svg)
    svg = svg.replace("Fira Code", "ui-monospace, DejaVu Sans Mono, Menlo, Consolas")
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' shape-rendering="[^"]*"', "", svg)
    svg = re.sub(r'="(\d+\.\d+)"', lambda found: f'="{float(found[1]):.1f}"'.replace(".0", ""), svg)
    return re.sub(r"\n\s*", "\n", svg)


class Story(Student):
    """The app, the keys that are pressed, and the pictures that are taken."""

    patience_seconds = 180.0

    async def until(self, is_reached: Callable[[], object], what: str) -> None:
        sys.stderr.write(f"  {what}\n")
        await super().until(is_reached, what)

    async def for_seconds(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.pilot.pause()

    async def until_in_sync(self) -> None:
        await self.until(lambda: self.lab.arrays and not self.lab.arrays[0].sync_action.is_busy, "the array is whole")

    async def take(self, name: str) -> None:
        """A picture of the screen as it is."""
        self.app.clear_notifications()
        self.app.show_now()
        await self.pilot.pause()
        file = FOLDER / f"{name}.svg"
        file.write_text(slim(self.app.export_screenshot(title="raidlab")), encoding="utf-8")
        sys.stderr.write(f"{file.name}: {file.stat().st_size // 1024} kB\n")


async def first_session(story: Story) -> None:
    """Build, load, fail, rebuild, and the verdict."""
    app = story.app
    await story.press("2")
    await story.take("build")
    await story.press("b")
    await story.confirm()
    await story.until_in_sync()
    await story.until(lambda: app.current_mode == "lab", "the Lab screen shows it")
    await story.press("m")
    await story.until(lambda: "md0" in app.lab.marks, "known data are written")
    app.loads.start("md0", "rand-mix-4k")
    await story.until(lambda: app.lab.load and app.lab.load.phase == "running", "a load runs")
    await story.for_seconds(15)
    await story.press("home", "right", "f")
    await story.confirm()
    await story.for_seconds(8)
    app.job("slow rebuild", at_speed(1000, 8 * 1024))
    await story.press("a")
    await story.confirm()
    await story.until(lambda: rebuilt(app) > PICTURED_FRACTION, "a part is rebuilt")
    await story.take("lab")
    app.job("fast rebuild", at_speed(100_000, 1_000_000))
    await story.until(lambda: not app.lab.arrays[0].is_degraded, "the array is whole again")
    await story.until(lambda: app.lab.marks["md0"].verdict, "the verdict is there")
    await story.for_seconds(5)
    await story.take("verdict")
    app.loads.stop()
    await story.press("5")
    await story.until(lambda: app.terminal.is_open, "the terminal is open")
    await story.press(*"cat /proc/mdstat", "enter")
    await story.for_seconds(2)
    await story.take("commands")


async def theory_and_measurement(story: Story) -> None:
    """A load on emulated drives, beside what theory said; then a stored result."""
    app = story.app
    app.ask(build_on_spindles)
    await story.confirm()
    await story.until_in_sync()
    await story.press("3")
    await story.for_seconds(2)
    await story.press("d", "d", "d", "d", "r")
    await story.until(lambda: app.lab.load and not app.lab.load.is_running, "a load of ten seconds is over")
    await story.take("run")
    await story.press("4")
    await story.for_seconds(1)
    await story.take("results")


async def hours_in_seconds(story: Story) -> None:
    """A slow drive's rebuild, that takes more than an hour of the machine, under a load."""
    app = story.app
    drives = [disk for disk in app.lab.disks if disk.model]
    members = tuple(disk.node for disk in drives[:4])
    spec = ArraySpec(level=LevelName.RAID5.value, members=members, name="md0", assume_clean=True)
    app.make_and_run(lambda session: session.creation(spec))
    await story.until(lambda: app.lab.array("md0"), "the array is there")
    app.loads.start("md0", "rand-read-4k-q1")
    await story.until(lambda: app.lab.load and app.lab.load.newest, "a load runs")
    app.job("slow rebuild", at_speed(36, 36))
    app.make_and_run(lambda session: session.array("md0").fail(drives[0].name, breaks_array=True))
    app.make_and_run(lambda session: session.array("md0").add(drives[4].name))
    await story.until(lambda: app.lab.arrays[0].sync_action.is_busy, "the rebuild has begun")
    await story.press("greater_than_sign", "greater_than_sign")
    await story.until(lambda: rebuilt(app) > PICTURED_FRACTION, "a part is rebuilt")
    await story.take("clock")
    await story.press("w")


async def write_hole(story: Story) -> None:
    """Scenario 17, until its verdict is there."""
    app = story.app
    await story.press("7")
    screen = app.screen
    assert isinstance(screen, FaultsScreen)
    choose = app.screen.query_one(OptionList)
    choose.highlighted = choose.get_option_index("scenario-17")
    await story.press("r")
    await story.until(lambda: screen.run and screen.run.outcome, "the verdict is there")
    await story.take("faults")


async def one_stripe(story: Story) -> None:
    """A byte of a member is flipped, and the stripe looked at."""
    app = story.app
    await story.press("2", "b")
    await story.confirm()
    await story.until_in_sync()
    await story.press("m")
    await story.until(lambda: "md0" in app.lab.marks, "known data are written")
    await story.press("8")
    await story.for_seconds(2)
    await story.press("f")
    await story.for_seconds(1)
    await story.press("enter")
    await story.confirm()
    await story.for_seconds(2)
    await story.take("stripe")


async def course(story: Story) -> None:
    """The lessons, before the first one."""
    await story.press("6")
    await story.for_seconds(2)
    await story.take("lessons")


async def fleet(story: Story) -> None:
    """A fleet that is never scrubbed, and then every other week."""
    app = story.app
    await story.press("0")
    screen = app.screen
    assert isinstance(screen, FleetScreen)
    await story.press(*["minus"] * 9, *["plus"] * 5)
    await story.until(lambda: screen._known.keys() >= {*screen.choice.with_each_scrub_interval()}, "all is simulated")
    await story.for_seconds(1)
    await story.take("fleet")


async def drill(story: Story) -> None:
    """The first drill, made and with one hint taken."""
    app = story.app
    await story.press("9")
    # Read is not yet shown, and Enter begins what is shown.
    await story.until(
        lambda: app.screen.query_one("#drill-list", OptionList).highlighted is not None, "drills are shown"
    )
    await story.press("enter")
    await story.until(lambda: app.drills.view, "the disaster is made")
    await story.press("h")
    await story.for_seconds(1)
    await story.take("drills")


def rebuilt(app: RaidlabApp) -> float:
    """The part of the array that is rebuilt."""
    progress = app.lab.arrays[0].sync_progress
    return progress.fraction if progress else 0.0


def at_speed(least_kib: int, most_kib: int) -> Callable[[LabSession], None]:
    """Rebuilds between these speeds, a second."""
    return lambda session: session.run(
        session.array("md0").speed(minimum_kib_per_second=least_kib, maximum_kib_per_second=most_kib)
    )


def build_on_spindles(session: LabSession) -> Plan:
    """A RAID 5 of the emulated drives."""
    nodes = tuple(disk.node for disk in session.disks if disk.model)
    return session.creation(ArraySpec(level=LevelName.RAID5.value, members=nodes, name="md0"))


async def play(act: Act, folder: Path, target: str) -> None:
    """Open the app on the embedded kernel, let ``act`` use it, and close it."""
    async with student_at(folder, Story, target=target, disks=(), size=SIZE) as story:
        story.app.animation_level = "none"
        await story.until(lambda: story.lab.is_open and story.lab.snapshot, "the lab is open")
        await act(story)


PARTS: dict[str, tuple[Act, str, tuple[tuple[str, ...], ...]]] = {
    "course": (course, "uml:", ()),
    "session": (first_session, "uml:", ()),
    "faults": (write_hole, "uml:", ()),
    "stripe": (one_stripe, "uml:", ()),
    "drill": (drill, "uml:", ()),
    "fleet": (fleet, "uml:", ()),
    "theory": (theory_and_measurement, "uml:", (("run", str(FOLDER / "levels.toml")), SPINDLES)),
    "clock": (hours_in_seconds, "uml:?time=virtual", (SLOW,)),
}
"""Name -> what the app does, its target, and the commands that run before it."""


def main() -> None:
    """All pictures, or those of the parts that are named."""
    with tempfile.TemporaryDirectory(prefix="raidlab-pictures-") as folder:
        os.environ.update(COLORTERM="truecolor", RAIDLAB_CONFIG=folder)
        for name, (act, target, commands) in PARTS.items():
            if name in (sys.argv[1:] or PARTS):
                state = Path(folder, name)
                state.mkdir()
                os.environ["RAIDLAB_STATE"] = str(state)
                for words in commands:
                    if run(["--quiet", "--on", "uml:", *words]):
                        raise SystemExit(f"failed: raidlab {' '.join(words)}")
                asyncio.run(play(act, state, target))


if __name__ == "__main__":
    main()
