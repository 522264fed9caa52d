"""The command palette: Textual's, but it may be told to leave more than once, as every screen above another here."""

from __future__ import annotations

from typing import Any

from textual.command import CommandPalette
from textual.message import Message
from textual.widgets import Input, OptionList

from tui.screens.modal import Modal


class Palette(CommandPalette, Modal[Any]):
    """Keys that were typed ahead may reach it after it has left: they choose nothing more."""

    HELP = "Type a part of a command's name, choose a line with the arrows, and press Enter. Escape leaves it."

    def post_message(self, message: Message) -> bool:
        if self._has_left and isinstance(message, Input.Submitted | OptionList.OptionSelected):
            return False
        return super().post_message(message)
