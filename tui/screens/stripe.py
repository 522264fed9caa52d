"""The Stripe screen, the parity microscope: one stripe as stored on the members, and how md interprets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from lab.actions.action import Choice
from tui import stripe_steps as steps
from tui.dialogs import TypedScreen
from tui.keys import CommandKey
from tui.mode import ModeScreen
from tui.state import LabState
from tui.stripe_steps import Told
from tui.widgets.crash_table import CrashTable
from tui.widgets.lines import ChangingText, entitle, titled
from tui.widgets.stripe_hex import StripeHex
from tui.widgets.tiles import VerdictBanner

if TYPE_CHECKING:
    from lab.errors import LabError
    from lab.microscope.array_map import FoundPlace
    from lab.microscope.picture import StripePicture
    from lab.session.session import LabSession


class PlaceScreen(TypedScreen):
    """The dialog for the place to show."""

    AREA = "Place"
    HELP = (
        "A number is a stripe. block 33744 is a block of 4 KiB of the array, disk03@4100 a sector of a disk. Anything "
        "else is a file: a path on the machine, or one on the array's own file system, which is mounted read-only."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="place.cancel", tooltip="Close; nothing is changed"),
    ]
    TITLES = ("Go to", "Enter goes there, Esc closes")
    PLACEHOLDER = "703, block 33744, disk03@4100, or a file"
    MOST_LETTERS = 200


class ByteScreen(TypedScreen):
    """The dialog for the byte to flip."""

    AREA = "Byte"
    HELP = "A disk and a byte of its chunk in this stripe. The commands are shown before anything is changed."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="byte.cancel", tooltip="Close; nothing is changed"),
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
    """The first byte shown of each chunk."""
    slot: int | None = None
    """The member under the cursor."""
    picture: StripePicture | None = None
    problem: LabError | None = None
    told: Told | None = None
    seen: tuple[object, ...] = field(default=())
    """The state of the array when the stripe was read (``_standing``)."""


class StripeScreen(ModeScreen):
    """The Stripe screen, key 8."""

    CSS_PATH = "stripe.tcss"
    AREA = "Stripe"
    HELP = (
        "One stripe, read from the members themselves: a column for each, parity as it is stored beside parity as the "
        "data give it. What differs is marked with > before the byte, and below stands who is wrong, if that can be "
        "told, and what a check and a repair of md would do.\n\n"
        "Flip a byte behind md's back and watch it read, checked and repaired; step through a small write, and through "
        "a crash in the middle of one. Left and right go from stripe to stripe; g goes to a block or to a file."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "stripe(1)", "Next", show=False, id="stripe.next", tooltip="The next stripe"),
        Binding("left", "stripe(-1)", "Before", show=False, id="stripe.before", tooltip="The stripe before"),
        Binding("plus", "stripe(100)", "100 on", show=False, id="stripe.far-next", tooltip="100 stripes on"),
        Binding("minus", "stripe(-100)", "100 back", show=False, id="stripe.far-before", tooltip="100 stripes back"),
        Binding("down", "row(1)", "Down", show=False, id="stripe.down", tooltip="The next bytes of the chunks"),
        Binding("up", "row(-1)", "Up", show=False, id="stripe.up", tooltip="The bytes before"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="stripe.page-down", tooltip="A page of bytes on"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="stripe.page-up", tooltip="A page of bytes back"),
        Binding("tab", "member(1)", "Member", show=False, id="stripe.member", tooltip="The next member"),
        Binding(
            "shift+tab",
            "member(-1)",
            "Member before",
            show=False,
            id="stripe.member-before",
            tooltip="The member before",
        ),
        Binding("g", "go", "Go to", id="stripe.go", tooltip="Go to a stripe, a block, a sector of a disk, or a file"),
        Binding("a", "array", "Array", id="stripe.array", tooltip="The next array"),
        Binding("d", "difference", "Differs", id="stripe.difference", tooltip="To the next byte that differs"),
        CommandKey(
            "f",
            "flip",
            "Flip",
            id="stripe.flip",
            tooltip="Flip a byte of a member behind md's back",
            command="array inspect",
        ),
        CommandKey(
            "c",
            "check",
            "Check",
            id="stripe.check",
            tooltip="Let md compare the whole array and count",
            command="array scrub",
        ),
        CommandKey(
            "r",
            "repair",
            "Repair",
            id="stripe.repair",
            tooltip="Let md make parity or copies agree again",
            command="array scrub",
        ),
        CommandKey(
            "w",
            "write",
            "Write",
            id="stripe.write",
            tooltip="Step through a small write of the block in sight",
            command="array inspect",
        ),
        CommandKey(
            "k",
            "crash",
            "Crash",
            id="stripe.crash",
            tooltip="Step through a crash during such a write",
            command="array inspect",
        ),
        CommandKey(
            "e",
            "really",
            "Really",
            id="stripe.really",
            tooltip="Really write the block, and see what md did",
            command="array inspect",
        ),
        Binding("i", "verdict", "Verdict", show=False, id="stripe.verdict", tooltip="Back to how the stripe stands"),
        Binding("space", "words", "Words", show=False, id="stripe.words", tooltip="More room for words, or for bytes"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._at = Looked()
        self._is_reading = False

    def body(self) -> ComposeResult:
        with titled(Vertical(id="stripe-hex-box"), "Stripe"):
            yield StripeHex(id="stripe-hex")
        with titled(VerticalScroll(id="stripe-told", can_focus=False), "What it says"):
            yield VerdictBanner(id="stripe-banner")
            yield CrashTable(id="stripe-crash")
            yield ChangingText("", id="stripe-words")

    # Showing a stripe.

    def show_state(self, state: LabState) -> None:
        status = state.selected if state.is_open else None
        at = self._at
        if status is None:
            self._at = Looked()
            self.query_one(StripeHex).clear("no array runs: b on the Lab screen builds one")
        elif status.name != at.array:
            self._at = Looked(status.name)
            self._read()
        elif at.seen and at.seen != _standing(state):
            self._read()
        self._show()

    def _read(self) -> None:
        """Read the stripe. If a stripe is being read, the current place is read afterwards."""
        at = self._at
        if self._is_reading or not at.array:
            return
        self._is_reading = True
        at.seen = _standing(self.app.lab)
        name, number = at.array, at.stripe

        def done(picture: StripePicture | None, problem: LabError | None = None) -> None:
            self._is_reading = False
            now = self._at
            if (now.array, now.stripe) != (name, number):
                self._read()
                return
            now.picture, now.problem = picture, problem
            self.app.show_soon()

        self.app.look_up(partial(steps.look, name, number), on_done=done, on_error=lambda error: done(None, error))

    def _show(self) -> None:
        at, shown = self._at, self.query_one(StripeHex)
        box, told = self.query_one("#stripe-hex-box"), self.query_one("#stripe-told")
        if at.picture is None:
            problem = at.problem
            if at.array:
                shown.clear(problem.message if problem else "reading the members")
            entitle(box, f"Stripe {at.stripe} of {at.array}" if at.array else "Stripe", "")
            self._tell(Told("What it says", (problem.hint,) if problem and problem.hint else ()))
            return
        from lab.microscope.words import moment_words, shape_words
        from tui.widgets.stripe_columns import columns_of

        picture = at.picture
        shown.show(columns_of(picture), at.byte, at.slot, picture.skip_bytes)
        count = picture.geometry.stripe_count
        last = (picture.stripe.first_sector + picture.stripe.sectors - 1) // 8
        blocks = f"blocks {picture.stripe.first_sector // 8} to {last}"
        title = f"Stripe {at.stripe} of {count}: {blocks} of {shape_words(picture.shape)}"
        entitle(box, title, moment_words(picture))
        if at.told:
            self._tell(at.told)
        else:
            self._tell_verdict(picture)
        told.set_class(at.told is not None, "-stepping")

    def _tell_verdict(self, picture: StripePicture) -> None:
        from lab.microscope.words import judged_words, repair_words
        from tui.widgets.stripe_columns import verdict_of

        # The last sentence says which member is wrong, which matters most.
        *others, first = judged_words(picture)
        tone, headline = verdict_of(picture)
        self.query_one(VerdictBanner).show(tone, headline, first)
        self.query_one(CrashTable).show_states((), ())
        self.query_one("#stripe-words", Static).update("\n".join([*repair_words(picture), *others]))
        entitle(self.query_one("#stripe-told"), "What it says", "")

    def _tell(self, told: Told) -> None:
        from tui.widgets.stripe_columns import crash_rows

        self.query_one(VerdictBanner).clear()
        rows = crash_rows(told.write, told.states) if told.write and told.states else ()
        self.query_one(CrashTable).show_states(rows, told.names)
        self.query_one("#stripe-words", Static).update("\n".join(told.words))
        entitle(self.query_one("#stripe-told"), told.title, "i: back to the verdict" if told.write else "")

    # Moving to another place.

    def action_stripe(self, by: int) -> None:
        picture = self._at.picture
        last = picture.geometry.stripe_count - 1 if picture else self._at.stripe
        self._go_to(max(0, min(last, self._at.stripe + by)))

    def _go_to(self, stripe: int, byte: int | None = None, slot: int | None = None) -> None:
        at = self._at
        if stripe != at.stripe:
            # The old bytes remain until the new ones are read.
            at.stripe, at.told = stripe, None
        at.byte = at.byte if byte is None else byte
        at.slot = at.slot if slot is None else slot
        self._read()
        self.app.show_soon()

    def action_row(self, by: int) -> None:
        if self.has_class("-words"):
            self.query_one("#stripe-told").scroll_relative(y=by, animate=False)
            return
        self._scroll(by * self.query_one(StripeHex).bytes_in_row())

    def action_page(self, by: int) -> None:
        if self.has_class("-words"):
            told = self.query_one("#stripe-told")
            told.scroll_relative(y=by * max(1, told.size.height - 1), animate=False)
            return
        shown = self.query_one(StripeHex)
        self._scroll(by * shown.bytes_in_row() * shown.rows)

    def _scroll(self, by: int) -> None:
        picture = self._at.picture
        if picture:
            end = picture.skip_bytes + picture.length_bytes
            step = self.query_one(StripeHex).bytes_in_row()
            self._at.byte = max(picture.skip_bytes, min((end - 1) // step * step, self._at.byte + by))
            self._show()

    def action_member(self, by: int) -> None:
        picture = self._at.picture
        if picture:
            slots = picture.geometry.slots
            self._at.slot = (by - 1 if by < 0 else 0) % slots if self._at.slot is None else (self._at.slot + by) % slots
            self._show()

    def action_difference(self) -> None:
        from tui.widgets.stripe_columns import columns_of, wrong_bytes

        picture = self._at.picture
        wrong = wrong_bytes(columns_of(picture), picture.skip_bytes) if picture else ()
        if not wrong:
            self.notify("Nothing differs in this stripe.")
            return
        step = self.query_one(StripeHex).bytes_in_row()
        row_end = self._at.byte + step
        found = next((byte for byte in wrong if byte >= row_end), wrong[0])
        self._at.byte = found // step * step
        self._show()

    def action_array(self) -> None:
        names = [status.name for status in self.app.lab.arrays]
        if names:
            at = names.index(self._at.array) if self._at.array in names else -1
            self.app.select(array=names[(at + 1) % len(names)])

    def action_go(self) -> None:
        name = self._at.array

        def give(text: str) -> str | None:
            if not text:
                return f"write {PlaceScreen.PLACEHOLDER}"
            self.app.look_up(partial(steps.find, name, text), on_done=self._found)
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
        member = picture.name_of(self._at.slot or 0)
        name, stripe = self._at.array, self._at.stripe

        def give(text: str) -> str | None:
            from lab.errors import SpecError
            from lab.microscope.picture import parse_place

            try:
                disk, byte = parse_place(text)
            except SpecError as error:
                return f"{error.message}; write a disk and a byte, such as {member}:17"
            note = "md will not notice: no error, wrong bytes. c lets md check, i tells how the stripe stands."
            self.app.ask(partial(steps.flip, name, stripe, disk, byte), note=note, on_done=self._again)
            return None

        intro = f"Which byte of stripe {stripe}? A disk, and a byte of its chunk counted from 0."
        self.app.push_screen(ByteScreen(intro, f"{member}:{self._at.byte}", give))

    def _again(self) -> None:
        """Read the stripe again."""
        self._at.told = None
        self._read()

    def action_check(self) -> None:
        name = self._at.array
        self.app.make_and_run(lambda session: session.array(name).scrub("check"))

    def action_repair(self) -> None:
        from lab.microscope.words import repair_words

        name, picture = self._at.array, self._at.picture
        note = " ".join(repair_words(picture)[1:]) if picture else ""
        self.app.ask(lambda session: session.array(name).scrub("repair"), note=note)

    def action_write(self) -> None:
        self._step(steps.stepped_write)

    def action_crash(self) -> None:
        self._step(steps.stepped_crash)

    def _step(self, make: Callable[[str, int, LabSession], Told]) -> None:
        sector = self._sector_in_sight()
        if sector is not None:
            self.app.look_up(partial(make, self._at.array, sector), on_done=self._told)

    def _told(self, told: Told) -> None:
        self._at.told = told
        self.app.show_soon()

    def action_really(self) -> None:
        sector, name = self._sector_in_sight(), self._at.array
        if sector is None:
            return
        block = sector // 8

        def then(_: str) -> None:
            title = f"Write block {block} of {name}"
            self.app.job(title, partial(steps.really_written, name, sector), on_done=self._written)

        choices = [
            Choice("write", f"Write block {block}", "all its bits turned over; a second time brings it back", "y")
        ]
        intro = "The data of the block are changed. What md reads and writes of each member is counted."
        self.app.pick(f"Really write to {name}?", choices, then, intro=intro)

    def _written(self, told: Told) -> None:
        self._read()
        self._told(told)

    def _sector_in_sight(self) -> int | None:
        """The array's sector of the block at the cursor: in the member's data chunk, else in the stripe's first one."""
        picture, at = self._at.picture, self._at
        if picture is None:
            return None
        cells = [cell for cell in picture.stripe.cells if not cell.kind.is_parity]
        first = min(cells, key=lambda cell: cell.first_sector, default=None)
        mine = next((cell for cell in cells if cell.slot == at.slot), first)
        return mine.first_sector + at.byte // 4096 * 8 if mine else None

    def action_verdict(self) -> None:
        self._at.told = None
        self._show()

    def action_words(self) -> None:
        self.toggle_class("-words")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow only the actions that apply to the shown stripe."""
        picture = self._at.picture
        if action in ("flip", "stripe", "row", "page", "member", "write", "crash", "really"):
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
        moved = "words" if self.has_class("-words") else "bytes"
        return f"[b]Left Right[/b] stripes  [b]Up Down[/b] {moved}  [b]Tab[/b] member  [b]Space[/b] words or bytes"


def _standing(state: LabState) -> tuple[object, ...]:
    """The state of the array after whose change the stripe is read again. A load, which always writes, is no reason."""
    status = state.selected
    if status is None:
        return ()
    members = tuple((member.device, member.slot, member.flags) for member in status.members)
    return (status.name, status.level, status.sync_action, status.mismatch_sectors, members)
