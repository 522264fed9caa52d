from __future__ import annotations

import pytest

from tests.tui.widgets.host import shown
from tui.charts import BARS, DECADES, RATIOS, SHARES, Axis, IntervalChart, IntervalRow
from tui.look import UNICODE, Glyphs, Tone


def lines(axis: Axis, *rows: IntervalRow, size: tuple[int, int] = (60, 8), glyphs: Glyphs = UNICODE) -> list[str]:
    chart = IntervalChart()
    chart.draw(rows, axis)
    return [line for line in shown(chart, size, glyphs=glyphs) if line]


def test_bars_of_a_group_share_a_scale_and_groups_do_not() -> None:
    title, one, other, _, alone = lines(
        BARS,
        IntervalRow("raid0", 100, 100, 100, "100", group="reads"),
        IntervalRow("raid1", 50, 50, 50, " 50", group="reads"),
        IntervalRow("raid0", 1, 1, 1, "  1", group="writes"),
    )
    assert title == "reads"
    assert other.count("█") == pytest.approx(one.count("█") / 2, abs=1)
    assert one.count("█") == alone.count("█")
    assert one.endswith("100")


def test_shares_have_one_scale_and_a_zero_has_no_bar() -> None:
    half, none = lines(SHARES, IntervalRow("a", 0.5, 0.5, 0.5, "50.0 %"), IntervalRow("b", 0, 0, 0, " 0.0 %"))
    assert half.count("█") == pytest.approx((60 - 9) / 2, abs=1)
    assert "█" not in none


@pytest.mark.parametrize(
    ("axis", "row", "width"),
    [
        (BARS, IntervalRow("raid5 degraded", 100, 90, 110, "100 [90–110]"), 22),
        (RATIOS, IntervalRow("raid5 rand-read-4k read", 2.0, 1.9, 2.1, "2.00 × [1.90–2.10] cannot tell"), 40),
    ],
)
def test_without_room_for_a_plot_the_texts_remain(axis: Axis, row: IntervalRow, width: int) -> None:
    assert lines(axis, row, size=(width, 8))[0].endswith(row.text)


def test_ratios_are_left_or_right_of_one_and_at_the_ends_if_they_are_off_the_scale() -> None:
    faster, slower, over, off, none, axis = lines(
        RATIOS,
        IntervalRow("a", 2.0, 1.5, 2.5, "2.00", Tone.GOOD),
        IntervalRow("b", 0.5, 0.4, 0.6, "0.50", Tone.BAD),
        IntervalRow("c", 1.1, 0.8, 1.4, "1.10"),
        IntervalRow("d", 900.0, 800.0, 1000.0, " 900"),
        IntervalRow("e", None, 1.0, 1.0, "   –"),
    )
    one = axis.index("1")
    assert faster.index("●") > one > slower.index("●")
    assert faster[one] == "│"
    assert over[one] == "─", "an interval that contains 1 crosses the line"
    assert off.index("●") == len(axis) - 1
    assert "●" not in none


def test_without_room_for_all_rows_those_around_the_current_one_remain_on_the_scale_of_all() -> None:
    rows = [IntervalRow(f"row {power}", 10.0**power, 10.0**power, 10.0**power, "x", is_current=power == 4)
            for power in range(6)]  # fmt: skip
    chart = IntervalChart()
    chart.most_rows = 3
    chart.draw(rows, DECADES)
    *shown_rows, axis = shown(chart)
    assert "▸ row 4" in shown_rows[1]
    assert [line.split("row ")[1][0] for line in shown_rows] == ["3", "4", "5"]
    assert axis.split() == ["1", "100000"]
