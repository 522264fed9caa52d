"""What is photographed: one row for each picture, and what has to happen on the fake lab before it is taken.

A new screen adds a row. ``prepare`` gets the app on its screen ``mode`` with the lab open; it need not wait in the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lab.adapt.layout import AdaptLevel
from tests.tui.conftest import AppPilot, idle, looked
from tests.tui.fake_lab import FakeLab
from tui.app import RaidlabApp

Prepare = Callable[[AppPilot, RaidlabApp, FakeLab], Awaitable[None]]
SIZES = ((80, 24), (120, 40))
THEMES = ("raidlab-dark", "raidlab-light")
_BUSY_BYTES = 3 << 20
_LOOKS = 30


@dataclass(frozen=True, slots=True)
class Picture:
    """One state of the app."""

    name: str
    prepare: Prepare
    mode: str = "lab"
    was_welcomed: bool = True


async def nothing(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """An open lab without arrays, as it was first looked at."""
    await looked(pilot, app, lab)


def with_array(label: str, *keys: str, busy: bool = True) -> Prepare:
    """An array that has worked for a while, then these keys."""

    async def prepare(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
        lab.show(label)
        lab.busy = _BUSY_BYTES if busy else 0
        await looked(pilot, app, lab, _LOOKS)
        await pilot.press(*keys)
        await idle(pilot, app)

    return prepare


async def new_raid5(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """An array that has just been made."""
    await looked(pilot, app, lab)
    await with_array("raid5")(pilot, app, lab)


def pressing(*keys: str) -> Prepare:
    """These keys on an open lab without arrays."""

    async def prepare(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
        await looked(pilot, app, lab)
        await pilot.press(*keys)
        await idle(pilot, app)

    return prepare


async def lost(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """The machine has died under a rebuild."""
    await with_array("raid5-rebuilding")(pilot, app, lab)
    lab.lose()
    from tests.tui.conftest import until
    from tui.state import MachinePhase

    await until(pilot, lambda: app.lab.phase is MachinePhase.LOST, "the machine is lost")


async def typed(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """A command has been typed in the terminal of the Commands screen."""
    from lab.machine import TypedCommand
    from tests.tui.conftest import until
    from tests.tui.still import text_of
    from tui.state import Origin

    await looked(pilot, app, lab)
    await until(pilot, lambda: bool(lab.machine.terminals), "a terminal")
    terminal = lab.machine.terminals[-1]
    prompt = b"\x1b[1;31mlab\x1b[0m:\x1b[1;34m/\x1b[0m# "
    terminal.put(
        prompt + b"cat /proc/mdstat\r\nPersonalities : [raid6] [raid5] [raid4]\r\nunused devices: <none>\r\n"
        b"" + prompt + b"ls -d /etc /proc/mdstat\r\n\x1b[1;34m/etc\x1b[0m  /proc/mdstat\r\n" + prompt
    )
    terminal.put(TypedCommand("cat /proc/mdstat", 0, 0.02, "/"))
    terminal.put(TypedCommand("ls -d /etc /proc/mdstat", 0, 0.02, "/"))
    await until(pilot, lambda: "unused devices" in text_of(app), "its output")
    typed = Origin.SHELL
    await until(pilot, lambda: [each.origin for each in app.lab.commands].count(typed) == 2, "both commands have ended")
    await idle(pilot, app)


async def load_measured(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """A load that has ended, beside what theory said, and one before it."""
    from lab.session.load import Forecast
    from tests.tui.loads import measured, tell, with_load
    from tui.state import LoadEnded

    await with_array("raid5", busy=False)(pilot, app, lab)
    for iops in (415.0, 470.0):
        await with_load(app, pilot, Forecast(480.0, "4 members of 120 reads per second each"))
        tell(app, LoadEnded(measured(iops)))
        await pilot.pause()


async def experiment_runs(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """An experiment half-way."""
    from textual.widgets import OptionList

    from lab.experiments.schedule import RunProgress
    from tui.runs import ExperimentView

    await looked(pilot, app, lab)
    app.lab.background = "antioquia-quick"
    progress = RunProgress("RAID 5: Random reads, 4 KiB, repeat 2 of 3", 0.4, 330.0, 12, 30)
    app.experiments.view = ExperimentView("antioquia-quick", progress)
    found = app.screen.query_one(OptionList)
    found.highlighted = found.get_option_index("antioquia-quick")
    await pilot.pause()
    await idle(pilot, app)


async def two_results(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """Two results, the newer one shown."""
    from lab.results.store import ResultStore
    from tests.tui.results import STEADY, keep, result

    keep(ResultStore(lab.host.state.results), result(1, [value * 2 for value in STEADY]), result(2))
    await looked(pilot, app, lab)
    await pilot.press("f5")
    await idle(pilot, app)


async def compared(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """The older result beside the newer one."""
    from tests.tui.conftest import until
    from tests.tui.still import text_of

    await two_results(pilot, app, lab)
    await pilot.press("m", "down")
    await until(pilot, lambda: "FASTER" in text_of(app), "they are compared")
    await idle(pilot, app)


async def course(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """The course before the first lesson."""
    from tests.tui.conftest import until

    await looked(pilot, app, lab)
    await until(pilot, lambda: bool(app.guide.course and app.drills.items), "the course is read")
    await idle(pilot, app)


async def drills(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """The drills before the first."""
    from tests.tui.conftest import until

    await looked(pilot, app, lab)
    await until(pilot, lambda: bool(app.drills.items), "the drills are read")
    await idle(pilot, app)


def in_lesson(lesson: str, shown: str, *keys: str, label: str = "") -> Prepare:
    """A lesson that has begun, an array, and these keys; taken when the text ``shown`` stands there."""

    async def prepare(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
        from tests.tui.conftest import until
        from tests.tui.still import text_of

        app.guide.open()
        await until(pilot, lambda: app.guide.is_ready, "the course is read")
        await looked(pilot, app, lab)
        app.guide.begin(lesson)
        await until(pilot, lambda: app.guide.view is not None, "the lesson is open")
        if label:
            lab.show(label)
            await looked(pilot, app, lab, 2)
        await idle(pilot, app)
        await pilot.press(*keys)
        await idle(pilot, app)
        await until(pilot, lambda: shown in text_of(app), shown)
        await idle(pilot, app)

    return prepare


async def unequal_disks(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """AdaptRaid5 of a small and four large disks, on the Build screen."""
    from tests.tui.volumes import UNEQUAL
    from tui.actions import Draft
    from tui.build_screen import BuildScreen

    await looked(pilot, app, lab)
    app.lab.disks = UNEQUAL
    screen = app.screen
    assert isinstance(screen, BuildScreen)
    screen._take(Draft(AdaptLevel.ADAPT5, tuple(disk.name for disk in UNEQUAL[:5])))
    await idle(pilot, app)


async def volume_rebuilding(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """A volume whose third disk failed and is being filled, in the second of its arrays."""
    from tests.tui.volumes import UNEQUAL, show_rebuild

    await looked(pilot, app, lab)
    app.lab.disks = UNEQUAL
    show_rebuild(app)
    await idle(pilot, app)


async def fleet_turned(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """A fleet that is scrubbed every two weeks, and was not scrubbed before."""
    from tests.tui.conftest import until
    from tui.fleet_screen import FleetScreen

    await looked(pilot, app, lab)
    screen = app.screen
    assert isinstance(screen, FleetScreen)
    await pilot.press(*["minus"] * 7, "z", *["minus"] * 7, "down", "right", "left", *["plus"] * 5)
    await until(
        pilot,
        lambda: screen.has_computed(screen.choice.with_each_scrub_interval()),
        "all intervals are known",
    )
    await idle(pilot, app)


async def sweep_runs(pilot: AppPilot, app: RaidlabApp, lab: FakeLab) -> None:
    """A sweep half-way."""
    from tests.tui.sweeps import going, sweeping

    await looked(pilot, app, lab)
    await sweeping(pilot, app, view=going())
    await idle(pilot, app)


PICTURES = (
    Picture("lab-empty", nothing),
    Picture("lab-first-sync", new_raid5),
    Picture("lab-rebuilding", with_array("raid5-rebuilding")),
    Picture("lab-broken", with_array("raid5-broken", busy=False)),
    Picture("lab-lost", lost),
    Picture("menu", with_array("raid5-failed", "down", "enter")),
    Picture("plan-danger", with_array("raid5-checking", "delete")),
    Picture("help", pressing("f1")),
    Picture("palette", pressing("ctrl+p")),
    Picture("welcome", nothing, was_welcomed=False),
    Picture("commands", typed, mode="commands"),
    Picture("lab-volume-rebuilding", volume_rebuilding),
    Picture("build", nothing, mode="build"),
    Picture("build-volume", unequal_disks, mode="build"),
    Picture("run-measured", load_measured, mode="run"),
    Picture("run-experiment", experiment_runs, mode="run"),
    Picture("run-sweep", sweep_runs, mode="run"),
    Picture("fleet", fleet_turned, mode="fleet"),
    Picture("results", two_results, mode="results"),
    Picture("results-compared", compared, mode="results"),
    Picture("lessons", course, mode="lessons"),
    Picture("drills", drills, mode="drills"),
    Picture("lesson", in_lesson("05", "disk03; chunk 64 KiB", "h", "h", "h", label="raid5"), mode="lessons"),
    Picture("lesson-why", in_lesson("04", "One block of every stripe", "a", "t", *"11101010", "enter"), mode="lessons"),
    Picture("lesson-beside", in_lesson("05", "Lesson 5, step 1, 2/5", label="raid5")),
)
