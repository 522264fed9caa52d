"""What all modes of the app have in common: the bar above, the next step and the keys below, and news of the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Footer

from tui.widgets.frame import HintLine, ProblemBar, TopBar

if TYPE_CHECKING:
    from textual import getters

    from tui.app import RaidlabApp
    from tui.state import LabState


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A command of the palette that is no key."""

    text: str
    help: str
    run: Callable[[], object]


class ModeScreen(Screen[None]):
    """Base of every mode. Subclasses give ``body`` and ``show_state``."""

    AREA: ClassVar[str] = ""
    """Its commands in the palette are called ``AREA: …``."""
    HELP: ClassVar[str] = ""
    """Markdown: what the screen is for. The keys are added by themselves."""

    if TYPE_CHECKING:
        app = getters.app(RaidlabApp)

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield ProblemBar()
        with Horizontal(id="main"):
            with Vertical(id="body"):
                yield from self.body()
            # A lesson's panel goes in here; without children it takes no room.
            yield Vertical(id="side")
        yield HintLine()
        yield Footer(compact=True, show_command_palette=False)

    def body(self) -> ComposeResult:
        """The widgets of this mode."""
        yield from ()

    def show_state(self, state: LabState) -> None:
        """Show this; called at most ten times a second while the screen can be seen."""

    def hint(self, state: LabState) -> str | None:
        """What to do next here; None leaves it to the newcomer's story."""
        return None

    def palette(self) -> Iterable[PaletteEntry]:
        """Commands beyond the keys."""
        return ()

    def update_from(self, state: LabState) -> None:
        """Bring frame and body up to date."""
        from tui.story import next_step

        self.query_one(TopBar).show(state, self.app.current_mode)
        self.query_one(ProblemBar).show(state)
        self.query_one(HintLine).show(self.hint(state) or next_step(state))
        self.show_state(state)
        self.refresh_bindings()

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self.app.show_now)
