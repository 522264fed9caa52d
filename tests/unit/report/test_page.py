"""The HTML report: one file that loads nothing, says everything in text too, and tells what is wrong."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from benchmarks.support.browser import CHROMIUM, Browser, browser
from lab.experiments.schema import find_experiment
from lab.report.collected import MOST_DETAILED, Collected, Loaded, collect, loaded
from lab.report.page.blocks import (
    Block,
    Facts,
    Fold,
    Fragment,
    Lines,
    Marked,
    Page,
    PageGroup,
    PageSection,
    Plot,
    Remark,
    ShownTable,
    Stamp,
    Stamps,
    Verbatim,
    WarningBox,
    render_document,
    render_page,
)
from lab.report.page.build import html_report
from lab.report.page.plots import ratio_axis
from lab.results.record import MemberRates, ResultRecord, RunStatus, Stretch, Timeline, encode_timeline
from lab.results.store import FoundResult
from lab.tables import Column, Table
from tests.unit.compare.platform_records import HDD, SSD, machine
from tests.unit.report.records import load, repeated
from tests.unit.results.records import array, cell, rebuild, record, with_figures

FETCHING = {"src", "srcset", "href", "action", "data", "poster", "formaction", "background", "manifest", "ping"}


class Reader(HTMLParser):
    """Elements with their attributes, styles and scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def in_hand(*records: ResultRecord, files: dict[str, str] | None = None) -> Iterator[Loaded]:
    for each in records:
        yield loaded(FoundResult(each, each.id, lambda name: (files or {})[name]))


def page_of(*records: ResultRecord, files: dict[str, str] | None = None) -> str:
    return html_report(collect(in_hand(*records, files=files)))


def figures_in(page: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    figures: list[dict[str, Any]] = json.loads(found[1])
    return figures


def named(figures: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [trace for figure in figures for trace in figure["traces"] if trace.get("name") == name]


def speeds_in(page: str) -> list[dict[str, Any]]:
    return [figure for figure in figures_in(page) if "(IOPS)" in json.dumps(figure["layout"].get("xaxis", {}))]


@pytest.fixture(scope="module")
def antioquia() -> str:
    _, text = find_experiment("antioquia-quick")
    result = replace(load("antioquia-quick"), experiment_toml=text)
    return page_of(repeated(result, (1.02, 0.98, 1.01, 0.99, 1.0)))


def loading_nothing(page: str) -> Reader:
    """The elements of a page that loads nothing from anywhere."""
    read = Reader(page)
    asked = [value for _, attributes in read.elements for name, value in attributes.items() if name in FETCHING]
    assert all(value is not None and value.startswith(("#", "data:")) for value in asked), asked
    assert not re.search(r"@import|url\(", " ".join(read.texts["style"]))
    policies = [attributes["content"] or "" for tag, attributes in read.elements if attributes.get("http-equiv")]
    assert policies[0].startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policies[0]
    return read


def test_nothing_is_loaded_and_each_plot_has_a_text_alternative(antioquia: str) -> None:
    page = loading_nothing(antioquia)
    assert antioquia.count("plotly.js v") == 1
    canvases = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    assert len(canvases) == len(figures_in(antioquia)) >= 8
    assert all(len(each["aria-label"] or "") > 30 for each in canvases)


def test_findings_are_shown_with_published_theoretical_and_measured_values(antioquia: str) -> None:
    assert "RAID 5 writes at a third of the speed of RAID 0" in antioquia
    traces = {trace["name"]: trace for trace in figures_in(antioquia)[0]["traces"]}
    assert traces["published"]["x"] == [0.749, 0.54, 1.147, 0.326]
    assert len(traces["theory"]["x"]) >= 4
    assert re.search(r'class="verdict \w+"><span aria-hidden="true">[✓≈✗?–]</span> [a-z ]+<', antioquia)


def test_a_processor_bound_page_warns_first_and_draws_no_theory_of_drives(antioquia: str) -> None:
    assert antioquia.index("The processor of the embedded kernel limited these figures") < antioquia.index(
        'class="badges"'
    )
    assert speeds_in(antioquia)
    assert not named(speeds_in(antioquia), "theory")
    result = load("antioquia-quick")
    conditions = replace(result.conditions, is_embedded=False)
    text = find_experiment("antioquia-quick")[1]
    on_disks = page_of(replace(result, conditions=conditions, experiment_toml=text))
    assert "The processor of the embedded kernel limited these figures" not in on_disks
    assert named(speeds_in(on_disks), "theory")


ONE = cell("raid5", "x", 0, read_iops=10.0)
OFF_THEORY = tuple(cell("raid5", "x", n, read_iops=70.0 + n, predicted_iops=100.0) for n in range(2))
PLANNED = tuple(f"raid5/x/healthy/{n}" for n in range(40))


@pytest.mark.parametrize(
    ("result", "texts"),
    [
        (
            record(cells=OFF_THEORY, arrays=(array("raid5", "raid5", 3),)),
            ["off-theory: raid5: 0.70 [0.70–0.71] of theory; likely: "],
        ),
        (
            record(cells=(ONE,), stamps=("too-few-repeats: x: 1 repeat; needed: 6",)),
            ["<code>too-few-repeats</code>", "Instead:"],
        ),
        (
            record(cells=(ONE,), planned_cells=PLANNED[:2], status=RunStatus.INCOMPLETE),
            ["raid5/x/healthy/1: planned, not measured", "INCOMPLETE: 1 cells missing"],
        ),
        (
            record(cells=(ONE,), planned_cells=PLANNED),
            ["39 of 40 planned cells were not measured: raid5/x/healthy/1 and others"],
        ),
    ],
    ids=["off theory", "a stamp with its remedy", "a missing repeat", "an interrupted run"],
)
def test_what_is_wrong_with_a_result_is_explained(result: ResultRecord, texts: list[str]) -> None:
    page = page_of(result)
    assert [text for text in texts if text not in page] == []
    assert "healthy/30" not in page


def test_published_marks_are_ratios_scaled_by_the_local_measurement() -> None:
    result = repeated(load("antioquia-quick"), ())
    base = next(each for each in result.cells if each.array == "raid0" and each.figures.reads)
    assert base.figures.reads
    (marks,) = named(figures_in(page_of(result))[1:2], "published ratio")
    assert marks["x"] == [
        pytest.approx(0.749 * base.figures.reads.iops, rel=1e-3),
        pytest.approx(1.147 * base.figures.reads.iops, rel=1e-3),
    ]


def test_a_rebuild_is_drawn_on_a_time_axis() -> None:
    timeline = Timeline(
        seconds=(0.0, 1.0, 2.0),
        read_iops=(None, 100.0, 50.0),
        write_iops=(None, 0.0, 0.0),
        wait_seconds=(None, 0.01, 0.02),
        rebuilt_fraction=(None, 0.5, 1.0),
        busy_fraction=(None, 0.5, 0.5),
        members=(
            MemberRates(name="sda", read_bytes_per_second=(None, 1e6, 1e6), written_bytes_per_second=(None, 0, 0)),
        ),
        stretches=(Stretch(name="rebuilding", start_seconds=0.0, end_seconds=2.0),),
    )
    stored = replace(rebuild("raid1", 0, 2.0), timeline_file="raw/0000.json.gz")
    result = record(arrays=(array("raid1", "raid1", 2),), rebuilds=(stored,))
    figures = figures_in(page_of(result, files={"raw/0000.json.gz": encode_timeline(timeline)}))
    assert named(figures, "rebuilt")[0]["y"] == [None, 50.0, 100.0]
    assert [note["text"] for note in figures[-1]["layout"]["annotations"]] == ["rebuilding"]


def test_an_invalid_timeline_is_reported_and_the_rest_is_shown() -> None:
    stored = replace(rebuild("raid1", 0, 2.0), timeline_file="raw/0000.json.gz")
    page = page_of(record(rebuilds=(stored,)), files={"raw/0000.json.gz": "{"})
    assert "is not a timeline" in page
    assert "Rebuild time" in page


def test_arrays_that_differ_in_their_chunk_size_alone_are_a_sweep() -> None:
    swept = (replace(array(name, "raid0", 4), chunk_bytes=size) for name, size in (("a", 262144), ("b", 16384)))
    arrays = (*swept, array("c", "raid1", 2))
    cells = tuple(cell(name, "x", 0, read_iops=value) for name, value in (("a", 30.0), ("b", 20.0), ("c", 5.0)))
    (sweep,) = named(figures_in(page_of(record(arrays=arrays, cells=cells))), "raid0 of 4")
    assert (sweep["x"], sweep["y"]) == (["16 KiB", "256 KiB"], [20.0, 30.0])


def test_two_machines_are_compared_without_raw_figures() -> None:
    page = page_of(machine("a", HDD, HDD), machine("b", SSD, SSD, seed=1))
    assert "machines side by side" in page
    assert "What carries over" in page
    assert named(figures_in(page), "ssh:b, physical")


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_an_invalid_figure_is_left_out_and_named(bad: float) -> None:
    good = [cell("raid5", "x", repeat, read_iops=10.0) for repeat in range(2)]
    page = page_of(record(cells=(*good, with_figures(replace(good[0], repeat=2), iops=bad))))
    assert f"raid5/x/healthy/2: {bad:g} IOPS, left out" in page
    assert named(figures_in(page), "measured, median")[0]["x"] == [10.0]


def test_a_strangers_names_stay_text() -> None:
    evil = '</script><script>alert(1)</script><a href="https://x.example">'
    result = record(
        experiment=evil, arrays=(array(evil, "raid1", 2),), cells=(cell(evil, evil, 0, read_iops=1.0),), stamps=(evil,)
    )
    read = Reader(page_of(result))
    assert read.count("script") == 3
    assert not [
        value for _, attributes in read.elements for value in attributes.values() if value == "https://x.example"
    ]


def many(count: int) -> Collected:
    arrays = (array("single", "single", 1), array("raid0", "raid0", 4))

    def results() -> Iterator[Loaded | str]:
        for number in range(count):
            speeds = {"single": 100.0, "raid0": 300.0 + number}
            cells = [cell(name, "x", 0, read_iops=speed) for name, speed in speeds.items()]
            # Repeats without a speed do not count.
            cells += [
                with_figures(replace(each, repeat=1), iops=bad)
                for each, bad in zip(cells, (0.0, math.inf), strict=True)
            ]
            yield from in_hand(record(f"r{number:04d}", arrays=arrays, cells=cells))
        yield "'x.zip' was edited: the checksum is wrong"

    return collect(results())


def test_many_results_become_distributions() -> None:
    page = html_report(many(MOST_DETAILED + 9))
    (figure,) = figures_in(page)
    (box,) = figure["traces"]
    assert (box["lowerfence"], box["median"], box["upperfence"]) == ([3.0], [3.1], [3.2])
    assert "was edited" in page
    assert page.count("<tr>") > MOST_DETAILED + 9


def test_without_a_valid_figure_of_the_baseline_there_are_no_ratios() -> None:
    arrays = (array("single", "single", 1), array("raid0", "raid0", 4), array("raid5", "raid5", 4))

    def results() -> Iterator[Loaded | str]:
        for number in range(MOST_DETAILED + 1):
            cells = [cell(each.name, "x", 0, read_iops=100.0) for each in arrays]
            cells[0] = with_figures(cells[0], iops=0.0)
            yield from in_hand(record(f"r{number:04d}", arrays=arrays, cells=cells))

    assert not any(collect(results()).distributions.values())


def test_a_thousand_results_add_little_to_the_page() -> None:
    assert len(html_report(many(1000))) - len(html_report(many(20))) < 400 * 980


def test_results_of_one_experiment_have_distinct_titles() -> None:
    same = machine("a", HDD, HDD), machine("a", HDD, HDD, seed=1)
    later = replace(same[1], created_utc="2026-11-22T10:00:00Z")
    titles = re.findall(r'<h2 id="[^"]*-title">(.*?)</h2>', page_of(same[0], later))
    assert titles == ["x: runs side by side", "x: 2026-11-21T10:00:00Z", "x: 2026-11-22T10:00:00Z"]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [((0.98, 1.02), 0.5, 2), ((), 0.5, 2), ((0.3, 6.0), 0.2, 10), ((1.0, 40.0), 0.5, 50), ((math.nan, 0.0), 0.5, 2)],
)
def test_an_axis_of_ratios_has_three_ticks_and_room_for_all(values: tuple[float, ...], low: float, high: float) -> None:
    axis = ratio_axis("ratio", values)
    first, last = axis["range"]
    shown = [tick for tick in axis["tickvals"] if first <= math.log10(tick) <= last]
    assert (shown[0], shown[-1]) == (low, high)
    assert len(shown) >= 3
    assert all(first <= math.log10(value) <= last for value in values if value > 0)


COLUMNS = (Column("of", False), Column("n", unit="s", form=".1f"))
TABLE = Table("a table", COLUMNS, (("one", 1.0), ("two", None)), ("why",))


def blocks(folder: Path) -> tuple[Block, ...]:
    file = folder / "part.html"
    file.write_text("<i>a file of ours</i>")
    return (
        TABLE,
        ShownTable(TABLE, is_titled=False, css_class="findings", head_column=1),
        Plot("a plot", "what it shows", [{"y": [1]}]),
        Remark("a <remark>"),
        PageGroup("a group", "its note", tables=(TABLE,), warnings=("a warning",), remarks=("said",)),
        Lines(("first", "second", "third"), 2),
        Verbatim("as it <is>"),
        Stamps((Stamp("a-rule", "is broken", "because", "do this"),)),
        Facts((("kernel", "6.1"),)),
        Fold("more", (Remark("folded"),), is_open=True),
        WarningBox("it broke", (Verbatim("console"),)),
        Fragment(file),
    )


def test_each_kind_of_block_is_shown(tmp_path: Path) -> None:
    every = blocks(tmp_path)
    assert {type(each) for each in every} == set(get_args(Block))
    page = render_page(Page("T", "", (PageSection("s", "S", blocks=every),)))
    for text in ("a &lt;remark&gt;", "its note", "a warning", "and 1 more", "as it &lt;is&gt;", "<code>a-rule</code>"):
        assert text in page
    for text in ("<dt>kernel</dt>", "<summary>more</summary>", "folded", "<h3>it broke</h3>", "<i>a file of ours</i>"):
        assert text in page
    assert '<tr><th scope="row">two</th><td class="number">–</td></tr>' in page
    assert '<tr><td>two</td><th scope="row">–</th></tr>' in page
    assert page.count('<caption class="hidden">a table</caption>') == 1


def test_a_cell_may_have_a_sign_and_an_explanation() -> None:
    row = (Marked("the array <is>", why="since & so"), Marked("holds", sign="✓", css_class="verdict yes"))
    table = Table("T", (Column("says", False), Column("here", False)), (row,))
    assert table.as_text().splitlines()[-1] == "the array <is>  holds"
    page = render_page(Page("T", "", (PageSection("s", "S", blocks=(table,)),)))
    assert '<th scope="row">the array &lt;is&gt;<span class="why">since &amp; so</span></th>' in page
    assert '<td><span class="verdict yes"><span aria-hidden="true">✓</span> holds</span></td>' in page


def test_a_page_without_plots_has_no_plotly() -> None:
    page = render_page(Page("T", "", (PageSection("s", "S", blocks=(TABLE,)),)))
    assert Reader(page).count("script") == 1
    assert "beforeprint" in page
    assert len(page) < 20_000


def test_a_document_of_another_kind_has_the_same_policy() -> None:
    page = render_document("<p>x</p>", title="<T>", style="p { margin: 0 }", kind="keys")
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:" in page
    assert "<title>&lt;T&gt;</title>" in page
    assert '<body class="keys">\n<p>x</p>' in page


needs_browser = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("RAIDLAB_BROWSER"), reason="no Chromium here (apt install chromium)"
)
DRAWN = """(() => {
  const all = [...document.querySelectorAll(".canvas")], left = all.filter((one) => !one._fullLayout);
  if (left.length) Drawing.drawAll();
  return document.readyState === "complete" && !left.length;
})()"""
REFUSED_IMAGE = """new Promise((refused) => {
  const image = new Image();
  image.onerror = () => refused(true);
  image.src = "https://x.example/a.png";
})"""
PLOTS = "document.querySelectorAll('.canvas.js-plotly-plot').length"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def opened(chromium: Browser, page: Path, text: str) -> Browser:
    """A page with all its plots drawn."""
    chromium.complaints.clear()
    chromium.resize(1300, 1000)
    page.write_text(text, encoding="utf-8")
    chromium.open(page)
    chromium.until(f"location.href === '{page.as_uri()}' && typeof Drawing === 'object'")
    chromium.until(DRAWN)
    return chromium


@needs_browser
def test_every_plot_is_drawn_and_the_console_is_silent(chromium: Browser, tmp_path: Path) -> None:
    few = {"single": 100.0, "raid5": 290.0}
    text = page_of(load("antioquia-quick"), machine("a", few, few), machine("b", few, few, seed=1))
    opened(chromium, tmp_path / "report.html", text)
    assert chromium.evaluate(PLOTS) == len(figures_in(text)) > 10
    assert chromium.complaints == []
    # A page that loads something would be noticed.
    chromium.evaluate(REFUSED_IMAGE)
    assert chromium.complaints
