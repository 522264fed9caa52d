"""The Stripe screen on a synthetic array, used with keys alone."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from tests.tui.conftest import Start
from tests.tui.fake_lab import FakeLab
from tests.tui.user import User
from tests.unit.microscope.arrays import CHUNK_SECTORS, Members, parity_array
from tui.look import ASCII
from tui.plan_screen import PlanScreen
from tui.stripe_screen import ByteScreen, PlaceScreen, StripeHex, StripeScreen

pytestmark = pytest.mark.app(mode="stripe")


@pytest.fixture
def members(fake_lab: FakeLab) -> Members:
    """The members of a RAID 6 of five with chunks of 4 KiB on the fake lab, and their content."""
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


async def settle(user: User, *keys: str) -> None:
    """Press keys, take a sample, and wait until the stripe is read and everything is shown."""
    await user.press(*keys)
    await user.look()
    await user.idle()
    await user.idle()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_stored_parity_is_shown_beside_computed_parity(
    user: User, members: Members, size: tuple[int, int]
) -> None:
    await settle(user)
    text = user.text
    assert "Stripe 0 of 16: blocks 0 to 2 of md0: raid6" in text
    assert "AGREES" in text
    assert ("P computed" if size[0] > 100 else "P=") in text
    # The beginning of the first data chunk, and of the chunk below it.
    assert "00 01" in text


async def test_arrows_go_from_stripe_to_stripe_and_through_the_bytes(user: User, members: Members) -> None:
    await settle(user)
    await settle(user, "right", "right", "left")
    assert "Stripe 1 of 16: blocks 3 to 5" in user.text
    await settle(user, "minus")
    assert "Stripe 0 of 16" in user.text
    first = user.find(StripeHex).bytes_in_row()
    await user.press("down", "down")
    assert f"{2 * first:>7} " in user.text
    await user.press("pagedown", "pageup", "up", "up", "up")
    assert "     0 " in user.text
    await user.press("tab", "tab")
    assert "▸disk02" in user.text
    await user.press("shift+tab", "shift+tab")
    assert "▸disk05" in user.text


@pytest.mark.app(glyphs=ASCII)
async def test_a_wrong_byte_has_a_sign_and_a_culprit(start: Start, members: Members) -> None:
    members.flip(0, CHUNK_SECTORS, 2000)
    async with start() as user:
        await settle(user)
        await user.press("right")
        await user.idle()
        await user.idle()
        text = user.text
        assert "DIFFERS" in text
        assert "disk01 is wrong: P and Q both identify it." in text
        assert "X wrong" in text
        assert "Here that is wrong: the data of disk01 are bad" in text
        assert ">" not in "".join(line for line in text.splitlines() if line.lstrip("|").startswith("      0 "))
        await user.press("d")
        assert any(">" in line and "2000" in line for line in user.text.splitlines())


async def test_a_flip_is_asked_for_and_shown_as_a_plan(user: User, members: Members) -> None:
    await settle(user)
    await user.press("f")
    assert isinstance(user.screen, ByteScreen)
    field = user.find(Input)
    assert field.value == "disk01:0"
    field.value = "disk02"
    await user.press("enter")
    assert isinstance(user.screen, ByteScreen)
    assert "is not a whole number" in user.text
    field.value = "disk02:33"
    await settle(user, "enter")
    assert "dd of=/dev/ubdb bs=1 seek=65569" in " ".join(user.at(PlanScreen).plan.lines())
    await settle(user, "r")
    ran = [argv for argv in user.fake_lab.machine.runs if argv[0] == "sh" and "seek=65569" in argv[-1]]
    assert len(ran) == 1


async def test_going_to_a_place(user: User, members: Members) -> None:
    await settle(user)
    for typed, stripe in (("7", 7), ("block 10", 3), ("disk02@160", 4), ("b10", 3)):
        await user.press("g")
        assert isinstance(user.screen, PlaceScreen)
        user.find(Input).value = typed
        await settle(user, "enter")
        assert f"Stripe {stripe} of 16" in user.text, typed


async def test_writes_and_crashes_are_stepped_through(user: User, members: Members) -> None:
    await settle(user)
    await settle(user, "w")
    assert "A write of block 0, in stripe 0: reconstruct-write." in user.text
    await settle(user, "k")
    text = user.text
    assert "HOLE" in text
    for written in ("→nothing", "→P ", "→P + data", "→P + data + Q", " data + Q"):
        assert written in text
    await user.press("i")
    assert "Data and parity agree." in user.text
    await user.press("space")
    assert user.at(StripeScreen).has_class("-words")


async def test_check_and_repair_are_mds_own(user: User, members: Members) -> None:
    await settle(user)
    await settle(user, "c")
    assert any("echo check" in argv[-1] for argv in user.fake_lab.machine.runs)
    await settle(user, "r")
    assert "echo repair" in user.at(PlanScreen).plan.lines()[0]


async def test_unreadable_stripes_are_shown_with_the_reason(user: User) -> None:
    assert "no array is running" in user.text
    user.fake_lab.show("raid6")
    user.fake_lab.machine.files["/sys/block/md0/md/layout"] = "77\n"
    await settle(user)
    assert "raid6 has no layout 77" in user.text
