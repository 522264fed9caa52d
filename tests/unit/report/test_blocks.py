"""Pages are made of blocks: each kind is shown, and whatever is said in it stays text."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

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
from lab.tables import Column, Table
from tests.unit.report.test_page import Reader

COLUMNS = (Column("of", False), Column("n", unit="s", form=".1f"))
TABLE = Table("a table", COLUMNS, (("one", 1.0), ("two", None)), ("why",))


def blocks(folder: Path) -> tuple[Block, ...]:
    file = folder / "part.html"
    file.write_text("<i>a file of ours</i>")
    return (
        TABLE,
        ShownTable(TABLE, is_titled=False, look="findings", head_column=1),
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
    row = (Marked("the array <is>", why="since & so"), Marked("holds", sign="✓", look="verdict yes"))
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
