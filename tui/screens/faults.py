"""The Faults screen: runs scenarios, crash points and campaigns, and shows the verdict on the data with evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.faults import FaultItem, Line, all_items
from tui.keys import CommandKey
from tui.look import glyphs_of
from tui.mode import ModeScreen
from tui.widgets.lines import titled

if TYPE_CHECKING:
    from tui.state import LabState

_STYLES = {"plain": "", "muted": "$text-muted", "good": "$text-success", "bad": "$text-error", "title": "bold"}


class FaultsScreen(ModeScreen):
    """The Faults screen, key 7."""

    CSS_PATH = "faults.tcss"
    AREA = "Faults"
    USES_LAB = False
    LESSON_FROM_CELLS = 160
    HELP = (
        "Each scenario breaks an array in one way, on blank drives of a machine of its own, and ends with a verdict on "
        "the data: what was written, what the array gives now, and whether that is what md promises.\n\n"
        "Power cuts: a load is recorded drive by drive, and states that a cut could have left are tried one after the "
        "other. Nothing of the lab's own arrays is touched; they can be used meanwhile."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        CommandKey("r", "run", "Run", id="faults.run", tooltip="Try what is selected in the list", command="fault run"),
        CommandKey(
            "s", "stop", "Stop", id="faults.stop", tooltip="End what runs, at its next step", command="fault run"
        ),
        Binding("a", "about", "About", id="faults.about", tooltip="What must hold; again: what was seen"),
        Binding("tab", "app.focus_next", "Next panel", show=False, id="faults.next", tooltip="To the text"),
        Binding("shift+tab", "app.focus_previous", "Back", show=False, id="faults.previous", tooltip="To the list"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[str, FaultItem] = {}
        self._item: FaultItem | None = None
        self._is_about = False
        self._drawn: tuple[object, ...] | None = None

    def body(self) -> ComposeResult:
        with Horizontal(id="faults"):
            yield titled(OptionList(id="fault-list", markup=False), "What to try")
            with titled(VerticalScroll(id="fault-scroll"), "Verdict"):
                yield Static("", id="fault-text")

    def on_mount(self) -> None:
        items = all_items()
        self._items = {item.id: item for item in items}
        choose = self.query_one(OptionList)
        for title, kind in (("Scenarios", "scenario"), ("Power cuts", "points"), ("Campaigns", "campaign")):
            found = [item for item in items if item.id.startswith(kind)]
            if found:
                choose.add_option(Option(Content.styled(title, "italic"), disabled=True))
                choose.add_options(Option(item.label, id=item.id) for item in found)
        choose.highlighted = 1
        choose.focus()

    def on_screen_resume(self) -> None:
        """Read the stored outcomes again, and select the item about which the open lesson asks."""
        self.app.faults.read_stored()
        wanted = self.app.guide.fault_to_read
        choose = self.query_one("#fault-list", OptionList)
        if wanted and any(option.id == wanted.item for option in choose.options):
            choose.highlighted = choose.get_option_index(wanted.item)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._item, self._is_about = self._items.get(event.option.id or ""), False
        self.update_from(self.app.lab)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if self.check_action("run", ()):
            self.action_run()

    def show_state(self, state: LabState) -> None:
        item = self._item
        if item is None:
            return
        view = None if self._is_about else self.app.faults.shown(item.id)
        wanted = self.app.guide.fault_to_read
        first = wanted.parts if wanted and wanted.item == item.id else ()
        lines = view.lines_from(first) if view else list(item.about)
        outcome, is_run = view.outcome if view else None, view is not None
        drawn = (item.id, len(lines), is_run, outcome, lines[:1], first)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        scroll, glyphs = self.query_one("#fault-scroll", VerticalScroll), glyphs_of(self)
        signs = {"good": f"{glyphs.good} ", "bad": f"{glyphs.bad} "}
        if outcome:
            lines = [*lines, ("", "plain"), (f"{signs.get(outcome[1], '')}{outcome[0]}", outcome[1])]
        parts = [self._part(line, signs) for line in lines]
        self.query_one("#fault-text", Static).update(Content("\n").join(parts))
        scroll.border_title = item.label.strip()
        scroll.border_subtitle = "" if not is_run else "done" if outcome else "running"
        if view is not None and view is self.app.faults.view and not first:
            scroll.scroll_end(animate=False)
        else:
            scroll.scroll_home(animate=False)

    def _part(self, line: Line, signs: dict[str, str]) -> Content:
        text, tone = line
        # Colour alone does not show the result: a failed check has a character of its own.
        bare = text.lstrip()
        if tone in signs and not bare.startswith(tuple(signs.values())):
            text = f"{text[: len(text) - len(bare)]}{signs[tone]}{bare}"
        return Content.styled(text, _STYLES[tone]) if _STYLES[tone] else Content(text)

    def action_run(self) -> None:
        if self._item:
            self._is_about = False
            self.app.faults.start(self._item)
        self.app.show_soon()

    def action_stop(self) -> None:
        self.app.faults.cancel()

    def action_about(self) -> None:
        self._is_about = not self._is_about
        self.update_from(self.app.lab)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        view = self.app.faults.view
        if action == "run":
            return None if self.app.lab.background else True
        if action == "stop":
            return True if view and view.is_running and not view.is_ending else None
        if action == "about":
            return True if self._item and self.app.faults.shown(self._item.id) else None
        return True

    def hint(self, state: LabState) -> str | None:
        view = self.app.faults.view
        if view and view.is_running:
            if view.is_ending:
                return "It ends as soon as the machine has let go."
            return "It is tried on a machine of its own. [b]s[/b] ends it; [b]1[/b]: your own arrays meanwhile."
        if state.background:
            return f"It can be tried when '{state.background}' is done."
        if self._item and not self._is_about and self.app.faults.shown(self._item.id):
            return "This was seen when it was last tried. [b]a[/b] shows what must hold; [b]r[/b] tries it again."
        return "[b]r[/b] or Enter tries it, on a machine of its own: nothing of yours is touched."
