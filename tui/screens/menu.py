"""Choose one of several: the actions on a disk or an array, a workload, a speed limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.frontend import Choice
from tui.glyphs import glyphs_of
from tui.screens.modal import Modal
from tui.widgets.lines import shorten

_MOST_OF_SCREEN = 0.92
"""As in menu.tcss."""
_AROUND_CELLS = 6
"""Border and padding of the box and of an option, and the gap before the detail."""


class MenuScreen(Modal[str | None]):
    """Ends with the id of what was chosen, or None.

    Args:
        title: what is chosen.
        choices: at least one.
        intro: a sentence above them.
    """

    CSS_PATH = "menu.tcss"
    AREA = "Menu"
    HELP = (
        "Choose a line with the arrows and Enter, or press the key in front of it. Escape leaves everything as it is."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", "Cancel", id="menu.cancel", tooltip="Close; nothing is changed"),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], *, intro: str = "") -> None:
        super().__init__()
        self._title = title
        self._choices = tuple(choices)
        self._intro = intro

    def compose(self) -> ComposeResult:
        with Vertical(id="menu-box") as box:
            box.border_title = self._title
            box.border_subtitle = "Enter chooses, Esc closes"
            if self._intro:
                yield Static(self._intro, id="menu-intro", markup=False)
            yield OptionList(*(Option(self._line(choice), id=choice.id) for choice in self._choices), id="menu-list")

    def _line(self, choice: Choice) -> Content:
        width = max(len(each.label) for each in self._choices)
        keys = max(len(each.key) for each in self._choices)
        parts = [(f" {choice.key:>{keys}}  ", "bold $footer-key-foreground")] if keys else [(" ", "")]
        parts.append((f"{choice.label:<{width}}", "bold"))
        room = int(self.app.size.width * _MOST_OF_SCREEN) - _AROUND_CELLS - sum(len(text) for text, _ in parts)
        detail = shorten(choice.detail, max(0, room), glyphs_of(self).ellipsis)
        parts.append((f"  {detail}" if detail else "", "$foreground-muted"))
        return Content.assemble(*parts)

    def on_resize(self) -> None:
        options = self.query_one(OptionList)
        for index, choice in enumerate(self._choices):
            options.replace_option_prompt_at_index(index, self._line(choice))

    def on_key(self, event: Key) -> None:
        found = next((choice for choice in self._choices if choice.key and choice.key == event.key), None)
        if found:
            event.stop()
            self.dismiss(found.id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_cancel(self) -> None:
        self.dismiss(None)
