from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from statistics import median
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.widgets.host import assert_bears, shown
from tui.charts import BARS, DotCanvas, IntervalChart, IntervalRow, Mark, Series, TimeChart
from tui.look import ASCII, Canvas, Tone
from tui.quantities import Unit
from tui.widgets import Line, LineWidget, SyncBar, SyncView

STEADY = [(float(second), 80_000.0) for second in range(61)]


def chart(*series: Series, marks: tuple[Mark, ...] = (), **more: object) -> TimeChart:
    made = TimeChart("IOPS", Unit.IOPS, **more)  # type: ignore[arg-type]
    made.show(series, marks)
    return made


def test_a_narrow_legend_leaves_out_values_before_names() -> None:
    lines = shown(chart(Series("read", STEADY), Series("write", STEADY, 1)), (24, 6))
    assert lines[0] == "IOPS     ━ read  ━ write"


def test_points_older_than_the_window_are_left_out() -> None:
    old_and_new = [(0.0, 500_000.0), (1.0, 500_000.0), (100.0, 10.0), (160.0, 10.0)]
    assert shown(chart(Series("read", old_and_new)))[1].lstrip().startswith("10 ┤")


def test_a_gap_in_the_points_is_a_gap_in_the_line() -> None:
    gap = [(second, None if 20 <= second < 40 else value) for second, value in STEADY]
    (line,) = [line for line in shown(chart(Series("read", gap)), (60, 6))[1:-1] if "⠉" in line]
    plotted = line.split("┤")[1]
    middle = plotted[len(plotted) // 2 - 2 : len(plotted) // 2 + 2]
    assert "⠉" not in middle
    assert plotted.startswith("⠉")
    assert plotted.endswith("⠉")


def test_a_mark_outside_the_window_is_not_shown() -> None:
    lines = shown(chart(Series("read", [(200.0, 1.0)]), marks=(Mark(20.0, "disk3 failed", Tone.BAD),)))
    assert not any("disk3 failed" in line or "✘" in line for line in lines)


def test_four_rows_are_enough() -> None:
    _, plot, _, axis = shown(chart(Series("read", STEADY)), (40, 4))
    assert any("⠁" <= sign <= "⣿" for sign in plot)
    assert axis.endswith("now")


def test_a_chart_without_points_is_labelled_as_empty() -> None:
    assert any("nothing measured yet" in line for line in shown(chart(Series("read", []))))


def test_a_terminal_without_unicode_gets_ascii_only() -> None:
    slow = TimeChart("Latency", Unit.SECONDS, is_log=True)
    slow.show([Series("p99", [(0.0, 0.0002), (60.0, 0.05)]), Series("", [], 2)], [Mark(30, "x", Tone.GOOD)])
    text = "\n".join(shown(slow, glyphs=ASCII))
    assert "100 us" in text


def test_no_size_is_too_odd() -> None:
    made = chart(Series("read", STEADY), marks=(Mark(5.0, "a long label of an event", Tone.BUSY),))
    assert_bears(made, (1, 1), (7, 3), (12, 4), (3, 40), (200, 50))


@pytest.mark.parametrize(
    ("make", "show", "one", "other"),
    [
        (lambda: TimeChart("IOPS", Unit.IOPS), TimeChart.show, [Series("read", STEADY)], [Series("read", STEADY[1:])]),
        (SyncBar, lambda bar, view: setattr(bar, "view", view), SyncView("check", 0.1), SyncView("check", 0.2)),
        (
            IntervalChart,
            lambda chart, row: chart.draw([row], BARS),
            IntervalRow("a", 1, 1, 1, "1"),
            IntervalRow("b", 1, 1, 1, "1"),
        ),
    ],
    ids=["chart", "bar", "rows"],
)
def test_equal_values_are_not_painted_again(
    make: Callable[[], LineWidget], show: Callable[[LineWidget, Any], object], one: object, other: object
) -> None:
    made = make()
    show(made, one)
    painted: list[int] = []

    async def act(pilot: Pilot[None]) -> None:
        original = made.paint

        def paint(width: int, height: int) -> list[Line]:
            painted.append(1)
            return original(width, height)

        made.paint = paint  # type: ignore[method-assign]
        show(made, deepcopy(one))
        await pilot.pause()
        assert painted == []
        show(made, other)
        await pilot.pause()
        assert painted == [1]

    shown(made, act=act)


def test_a_redraw_is_cheap() -> None:
    busy = [
        Series(f"series {number}", [(n / 4, 1000.0 * (n % 7 + number)) for n in range(480)], number)
        for number in range(4)
    ]
    made = TimeChart("IOPS", Unit.IOPS)
    made.window_seconds = 120

    async def act(pilot: Pilot[None]) -> None:
        made.show(busy)
        spent = []
        for _ in range(5):
            started = time.process_time()
            made.paint(120, 20)
            spent.append(time.process_time() - started)
        # Four redraws per second of four such charts must use little processor time; measured: 6 ms each. A garbage
        # collection may happen during one of them.
        assert median(spent) < 0.06

    shown(made, (120, 20), act)


@pytest.mark.parametrize("kind", list(Canvas))
def test_a_line_on_the_canvas_has_no_holes(kind: Canvas) -> None:
    canvas = DotCanvas(10, 4, kind)
    canvas.line((0, canvas.dot_rows - 1), (canvas.dot_columns - 1, 0), 0)
    assert {column for _, column in canvas.cells} == set(range(10))
    assert canvas.cells[3, 0][1] == 0
    assert (0, 0) not in canvas.cells


def test_the_finest_canvas_has_eight_dots_in_a_cell() -> None:
    canvas = DotCanvas(1, 1, Canvas.BRAILLE)
    for column in (0, 1):
        canvas.vertical(column, 0, 3, 0)
    assert canvas.cells[0, 0] == ("⣿", 0)
