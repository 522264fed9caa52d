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
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from lab.plans import Plan
    from lab.session.session import LabSession
    from tui.app import RaidlabApp

FOLDER = Path(__file__).resolve().parent
SIZE = (120, 36)
PATIENCE_SECONDS = 180.0
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


class Story:
    """The app, the keys that are pressed, and the pictures that are taken."""

    def __init__(self, app: RaidlabApp, pilot: Pilot[object]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, is_reached: Callable[[], object], what: str) -> None:
        """Wait for something that the machine brings about."""
        tell(f"  {what}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_reached():
            if time.monotonic() > deadline:
                raise TimeoutError(f"never: {what}")
            await asyncio.sleep(0.05)
        await self.pilot.pause()

    async def for_seconds(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.pilot.pause()

    async def confirm(self) -> None:
        """Run the plan that is about to be shown."""
        from tui.plan_screen import PlanScreen

        await self.until(lambda: isinstance(self.app.screen, PlanScreen), "a plan is shown")
        await self.press("r")
        await self.until(lambda: self.app.lab.operation is None, "the plan has run")

    async def take(self, name: str) -> None:
        """A picture of the screen as it is."""
        self.app.clear_notifications()
        self.app.show_now()
        await self.pilot.pause()
        file = FOLDER / f"{name}.svg"
        file.write_text(slim(self.app.export_screenshot(title="raidlab")), encoding="utf-8")
        tell(f"{file.name}: {file.stat().st_size // 1024} kB")


async def first_session(story: Story) -> None:
    """Build, load, fail, rebuild, and the verdict."""
    app = story.app
    await story.press("2")
    await story.take("build")
    await story.press("b")
    await story.confirm()
    await story.until(lambda: app.lab.arrays and not app.lab.arrays[0].sync_action.is_busy, "the array is whole")
    await story.until(lambda: app.current_mode == "lab", "the Lab screen shows it")
    await story.press("m")
    await story.until(lambda: "md0" in app.lab.marks, "known data are written")
    app.loads.start("md0", "rand-mix-4k")
    await story.until(lambda: app.lab.load and app.lab.load.phase == "running", "a load runs")
    await story.for_seconds(15)
    await story.press("home", "right", "f")
    await story.confirm()
    await story.for_seconds(8)
    app.job("slow rebuild", slow_down)
    await story.press("a")
    await story.confirm()
    await story.until(lambda: rebuilt(app) > PICTURED_FRACTION, "a part is rebuilt")
    await story.take("lab")
    app.job("fast rebuild", speed_up)
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
    await story.until(lambda: app.lab.arrays and not app.lab.arrays[0].sync_action.is_busy, "the array is whole")
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
    app.job("slow rebuild", crawl)
    app.make_and_run(lambda session: session.array("md0").fail(drives[0].name, breaks_array=True))
    app.make_and_run(lambda session: session.array("md0").add(drives[4].name))
    await story.until(lambda: app.lab.arrays[0].sync_action.is_busy, "the rebuild has begun")
    await story.press("greater_than_sign", "greater_than_sign")
    await story.until(lambda: rebuilt(app) > PICTURED_FRACTION, "a part is rebuilt")
    await story.take("clock")
    await story.press("w")


async def write_hole(story: Story) -> None:
    """Scenario 17, until its verdict is there."""
    from textual.widgets import OptionList

    from tui.faults_screen import FaultsScreen

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
    await story.until(lambda: app.lab.arrays and not app.lab.arrays[0].sync_action.is_busy, "the array is whole")
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
    from tui.fleet_screen import FleetScreen

    app = story.app
    await story.press("0")
    screen = app.screen
    assert isinstance(screen, FleetScreen)
    await story.press(*["minus"] * 9, *["plus"] * 5)
    await story.until(lambda: screen.has_computed(screen.choice.with_each_scrub_interval()), "all is simulated")
    await story.for_seconds(1)
    await story.take("fleet")


async def drill(story: Story) -> None:
    """The first drill, made and with one hint taken."""
    from textual.widgets import OptionList

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


def tell(text: str) -> None:
    """Narration."""
    sys.stderr.write(f"{text}\n")


def slow_down(session: LabSession) -> None:
    """So slow that the rebuild can be watched."""
    session.run(session.array("md0").speed(minimum_kib_per_second=1000, maximum_kib_per_second=8 * 1024))


def crawl(session: LabSession) -> None:
    """So slow that it takes more than an hour."""
    session.run(session.array("md0").speed(minimum_kib_per_second=36, maximum_kib_per_second=36))


def speed_up(session: LabSession) -> None:
    """As fast as md likes."""
    session.run(session.array("md0").speed(minimum_kib_per_second=100_000, maximum_kib_per_second=1_000_000))


def build_on_spindles(session: LabSession) -> Plan:
    """A RAID 5 of the emulated drives."""
    nodes = tuple(disk.node for disk in session.disks if disk.model)
    return session.creation(ArraySpec(level=LevelName.RAID5.value, members=nodes, name="md0"))


def play(act: Act, target: str = "uml:") -> None:
    """Open the app on the embedded kernel, let ``act`` use it, and close it."""
    from tui.app import RaidlabApp, Settings, save_settings

    place = Path(os.environ["RAIDLAB_STATE"])
    save_settings(place / "app.json", Settings(was_welcomed=True))
    app = RaidlabApp(target, settings_file=place / "app.json", keys_file=place / "keys.toml")

    async def run() -> None:
        async with app.run_test(size=SIZE) as pilot:
            story = Story(app, pilot)
            await story.until(lambda: app.lab.is_open and app.lab.look, "the lab is open")
            await act(story)

    try:
        asyncio.run(run())
    finally:
        app.client.close()


def command(*arguments: str) -> None:
    """As ``raidlab --on uml: …`` would."""
    from lab.cli.main import run

    if run(["--quiet", "--on", "uml:", *arguments]):
        raise SystemExit(f"failed: raidlab {' '.join(arguments)}")


def main() -> None:
    """All pictures, or those of the named parts: clock, course, drill, faults, fleet, session, stripe, theory."""
    wanted = set(sys.argv[1:]) or {"clock", "course", "drill", "faults", "fleet", "session", "stripe", "theory"}
    with tempfile.TemporaryDirectory(prefix="raidlab-pictures-") as folder:
        os.environ.update(TEXTUAL_ANIMATIONS="none", COLORTERM="truecolor", RAIDLAB_CONFIG=folder)
        os.environ["RAIDLAB_STATE"] = f"{folder}/session"
        Path(f"{folder}/session").mkdir()
        if "course" in wanted:
            play(course)
        if "session" in wanted:
            play(first_session)
        for name, act in (("faults", write_hole), ("stripe", one_stripe), ("drill", drill), ("fleet", fleet)):
            os.environ["RAIDLAB_STATE"] = f"{folder}/{name}"
            Path(f"{folder}/{name}").mkdir()
            if name in wanted:
                play(act)
        os.environ["RAIDLAB_STATE"] = f"{folder}/theory"
        Path(f"{folder}/theory").mkdir()
        if "theory" in wanted:
            command("run", str(FOLDER / "levels.toml"))
            command(*SPINDLES)
            play(theory_and_measurement)
        os.environ["RAIDLAB_STATE"] = f"{folder}/clock"
        Path(f"{folder}/clock").mkdir()
        if "clock" in wanted:
            command(*SLOW)
            play(hours_in_seconds, "uml:?time=virtual")


if __name__ == "__main__":
    main()
