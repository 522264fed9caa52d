"""The page of a sweep in a real browser, where there is one: charts, menus, the table, strangers' words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.browser import Browser
from lab.sweep.grid import SweepResult
from lab.sweep.report import sweep_page
from tests.unit.report.test_page import DRAWN, needs_browser, opened
from tests.unit.report.test_page import chromium as chromium
from tests.unit.sweep.made_sweeps import row, sweep
from tests.unit.sweep.test_sweep_page import EVIL

pytestmark = [pytest.mark.slow, needs_browser]
CELLS = """[...document.querySelectorAll("#cells-table tbody tr:not(.gap)")].map(
  (row) => [...row.children].map((cell) => cell.textContent))"""
BY_IOPS = """[...document.querySelectorAll("#cells-table thead button")]
  .find((one) => one.textContent.startsWith("IOPS")).click()"""


def shown(chromium: Browser, result: SweepResult, folder: Path) -> Browser:
    """A page with all its charts drawn."""
    opened(chromium, folder / "sweep.html", sweep_page(result))
    assert chromium.complaints == []
    return chromium


def known() -> SweepResult:
    """Speeds that identify their cell: 1000 × the level's number + 10 × the members + the depth."""
    rows = [
        row(
            f"raid{place}",
            1000.0 * (place + 1) + 10 * members + depth,
            members=members,
            queue_depth=depth,
            chunk_bytes=chunk if place else None,
            direction=direction,
            predicted_iops=1000.0 * (place + 1) + 10 * members + depth if place else 100.0,
        )
        for place in range(3)
        for members in (4, 8)
        for depth in (1, 2, 4)
        for chunk in ((4096, 65536) if place else (0,))
        for direction in ("read", "write")
    ]
    return sweep(rows)


def choose(chromium: Browser, form: str, label: str, text: str) -> None:
    """As a reader does in a menu."""
    made = f"""(() => {{
      const labels = [...document.querySelectorAll("#{form} label")];
      const found = labels.find((one) => one.firstChild.textContent === "{label}");
      const select = found.querySelector("select");
      select.value = [...select.options].find((one) => one.textContent === "{text}").value;
      select.dispatchEvent(new Event("change"));
      return true;
    }})()"""
    assert chromium.evaluate(made)


def facet(chromium: Browser, place: int) -> dict[str, Any]:
    """The lines of one small chart, by the words of their first point."""
    chromium.until(DRAWN)
    script = f"""(() => {{
      const box = document.querySelectorAll("#multiples-facets .facet")[{place}], canvas = box.querySelector(".canvas");
      return {{title: box.querySelector("h4").textContent, range: canvas._fullLayout.yaxis.range,
        lines: Object.fromEntries(canvas.data.map((one) => [one.customdata[0], [one.x, one.y]]))}};
    }})()"""
    found: dict[str, Any] = chromium.evaluate(script)
    return found


def test_small_charts_show_each_cell_where_it_belongs(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, known(), tmp_path)
    found = facet(chromium, 0)
    assert found["title"] == "chunk 4 KiB · 4 members"
    lines = {words.partition("</b>")[0]: line for words, line in found["lines"].items()}
    # Depths 1, 2, 4 as logarithms; RAID 0 here has no chunk and stands in every chart.
    assert lines == {
        "<b>raid0": [[0, 1, 2], [1041, 1042, 1044]],
        "<b>raid1": [[0, 1, 2], [2041, 2042, 2044]],
        "<b>raid2": [[0, 1, 2], [3041, 3042, 3044]],
    }
    assert facet(chromium, 3)["range"] == found["range"]
    assert "[1,031 – 1,051], n = 6" in next(iter(found["lines"]))


def test_menus_change_the_drawn_lines(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, known(), tmp_path)
    choose(chromium, "multiples-choices", "figure", "Measured ÷ theory")
    lines = {words.partition("</b>")[0]: line for words, line in facet(chromium, 0)["lines"].items()}
    assert lines["<b>raid0"][1] == pytest.approx([10.41, 10.42, 10.44])
    assert lines["<b>raid2"][1] == [1, 1, 1]
    # The axis that was along x takes the place of the new one.
    choose(chromium, "multiples-choices", "figure", "IOPS")
    choose(chromium, "multiples-choices", "along x", "members")
    found = facet(chromium, 0)
    assert found["title"] == "chunk 4 KiB · queue depth 1"
    assert [line for words, line in found["lines"].items() if "raid1" in words] == [[[2, 3], [2041, 2081]]]
    choose(chromium, "multiples-choices", "charts down", "none")
    choose(chromium, "multiples-choices", "chunk", "all: geometric mean")
    words = next(words for words in facet(chromium, 0)["lines"] if "raid1" in words)
    assert words.endswith("2,041 I/Os per second, geometric mean of 2 cells")
    assert chromium.complaints == []


def test_a_heat_map_shows_each_cell_where_it_belongs(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, known(), tmp_path)
    choose(chromium, "heat-choices", "across", "queue depth")
    choose(chromium, "heat-choices", "down", "level")
    choose(chromium, "heat-choices", "members", "8")
    text = 'document.getElementById("heat-canvas").data[0].text'
    assert chromium.evaluate(text) == [[f"{n},08{depth}" for depth in (1, 2, 4)] for n in (1, 2, 3)]
    says = 'document.getElementById("heat-says").textContent'
    assert chromium.evaluate(says).startswith("From 1,081 (queue depth 1, raid0) to 3,084 (queue depth 4, raid2)")
    chromium.evaluate('document.querySelector("#heat-pairs button").click()')
    assert chromium.evaluate('document.querySelector("#heat-pairs button").getAttribute("aria-pressed")') == "true"
    assert len(chromium.evaluate(text)) == 2


@pytest.mark.wide
@pytest.mark.parametrize(
    ("cells", "expected"), [(6, ""), (5, " 1 place without a cell."), (4, " 2 places without a cell.")]
)
def test_places_without_a_cell_are_counted(cells: int, expected: str, chromium: Browser, tmp_path: Path) -> None:
    places = [(level, members) for members in (4, 8) for level in ("raid1", "raid5", "raid6")]
    shown(chromium, sweep([row(level, members=members) for level, members in places[:cells]]), tmp_path)
    output = chromium.evaluate('document.getElementById("heat-says").textContent')
    assert output.endswith(f"colours by the logarithm.{expected}")


def test_cells_are_sorted_filtered_and_searched(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, known(), tmp_path)
    says = 'document.getElementById("cells-says").textContent'
    assert chromium.evaluate(says).startswith("60 of 60 figures.")
    chromium.evaluate(BY_IOPS)
    titles = chromium.evaluate(
        "[...document.querySelectorAll('#cells-table thead th')].map((one) => one.dataset.title)"
    )
    iops, level = titles.index("IOPS"), titles.index("level")
    assert [each[iops] for each in chromium.evaluate(CELLS)][:5] == ["3,084"] * 4 + ["3,082"]
    chromium.evaluate(BY_IOPS)
    assert chromium.evaluate(CELLS)[0][iops] == "1,041"
    choose(chromium, "cells-choices", "level", "raid1")
    assert {each[level] for each in chromium.evaluate(CELLS)} == {"raid1"}
    chromium.evaluate(
        "(() => { const box = document.querySelector('#cells-choices input[type=search]'); box.value = 'WRITE 2,042';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    assert chromium.evaluate(says).startswith("2 of 60 figures, by IOPS")
    choose(chromium, "cells-choices", "level", "all")
    chromium.evaluate("document.querySelector('#cells-choices input[type=search]').value = ''")
    chromium.evaluate("document.querySelector('#cells-choices input[type=search]').dispatchEvent(new Event('input'))")
    chromium.evaluate("document.querySelector('#cells-choices input[type=checkbox]').click()")
    assert {each[level] for each in chromium.evaluate(CELLS)} == {"raid0"}
    assert chromium.evaluate(says).startswith("12 of 60 figures")


def test_only_rows_in_sight_are_elements(chromium: Browser, tmp_path: Path) -> None:
    rows = [row(iops=float(n), members=n // 50, queue_depth=n % 50, cell=f"{n:012d}") for n in range(1, 1001)]
    shown(chromium, sweep(rows), tmp_path)
    assert len(chromium.evaluate(CELLS)) < 80
    chromium.evaluate("document.getElementById('cells-window').scrollTop = 1e9")
    chromium.until(f"{CELLS}.some((row) => row[0] === '{1000:012d}')")
    assert len(chromium.evaluate(CELLS)) < 80
    # The last row is in the window, not below it.
    place = "((at) => at.bottom)(document.{}.getBoundingClientRect())"
    last = place.format("querySelector('#cells-table tbody tr:nth-last-child(2)')")
    assert chromium.evaluate(last) <= chromium.evaluate(place.format("getElementById('cells-window')")) + 1


def test_colours_follow_the_computer(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, sweep([row(level) for level in ("raid0", "raid5")]), tmp_path)
    colour = 'document.querySelector("#multiples-facets .canvas")._fullLayout.font.color'
    assert chromium.evaluate(colour) == "#1c2128"
    chromium.resize(1300, 1000, is_dark=True)
    chromium.until(f'{colour} === "#e6edf3"')


def test_a_workload_that_only_writes_is_shown_when_chosen(chromium: Browser, tmp_path: Path) -> None:
    rows = [
        row("raid0", 100.0 * members, members=members, workload=way, direction=way)
        for members in (4, 8)
        for way in ("read", "write")
    ]
    shown(chromium, sweep(rows), tmp_path)
    choose(chromium, "multiples-choices", "lines", "none")
    choose(chromium, "multiples-choices", "charts across", "none")
    choose(chromium, "multiples-choices", "charts down", "none")
    choose(chromium, "multiples-choices", "workload", "write")
    says = 'document.getElementById("multiples-says").textContent'
    assert chromium.evaluate(says).startswith("IOPS of writes; write. From 400 to 800")
    choose(chromium, "multiples-choices", "direction", "reads")
    assert chromium.evaluate(says).startswith("IOPS of reads; read. From 400 to 800")


def test_a_strangers_words_run_nothing(chromium: Browser, tmp_path: Path) -> None:
    rows = [
        row(EVIL + level, 10.0 * n, drive=f"<img src=x onerror=alert(1)>{n}", members=n, computer=EVIL, workload=EVIL)
        for level in ("@c1", "%{y}")
        for n in (4, 8)
    ]
    shown(chromium, sweep(rows), tmp_path)
    assert chromium.evaluate('document.querySelectorAll("main script, main a, main img").length') == 0
    # Plotly draws the labels and the words of points, and turns some HTML into links.
    found = chromium.evaluate("""[...document.querySelectorAll(".canvas")].map((one) => [
      one.data.map((each) => each.customdata), one.layout.xaxis.ticktext, one.layout.yaxis.ticktext])""")
    flat = str(found)
    assert "&lt;script&gt;" in flat
    assert not any(tag in flat for tag in ("<script", "<a ", "<img"))
    assert EVIL + "@c1" in chromium.evaluate('document.getElementById("multiples-key").textContent')


@pytest.mark.wide
@pytest.mark.parametrize(
    "result",
    [
        sweep([]),
        sweep([row()]),
        sweep([row("raid0"), row("raid5")]),
        sweep([row(workload="a"), row(workload="b", direction="write")]),
        sweep([row("raid0", 5.0), row("raid1", 5.0, chunk_bytes=None), row("raid0", 5.0, chunk_bytes=4096)]),
        sweep([row(level, members=n) for level in ("a", "b") for n in (4, 8)]),
    ],
    ids=["empty", "one cell", "one axis", "workloads", "no chunk", "equal speeds"],
)
def test_small_sweeps_are_drawn_too(chromium: Browser, result: SweepResult, tmp_path: Path) -> None:
    shown(chromium, result, tmp_path)
    assert len(chromium.evaluate(CELLS)) == len(result.rows)
