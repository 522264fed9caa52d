"""Volumes of unequal disks on the screens: their names, their actions, and the next steps that the app suggests."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import pytest

from lab.adapt.kind import VolumeArray
from lab.adapt.layout import AdaptLevel
from lab.adapt.spec import VolumeSpec
from lab.arrays.status import SyncAction
from lab.disks.lab import lab_folder
from lab.plans import Plan, Step
from lab.session.monitor import Snapshot
from lab.units import MIB
from tests.tui.fake_lab import file_disks
from tests.tui.user import PATIENCE_SECONDS, User
from tests.unit.adapt.running import running
from tests.unit.fakes import FakeRunningCommand, Scripted
from tui.actions import Draft, applying, joining_disk, level_rows, next_step
from tui.app import RaidlabApp
from tui.build_screen import BuildScreen
from tui.rack import BayState, bays_of
from tui.state import SnapshotTaken
from tui.text import array_lines, preview_lines

SMALL, LARGE = 100, 200
UNEQUAL = file_disks(SMALL, *[LARGE] * 5)
SPEC = VolumeSpec(UNEQUAL[:5])
"""A small and four large disks; the last large one stays free."""
FILLED = 2
"""The number in the volume of the disk that fails and is rebuilt."""


def volume(**how: object) -> VolumeArray:
    """The volume, as ``running`` makes it."""
    return running(SPEC, **how)  # type: ignore[arg-type]


def look_at(app: RaidlabApp, volumes: Iterable[VolumeArray], seconds: float = 0.25) -> None:
    """Give the app a sample with these volumes, ``seconds`` after the previous sample."""
    before = app.lab.snapshot.time_seconds if app.lab.snapshot else 100.0
    app.on_lab_message(SnapshotTaken(Snapshot(before + seconds, tuple(volumes), {})))


def show_rebuild(app: RaidlabApp) -> None:
    """A complete volume; then a disk fails, one of its arrays is rebuilt, and the next one is being rebuilt."""
    own = volume().disks[FILLED].windows
    look_at(app, [volume()])
    look_at(app, [volume(failed=[FILLED])], 10)
    look_at(app, [volume(gone=[FILLED])], 5)
    look_at(app, [volume(filled={FILLED: ()}, syncing={own[0]: 0.5})], 5)
    look_at(app, [volume(filled={FILLED: own[:1]}, syncing={own[1]: 0.4})], 5)


@pytest.fixture
async def app(user: User) -> RaidlabApp:
    """The app after it has seen the complete volume."""
    user.lab.disks = UNEQUAL
    look_at(user.app, [volume()])
    return user.app


def named(app: RaidlabApp) -> set[str]:
    return {action.short_name() for action in applying(app.lab)}


async def test_a_failure_and_a_rebuild_are_reported_once_and_not_for_each_array(app: RaidlabApp) -> None:
    show_rebuild(app)
    look_at(app, [volume()])
    sentences = [event.sentence for event in app.lab.events]
    assert sentences == [
        "adapt0 was started: adapt5 of 5 disks",
        "adapt0 lost disk03 (/dev/ubdc) in 4 of 5 arrays",
        "adapt0 is degraded: 1 disk is missing",
        "disk03 (/dev/ubdc) has left adapt0",
        "disk03 (/dev/ubdc) has joined adapt0",
        "a rebuild of adapt0 has begun",
        "disk03 (/dev/ubdc) is in sync with adapt0, in all of its 4 arrays",
        "the rebuild of adapt0 has ended",
        "adapt0 is whole again",
    ]


async def test_what_can_be_done_follows_the_state_of_the_volume(app: RaidlabApp) -> None:
    lab = app.lab
    lab.selected_disk = "disk03"
    assert {"fail", "load", "mark", "scrub", "throttle", "stop", "destroy"} <= named(app)
    assert not {"add", "replace", "corrupt", "re_add", "remove"} & named(app)

    look_at(app, [volume(failed=[FILLED])])
    assert {"add", "remove"} <= named(app)
    assert "fail" not in named(app)
    assert joining_disk(lab) == UNEQUAL[5]
    assert "adds disk06" in next_step(lab)

    own = volume().disks[FILLED].windows
    look_at(app, [volume(filled={FILLED: own[:1]})])
    assert "is interrupted" in next_step(lab)
    assert joining_disk(lab) == UNEQUAL[2], "the same key resumes the rebuild"

    look_at(app, [volume(filled={FILLED: own[:1]}, syncing={own[1]: 0.3})])
    assert "add" not in named(app), "one rebuild at a time"

    look_at(app, [volume(failed=[FILLED, 3])])
    assert "add" not in named(app)
    assert "lost too many disks" in next_step(lab)


async def test_the_next_step_without_a_free_disk_that_is_large_enough(app: RaidlabApp) -> None:
    app.lab.disks = UNEQUAL[:5]
    look_at(app, [volume(failed=[FILLED])])
    assert "x[/b] removes disk03" in next_step(app.lab)
    look_at(app, [volume(gone=[FILLED])])
    app.lab.selected_disk = "disk01"
    assert "adds disk03" in next_step(app.lab), "a failed disk that was removed can be used again"


async def test_the_rack_shows_disks_of_the_volume_and_not_slices(app: RaidlabApp) -> None:
    own = volume().disks[FILLED].windows
    look_at(app, [volume(filled={FILLED: own[:1]}, syncing={own[1]: 0.5})])
    states = {bay.name: (bay.state, bay.array) for bay in bays_of(app.lab)}
    assert states["disk01"] == (BayState.MEMBER, "adapt0")
    assert states["disk03"] == (BayState.REBUILDING, "adapt0")
    assert states["disk06"] == (BayState.FREE, "")
    look_at(app, [volume(filled={FILLED: own[:1]})])
    waiting = next(bay for bay in bays_of(app.lab) if bay.name == "disk03")
    assert waiting.note == "adapt0 rebuild waits"


async def test_the_text_mode_lists_the_arrays_inside(app: RaidlabApp) -> None:
    look_at(app, [volume(syncing={1: 0.5}, action=SyncAction.CHECK)])
    lines = list(array_lines(app.lab))
    assert lines[0].startswith("adapt0: adapt5, ")
    assert "check of array 2 of 5" in lines[0]
    assert "md100 4+1 whole, md101 2+1 check 50%" in lines[1]


@pytest.mark.app(mode="build")
async def test_the_build_screen_follows_unequal_disks(user: User) -> None:
    screen = user.at(BuildScreen)
    screen._take(Draft(AdaptLevel.ADAPT5, tuple(disk.name for disk in user.lab.disks[:4])))
    await user.idle()
    assert "have the same size, so this is a plain RAID 5" in user.words
    assert "disks add --kind file --count 2 --size" in user.words
    assert "1000M)." in user.words
    # As if the user had chosen the disks: the screen then no longer proposes any.
    screen._has_chosen = True
    screen._take(Draft(AdaptLevel.ADAPT5, ("disk01", "disk02")))
    await user.idle()
    assert "adapt5 needs at least 3 disks, not 2" in user.words


def test_the_levels_for_unequal_disks_are_compared_only_where_disks_differ() -> None:
    def titles(names: tuple[str, ...]) -> list[str]:
        return [row.level for row in level_rows(Draft(disks=names), UNEQUAL)]

    assert titles(("disk01", "disk02", "disk03"))[-2:] == ["AdaptRaid5", "SHR"]
    assert "AdaptRaid5" not in titles(("disk02", "disk03", "disk04"))


def test_the_text_mode_previews_a_volume() -> None:
    draft = Draft(AdaptLevel.ADAPT5, tuple(disk.name for disk in UNEQUAL[:5]))
    lines = list(preview_lines(draft.spec("adapt0", UNEQUAL).preview(UNEQUAL), draft.level))
    assert any(line.startswith("AdaptRaid5: 646 MiB, 72 %; full writes read: never") for line in lines)
    assert "md104: stripes of 2 data and 1 parity chunks." in lines


WAIT = Step(("sh", "-c", "wait for md", "wait"), "md works.", only_waits=True)
PLAN = Plan("Add disk06 to adapt0", (Step(("first",), "one"), WAIT, Step(("second",), "two")))


@pytest.mark.parametrize(("status", "ran"), [(0, ["first", "second"]), (1, ["first"])])
async def test_a_plan_continues_after_its_wait_unless_the_wait_failed(user: User, status: int, ran: list[str]) -> None:
    user.fake_lab.machine.answers |= {
        ("first",): Scripted(),
        ("second",): Scripted(),
        ("sh", "-c", "wait for md"): Scripted(status=status),
    }
    done: list[bool] = []
    user.app.run_plan(PLAN, on_done=lambda: done.append(True))
    await user.until(lambda: done and not user.app.plan_runs, "the end of the plan")
    await user.idle()
    assert done == [True], "whoever asked hears of it when the first part has run"
    assert [argv[0] for argv in user.fake_lab.machine.runs if argv[0] in ("first", "second")] == ran
    session = user.app.client.session
    assert session is not None
    assert session.going_on == set()


async def test_a_plan_that_is_left_before_it_begins_ends_with_its_first_part(user: User) -> None:
    user.fake_lab.machine.answers |= {("first",): Scripted(), ("sh", "-c", "wait for md"): Scripted()}
    holds, done = threading.Event(), []
    user.app.look_up(lambda _: holds.wait(PATIENCE_SECONDS))
    user.app.run_plan(PLAN, on_done=lambda: done.append(True))
    user.app.leave_volume("adapt0")
    holds.set()
    await user.until(lambda: done, "the first part has run")
    for _ in range(4):
        await user.idle()
        await user.pilot.pause(0.05)
    assert [argv[0] for argv in user.fake_lab.machine.runs if argv[0] in ("first", "second")] == ["first"]
    assert not user.app.plan_runs


async def test_a_plan_that_is_left_does_not_go_on(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, holds = user.fake_lab.machine, threading.Event()
    machine.answers |= {("first",): Scripted(), ("sh", "-c", "wait for md"): Scripted()}
    stream = machine.stream

    def held(argv: Sequence[str]) -> FakeRunningCommand:
        holds.wait(PATIENCE_SECONDS)
        return stream(argv)

    monkeypatch.setattr(machine, "stream", held)
    left: list[bool] = []

    def leave() -> None:
        left.append(bool(user.app.plan_runs))
        user.app.leave_volume("adapt0")

    user.app.run_plan(PLAN, on_done=leave)
    await user.until(lambda: left, "the first part has run")
    assert left == [True]
    assert not user.app.plan_runs
    holds.set()
    for _ in range(4):
        await user.idle()
        await user.pilot.pause(0.05)
    assert not [argv for argv in machine.runs if argv[0] == "second"]


@pytest.mark.app(mode="build")
async def test_two_larger_disks_join_the_lab_and_the_machine_comes_back(user: User) -> None:
    screen = user.at(BuildScreen)
    screen._take(Draft(AdaptLevel.ADAPT5, ("disk01", "disk02", "disk03")))
    await user.idle()
    await user.press("u", "a")
    await user.until(lambda: user.fake_lab.opened == 2 and user.lab.is_open, "the machine is started anew")
    await user.until(lambda: screen._awaited == ("disk10", "disk11"), "the screen waits for the disks")
    with lab_folder(user.fake_lab.host.state, "default") as folder:
        made = {spec.name: spec.size_bytes for spec in folder.specs}
    assert made["disk10"] == made["disk11"] == 1000 * MIB
    assert len(made) == 11
