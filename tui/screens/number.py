"""Ask for a number that a lesson has the student read off."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from tui.lessons.view import ReadingCard
from tui.screens.modal import Modal

MOST_LETTERS = 24


class NumberScreen(Modal[None]):
    """Hands what is typed to ``give``, and stays open with its sentence if that is no number."""

    CSS_PATH = "number.tcss"
    AREA = "Number"
    HELP = "Type what you read, with a decimal point or comma. What is compared is your own result, or your own array."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="number.cancel", tooltip="Close; nothing is changed"),
    ]

    def __init__(self, reading: ReadingCard, give: Callable[[str], str]) -> None:
        super().__init__()
        self._reading = reading
        self._give = give

    def compose(self) -> ComposeResult:
        unit = f" ({self._reading.unit})" if self._reading.unit else ""
        with Vertical(id="number-box") as box:
            box.border_title = "Your number"
            box.border_subtitle = "Enter takes it, Esc closes"
            yield Static(f"{self._reading.question}{unit}", id="number-intro", markup=False)
            yield Input(self._reading.given, placeholder="a number", max_length=MOST_LETTERS, id="number-typed")
            yield Static("", id="number-problem", markup=False)

    def on_mount(self) -> None:
        self.query_one("#number-problem").display = False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        problem = self._give(event.value.strip())
        if not problem:
            self.dismiss(None)
            return
        widget = self.query_one("#number-problem", Static)
        widget.update(problem)
        widget.display = True

    def action_cancel(self) -> None:
        self.dismiss(None)
