"""The list of the lab's arrays, each with its state and its members by slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from lab.units import human_bytes
from tui.glyphs import Glyphs, glyphs_of
from tui.state import LabState, condition
from tui.views import member_state, short_name
from tui.widgets.rack import BayState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.arrays.status import ArrayStatus, MemberStatus


_STYLES = {
    BayState.FAULTY: "$text-error",
    BayState.REBUILDING: "$text-warning",
    BayState.SPARE: "$text-secondary",
    BayState.JOURNAL: "$text-accent",
}


class ArrayList(OptionList):
    """One entry for each array; moving the highlight selects the array that the panel shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Array menu", id="arrays.open", tooltip="What can be done with this array"),
    ]

    @dataclass
    class Chosen(Message):
        """The user highlighted another array."""

        name: str

    @dataclass
    class MenuWanted(Message):
        """The user requested the menu of an array."""

        name: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, markup=False)
        self._entries: tuple[tuple[str, str], ...] = ()
        self._is_updating = False

    def show(self, state: LabState) -> None:
        """Show the arrays; only changed entries are repainted."""
        glyphs, width = glyphs_of(self), self.scrollable_content_region.width
        prompts = [(status.name, entry(state, status, glyphs, width)) for status in state.arrays]
        prompts += _resting(state, glyphs)
        keys = tuple((name, text.markup) for name, text in prompts)
        if keys == self._entries:
            return
        self._is_updating = True
        if [name for name, _ in keys] == [name for name, _ in self._entries]:
            for index, (_, text) in enumerate(prompts):
                if keys[index] != self._entries[index]:
                    self.replace_option_prompt_at_index(index, text)
        else:
            self.clear_options()
            self.add_options([Option(text, id=name) for name, text in prompts])
        self._entries = keys
        self._highlight(state)
        self.call_after_refresh(self._done_updating)

    def _done_updating(self) -> None:
        self._is_updating = False

    def _highlight(self, state: LabState) -> None:
        selected = state.selected
        names = [name for name, _ in self._entries]
        if selected and selected.name in names:
            self.highlighted = names.index(selected.name)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if not self._is_updating and event.option_id:
            self.post_message(self.Chosen(event.option_id))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id:
            self.post_message(self.MenuWanted(event.option_id))


def entry(state: LabState, status: ArrayStatus, glyphs: Glyphs, width: int = 80) -> Content:
    """The entry of an array: name, level, size, state, and the members by slot; wrapped if it does not fit."""
    tone, words = condition(state, status)
    head = Content.assemble(
        (f"{tone.glyph(glyphs)} {status.name}", f"bold {tone.style}"),
        f"  {status.level}  {human_bytes(status.size_bytes)}",
    )
    blank = "  " if head.cell_length + 2 + len(words) <= width else "\n  "
    head += Content.assemble(blank, (words, tone.style))
    shown = head + Content("\n  ") + stripe(state, status, glyphs)
    return shown + Content("\n  ") + inside(status, glyphs, width - 2) if status.inner else shown


def inside(status: ArrayStatus, glyphs: Glyphs, width: int) -> Content:
    """The inner arrays, each with a character for its state: ``inside ●md100 ●101 ↻102``."""
    text = Content.styled("inside", "$foreground-muted")
    arrays = status.inside.arrays if status.inside else ()
    left = len(arrays)
    for each in arrays:
        name = each.name.removeprefix("md") or "--"
        sign, style = glyphs.member, "$text-success"
        if each.is_lost:
            sign, style = glyphs.faulty, "$text-error"
        elif each.array and each.array.sync_action.is_busy:
            sign, style = glyphs.rebuilding, "$text-warning"
        elif each.is_degraded:
            sign, style = glyphs.vanished, "$text-warning"
        if text.cell_length + len(name) + 2 > width - 3 * (left > 1):
            return text + Content.styled(f" +{left}", "$foreground-muted")
        text += Content.styled(f" {sign}{name}", style)
        left -= 1
    return text


def stripe(state: LabState, status: ArrayStatus, glyphs: Glyphs) -> Content:
    """The members by slot, including missing ones, then the spares: ``│01│02│✘ │``."""
    by_slot = {member.slot: member for member in status.members if member.slot is not None}
    cells: list[Content] = []
    for slot in range(status.raid_disks):
        cells.append(_cell(state, by_slot.get(slot), glyphs))
    bar = Content.styled(glyphs.vertical, "$foreground-muted")
    text = bar + bar.join(cells) + bar
    others = [member for member in status.members if member.slot is None]
    for member in others:
        text += Content(" ") + _cell(state, member, glyphs)
    return text


def _cell(state: LabState, member: MemberStatus | None, glyphs: Glyphs) -> Content:
    if member is None:
        return Content.styled(f"{glyphs.vanished}--", "$text-error")
    shown = member_state(member)
    text = f"{shown.glyph(glyphs)}{short_name(state.disk_name(member.device))}"
    return Content.styled(text, _STYLES.get(shown, "$text-success"))


def _resting(state: LabState, glyphs: Glyphs) -> Iterator[tuple[str, Content]]:
    for array in state.resting_arrays:
        why = f"{array.refusal or 'stopped'}{'' if array.obstacle else '; Enter starts it'}"
        head = Content.assemble((f"{glyphs.quiet} {array.name}", "bold $foreground-muted"), "  not running")
        # Two stopped arrays may have the same name.
        word = state.found.word(array) if state.found else array.name
        yield word, head + Content.styled(f"\n  {why}", "$foreground-muted")
