from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.widgets.host import shown
from tui.look import ASCII, UNICODE, Tone
from tui.quantities import Unit
from tui.widgets import SyncBar, SyncView, Tile, VerdictBanner, bar

pytestmark = pytest.mark.tui


def sync(view: SyncView | None, width: int = 80) -> str:
    made = SyncBar()
    made.show(view)
    return shown(made, (width, 1))[0]


@given(st.floats(-1, 2), st.integers(0, 200), st.sampled_from([UNICODE, ASCII]))
def test_a_bar_is_as_long_as_asked(fraction: float, cells: int, glyphs: object) -> None:
    full, empty = bar(fraction, cells, UNICODE if glyphs is UNICODE else ASCII)
    assert len(full) + len(empty) == cells


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_is_never_shorter(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert len(bar(low, 20, UNICODE)[1]) >= len(bar(high, 20, UNICODE)[1])


def test_a_sync_shows_how_far_how_fast_and_how_long() -> None:
    line = sync(SyncView("rebuild", 0.434, 195e6, 74.2))
    assert line.startswith("◐ rebuild ███")
    assert line.endswith("43.4 %  195 MB/s  1:14 min left")


def test_with_less_room_the_time_left_goes_before_the_per_cent() -> None:
    line = sync(SyncView("rebuild", 0.434, 195e6, 74.2), 36)
    assert line.endswith("43.4 %  195 MB/s")
    assert sync(SyncView("rebuild", 0.434, 195e6, 74.2), 26).endswith("43.4 %")


def test_a_note_replaces_rate_and_time() -> None:
    assert sync(SyncView("resync", 0.5, 1e6, 10, note="waits for md1")).endswith("50.0 %  waits for md1")


def test_no_sync_shows_nothing() -> None:
    assert sync(None) == ""


def test_a_tile_shows_label_figure_and_unit() -> None:
    tile = Tile("p99")
    tile.show(0.0133, Unit.SECONDS)
    assert shown(tile, (20, 2)) == ["p99", "13.3 ms"]


def test_a_tile_s_mood_has_a_sign() -> None:
    tile = Tile("Survives")
    tile.say("no failure", Tone.BAD, "not even one")
    assert shown(tile, (40, 2))[1] == "✘ no failure  not even one"


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, [" ✔ DATA INTACT   all 64 MiB read back as they were written"]),
        (30, [" ✔ DATA INTACT", "all 64 MiB read back as they", "were written"]),
    ],
)
def test_a_verdict_is_a_word_and_a_sentence(width: int, expected: list[str]) -> None:
    verdict = VerdictBanner()
    verdict.show(Tone.GOOD, "DATA INTACT", "all 64 MiB read back as they were written")
    assert shown(verdict, (width, 5)) == expected


def test_no_verdict_takes_no_room() -> None:
    assert shown(VerdictBanner(), (40, 5)) == []


def test_a_terminal_without_unicode_gets_ascii_only() -> None:
    tile, verdict = Tile("p99"), VerdictBanner()
    tile.show(0.0000133, Unit.SECONDS, Tone.BUSY, "…")
    verdict.show(Tone.BAD, "DATA CHANGED", "4 KiB × 3")
    for widget in (tile, verdict):
        assert "\n".join(shown(widget, (40, 5), glyphs=ASCII)).isascii()
