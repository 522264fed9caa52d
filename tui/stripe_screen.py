"""The Stripe screen (the parity microscope), with a stripe as stored on the members, and crashes in small writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from lab.actions.action import Choice
from lab.arrays.geometry import ChunkKind
from lab.errors import LabError, SpecError
from lab.microscope.array_map import FoundPlace, find_place
from lab.microscope.picture import SeenCell, StripePicture, StripeVerdict, flip_plan, parse_place, read_stripe
from lab.microscope.small_write import (
    CrashOutcome,
    CrashState,
    SmallWrite,
    crash_head,
    crash_states,
    crash_words,
    judged_words,
    moment_words,
    observed_words,
    picture_of_block,
    repair_words,
    shape_words,
    write_head,
    write_really,
    write_tail,
)
from lab.plans import Plan
from lab.session.session import LabSession
from tui.charts import fitting_names
from tui.dialogs import TypedScreen
from tui.keys import command_key, hidden_key
from tui.look import Tone
from tui.mode import ModeScreen
from tui.state import LabState
from tui.widgets import ChangingText, Line, LineWidget, RowsWidget, VerdictBanner, entitle, shorten, titled, wrapped


@dataclass(frozen=True, slots=True)
class StepText:
    """The step-by-step text about a write or a crash, which replaces the verdict below the bytes."""

    title: str
    lines: tuple[str, ...]
    write: SmallWrite | None = None
    states: tuple[CrashState, ...] = ()
    names: tuple[str, ...] = ()


def small_write(name: str, sector: int, session: LabSession) -> StepText:
    """Predict the I/O of a small write to a block."""
    write, picture = picture_of_block(session, name, sector)
    shape = picture.shape
    table = [
        f"  {io.name}: {io.kind.value if io.kind else 'other data'}, {io.reads} read, {io.writes} written"
        for io in write.ios
        if io.reads or io.writes
    ]
    return StepText("A small write", (*write_head(shape, write), *table, *write_tail(shape, write)), write)


def crash_in_write(name: str, sector: int, session: LabSession) -> StepText:
    """Tabulate the states that a crash during a small write can leave."""
    write, picture = picture_of_block(session, name, sector)
    states = crash_states(picture, write)
    names = tuple(picture.shape.name_of(slot) for slot in range(picture.geometry.raid_disks))
    return StepText(crash_head(write), tuple(crash_words(picture.shape, states)), write, states, names)


def write_block(name: str, sector: int, session: LabSession) -> StepText:
    """Write the block, and compare md's I/O with the prediction."""
    seen = write_really(session, name, sector)
    table = [
        f"  {io.name}: read {io.read_bytes} bytes, wrote {io.written_bytes}; "
        f"predicted {expected.read_bytes} and {expected.written_bytes}"
        for io, expected in zip(seen.members, seen.predicted.ios, strict=True)
    ]
    return StepText(f"Block {sector // 8} was written", (*observed_words(seen), *table), seen.predicted)


_STYLES = {ChunkKind.DATA: "data", ChunkKind.COPY: "copy", ChunkKind.P: "p", ChunkKind.Q: "q"}
_VERDICTS = {
    StripeVerdict.AGREES: (Tone.GOOD, "AGREES"),
    StripeVerdict.DIFFERS: (Tone.BAD, "DIFFERS"),
    StripeVerdict.UNKNOWN: (Tone.NOTICE, "NOTHING TO COMPARE"),
}


def columns_of(picture: StripePicture) -> tuple[HexColumn, ...]:
    """Return a column for each chunk, by slot. Parity and missing chunks are followed by the computed contents."""
    found: list[HexColumn] = []
    for seen in sorted(picture.cells, key=lambda seen: (seen.cell.slot, seen.cell.sector)):
        found.append(_stored(picture, seen))
        if seen.computed is not None and (seen.cell.kind.is_parity or seen.data is None):
            wrong = frozenset(seen.differs)
            what = f"{seen.cell.kind.value} computed" if seen.cell.kind.is_parity else "computed"
            note = (Tone.QUIET, "not stored") if seen.data is None else _fits(seen)
            style = _STYLES[seen.cell.kind]
            short = (f"{seen.cell.kind.value}=" if seen.cell.kind.is_parity else "=", _count(seen))
            found.append(HexColumn(seen.cell.slot, "", what, style, seen.computed, wrong, *note, short))
    return tuple(found)


def _stored(picture: StripePicture, seen: SeenCell) -> HexColumn:
    cell, blamed = seen.cell, picture.comparison.blamed
    member = picture.member_of(cell)
    tone, note, wrong = Tone.QUIET, "", frozenset[int]()
    if seen.data is None:
        tone, note = Tone.BAD, picture.missing.get((cell.slot, cell.sector), "not read")
    elif not cell.kind.is_parity and seen.differs:
        (tone, note), wrong = _fits(seen), frozenset(seen.differs)
    if blamed and (blamed.slot, blamed.sector) == (cell.slot, cell.sector):
        tone, note, wrong = Tone.BAD, "wrong", frozenset(blamed.bytes_wrong)
    name = member.name if member else picture.shape.name_of(cell.slot)
    short = (cell.kind.value if cell.kind.is_parity else f"{cell.number}{chr(39) * min(cell.copy, 3)}", _count(seen))
    return HexColumn(cell.slot, name, cell.words, _STYLES[cell.kind], seen.data, wrong, tone, note, short)


def _count(seen: SeenCell) -> str:
    return str(len(seen.differs)) if seen.differs else ""


def _fits(seen: SeenCell) -> tuple[Tone, str]:
    count = len(seen.differs)
    if not count:
        return Tone.GOOD, "agrees"
    return Tone.BAD, f"{count} differ" if count > 1 else "1 differs"


def crash_rows(write: SmallWrite, states: Sequence[CrashState]) -> tuple[CrashRow, ...]:
    """Return a row for each state, with its completed writes as text."""
    kinds = {io.slot: io.kind.value if io.kind else "data" for io in write.ios}
    if len(write.target_slots) > 1:
        kinds = {slot: f"copy {number}" for number, slot in enumerate(write.target_slots)}
    return tuple(CrashRow(" + ".join(kinds[slot] for slot in state.written) or "nothing", state) for state in states)


class PlaceScreen(TypedScreen):
    """The dialog for the place to show."""

    AREA = "Place"
    HELP = (
        "A number is a stripe, block 33744 a block of 4 KiB of the array, and disk03@4100 a sector of a disk. Anything "
        "else is a file: a path on the machine, or on the array's file system, which is mounted read-only."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="place.cancel", tooltip="Close without changes"),
    ]
    TITLES = ("Go to", "Enter goes there, Esc closes")
    PLACEHOLDER = "703, block 33744, disk03@4100, or a file"
    MOST_LETTERS = 200


class ByteScreen(TypedScreen):
    """The dialog for the byte to flip."""

    AREA = "Byte"
    HELP = "A disk and a byte of its chunk in this stripe. The commands are shown before anything is changed."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="byte.cancel", tooltip="Close without changes"),
    ]
    TITLES = ("Flip a byte", "Enter shows the commands, Esc closes")
    PLACEHOLDER = "disk03:17"
    MOST_LETTERS = 80


@dataclass(slots=True)
class Looked:
    """The place that the screen shows, and its contents."""

    array: str = ""
    stripe: int = 0
    byte: int = 0
    """The first byte of each chunk that is shown."""
    slot: int | None = None
    """The member under the cursor."""
    picture: StripePicture | None = None
    problem: LabError | None = None
    text: StepText | None = None
    seen: tuple[object, ...] = ()
    """The state of the array when the stripe was read, as ``_read_state`` returns it."""


class StripeScreen(ModeScreen):
    """The Stripe screen, key 8."""

    CSS_PATH = "stripe_screen.tcss"
    AREA = "Stripe"
    HELP = (
        "One stripe as it is stored: a column for each member, and stored parity next to the parity computed from the "
        "data. Bytes that differ are marked with >. Below is the verdict: which member is wrong, if that can be "
        "determined, and what a check and a repair by md would do.\n\n"
        "Flip a byte without md's knowledge and watch how it is read, checked and repaired; step through a small "
        "write, and through a crash during one. Left and Right change the stripe; g goes to a block or to a file."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("stripe.next", "right", "stripe(1)", "Next", "The next stripe"),
        hidden_key("stripe.before", "left", "stripe(-1)", "Previous", "The previous stripe"),
        hidden_key("stripe.far-next", "plus", "stripe(100)", "100 forward", "100 stripes forward"),
        hidden_key("stripe.far-before", "minus", "stripe(-100)", "100 back", "100 stripes back"),
        hidden_key("stripe.down", "down", "row(1)", "Down", "The next bytes of the chunks"),
        hidden_key("stripe.up", "up", "row(-1)", "Up", "The previous bytes"),
        hidden_key("stripe.page-down", "pagedown", "row(1, True)", "Page down", "The next page"),
        hidden_key("stripe.page-up", "pageup", "row(-1, True)", "Page up", "The previous page"),
        hidden_key("stripe.member", "tab", "member(1)", "Member", "The next member"),
        hidden_key("stripe.member-before", "shift+tab", "member(-1)", "Back", "The previous member"),
        Binding("g", "go", "Go to", id="stripe.go", tooltip="Go to a stripe, a block, a sector of a disk, or a file"),
        Binding("a", "array", "Array", id="stripe.array", tooltip="The next array"),
        Binding("d", "difference", "Differs", id="stripe.difference", tooltip="Go to the next byte that differs"),
        command_key("stripe.flip", "f", "Flip", "array inspect", "Flip a byte without md's knowledge"),
        command_key("stripe.check", "c", "Check", "array scrub", "Let md compare the whole array"),
        command_key("stripe.repair", "r", "Repair", "array scrub", "Let md make parity or copies agree"),
        command_key("stripe.write", "w", "Write", "array inspect", "Step through a small write"),
        command_key("stripe.crash", "k", "Crash", "array inspect", "Step through a crash in such a write"),
        command_key("stripe.really", "e", "Execute", "array inspect", "Write the block; compare with the prediction"),
        hidden_key("stripe.verdict", "i", "verdict", "Verdict", "Show the verdict again"),
        hidden_key("stripe.words", "space", "words", "Text", "Enlarge the text or the bytes"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._at = Looked()
        self._is_reading = False

    def body(self) -> ComposeResult:
        with titled(Vertical(id="stripe-hex-box"), "Stripe"):
            yield StripeHex(id="stripe-hex")
        with titled(VerticalScroll(id="stripe-text", can_focus=False), "Verdict"):
            yield VerdictBanner(id="stripe-banner")
            yield CrashTable(id="stripe-crash")
            yield ChangingText("", id="stripe-words")

    # Showing a stripe.

    def show_state(self, state: LabState) -> None:
        status = state.selected if state.is_open else None
        at = self._at
        if status is None:
            self._at = Looked()
            why = "no array is running: press b on the Lab screen to create one"
            if not state.is_open:
                why = "the machine is not running"
            elif state.resting_arrays:
                why = "no array is running: the Lab screen (1) lists the stopped ones"
            self.query_one(StripeHex).clear(why)
        elif status.name != at.array:
            self._at = Looked(status.name)
            self._read()
        elif at.seen and at.seen != _read_state(state):
            self._read()
        self._show()

    def _read(self) -> None:
        """Read the stripe at the current place. If a stripe is already being read, read this one afterwards."""
        at = self._at
        if self._is_reading or not at.array:
            return
        self._is_reading = True
        at.seen = _read_state(self.app.lab)
        name, number = at.array, at.stripe

        def done(picture: StripePicture | None, problem: LabError | None = None) -> None:
            self._is_reading = False
            now = self._at
            if (now.array, now.stripe) != (name, number):
                self._read()
                return
            now.picture, now.problem = picture, problem

        self.app.look_up(
            lambda session: read_stripe(session, name, number), on_done=done, on_error=lambda error: done(None, error)
        )

    def _show(self) -> None:
        at, shown = self._at, self.query_one(StripeHex)
        box = self.query_one("#stripe-hex-box")
        if at.picture is None:
            problem = at.problem
            if at.array:
                shown.clear(problem.message if problem else "reading the members …")
            entitle(box, f"Stripe {at.stripe} of {at.array}" if at.array else "Stripe", "")
            self._show_text(StepText("Verdict", (problem.hint,) if problem and problem.hint else ()))
            return
        picture = at.picture
        shown.show(columns_of(picture), at.byte, at.slot, picture.skip_bytes)
        count = picture.geometry.stripe_count
        last = (picture.stripe.first_sector + picture.stripe.sectors - 1) // 8
        blocks = f"blocks {picture.stripe.first_sector // 8} to {last}"
        title = f"Stripe {at.stripe} of {count}: {blocks} of {shape_words(picture.shape)}"
        entitle(box, title, moment_words(picture))
        if at.text:
            self._show_text(at.text)
        else:
            self._show_verdict(picture)

    def _show_verdict(self, picture: StripePicture) -> None:
        # The last sentence matters most, because it says which member is wrong.
        *others, first = judged_words(picture)
        tone, headline = _VERDICTS[picture.comparison.verdict]
        self.query_one(VerdictBanner).show(tone, headline, first)
        self.query_one(CrashTable).show_states((), ())
        self.query_one("#stripe-words", Static).update("\n".join([*repair_words(picture), *others]))
        entitle(self.query_one("#stripe-text"), "Verdict", "")

    def _show_text(self, text: StepText) -> None:
        self.query_one(VerdictBanner).clear()
        rows = crash_rows(text.write, text.states) if text.write and text.states else ()
        self.query_one(CrashTable).show_states(rows, text.names)
        self.query_one("#stripe-words", Static).update("\n".join(text.lines))
        entitle(self.query_one("#stripe-text"), text.title, "i: back to the verdict" if text.write else "")

    # Moving to another place.

    def action_stripe(self, by: int) -> None:
        picture = self._at.picture
        last = picture.geometry.stripe_count - 1 if picture else self._at.stripe
        self._go_to(max(0, min(last, self._at.stripe + by)))

    def _go_to(self, stripe: int, byte: int | None = None, slot: int | None = None) -> None:
        at = self._at
        if stripe != at.stripe:
            # The old bytes remain until the new ones are read.
            at.stripe, at.text = stripe, None
        at.byte = at.byte if byte is None else byte
        at.slot = at.slot if slot is None else slot
        self._read()
        self.app.show_soon()

    def action_row(self, by: int, is_page: bool = False) -> None:
        shown, text, picture = self.query_one(StripeHex), self.query_one("#stripe-text"), self._at.picture
        if self.has_class("-words"):
            text.scroll_relative(y=by * (max(1, text.size.height - 1) if is_page else 1), animate=False)
        elif picture:
            step = shown.bytes_in_row()
            last = (picture.skip_bytes + picture.length_bytes - 1) // step * step
            to = self._at.byte + by * step * (shown.rows if is_page else 1)
            self._at.byte = max(picture.skip_bytes, min(last, to))
            self._show()

    def action_member(self, by: int) -> None:
        picture = self._at.picture
        if picture:
            slots = picture.geometry.raid_disks
            self._at.slot = (by - 1 if by < 0 else 0) % slots if self._at.slot is None else (self._at.slot + by) % slots
            self._show()

    def action_difference(self) -> None:
        picture = self._at.picture
        columns = columns_of(picture) if picture else ()
        wrong = sorted({byte + picture.skip_bytes for column in columns for byte in column.wrong}) if picture else []
        if not wrong:
            self.notify("No bytes differ in this stripe.")
            return
        step = self.query_one(StripeHex).bytes_in_row()
        row_end = self._at.byte + step
        found = next((byte for byte in wrong if byte >= row_end), wrong[0])
        self._at.byte = found // step * step
        self._show()

    def action_array(self) -> None:
        if names := [status.name for status in self.app.lab.arrays]:
            at = names.index(self._at.array) if self._at.array in names else -1
            self.app.select(array=names[(at + 1) % len(names)])

    def action_go(self) -> None:
        name = self._at.array

        def give(text: str) -> str | None:
            if not text:
                return f"type {PlaceScreen.PLACEHOLDER}"
            self.app.look_up(lambda session: find_place(session, name, text), on_done=self._found)
            return None

        intro = "A stripe, a block of the array, a sector of a disk, or a file on the array's file system."
        self.app.push_screen(PlaceScreen(intro, "", give))

    def _found(self, found: FoundPlace) -> None:
        if found.slot is not None:
            self.notify(f"{found.words}: stripe {found.stripe}, byte {found.byte} of the chunk.", markup=False)
        step = self.query_one(StripeHex).bytes_in_row()
        self._go_to(found.stripe, found.byte // step * step, found.slot)

    # Changing the stripe.

    def action_flip(self) -> None:
        picture = self._at.picture
        if picture is None:
            return
        member = picture.shape.name_of(self._at.slot or 0)
        name, stripe = self._at.array, self._at.stripe

        def give(text: str) -> str | None:
            try:
                disk, byte = parse_place(text)
            except SpecError as error:
                return f"{error.message}; type a disk and a byte, such as {member}:17"

            def make(session: LabSession) -> Plan:
                return flip_plan(read_stripe(session, name, stripe), session.node(disk), byte)

            note = "md does not notice: it returns wrong bytes without an error. c starts a check; i shows the verdict."
            self.app.ask(make, note=note, on_done=self._again)
            return None

        intro = f"Which byte of stripe {stripe}? A disk, and a byte of its chunk, counted from 0."
        self.app.push_screen(ByteScreen(intro, f"{member}:{self._at.byte}", give))

    def _again(self) -> None:
        self._at.text = None
        self._read()

    def action_check(self) -> None:
        name = self._at.array
        self.app.make_and_run(lambda session: session.array(name).scrub("check"))

    def action_repair(self) -> None:
        name, picture = self._at.array, self._at.picture
        note = " ".join(repair_words(picture)[1:]) if picture else ""
        self.app.ask(lambda session: session.array(name).scrub("repair"), note=note)

    def action_write(self) -> None:
        self._step(small_write)

    def action_crash(self) -> None:
        self._step(crash_in_write)

    def _step(self, make: Callable[[str, int, LabSession], StepText]) -> None:
        sector = self._sector_in_sight()
        if sector is not None:
            self.app.look_up(partial(make, self._at.array, sector), on_done=self._stepped)

    def _stepped(self, text: StepText) -> None:
        self._at.text = text

    def action_really(self) -> None:
        sector, name = self._sector_in_sight(), self._at.array
        if sector is None:
            return
        block = sector // 8

        def then(_: str) -> None:
            title = f"Write block {block} of {name}"
            self.app.job(title, partial(write_block, name, sector), on_done=self._written)

        choices = [
            Choice("write", f"Write block {block}", "all its bits are inverted; a second write restores them", "y")
        ]
        intro = "The data of the block are changed. The bytes that md reads and writes on each member are counted."
        self.app.pick(f"Write to {name}?", choices, then, intro=intro)

    def _written(self, text: StepText) -> None:
        self._read()
        self._stepped(text)

    def _sector_in_sight(self) -> int | None:
        """Return the array sector of the block at the cursor, in the member's data chunk or else in the first."""
        picture, at = self._at.picture, self._at
        if picture is None:
            return None
        cells = [cell for cell in picture.stripe.cells if not cell.kind.is_parity]
        first = min(cells, key=lambda cell: cell.first_sector, default=None)
        mine = next((cell for cell in cells if cell.slot == at.slot), first)
        return mine.first_sector + at.byte // 4096 * 8 if mine else None

    def action_verdict(self) -> None:
        self._at.text = None
        self._show()

    def action_words(self) -> None:
        self.toggle_class("-words")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        picture = self._at.picture
        if action in ("flip", "stripe", "row", "member", "write", "crash", "really"):
            return picture is not None
        if action == "difference":
            return picture is not None and bool(picture.comparison.repaired or picture.comparison.blamed)
        if action in ("check", "repair"):
            status = self.app.lab.array(self._at.array)
            return status is not None and status.is_redundant
        if action == "array":
            return len(self.app.lab.arrays) > 1
        return action != "go" or bool(self._at.array)

    def hint(self, state: LabState) -> str | None:
        if self._at.picture is None:
            return None
        moved = "text" if self.has_class("-words") else "bytes"
        return f"[b]Left Right[/b] stripes  [b]Up Down[/b] {moved}  [b]Tab[/b] member  [b]Space[/b] text or bytes"


def _read_state(state: LabState) -> tuple[object, ...]:
    """Return the state of the array. When it changes, the stripe is reread. Writes by a load are ignored."""
    status = state.selected
    if status is None:
        return ()
    members = tuple((member.device, member.slot, member.flags) for member in status.members)
    return (status.name, status.level, status.sync_action, status.mismatch_sectors, members)


_PLACE_CELLS = 8
_HEAD_LINES = 3
_BYTES_IN_ROW = (16, 8, 4, 2, 1)


@dataclass(frozen=True, slots=True)
class HexColumn:
    """The stored or the computed contents of a chunk."""

    slot: int
    name: str
    holds: str
    """The kind of the contents, such as ``data 9``, ``P`` or ``computed``."""
    style: str
    """The style, which is ``data``, ``copy``, ``p`` or ``q``."""
    data: bytes | None
    wrong: frozenset[int] = frozenset()
    """The indices in ``data`` of the bytes that differ."""
    tone: Tone = Tone.QUIET
    note: str = ""
    """The result in a word or two, such as ``agrees``, ``3 differ`` or ``missing``."""
    short: tuple[str, str] = ("", "")
    """The short forms of ``holds`` and ``note`` for narrow columns."""


class StripeHex(LineWidget):
    """The heads of the columns, above as many rows of bytes as fit."""

    _columns: reactive[tuple[HexColumn, ...]] = reactive(())
    _first: reactive[int] = reactive(0)
    _slot: reactive[int | None] = reactive(None)
    _skip: reactive[int] = reactive(0)
    _empty: reactive[str] = reactive("")

    def show(self, columns: tuple[HexColumn, ...], first: int, slot: int | None, skip: int) -> None:
        """Show columns from byte ``first`` of each chunk, with the cursor on ``slot``.

        The data of the columns begin at byte ``skip`` of each chunk.
        """
        self._columns, self._first, self._slot, self._skip = columns, first, slot, skip

    def clear(self, text: str) -> None:
        self._columns, self._empty = (), text

    @property
    def rows(self) -> int:
        return max(1, self.size.height - _HEAD_LINES)

    def bytes_in_row(self, width: int | None = None) -> int:
        """Return how many bytes of each chunk a row shows, which depends on the width."""
        room = (self.size.width if width is None else width) - _PLACE_CELLS
        count = max(1, len(self._columns))
        return next((each for each in _BYTES_IN_ROW if (3 * each + 1) * count <= room), 1)

    def paint(self, width: int, height: int) -> list[Line]:
        if not self._columns:
            return [self.line(width).add(text, self.style("place")) for text in wrapped(self._empty, width)]
        in_row = self.bytes_in_row(width)
        cell = 3 * in_row + 1
        shown = self._in_sight(max(1, (width - _PLACE_CELLS) // cell))
        heads = [self._head(width, shown, cell, part) for part in ("name", "holds", "note")]
        rows = []
        for row in range(max(0, height - _HEAD_LINES)):
            start = self._first + row * in_row
            if any(column.data and start - self._skip < len(column.data) for column in shown):
                rows.append(self._row(width, shown, start, in_row))
        return [*heads, *rows]

    def _in_sight(self, count: int) -> tuple[HexColumn, ...]:
        """Return ``count`` consecutive columns that include the cursor's."""
        slots = [column.slot for column in self._columns]
        at = slots.index(self._slot) if self._slot in slots else 0
        last = max(index for index, slot in enumerate(slots) if slot == slots[at])
        first = max(0, min(at, last - count + 1), last - count + 1) if last >= count else 0
        return self._columns[first : first + count]

    def _head(self, width: int, shown: Sequence[HexColumn], cell: int, part: str) -> Line:
        line = self.line(width)
        missing = len(self._columns) - len(shown)
        line.add(f"+{missing} more" if missing and part == "name" else "", self.style("place")).pad_to(_PLACE_CELLS)
        names = fitting_names([column.name for column in shown], cell - 2, self.glyphs.ellipsis)
        for column, name in zip(shown, names, strict=True):
            text, style = self._title(column, name, cell - 1, part)
            line.add(shorten(text, cell - 1, self.glyphs.ellipsis).ljust(cell - 1), self.style(style)).add(" ")
        return line

    def _title(self, column: HexColumn, name: str, room: int, part: str) -> tuple[str, str]:
        """Return the text above a column in this line of the head, and its style."""
        is_marked = bool(name) and column.slot == self._slot
        if part == "name":
            return (
                f"{self.glyphs.cursor if is_marked else ' '}{name}" if name else "",
                "cursor" if is_marked else "name",
            )
        if part == "holds":
            return (f" {column.holds}" if len(column.holds) < room else f" {column.short[0]}"), column.style
        note = column.note if len(column.note) + 3 <= room else column.short[1]
        sign = column.tone.glyph(self.glyphs) if column.note else ""
        return f" {sign} {note}".rstrip(), column.tone.value

    def _row(self, width: int, shown: Sequence[HexColumn], start: int, in_row: int) -> Line:
        line = self.line(width).add(f"{start:>{_PLACE_CELLS - 1}} ", self.style("place"))
        for column in shown:
            for byte in range(start - self._skip, start - self._skip + in_row):
                if column.data is None or not 0 <= byte < len(column.data):
                    line.add("   ")
                    continue
                value = column.data[byte]
                is_wrong = byte in column.wrong
                style = "wrong" if is_wrong else "byte" if value else "zero"
                line.add(f"{'>' if is_wrong else ' '}{value:02x}", self.style(style))
            line.add(" ")
        return line


_WORDS = {
    CrashOutcome.OLD: ("old", Tone.GOOD),
    CrashOutcome.NEW: ("new", Tone.GOOD),
    CrashOutcome.EITHER: ("either", Tone.NOTICE),
    CrashOutcome.MIXED: ("neither", Tone.NOTICE),
    CrashOutcome.HOLE: ("HOLE", Tone.BAD),
    CrashOutcome.LOST: ("lost", Tone.BAD),
}
_WRITTEN_CELLS = 18
_FITS_CELLS = 4
_LEAST_CELLS = 7


class CrashRow(NamedTuple):
    """A state that a crash can leave."""

    written: str
    """The completed writes, such as ``data + P``."""
    state: CrashState


class CrashTable(RowsWidget[CrashRow]):
    """Shows what is read in each state. An arrow marks the states that md's own order of writes can leave."""

    _names: tuple[str, ...] = ()

    def show_states(self, rows: Sequence[CrashRow], names: Sequence[str]) -> None:
        """Show these rows. ``names`` are the names of the disks, by slot."""
        self._names = tuple(names)
        self.show(rows)

    def paint(self, width: int, height: int) -> list[Line]:
        singles = [read.lost for read in self._rows[0].state.reads if len(read.lost) < 2] if self._rows else []
        room = width - _WRITTEN_CELLS - _FITS_CELLS
        cell = max(_LEAST_CELLS, min(12, room // max(1, len(singles))))
        names = fitting_names(self._names, cell - 2, self.glyphs.ellipsis)
        titles = ["all" if not lost else f"-{names[lost[0]]}" for lost in singles]
        head = self.line(width).add(" written".ljust(_WRITTEN_CELLS) + "fit ", self.style("head"))
        for title in titles:
            head.add(shorten(title, cell - 1, self.glyphs.ellipsis).ljust(cell), self.style("head"))
        return [head, *(self._line(width, row, singles, cell) for row in self._rows)]

    def _line(self, width: int, row: CrashRow, singles: Sequence[tuple[int, ...]], cell: int) -> Line:
        arrow = self.glyphs.arrow if row.state.is_beginning else " "
        written = shorten(f"{arrow}{row.written}", _WRITTEN_CELLS - 1, self.glyphs.ellipsis).ljust(_WRITTEN_CELLS)
        fits = self.glyphs.good if row.state.is_consistent else self.glyphs.bad
        line = self.line(width).add(written, self.style("written"))
        line.add(f" {fits}  ", self.style("good" if row.state.is_consistent else "notice"))
        for lost in singles:
            text, tone = _WORDS[row.state.without(*lost).outcome]
            line.add(text, self.style(tone.value)).add(" " * (cell - len(text)))
        return line
