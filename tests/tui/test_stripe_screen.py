"""The Stripe screen on a made-up array, by keys alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from tests.tui.conftest import AppMaker, AppPilot, idle, looked, running
from tests.tui.fake_lab import FakeLab
from tests.tui.still import text_of
from tests.unit.microscope.arrays import CHUNK_SECTORS, Members, parity_array
from tui.app import RaidlabApp, Settings
from tui.look import ASCII
from tui.plan_screen import PlanScreen
from tui.stripe_screen import ByteScreen, PlaceScreen, StripeHex, StripeScreen

SETTINGS = Settings(mode="stripe", was_welcomed=True)


@pytest.fixture
def members(fake_lab: FakeLab) -> Members:
    """A RAID 6 of five in chunks of 4 KiB on the fake lab; what its members hold."""
    fake_lab.show("raid6")
    machine = fake_lab.machine
    _, made, held = parity_array("raid6", 5)
    for path in [path for path in machine.files if path.startswith("/sys/block/md0/")]:
        del machine.files[path]
    machine.files |= made.files
    entries = sorted({path.split("/")[5] for path in made.files if path.startswith("/sys/block/md0/md/")})
    machine.dirs["/sys/block/md0/md"] = tuple(entries)
    now = Members(machine)
    now.bytes = held.bytes
    return now


async def settle(pilot: AppPilot, app: RaidlabApp, fake_lab: FakeLab) -> None:
    """Let the lab look, the stripe be read, and all of it be shown."""
    await looked(pilot, app, fake_lab)
    await idle(pilot, app)
    await idle(pilot, app)


def screen_of(app: RaidlabApp) -> StripeScreen:
    assert isinstance(app.screen, StripeScreen)
    return app.screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_parity_stands_beside_parity_computed(
    app_on: AppMaker, fake_lab: FakeLab, members: Members, size: tuple[int, int]
) -> None:
    app = app_on(SETTINGS)
    async with running(app, size) as pilot:
        await settle(pilot, app, fake_lab)
        text = text_of(app)
        assert "Stripe 0 of 16: blocks 0 to 2 of md0: raid6" in text
        assert "AGREES" in text
        assert ("P computed" if size[0] > 100 else "P=") in text
        # Of the first data chunk, and what is under it.
        assert "00 01" in text


async def test_arrows_go_from_stripe_to_stripe_and_through_the_bytes(
    app_on: AppMaker, fake_lab: FakeLab, members: Members
) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await settle(pilot, app, fake_lab)
        await pilot.press("right", "right", "left")
        await idle(pilot, app)
        await idle(pilot, app)
        assert "Stripe 1 of 16: blocks 3 to 5" in text_of(app)
        await pilot.press("minus")
        await idle(pilot, app)
        assert "Stripe 0 of 16" in text_of(app)
        first = app.screen.query_one(StripeHex).bytes_in_row()
        await pilot.press("down", "down")
        assert f"{2 * first:>7} " in text_of(app)
        await pilot.press("pagedown", "pageup", "up", "up", "up")
        assert "     0 " in text_of(app)
        await pilot.press("tab", "tab")
        assert "▸disk02" in text_of(app)
        await pilot.press("shift+tab", "shift+tab")
        assert "▸disk05" in text_of(app)


async def test_a_wrong_byte_has_a_sign_and_a_culprit(app_on: AppMaker, fake_lab: FakeLab, members: Members) -> None:
    members.flip(0, CHUNK_SECTORS, 2000)
    app = app_on(SETTINGS, glyphs=ASCII)
    async with running(app) as pilot:
        await settle(pilot, app, fake_lab)
        await pilot.press("right")
        await idle(pilot, app)
        await idle(pilot, app)
        text = text_of(app)
        assert "DIFFERS" in text
        assert "Wrong is disk01: P and Q both name it." in text
        assert "X wrong" in text
        assert "That is wrong here: the data of disk01 are bad" in text
        assert ">" not in "".join(line for line in text.splitlines() if line.lstrip("|").startswith("      0 "))
        await pilot.press("d")
        await pilot.pause()
        assert any(">" in line and "2000" in line for line in text_of(app).splitlines())


async def test_a_flip_is_asked_for_and_shown_as_a_plan(
    app_on: AppMaker, fake_lab: FakeLab, members: Members, tmp_path: Path
) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await settle(pilot, app, fake_lab)
        await pilot.press("f")
        await pilot.pause()
        assert isinstance(app.screen, ByteScreen)
        field = app.screen.query_one(Input)
        assert field.value == "disk01:0"
        field.value = "disk02"
        await pilot.press("enter")
        assert isinstance(app.screen, ByteScreen)
        assert "is not a whole number" in text_of(app)
        field.value = "disk02:33"
        await pilot.press("enter")
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)
        assert "dd of=/dev/ubdb bs=1 seek=65569" in " ".join(app.screen.plan.lines())
        await pilot.press("r")
        await idle(pilot, app)
        ran = [argv for argv in fake_lab.machine.runs if argv[0] == "sh" and "seek=65569" in argv[-1]]
        assert len(ran) == 1


@pytest.mark.parametrize(("typed", "stripe"), [("7", 7), ("block 10", 3), ("b10", 3), ("disk02@160", 4)])
async def test_going_to_a_place(app_on: AppMaker, fake_lab: FakeLab, members: Members, typed: str, stripe: int) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await settle(pilot, app, fake_lab)
        await pilot.press("g")
        await pilot.pause()
        assert isinstance(app.screen, PlaceScreen)
        app.screen.query_one(Input).value = typed
        await pilot.press("enter")
        await idle(pilot, app)
        await idle(pilot, app)
        assert f"Stripe {stripe} of 16" in text_of(app)


async def test_writes_and_crashes_are_stepped_through(app_on: AppMaker, fake_lab: FakeLab, members: Members) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await settle(pilot, app, fake_lab)
        await pilot.press("w")
        await idle(pilot, app)
        assert "A write of block 0, in stripe 0: reconstruct-write." in text_of(app)
        await pilot.press("k")
        await idle(pilot, app)
        text = text_of(app)
        assert "HOLE" in text
        for written in ("→nothing", "→P ", "→P + data", "→P + data + Q", " data + Q"):
            assert written in text
        await pilot.press("i")
        await pilot.pause()
        assert "Data and parity agree." in text_of(app)
        await pilot.press("space")
        await pilot.pause()
        assert screen_of(app).has_class("-words")


async def test_check_and_repair_are_mds_own(app_on: AppMaker, fake_lab: FakeLab, members: Members) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await settle(pilot, app, fake_lab)
        await pilot.press("c")
        await idle(pilot, app)
        await idle(pilot, app)
        assert any("echo check" in argv[-1] for argv in fake_lab.machine.runs)
        await pilot.press("r")
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)
        assert "echo repair" in app.screen.plan.lines()[0]


async def test_what_cannot_be_read_says_why(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        assert "no array is running" in text_of(app)
        fake_lab.show("raid6")
        fake_lab.machine.files["/sys/block/md0/md/layout"] = "77\n"
        await settle(pilot, app, fake_lab)
        assert "raid6 has no layout 77" in text_of(app)
