from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.widgets.host import shown
from tui.look import ASCII, UNICODE, Tone
from tui.quantities import Unit
from tui.widgets import SyncBar, SyncView, Tile, VerdictBanner, bar


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


REBUILD = SyncView("rebuild", 0.434, 195e6, 74.2)


@pytest.mark.parametrize(
    ("view", "width", "begin", "end"),
    [
        (REBUILD, 80, "◐ rebuild ███", "43.4 %  195 MB/s  1:14 min left"),
        (REBUILD, 36, "", "43.4 %  195 MB/s"),
        (REBUILD, 26, "", "43.4 %"),
        (SyncView("resync", 0.5, 1e6, 10, note="waits for md1"), 80, "", "50.0 %  waits for md1"),
    ],
    ids=["whole", "without the time left", "without the rate", "with a note"],
)
def test_a_sync_shows_how_far_how_fast_and_how_long(view: SyncView, width: int, begin: str, end: str) -> None:
    line = sync(view, width)
    assert line.startswith(begin)
    assert line.endswith(end)


def test_no_sync_shows_nothing() -> None:
    assert sync(None) == ""


def test_a_tile_shows_label_figure_and_unit() -> None:
    tile = Tile("p99")
    tile.show(0.0133, Unit.SECONDS)
    assert shown(tile, (20, 2)) == ["p99", "13.3 ms"]


def test_a_tile_s_mood_has_a_sign() -> None:
    tile = Tile("Survives")
    tile.show_text("no failure", Tone.BAD, "not even one")
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
