"""The app as a desk: plans, choices and sentences as screens and notifications. Mixed into the app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.app import App

if TYPE_CHECKING:
    from lab.errors import LabError
    from lab.plans import Plan
    from tui.choice import Choice

_LONG_SECONDS = 12.0


class Dialogs(App[object], inherit_bindings=False):
    """See ``tui.desk``."""

    def show_plan(self, plan: Plan, *, note: str, on_done: Callable[[], None] | None) -> None:
        """On a screen that runs, copies or leaves it."""
        from tui.screens.plan import PlanScreen

        self.push_screen(PlanScreen(plan, note=note, on_done=on_done))

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        """On a menu."""
        from tui.screens.menu import MenuScreen

        def done(chosen: str | None) -> None:
            if chosen is not None:
                then(chosen)

        self.push_screen(MenuScreen(title, choices, intro=intro), done)

    def tell(self, error: LabError) -> None:
        """Show an error with what to do next."""
        self.say(f"{error.message}\nnext: {error.hint}" if error.hint else error.message, is_bad=True)

    def say(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        """Show a sentence."""
        options: dict[str, Any] = {"severity": "error", "timeout": _LONG_SECONDS} if is_bad else {}
        self.notify(text, title=title, markup=False, **options)

    def choose_freely(self) -> None:
        """To the Build screen."""
        self.switch_mode("build")
