"""The page of a sweep as HTML: escaped, without a network, figures stored once, usable whatever is missing."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

import pytest

from benchmarks.support.sweep import made_sweep
from lab.errors import RequirementMissing
from lab.sweep.grid import FailedCell, SweepGrid, SweepResult, sensitivities
from lab.sweep.report import page_data, sensitivity_plot, sweep_page
from tests.unit.report.test_page import Reader, loading_nothing
from tests.unit.sweep.made_sweeps import row, sweep

EVIL = '</script><script>alert(1)</script><a href="https://x.example" onclick="x">{{ 7 * 7 }}&@c1'
LEVELS = ("raid0", "raid5")


def failed(number: int, message: str = "it broke", console: str = "panic") -> FailedCell:
    return FailedCell(cell=f"f{number}", label=f"raid5, {number} members", message=message, console=console)


def data_in(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def sections(page: str) -> list[str]:
    return re.findall(r'<section (?:class="result" )?id="([a-z]+)"', page)


def test_nothing_is_loaded_from_elsewhere_and_figures_are_stored_once() -> None:
    rows = [row(level, 1234567.0, members=n) for level in LEVELS for n in (4, 8)]
    rows.append(row(members=8, queue_depth=9, p99_seconds=math.nan, mean_seconds=math.inf, predicted_iops=None))
    page = sweep_page(sweep(rows))
    loading_nothing(page)
    data = data_in(page)
    assert data["iops"][:4] == [1235000] * 4
    assert [data[name][4] for name in ("p99", "mean", "predicted")] == [None] * 3
    json.dumps(data, allow_nan=False)


def test_every_link_of_the_head_leads_to_a_section() -> None:
    page = sweep_page(made_small(failed=(failed(1),)))
    links = re.findall(r'<li><a href="#([a-z]+)">', page)
    assert (
        links
        == sections(page)
        == ["multiples", "heat", "extremes", "surprises", "sensitivity", "failed", "cells", "stamps", "conditions"]
    )


def made_small(**changed: Any) -> SweepResult:
    rows = [
        row(level, 100.0 * n, members=n, predicted_iops=99.0 * n, stamps="a-rule: said\nother: thing")
        for level in LEVELS
        for n in (4, 8)
    ]
    return sweep(rows, **changed)


def test_a_strangers_words_stay_text() -> None:
    rows = [
        row(EVIL + str(n), 10.0 * n, drive=EVIL, workload=EVIL, computer=EVIL, kernel=EVIL, stamps=EVIL, members=n)
        for n in (4, 8)
    ]
    result = sweep(
        rows,
        axes={EVIL: ("a", "b")},
        failed=(FailedCell(cell="c", label=EVIL, message=EVIL, console=EVIL + "\x1b[31m"),),
        **dict.fromkeys(("id", "title", "question", "created_utc", "toml"), EVIL),
    )
    page = sweep_page(result)
    read = Reader(page)
    # Columns, plots, Plotly and our own.
    assert read.count("script") == 4
    links = [value for _, attributes in read.elements for name, value in attributes.items() if name == "href"]
    assert "https://x.example" not in links
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert "49" not in "".join(read.texts["h1"])
    assert "\x1b" not in page


def badges(result: SweepResult) -> list[str]:
    shown = sweep_page(result).partition('<ul class="badges">')[2].partition("</ul>")[0]
    return re.findall(r"<li>([^<]*)</li>", shown)


def test_counts_and_how_it_was_measured() -> None:
    rows = [row("raid0"), row(cell="c", computer="node2"), row(cell="c", direction="write")]
    assert badges(sweep(rows, failed=[failed(1)], planned=10)) == [
        "10 cells planned, 2 measured, 1 failed, 7 not yet measured",
        *("3 figures", "virtual time", "2 computers", "6 repeats"),
    ]
    one = ["1 cell planned, 1 measured, 0 failed", "1 figure", "virtual time", "1 computer", "1 repeat"]
    assert badges(sweep([row(repeats=1)])) == one


def test_several_computers_by_the_clock_are_a_warning() -> None:
    rows = [row(level, computer=level, is_virtual_time=False) for level in LEVELS]
    assert "2 computers measured in real time" in sweep_page(sweep(rows))
    assert "measured in real time" not in sweep_page(sweep([row("raid0"), row("raid5", computer="b")]))


def test_failures_are_grouped_by_message_with_truncated_consoles() -> None:
    many = [failed(n, "lost", "x" * 5000 + "END") for n in range(60)]
    page = sweep_page(sweep([row()], failed=[*many, failed(99, "<other>", "")]))
    titles = re.findall(r"<h3>(.*?)</h3>", page.partition('id="failed"')[2].partition('id="cells"')[0])
    assert titles == ["lost", "&lt;other&gt;"]
    consoles = re.findall(r'<pre class="console" tabindex="0">(.*?)</pre>', page, re.DOTALL)
    assert len(consoles) == 50
    assert {len(each) for each in consoles} == {4000}
    assert consoles[0].endswith("END")


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (sweep([]), ["conditions"]),
        (sweep([], failed=[failed(1)]), ["failed", "conditions"]),
        (sweep([row()]), ["extremes", "cells", "conditions"]),
        (sweep([row(level) for level in LEVELS]), ["multiples", "extremes", "sensitivity", "cells", "conditions"]),
        (sweep([row(iops=math.nan)]), ["conditions"]),
    ],
    ids=["empty", "all failed", "one cell", "one axis", "no figure"],
)
def test_sections_without_data_are_not_shown(result: SweepResult, shown: list[str]) -> None:
    page = sweep_page(result)
    assert sections(page) == shown
    assert not {"nan", "inf", "None"} & set(" ".join(Reader(page).texts.get("td", [])).split())


def test_each_axis_is_a_part_of_each_bar_of_shares() -> None:
    # Level and members multiply, so that their shares add up to all.
    rows = [row(level, speed * n, members=n) for level, speed in (("<raid0>", 8.0), ("raid5", 1.0)) for n in (1, 2)]
    grid = SweepGrid(sweep([*rows, row("raid5", workload="other")]))
    plot = sensitivity_plot(grid)
    titles, bars = plot.layout["yaxis"]["ticktext"], {trace["name"]: trace["x"] for trace in plot.traces}
    (place,) = [place for place, title in enumerate(titles) if title == "rand-read-4k, reads"]
    assert [bars[name][place] for name in ("level", "members")] == [90.0, 10.0]
    assert list(bars) == [axis.title for axis in grid.axes]
    assert titles[::-1] == [each.title for each in sensitivities(grid)]
    assert plot.layout["xaxis"]["range"] == [0, 101.0]


def test_the_axes_that_explain_most_are_the_first_map() -> None:
    rows = [
        row(level, speed * members**2 * (1 + depth / 100), members=members, queue_depth=depth)
        for level, speed in (("raid0", 10.0), ("raid5", 1.0))
        for members in (4, 6, 8)
        for depth in (1, 2)
    ]
    # By their variances in logarithms: level 1.33, members 0.33, queue depth almost none. More values stand across.
    assert page_data(SweepGrid(sweep(rows)))["pairs"][0] == ["members", "level"]


def test_stamps_are_counted_by_cell() -> None:
    rows = [
        row(level, direction=way, cell=level, stamps="slow\nodd" if level == "raid0" else "odd")
        for level in LEVELS
        for way in ("read", "write")
    ]
    page = sweep_page(sweep(rows))
    stamps = re.findall(r"<dt>(.*?)</dt>", page.partition('id="stamps"')[2])[:2]
    assert stamps == ["odd (2 of 2 cells)", "slow (1 of 2 cells)"]


def test_five_thousand_cells_are_a_small_file() -> None:
    page = sweep_page(made_sweep())
    assert len(page.encode()) < 7_000_000
    assert page.count("<tr>") < 500


def test_a_page_without_charts_has_no_plotly() -> None:
    assert "plotly.js v" not in sweep_page(sweep([row()]))
    assert sweep_page(sweep([row(level) for level in LEVELS])).count("plotly.js v") == 1


def test_without_plotly_a_missing_requirement_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(RequirementMissing):
        sweep_page(sweep([row(level) for level in LEVELS]))
