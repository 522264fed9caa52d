from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.widgets.host import shown
from tui.charts import IntervalChart, TimeChart
from tui.look import ASCII, UNICODE, Glyphs, Tone
from tui.stripe_screen import StripeHex
from tui.widgets import STYLE_SHEET, LineWidget, SyncBar, SyncView, Tile, VerdictBanner, bar


@given(st.floats(-1, 2), st.floats(0, 1), st.integers(0, 200), st.sampled_from([UNICODE, ASCII]))
def test_a_bar_fills_its_cells_and_more_is_never_shorter(
    fraction: float, more: float, cells: int, glyphs: Glyphs
) -> None:
    full, empty = bar(fraction, cells, glyphs)
    assert len(full) + len(empty) == cells
    assert len(bar(fraction + more, cells, glyphs)[1]) <= len(empty)


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
    made = SyncBar()
    made.view = view
    (line,) = shown(made, (width, 1))
    assert line.startswith(begin)
    assert line.endswith(end)


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


FIGURES = {Tone.QUIET: "$foreground"}


@pytest.mark.parametrize(
    ("widget", "others"),
    [(TimeChart, {}), (IntervalChart, FIGURES), (Tile, FIGURES), (StripeHex, {}), (VerdictBanner, {})],
)
def test_every_tone_has_its_colour_in_the_style_sheet(widget: type[LineWidget], others: dict[Tone, str]) -> None:
    rules = re.findall(rf"\.{widget._prefix}--([\w-]+) {{ color: ([^;]+);", STYLE_SHEET.read_text("utf-8"))
    assert {tone: colour for tone, colour in rules if tone in list(Tone)} == {
        tone: others.get(tone, tone.style) for tone in Tone
    }


def test_a_subclass_without_rules_is_painted_as_its_parent() -> None:
    subclass = type("SmallTile", (Tile,), {})
    assert shown(subclass("Survives")) == shown(Tile("Survives"))


def test_no_verdict_takes_no_room() -> None:
    assert shown(VerdictBanner(), (40, 5)) == []
