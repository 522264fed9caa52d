from __future__ import annotations

import pytest

from tests.tui.widgets.host import shown
from tui.look import ASCII, UNICODE, Glyphs, Tone
from tui.widgets.interval_charts import Bar, BarChart, IntervalRow, RatioChart

pytestmark = pytest.mark.tui


def bars(*bars: Bar, width: int = 60, height: int = 8, glyphs: Glyphs = UNICODE) -> list[str]:
    chart = BarChart()
    chart.show(bars)
    return [line for line in shown(chart, (width, height), glyphs=glyphs) if line]


def ratios(*rows: IntervalRow, width: int = 60, glyphs: Glyphs = UNICODE) -> list[str]:
    chart = RatioChart()
    chart.show(rows)
    return [line for line in shown(chart, (width, 8), glyphs=glyphs) if line]


def test_bars_of_a_group_share_a_scale() -> None:
    title, one, other = bars(
        Bar("raid0", 100, 100, 100, "100", group="reads"), Bar("raid1", 50, 50, 50, "50", group="reads")
    )
    assert title == "reads"
    assert other.count("█") == pytest.approx(one.count("█") / 2, abs=1)
    assert one.endswith("100")


def test_bars_of_other_groups_have_a_scale_of_their_own() -> None:
    lines = bars(Bar("a", 1000, 1000, 1000, "1000", group="one"), Bar("a", 1, 1, 1, "   1", group="two"))
    assert lines[1].count("█") == lines[3].count("█")


def test_a_bar_ends_in_its_interval_and_theory_has_a_sign_of_its_own() -> None:
    (line,) = bars(Bar("a", 100, 50, 150, "100", expected=75))
    solid, loose = line.count("█"), line.count("▒")
    assert solid + 1 == pytest.approx(50 / 150 * (60 - 6), abs=2)
    assert loose > 0
    assert line.index("◆") < line.rindex("▒")


def test_a_bar_chart_in_a_narrow_place_keeps_the_figures() -> None:
    (line,) = bars(Bar("raid5 degraded", 100, 90, 110, "100 [90–110]"), width=24)
    assert line.endswith("100 [90–110]")


def test_a_zero_among_zeros_is_drawn_as_nothing() -> None:
    (line,) = bars(Bar("a", 0, 0, 0, "0"))
    assert "█" not in line


def test_a_ratio_stands_on_its_side_of_one() -> None:
    faster, slower, axis = ratios(
        IntervalRow("a", 2.0, 1.5, 2.5, "2.00", Tone.GOOD), IntervalRow("b", 0.5, 0.4, 0.6, "0.50", Tone.BAD)
    )
    one = axis.index("1")
    assert faster.index("●") > one > slower.index("●")
    assert faster[one] == "│"


def test_a_ratio_in_a_narrow_place_keeps_its_words() -> None:
    line, *_ = ratios(IntervalRow("raid5 rand-read-4k read", 2.0, 1.9, 2.1, "2.00 × [1.90–2.10] cannot tell"), width=43)
    assert line.endswith("2.00 × [1.90–2.10] cannot tell")


def test_an_interval_over_one_crosses_the_line() -> None:
    line, axis = ratios(IntervalRow("a", 1.1, 0.8, 1.4, "1.10"))
    assert line[axis.index("1")] == "─"


def test_ratios_off_the_scale_stay_at_its_edge() -> None:
    line, axis = ratios(IntervalRow("a", 900.0, 800.0, 1000.0, "900"))
    assert line.index("●") == len(axis) - 1


def test_a_ratio_that_means_nothing_has_no_dot() -> None:
    line, _ = ratios(IntervalRow("a", None, 1.0, 1.0, "cannot tell"))
    assert "●" not in line


def test_both_know_terminals_without_unicode() -> None:
    lines = bars(Bar("a", 100, 50, 150, "100", expected=75), glyphs=ASCII)
    lines += ratios(IntervalRow("a", 1.1, 0.8, 1.4, "1.10 ×"), glyphs=ASCII)
    assert all(line.isascii() for line in lines)
