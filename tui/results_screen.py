"""The Results screen, with stored results as bars and tables, comparisons of two results, and export to files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lab.actions.action import Choice
from lab.compare import Compared, Comparison, compare, differences
from lab.errors import LabError, RequirementMissing, SpecError
from lab.host.files import write_file
from lab.lint.experiment_checks import IDLE, as_shown, beside_theory, lint_result, rebuilds_beside_theory
from lab.lint.rules import all_rules
from lab.machine.target import target_words
from lab.plugins import extensions
from lab.report.tables import (
    OFF_THEORY,
    csv_of,
    foremost,
    heading,
    interval_text,
    render_result,
    tables_of,
    theory_notes,
)
from lab.results.record import Conditions, ResultRecord, RunStatus, encode_record
from lab.results.rows import READ, Row, rows
from lab.results.statistics import estimate
from lab.results.store import ResultFormat, ResultStore, ResultSummary
from lab.units import counted, human_bytes, human_seconds
from tui.charts import BARS, RATIOS, IntervalChart, IntervalRow
from tui.keys import command_key
from tui.look import Tone
from tui.mode import ModeScreen
from tui.state import LabState
from tui.widgets import SyncBar, SyncView, VerdictBanner, error_sentence, titled

_TONES = {"faster": Tone.GOOD, "slower": Tone.BAD, "the same": Tone.BUSY}


def summary_facts(summary: ResultSummary) -> str:
    """Return the date, the number of measurements and the machine of a result."""
    if summary.problem:
        return "damaged"
    where = target_words(summary.target, is_short=True)
    return f"{_short_date(summary.created_utc)}  {summary.measured_count} of {summary.planned_count}  {where}"


def _short_date(created_utc: str) -> str:
    """Return a date such as ``21 Nov 10:01``."""
    try:
        return f"{datetime.fromisoformat(created_utc):%d %b %H:%M}"
    except ValueError:
        return created_utc


def iops_bars(record: ResultRecord) -> tuple[IntervalRow, ...]:
    """Return the IOPS of every array by workload, with reads and writes side by side, and then the rebuilds."""
    found = sorted(rows(record), key=lambda row: row.workload)
    off = {(each.array, each.workload, each.phase) for each in beside_theory(record) if each.is_off}
    bars = (_bar(row, found, is_off=(row.array, row.workload, row.phase) in off) for row in found)
    slow = {(each.array, each.phase) for each in rebuilds_beside_theory(record) if each.is_off}
    return (*bars, *_rebuild_bars(record, slow))


def _bar(row: Row, all_rows: list[Row], *, is_off: bool) -> IntervalRow:
    iops = row.iops
    has_phases = len({each.phase for each in all_rows}) > 1
    has_both = len({each.direction for each in all_rows if each.workload == row.workload}) > 1
    return IntervalRow(
        label=row.array + (f" {row.phase}" if has_phases else "") + (f" {row.direction}s" if has_both else ""),
        value=iops.median,
        low=iops.low,
        high=iops.high,
        text=interval_text(iops) + (f" {OFF_THEORY}" if is_off else ""),
        colour=0 if row.direction == READ else 1,
        expected=row.predicted_iops,
        group=f"{row.workload}, IOPS",
    )


def _rebuild_bars(record: ResultRecord, off: Collection[tuple[str, str]]) -> Iterator[IntervalRow]:
    groups = dict.fromkeys((each.array, each.under_workload) for each in record.rebuilds)
    for array, under in groups:
        found = [each for each in record.rebuilds if (each.array, each.under_workload) == (array, under)]
        seconds = estimate([each.rebuild_seconds for each in found])
        yield IntervalRow(
            label=array + (f" under {under}" if under else ""),
            value=seconds.median,
            low=seconds.low,
            high=seconds.high,
            text=f"{interval_text(seconds, digits=1)} s" + (f" {OFF_THEORY}" if (array, under or IDLE) in off else ""),
            expected=found[0].predicted_seconds,
            group="rebuild, seconds (less is better)",
        )


def ratio_rows(comparison: Comparison) -> tuple[IntervalRow, ...]:
    """Return a row for each figure that both results contain, sorted by workload, phase and array."""
    found = sorted(comparison.rows, key=lambda each: (each.workload, each.phase, each.array))
    return tuple(_ratio_row(each) for each in found)


def _ratio_row(each: Compared) -> IntervalRow:
    tone = _TONES.get(each.outcome.value, Tone.QUIET)
    phase = "" if each.phase in ("healthy", "rebuilding") else f" {each.phase}"
    label = f"{each.array} {each.workload}{phase}" + (f" {each.figure.split()[0]}" if "IOPS" in each.figure else "")
    if each.ratio is None:
        return IntervalRow(label, None, 1.0, 1.0, each.outcome.value, tone)
    ratio = each.ratio
    # There is no interval if there are too few repeats.
    low, high = (ratio.low, ratio.high) if ratio.has_enough else (ratio.median, ratio.median)
    interval = f" [{low:.2f}–{high:.2f}]" if low < high else ""
    text = f"{ratio.median:.2f} ×{interval} {each.outcome.value:<11}"
    return IntervalRow(label, ratio.median, low, high, text, tone)


def comparison_verdict(comparison: Comparison) -> tuple[Tone, str, str]:
    """Return (tone, verdict, sentence). The sentence counts the faster, slower, equal and undecided figures."""
    counts = Counter(row.outcome.value for row in comparison.rows)
    summary = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    decided = [word for word in ("faster", "slower") if counts[word]]
    sentence = f"{counted(len(comparison.rows), 'figure')} of the second result: {summary}."
    if len(decided) == 1:
        return _TONES[decided[0]], decided[0].upper(), sentence
    if decided:
        return Tone.NOTICE, "MIXED", sentence
    if counts["the same"] == len(comparison.rows):
        return Tone.BUSY, "THE SAME", sentence
    return Tone.QUIET, "UNDECIDED", sentence


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return the reasons for undecided figures, and the cells that only one of the results contains."""
    reasons = Counter(row.reason for row in comparison.rows if row.reason)
    lines = [f"Undecided ({count}): {reason}." for reason, count in reasons.items()]
    missing = (("the first", comparison.only_first), ("the second", comparison.only_second))
    return lines + [f"Only in {which}: {', '.join(cells)}." for which, cells in missing if cells]


def lint_lines(record: ResultRecord) -> list[str]:
    """Return the lint rules that the result breaks, with their remedies, and then notes that belong to no rule."""
    groups: dict[str, list[str]] = {}
    for finding in lint_result(record):
        groups.setdefault(finding.rule_id, []).append(finding.sentence)
    lines: list[str] = []
    for rule_id, sentences in groups.items():
        rule = all_rules()[rule_id]
        lines += [f"{rule_id}: {rule.says}", *(f"    {sentence}" for sentence in sentences)]
        lines += [f"    Why: {rule.why}", f"    Remedy: {rule.remedy}", ""]
    notes = [stamp for stamp in record.stamps if stamp.partition(": ")[0] not in all_rules()]
    lines += [f"Note: {note}" for note in notes]
    return lines or ["No lint rule is broken."]


def condition_lines(record: ResultRecord) -> list[str]:
    """Return the machine, the tools and the disks of a result, and the commands that created the arrays."""
    conditions = record.conditions
    missing = f"incomplete: {len(record.missing_keys)} measurements are missing"
    how_far = "complete" if record.status is RunStatus.COMPLETE else missing
    lines = [
        f"Measured    {record.created_utc}, raidlab {record.raidlab_version}, {how_far}",
        f"Machine     {target_words(conditions.target)} on {conditions.host_name}, {conditions.architecture}",
        f"Kernel      {conditions.kernel_release}{_kernel_notes(conditions)}",
        f"Processor   {conditions.cpu_count} × {conditions.cpu_model or 'unknown'}",
        f"Memory      {human_bytes(conditions.memory_bytes)}",
        f"Tools       mdadm {conditions.mdadm_version}, fio {conditions.fio_version}"
        + (f", nbdkit {conditions.nbdkit_version}" if conditions.nbdkit_version else ""),
        *_named("Disks", _disk_lines(conditions)),
        *_named("Caches", list(conditions.host_cache_notes)),
        *_named("Tunables", _tunable_lines(conditions)),
        f"Time spent  {human_seconds(record.timings.total_seconds)}",
    ]
    for array in record.arrays:
        layout = "" if array.layout == "N/A" else array.layout
        what = " ".join(filter(None, (array.level, layout, array.file_system)))
        lines += ["", f"{array.name}: {what} of {human_bytes(array.size_bytes)} on {', '.join(array.members)}"]
        lines += [f"  {command}" for command in array.commands]
    return lines


def _kernel_notes(conditions: Conditions) -> str:
    notes = ["User Mode Linux" if conditions.is_embedded else "", "virtual time" if conditions.is_virtual_time else ""]
    text = ", ".join(filter(None, notes))
    return f" ({text})" if text else ""


def _disk_lines(conditions: Conditions) -> list[str]:
    counts = Counter(
        f"{disk.model or disk.kind} of {human_bytes(disk.size_bytes)}"
        + (f", {disk.write_cache}" if disk.write_cache else "")
        for disk in conditions.disks
    )
    return [f"{count} × {words}" for words, count in counts.items()]


def _tunable_lines(conditions: Conditions) -> list[str]:
    """Return a line per tunable and value, with the number of disks that have it."""
    counts = Counter(f"{path.rpartition('/')[2]} = {value}" for path, value in sorted(conditions.tunables.items()))
    return [f"{words} ({count} disks)" if count > 1 else words for words, count in counts.items()]


def _named(name: str, lines: list[str]) -> list[str]:
    return [f"{name if not number else '':<12}{line}" for number, line in enumerate(lines)]


class ResultView(StrEnum):
    """The views of a result."""

    COMPARE = "Compare"
    BARS = "Bars"
    TABLES = "Tables"
    CONDITIONS = "Conditions"
    LINT = "Lint"


def export(store: ResultStore, result_id: str, suffix: str, folder: Path) -> Path:
    """Write one result to ``folder`` and return the file. ``suffix`` is one of ``_EXPORTS``.

    Raises ResultError if it cannot be read or written, and RequirementMissing if the library for the format is not
    installed.
    """
    from lab.report.collected import collect, each_result
    from lab.report.page.build import html_report

    file = folder / f"{result_id}.{suffix}"
    match suffix:
        case "zip":
            bundles = next((each for each in extensions(ResultFormat) if each.suffix == file.suffix), None)
            if bundles is None:
                hint = "install the complete raidlab package"
                raise RequirementMissing("the plugin that writes bundles is missing", hint=hint)
            bundles.write(store, [result_id], file)
            return file
        case "html":
            text = html_report(collect(each_result([result_id], store)))
        case "json":
            text = encode_record(store.load(result_id)).decode()
        case "csv":
            text = csv_of(store.load(result_id)).rstrip() + "\n"
        case _:
            text = render_result(store.load(result_id), is_markdown=True).rstrip() + "\n"
    write_file(file, text.encode())
    return file


_EMPTY = (
    "No results yet.\n\nAn experiment measures arrays several times and stores a result here, with the conditions "
    "of the measurement. Press 3, choose an experiment, and press r. The shortest take a few minutes.\n\n"
    "'raidlab results import FILE' adds results from another computer."
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

    CSS_PATH = "results_screen.tcss"
    AREA = "Results"
    USES_LAB = False
    LESSON_FROM_CELLS = 160
    HELP = (
        "Every run of an experiment is stored with all its repeats and the conditions of the measurement. "
        "The lighter end of a bar is the confidence interval of the median; a diamond marks the figure that theory "
        "predicts.\n\n"
        "Mark one result, then move to another to compare them: each figure is shown as a ratio with its interval. "
        "If an interval allows both a difference and none, the figure is undecided."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "next_view", "View", id="results.view", tooltip="Bars, tables, conditions, or lint"),
        Binding("right", "across(1)", "More columns", id="results.right", tooltip="Scroll the table to the right"),
        Binding("left", "across(-1)", "Back", show=False, id="results.left", tooltip="Scroll the table to the left"),
        Binding("m", "mark", "Mark", id="results.mark", tooltip="Compare others with this result, or stop"),
        command_key("results.allow", "a", "Anyway", "compare", "Compare unlike results"),
        command_key("results.export", "e", "Export", "export", "Write it to a file"),
        command_key("results.resume", "r", "Resume", "run", "Complete the measurements"),
        command_key("results.delete", "delete", "Delete", "results delete", "Delete this result"),
        Binding("f5", "reload", "Reload", show=False, id="results.reload", tooltip="Read the stored results again"),
        Binding("tab", "app.focus_next", "Next panel", show=False, id="results.next", tooltip="To the result"),
        Binding("shift+tab", "app.focus_previous", "Back", show=False, id="results.previous", tooltip="To the list"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._view = ResultView.BARS
        self._summaries: tuple[ResultSummary, ...] | None = None
        self._shown: ResultSummary | None = None
        self._record: ResultRecord | None = None
        self._marked: ResultRecord | None = None
        self._allowed: set[frozenset[str]] = set()
        """Pairs of ids of results that the user compares although their conditions differ."""
        self._is_refused = False
        """Whether the comparison is refused because the conditions differ and the user has not allowed that."""
        self._comparisons: dict[tuple[str, str], Comparison | LabError | None] = {}
        """The comparison or error for each (first id, second id); None while it is computed."""
        self._had_run = False

    def body(self) -> ComposeResult:
        with Horizontal(id="results"):
            with Vertical(id="results-left"):
                yield titled(OptionList(id="results-list", markup=False), "Results")
                yield SyncBar(id="results-progress")
            with Vertical(id="results-right"):
                yield Static(id="results-views")
                with VerticalScroll(id="results-body"):
                    yield VerdictBanner(id="results-verdict")
                    yield Static(id="results-heading", markup=False)
                    yield IntervalChart(id="results-chart")
                    yield Static(id="results-text", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def on_screen_resume(self) -> None:
        """Reread the results, because runs may have ended meanwhile."""
        self.call_after_refresh(self.action_reload)
        self.call_after_refresh(self._show_requested)

    def _show_requested(self) -> None:
        """Show the tables of the result that contains the number that the open lesson asks for."""
        requested, ids = self.app.guide.result_to_read, [each.id for each in self._summaries or ()]
        if requested in ids:
            self._view = ResultView.TABLES
            self.query_one("#results-list", OptionList).highlighted = ids.index(requested)
            self._load(requested)

    @property
    def _store(self) -> ResultStore:
        return ResultStore(self.app.client.host.state.results)

    def show_state(self, state: LabState) -> None:
        is_requested = self._shown is not None and self._shown.id == self.app.guide.result_to_read
        self.set_class(is_requested and self._view is ResultView.TABLES, "-requested")
        view = self.app.experiments.view
        runs = view is not None and view.is_running
        bar = self.query_one("#results-progress", SyncBar)
        bar.display = runs
        if view and runs:
            bar.view = SyncView(view.experiment, view.progress.fraction, eta_seconds=view.progress.left_seconds)
        if self._had_run and not runs:
            self.action_reload()
        self._had_run = runs

    # The list.

    def action_reload(self) -> None:
        summaries = self._store.list()
        if summaries == self._summaries:
            return
        self._summaries = summaries
        found = self.query_one(OptionList)
        shown = self._shown.id if self._shown else ""
        found.clear_options()
        found.add_options(Option(self._entry(each), id=each.id) for each in summaries)
        found.border_subtitle = f"{len(summaries)} stored" if summaries else ""
        if ids := [each.id for each in summaries]:
            found.highlighted = ids.index(shown) if shown in ids else 0
        else:
            self._shown = None
            self._show_nothing(_EMPTY)

    def _entry(self, summary: ResultSummary) -> Content:
        is_complete, glyphs = summary.status is RunStatus.COMPLETE, self.app.glyphs
        tone = Tone.BAD if summary.problem else Tone.GOOD if is_complete else Tone.NOTICE
        is_marked = self._marked is not None and summary.id == self._marked.id
        sign = (glyphs.chosen, "$text-accent") if is_marked else (tone.glyph(glyphs), tone.style)
        name = summary.experiment or summary.id
        return Content.assemble(sign, f" {name}\n  ", (summary_facts(summary), "$text-muted"))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._load(event.option.id or "")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_next_view()

    def _load(self, result_id: str) -> None:
        self._shown = next((each for each in self._summaries or () if each.id == result_id), None)
        if self._shown is None:
            self._record = None
            return
        had_other = self._other is not None
        try:
            self._record = as_shown(self._store.load(self._shown.id))
        except LabError as error:
            self._show_nothing(error.hint)
            self.query_one("#results-verdict", VerdictBanner).show(Tone.BAD, "UNREADABLE", error.message)
        else:
            self.query_one("#results-body").scroll_home(animate=False)
        self._choose_view(had_other)

    # The result.

    @property
    def _other(self) -> ResultRecord | None:
        """Return the marked result, which is the first in a comparison with the shown one."""
        record, marked = self._record, self._marked
        return marked if record and marked and marked.id != record.id else None

    @property
    def _views(self) -> tuple[ResultView, ...]:
        return tuple(view for view in ResultView if view is not ResultView.COMPARE or self._other)

    def _choose_view(self, had_other: bool) -> None:
        """Begin a comparison when there is a second result, and leave it when there is none."""
        if self._other and not had_other:
            self._view = ResultView.COMPARE
        elif self._view not in self._views:
            self._view = ResultView.BARS
        self._show()

    def action_view(self, name: str) -> None:
        if ResultView(name) in self._views:
            self._view = ResultView(name)
            self.query_one("#results-body").scroll_home(animate=False)
            self._show()

    def action_next_view(self) -> None:
        if self._record:
            self.action_view(self._views[(self._views.index(self._view) + 1) % len(self._views)])
            # Whether a table fits is known only after the layout.
            self.call_after_refresh(self.app.show_soon)

    def on_resize(self, event: Resize) -> None:
        # The number of columns of a table depends on the width.
        if self._view is ResultView.TABLES:
            self.call_after_refresh(self._show)

    def _show_nothing(self, text: str) -> None:
        self._record = None
        self._clear()
        self.query_one("#results-views", Static).update("")
        self.query_one("#results-heading", Static).update(text)

    def _clear(self) -> None:
        self._is_refused = False
        self.query_one("#results-right").set_class(self._view is ResultView.TABLES, "-wide-text")
        self.query_one("#results-verdict", VerdictBanner).clear()
        self.query_one(IntervalChart).show(())
        self.query_one("#results-text", Static).update("")

    def _show(self) -> None:
        if self._record:
            self._clear()
            self._show_tabs()
            if self._view is ResultView.COMPARE and self._other:
                self._show_comparison(self._other, self._record)
            else:
                self._show_record(self._record)
        self.changes += 1

    def _show_tabs(self) -> None:
        parts = []
        for view in self._views:
            is_shown = view is self._view
            style = "bold $block-cursor-foreground on $block-cursor-background" if is_shown else "$text-secondary"
            parts.append(Content.from_markup(f"[@click=screen.view('{view.value}')][{style}] {view.value} [/][/]"))
        self.query_one("#results-views", Static).update(Content.assemble(*parts))

    def _show_record(self, record: ResultRecord) -> None:
        text = self.query_one("#results-text", Static)
        self.query_one("#results-heading", Static).update(heading(record).replace(": ", "\n", 1))
        if self._view in (ResultView.BARS, ResultView.TABLES) and (caution := foremost(record)):
            self.query_one("#results-verdict", VerdictBanner).show(Tone.NOTICE, "PROCESSOR-BOUND", caution)
        if self._view is ResultView.BARS:
            self.query_one(IntervalChart).draw(iops_bars(record), BARS)
            text.update(self._bars_legend(record))
        elif self._view is ResultView.TABLES:
            width = self.query_one("#results-body").size.width or self.size.width
            text.update("\n\n".join(table.within(width).as_text() for table in tables_of(record)))
        else:
            text.update("\n".join((lint_lines if self._view is ResultView.LINT else condition_lines)(record)))

    def _bars_legend(self, record: ResultRecord) -> str:
        glyphs = self.app.glyphs
        parts = [f"{glyphs.bar_loose} interval of the median"]
        if any(cell.predicted_iops for cell in record.cells) or any(each.predicted_seconds for each in record.rebuilds):
            parts.append(f"{glyphs.expected} predicted by theory")
        lines = ["   ".join(parts), *(f"{glyphs.notice} {note}" for note in theory_notes(record))]
        if record.stamps:
            lines += ["", f"{glyphs.notice} {counted(len(record.stamps), 'caution')}: see Lint (v)"]
        return "\n".join(lines)

    def _show_comparison(self, first: ResultRecord, second: ResultRecord) -> None:
        verdict, text = self.query_one("#results-verdict", VerdictBanner), self.query_one("#results-text", Static)
        self.query_one("#results-heading", Static).update(f"first   {first.id} (marked)\nsecond  {second.id}")
        unlike = differences(first, second)
        self._is_refused = bool(unlike) and frozenset((first.id, second.id)) not in self._allowed
        lines = [f"Difference: {each.sentence} ({each.condition})" for each in unlike]
        if self._is_refused:
            sentence = "They were measured under different conditions, so a ratio means nothing. a compares anyway."
            verdict.show(Tone.NOTICE, "NOT COMPARABLE", sentence)
            text.update("\n".join(lines))
            return
        found = self._comparison(first, second)
        if found is None:
            verdict.show(Tone.BUSY, "COMPARING")
        elif isinstance(found, LabError):
            is_apart = isinstance(found, SpecError)
            tone, headline = (Tone.NOTICE, "NOTHING IN COMMON") if is_apart else (Tone.BAD, "ERROR")
            verdict.show(tone, headline, error_sentence(found))
            text.update("\n".join(lines))
        else:
            verdict.show(*comparison_verdict(found))
            self.query_one(IntervalChart).draw(ratio_rows(found), RATIOS)
            explained = "Ratios are second : first. For IOPS more is better, for rebuild times less."
            text.update("\n".join((explained, *comparison_notes(found), *lines)))

    def _comparison(self, first: ResultRecord, second: ResultRecord) -> Comparison | LabError | None:
        """Return the comparison if it has been computed. Otherwise let a thread compute it, and return None."""
        key = (first.id, second.id)
        if key not in self._comparisons:
            self._comparisons[key] = None
            store = partial(self._store_comparison, key)
            # Loading the library for rank tests takes a second.
            self.app.beside("comparison", partial(compare, first, second), on_done=store, on_error=store)
        return self._comparisons[key]

    def _store_comparison(self, key: tuple[str, str], found: Comparison | LabError) -> None:
        self._comparisons[key] = found
        self._show()

    # The keys.

    def action_across(self, steps: int) -> None:
        body = self.query_one("#results-body", VerticalScroll)
        body.scroll_relative(x=steps * max(1, body.size.width * 2 // 3), animate=False)

    def action_mark(self) -> None:
        had_other = self._other is not None
        is_marked = self._marked is not None and self._shown is not None and self._marked.id == self._shown.id
        self._marked = None if is_marked else self._record
        found = self.query_one(OptionList)
        for index, summary in enumerate(self._summaries or ()):
            found.replace_option_prompt_at_index(index, self._entry(summary))
        self._choose_view(had_other)

    def action_allow(self) -> None:
        self._allowed.add(frozenset(each.id for each in (self._record, self._marked) if each))
        self._show()

    def action_export(self) -> None:
        if self._shown is not None:
            title, intro = f"Write {self._shown.id} as", f"Folder: {Path.cwd()}"
            self.app.pick(title, _EXPORTS, partial(self._export, self._shown.id), intro=intro)

    def _export(self, result_id: str, suffix: str) -> None:
        if file := self.app.attempt(lambda: export(self._store, result_id, suffix, Path.cwd())):
            self.notify(f"written: {file}", markup=False)

    def action_resume(self) -> None:
        if self._shown and not self.app.experiments.start(self._shown.experiment, self._shown):
            self.notify(f"'{self.app.lab.background}' is running; wait until it ends, or stop it.", markup=False)

    def action_delete(self) -> None:
        if self._shown is None:
            return
        choices = (
            Choice("keep", "Keep it", key="k"),
            Choice("delete", "Delete it", "with all its measurements; this cannot be undone", "d"),
        )
        self.app.pick(f"Delete {self._shown.id} permanently?", choices, partial(self._delete, self._shown.id))

    def _delete(self, result_id: str, answer: str) -> None:
        deleted = self.app.attempt(lambda: self._store.delete(result_id)) if answer == "delete" else None
        if deleted is None:
            return
        if self._marked and self._marked.id == deleted:
            self._marked = None
        self.notify(f"deleted: {deleted}", markup=False)
        self.action_reload()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        is_incomplete = self._shown is not None and self._shown.status is RunStatus.INCOMPLETE
        match action:
            case "mark" | "export" | "next_view":
                return True if self._record else None
            case "across":
                return self._is_too_wide()
            case "delete":
                # The shown result may be one that an experiment is writing.
                view = self.app.experiments.view
                return True if self._shown and not (view and view.is_running and is_incomplete) else None
            case "allow":
                return self._is_refused
            case "resume":
                return bool(self._shown and self._shown.can_be_resumed) and not self.app.lab.background
            case _:
                return True

    def _is_too_wide(self) -> bool:
        width = self.query_one("#results-right").size.width
        return self._view is ResultView.TABLES and self.query_one("#results-text").size.width > width

    def hint(self, state: LabState) -> str | None:
        if not self._summaries:
            return "[b]3[/b] runs an experiment; its result is stored here."
        if self._shown and self._shown.can_be_resumed and not state.background:
            return "This result is incomplete: [b]r[/b] resumes the experiment."
        if self._other:
            return "[b]v[/b] shows bars and tables of the second result; [b]m[/b] marks this one instead."
        if self._marked:
            return "Move to another result to compare it with the marked one."
        if self._is_too_wide():
            return "[b]→[/b] and [b]←[/b] scroll the table; [b]v[/b] shows the conditions."
        return "[b]v[/b] shows tables and conditions; [b]m[/b] marks this result for comparison."
