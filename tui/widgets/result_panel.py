"""A stored result in several views, or the comparison of two results."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from lab.errors import SpecError
from tui.look import Tone
from tui.result_views import (
    comparison_notes,
    comparison_verdict,
    condition_lines,
    iops_bars,
    lint_lines,
    ratio_rows,
)
from tui.widgets.interval_charts import BarChart, RatioChart
from tui.widgets.tiles import VerdictBanner

if TYPE_CHECKING:
    from lab.compare.cells import Comparison
    from lab.errors import LabError
    from lab.results.record import ResultRecord


class ResultView(StrEnum):
    """The views of a result."""

    COMPARE = "Compare"
    BARS = "Bars"
    TABLES = "Tables"
    CONDITIONS = "Conditions"
    LINT = "Lint"


class ResultPanel(Vertical):
    """Shows a result; it reads no files."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (textual's name)
        super().__init__(id=id)
        self.view = ResultView.BARS
        self.is_refused = False
        """Whether the comparison is refused, because the conditions differ and the user has not allowed it."""
        self._record: ResultRecord | None = None
        self._other: ResultRecord | None = None
        """The marked result, which is the first of a comparison."""
        self._is_allowed = False
        self._comparisons: dict[tuple[str, str], Comparison | SpecError | None] = {}
        """(first id, second id) -> comparison or error; None while it is computed."""

    def compose(self) -> ComposeResult:
        yield Static(id="results-views")
        with VerticalScroll(id="results-body"):
            yield VerdictBanner(id="results-verdict")
            yield Static(id="results-heading", markup=False)
            yield RatioChart(id="results-ratios")
            yield BarChart(id="results-bars")
            yield Static(id="results-text", markup=False)

    @property
    def views(self) -> tuple[ResultView, ...]:
        """The views that are available."""
        return tuple(view for view in ResultView if view is not ResultView.COMPARE or self._other)

    def show(self, record: ResultRecord, marked: ResultRecord | None, *, is_allowed: bool) -> None:
        """Show a result, compared with ``marked`` if that is another one; ``is_allowed``: even if conditions differ."""
        is_other = record is not self._record
        self._record, self._is_allowed = record, is_allowed
        had_other, self._other = self._other is not None, None if marked and marked.id == record.id else marked
        if self._other and not had_other:
            self.view = ResultView.COMPARE
        elif self.view not in self.views:
            self.view = ResultView.BARS
        if is_other:
            self.query_one("#results-body").scroll_home(animate=False)
        self._paint()

    def show_view(self, view: ResultView) -> None:
        """Show another view of the result, if it is available."""
        if view in self.views:
            self.view = view
            self.query_one("#results-body").scroll_home(animate=False)
            self._paint()

    def next_view(self) -> None:
        """Show the next view, cyclically."""
        self.show_view(self.views[(self.views.index(self.view) + 1) % len(self.views)])

    def show_error(self, error: LabError) -> None:
        """Show that the result cannot be read."""
        self.show_nothing(error.hint)
        self.query_one(VerdictBanner).show(Tone.BAD, "CANNOT BE SHOWN", error.message)

    def show_nothing(self, text: str) -> None:
        """Show a text in place of a result."""
        self._record = self._other = None
        self._clear()
        self.query_one("#results-views", Static).update("")
        self.query_one("#results-heading", Static).update(text)

    def _clear(self) -> None:
        self.is_refused = False
        self.set_class(self.view is ResultView.TABLES, "-wide-text")
        self.query_one(VerdictBanner).clear()
        self.query_one(BarChart).show(())
        self.query_one(RatioChart).show(())
        self.query_one("#results-text", Static).update("")

    def on_resize(self) -> None:
        # The number of columns of a table depends on the width.
        if self.view is ResultView.TABLES:
            self._paint()

    def _paint(self) -> None:
        if self._record is None:
            return
        self._clear()
        self._paint_tabs()
        heading, text = self.query_one("#results-heading", Static), self.query_one("#results-text", Static)
        record = self._record
        heading.update(_heading(record))
        if self.view is ResultView.COMPARE and self._other:
            self._paint_comparison(self._other, record)
            return
        from lab.report.tables import foremost, tables_of

        if self.view in (ResultView.BARS, ResultView.TABLES) and (said := foremost(record)):
            self.query_one("#results-verdict", VerdictBanner).show(Tone.NOTICE, "PROCESSOR-BOUND", said)
        if self.view is ResultView.BARS:
            self.query_one(BarChart).show(iops_bars(record))
            text.update(_bars_legend(record, self))
        elif self.view is ResultView.TABLES:
            width = self.query_one("#results-body").size.width or self.size.width
            text.update("\n\n".join(table.within(width).as_text() for table in tables_of(record)))
        else:
            text.update("\n".join((lint_lines if self.view is ResultView.LINT else condition_lines)(record)))

    def _paint_tabs(self) -> None:
        parts = []
        for view in self.views:
            style = (
                "bold $block-cursor-foreground on $block-cursor-background" if view is self.view else "$text-secondary"
            )
            parts.append(Content.from_markup(f"[@click=screen.view('{view.value}')][{style}] {view.value} [/][/]"))
        self.query_one("#results-views", Static).update(Content.assemble(*parts))

    def _paint_comparison(self, first: ResultRecord, second: ResultRecord) -> None:
        from lab.compare.cells import differences

        verdict, text = self.query_one("#results-verdict", VerdictBanner), self.query_one("#results-text", Static)
        self.query_one("#results-heading", Static).update(f"first   {first.id} (marked)\nsecond  {second.id}")
        unlike = differences(first, second)
        self.is_refused = bool(unlike) and not self._is_allowed
        lines = [f"Difference: {each.sentence} ({each.condition})" for each in unlike]
        if self.is_refused:
            sentence = "They were not measured under equal conditions: a ratio would say nothing. 'a' compares anyway."
            verdict.show(Tone.NOTICE, "NOT ALIKE", sentence)
            text.update("\n".join(lines))
            return
        found = self._comparison(first, second)
        if found is None:
            verdict.show(Tone.BUSY, "COMPARING")
        elif isinstance(found, SpecError):
            verdict.show(Tone.NOTICE, "NOTHING IN COMMON", f"{found.message}. {found.hint}.")
            text.update("\n".join(lines))
        else:
            verdict.show(*comparison_verdict(found))
            self.query_one(RatioChart).show(ratio_rows(found))
            explained = "Ratios are second : first. Of IOPS more is better, of rebuilds less."
            text.update("\n".join((explained, *comparison_notes(found), *lines)))

    def _comparison(self, first: ResultRecord, second: ResultRecord) -> Comparison | SpecError | None:
        """The comparison, if it is computed; else None, and a thread computes it."""
        key = (first.id, second.id)
        if key not in self._comparisons:
            self._comparisons[key] = None
            # Loading the library for rank tests takes a second.
            self.run_worker(lambda: self._compare(first, second), thread=True, group="compare", exit_on_error=False)
        return self._comparisons[key]

    def _compare(self, first: ResultRecord, second: ResultRecord) -> None:
        from lab.compare.cells import compare

        found: Comparison | SpecError
        try:
            found = compare(first, second)
        except SpecError as error:
            found = error
        self._comparisons[(first.id, second.id)] = found
        self.app.call_from_thread(self._paint)


def _heading(record: ResultRecord) -> str:
    from lab.report.tables import heading

    return heading(record).replace(": ", "\n", 1)


def _bars_legend(record: ResultRecord, panel: ResultPanel) -> str:
    from lab.report.cells import theory_notes
    from tui.look import glyphs_of

    glyphs = glyphs_of(panel)
    parts = [f"{glyphs.bar_loose} interval of the median"]
    if any(cell.predicted_iops for cell in record.cells) or any(each.predicted_seconds for each in record.rebuilds):
        parts.append(f"{glyphs.expected} what theory says")
    lines = ["   ".join(parts), *(f"{glyphs.notice} {note}" for note in theory_notes(record))]
    if record.stamps:
        counted = "1 caution" if len(record.stamps) == 1 else f"{len(record.stamps)} cautions"
        lines += ["", f"{glyphs.notice} {counted}: see Lint (v)"]
    return "\n".join(lines)
