from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from textual.message import Message
from textual.pilot import Pilot

from lab.arrays.spec import ArrayPreview, ArraySpec
from lab.plans import Plan
from tests.tui.conftest import AppMaker, looked, running
from tests.tui.fake_lab import FakeLab
from tests.tui.still import StillClient, quiet, run_app, still_app, text_of
from tui.actions import LEVELS, Draft, survives_words
from tui.app import RaidlabApp
from tui.build_screen import BuildScreen
from tui.mode import HintLine
from tui.plan_screen import PlanView
from tui.rack import Rack
from tui.widgets import Choices

pytestmark = pytest.mark.tui


def screen_of(app: RaidlabApp) -> BuildScreen:
    assert isinstance(app.screen, BuildScreen)
    return app.screen


def spec_of(draft: Draft) -> ArraySpec:
    spec = draft.spec("md0", ())
    assert isinstance(spec, ArraySpec)
    return spec


def test_a_newcomer_finds_an_array_that_can_be_built(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        text = text_of(app)
        for words in ("RAID 5", "1.46 GiB", "of 1.95 GiB", "1 disk", "4 I/Os", "mdadm --create /dev/md0"):
            assert words in text
        for level in ("RAID 0", "RAID 1", "RAID 4", "▸ RAID 5", "RAID 6", "RAID 10"):
            assert level in text
        rack = app.screen.query_one(Rack)
        assert rack.chosen == screen_of(app).draft.disks == ("disk01", "disk02", "disk03", "disk04")
        shown = app.screen.query_one(PlanView).plan
        assert isinstance(shown, Plan)
        assert shown.steps[0].argv[-4:] == ("/dev/ubda", "/dev/ubdb", "/dev/ubdc", "/dev/ubdd")
        await pilot.press("b")
        await quiet(app, pilot)
        assert isinstance(app.client, StillClient)
        assert len(app.client.jobs) == 1
        await pilot.press("escape", "tab", "a")
        await quiet(app, pilot)
        assert len(rack.chosen) == 9

    run_app(still_app(tmp_path, "build"), act)


def test_every_change_shows_at_once(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press("right")  # RAID 6
        await quiet(app, pilot)
        text = text_of(app)
        assert "996 MiB" in text
        assert "2 disks" in text
        assert "--level=raid6" in text
        await pilot.press("tab", "end", "space")
        await quiet(app, pilot)
        assert "/dev/ubdi" in text_of(app)
        assert "slot 4" in text_of(app)

    run_app(still_app(tmp_path, "build"), act)


def test_what_cannot_be_built_says_why_and_offers_no_command(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press("tab", "n", "space")
        await quiet(app, pilot)
        assert "NOT YET" in text_of(app)
        assert "raid5 needs at least 3 members, not 1" in text_of(app)
        assert app.screen.query_one(PlanView).plan is None
        await pilot.press("b")
        assert isinstance(app.client, StillClient)
        assert app.client.jobs == []

    run_app(still_app(tmp_path, "build"), act)


def test_thinking_a_disk_away_shows_what_is_left(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press("tab", "x")
        await quiet(app, pilot)
        assert "DATA READABLE" in text_of(app)
        await pilot.press("right", "x")
        await quiet(app, pilot)
        assert "DATA LOST" in text_of(app)
        await pilot.press("x", "left", "x")
        await quiet(app, pilot)
        assert "DATA LOST" not in text_of(app)
        assert "DATA READABLE" not in text_of(app)

    run_app(still_app(tmp_path, "build"), act)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (40, 12)])
def test_it_works_on_every_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert "Level" in text_of(app)
        # Below 80 × 24 it need only stay alive.
        assert "disk01" in text_of(app) or size < (80, 24)

    run_app(still_app(tmp_path, "build"), act, size)


def test_a_change_is_worked_out_within_a_frame(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        screen = screen_of(app)
        times = []
        for _ in range(12):
            started = time.process_time()
            screen.on_choices_stepped(Choices.Stepped("level", 1))
            times.append(time.process_time() - started)
        # Preview, diagram and the table of levels together; measured: 2 to 4 ms.
        assert sorted(times)[len(times) // 2] < 0.05

    run_app(still_app(tmp_path, "build"), act)


def test_a_choice_that_a_level_does_not_know_comes_back_with_one_that_does() -> None:
    draft = Draft(disks=("a", "b", "c")).changed("chunk", "64 KiB").changed("spares", "1").changed("level", "RAID 0")
    assert draft.spare_count == 0
    assert draft.members == ("a", "b", "c")
    mirrored = draft.changed("level", "RAID 1")
    assert spec_of(mirrored).chunk_bytes is None
    assert mirrored.spare_disks == ("c",)
    assert spec_of(draft.changed("level", "RAID 6")).chunk_bytes == 64 * 1024


@pytest.mark.parametrize("level", LEVELS)
def test_every_value_of_every_row_makes_a_spec_without_contradictions(level: str) -> None:
    """With enough disks nothing that the form offers is refused."""
    from tests.tui.still import DISKS

    start = Draft(level=level, disks=tuple(disk.name for disk in DISKS))
    for row in start.rows():
        for value in row.values:
            draft = start.changed(row.key, value)
            assert draft.spec(draft.kind.name(0), DISKS).problems() == (), (row.key, value)


def test_disks_toggled_faster_than_the_screen_answers_stay_as_they_were_toggled(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        rack = app.screen.query_one(Rack)
        rack.move_to("disk03")
        rack.action_choose()
        rack.move_to("disk04")
        rack.action_choose()
        told: list[Rack.Toggled] = []
        post = rack.post_message

        def count(message: Message) -> bool:
            if isinstance(message, Rack.Toggled):
                told.append(message)
            return post(message)

        rack.post_message = count  # type: ignore[method-assign]
        await asyncio.sleep(0.5)
        assert told == []
        assert rack.chosen == screen_of(app).draft.disks == ("disk01", "disk02")

    run_app(still_app(tmp_path, "build"), act)


def test_a_disk_that_is_toggled_while_news_of_the_lab_comes_stays_toggled(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        rack, screen = app.screen.query_one(Rack), screen_of(app)
        rack.move_to("disk03")
        rack.action_choose()
        # Before the screen has heard of it.
        screen.update_from(app.lab)
        rack.move_to("disk04")
        rack.action_choose()
        await quiet(app, pilot)
        assert rack.chosen == screen.draft.disks == ("disk01", "disk02")

    run_app(still_app(tmp_path, "build"), act)


def test_two_quick_steps_are_two_steps(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        screen = screen_of(app)
        level = screen.draft.rows()[0]
        form = screen.query_one(Choices)
        form.action_step(1)
        form.action_step(1)
        await quiet(app, pilot)
        assert screen.draft.rows()[0].current == level.step(2)

    run_app(still_app(tmp_path, "build"), act)


def test_the_next_step_is_that_of_what_is_shown(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        screen = screen_of(app)
        screen.action_level(1)
        assert "builds it" in str(screen.query_one(HintLine).visual)
        screen.query_one(Rack).action_choose_none()
        await quiet(app, pilot)
        assert "Space adds one to the array" in str(screen.query_one(HintLine).visual)
        screen.query_one(Rack).action_choose_free()
        await quiet(app, pilot)
        assert "builds it" in str(screen.query_one(HintLine).visual)

    run_app(still_app(tmp_path, "build"), act)


async def test_the_screen_proposes_the_first_free_disks_until_somebody_chooses(
    app_on: AppMaker, fake_lab: FakeLab
) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("2")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, BuildScreen)
        held = len(app.lab.disks) - len(app.lab.free_disks)
        assert screen.draft.disks[0] == f"disk{held + 1:02d}"
        fake_lab.show(None)
        await looked(pilot, app, fake_lab)
        assert list(screen.draft.disks) == ["disk01", "disk02", "disk03", "disk04"]
        await pilot.press("tab", "n", "end", "space")
        await looked(pilot, app, fake_lab)
        assert list(screen.draft.disks) == ["disk09"]


def test_a_level_without_redundancy_survives_no_disk() -> None:
    assert survives_words(ArrayPreview(problems=(), usable_bytes=1)) == "0 disks"
