"""Sweeps that run here as background jobs or are monitored in another process, and the panel that shows a sweep.

The plugin for sweeps (``lab.experiments.sweeps``) is called only on separate threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from textual.app import ComposeResult
from textual.containers import Horizontal, ScrollableContainer, Vertical
from textual.content import Content

from lab.errors import LabError, RunCancelled
from lab.experiments.sweeps import (
    LatestCell,
    SweepDesk,
    SweepEntry,
    Sweeping,
    SweepListener,
    SweepProgress,
    SweepStatus,
    SweepWork,
)
from lab.machine import parse_target
from lab.plugins import extension
from lab.units import counted
from tui.frontend import Cancelled, Frontend, Progress
from tui.look import Glyphs, Tone
from tui.runs import JobView, RunItem
from tui.widgets import ChangingText, SyncBar, SyncView, Tile, VerdictBanner, entitle, error_sentence, titled

MOST_NOTICES = 5


@dataclass(slots=True)
class SweepView(JobView[LabError | bool]):
    """The current or the last sweep of this app. Its outcome is True if it finished, otherwise the error."""

    name: str
    progress: SweepProgress | None = None
    notices: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_NOTICES))

    def receive(self, report: SweepProgress | str) -> None:
        if isinstance(report, str):
            self.notices.append(report)
        else:
            self.progress = report


@dataclass(slots=True)
class SweepState:
    """The state of a sweep, read without running it."""

    work: SweepWork | None = None
    """None if it is not yet read, or if there is a ``problem``."""
    problem: LabError | None = None
    """The reason why the sweep cannot run."""
    status: SweepStatus | None = None
    """The status of its newest run; None if there is none."""

    @property
    def runs_elsewhere(self) -> bool:
        return self.status is not None and self.status.is_running


class Sweeps:
    """Starts sweeps, and reads the state of all sweeps."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.view: SweepView | None = None
        self.entries: tuple[SweepEntry, ...] = ()
        self._states: dict[str, SweepState] = {}
        self._asked: set[str] = set()
        """The names of the sweeps that a thread is reading."""

    def state(self, name: str) -> SweepState:
        """Return the state of a sweep. If it is not known yet, return an empty one and let a thread read it."""
        if name not in self._states:
            self._states[name] = SweepState()
            self._ask(name, partial(_read_state, self._frontend, name))
        return self._states[name]

    def watch(self, name: str) -> None:
        """Check whether another process is running the sweep, and read its status. This is cheap and called often."""
        known = self.state(name)
        if known.work or known.problem:
            self._ask(name, partial(_watched, self._frontend, name, known))

    def _ask(self, name: str, work: Callable[[], SweepState]) -> None:
        if name in self._asked:
            return
        self._asked.add(name)

        def seen(sweep: SweepState) -> None:
            self._asked.discard(name)
            self._states[name] = sweep

        self._frontend.beside("sweep", work, on_done=seen, on_error=lambda error: seen(SweepState(problem=error)))

    def list_again(self) -> None:
        def listed(entries: tuple[SweepEntry, ...]) -> None:
            self.entries = entries

        self._frontend.beside(
            "sweeps", lambda: _desk(self._frontend).entries(), on_done=listed, on_error=lambda _: None
        )

    def start(self, name: str) -> bool:
        """Run or resume a sweep. Return False if another background job is running."""
        view = SweepView(name)

        def over(outcome: LabError | bool) -> None:
            view.outcome = outcome
            self._states.pop(name, None)
            self.state(name)
            self.list_again()

        def done(failed: int) -> None:
            over(True)
            if failed:
                text = f"sweep {name}: {counted(failed, 'cell')} failed; r measures them again"
                self._frontend.show_message(text, title="Incomplete", is_bad=True)
            else:
                self._frontend.show_message(f"sweep {name}: all cells have been measured", title="Done")

        def work(progress: Progress, cancelled: Cancelled) -> int:
            return _desk(self._frontend).run(name, SweepListener(progress, progress, cancelled))

        has_started = self._frontend.background.run(
            f"sweep {name}", work, on_done=done, on_error=over, on_progress=view.receive
        )
        if has_started:
            self.view = view
        return has_started


def _desk(frontend: Frontend) -> SweepDesk:
    """Return the plugin's interface to sweeps. Call this on a separate thread. Raises LabError without the plugin."""
    sweeping = extension(Sweeping)
    if sweeping is None:
        raise LabError("the plugin for sweeps is missing", hint="install the complete raidlab package")
    return sweeping.desk(parse_target(frontend.lab.target or "uml:"), frontend.client.host)


def _read_state(frontend: Frontend, name: str) -> SweepState:
    desk, sweep = _desk(frontend), SweepState()
    try:
        sweep.work = desk.work(name)
    except LabError as error:
        sweep.problem = error
    run_id = sweep.work.run_id if sweep.work else desk.newest_run(name)
    sweep.status = desk.status(run_id) if run_id else None
    return sweep


def _watched(frontend: Frontend, name: str, known: SweepState) -> SweepState:
    desk = _desk(frontend)
    if run_id := desk.going_run(name):
        return replace(known, status=desk.status(run_id))
    # The end of a run changes its cells and tables.
    return _read_state(frontend, name) if known.runs_elsewhere else known


_SHOWN_CELLS = 8


class SweepPanel(Vertical):
    """Shows a sweep, without starting anything."""

    def compose(self) -> ComposeResult:
        yield ChangingText(id="sweep-about", markup=False)
        yield ChangingText(id="sweep-plan", markup=False)
        with Horizontal(id="sweep-tiles"):
            yield Tile("Cells", id="sweep-cells")
            yield Tile("Running", id="sweep-running")
            yield Tile("Failed", id="sweep-failed")
        yield SyncBar(id="sweep-progress")
        yield VerdictBanner(id="sweep-verdict")
        yield ChangingText(id="sweep-pages", markup=False)
        yield ChangingText(id="sweep-latest", markup=False)
        with titled(ScrollableContainer(id="sweep-tables"), "Results"):
            yield ChangingText(id="sweep-text", markup=False)

    def show(self, item: RunItem, sweep: SweepState, view: SweepView | None) -> None:
        entitle(self, item.title)
        is_going = bool(view and view.is_running) or sweep.runs_elsewhere
        progress = view.progress if view and view.is_running else sweep.status.progress if sweep.status else None
        tables = sweep.status.tables if sweep.status and not is_going else ()
        is_planned = not is_going and not tables
        # On a low screen, the question is hidden once there is progress or a result.
        self._text("sweep-about", item.shows if is_planned or not self.screen.has_class("-low") else "")
        plan = (*item.details, "", *(sweep.work.lines if sweep.work else ())) if is_planned else ()
        self._text("sweep-plan", "\n".join(plan).rstrip())
        self._show_tiles(sweep, progress, is_going=is_going)
        bar = self.query_one("#sweep-progress", SyncBar)
        bar.display = is_going
        if is_going and progress:
            bar.view = SyncView("sweep", progress.done / max(1, progress.planned), eta_seconds=progress.left_seconds)
        else:
            bar.view = SyncView("starting", 0.0, note="starting a cluster") if is_going else None
        verdict = self.query_one("#sweep-verdict", VerdictBanner)
        if found := _verdict(sweep, view):
            verdict.show(*found)
        else:
            verdict.clear()
        dashboard = progress.dashboard if progress and is_going else ""
        self._text("sweep-pages", f"Dask dashboard: http://{dashboard}/status" if dashboard else "")
        self._show_latest(progress if is_going else None, view)
        self.query_one("#sweep-tables").display = bool(tables)
        self._text("sweep-text", "\n\n".join(tables))

    def _text(self, name: str, text: str | Content) -> None:
        words = self.query_one(f"#{name}", ChangingText)
        words.display = bool(text)
        words.update(text)

    def _show_tiles(self, sweep: SweepState, progress: SweepProgress | None, *, is_going: bool) -> None:
        cells, running = self.query_one("#sweep-cells", Tile), self.query_one("#sweep-running", Tile)
        failed = self.query_one("#sweep-failed", Tile)
        done, planned = (sweep.work.there, sweep.work.cells) if sweep.work else (0, 0)
        if progress and (is_going or not planned):
            done, planned = progress.done, progress.planned
        cells.show_text(f"{done:,} of {planned:,}" if planned else "–")
        count = progress.failed if progress else 0
        failed.show_text(f"{count:,}", Tone.BAD if count else Tone.QUIET)
        workers = counted(progress.workers, "worker") if progress and is_going else ""
        running.show_text(f"{progress.running} on {workers}" if progress and is_going else "–")

    def _show_latest(self, progress: SweepProgress | None, view: SweepView | None) -> None:
        glyphs: Glyphs = self.query_one("#sweep-verdict", VerdictBanner).glyphs
        notices = list(view.notices) if view and view.is_running else []
        lines = [Content.styled(notice, "$text-warning") for notice in notices[-2:]]
        latest = list(progress.latest)[-_SHOWN_CELLS:] if progress else []
        lines += [_cell_line(each, glyphs) for each in reversed(latest)]
        self._text("sweep-latest", Content("\n").join(lines) if lines else "")


def _cell_line(cell: LatestCell, glyphs: Glyphs) -> Content:
    """Return the line about a cell. The speeds come first, so that only the end of the label is cut off."""
    tone = Tone.BAD if cell.is_failed else Tone.GOOD
    sign = (f"{tone.glyph(glyphs)} ", tone.style)
    if cell.is_failed:
        return Content.assemble(sign, f"{cell.label}: {cell.told}")
    return Content.assemble(sign, (f"{cell.told}  ", "bold"), (cell.label, "$text-muted"))


def _verdict(sweep: SweepState, view: SweepView | None) -> tuple[Tone, str, str] | None:
    if view and view.is_running:
        return (Tone.BUSY, "STOPPING", "") if view.is_ending else None
    if sweep.runs_elsewhere:
        return Tone.BUSY, "RUNNING ELSEWHERE", "Another raidlab process runs this sweep; it is only monitored here."
    if view and isinstance(view.outcome, LabError) and not isinstance(view.outcome, RunCancelled):
        return Tone.BAD, "FAILED", error_sentence(view.outcome)
    if sweep.problem:
        return Tone.NOTICE, "CANNOT RUN", error_sentence(sweep.problem)
    if sweep.work is None:
        return Tone.BUSY, "PLANNING", ""
    if sweep.work.missing_dependency:
        return Tone.NOTICE, "DASK IS MISSING", f"A sweep needs Dask. Install it: {sweep.work.missing_dependency}"
    # It can run, but is not running.
    work = sweep.work
    report = f" Report: raidlab report {work.run_id} -o sweep.html" if work.run_id else ""
    if view and isinstance(view.outcome, RunCancelled):
        return Tone.NOTICE, "STOPPED", f"{work.there:,} of {work.cells:,} cells are stored; r resumes.{report}"
    if work.run_id and work.there == work.cells:
        return Tone.GOOD, "COMPLETE", f"All cells are measured.{report}"
    failed = sweep.status.progress.failed if sweep.status and sweep.status.progress else 0
    if work.run_id and failed:
        return Tone.BAD, "FAILED", f"{failed:,} cells could not be measured; r retries them.{report}"
    if work.run_id:
        return Tone.NOTICE, "INCOMPLETE", f"{work.there:,} of {work.cells:,} cells are measured; r resumes.{report}"
    return None
