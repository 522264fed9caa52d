"""The command palette: Textual's, but it can be dismissed more than once, as all modal screens of the app."""

from __future__ import annotations

from typing import Any

from textual.command import CommandPalette
from textual.message import Message
from textual.widgets import Input, OptionList

from tui.screens.modal import Modal


class Palette(CommandPalette, Modal[Any]):
    """The palette; it ignores keys that were typed ahead and arrive after it was dismissed."""

    HELP = "Type a part of a command's name, choose a line with the arrows, and press Enter. Escape leaves it."

    def post_message(self, message: Message) -> bool:
        if self._has_left and isinstance(message, Input.Submitted | OptionList.OptionSelected):
            return False
        return super().post_message(message)
