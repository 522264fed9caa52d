"""The panel of a sweep: its plan, its progress, in this or another process, and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, ScrollableContainer, Vertical
from textual.content import Content

from lab.errors import LabError, RunCancelled
from tui.look import Tone
from tui.widgets.lines import ChangingText, entitle, titled
from tui.widgets.tiles import SyncBar, SyncView, Tile, VerdictBanner

if TYPE_CHECKING:
    from lab.experiments.sweeps import LatestCell, SweepProgress
    from tui.look import Glyphs
    from tui.run.runs import RunItem
    from tui.sweeps.service import SweepLook, SweepView

_SHOWN_CELLS = 8


class SweepPanel(Vertical):
    """Shows a sweep; it does not start anything."""

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

    def show(self, item: RunItem, look: SweepLook, view: SweepView | None) -> None:
        """Show a sweep: planned, running in this app or in another process, or ended."""
        entitle(self, item.title)
        is_going = bool(view and view.is_running) or look.runs_elsewhere
        progress = view.progress if view and view.is_running else look.status.progress if look.status else None
        tables = look.status.tables if look.status and not is_going else ()
        is_planned = not is_going and not tables
        # On a low screen the question is hidden once there is progress or a result.
        self._text("sweep-about", item.shows if is_planned or not self.screen.has_class("-low") else "")
        plan = (*item.details, "", *(look.work.lines if look.work else ())) if is_planned else ()
        self._text("sweep-plan", "\n".join(plan).rstrip())
        self._show_tiles(look, progress, is_going=is_going)
        bar = self.query_one("#sweep-progress", SyncBar)
        bar.display = is_going
        if is_going and progress:
            bar.show(SyncView("sweep", progress.done / max(1, progress.planned), eta_seconds=progress.left_seconds))
        else:
            bar.show(SyncView("starting", 0.0, note="starting a cluster") if is_going else None)
        verdict = self.query_one("#sweep-verdict", VerdictBanner)
        if found := _verdict(look, view):
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

    def _show_tiles(self, look: SweepLook, progress: SweepProgress | None, *, is_going: bool) -> None:
        cells, running = self.query_one("#sweep-cells", Tile), self.query_one("#sweep-running", Tile)
        failed = self.query_one("#sweep-failed", Tile)
        done, planned = (look.work.there, look.work.cells) if look.work else (0, 0)
        if progress and (is_going or not planned):
            done, planned = progress.done, progress.planned
        cells.say(f"{done:,} of {planned:,}" if planned else "–")
        count = progress.failed if progress else 0
        failed.say(f"{count:,}", Tone.BAD if count else Tone.QUIET)
        workers = f"{progress.workers} worker{'' if progress.workers == 1 else 's'}" if progress and is_going else ""
        running.say(f"{progress.running} on {workers}" if progress and is_going else "–")

    def _show_latest(self, progress: SweepProgress | None, view: SweepView | None) -> None:
        glyphs: Glyphs = self.query_one("#sweep-verdict", VerdictBanner).glyphs
        notices = list(view.notices) if view and view.is_running else []
        lines = [Content.styled(notice, "$text-warning") for notice in notices[-2:]]
        latest = list(progress.latest)[-_SHOWN_CELLS:] if progress else []
        lines += [_cell_line(each, glyphs) for each in reversed(latest)]
        self._text("sweep-latest", Content("\n").join(lines) if lines else "")


def _cell_line(cell: LatestCell, glyphs: Glyphs) -> Content:
    """The line of a cell. The speeds are first, so that only the end of the label is cut off."""
    tone = Tone.BAD if cell.is_failed else Tone.GOOD
    sign = (f"{tone.glyph(glyphs)} ", tone.style)
    if cell.is_failed:
        return Content.assemble(sign, f"{cell.label}: {cell.told}")
    return Content.assemble(sign, (f"{cell.told}  ", "bold"), (cell.label, "$text-muted"))


def _verdict(look: SweepLook, view: SweepView | None) -> tuple[Tone, str, str] | None:
    if view and view.is_running:
        return (Tone.BUSY, "STOPPING", "") if view.is_ending else None
    if look.runs_elsewhere:
        return Tone.BUSY, "RUNNING ELSEWHERE", "Another raidlab process runs this sweep; it is only monitored here."
    if view and isinstance(view.outcome, LabError) and not isinstance(view.outcome, RunCancelled):
        return Tone.BAD, "FAILED", _error_text(view.outcome)
    if look.problem:
        return Tone.NOTICE, "CANNOT RUN", _error_text(look.problem)
    if look.work is None:
        return Tone.BUSY, "PLANNING", ""
    if look.work.missing_dependency:
        return Tone.NOTICE, "DASK IS MISSING", f"A sweep needs Dask. Install it: {look.work.missing_dependency}"
    return _state_verdict(look, view)


def _state_verdict(look: SweepLook, view: SweepView | None) -> tuple[Tone, str, str] | None:
    """The verdict on a sweep that can run but does not."""
    assert look.work is not None
    work = look.work
    report = f" Report: raidlab report {work.run_id} -o sweep.html" if work.run_id else ""
    if view and isinstance(view.outcome, RunCancelled):
        return Tone.NOTICE, "STOPPED", f"{work.there:,} of {work.cells:,} cells are stored; r resumes.{report}"
    if work.run_id and work.there == work.cells:
        return Tone.GOOD, "COMPLETE", f"All cells are measured.{report}"
    failed = look.status.progress.failed if look.status and look.status.progress else 0
    if work.run_id and failed:
        return Tone.BAD, "FAILED", f"{failed:,} cells could not be measured; r retries them.{report}"
    if work.run_id:
        return Tone.NOTICE, "INCOMPLETE", f"{work.there:,} of {work.cells:,} cells are measured; r resumes.{report}"
    return None


def _error_text(error: LabError) -> str:
    return f"{error.message}. {error.hint}".rstrip(". ") + "."
