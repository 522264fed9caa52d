"""The lab's disks as bays of a rack, and the lab's state as values for charts, bars and other widgets.

A bay is painted as a card, or as one line if there is less room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message

from lab.arrays.spec import ArrayPreview, SliceRow
from lab.arrays.status import ArrayStatus, MemberStatus, SliceState, SyncAction
from lab.disks import LabDisk
from lab.units import human_bytes
from tui.charts import DiagramMember, Mark, Series, SliceCell, SliceLine, SlicePicture
from tui.keys import hidden_key
from tui.look import Glyphs, Tone
from tui.quantities import Unit, format_value
from tui.state import FIRST_SYNC, LabState
from tui.widgets import Line, LineWidget, SyncView, shorten

if TYPE_CHECKING:
    from lab.session.monitor import Event, Point

CARD_ROWS = 5
CARD_LEAST_CELLS = 22
LIST_LEAST_CELLS = 38


class BayState(StrEnum):
    """The state of the disk in a bay."""

    FREE = "free"
    MEMBER = "member"
    SPARE = "spare"
    JOURNAL = "journal"
    FAULTY = "faulty"
    REBUILDING = "rebuilding"
    VANISHED = "vanished"
    """The disk was present, but no longer responds."""
    REFUSED = "refused"
    """The disk is not one of the lab's, or must not be written to now."""

    def glyph(self, glyphs: Glyphs) -> str:
        sign: str = getattr(glyphs, self.value)
        return sign


@dataclass(frozen=True, slots=True)
class Bay:
    """A disk as the rack shows it."""

    name: str
    node: str = ""
    serial: str = ""
    size_bytes: int = 0
    model: str = ""
    """The model or kind of the drive, such as ``hdd-7200``, ``ssd`` or ``file``."""
    state: BayState = BayState.FREE
    array: str = ""
    slot: int | None = None
    reads_per_second: float = 0.0
    writes_per_second: float = 0.0
    busy_fraction: float = 0.0
    progress: float | None = None
    """The progress of its rebuild, from 0 to 1; None if it is not being rebuilt."""
    note: str = ""
    """Shown instead of the words for the state."""

    def words(self, glyphs: Glyphs, cells: int = 80) -> str:
        """Return the state in words, shortened to ``cells``."""
        if self.note:
            return shorten(self.note, cells, glyphs.ellipsis)
        if self.state is BayState.VANISHED:
            return shorten("vanished", cells, glyphs.ellipsis)
        role: str = self.state.value
        if self.state is BayState.MEMBER and self.slot is not None:
            role = f"slot {self.slot}"
        elif self.state is BayState.REBUILDING and self.progress is not None:
            role = f"{self.progress * 100:.0f} %"
        text = f"{self.array} {glyphs.separator} {role}" if self.array else role
        full = f"{text} rebuilt" if role.endswith("%") else text
        return full if len(full) <= cells else shorten(text, cells, glyphs.ellipsis)

    @property
    def node_words(self) -> str:
        """The device node without ``/dev/``, such as ``ubda``."""
        return self.node.removeprefix("/dev/")

    @property
    def size_words(self) -> str:
        return human_bytes(self.size_bytes) if self.size_bytes else ""

    @property
    def kind_words(self) -> str:
        return f"{self.size_words} {self.model}".strip()


@dataclass(frozen=True, slots=True)
class BayLook:
    """How a bay is highlighted."""

    at_cursor: bool
    """Whether the cursor is on it and the rack has the focus."""
    chosen: bool | None
    """Whether it is chosen; None if this rack does not let the user choose disks."""


def activity_sign(bay: Bay, glyphs: Glyphs) -> str:
    """Return the activity light of a drive: off when idle, else a character whose height shows how busy it is."""
    if not (bay.reads_per_second or bay.writes_per_second or bay.busy_fraction):
        return glyphs.light_off
    top = len(glyphs.levels) - 1
    return glyphs.levels[max(1, min(top, round(bay.busy_fraction * top)))]


def rates_text(bay: Bay) -> str:
    """Return reads and writes per second, such as ``r 1.2k  w 340``, or an empty string for an idle disk."""
    if not (bay.reads_per_second or bay.writes_per_second):
        return ""
    reads, writes = (format_value(rate, Unit.IOPS) for rate in (bay.reads_per_second, bay.writes_per_second))
    return f"r {reads}  w {writes}"


def paint_card(rack: Rack, bay: Bay, look: BayLook, width: int) -> list[Line]:
    """Paint a box of ``CARD_ROWS`` lines, with name, kind, node, serial, state and activity."""
    glyphs = rack.glyphs
    is_absent = bay.state in (BayState.VANISHED, BayState.REFUSED)
    box = glyphs.heavy_box if look.at_cursor else glyphs.dashed_box if is_absent else glyphs.box
    edge = rack.bay_style(bay.state.value, look)
    text, faint = rack.bay_style("text", look), rack.bay_style("faint", look)

    def field(content: str, style: Style, sign: str = "") -> Line:
        line = rack.line(width).add(box.left, edge)
        inner = width - 4 - 2 * bool(sign)
        line.add(" ", text).add(f"{sign} " if sign else "", edge)
        line.add(shorten(content, inner, glyphs.ellipsis).ljust(inner), style)
        return line.add(" ", text).add(box.right, edge)

    top = rack.line(width).add(box.top_left, edge)
    if look.chosen is not None:
        top.add(f" {glyphs.chosen if look.chosen else glyphs.not_chosen}", edge)
    top.add(f" {shorten(bay.name, width - 8, glyphs.ellipsis)} ", rack.bay_style("name", look))
    top.add(box.top * (top.room - 1), edge).add(box.top_right, edge)
    light = activity_sign(bay, glyphs)
    bottom = rack.line(width).add(box.bottom_left, edge)
    rates = shorten(rates_text(bay), width - 7, glyphs.ellipsis)
    bottom.add(f" {light} ", edge).add(f"{rates} " if rates else "", text)
    bottom.add(box.bottom * (bottom.room - 1), edge).add(box.bottom_right, edge)
    kind, names = bay.kind_words, f"{bay.node_words} {glyphs.separator} {bay.serial}" if bay.serial else bay.node_words
    return [
        top,
        field(kind, text),
        field(names, faint),
        field(bay.words(glyphs, width - 6), edge, bay.state.glyph(glyphs)),
        bottom,
    ]


@dataclass(frozen=True, slots=True)
class RowCells:
    """The widths of the columns of a list, which are the same for every bay."""

    name: int
    node: int
    kind: int
    words: int

    @classmethod
    def fitting(cls, bays: Sequence[Bay], width: int, *, toggles: bool, glyphs: Glyphs) -> RowCells:
        """Return widths that fit. If there is little room, first omit the kind of drive, then the node."""
        name = max(len(bay.name) for bay in bays) + 1
        words = max(min(len(bay.words(glyphs)), 14) for bay in bays) + 1
        room = width - name - words - 5 - 2 * toggles
        node = max(len(bay.node_words) for bay in bays) + 1
        node = node if node <= room else 0
        kinds = (max(len(bay.kind_words) for bay in bays) + 1, max(len(bay.size_words) for bay in bays) + 1)
        kind = next((cells for cells in kinds if cells <= room - node), 0)
        return cls(name, node, kind, words)


def paint_row(rack: Rack, bay: Bay, look: BayLook, width: int, cells: RowCells) -> Line:
    """Paint a line with cursor, choice, state character, name, node, kind, state, rates and light."""
    glyphs = rack.glyphs
    edge, text = rack.bay_style(bay.state.value, look), rack.bay_style("text", look)
    faint = rack.bay_style("faint", look)
    line = rack.line(width).add(glyphs.cursor if look.at_cursor else " ", edge)
    if look.chosen is not None:
        line.add(f"{glyphs.chosen if look.chosen else glyphs.not_chosen} ", edge)
    line.add(f"{bay.state.glyph(glyphs)} ", edge)
    line.add(bay.name.ljust(cells.name), rack.bay_style("name", look))
    kind = bay.kind_words if len(bay.kind_words) < cells.kind else bay.size_words
    line.add(bay.node_words.ljust(cells.node) if cells.node else "", faint)
    line.add(kind.ljust(cells.kind) if cells.kind else "", faint)
    rates = rates_text(bay)
    if line.room - 3 - cells.words < len(rates):
        rates = ""
    words = bay.words(glyphs, line.room - 2 - (len(rates) + 1 if rates else 0))
    line.add(words, edge).add(" " * (line.room - 2 - len(rates)), text).add(rates, text)
    return line.add(f" {activity_sign(bay, glyphs)}", edge)


_CARD_MOST_CELLS = 34
_LIST_MOST_CELLS = 100
_GAP_CELLS = 1


class Rack(LineWidget, can_focus=True):
    """Disks as cards, or as lines if cards do not fit.

    Keys and the mouse move a cursor and, with ``toggles``, choose disks.
    """

    HELP = "The lab's disks. Arrows move, Enter opens the menu of a disk, Space chooses a disk."
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("rack.up", "up,k", "move(0, -1)", "Up", "To the disk above"),
        hidden_key("rack.down", "down,j", "move(0, 1)", "Down", "To the disk below"),
        hidden_key("rack.left", "left,h", "move(-1, 0)", "Left", "To the disk on the left"),
        hidden_key("rack.right", "right,l", "move(1, 0)", "Right", "To the disk on the right"),
        hidden_key("rack.first", "home", "first", "First disk", "To the first disk"),
        hidden_key("rack.last", "end", "last", "Last disk", "To the last disk"),
        Binding("enter", "open", "Disk menu", id="rack.open", tooltip="The actions on this disk"),
        Binding("space,enter", "choose", "Toggle", id="rack.toggle", tooltip="Choose or remove this disk"),
        Binding("a", "choose_free", "All free", id="rack.choose-free", tooltip="Choose every free disk"),
        Binding("n", "choose_none", "None", id="rack.choose-none", tooltip="Choose no disk"),
    ]

    @dataclass
    class Moved(Message):
        """The cursor moved to a different disk."""

        bay: Bay

    class Opened(Moved):
        """The user requested the menu of a disk with Enter or a double click."""

    class Refused(Moved):
        """The user chose a disk that belongs to no array and is not blank."""

    @dataclass
    class Toggled(Message):
        """The user changed the choice of disks. The message contains only the change, as earlier ones may be queued."""

        added: tuple[str, ...] = ()
        removed: tuple[str, ...] = ()

    def __init__(
        self,
        bays_of: Callable[[LabState], tuple[Bay, ...]],
        *,
        toggles: bool = False,
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        """``bays_of`` returns the bays to show."""
        super().__init__(id=id)
        self.toggles = toggles
        self._bays_of = bays_of
        self._bays: tuple[Bay, ...] = ()
        self.chosen: tuple[str, ...] = ()
        """The names of the chosen disks, in the order in which they were chosen."""
        self._cursor = 0
        self._columns = 1
        self._first_row = 0
        self._row_height = 1

    @property
    def current(self) -> Bay | None:
        return self._bays[self._cursor] if self._cursor < len(self._bays) else None

    def show(self, state: LabState) -> None:
        """Show the disks. The cursor and the choice stay with the disks of the same names."""
        bays = self._bays_of(state)
        if bays == self._bays:
            return
        current, count = self.current, len(self._bays)
        self._bays = bays
        names = [bay.name for bay in self._bays]
        if current and current.name in names:
            self._cursor = names.index(current.name)
        self._cursor = min(self._cursor, max(0, len(names) - 1))
        self.chosen = tuple(name for name in self.chosen if name in names)
        if count != len(names):
            self.refresh(layout=True)
        else:
            self.refresh_differences()

    def choose(self, names: Iterable[str]) -> None:
        """Show exactly these disks as chosen, if they exist, without posting a message."""
        known = {bay.name for bay in self._bays}
        chosen = tuple(name for name in dict.fromkeys(names) if name in known)
        if chosen != self.chosen:
            self.chosen = chosen
            self.refresh()

    def _toggle(self, names: Iterable[str]) -> None:
        """Apply the user's choice and post Toggled. To avoid an endless loop, ``choose`` does not post it."""
        before = self.chosen
        self.choose(names)
        if self.chosen != before:
            added = tuple(name for name in self.chosen if name not in before)
            removed = tuple(name for name in before if name not in self.chosen)
            self.post_message(self.Toggled(added, removed))

    def move_to(self, name: str) -> None:
        for index, bay in enumerate(self._bays):
            if bay.name == name:
                self._set_cursor(index)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow choosing only with ``toggles``. Enter then chooses instead of opening the menu."""
        if action == "open":
            return not self.toggles
        return self.toggles or action not in ("choose", "choose_free", "choose_none")

    def action_move(self, across: int, down: int) -> None:
        index = self._cursor + across + down * self._columns
        if 0 <= index < len(self._bays):
            self._set_cursor(index)

    def action_first(self) -> None:
        self._set_cursor(0)

    def action_last(self) -> None:
        self._set_cursor(len(self._bays) - 1)

    def action_open(self) -> None:
        if self.current:
            self.post_message(self.Opened(self.current))

    def action_choose(self) -> None:
        bay = self.current
        if bay is None:
            return
        if bay.name in self.chosen:
            self._toggle(name for name in self.chosen if name != bay.name)
        elif bay.state is BayState.FREE:
            self._toggle([*self.chosen, bay.name])
        elif bay.array or bay.state is not BayState.REFUSED:
            self.notify(f"{bay.name} is not free: {bay.words(self.glyphs)}", severity="warning")
        else:
            self.post_message(self.Refused(bay))

    def action_choose_free(self) -> None:
        self._toggle([*self.chosen, *(bay.name for bay in self._bays if bay.state is BayState.FREE)])

    def action_choose_none(self) -> None:
        self._toggle(())

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        index = self._index_at(offset.x, offset.y) if offset else None
        if index is None:
            return
        event.stop()
        self._set_cursor(index)
        if self.toggles:
            self.action_choose()
        elif event.chain == 2:
            self.action_open()

    def _index_at(self, x: int, y: int) -> int | None:
        width = self._cell_width(self.size.width)
        column, row = x // (width + _GAP_CELLS), y // self._row_height + self._first_row
        index = row * self._columns + column
        is_gap = x % (width + _GAP_CELLS) >= width
        return index if not is_gap and column < self._columns and index < len(self._bays) else None

    def _set_cursor(self, index: int) -> None:
        if 0 <= index < len(self._bays) and index != self._cursor:
            self._cursor = index
            self.refresh_differences()
            self.post_message(self.Moved(self._bays[index]))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if not self._bays:
            return 1
        is_compact = self._rows(width, cards=True) * CARD_ROWS > viewport.height // 3
        return self._rows(width, cards=not is_compact) * (1 if is_compact else CARD_ROWS)

    def _rows(self, width: int, *, cards: bool) -> int:
        return math.ceil(len(self._bays) / self._columns_for(width, cards=cards))

    def _columns_for(self, width: int, *, cards: bool) -> int:
        """Return the smallest number of columns that gives the minimum number of rows."""
        least = CARD_LEAST_CELLS if cards else LIST_LEAST_CELLS
        fit = max(1, (width + _GAP_CELLS) // (least + _GAP_CELLS))
        rows = math.ceil(len(self._bays) / fit)
        return max(1, math.ceil(len(self._bays) / rows)) if rows else 1

    def _cell_width(self, width: int) -> int:
        most = _CARD_MOST_CELLS if self._row_height > 1 else _LIST_MOST_CELLS
        return min(most, (width + _GAP_CELLS) // self._columns - _GAP_CELLS)

    def paint(self, width: int, height: int) -> list[Line]:
        if not self._bays:
            return [self.line(width).add("no disks yet", self.style("empty"))]
        is_compact = self._rows(width, cards=True) * CARD_ROWS > height
        self._columns = self._columns_for(width, cards=not is_compact)
        self._row_height = 1 if is_compact else CARD_ROWS
        self._scroll_to_cursor(max(1, height // self._row_height))
        cell = self._cell_width(width)
        cells = RowCells.fitting(self._bays, cell, toggles=self.toggles, glyphs=self.glyphs)
        lines: list[Line] = []
        for index in range(self._first_row * self._columns, len(self._bays)):
            if index % self._columns == 0:
                lines += [self.line(width) for _ in range(self._row_height)]
            bay = self._bays[index]
            at_cursor = index == self._cursor and self.has_focus
            look = BayLook(at_cursor, bay.name in self.chosen if self.toggles else None)
            painted = [paint_row(self, bay, look, cell, cells)] if is_compact else paint_card(self, bay, look, cell)
            for line, part in zip(lines[-self._row_height :], painted, strict=True):
                line.extend(part).add(" " * _GAP_CELLS)
        return lines[:height]

    def bay_style(self, name: str, look: BayLook) -> Style:
        style = self.style(name)
        if look.chosen:
            chosen = self.style("chosen")
            style += Style(bgcolor=chosen.bgcolor, color=chosen.color if name == BayState.FREE else None)
        elif look.at_cursor:
            style += Style(bgcolor=self.style("cursor").bgcolor)
        return style + Style(bold=True) if look.at_cursor else style

    def _scroll_to_cursor(self, visible_rows: int) -> None:
        row = self._cursor // self._columns
        rows = math.ceil(len(self._bays) / self._columns)
        self._first_row = max(0, min(self._first_row, rows - visible_rows))
        self._first_row = min(max(self._first_row, row - visible_rows + 1), row)


STOPPED = "stopped"
"""The note on a disk whose array is stopped."""
MINUTE_SECONDS = 60.0
_SNAPSHOTS_PER_MINUTE = 240
_WINDOWS_SECONDS = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
_ABOUT = 1.25
"""A window is also chosen for longer spans, up to this multiple of its length."""
# These are in order of priority, because a sample with several events is marked with the first of them.
_MARK_WORDS = {
    "array-appeared": "built",
    "array-broken": "broken",
    "disk-vanished": "pulled",
    "member-faulty": "fail",
    "mismatch": "mismatch",
    "disk-returned": "back",
    "restored": "whole",
    "sync-finished": "done",
    "member-added": "add",
    "member-removed": "remove",
    "sync-started": "sync",
}


def bays_of(state: LabState) -> tuple[Bay, ...]:
    """Return a bay for each disk."""
    return tuple(_bay(state, disk) for disk in state.disks)


def _bay(state: LabState, disk: LabDisk) -> Bay:
    from lab.session.monitor import Measure

    def now(measure: Measure) -> float:
        return (state.history.now_rate(disk.kernel_name, measure) if state.history else None) or 0.0

    status, member = state.member_of(disk.name) or (None, None)
    resting = next((array for array in state.found_arrays if disk.node in array.devices), None)
    is_vanished = state.snapshot is not None and disk.kernel_name in state.snapshot.vanished
    shown = BayState.VANISHED if is_vanished else member_state(member) if member else BayState.FREE
    is_rebuilding = shown is BayState.REBUILDING and status is not None and status.sync_progress is not None
    note = STOPPED if resting and not member else status.member_note(member) if status and member else ""
    if not status and not resting:
        note = carried_words(state, disk)
    return Bay(
        name=disk.name,
        node=disk.node,
        serial=disk.serial,
        size_bytes=disk.size_bytes,
        model=disk.model or str(disk.kind),
        state=shown,
        array=status.name if status else resting.name if resting else "",
        slot=member.slot if member else None,
        reads_per_second=now(Measure.READ_IOPS),
        writes_per_second=now(Measure.WRITE_IOPS),
        busy_fraction=now(Measure.UTILISATION),
        progress=status.sync_progress.fraction if is_rebuilding and status and status.sync_progress else None,
        note=note,
    )


def carried_words(state: LabState, disk: LabDisk) -> str:
    """Describe the contents of a disk that belongs to no array. Return "" if it is blank."""
    if former := state.former_array(disk):
        return f"was in {former.name}"
    types = ", ".join(state.carried_by(disk))
    return f"carries {types}" if types else ""


def member_state(member: MemberStatus) -> BayState:
    """Return the state of a member of a running array."""
    # A disk that has failed only in some of an array's inner arrays has no flag.
    if member.is_faulty or not member.flags:
        return BayState.FAULTY
    if member.is_journal:
        return BayState.JOURNAL
    if member.is_rebuilding:
        return BayState.REBUILDING
    return BayState.SPARE if member.is_spare else BayState.MEMBER


def sync_view(state: LabState, status: ArrayStatus) -> SyncView | None:
    """Return the bar of the current sync, or None if there is none."""
    if status.sync_action.is_busy and status.sync_progress:
        pace = state.history.pace(status.name) if state.history else None
        return SyncView(
            action=_sync_words(state, status),
            fraction=status.sync_progress.fraction,
            bytes_per_second=pace.bytes_per_second if pace else None,
            eta_seconds=pace.left_seconds if pace else None,
        )
    return None


def _sync_words(state: LabState, status: ArrayStatus) -> str:
    """Name the sync: ``rebuild``, or ``rebuild 2 of 5`` for inner arrays. A first sync is not a rebuild."""
    is_first = status.sync_action is SyncAction.RECOVER and status.name in state.first_syncs
    return f"{FIRST_SYNC if is_first else status.sync_action.noun} {status.sync_place}".strip()


def shown_seconds(state: LabState) -> float:
    """Return the length of the charts' time axis: a minute, or in virtual time the span of about a minute's samples.

    It adapts to the pace, and samples taken at a different pace remain visible for a while.
    """
    if state.pace is None or state.history is None:
        return MINUTE_SECONDS
    span = state.history.span_seconds(_SNAPSHOTS_PER_MINUTE)
    return next((float(seconds) for seconds in _WINDOWS_SECONDS if seconds * _ABOUT >= span), span)


def marks_of(state: LabState, status: ArrayStatus) -> tuple[Mark, ...]:
    """Return marks on the time axis for events of an array and of the disks, at most one per sample."""
    nodes = {disk.node for disk in state.disks}
    order = list(_MARK_WORDS)
    shown: dict[float, Event] = {}
    for event in state.events:
        if event.kind.value in order and (event.array == status.name or event.device in nodes):
            other = shown.get(event.time_seconds)
            if other is None or order.index(event.kind.value) < order.index(other.kind.value):
                shown[event.time_seconds] = event
    return tuple(Mark(time, _MARK_WORDS[event.kind.value], tone_of(event)) for time, event in shown.items())


_TONES = {
    **dict.fromkeys(("array-broken", "member-faulty", "degraded", "disk-vanished", "mismatch"), Tone.BAD),
    **dict.fromkeys(("member-in-sync", "restored", "disk-returned"), Tone.GOOD),
}


def tone_of(event: Event) -> Tone:
    """Return the tone of an event."""
    return _TONES.get(event.kind.value, Tone.NOTICE)


def member_series(state: LabState, status: ArrayStatus, seconds: float) -> tuple[Series, ...]:
    """Return the bytes per second of every member, reads and writes together, with six colours in turn."""
    from lab.session.monitor import Measure

    history = state.history
    if history is None:
        return ()
    found = []
    for number, member in enumerate(status.members):
        device = member.device.removeprefix("/dev/")
        reads = history.rates(device, Measure.READ_BYTES_PER_SECOND, seconds=seconds)
        writes = history.rates(device, Measure.WRITE_BYTES_PER_SECOND, seconds=seconds)
        found.append(Series(short_name(state.disk_name(member.device)), added(reads, writes), number % 6))
    return tuple(found)


def short_name(disk: str) -> str:
    """Return a short name for lines with many disks, such as ``02`` for ``disk02``."""
    return disk.removeprefix("/dev/").removeprefix("disk")


def added(first: Sequence[Point], second: Sequence[Point]) -> list[Point]:
    """Add two series. A gap in both remains a gap. If their lengths differ, return the first one that is not empty."""
    if not first or not second or len(first) != len(second):
        return list(first or second)
    return [
        (time, None if a is None and b is None else (a or 0.0) + (b or 0.0))
        for (time, a), (_, b) in zip(first, second, strict=True)
    ]


def planned_picture(shown: ArrayPreview, disks: tuple[str, ...], lost: Collection[str] = ()) -> SlicePicture | None:
    """Return the picture of an array of unequal disks before it is built. The disks in ``lost`` are shown as failed."""
    if not shown.rows:
        return None
    failed = {number for number, disk in enumerate(disks) if disk in lost}
    missing = {window: sum(disk in failed for disk in shown.disks_in(window)) for window in range(len(shown.widths))}

    def state(disk: int, window: int | None) -> SliceState | None:
        if window is None or disk not in failed:
            return SliceState.WORKING
        return SliceState.LOST if missing[window] > 1 else SliceState.MISSING

    lines = tuple(
        _slice_line(row, [state(disk, window) for disk, window in enumerate(row.windows)], shown.chunk_bytes)
        for row in shown.rows
    )
    members = tuple(DiagramMember(disk, number in failed) for number, disk in enumerate(disks))
    arrays = zip(shown.array_names, shown.widths, strict=True)
    return SlicePicture(members, lines, tuple((name, f"{data}+{parity}") for name, (data, parity) in arrays))


def _slice_line(row: SliceRow, states: Sequence[SliceState | None], chunk_bytes: int | None) -> SliceLine:
    """Return a row of the picture. ``states`` are the states of the slices, by disk."""
    cells = [
        None if window is None or state is None else SliceCell(window, state)
        for window, state in zip(row.windows, states, strict=True)
    ]
    return SliceLine(human_bytes(row.lines * (chunk_bytes or 0)), tuple(cells))


def running_picture(state: LabState, status: ArrayStatus) -> SlicePicture | None:
    """Return the picture of a running array that consists of inner arrays, or None for other arrays."""
    inside = status.inside
    if inside is None:
        return None
    lines = tuple(
        _slice_line(row, states, status.chunk_bytes) for row, states in zip(inside.rows, inside.states, strict=True)
    )
    arrays = tuple((each.name or "gone", each.width) for each in inside.arrays)
    return SlicePicture(tuple(diagram_member(state, place) for place in inside.places), lines, arrays)


def diagram_member(state: LabState, member: MemberStatus) -> DiagramMember:
    """Return a member as a column of a diagram."""
    name = state.disk_name(member.device) if member.device else "gone"
    return DiagramMember(name, failed=member.is_faulty, rebuilding=not (member.is_faulty or member.is_in_sync))


def inner_lines(status: ArrayStatus) -> list[tuple[str, str, str]]:
    """Return (name, width, condition) of each inner array."""
    lines = []
    for each in status.inside.arrays if status.inside else ():
        inner = each.array
        if inner is None:
            lines.append(("gone", each.width, "not running"))
            continue
        words = "lost" if each.is_lost else "degraded" if each.is_degraded else "whole"
        if inner.sync_action.is_busy and inner.sync_progress:
            words = f"{inner.sync_action.noun} {inner.sync_progress.fraction:.0%}"
        lines.append((inner.name, each.width, words))
    return lines
