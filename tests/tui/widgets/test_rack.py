from __future__ import annotations

import pytest
from textual.pilot import Pilot

from lab.session.monitor import Event, EventKind
from lab.units import MIB
from tests.tui.widgets.host import Act, assert_bears, messages_of, shown
from tui.look import ASCII, UNICODE, Tone
from tui.rack import _MARK_WORDS, _TONES, Bay, BayState, Rack, tone_of
from tui.state import LabState

DISKS = tuple(Bay(f"disk{n:02d}", f"/dev/ubd{n}", f"RAIDLAB-{n:02d}", 500 * MIB, "file") for n in range(1, 10))
ONE_OF_EACH = tuple(
    Bay(f"d{number}", size_bytes=500 * MIB, model="ssd", state=state, array="md0", slot=number)
    for number, state in enumerate(BayState)
)


def rack_of(bays: tuple[Bay, ...], *, toggles: bool = False) -> Rack:
    rack = Rack(lambda _: bays, toggles=toggles)
    rack.show(LabState())
    return rack


def press(*keys: str) -> Act:
    async def act(pilot: Pilot[None]) -> None:
        pilot.app.query_one(Rack).focus()
        await pilot.press(*keys)

    return act


LOW, HIGH = 12, 200
"""Rows of a terminal in which disks are shown as lines or as cards."""


@pytest.mark.parametrize("rows", [LOW, HIGH])
def test_every_state_has_a_distinct_sign(rows: int) -> None:
    assert len({state.glyph(UNICODE) for state in BayState}) == len(BayState)
    text = "\n".join(shown(rack_of(ONE_OF_EACH), (60, rows)))
    for state in BayState:
        assert state.glyph(UNICODE) in text


def test_without_room_for_all_the_cursor_s_disk_is_shown() -> None:
    rack = rack_of(DISKS)
    rack.styles.height = 3
    lines = shown(rack, (40, 3), press("end"))
    assert "disk09" in lines[2]


def test_keys_move_through_the_rows_and_columns_that_are_shown() -> None:
    rack = rack_of(DISKS)
    moves = [("right", 2), ("left", 1), ("left", 1), ("up", 1), ("down", 6), ("k", 1), ("l", 2), ("j", 7), ("h", 6)]

    async def act(pilot: Pilot[None]) -> None:
        rack.focus()
        for key, number in (*moves, ("end", 9), ("home", 1)):
            await pilot.press(key)
            assert rack.current is DISKS[number - 1], key

    shown(rack, (120, 40), act)


def test_space_chooses_and_leaves_out_in_order() -> None:
    rack = rack_of(DISKS, toggles=True)
    messages = messages_of(rack, press("end", "space", "home", "space", "end", "space"), Rack.Toggled, (120, 40))
    assert [(message.added, message.removed) for message in messages if isinstance(message, Rack.Toggled)] == [
        (("disk09",), ()),
        (("disk01",), ()),
        ((), ("disk09",)),
    ]
    assert rack.chosen == ("disk01",)


def test_only_free_disks_can_be_chosen() -> None:
    rack = rack_of(ONE_OF_EACH, toggles=True)
    shown(rack, (120, 40), press("right", "space", "a"))
    assert rack.chosen == ("d0",)
    rack = rack_of(DISKS)
    shown(rack, (120, 40), press("space", "a"))
    assert rack.chosen == (), "without toggles nothing can be chosen"


def test_the_mouse_chooses_and_opens() -> None:
    rack = rack_of(DISKS, toggles=True)

    async def click(pilot: Pilot[None]) -> None:
        await pilot.click(Rack, offset=(30, 2))

    messages = messages_of(rack, click, Rack.Toggled, (120, 40))
    assert [message.added for message in messages if isinstance(message, Rack.Toggled)] == [("disk02",)]

    async def double_click(pilot: Pilot[None]) -> None:
        await pilot.click(Rack, offset=(30, 7), times=2)

    opened = messages_of(rack_of(DISKS), double_click, Rack.Opened, (120, 40))
    assert [message.bay.name for message in opened if isinstance(message, Rack.Opened)] == ["disk07"]


def test_a_click_between_two_cards_selects_nothing() -> None:
    rack = rack_of(DISKS, toggles=True)

    async def click(pilot: Pilot[None]) -> None:
        # Five cards in 120 columns: 23 columns each, with a gap of one.
        await pilot.click(Rack, offset=(23, 2))

    shown(rack, (120, 40), click)
    assert rack.chosen == ()


def test_cursor_and_choice_stay_with_their_disks_when_others_come_and_go() -> None:
    rack = rack_of(DISKS, toggles=True)

    async def act(pilot: Pilot[None]) -> None:
        rack.move_to("disk04")
        rack.choose(["disk04", "disk02"])
        rack._bays_of = lambda _: DISKS[2:]
        rack.show(LabState())
        assert rack.current is not None
        assert rack.current.name == "disk04"
        assert rack.chosen == ("disk04",)

    shown(rack, (120, 40), act)


@pytest.mark.parametrize("rows", [LOW, HIGH])
def test_every_width_is_painted(rows: int) -> None:
    widths = (1, 5, 22, 37, 38, 39, 79, 80, 200)
    assert_bears(rack_of(ONE_OF_EACH, toggles=True), *((width, rows) for width in widths), glyphs=ASCII)


def test_events_have_tones() -> None:
    assert {*_MARK_WORDS, *_TONES} <= {kind.value for kind in EventKind}
    bad = [kind for kind in EventKind if tone_of(Event(1.0, kind, "md0", "", "")) is Tone.BAD]
    assert bad == [
        *(EventKind.ARRAY_BROKEN, EventKind.MEMBER_FAULTY, EventKind.DEGRADED),
        *(EventKind.MISMATCH, EventKind.DISK_VANISHED),
    ]


def test_no_disks_are_words() -> None:
    assert shown(rack_of(()), (40, 3)) == ["no disks yet"]
