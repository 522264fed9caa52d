from __future__ import annotations

import time

import pytest
from textual.message import Message

from lab.arrays.discovery import BroughtUp
from lab.arrays.spec import ArraySpec
from lab.plans import Plan, Step
from tests.tui.fake_lab import DISKS
from tests.tui.test_frame import DRILL
from tests.tui.user import User
from tui.actions import LEVELS, Draft
from tui.build_screen import BuildScreen
from tui.mode import HintLine
from tui.plan_screen import PlanView
from tui.rack import Rack
from tui.widgets import Choices

pytestmark = pytest.mark.app(mode="build", is_still=True)


def spec_of(draft: Draft) -> ArraySpec:
    spec = draft.spec("md0", ())
    assert isinstance(spec, ArraySpec)
    return spec


async def test_a_newcomer_finds_an_array_that_can_be_built(user: User) -> None:
    rack = user.find(Rack)
    assert rack.chosen == user.at(BuildScreen).draft.disks == ("disk01", "disk02", "disk03", "disk04")
    shown = user.find(PlanView).plan
    assert isinstance(shown, Plan)
    assert shown.steps[0].argv[-4:] == ("/dev/ubda", "/dev/ubdb", "/dev/ubdc", "/dev/ubdd")
    await user.press("b")
    assert len(user.jobs) == 1
    await user.press("escape", "tab", "a")
    assert len(rack.chosen) == 9


async def test_every_change_shows_at_once(user: User) -> None:
    await user.press("right")  # RAID 6
    text = user.text
    assert "996 MiB" in text
    assert "2 disks" in text
    assert "--level=raid6" in text
    await user.press("tab", "end", "space")
    assert "/dev/ubdi" in user.text
    assert "slot 4" in user.text


async def test_an_invalid_array_is_shown_with_the_reason_and_without_a_command(user: User) -> None:
    await user.press("tab", "n", "space")
    assert "NOT YET" in user.text
    assert "raid5 needs at least 3 members, not 1" in user.text
    assert user.find(PlanView).plan is None
    await user.press("b")
    assert user.jobs == []


async def test_a_simulated_disk_failure_shows_whether_data_survive(user: User) -> None:
    await user.press("tab", "x")
    assert "DATA READABLE" in user.text
    await user.press("right", "x")
    assert "DATA LOST" in user.text
    await user.press("x", "left", "x")
    assert "DATA LOST" not in user.text
    assert "DATA READABLE" not in user.text


async def test_a_change_is_worked_out_within_a_frame(user: User) -> None:
    screen = user.at(BuildScreen)
    times = []
    for _ in range(12):
        started = time.process_time()
        screen.on_choices_stepped(Choices.Stepped("level", 1))
        times.append(time.process_time() - started)
    # Preview, diagram and the table of levels together; measured: 2 to 4 ms.
    assert sorted(times)[len(times) // 2] < 0.05


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
    start = Draft(level=level, disks=tuple(disk.name for disk in DISKS))
    for row in start.rows():
        for value in row.values:
            draft = start.changed(row.key, value)
            assert draft.spec(draft.kind.name(0), DISKS).problems() == (), (row.key, value)


async def test_disks_toggled_faster_than_the_screen_answers_stay_as_they_were_toggled(user: User) -> None:
    rack = user.find(Rack)
    rack.move_to("disk03")
    rack.action_choose()
    rack.move_to("disk04")
    rack.action_choose()
    reported: list[Rack.Toggled] = []
    post = rack.post_message

    def count(message: Message) -> bool:
        if isinstance(message, Rack.Toggled):
            reported.append(message)
        return post(message)

    rack.post_message = count  # type: ignore[method-assign]
    await user.show()
    assert reported == []
    assert rack.chosen == user.at(BuildScreen).draft.disks == ("disk01", "disk02")


async def test_a_disk_that_is_toggled_while_news_of_the_lab_comes_stays_toggled(user: User) -> None:
    rack, screen = user.find(Rack), user.at(BuildScreen)
    rack.move_to("disk03")
    rack.action_choose()
    # Before the screen has heard of it.
    screen.changes += 1
    rack.move_to("disk04")
    rack.action_choose()
    await user.show()
    assert rack.chosen == screen.draft.disks == ("disk01", "disk02")


async def test_two_quick_steps_are_two_steps(user: User) -> None:
    screen = user.at(BuildScreen)
    level = screen.draft.rows()[0]
    form = screen.query_one(Choices)
    form.action_step(1)
    form.action_step(1)
    await user.show()
    assert screen.draft.rows()[0].current == level.step(2)


async def test_the_next_step_matches_the_shown_draft(user: User) -> None:
    screen = user.at(BuildScreen)
    screen.action_level(1)
    assert "builds it" in str(screen.query_one(HintLine).visual)
    screen.query_one(Rack).action_choose_none()
    await user.show()
    assert "Space adds one to the array" in str(screen.query_one(HintLine).visual)
    screen.query_one(Rack).action_choose_free()
    await user.show()
    assert "builds it" in str(screen.query_one(HintLine).visual)


@pytest.mark.app(is_still=False, shows="raid5")
async def test_the_screen_proposes_the_first_free_disks_until_the_user_chooses(user: User) -> None:
    screen = user.at(BuildScreen)
    held = len(user.lab.disks) - len(user.lab.free_disks)
    assert screen.draft.disks[0] == f"disk{held + 1:02d}"
    user.fake_lab.show(None)
    await user.look()
    assert list(screen.draft.disks) == ["disk01", "disk02", "disk03", "disk04"]
    await user.press("tab", "n", "end", "space")
    await user.look()
    assert list(screen.draft.disks) == ["disk09"]


async def test_a_free_disk_with_old_contents_can_be_made_blank(user: User) -> None:
    user.lab.found = BroughtUp(carried={disk.node: ("xfs",) for disk in DISKS})
    await user.show()
    assert "No free disk is blank" in str(user.find(HintLine).visual)
    await user.press("tab", "space")
    (making,) = user.jobs
    making.set_result(Plan("Blank", (Step(("wipefs", "--all", "/dev/ubda"), "It has an old file system."),)))
    await user.until(lambda: "--all" in user.text, "the plan")
    user.sees("disk01 carries xfs. A new array needs blank disks.")
    await user.press("r")
    # The disk may become free while the plan still runs: it is proposed then, and must not be chosen twice.
    user.lab.found = BroughtUp(carried={disk.node: ("xfs",) for disk in DISKS[1:]})
    await user.show()
    user.jobs[-1].set_result(None)
    await user.until(lambda: isinstance(user.screen, BuildScreen), "the end of the plan")
    await user.show()
    assert user.at(BuildScreen).draft.disks == ("disk01",)


async def test_no_disk_of_an_open_drill_is_made_blank(user: User) -> None:
    user.lab.found = BroughtUp(carried={disk.node: ("xfs",) for disk in DISKS})
    user.app.drills.view = DRILL
    await user.show()
    assert "blank" not in str(user.find(HintLine).visual)
    await user.press("tab", "space")
    assert user.at(BuildScreen)
    assert user.jobs == []


@pytest.mark.app(is_still=False, shows="raid5", notifications=True)
async def test_a_member_of_an_array_is_not_offered_for_another(user: User) -> None:
    await user.press("tab", "home", "space")
    assert user.notifications[-1:] == ["disk01 is not free: md0 · slot 0"]
    assert user.at(BuildScreen)
