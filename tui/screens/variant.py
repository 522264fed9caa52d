"""Ask for the word that varies a lesson."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from tui.screens.modal import Modal

MOST_LETTERS = 40


class VariantScreen(Modal[str | None]):
    """Ends with the word, which may be empty, or None."""

    CSS_PATH = "variant.tcss"
    AREA = "Variant"
    HELP = "The same word always gives the same variant, on every computer. Without a word you get the plain lesson."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="variant.cancel", tooltip="Close; nothing is changed"),
    ]

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word

    def compose(self) -> ComposeResult:
        with Vertical(id="variant-box") as box:
            box.border_title = "Your variant"
            box.border_subtitle = "Enter begins the lesson anew, Esc closes"
            yield Static(
                "Type your name, or the word that your teacher gave. It varies sizes, levels and which disk dies.",
                id="variant-intro",
            )
            yield Input(self._word, placeholder="a word", max_length=MOST_LETTERS, id="variant-word")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        self.dismiss(None)
