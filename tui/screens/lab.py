"""The Lab screen: the rack of disks, the arrays, live charts of the selected array, and the actions on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from lab.actions.action import Choice, Fills
from lab.units import human_bytes
from tui.actions import (
    KEY_ACTIONS,
    action_id,
    applying,
    build,
    carry_out,
    selected_disk,
    selection_of,
    start_array,
    target_array,
)
from tui.drafts import FIRST_MEMBERS, Draft, level_rows
from tui.glyphs import glyphs_of
from tui.keys import CommandKey, key_for
from tui.registry import SCREENS
from tui.screens.mode import ModeScreen, pause_key
from tui.state import LabState, MachinePhase
from tui.views import STOPPED, bays_of, running_picture
from tui.widgets.array_list import ArrayList
from tui.widgets.array_panel import ArrayPanel
from tui.widgets.diagrams import DiagramMember, SliceDiagram, StripeDiagram
from tui.widgets.level_table import LevelTable
from tui.widgets.rack import Bay, BayState, Rack
from tui.widgets.words import ChangingText, entitle, titled

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus
    from lab.disks import LabDisk


_WORDS = {
    BayState.FREE: "free",
    BayState.MEMBER: "in sync",
    BayState.SPARE: "a spare",
    BayState.JOURNAL: "the journal",
    BayState.FAULTY: "faulty",
    BayState.REBUILDING: "being filled",
    BayState.VANISHED: "vanished",
    BayState.REFUSED: "refused",
}


class Details(Vertical):
    """The details of the selected disk and array, in the room below the rack and the arrays."""

    def compose(self) -> ComposeResult:
        yield ChangingText("", id="details-disk")
        yield ChangingText("", id="details-array")
        yield StripeDiagram(id="details-stripe", empty_text="")
        yield SliceDiagram(id="details-slices")

    def show(self, state: LabState) -> None:
        """Update the details of the disk and the array."""
        bay = next((each for each in bays_of(state) if each.name == state.selected_disk), None)
        entitle(self, bay.name if bay else "Disk", human_bytes(bay.size_bytes) if bay else "")
        self.query_one("#details-disk", Static).update(
            Content("\n").join(self._disk(state, bay)) if bay else "no disk is selected"
        )
        self._show_stripe(state, state.selected)

    def _disk(self, state: LabState, bay: Bay) -> list[Content]:
        words = _WORDS[bay.state]
        if bay.note == STOPPED:
            words = f"in {bay.array}, which does not run"
        elif bay.array:
            words = f"{words} in {bay.array}" + ("" if bay.slot is None else f", slot {bay.slot}")
        elif bay.note:
            words = bay.note
        lines = [
            Content.assemble((f"{bay.state.glyph(glyphs_of(self))} ", "bold"), (words, "bold")),
            _fact("device", f"{bay.node}  {bay.model}"),
            _fact("serial", bay.serial or "none"),
        ]
        counters = state.look.disks.get(bay.node.removeprefix("/dev/")) if state.look else None
        if counters:
            lines += [
                _fact("read", human_bytes(counters.read_bytes)),
                _fact("written", human_bytes(counters.written_bytes)),
                _fact("waiting", f"{counters.in_flight} requests"),
            ]
        status, member = state.member_of(bay.name) or (None, None)
        if status and member and status.use_words(member):
            lines.append(_fact("used", status.use_words(member)))
        if member and member.error_count is not None:
            lines.append(_fact("md repaired", f"{member.error_count} read errors"))
        return lines

    def _show_stripe(self, state: LabState, status: ArrayStatus | None) -> None:
        title, diagram = self.query_one("#details-array", Static), self.query_one(StripeDiagram)
        slices = self.query_one(SliceDiagram)
        picture = running_picture(state, status) if status else None
        diagram.display = picture is None
        slices.show(picture)
        if status and picture:
            title.update(Content.styled(f"\nWhich disks are in which arrays of {status.name}", "bold"))
            return
        level = status.known_raid if status else None
        if status is None or level is None:
            title.update("")
            diagram.clear("")
            return
        from lab.arrays.level_names import layout_name

        number = status.layout_number
        layout = layout_name(level.name, number) if number is not None else None
        title.update(Content.styled(f"\nWhere {status.name} puts its data", "bold"))
        diagram.show(level, layout, _columns(state, status), status.chunk_bytes)


def _fact(label: str, value: str) -> Content:
    return Content.assemble((f"{label:<12}", "$foreground-muted"), value)


def _columns(state: LabState, status: ArrayStatus) -> list[DiagramMember]:
    by_slot = {member.slot: member for member in status.members if member.slot is not None}
    columns = []
    for slot in range(status.raid_disks):
        member = by_slot.get(slot)
        if member is None or member.is_faulty:
            columns.append(DiagramMember("gone" if member is None else state.disk_name(member.device), failed=True))
        else:
            columns.append(DiagramMember(state.disk_name(member.device), rebuilding=member.is_rebuilding))
    return columns


_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four"}
_TITLES = {MachinePhase.OPEN: "Nothing is built yet.", MachinePhase.OPENING: "The machine is starting."}
_INVITES = {
    "build": "lets you choose level, disks, chunk and layout",
    "drills": "disasters to practise on",
    "lessons": "leads you through everything, step by step",
}


class EmptyLab(VerticalScroll):
    """The panel that is shown while no array is selected."""

    def compose(self) -> ComposeResult:
        yield ChangingText("", id="empty-words")
        yield LevelTable(id="empty-levels")

    def on_mount(self) -> None:
        self.can_focus = False
        self._shown: tuple[str, tuple[LabDisk, ...]] | None = None

    def show(self, state: LabState) -> None:
        """Update the panel if the title or the free disks have changed."""
        has_looked = state.is_open and state.look is not None
        free = state.blank_disks[:FIRST_MEMBERS] if has_looked else ()
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


_ACTIONS = {each.short_name(): each for each in KEY_ACTIONS}
_TALL_ROWS = 36
"""Minimum number of rows of the screen for the details."""


class LabScreen(ModeScreen):
    """The Lab screen, key 1."""

    CSS_PATH = "lab.tcss"
    AREA = "Lab"
    HELP = (
        "The rack on the left holds the lab's disks. Below it are the arrays, each with its members in order. "
        "The panel shows the selected array as it works: what the load gets, what each member does, how far "
        "a rebuild has got, and what has happened, all on one time axis.\n\n"
        "Select a disk or an array with the arrows or the mouse, then press a key, or Enter for all that can be done."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        CommandKey(
            "b",
            "build",
            "Build",
            id="lab.build",
            tooltip="Build a good first RAID 5, or go to the screen Build",
            command="array create",
        ),
        *(
            key_for(each, f"act('{each.short_name()}')", id=action_id(each), show=each.in_footer)
            for each in KEY_ACTIONS
        ),
        Binding(
            "tab", "app.focus_next", "Next panel", show=False, id="lab.next", tooltip="From the rack to the arrays"
        ),
        Binding("shift+tab", "app.focus_previous", "Previous panel", show=False, id="lab.previous", tooltip="And back"),
        Binding("g", "turn", "Charts", show=False, id="lab.charts", tooltip="Begin with the next chart"),
        pause_key("space"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._followed = ""
        """The selected disk to which the rack's cursor was moved last."""
        self._shown = ("", "")
        """The array and the disk to which keys apply, as last shown or selected."""

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
        # Move the cursor only to a disk that was selected elsewhere: the cursor may be ahead of the state.
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
        self._shown = self._aim()

    def _aim(self) -> tuple[str, str]:
        """The names of the array and the disk to which keys apply; empty if there is none."""
        status, disk = target_array(self.app.lab), selected_disk(self.app.lab)
        return status.name if status else "", disk.name if disk else ""

    def _follow_cursor(self) -> None:
        """Select the disk under the cursor, even if the message about its last move is still queued."""
        bay = self.query_one(Rack).current
        if bay and bay.name != self._followed:
            self._select_bay(bay)

    def _select_bay(self, bay: Bay) -> None:
        self._followed = bay.name
        found = self.app.lab.member_of(bay.name)
        self.app.select(disk=bay.name, array=found[0].name if found else None)
        self._shown = self._aim()

    def _has_gone(self) -> bool:
        """Whether the array or disk for which a key was pressed has disappeared; the key must not act on another one.

        If so, a notice is shown; the next press applies to the new selection.
        """
        (array, disk), state = self._shown, self.app.lab
        gone = array if array and state.array(array) is None else disk if disk and state.disk(disk) is None else ""
        if not gone:
            return False
        self.app.show_now()
        now = " and ".join(filter(None, self._shown))
        self.notify(
            f"{gone} is not there any longer. Selected now: {now or 'nothing'}.", severity="warning", markup=False
        )
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow and show only the actions that apply to the selection."""
        if action == "act":
            self._follow_cursor()
            return not _ACTIONS[str(parameters[0])].obstacle(selection_of(self.app.lab))
        return action != "build" or self.app.lab.is_open

    def action_act(self, name: str) -> None:
        if not self._has_gone():
            carry_out(self.app, _ACTIONS[name])

    def action_build(self) -> None:
        build(self.app)

    def on_rack_moved(self, event: Rack.Moved) -> None:
        # The cursor may have moved again since the event.
        self._follow_cursor()

    def on_rack_opened(self, event: Rack.Opened) -> None:
        self._select_bay(event.bay)
        self._open_menu(event.bay.name, Fills.DISK)

    def on_array_list_chosen(self, event: ArrayList.Chosen) -> None:
        self.app.select(array=event.name)
        self._shown = self._aim()

    def on_array_list_menu_wanted(self, event: ArrayList.MenuWanted) -> None:
        if self.app.lab.array(event.name) is None:
            start_array(self.app, event.name)
            return
        self.app.select(array=event.name)
        self._open_menu(event.name, Fills.ARRAY)

    def _open_menu(self, name: str, acts_on: Fills) -> None:
        """Show a menu of all possible actions; those on a disk, or an array, as ``acts_on`` says, are first."""
        state = self.app.lab
        found = sorted(applying(state), key=lambda kind: kind.acts_on() is not acts_on)
        if not found:
            self.notify(f"Nothing can be done with {name} now.", markup=False)
            return
        choices = [Choice(each.short_name(), each.label, each.tooltip, each.key) for each in found]
        disk, status = selected_disk(state), target_array(state)
        title = " in ".join(filter(None, (disk.name if disk else "", status.name if status else "")))

        def then(chosen: str) -> None:
            self.call_later(carry_out, self.app, _ACTIONS[chosen])

        self.app.pick(title or name, choices, then)

    def action_turn(self) -> None:
        self.query_one(ArrayPanel).turn()
        self.app.show_soon()
