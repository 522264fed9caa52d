"""Ask for something typed: the number that a lesson has the student read off, or the word that varies a lesson."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from tui.lessons.view import ReadingCard
from tui.screens.modal import Modal


class TypedScreen(Modal[None]):
    """Hands what is typed to ``give``, and stays open with the sentence that it returns: what is wrong with it."""

    CSS_PATH = "typed.tcss"
    TITLES: ClassVar[tuple[str, str]]
    """Above and below."""
    PLACEHOLDER: ClassVar[str]
    MOST_LETTERS: ClassVar[int]

    def __init__(self, intro: str, given: str, give: Callable[[str], str | None]) -> None:
        super().__init__()
        self._intro, self._given, self._give = intro, given, give

    def compose(self) -> ComposeResult:
        with Vertical(id="typed-box") as box:
            box.border_title, box.border_subtitle = self.TITLES
            yield Static(self._intro, id="typed-intro", markup=False)
            yield Input(self._given, placeholder=self.PLACEHOLDER, max_length=self.MOST_LETTERS, id="typed")
            yield Static("", id="typed-problem", markup=False)

    def on_mount(self) -> None:
        self.query_one("#typed-problem").display = False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        problem = self._give(event.value.strip())
        if not problem:
            self.dismiss(None)
            return
        widget = self.query_one("#typed-problem", Static)
        widget.update(problem)
        widget.display = True

    def action_cancel(self) -> None:
        self.dismiss(None)


class NumberScreen(TypedScreen):
    """Low, so that what the number is read off stays in sight."""

    AREA = "Number"
    HELP = "Type what you read, with a decimal point or comma. What is compared is your own result, or your own array."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="number.cancel", tooltip="Close; nothing is changed"),
    ]
    TITLES = ("Your number", "Enter takes it, Esc closes")
    PLACEHOLDER = "a number"
    MOST_LETTERS = 24

    def __init__(self, reading: ReadingCard, give: Callable[[str], str | None]) -> None:
        unit = f" ({reading.unit})" if reading.unit else ""
        super().__init__(f"{reading.question}{unit}", reading.given, give)


class VariantScreen(TypedScreen):
    """The word may be empty."""

    AREA = "Variant"
    HELP = "The same word always gives the same variant, on every computer. Without a word you get the plain lesson."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="variant.cancel", tooltip="Close; nothing is changed"),
    ]
    TITLES = ("Your variant", "Enter begins the lesson anew, Esc closes")
    PLACEHOLDER = "a word"
    MOST_LETTERS = 40

    def __init__(self, word: str, give: Callable[[str], str | None]) -> None:
        intro = "Type your name, or the word that your teacher gave. It varies sizes, levels and which disk dies."
        super().__init__(intro, word, give)
