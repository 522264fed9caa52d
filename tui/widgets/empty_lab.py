"""Stands where the selected array would: what can be done first, and what the free disks could become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.drafts import FIRST_MEMBERS, Draft
from tui.level_rows import level_rows
from tui.registry import SCREENS
from tui.state import LabState, MachinePhase
from tui.widgets.level_table import LevelTable
from tui.widgets.words import ChangingText

if TYPE_CHECKING:
    from lab.disks import LabDisk

_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}
_TITLES = {MachinePhase.OPEN: "Nothing is built yet.", MachinePhase.OPENING: "The machine is starting."}
_INVITES = {
    "build": "lets you choose level, disks, chunk and layout",
    "lessons": "leads you through everything, step by step",
}


class EmptyLab(VerticalScroll):
    """Shown while no array is selected."""

    def compose(self) -> ComposeResult:
        yield ChangingText("", id="empty-words")
        yield LevelTable(id="empty-levels")

    def on_mount(self) -> None:
        self.can_focus = False
        self._shown: tuple[str, tuple[LabDisk, ...]] | None = None

    def show(self, state: LabState) -> None:
        """Costs nothing unless the free disks have changed."""
        has_looked = state.is_open and state.look is not None
        free = state.free_disks[:FIRST_MEMBERS] if has_looked else ()
        title = _TITLES.get(state.phase, "There is no machine.") if has_looked or not state.is_open else "Looking."
        if state.resting_arrays and has_looked:
            title = "No array runs."
        if (title, free) == self._shown:
            return
        self._shown = (title, free)
        lines = ["", f"[bold $accent]{title}[/]", ""]
        if len(free) == FIRST_MEMBERS:
            lines.append("[b]b[/b]  builds a RAID 5 of four disks: a good first array")
        lines += [f"[b]{entry.key}[/b]  {_INVITES[entry.mode]}" for entry in SCREENS if entry.mode in _INVITES]
        if free:
            count = _NUMBERS[len(free)]
            lines += ["", "", f"[b]What the first {count} free disks could become[/b]" if len(free) > 1 else ""]
        self.query_one("#empty-words", Static).update(Content.from_markup("\n".join(lines) + "\n"))
        draft = Draft().with_disks([disk.name for disk in free])
        self.query_one(LevelTable).show(level_rows(draft, free, has_current=False) if len(free) > 1 else ())
