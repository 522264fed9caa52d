"""The selected disk in words, and where the selected array puts its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from lab.units import human_bytes
from tui.glyphs import glyphs_of
from tui.state import LabState
from tui.views import STOPPED, bays_of
from tui.volume_views import running_picture
from tui.widgets.rack import Bay, BayState
from tui.widgets.slice_diagram import SliceDiagram
from tui.widgets.stripe_diagram import DiagramMember, StripeDiagram
from tui.widgets.words import ChangingText, entitle

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus

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
    """Fills what the rack and the arrays leave."""

    def compose(self) -> ComposeResult:
        yield ChangingText("", id="details-disk")
        yield ChangingText("", id="details-array")
        yield StripeDiagram(id="details-stripe", empty_text="")
        yield SliceDiagram(id="details-slices")

    def show(self, state: LabState) -> None:
        """Bring both up to date."""
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
