"""The lab: the rack of disks, the arrays, and the selected array live; everything that can be done to them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize

from tui.actions import ACTIONS, DoneTo, applying, build, carry_out, selected_disk, start_array, target_array
from tui.frontend import Choice
from tui.screens.mode import ModeScreen
from tui.state import LabState
from tui.views import bays_of
from tui.widgets.array_list import ArrayList
from tui.widgets.array_panel import ArrayPanel
from tui.widgets.details import Details
from tui.widgets.empty_lab import EmptyLab
from tui.widgets.rack import Rack
from tui.widgets.words import entitle, titled

_TALL_ROWS = 36
"""From here on there is room for the details of what is selected."""


class LabScreen(ModeScreen):
    """Screen 1."""

    CSS_PATH = "lab.tcss"
    AREA = "Lab"
    HELP = (
        "The rack on the left holds the lab's disks. Below it are the arrays, each with its members in order. "
        "The panel shows the selected array as it works: what the load gets, what each member does, how a rebuild "
        "comes on, and what has happened, all on one time axis.\n\n"
        "Select a disk or an array with the arrows or the mouse, then press a key, or Enter for all that can be done."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "build", "Build", id="lab.build", tooltip="Build a good first RAID 5, or go to the screen Build"),
        *(
            Binding(each.key, f"act('{each.name}')", each.label, id=each.id, tooltip=each.tooltip, show=each.in_footer)
            for each in ACTIONS
        ),
        Binding(
            "tab", "app.focus_next", "Next panel", show=False, id="lab.next", tooltip="From the rack to the arrays"
        ),
        Binding("shift+tab", "app.focus_previous", "Previous panel", show=False, id="lab.previous", tooltip="And back"),
        Binding("g", "turn", "Charts", show=False, id="lab.charts", tooltip="Begin with the next chart"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._followed = ""
        """The selected disk that the rack's cursor has been brought to."""

    def body(self) -> ComposeResult:
        with Horizontal(id="lab"):
            with Vertical(id="lab-left"):
                yield titled(Rack(id="rack"), "Rack")
                yield titled(ArrayList(id="arrays"), "Arrays")
                yield Details(id="details")
            yield ArrayPanel(id="panel")
            yield EmptyLab(id="empty")

    def on_mount(self) -> None:
        self.query_one(Rack).focus()

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.height >= _TALL_ROWS, "-tall")

    def show_state(self, state: LabState) -> None:
        rack = self.query_one(Rack)
        rack.show(bays_of(state))
        # Only what was selected elsewhere moves the cursor: keys may be ahead of what the state knows.
        if state.selected_disk and state.selected_disk != self._followed and state.disk(state.selected_disk):
            self._followed = state.selected_disk
            rack.move_to(state.selected_disk)
        if rack.current and state.disk(state.selected_disk or "") is None:
            self._followed = rack.current.name
            self.app.select(disk=self._followed)
        free = len(state.free_disks)
        entitle(rack, subtitle=f"{free} of {len(state.disks)} free" if state.disks else "")
        arrays = self.query_one(ArrayList)
        arrays.show(state)
        entitle(arrays, subtitle="" if arrays.option_count else "none yet")
        panel, empty = self.query_one(ArrayPanel), self.query_one(EmptyLab)
        panel.display = state.selected is not None
        empty.display = not panel.display
        panel.show(state)
        empty.show(state)
        if self.has_class("-tall"):
            self.query_one(Details).show(state)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what applies to the selection can be done, and shows."""
        if action == "act":
            return any(each.name == parameters[0] and each.applies(self.app.lab) for each in ACTIONS)
        return action != "build" or self.app.lab.is_open

    def action_act(self, name: str) -> None:
        carry_out(self.app, name)

    def action_build(self) -> None:
        build(self.app)

    def on_rack_moved(self, event: Rack.Moved) -> None:
        self._followed = event.bay.name
        found = self.app.lab.member_of(event.bay.name)
        self.app.select(disk=event.bay.name, array=found[0].name if found else None)

    def on_rack_opened(self, event: Rack.Opened) -> None:
        self.app.select(disk=event.bay.name)
        self._open_menu(event.bay.name, DoneTo.DISK)

    def on_array_list_chosen(self, event: ArrayList.Chosen) -> None:
        self.app.select(array=event.name)

    def on_array_list_menu_wanted(self, event: ArrayList.MenuWanted) -> None:
        if self.app.lab.array(event.name) is None:
            start_array(self.app, event.name)
            return
        self.app.select(array=event.name)
        self._open_menu(event.name, DoneTo.ARRAY)

    def _open_menu(self, name: str, done_to: DoneTo) -> None:
        """All that can be done to it; what concerns it first."""
        state = self.app.lab
        found = sorted(applying(state), key=lambda action: action.done_to is not done_to)
        if not found:
            self.notify(f"Nothing can be done with {name} now.", markup=False)
            return
        choices = [Choice(each.name, each.label, each.tooltip, each.key) for each in found]
        disk, status = selected_disk(state), target_array(state)
        title = " in ".join(filter(None, (disk.name if disk else "", status.name if status else "")))

        def then(chosen: str) -> None:
            self.call_later(carry_out, self.app, chosen)

        self.app.pick(title or name, choices, then)

    def action_turn(self) -> None:
        self.query_one(ArrayPanel).turn()
        self.app.show_soon()
