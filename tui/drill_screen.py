"""The Drills screen, with the list of drills and their best verdicts, the open drill, and the debriefing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Footer, Markdown, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import WorkType

from lab.drills.verbs import ClearDisks, Commit, Debrief, DrillHint, LeaveDrill, ResetDrill, StartDrill
from tui.dialogs import Modal, VariantScreen
from tui.drills import DrillView
from tui.keys import key_for
from tui.look import glyphs_of
from tui.mode import ModeScreen
from tui.state import LabState
from tui.widgets import numbered, titled

if TYPE_CHECKING:
    from lab.drills.case import DrillLine


_VERBS = {each.short_name(): each for each in (DrillHint, Commit, ResetDrill, Debrief, LeaveDrill)}


def drill_line(widget: Widget, item: DrillLine) -> Content:
    """Return a drill as a line of a list, with a character for its verdict."""
    glyphs = glyphs_of(widget)
    if item.is_open:
        sign, style = glyphs.busy, "$text-primary"
    elif item.is_saved:
        sign, style = glyphs.good, "$text-success"
    elif item.outcomes:
        sign, style = glyphs.bad, "$text-warning"
    else:
        sign, style = glyphs.pending, "$foreground-muted"
    return numbered((sign, style), item.number, item.drill.title)


class DrillsScreen(ModeScreen):
    """The Drills screen, key 9."""

    CSS_PATH = "drill_screen.tcss"
    AREA = "Drills"
    HELP = (
        "Disasters to practise on. Something is wrong with an array, and you have an administrator's information and "
        "tools: screen 1 with the rack, and screen 5 with a terminal, mdadm and dmesg.\n\n"
        "Do not write to the disks until you press c (commit): 'overlays up DEVICE…' in the terminal puts writable "
        "overlays on top of them. z restores the disks in seconds. d ends the drill with a debriefing: how much of the "
        "data was saved, and what an expert would have done."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        *(key_for(_VERBS[name], f"perform('{name}')", id=f"drills.{name}")
          for name in ("hint", "commit", "reset", "debrief")),
        Binding("space,pagedown", "page(1)", "More", id="drills.down", tooltip="Scroll the drill down"),
        Binding("pageup", "page(-1)", "Up", show=False, id="drills.up", tooltip="Scroll the drill up"),
        Binding("t", "time", "Timer", show=False, id="drills.time", tooltip="Show or hide the timer"),
        key_for(StartDrill, "variant", id="drills.variant"),
        Binding("l", "last", "Last page", id="drills.last", tooltip="Show the last debriefing again"),
        key_for(ClearDisks, "clear", id="drills.clear"),
        key_for(_VERBS["leave"], "perform('leave')", id="drills.leave"),
        Binding("escape", "lesson", "Back", id="drills.back", show=False, tooltip="To the previous screen"),
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._items: tuple[DrillLine, ...] = ()
        self._current = ""

    def body(self) -> ComposeResult:
        with Horizontal(id="drills"):
            with Vertical(id="drills-left"):
                yield titled(OptionList(id="drill-list"), "Drills")
            with titled(VerticalScroll(id="drill", can_focus=False), "Drill"):
                yield Static("", id="drill-status")
                yield Markdown("", id="drill-text", open_links=False)

    def on_mount(self) -> None:
        self.query_one("#drill-list").focus()
        self.app.drills.open()

    def show_state(self, state: LabState) -> None:
        self._show_list()
        view = self.app.drills.view
        self.set_class(view is not None, "-open")
        if view is None:
            self._show_about()
        else:
            self._show_drill(view)

    def hint(self, state: LabState) -> str | None:
        view = self.app.drills.view
        if view is None:
            return "[b]Enter[/b] starts the drill. All data on the lab's disks will be lost."
        if view.is_committed:
            return "Committed: [b]5[/b] is the terminal, [b]d[/b] ends the drill, [b]z[/b] restores the disks."
        return "[b]5[/b] is the terminal: inspect, use overlays. [b]c[/b] before writing to disks."

    def _show_list(self) -> None:
        if self.app.drills.items == self._items and not self.app.drills.to_select:
            return
        self._items = self.app.drills.items
        listed = self.query_one("#drill-list", OptionList)
        at = listed.highlighted
        listed.clear_options()
        listed.add_options(Option(drill_line(self, item), id=item.id) for item in self._items)
        requested, self.app.drills.to_select = self.app.drills.to_select, ""
        if requested:
            at = next((i for i, item in enumerate(self._items) if item.id == requested), at)
        if at is None:
            at = next((i for i, item in enumerate(self._items) if item.is_open or not item.is_saved), 0)
        listed.highlighted = min(at, len(self._items) - 1) if self._items else None
        listed.border_subtitle = f"{sum(item.is_saved for item in self._items)} of {len(self._items)} saved"

    def _show_about(self) -> None:
        item = next((item for item in self._items if item.id == self._current), None)
        if item is None:
            return
        self.query_one("#drill").border_title = f"Drill {item.number}"
        self._show_status([("duration", f"{item.drill.minutes} min"), ("best", item.status)])
        self._text(f"## {item.drill.title}\n\n{item.drill.symptom.strip()}")

    def _show_drill(self, view: DrillView) -> None:
        variant = f", variant '{view.seed}'" if view.seed else ""
        self.query_one("#drill").border_title = f"Drill {view.number}: open{variant}"
        self._show_status(list(view.status))
        self._text(view.text)

    def _show_status(self, lines: list[tuple[str, str]]) -> None:
        """Show the lines as running text, because one line for each would push the symptom off a small terminal."""
        gap = f" {glyphs_of(self).separator} "
        parts: list[tuple[str, str]] = []
        for label, text in lines:
            parts += [(gap if parts else "", "$foreground-muted"), (f"{label}: ", "$foreground-muted"), (text, "")]
        self.query_one("#drill-status", Static).update(Content.assemble(*parts))

    def _text(self, text: str) -> None:
        widget = self.query_one("#drill-text", Markdown)
        if widget.source != text:
            is_longer = bool(widget.source) and text.startswith(widget.source)

            # Pass a callable, because a coroutine that is replaced before it starts would never be awaited.
            work: WorkType[None] = partial(self._replace, widget, text, to_end=is_longer)
            self.run_worker(work, group="drill-text", exclusive=True)

    async def _replace(self, widget: Markdown, text: str, *, to_end: bool) -> None:
        await widget.update(text)
        box = self.query_one("#drill", VerticalScroll)
        self.call_after_refresh(box.scroll_end if to_end else box.scroll_home, animate=False)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._current = event.option_id or ""
        if self.app.drills.view is None:
            self._show_about()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_id:
            self._begin(event.option_id)

    def _begin(self, drill_id: str) -> None:
        view = self.app.drills.view
        if view is not None:
            self.notify(f"Drill {view.number} is open: d ends it, and x gives it up.", severity="warning")
        elif self.app.lab.is_open:
            self.app.drills.begin(StartDrill(name=drill_id))
        else:
            self.notify("The machine is not running yet.", severity="warning")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        view = self.app.drills.view
        if view is not None and action == "perform":
            return {"hint": view.has_more_hints, "commit": not view.is_committed}.get(str(parameters[0]), True)
        match action:
            case "perform" | "time" | "page":
                return view is not None
            case "variant":
                is_exam = view is not None and view.is_exam
                return bool(view or self._current) and self.app.lab.is_open and not is_exam
            case "clear":
                return view is None and self.app.drills.left is not None
            case "last":
                return bool(self.app.drills.page)
            case _:
                return super().check_action(action, parameters)

    def action_perform(self, name: str) -> None:
        verb = _VERBS[name]()
        if isinstance(verb, DrillHint):
            self.app.drills.hint()
        else:
            self.app.drills.perform(verb, lambda _: self.action_last() if isinstance(verb, Debrief) else None)

    def action_last(self) -> None:
        self.app.push_screen(
            DebriefScreen(self.app.drills.page), lambda clears: self.app.drills.clear() if clears else None
        )

    def action_clear(self) -> None:
        self.app.drills.clear()

    def action_time(self) -> None:
        self.app.drills.toggle_time()

    def action_page(self, pages: int) -> None:
        box = self.query_one("#drill", VerticalScroll)
        box.scroll_relative(y=pages * max(1, box.size.height // 2), animate=False)

    def action_variant(self) -> None:
        view = self.app.drills.view
        drill_id, seed = (view.id, view.seed) if view else (self._current, "")
        verb = partial(StartDrill, name=drill_id, again=view is not None)
        self.app.push_screen(VariantScreen(seed, lambda seed: self.app.drills.begin(verb(seed=seed))))

    def palette(self) -> Iterable[SystemCommand]:
        for item in self._items:
            yield SystemCommand(
                f"Start drill {item.number}, {item.drill.title}", item.best_words, partial(self._begin, item.id)
            )


class MakingScreen(Modal[None]):
    """Covers the screen while a drill is being prepared."""

    CSS_PATH = "drill_screen.tcss"
    AREA = "Drills"
    HELP = "The drill is being set up on the lab's disks. This takes a few seconds; the commands are hidden."

    def compose(self) -> ComposeResult:
        yield Static("The drill is being set up. Its description follows in a moment.", id="making")


class DebriefScreen(Modal[bool]):
    """The debriefing of a drill. Its result is whether to erase the disks of the drill.

    Args:
        page: the debriefing, as Markdown.
    """

    CSS_PATH = "drill_screen.tcss"
    AREA = "Debriefing"
    HELP = "How much of the data was saved, what was done to each member, and what an expert would have done."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss(False)", "Close", id="debriefing.close", tooltip="Back to the drills"),
        key_for(
            ClearDisks,
            "dismiss(True)",
            id="debriefing.clear",
            tooltip="Erase the disks that the drill used, for the next drill or an array of your own",
        ),
    ]

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disks are erased only while they hold what the last drill left."""
        drills = self.app.drills
        return parameters != (True,) or (drills.left is not None and drills.view is None)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="debrief-box") as box:
            box.border_title = "Debriefing"
            yield Markdown(self._page, open_links=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#debrief-box").focus()
