"""The app around its screens: its start and its machine, dialogs, notices, and what it does not do."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Button, OptionList

from lab.actions.arrays import Load
from lab.errors import RUN_AGAIN, LabError
from lab.plans import Plan, Step
from lab.session.session import LabSession
from tests.tui.conftest import Start
from tests.tui.fake_lab import DISKS, TICK_SECONDS, FakeLab
from tests.tui.user import PATIENCE_SECONDS, User, flat
from tests.unit.cli.superblocks import READS, as_read, superblock
from tests.unit.fakes import Scripted
from tui.actions import applying, next_step
from tui.app import RaidlabApp
from tui.dialogs import MenuScreen
from tui.frontend import PlanRun
from tui.help import HelpScreen, WelcomeScreen
from tui.look import ASCII, Tone
from tui.mode import HintLine, ProblemBar
from tui.state import FIRST_SYNC, Origin, condition


async def test_the_first_start_welcomes_and_the_second_does_not(start: Start, tmp_path: Path) -> None:
    async with start(was_welcomed=False) as user:
        assert isinstance(user.screen, WelcomeScreen)
        await user.press("6")
        await user.until(lambda: user.app.current_mode == "lessons", "the key that the text mentions leads there")
        await user.press("1", "down", "down", "ctrl+t", "5")
        user.app.store_settings()
    async with start(**json.loads((tmp_path / "app.json").read_text())) as again:
        assert not isinstance(again.screen, WelcomeScreen)
        assert again.app.theme == "raidlab-light"
        assert again.app.current_mode == "commands"
        assert again.lab.selected_disk == "disk03"


async def test_a_failed_start_is_shown_with_its_cause_until_the_machine_runs(start: Start, fake_lab: FakeLab) -> None:
    fake_lab.failure = LabError("the lab is in use", hint="stop the other one")
    async with start(was_welcomed=False, waits=False) as user:
        await user.see("the lab is in use. stop the other one")
        assert "is starting" not in user.text
        assert user.screen.query_one("#welcome-build").disabled
        text = str(user.app.screen_stack[0].query_one(ProblemBar).render())
        assert "the lab is in use" in text
        assert "stop the other one" in text
        fake_lab.failure = None
        await user.press("ctrl+r")
        await user.see("It runs:")
        assert not user.screen.query_one("#welcome-build").disabled


@pytest.mark.app(was_welcomed=False)
async def test_enter_in_the_welcome_builds_a_raid_5(user: User) -> None:
    await user.press("enter")
    created = ("mdadm", "--create", "/dev/md0")
    await user.until(lambda: any(run[:3] == created for run in user.fake_lab.machine.runs), "mdadm --create")


@pytest.mark.app(was_welcomed=False)
async def test_an_answer_that_comes_after_the_welcome_was_closed_is_dropped(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a virtual machine without KVM, whose lab takes many seconds to answer."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(RaidlabApp, "look_up", lambda _app, _work, **answers: asked.append(answers))
    async with start(looks=0) as user:
        await user.until(lambda: bool(asked), "the welcome asks for its plan")
        await user.press("escape")
        await user.until(lambda: not isinstance(user.screen, WelcomeScreen), "the welcome is closed")
        asked[0]["on_done"](Plan("first array", ()))
        asked[0]["on_error"](LabError("no disks"))
        await user.pilot.pause()
        assert user.app.is_running


@pytest.mark.app(shows="raid5")
async def test_a_plan_runs_exactly_its_steps_and_only_if_confirmed(user: User) -> None:
    steps = [step.argv for step in (await user.plan("f")).plan.steps]
    await user.press("escape")
    await user.idle()
    assert not any("--fail" in run for run in user.fake_lab.machine.runs)
    await user.plan("f")
    await user.press("r")
    await user.idle()
    assert len(user.app.screen_stack) == 1, str(user.screen.query_one("#plan-failure").render())
    assert [run for run in user.fake_lab.machine.runs if run in steps] == steps
    logged = [entry for entry in user.lab.commands if entry.origin is Origin.PLAN]
    assert logged[-1].why


@pytest.mark.app(shows="raid5")
async def test_a_plan_survives_a_new_size_while_its_widgets_are_mounted_or_removed(user: User) -> None:
    """On a busy computer a new size can arrive when only some of the widgets are mounted."""
    await user.plan("f")
    await user.screen.query_one("#plan-steps").remove()
    await user.pilot.resize_terminal(80, 24)
    await user.press("escape")
    await user.idle()
    assert len(user.app.screen_stack) == 1


@pytest.mark.app(shows="raid5")
async def test_a_plan_with_the_users_consent_runs_although_the_app_exits_before_it_begins(start: Start) -> None:
    holds = threading.Event()
    async with start() as user:
        machine = user.fake_lab.machine
        steps = [step.argv for step in (await user.plan("f")).plan.steps]
        user.app.look_up(lambda _: holds.wait(PATIENCE_SECONDS))
        await user.press("r", "escape")
        threading.Timer(0.5, holds.set).start()
    assert holds.is_set()
    assert [run for run in machine.runs if run in steps] == steps


@pytest.mark.app(shows="raid5")
@pytest.mark.parametrize("is_hidden", [False, True])
async def test_a_failure_is_explained_in_the_dialog_and_after_it_was_hidden_in_a_notice(
    user: User, monkeypatch: pytest.MonkeyPatch, is_hidden: bool
) -> None:
    holds = threading.Event()

    def fails(*_: object, **__: object) -> None:
        holds.wait(PATIENCE_SECONDS)
        raise LabError("the step failed", hint="look again")

    monkeypatch.setattr(LabSession, "run", fails)
    await user.plan("f")
    await user.press("r", *(["escape"] if is_hidden else []))
    assert user.lab.operation
    holds.set()
    await user.idle()
    if is_hidden:
        assert len(user.app.screen_stack) == 1
        assert user.notifications == ["the step failed\nnext: look again"]
    else:
        user.sees("the step failed", "next: look again", "Close (Esc)")
        assert not user.notifications
    assert not user.lab.operation
    assert not user.app.plan_runs


async def test_the_texts_of_a_plan_contain_both_names_of_a_disk(user: User) -> None:
    plan = Plan("Fail /dev/ubdb in md0", (Step(("mdadm", "/dev/ubdb"), "Fails /dev/ubdb."),))
    named = PlanRun(user.app, plan).plan
    assert named.title == "Fail disk02 (/dev/ubdb) in md0"
    assert named.steps == (Step(("mdadm", "/dev/ubdb"), "Fails disk02 (/dev/ubdb)."),)


async def test_a_refusal_is_shown_with_its_hint(user: User) -> None:
    user.app.ask(lambda session: session.array("md7").stop())
    await user.until(lambda: user.notifications, "a notification")
    assert any("no array md7" in text and "next:" in text for text in user.notifications)


@pytest.mark.app(shows="raid5", looks=3)
async def test_a_lost_machine_keeps_the_screen_and_starts_again(user: User) -> None:
    await user.lose()
    assert user.lab.arrays, "what was last seen is still shown"
    assert user.find(ProblemBar).display
    await user.pilot.resize_terminal(80, 24)
    await user.until(lambda: "raidlab" not in user.text.splitlines()[0], "the bar has room for the screens")
    assert "machine lost" in user.text.splitlines()[0]
    await user.press("ctrl+r")
    await user.until(lambda: user.lab.is_open, "the machine runs again")
    assert user.fake_lab.opened == 2
    assert not user.find(ProblemBar).display


async def test_the_next_step_after_a_lost_machine_is_to_start_it(user: User) -> None:
    await user.lose()
    for mode in user.app.MODES:
        await user.app.switch_mode(mode)
        await user.show()
        hint = str(user.find(HintLine).content)
        # These go on without it.
        is_shown = mode not in ("faults", "results", "fleet")
        assert ("Ctrl+R restarts the machine" in hint) is is_shown, f"{mode}: {hint}"


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (RUN_AGAIN, "is lost."),
        (f"{RUN_AGAIN}: it cleans up and starts afresh", "is lost. It cleans up and starts afresh."),
        (f"its kernel hangs: close it and {RUN_AGAIN}", "is lost. Or: its kernel hangs: close it and press Ctrl+R."),
    ],
)
async def test_a_lost_machine_is_remedied_by_a_key(user: User, hint: str, expected: str) -> None:
    await user.lose(hint)
    output = " ".join(str(user.find(ProblemBar).content).split())
    assert output.endswith(f"Ctrl+R starts it again; nothing that was measured or shown {expected}")
    assert not [text for text in user.notifications if RUN_AGAIN in text]


async def test_the_keymap_file_gives_other_keys(start: Start, tmp_path: Path) -> None:
    keys = tmp_path / "keymap.toml"
    keys.write_text('[keys]\n"lab.fail" = "f8"\n"lab.fial" = "x"\n')
    async with start(shows="raid5", keys_file=keys) as user:
        assert any("lab.fial" in text for text in user.notifications)
        await user.plan("f8")


@pytest.mark.app(glyphs=ASCII, shows="raid5")
async def test_an_ascii_terminal_gets_no_other_characters_and_names_of_keys(user: User) -> None:
    assert "enter Disk menu" in user.text.splitlines()[-1]
    assert user.text.isascii()
    await user.press("delete")
    assert user.text.isascii()


async def test_what_the_session_finds_on_the_disks_is_shown_unasked(user: User) -> None:
    assert len(user.lab.free_disks) == len(DISKS)
    mirror = [superblock(each, [0, 1], level=1, slots=2) for each in (0, 1)]
    blank = [None] * (len(DISKS) - len(mirror))
    user.fake_lab.machine.answers[READS] = Scripted(stdout=as_read([*mirror, *blank]))
    user.app.job("by hand", lambda session: session.rescan())
    await user.until(lambda: bool(user.lab.resting_arrays), "the app knows of the array")
    assert [array.name for array in user.lab.resting_arrays] == ["md0"]
    assert len(user.lab.free_disks) == len(blank)


async def test_the_line_of_keys_offers_to_put_a_failed_member_back(user: User) -> None:
    for label, is_offered in (("raid5-failed", True), ("raid6-failed", False)):
        user.fake_lab.show(label)
        await user.look()
        user.app.select(disk="disk02")
        await user.look()
        offered = {each.binding.key for each in user.screen.active_bindings.values() if each.binding.show}
        assert ("r" in offered) is is_offered, "only a bitmap tells what it missed"
        assert "x" in offered


@pytest.mark.app(shows="raid1", size=(120, 50))
async def test_a_write_mostly_member_is_recognised_by_its_details(user: User) -> None:
    user.app.select(disk="disk02")
    await user.look()
    assert "write-mostly" not in user.text
    files = user.fake_lab.machine.files
    files["/sys/block/md0/md/dev-ubdb/state"] = "in_sync,write_mostly\n"
    files["/proc/mdstat"] = "Personalities : [raid1]\nmd0 : active raid1 ubdb[1](W) ubda[0]\n"
    await user.look()
    assert "write-mostly" in user.text


@pytest.mark.app(shows="raid5")
async def test_a_screen_can_be_dismissed_twice(user: User) -> None:
    await user.press("enter")
    menu = user.at(MenuScreen)
    menu.dismiss(None)
    menu.dismiss(None)
    await user.show()
    assert len(user.app.screen_stack) == 1


@pytest.mark.app(shows="raid5")
async def test_a_button_acts_on_its_own_dialog_even_if_that_has_just_closed(user: User) -> None:
    plan = await user.plan("f")
    plan.query_one("#cancel", Button).press()
    plan.dismiss()
    await user.show()
    assert len(user.app.screen_stack) == 1


@pytest.mark.app(shows="raid5", size=(80, 24))
async def test_a_menu_shows_its_introduction_and_notes_in_full_on_a_small_terminal(user: User) -> None:
    def shown(selector: str) -> str:
        place = user.at(MenuScreen).query_one(selector).region
        lines = user.text.splitlines()[place.y : place.bottom]
        return flat("\n".join(line[place.x : place.right] for line in lines))

    await user.press("w")
    assert Load.intro in shown("#menu-box"), user.text
    await user.press("escape", "enter")
    notes = [action.tooltip for action in applying(user.lab) if action.tooltip in shown("#menu-list")]
    # The rest is below the end of the list, which scrolls.
    assert len(notes) > 7, user.text
    assert max(map(len, notes)) > user.find(OptionList).region.width


@pytest.mark.app(shows="raid5")
async def test_help_explains_dialogs_too_and_a_plan_that_ends_under_it_leaves_after_it(user: User) -> None:
    under = await user.plan("f")
    await user.press("f1")
    assert isinstance(user.screen, HelpScreen)
    assert "plan.run" in user.text
    await user.press("f1")
    assert user.app.screen_stack[-1:] == [under]
    await user.press("f1")
    under.action_run()
    await user.idle()
    assert isinstance(user.screen, HelpScreen)
    await user.press("escape")
    assert len(user.app.screen_stack) == 1


@pytest.mark.app(size=(80, 24), notifications=True)
async def test_notifications_never_cover_the_next_step(user: User) -> None:
    for number in range(3):
        user.app.show_message(f"told {number}")
    await user.see("told 2")
    *_, hint, keys = user.text.splitlines()
    assert "No array yet. b creates a RAID 5 to start with; 2 offers all choices." in hint
    assert "Build" in keys


async def test_a_new_raid_5_computes_its_parity_and_is_not_called_degraded(user: User) -> None:
    user.fake_lab.show("raid5")
    await user.look()
    sentences = [event.sentence for event in user.lab.events]
    assert sentences[0].startswith("md0 was started: raid5 of 3 members")
    assert "md computes the parity of md0 (first sync)" in sentences
    assert not any("degraded" in sentence for sentence in sentences)
    (status,) = user.lab.arrays
    assert condition(user.lab, status) == (Tone.BUSY, FIRST_SYNC)
    assert "computes the parity of md0" in next_step(user.lab)
    user.fake_lab.finish_sync()
    await user.look()
    assert "md0 is ready: any one disk may fail now" in [event.sentence for event in user.lab.events]
    assert not user.lab.first_syncs


async def test_a_disk_that_fails_during_the_first_sync_is_a_loss(user: User) -> None:
    user.fake_lab.show("raid5")
    await user.look()
    user.fake_lab.show("raid5-failed")
    await user.look()
    (status,) = user.lab.arrays
    assert condition(user.lab, status)[0] is not Tone.BUSY
    assert not user.lab.first_syncs


async def test_how_long_ago_an_event_was_counts_on(user: User) -> None:
    user.fake_lab.show("raid5")
    user.fake_lab.finish_sync()
    user.fake_lab.md_works = False
    await user.look()
    for seconds in (5, 10):
        await user.look(20)
        assert f"{seconds} s ago" in user.text


@pytest.mark.app(shows="raid5")
async def test_a_lab_in_which_nothing_happens_writes_nothing(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.fake_lab.finish_sync()
    user.fake_lab.md_works = False
    await user.look(2)
    look, history = user.lab.snapshot, user.lab.history
    assert look is not None
    assert history is not None
    # Longer than the charts show, and into the middle of a minute.
    for _ in range(360):
        user.fake_lab.seconds += TICK_SECONDS
        history.add(replace(look, time_seconds=user.fake_lab.seconds))
    await user.look(2)
    painted: list[object] = []
    monkeypatch.setattr(user.app, "_display", lambda _screen, update: painted.append(update))
    await user.look(3)
    assert painted == []
    user.fake_lab.busy = 1 << 20
    await user.look(2)
    assert painted


@pytest.mark.app(shows="raid5")
async def test_quiet_snapshots_are_shown_less_and_less_often_and_changes_at_once(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[float] = []
    # Only what the samples themselves bring about counts.
    monkeypatch.setattr(user.app, "show_now", lambda: None)
    user.app.watch(user.screen, "changes", lambda: shown.append(user.fake_lab.seconds), init=False)
    await user.look(41)
    assert 3 <= len(shown) <= 10
    user.fake_lab.busy = 1 << 20
    await user.look()
    assert shown[-1] == user.fake_lab.seconds
