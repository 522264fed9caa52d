"""The Lab screen, with the rack of disks, the list of arrays, charts of the selected array, and actions on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.reactive import reactive
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lab.actions.action import Choice, Fills, PlanAction
from lab.arrays.levels import layout_name
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.disks import LabDisk
from lab.session.monitor import History, LoadMeasure, Measure, load_value
from lab.units import human_bytes
from tui.actions import (
    FIRST_MEMBERS,
    KEY_ACTIONS,
    Draft,
    LevelTable,
    action_id,
    applying,
    build,
    choose,
    do,
    level_rows,
    selected_disk,
    selection_of,
    start_array,
    target_array,
)
from tui.charts import DiagramMember, Series, SliceDiagram, StripeDiagram, TimeChart
from tui.keys import SCREENS, command_key, hidden_key, key_for
from tui.look import Glyphs, Tone, glyphs_of
from tui.mode import ModeScreen, pause_key
from tui.quantities import Unit, age_words
from tui.rack import (
    STOPPED,
    Bay,
    BayState,
    Rack,
    added,
    bays_of,
    diagram_member,
    marks_of,
    member_series,
    member_state,
    running_picture,
    short_name,
    shown_seconds,
    sync_view,
    tone_of,
)
from tui.state import LabState, MachinePhase, MarkView, condition
from tui.widgets import ChangingText, SyncBar, Tile, VerdictBanner, entitle, titled

_STYLES = {
    BayState.FAULTY: "$text-error",
    BayState.REBUILDING: "$text-warning",
    BayState.SPARE: "$text-secondary",
    BayState.JOURNAL: "$text-accent",
}


class ArrayList(OptionList):
    """A list with an entry for each array. Moving the highlight selects the array that the panel shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Array menu", id="arrays.open", tooltip="The actions on this array"),
    ]

    _entries: tuple[tuple[str, str], ...] = ()

    def show(self, state: LabState) -> None:
        glyphs, width = glyphs_of(self), self.scrollable_content_region.width
        prompts = [(status.name, entry(state, status, glyphs, width)) for status in state.arrays]
        prompts += _resting(state, glyphs)
        keys = tuple((name, text.markup) for name, text in prompts)
        if keys == self._entries:
            return
        names = [name for name, _ in keys]
        with self.prevent(OptionList.OptionHighlighted):
            if names == [name for name, _ in self._entries]:
                for index, (_, text) in enumerate(prompts):
                    if keys[index] != self._entries[index]:
                        self.replace_option_prompt_at_index(index, text)
            else:
                self.clear_options()
                self.add_options([Option(text, id=name) for name, text in prompts])
            if state.selected and state.selected.name in names:
                self.highlighted = names.index(state.selected.name)
        self._entries = keys


def entry(state: LabState, status: ArrayStatus, glyphs: Glyphs, width: int = 80) -> Content:
    """Return an array's name, level, size, state, and members by slot, wrapped if they do not fit."""
    tone, words = condition(state, status)
    head = Content.assemble(
        (f"{tone.glyph(glyphs)} {status.name}", f"bold {tone.style}"),
        f"  {status.level}  {human_bytes(status.size_bytes)}",
    )
    blank = "  " if head.cell_length + 2 + len(words) <= width else "\n  "
    head += Content.assemble(blank, (words, tone.style))
    shown = head + Content("\n  ") + stripe(state, status, glyphs)
    return shown + Content("\n  ") + inside(status, glyphs, width - 2) if status.inner else shown


def inside(status: ArrayStatus, glyphs: Glyphs, width: int) -> Content:
    """Return the inner arrays, each with a character for its state, as in ``inside ●md100 ●101 ↻102``."""
    text = Content.styled("inside", "$foreground-muted")
    arrays = status.inside.arrays if status.inside else ()
    left = len(arrays)
    for each in arrays:
        name = each.name.removeprefix("md") or "--"
        sign, style = glyphs.member, "$text-success"
        if each.is_lost:
            sign, style = glyphs.faulty, "$text-error"
        elif each.array and each.array.sync_action.is_busy:
            sign, style = glyphs.rebuilding, "$text-warning"
        elif each.is_degraded:
            sign, style = glyphs.vanished, "$text-warning"
        if text.cell_length + len(name) + 2 > width - 3 * (left > 1):
            return text + Content.styled(f" +{left}", "$foreground-muted")
        text += Content.styled(f" {sign}{name}", style)
        left -= 1
    return text


def stripe(state: LabState, status: ArrayStatus, glyphs: Glyphs) -> Content:
    """Return the members by slot, including missing ones, then the spares, as in ``│01│02│✘ │``."""
    by_slot = {member.slot: member for member in status.members if member.slot is not None}
    cells = [_cell(state, by_slot.get(slot), glyphs) for slot in range(status.raid_disks)]
    bar = Content.styled(glyphs.vertical, "$foreground-muted")
    others = [Content(" ") + _cell(state, member, glyphs) for member in status.members if member.slot is None]
    return Content("").join([bar, bar.join(cells), bar, *others])


def _cell(state: LabState, member: MemberStatus | None, glyphs: Glyphs) -> Content:
    if member is None:
        return Content.styled(f"{glyphs.vanished}--", "$text-error")
    shown = member_state(member)
    text = f"{shown.glyph(glyphs)}{short_name(state.disk_name(member.device))}"
    return Content.styled(text, _STYLES.get(shown, "$text-success"))


def _resting(state: LabState, glyphs: Glyphs) -> Iterator[tuple[str, Content]]:
    for array in state.resting_arrays:
        why = f"{array.refusal or 'stopped'}{'' if array.obstacle else '; Enter starts it'}"
        head = Content.assemble((f"{glyphs.quiet} {array.name}", "bold $foreground-muted"), "  not running")
        # Two stopped arrays may have the same name.
        word = state.found.word(array) if state.found else array.name
        yield word, head + Content.styled(f"\n  {why}", "$foreground-muted")


_BEYOND = 61 / 60
"""Samples are drawn for this multiple of the window, so that lines start at the left edge of the chart."""
CHARTS = ("rate", "latency", "members", "work")
_LOAD_TIP = "No load has run recently: [b]w[/b] starts one, and its latency is shown too."
_SHORT_LOAD_TIP = "No load is running: [b]w[/b] starts one."
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
                    title, Unit.BYTES_PER_SECOND, minimum_top=_LEAST_TOP_BYTES_PER_SECOND, id=f"chart-{name}"
                )
        yield ChangingText("", id="panel-events")

    def turn(self) -> None:
        self.first_chart = (self.first_chart + 1) % len(self.charts)

    def on_resize(self) -> None:
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

    watch_first_chart = watch_charts = on_resize

    def show(self, state: LabState) -> None:
        status = state.selected
        if status is None:
            return
        chunk = f"chunk {human_bytes(status.chunk_bytes)}" if status.chunk_bytes else "no chunks"
        # Without redundancy, md has no consistency policy and no sync.
        facts = f"{chunk}, {status.kind_words}" if status.is_redundant else chunk
        entitle(self, f"{status.name}  {status.level}  {human_bytes(status.size_bytes)}", facts)
        self._show_state(state, status)
        bar = self.query_one(SyncBar)
        bar.view = sync_view(state, status)
        bar.display = bar.view is not None
        self._show_verdict(state.marks.get(status.name))
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
        # Its height is fixed, so it needs no new layout (which would repaint the whole screen).
        self.query_one("#panel-state", Static).update(text, layout=False)

    def _show_verdict(self, view: MarkView | None) -> None:
        banner, verdict = self.query_one(VerdictBanner), view.verdict if view and not view.is_stale else None
        banner.display = verdict is not None
        if verdict:
            tone = Tone.GOOD if verdict.is_intact else Tone.BAD
            banner.show(tone, f"DATA {verdict.verdict.upper()}", verdict.sentence)

    def _show_tiles(self, state: LabState, status: ArrayStatus, history: History) -> None:
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
        # In virtual time, computation takes no time, so there is no processor share.
        is_virtual = state.facts is not None and state.facts.is_virtual_time
        busy = [] if is_virtual else history.md_cpu(status.name, seconds=1.0)
        self.query_one("#tile-cpu", Tile).show(busy[-1][1] if busy else None, Unit.FRACTION)

    def _show_charts(self, state: LabState, status: ArrayStatus, history: History) -> None:
        shown = shown_seconds(state)
        window = shown * _BEYOND
        now = state.snapshot.time_seconds if state.snapshot else None
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
            "latency": (Series("p50", history.load(LoadMeasure.P50_SECONDS, seconds=window), 0), Series("p99", p99, 3)),
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
        glyphs, now = glyphs_of(self), state.snapshot.time_seconds if state.snapshot else 0.0
        lines = []
        for event in list(state.events)[-max(1, box.size.height) :]:
            tone = tone_of(event)
            ago = f"{age_words(now - event.time_seconds):>10} "
            sign = (f"{tone.glyph(glyphs)} ", tone.style)
            lines.append(Content.assemble((ago, "$foreground-muted"), sign, event.sentence))
        nothing = Content.styled("nothing has happened yet", "$foreground-muted")
        box.update(Content("\n").join(reversed(lines)) if lines else nothing, layout=False)


_WORDS = {
    BayState.FREE: "free",
    BayState.MEMBER: "in sync",
    BayState.SPARE: "a spare",
    BayState.JOURNAL: "the journal",
    BayState.FAULTY: "faulty",
    BayState.REBUILDING: "being rebuilt",
    BayState.VANISHED: "vanished",
    BayState.REFUSED: "refused",
}


class Details(Vertical):
    """Details of the selected disk and array, in the space below the rack and the arrays."""

    def compose(self) -> ComposeResult:
        yield ChangingText("", id="details-disk")
        yield ChangingText("", id="details-array")
        yield StripeDiagram(id="details-stripe")
        yield SliceDiagram(id="details-slices")

    def show(self, state: LabState) -> None:
        bay = next((each for each in bays_of(state) if each.name == state.selected_disk), None)
        entitle(self, bay.name if bay else "Disk", human_bytes(bay.size_bytes) if bay else "")
        self.query_one("#details-disk", Static).update(
            Content("\n").join(self._disk(state, bay)) if bay else "no disk is selected"
        )
        self._show_stripe(state, state.selected)

    def _disk(self, state: LabState, bay: Bay) -> list[Content]:
        words = _WORDS[bay.state]
        if bay.note == STOPPED:
            words = f"in {bay.array}, which is not running"
        elif bay.array:
            words = f"{words} in {bay.array}" + ("" if bay.slot is None else f", slot {bay.slot}")
        elif bay.note:
            words = bay.note
        lines = [
            Content.assemble((f"{bay.state.glyph(glyphs_of(self))} ", "bold"), (words, "bold")),
            _fact("device", f"{bay.node}  {bay.model}"),
            _fact("serial", bay.serial or "none"),
        ]
        counters = state.snapshot.disks.get(bay.node.removeprefix("/dev/")) if state.snapshot else None
        if counters:
            lines += [
                _fact("read", human_bytes(counters.read_bytes)),
                _fact("written", human_bytes(counters.written_bytes)),
                _fact("waiting", f"{counters.in_flight} requests"),
            ]
        status, member = state.member_of(bay.name) or (None, None)
        if status and member and status.use_words(member):
            lines.append(_fact("used", status.use_words(member)))
        if member and member.is_write_mostly:
            lines.append(_fact("marked", "write-mostly"))
        if member and member.error_count is not None:
            lines.append(_fact("md repaired", f"{member.error_count} read errors"))
        return lines

    def _show_stripe(self, state: LabState, status: ArrayStatus | None) -> None:
        title, diagram = self.query_one("#details-array", Static), self.query_one(StripeDiagram)
        slices = self.query_one(SliceDiagram)
        picture = running_picture(state, status) if status else None
        diagram.display = picture is None
        slices.show(picture)
        if status and picture:
            title.update(Content.styled(f"\nWhich disks are in which arrays of {status.name}", "bold"))
            return
        level = status.known_raid if status else None
        if status is None or level is None:
            title.update("")
            diagram.clear("")
            return
        number = status.layout_number
        layout = layout_name(level.name, number) if number is not None else None
        title.update(Content.styled(f"\nWhere {status.name} puts its data", "bold"))
        diagram.show(level, layout, _columns(state, status), status.chunk_bytes)


def _fact(label: str, value: str) -> Content:
    return Content.assemble((f"{label:<12}", "$foreground-muted"), value)


def _columns(state: LabState, status: ArrayStatus) -> list[DiagramMember]:
    by_slot = {member.slot: member for member in status.members}
    members = [by_slot.get(slot) for slot in range(status.raid_disks)]
    return [diagram_member(state, member) if member else DiagramMember("gone", failed=True) for member in members]


_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}
_TITLES = {MachinePhase.OPEN: "Nothing is built yet.", MachinePhase.OPENING: "The machine is starting."}
_INVITES = {
    "build": "lets you choose level, disks, chunk and layout",
    "drills": "disasters to practise on",
    "lessons": "leads you through everything, step by step",
}


class EmptyLab(VerticalScroll, can_focus=False):
    """The panel that is shown while no array is selected."""

    _shown: tuple[str, tuple[LabDisk, ...]] | None = None

    def compose(self) -> ComposeResult:
        yield ChangingText("", id="empty-words")
        yield LevelTable(id="empty-levels")

    def show(self, state: LabState) -> None:
        has_snapshot = state.is_open and state.snapshot is not None
        free = state.blank_disks[:FIRST_MEMBERS] if has_snapshot else ()
        title = _TITLES.get(state.phase, "There is no machine.") if has_snapshot or not state.is_open else "Looking."
        if state.resting_arrays and has_snapshot:
            title = "No array runs."
        if (title, free) == self._shown:
            return
        self._shown = (title, free)
        lines = ["", f"[bold $accent]{title}[/]", ""]
        if len(free) == FIRST_MEMBERS:
            lines.append("[b]b[/b]  builds a RAID 5 of four disks: a good first array")
        lines += [f"[b]{entry.key}[/b]  {_INVITES[entry.mode]}" for entry in SCREENS if entry.mode in _INVITES]
        if free:
            count = _NUMBERS[len(free)]
            lines += ["", "", f"[b]What the first {count} free disks could become[/b]" if len(free) > 1 else ""]
        self.query_one("#empty-words", Static).update(Content.from_markup("\n".join(lines) + "\n"))
        draft = Draft().with_disks([disk.name for disk in free])
        self.query_one(LevelTable).show(level_rows(draft, free, has_current=False) if len(free) > 1 else ())


_ACTIONS = {each.short_name(): each for each in KEY_ACTIONS}
_TALL_ROWS = 36
"""The details are shown only on screens with at least this many rows."""


class LabScreen(ModeScreen):
    """The Lab screen, key 1."""

    CSS_PATH = "lab_screen.tcss"
    AREA = "Lab"
    HELP = (
        "The rack on the left holds the lab's disks. Below it are the arrays, each with its members in order. "
        "The panel shows the selected array at work: the rates of the load, the activity of each member, "
        "the progress of a rebuild, and events, all on one time axis.\n\n"
        "Select a disk or an array with the arrows or the mouse, then press a key, or Enter for a menu of all actions."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        command_key("lab.build", "b", "Build", "array create", "Build a good first RAID 5, or go to the Build screen"),
        *(
            key_for(each, f"act('{each.short_name()}')", id=action_id(each), show=each.in_footer)
            for each in KEY_ACTIONS
        ),
        hidden_key("lab.next", "tab", "app.focus_next", "Next panel", "From the rack to the arrays"),
        hidden_key("lab.previous", "shift+tab", "app.focus_previous", "Previous panel", "And back"),
        hidden_key("lab.charts", "g", "turn", "Charts", "Put the next chart first"),
        pause_key("space"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._followed = ""
        """The selected disk that the rack's cursor was last moved to."""
        self._shown = ("", "")
        """The array and the disk that keys apply to, as last shown or selected."""

    def body(self) -> ComposeResult:
        with Horizontal(id="lab"):
            with Vertical(id="lab-left"):
                yield titled(Rack(bays_of, id="rack"), "Rack")
                yield titled(ArrayList(id="arrays", markup=False), "Arrays")
                yield Details(id="details", classes="framed")
            yield ArrayPanel(id="panel", classes="framed")
            yield EmptyLab(id="empty", classes="framed")

    def on_mount(self) -> None:
        rack = self.query_one(Rack)
        rack.focus()
        # The rack is updated before the rest of the screen, which depends on its cursor.
        self.watch(self, "changes", partial(rack.show, self.app.lab), init=False)

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.height >= _TALL_ROWS, "-tall")

    def show_state(self, state: LabState) -> None:
        rack = self.query_one(Rack)
        # Move the cursor only to a disk that was selected elsewhere, because the cursor may be ahead of the state.
        if state.selected_disk and state.selected_disk != self._followed and state.disk(state.selected_disk):
            self._followed = state.selected_disk
            rack.move_to(state.selected_disk)
        if rack.current and state.disk(state.selected_disk or "") is None:
            self._followed = rack.current.name
            self.app.select(disk=self._followed)
        free = len(state.free_disks)
        entitle(rack, subtitle=f"{free} of {len(state.disks)} free" if state.disks else "")
        arrays = self.query_one(ArrayList)
        arrays.show(state)
        entitle(arrays, subtitle="" if arrays.option_count else "none yet")
        panel, empty = self.query_one(ArrayPanel), self.query_one(EmptyLab)
        panel.display = state.selected is not None
        empty.display = not panel.display
        panel.show(state)
        empty.show(state)
        if self.has_class("-tall"):
            self.query_one(Details).show(state)
        self._shown = self._aim()

    def _aim(self) -> tuple[str, str]:
        """Return the names of the array and the disk that keys apply to, or "" if there is none."""
        status, disk = target_array(self.app.lab), selected_disk(self.app.lab)
        return status.name if status else "", disk.name if disk else ""

    def _follow_cursor(self) -> None:
        """Select the disk under the cursor, even if the message about its last move is still queued."""
        bay = self.query_one(Rack).current
        if bay and bay.name != self._followed:
            self._select_bay(bay)

    def _select_bay(self, bay: Bay) -> None:
        self._followed = bay.name
        found = self.app.lab.member_of(bay.name)
        self.app.select(disk=bay.name, array=found[0].name if found else None)
        self._shown = self._aim()

    def _has_disappeared(self) -> bool:
        """Whether the array or disk that was selected when a key was pressed no longer exists.

        In this case, show a notice. The key must not act on another array or disk, but the next press applies to the
        new selection.
        """
        (array, disk), state = self._shown, self.app.lab
        missing = array if array and state.array(array) is None else disk if disk and state.disk(disk) is None else ""
        if not missing:
            return False
        self.app.show_now()
        now = " and ".join(filter(None, self._shown))
        self.notify(f"{missing} no longer exists. Selected now: {now or 'nothing'}.", severity="warning", markup=False)
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "act":
            return not _ACTIONS[str(parameters[0])].obstacle(selection_of(self.app.lab))
        return action != "build" or self.app.lab.is_open

    def action_act(self, name: str) -> None:
        """Perform an action on the selection if this is possible. If the action has a choice, show its menu first."""
        self._follow_cursor()
        kind, it = _ACTIONS[name], selection_of(self.app.lab)
        if self._has_disappeared() or kind.obstacle(it):
            return
        if kind.picks:
            choose(self.app, kind, it)
        elif issubclass(kind, PlanAction):
            self.app.ask(kind.on_selection(it).plan, note=kind.note(it))
        else:
            do(self.app, kind.on_selection(it))

    def action_build(self) -> None:
        build(self.app)

    def on_rack_moved(self, event: Rack.Moved) -> None:
        # The cursor may have moved again since the event.
        self._follow_cursor()

    def on_rack_opened(self, event: Rack.Opened) -> None:
        self._select_bay(event.bay)
        self._open_menu(event.bay.name, Fills.DISK)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.app.select(array=event.option_id)
        self._shown = self._aim()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        name = str(event.option_id)
        if self.app.lab.array(name) is None:
            start_array(self.app, name)
            return
        self.app.select(array=name)
        self._open_menu(name, Fills.ARRAY)

    def _open_menu(self, name: str, acts_on: Fills) -> None:
        """Show a menu of all possible actions. Those that act on a disk, or on an array (``acts_on``), come first."""
        state = self.app.lab
        found = sorted(applying(state), key=lambda kind: kind.acts_on() is not acts_on)
        if not found:
            self.notify(f"Nothing can be done with {name} now.", markup=False)
            return
        choices = [Choice(each.short_name(), each.label, each.tooltip, each.key) for each in found]
        disk, status = selected_disk(state), target_array(state)
        title = " in ".join(filter(None, (disk.name if disk else "", status.name if status else "")))

        def then(chosen: str) -> None:
            self.call_later(self.action_act, chosen)

        self.app.pick(title or name, choices, then)

    def action_turn(self) -> None:
        self.query_one(ArrayPanel).turn()
        self.app.show_soon()
