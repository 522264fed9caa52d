"""The panel of the selected array: state, sync and tiles, and charts of load, members and sync on one time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Grid, Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.reactive import reactive
from textual.widgets import Static

from lab.units import human_bytes
from tui.glyphs import glyphs_of
from tui.quantities import Unit, age_words
from tui.state import LabState
from tui.tones import Tone, condition
from tui.views import added, marks_of, member_series, shown_seconds, sync_view, tone_of
from tui.widgets.array_list import stripe
from tui.widgets.charts import Series, TimeChart
from tui.widgets.tiles import SyncBar, Tile, VerdictBanner
from tui.widgets.words import ChangingText, entitle

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus
    from lab.session.history import History

_BEYOND = 61 / 60
"""Factor of the window whose samples are drawn, so that lines start at the left edge and not at the first sample."""
CHARTS = ("rate", "latency", "members", "work")
_LOAD_TIP = "No load has run lately: [b]w[/b] puts one on, and its latency is drawn too."
_SHORT_LOAD_TIP = "No load runs: [b]w[/b] puts one on."
_LEAST_TOP_BYTES_PER_SECOND = 1e6
_CHART_ROWS = 9
_CHART_CELLS = 56
_EVENTS_FROM_ROWS = 30
_STRIPE_FROM_CELLS = 64


class ArrayPanel(Vertical):
    """Shows one array, with as many charts as fit, starting with ``first_chart``."""

    first_chart: reactive[int] = reactive(0)
    charts: reactive[tuple[str, ...]] = reactive(CHARTS)
    """The charts that have data."""

    def compose(self) -> ComposeResult:
        yield ChangingText("", id="panel-state")
        yield SyncBar()
        yield VerdictBanner()
        with Horizontal(id="panel-tiles"):
            yield Tile("IOPS", id="tile-iops")
            yield Tile("throughput", id="tile-bytes")
            yield Tile("p99", id="tile-p99")
            yield Tile("md CPU", id="tile-cpu")
        yield ChangingText(_LOAD_TIP, id="panel-tip")
        with Grid(id="panel-charts"):
            yield TimeChart("I/O per second", Unit.IOPS, minimum_top=100.0, id="chart-rate")
            yield TimeChart("latency of the load", Unit.SECONDS, is_log=True, id="chart-latency")
            for name, title in (("members", "members"), ("work", "sync")):
                yield TimeChart(
                    title,
                    Unit.BYTES_PER_SECOND,
                    minimum_top=_LEAST_TOP_BYTES_PER_SECOND,
                    id=f"chart-{name}",
                )
        yield ChangingText("", id="panel-events")

    def on_mount(self) -> None:
        self.query_one(SyncBar).display = False
        self.query_one(VerdictBanner).display = False

    def on_resize(self, event: Resize) -> None:
        self._arrange()

    def watch_first_chart(self) -> None:
        self._arrange()

    def watch_charts(self) -> None:
        self._arrange()

    def turn(self) -> None:
        """Make the next chart the first one."""
        self.first_chart = (self.first_chart + 1) % len(self.charts)

    def _arrange(self) -> None:
        """Arrange as many charts as fit."""
        if not self.is_mounted:
            return
        width, height, names = self.size.width, self.size.height, self.charts
        columns = 2 if width >= 2 * _CHART_CELLS else 1
        rows = max(1, min(-(-len(names) // columns), (height - 6) // _CHART_ROWS))
        turned = [names[(self.first_chart + number) % len(names)] for number in range(len(names))]
        shown = turned[: columns * rows]
        grid = self.query_one("#panel-charts", Grid)
        grid.styles.grid_size_columns = columns
        grid.styles.grid_size_rows = rows
        for name in CHARTS:
            chart = self.query_one(f"#chart-{name}")
            chart.display = name in shown
            is_alone = name == shown[0] and len(shown) % columns
            chart.styles.column_span = 2 if is_alone else 1
        for name in reversed(shown):
            grid.move_child(self.query_one(f"#chart-{name}"), before=0)
        self.query_one("#panel-events").styles.height = (
            max(1, min(10, (height - 20) // 3)) if height >= _EVENTS_FROM_ROWS else 1
        )

    def show(self, state: LabState) -> None:
        """Show the selected array."""
        status = state.selected
        if status is None:
            return
        chunk = f"chunk {human_bytes(status.chunk_bytes)}" if status.chunk_bytes else "no chunks"
        # Without redundancy md has no consistency policy, and no sync.
        facts = f"{chunk}, {status.kind_words}" if status.is_redundant else chunk
        entitle(self, f"{status.name}  {status.level}  {human_bytes(status.size_bytes)}", facts)
        self._show_state(state, status)
        self._show_sync(state, status)
        self._show_verdict(state)
        if state.history:
            self._show_tiles(state, status, state.history)
            self._show_charts(state, status, state.history)
        self._show_events(state)

    def _show_state(self, state: LabState, status: ArrayStatus) -> None:
        glyphs = glyphs_of(self)
        tone, words = condition(state, status)
        text = Content.assemble(
            (f"{tone.glyph(glyphs)} {words}", f"bold {tone.style}"),
            ("   ", ""),
            (f"{status.in_sync_count} of {status.raid_disks} {'in sync' if status.is_redundant else 'members'}", ""),
            (f", {len(status.spares)} spare" if status.spares else "", ""),
            (f", {status.mismatch_sectors} sectors mismatch" if status.mismatch_sectors else "", "$text-error"),
            ("   ", ""),
        )
        if self.size.width >= _STRIPE_FROM_CELLS:
            text += stripe(state, status, glyphs)
        # Its height is fixed, so no new layout is needed, which would paint the whole screen.
        self.query_one("#panel-state", Static).update(text, layout=False)

    def _show_sync(self, state: LabState, status: ArrayStatus) -> None:
        view, bar = sync_view(state, status), self.query_one(SyncBar)
        bar.display = view is not None
        bar.show(view)

    def _show_verdict(self, state: LabState) -> None:
        view, banner = state.selected_mark, self.query_one(VerdictBanner)
        is_known = view is not None and view.verdict is not None and not view.is_stale
        banner.display = is_known
        if is_known and view and view.verdict:
            tone = Tone.GOOD if view.verdict.is_intact else Tone.BAD
            banner.show(tone, f"DATA {view.verdict.verdict.upper()}", view.verdict.sentence)

    def _show_tiles(self, state: LabState, status: ArrayStatus, history: History) -> None:
        from lab.session.history import LoadMeasure, Measure, load_value

        def now(*measures: Measure) -> float | None:
            values = [history.now_rate(status.name, measure) for measure in measures]
            known = [value for value in values if value is not None]
            return sum(known) if known else None

        load = state.running_load
        running = load.newest if load and load.array == status.name else None
        self.query_one("#tile-iops", Tile).show(now(Measure.READ_IOPS, Measure.WRITE_IOPS), Unit.IOPS)
        moved = now(Measure.READ_BYTES_PER_SECOND, Measure.WRITE_BYTES_PER_SECOND)
        self.query_one("#tile-bytes", Tile).show(moved, Unit.BYTES_PER_SECOND)
        p99 = load_value(running, LoadMeasure.P99_SECONDS) if running else None
        self.query_one("#tile-p99", Tile).show(p99, Unit.SECONDS)
        # In virtual time computation takes no time, so there is no processor share.
        is_virtual = state.facts is not None and state.facts.is_virtual_time
        busy = [] if is_virtual else history.md_cpu(status.name, seconds=1.0)
        self.query_one("#tile-cpu", Tile).show(busy[-1][1] if busy else None, Unit.FRACTION)

    def _show_charts(self, state: LabState, status: ArrayStatus, history: History) -> None:
        from lab.session.history import LoadMeasure, Measure

        shown = shown_seconds(state)
        window = shown * _BEYOND
        now = state.look.time_seconds if state.look else None
        marks = marks_of(state, status)
        p99 = history.load(LoadMeasure.P99_SECONDS, seconds=window)
        has_load = any(value is not None for _, value in p99)
        idle = {"latency"} if not has_load else set()
        idle |= {"work"} if not status.is_redundant else set()
        self.charts = tuple(name for name in CHARTS if name not in idle)
        tip = self.query_one("#panel-tip", Static)
        tip.display = not (has_load or state.running_load)
        tip.update(_LOAD_TIP if self.size.width >= len(_LOAD_TIP) else _SHORT_LOAD_TIP)
        series = {
            "rate": (
                Series("reads", history.rates(status.name, Measure.READ_IOPS, seconds=window), 0),
                Series("writes", history.rates(status.name, Measure.WRITE_IOPS, seconds=window), 1),
            ),
            "latency": (
                Series("p50", history.load(LoadMeasure.P50_SECONDS, seconds=window), 0),
                Series("p99", p99, 3),
            ),
            "work": (
                Series("sync, each member", history.sync_rate(status.name, seconds=window), 2),
                Series(
                    "load",
                    added(
                        history.rates(status.name, Measure.READ_BYTES_PER_SECOND, seconds=window),
                        history.rates(status.name, Measure.WRITE_BYTES_PER_SECOND, seconds=window),
                    ),
                    0,
                ),
            ),
        }
        for name in CHARTS:
            chart = self.query_one(f"#chart-{name}", TimeChart)
            if chart.display:
                chart.window_seconds = shown
                found = member_series(state, status, window) if name == "members" else series[name]
                chart.show(found, marks, now)

    def _show_events(self, state: LabState) -> None:
        box = self.query_one("#panel-events", Static)
        glyphs, now = glyphs_of(self), state.look.time_seconds if state.look else 0.0
        lines = []
        for event in list(state.events)[-max(1, box.size.height) :]:
            tone = tone_of(event)
            ago = f"{age_words(now - event.time_seconds):>10} "
            sign = (f"{tone.glyph(glyphs)} ", tone.style)
            lines.append(Content.assemble((ago, "$foreground-muted"), sign, event.sentence))
        nothing = Content.styled("nothing has happened yet", "$foreground-muted")
        box.update(Content("\n").join(reversed(lines)) if lines else nothing, layout=False)
