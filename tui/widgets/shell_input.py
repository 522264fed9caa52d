"""A line to type commands on, with the history of those before."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input

KEPT_LINES = 200


class ShellInput(Input):
    """Up and down walk through what was typed; Enter posts ``Input.Submitted``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "older", "Older", show=False, id="shell.older", tooltip="The command typed before"),
        Binding("down", "newer", "Newer", show=False, id="shell.newer", tooltip="The command typed after"),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(
            id=id,
            placeholder="cat /proc/mdstat",
            tooltip="A command for the machine: Enter runs it, Up brings back the one before",
            compact=True,
            select_on_focus=False,
        )
        self._lines: list[str] = []
        self._position = 0

    def keep(self, line: str) -> None:
        """Remember a line that was run."""
        if not self._lines or self._lines[-1] != line:
            self._lines.append(line)
            del self._lines[:-KEPT_LINES]
        self._position = len(self._lines)

    def action_older(self) -> None:
        self._go(self._position - 1)

    def action_newer(self) -> None:
        self._go(self._position + 1)

    def _go(self, position: int) -> None:
        if not self._lines or position < 0:
            return
        self._position = min(position, len(self._lines))
        self.value = self._lines[self._position] if self._position < len(self._lines) else ""
        self.cursor_position = len(self.value)
