"""The Build screen, which composes an array, previews it with its commands, and creates it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.markup import escape
from textual.widgets import Static

from lab.arrays.spec import ArrayPreview
from lab.units import human_bytes
from tui.actions import (
    FIRST_MEMBERS,
    NARROW_SYSTEM_TITLES,
    SYSTEM_TITLES,
    Draft,
    LevelTable,
    ask_for_larger,
    larger_command,
    level_rows,
    next_array_name,
    survives_words,
    system_rows,
)
from tui.charts import DiagramMember, SliceDiagram, StripeDiagram
from tui.keys import command_key, hidden_key
from tui.lessons import in_app
from tui.look import Tone
from tui.mode import ModeScreen
from tui.plan_screen import PlanView
from tui.rack import Bay, BayState, Rack, bays_of, planned_picture
from tui.state import LabState
from tui.widgets import Choices, Tile, VerdictBanner, entitle, stepped, titled

_HIGH_ROWS = 34
_DISK_NAMES = re.compile(r"\bdisk\d{2,3}\b")
_MUCH_UNUSED = 0.01
"""A smaller unused share of the raw size is not shown, because it is due to rounding to whole chunks."""


class BuildScreen(ModeScreen):
    """The Build screen, key 2."""

    CSS_PATH = "build_screen.tcss"
    AREA = "Build"
    HELP = (
        "Choose a level and its disks. The right side shows what the array would hold and survive, what a small write "
        "would cost, where its data would lie, and the commands that would build it. "
        "Nothing is changed until you confirm these commands on another screen."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        command_key("build.create", "b", "Build it", "array create", "Show the commands again, then build"),
        Binding("c", "copy", "Copy", id="build.copy", tooltip="Copy the commands, to run them by hand"),
        Binding("x", "what_if", "What if", id="build.what-if", tooltip="See what is left without this disk"),
        command_key("build.larger", "u", "Larger disks", "disks add", "Add two disks of twice the size to the lab"),
        Binding(
            "t",
            "lesson_disks",
            "Lesson's disks",
            id="build.lesson-disks",
            tooltip="Choose the disks that the open lesson names",
        ),
        hidden_key("build.next-level", "plus", "level(1)", "Next level", "Next RAID level"),
        hidden_key("build.level", "minus", "level(-1)", "Previous level", "Previous RAID level"),
        hidden_key("build.next", "tab", "app.focus_next", "Next panel", "Form, disks, commands"),
        hidden_key("build.previous", "shift+tab", "app.focus_previous", "Back", "Previous panel"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.draft = Draft()
        self._preview = ArrayPreview(problems=())
        self._shown: tuple[object, ...] = ()
        self._has_chosen = False
        """Whether the user has chosen disks since the last array was built. Otherwise the screen proposes disks."""
        self._lost: frozenset[str] = frozenset()
        """Members that are assumed to have failed, for the preview."""
        self._awaited: tuple[str, ...] = ()
        """Disks that are being added to the lab, and will be added to the draft when they appear."""

    def body(self) -> ComposeResult:
        with Horizontal(id="build"):
            with Vertical(id="build-left"):
                yield titled(Choices(self.draft.rows(), id="build-form"), "Array")
                yield titled(Rack(self._bays, toggles=True, id="build-rack"), "Disks")
            with titled(Vertical(id="build-right"), "What it would be"):
                with Horizontal(id="build-tiles"):
                    yield Tile("Usable", id="build-usable")
                    yield Tile("Survives", id="build-survives")
                    yield Tile("Small write", id="build-write")
                yield Static(id="build-why", markup=False)
                yield VerdictBanner(id="build-problem")
                yield StripeDiagram(id="build-stripes")
                yield SliceDiagram(id="build-slices")
                yield LevelTable(id="build-systems")
                with VerticalScroll(id="build-plan", can_focus=False):
                    yield PlanView(empty_text="choose enough disks to see the commands")
                yield LevelTable(id="build-levels")

    def on_mount(self) -> None:
        self.query_one(Choices).focus()

    def on_resize(self, event: Resize) -> None:
        is_low = event.size.height < _HIGH_ROWS
        self.set_class(is_low, "-low")
        self.query_one(PlanView).brief = is_low
        self.query_one(StripeDiagram).rows = 4 if is_low else event.size.height // 5

    @property
    def array_name(self) -> str:
        return next_array_name(self.app.lab, self.draft)

    def show_state(self, state: LabState) -> None:
        bays = bays_of(state)
        free = [bay.name for bay in bays if bay.state is BayState.FREE and not bay.note]
        if self._awaited and set(self._awaited) <= set(free):
            # An update before the end of the plan may have proposed them.
            chosen = tuple(dict.fromkeys((*self.draft.disks, *self._awaited)))
            self.draft, self._awaited = self.draft.with_disks(chosen), ()
            self._has_chosen = True
        self.draft = self.draft.with_disks([disk for disk in self.draft.disks if disk in free])
        if not self._has_chosen:
            self.draft = self.draft.with_disks(self._lesson_disks(free) or free[:FIRST_MEMBERS])
        rack = self.query_one(Rack)
        rack.show(state)
        rack.choose(self.draft.disks)
        entitle(rack, subtitle=f"{len(self.draft.disks)} of {len(free)} free, Space toggles" if bays else "")
        self._show_preview(state)

    def _lesson_disks(self, free: Collection[str]) -> list[str]:
        """Return the disks that the open lesson's step names if all of them are free, else none."""
        view = self.app.guide.view
        text = in_app(view.step.ready.text) if view and view.step else ""
        named = list(dict.fromkeys(_DISK_NAMES.findall(text)))
        return named if set(named) <= set(free) else []

    def _bays(self, state: LabState) -> tuple[Bay, ...]:
        return tuple(map(self._with_role, bays_of(state)))

    def _with_role(self, bay: Bay) -> Bay:
        if role := self.draft.role(bay.name):
            return replace(bay, note=f"{self.app.glyphs.arrow} {role}")
        # A disk of a stopped array is not free for another array.
        return replace(bay, state=BayState.REFUSED) if bay.state is BayState.FREE and bay.note else bay

    def _show_preview(self, state: LabState) -> None:
        name = self.array_name
        self._lost &= frozenset(self.draft.members)
        if (self.draft, state.disks, name, self._lost) == self._shown:
            return
        self._shown = (self.draft, state.disks, name, self._lost)
        self.query_one(Choices).show(self.draft.rows())
        inner_names = tuple(inner.name for status in state.arrays for inner in status.inner)
        spec = self.draft.spec(name, state.disks)
        self._preview = shown = spec.preview(state.disks, self.draft.file_system, inner_names)
        self.query_one("#build-right", Vertical).border_title = f"What {name} would be"
        self._show_tiles(shown)
        self._show_verdict()
        self._show_drawing(shown)
        # Only free disks can be chosen, and the plan that runs is made after the disks are read again.
        self.query_one(PlanView).plan = shown.plan.on_blank_disks() if shown.plan else None
        self._show_comparison(shown)
        self.refresh_bindings()

    def _show_drawing(self, shown: ArrayPreview) -> None:
        stripes, slices = self.query_one(StripeDiagram), self.query_one(SliceDiagram)
        picture = planned_picture(shown, self.draft.members, self._lost)
        stripes.display = picture is None
        slices.show(picture)
        if shown.level is None or not shown.stripe:
            stripes.clear("choose enough disks to see the layout")
            return
        members = [DiagramMember(disk, disk in self._lost) for disk in self.draft.members]
        stripes.show(shown.level, self.draft.layout, members, shown.chunk_bytes)

    def _show_comparison(self, shown: ArrayPreview) -> None:
        levels, systems = self.query_one("#build-levels", LevelTable), self.query_one("#build-systems", LevelTable)
        self.set_class(bool(shown.systems), "-volume")
        if shown.systems:
            systems.titles, systems.narrow_titles = SYSTEM_TITLES, NARROW_SYSTEM_TITLES
            systems.show(system_rows(shown, self.draft.level))
        else:
            levels.show(level_rows(self.draft, self.app.lab.disks))

    def _show_verdict(self) -> None:
        verdict, shown = self.query_one(VerdictBanner), self._preview
        if shown.problems:
            verdict.show(Tone.NOTICE, "NOT YET", "; ".join(shown.problems))
        elif not self._lost:
            if not shown.note:
                verdict.clear()
            elif self.app.lab.is_open and not self.draft.kind.suits(self.app.lab.blank_disks):
                # All free disks have the same size, so this kind of array has no advantage.
                more = f"u adds two larger disks to the lab ({larger_command(self.app.lab)})"
                verdict.show(Tone.NOTICE, "NOTE", f"{shown.note}: {more}.")
            else:
                verdict.show(Tone.NOTICE, "NOTE", f"{shown.note}.")
        else:
            members = self.draft.members
            slots = frozenset(members.index(disk) for disk in self._lost)
            without = ", ".join(disk for disk in members if disk in self._lost)
            if loss := shown.loss_without(slots, len(members)):
                verdict.show(Tone.BAD, "DATA LOST", f"Without {without} {loss}.")
            else:
                verdict.show(Tone.GOOD, "DATA READABLE", f"Without {without} all data can be read from the others.")

    def _show_tiles(self, shown: ArrayPreview) -> None:
        usable, survives = self.query_one("#build-usable", Tile), self.query_one("#build-survives", Tile)
        write, why = self.query_one("#build-write", Tile), self.query_one("#build-why", Static)
        if not shown.usable_bytes:
            for tile in (usable, survives, write):
                tile.show_text("–")
            why.update("")
            return
        is_much = shown.unused_bytes >= _MUCH_UNUSED * shown.raw_bytes
        lost = f", {human_bytes(shown.unused_bytes)} unused" if is_much and shown.unused_bytes else ""
        note = f"of {human_bytes(shown.raw_bytes)}{lost}"
        # A truncated note is useless.
        short = lost.removeprefix(", ") or note
        usable.show_text(human_bytes(shown.usable_bytes), note=note if len(note) < usable.size.width else short)
        low, high = shown.failures_survived, shown.most_failures_survived
        notes = ("depends on which disks", "depends") if high > low else ("any", "any")
        note, short = notes if high else ("any failure loses all data", "")
        note = note if len(note) < survives.size.width else short
        survives.show_text(survives_words(shown), Tone.GOOD if low else Tone.BAD, note)
        cost, _, reason = shown.write_penalty.partition(": ")
        write.show_text(cost, note="for one write")
        why.update(f"A small write: {reason}." if reason else "")

    def on_choices_stepped(self, event: Choices.Stepped) -> None:
        if value := stepped(self.draft.rows(), event.key, event.by):
            self._take(self.draft.changed(event.key, value))

    def on_rack_toggled(self, event: Rack.Toggled) -> None:
        self._has_chosen = True
        remaining = [name for name in self.draft.disks if name not in event.removed]
        self._take(self.draft.with_disks(tuple(dict.fromkeys((*remaining, *event.added)))))

    def on_rack_refused(self, event: Rack.Refused) -> None:
        bay = event.bay
        if self.app.drills.view is not None:
            self.notify(f"{bay.name} {bay.note}, and a drill is open", severity="warning")
            return
        self.app.ask(
            lambda session: session.reset([bay.name]),
            note=f"{bay.name} {bay.note}. A new array needs blank disks.",
            on_done=partial(self._choose_when_free, (bay.name,)),
        )

    def _choose_when_free(self, names: tuple[str, ...]) -> None:
        self._awaited = names

    def action_level(self, by: int) -> None:
        row = self.draft.rows()[0]
        self._take(self.draft.changed("level", row.step(by)))

    def action_what_if(self) -> None:
        bay = self.query_one(Rack).current
        if bay and bay.name in self.draft.members:
            self._lost ^= {bay.name}
            self.changes += 1

    def _take(self, draft: Draft) -> None:
        self.draft = draft
        self.changes += 1

    def action_copy(self) -> None:
        self.query_one(PlanView).action_copy()

    def action_larger(self) -> None:
        ask_for_larger(self.app, self._choose_when_free)

    def action_lesson_disks(self) -> None:
        self._has_chosen = False
        self.changes += 1

    def action_create(self) -> None:
        name, file_system = self.array_name, self.draft.file_system
        spec = self.draft.spec(name, self.app.lab.disks)

        def built() -> None:
            self._has_chosen = False
            self.app.select(array=name)
            self.app.switch_mode("lab")

        self.app.ask(lambda session: session.creation(spec, file_system), on_done=built)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("create", "copy"):
            return True if self._preview.plan and (action == "copy" or self.app.lab.is_open) else None
        if action == "what_if":
            bay = self.query_one(Rack).current
            return True if bay and bay.name in self.draft.members and self._preview.can_be_built else None
        if action == "lesson_disks":
            return bool(self._lesson_disks([disk.name for disk in self.app.lab.blank_disks]))
        if action == "larger":
            return "utilisation" in self.draft.options and self.app.lab.is_open
        return True

    def on_rack_moved(self) -> None:
        self.refresh_bindings()

    def hint(self, state: LabState) -> str | None:
        if not self.draft.disks:
            if not state.disks or self.app.drills.view is not None:
                return None
            unused = [bay for bay in bays_of(state) if bay.state is BayState.FREE and not bay.array]
            if not unused and state.selected is None:
                return "No disk is free: stopped arrays hold them. [b]1[/b] shows the arrays."
            if not unused:
                return "No disk is free. [b]1[/b], then [b]Delete[/b] destroys the selected array."
            if all(bay.note for bay in unused):
                return f"No free disk is blank. [b]Tab[/b], then [b]Space[/b] on {unused[0].name} makes it blank."
            return "[b]Tab[/b] goes to the disks, [b]Space[/b] adds one to the array."
        if not self._preview.can_be_built:
            return escape(self._preview.problems[0].partition(" (")[0])
        return "[b]b[/b] builds it. [b]Tab[/b] goes to the disks, [b]Space[/b] adds or removes one."
