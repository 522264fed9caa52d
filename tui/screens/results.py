"""The Results screen: stored results as bars and tables, comparisons of two results, and export to files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import ScreenResume
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from lab.actions.action import Choice
from lab.errors import LabError, RequirementMissing
from lab.results.record import RunStatus
from tui.keys import CommandKey
from tui.mode import ModeScreen
from tui.result_views import summary_facts, summary_tone
from tui.widgets.lines import titled
from tui.widgets.result_panel import ResultPanel, ResultView
from tui.widgets.tiles import SyncBar, SyncView

if TYPE_CHECKING:
    from lab.results.record import ResultRecord
    from lab.results.store import ResultStore, ResultSummary
    from tui.state import LabState


class ExportKind(StrEnum):
    """The file formats for a result."""

    BUNDLE = "zip"
    """Everything, with fio's documents and checksums, as by ``raidlab export``; ``raidlab results import`` reads it."""
    HTML = "html"
    """As ``raidlab report``."""
    CSV = "csv"
    MARKDOWN = "md"
    JSON = "json"


def export(store: ResultStore, result_id: str, kind: ExportKind, folder: Path) -> Path:
    """Write one result to ``folder`` and return the file. Raises ResultError if it cannot be read or written.

    A report also raises RequirementMissing without the extra ``report``.
    """
    from lab.host.files import write_file
    from lab.plugins import extensions
    from lab.report.collected import collect, each_result
    from lab.report.tables import csv_of, render_result
    from lab.report.written import html_report
    from lab.results.extension import ResultFormat
    from lab.results.record import encode_record

    file = folder / f"{result_id}.{kind}"
    if kind is ExportKind.BUNDLE:
        bundles = next((each for each in extensions(ResultFormat) if each.suffix == file.suffix), None)
        if bundles is None:
            raise RequirementMissing("this raidlab has no plugin that makes bundles", hint="install the whole of it")
        bundles.write(store, [result_id], file)
        return file
    if kind is ExportKind.HTML:
        write_file(file, html_report(collect(each_result([result_id], store))).encode())
        return file
    record = store.load(result_id)
    if kind is ExportKind.JSON:
        data = encode_record(record)
    else:
        text = csv_of(record) if kind is ExportKind.CSV else render_result(record, is_markdown=True)
        data = f"{text.rstrip()}\n".encode()
    write_file(file, data)
    return file


_EMPTY = (
    "No results yet.\n\nAn experiment measures arrays several times and stores a result here, with the conditions "
    "under which it was measured. Press 3, choose one below 'Experiments', and press r. The shortest take a few "
    "minutes.\n\nResults of another computer come in with 'raidlab results import FILE'."
)
_EXPORTS = (
    Choice("zip", "Bundle (.zip)", "everything, with fio's documents and checksums", "z"),
    Choice("html", "Report (.html)", "plots and tables as one page, for a browser", "h"),
    Choice("csv", "CSV (.csv)", "the figures, for a spreadsheet", "c"),
    Choice("md", "Markdown (.md)", "the tables, for a document", "m"),
    Choice("json", "JSON (.json)", "the record, for a program", "j"),
)


class ResultsScreen(ModeScreen):
    """The Results screen, key 4."""

    CSS_PATH = "results.tcss"
    AREA = "Results"
    USES_LAB = False
    LESSON_FROM_CELLS = 160
    HELP = (
        "Every run of an experiment is kept with all its repeats and the conditions under which it was measured. "
        "The lighter end of a bar is the interval that covers the true median; a diamond is what theory said.\n\n"
        "Mark one result, then move to another: the two stand side by side, each figure as a ratio with its interval. "
        "Where an interval holds both a difference and none, nothing can be told, and the app says so."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "next_view", "View", id="results.view", tooltip="Bars, tables, conditions, or what the lint says"),
        Binding("right", "across(1)", "More columns", id="results.right", tooltip="The table's columns to the right"),
        Binding("left", "across(-1)", "Back", show=False, id="results.left", tooltip="Back to the first columns"),
        Binding("m", "mark", "Mark", id="results.mark", tooltip="Compare others with this result; again: no more"),
        CommandKey(
            "a",
            "allow",
            "Anyway",
            id="results.allow",
            tooltip="Compare two results though they are unlike",
            command="compare",
        ),
        CommandKey(
            "e",
            "export",
            "Export",
            id="results.export",
            tooltip="Write it to a file: bundle, report, CSV, Markdown, JSON",
            command="export",
        ),
        CommandKey(
            "r", "resume", "Resume", id="results.resume", tooltip="Go on with a result that broke off", command="run"
        ),
        CommandKey(
            "delete",
            "delete",
            "Delete",
            id="results.delete",
            tooltip="Delete this result for good, after asking",
            command="results delete",
        ),
        Binding("f5", "reload", "Reload", show=False, id="results.reload", tooltip="Look at the stored results anew"),
        Binding("tab", "app.focus_next", "Next panel", show=False, id="results.next", tooltip="List and result"),
        Binding("shift+tab", "app.focus_previous", "Back", show=False, id="results.previous", tooltip="And back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._summaries: tuple[ResultSummary, ...] | None = None
        self._shown: ResultSummary | None = None
        self._record: ResultRecord | None = None
        self._marked: ResultRecord | None = None
        self._allowed: set[frozenset[str]] = set()
        """Pairs of result ids that the user compares although their conditions differ."""
        self._had_run = False

    def body(self) -> ComposeResult:
        with Horizontal(id="results"):
            with Vertical(id="results-left"):
                yield titled(OptionList(id="results-list", markup=False), "Results")
                yield SyncBar(id="results-progress")
            yield ResultPanel(id="results-right")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def on_screen_resume(self, event: ScreenResume) -> None:  # type: ignore[override]
        """Read the results again: runs may have ended meanwhile."""
        self.call_after_refresh(self.action_reload)
        self.call_after_refresh(self._show_what_is_asked)

    def _show_what_is_asked(self) -> None:
        """Show the tables of the result from which the open lesson asks for a number."""
        asked, found = self.app.guide.result_to_read, self.query_one("#results-list", OptionList)
        ids = [each.id for each in self._summaries or ()]
        if asked in ids:
            self.query_one(ResultPanel).view = ResultView.TABLES
            found.highlighted = ids.index(asked)
            self._shown = next(each for each in self._summaries or () if each.id == asked)
            self._load()

    @property
    def _store(self) -> ResultStore:
        from lab.results.store import ResultStore

        return ResultStore(self.app.client.host.state.results)

    def show_state(self, state: LabState) -> None:
        asked = self._shown is not None and self._shown.id == self.app.guide.result_to_read
        self.set_class(asked and self.query_one(ResultPanel).view is ResultView.TABLES, "-asked")
        view = self.app.experiments.view
        runs = view is not None and view.is_running
        bar = self.query_one("#results-progress", SyncBar)
        bar.display = runs
        if view and runs:
            bar.show(SyncView(view.experiment, view.progress.fraction, eta_seconds=view.progress.left_seconds))
        if self._had_run and not runs:
            self.action_reload()
        self._had_run = runs

    def action_reload(self) -> None:
        summaries = self._store.list()
        if summaries == self._summaries:
            return
        self._summaries = summaries
        found = self.query_one(OptionList)
        kept = self._shown.id if self._shown else ""
        found.clear_options()
        found.add_options(Option(self._entry(each), id=each.id) for each in summaries)
        found.border_subtitle = f"{len(summaries)} stored" if summaries else ""
        ids = [each.id for each in summaries]
        if ids:
            found.highlighted = ids.index(kept) if kept in ids else 0
        else:
            self._shown = self._record = None
            self.query_one(ResultPanel).show_nothing(_EMPTY)

    def _entry(self, summary: ResultSummary) -> Content:
        tone, glyphs = summary_tone(summary), self.app.glyphs
        is_marked = self._marked is not None and summary.id == self._marked.id
        sign = (glyphs.chosen, "$text-accent") if is_marked else (tone.glyph(glyphs), tone.style)
        name = summary.experiment or summary.id
        return Content.assemble(sign, f" {name}\n  ", (summary_facts(summary), "$text-muted"))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        wanted = event.option.id
        self._shown = next((each for each in self._summaries or () if each.id == wanted), None)
        self._load()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_next_view()

    def _load(self) -> None:
        from lab.lint.result_checks import as_shown

        self._record = None
        if self._shown is None:
            return
        try:
            self._record = as_shown(self._store.load(self._shown.id))
        except LabError as error:
            self.query_one(ResultPanel).show_error(error)
        self._show()

    def _show(self) -> None:
        if self._record:
            is_allowed = self._pair in self._allowed
            self.query_one(ResultPanel).show(self._record, self._marked, is_allowed=is_allowed)
        self.update_from(self.app.lab)

    @property
    def _pair(self) -> frozenset[str]:
        return frozenset(each.id for each in (self._record, self._marked) if each)

    def action_view(self, name: str) -> None:
        """Show a view after a click on its name."""
        self.query_one(ResultPanel).show_view(ResultView(name))
        self.update_from(self.app.lab)

    def action_next_view(self) -> None:
        if self._record:
            self.query_one(ResultPanel).next_view()
            self.update_from(self.app.lab)
            # Whether a table fits is known only after its layout.
            self.call_after_refresh(self.app.show_soon)

    def action_across(self, steps: int) -> None:
        body = self.query_one("#results-body", VerticalScroll)
        body.scroll_relative(x=steps * max(1, body.size.width * 2 // 3), animate=False)

    def action_mark(self) -> None:
        is_marked = self._marked is not None and self._shown is not None and self._marked.id == self._shown.id
        self._marked = None if is_marked else self._record
        found = self.query_one(OptionList)
        for index, summary in enumerate(self._summaries or ()):
            found.replace_option_prompt_at_index(index, self._entry(summary))
        self._show()

    def action_allow(self) -> None:
        self._allowed.add(self._pair)
        self._show()

    def action_export(self) -> None:
        if self._shown is None:
            return
        self.app.pick(f"Write {self._shown.id} as", _EXPORTS, self._export, intro=f"The file appears in {Path.cwd()}.")

    def _export(self, kind: str) -> None:
        if self._shown is None:
            return
        try:
            file = export(self._store, self._shown.id, ExportKind(kind), Path.cwd())
        except LabError as error:
            self.app.show_error(error)
        else:
            self.notify(f"written: {file}", markup=False)

    def action_resume(self) -> None:
        if self._shown and not self.app.experiments.resume(self._shown):
            self.notify(f"'{self.app.lab.background}' still runs; wait for it, or end it.", markup=False)

    def action_delete(self) -> None:
        if self._shown is None:
            return
        choices = (
            Choice("keep", "Keep it", key="k"),
            Choice("delete", "Delete it", "with everything that was measured; this cannot be undone", "d"),
        )
        self.app.pick(f"Delete {self._shown.id} for good?", choices, self._delete)

    def _delete(self, answer: str) -> None:
        if answer != "delete" or self._shown is None:
            return
        try:
            deleted = self._store.delete(self._shown.id)
        except LabError as error:
            self.app.show_error(error)
            return
        if self._marked and self._marked.id == deleted:
            self._marked = None
        self.notify(f"deleted: {deleted}", markup=False)
        self.action_reload()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("mark", "export", "next_view"):
            return True if self._record else None
        if action == "across":
            return self._is_too_wide()
        if action == "delete":
            return True if self._shown and not self._is_growing else None
        if action == "allow":
            return self.query_one(ResultPanel).is_refused
        if action == "resume":
            return bool(self._shown and self._shown.status is RunStatus.INCOMPLETE and not self.app.lab.background)
        return True

    @property
    def _is_growing(self) -> bool:
        """Whether the shown result may be one that an experiment is writing."""
        view = self.app.experiments.view
        return bool(view and view.is_running and self._shown and self._shown.status is RunStatus.INCOMPLETE)

    def _is_too_wide(self) -> bool:
        """Whether the tables are wider than the panel."""
        panel = self.query_one(ResultPanel)
        return panel.view is ResultView.TABLES and self.query_one("#results-text").size.width > panel.size.width

    def hint(self, state: LabState) -> str | None:
        if not self._summaries:
            return "[b]3[/b] runs an experiment; its result is stored here."
        if self._shown and self._shown.status is RunStatus.INCOMPLETE and not state.background:
            return "It broke off: [b]r[/b] goes on where it stopped."
        if self._marked and len(self._pair) == 2:
            return "[b]v[/b] shows the second's bars and tables; [b]m[/b] marks this one instead."
        if self._marked:
            return "Move to another result to see the two side by side."
        if self._is_too_wide():
            return "[b]→[/b] shows more columns, [b]←[/b] goes back; [b]v[/b] shows conditions."
        return "[b]v[/b] shows tables and conditions; [b]m[/b] marks one to compare others with."
