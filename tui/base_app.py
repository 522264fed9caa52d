"""The part of the app that screens and widgets use: the frontend, services, selection and notifications."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from textual.app import App
from textual.binding import Binding
from textual.reactive import reactive
from textual.screen import Screen

from lab.errors import RUN_AGAIN, LabError
from lab.plans import Plan
from tui.drills import Drills
from tui.frontend import ClientMaker, Frontend
from tui.lessons import Guide
from tui.look import ASCII, KEY_WORDS, UNICODE, AsciiFilter, Glyphs, needs_ascii
from tui.runs import Experiments
from tui.sweeps import Sweeps
from tui.terminal import TerminalSession

if TYPE_CHECKING:
    from textual import getters

R = TypeVar("R")
_YOUNG_OBJECTS = 5_000
"""After this many new objects, about as many as one painting creates, the youngest generation is collected."""
_YOUNG_ROUNDS = 10
_OLD_ROUNDS = 10


def settle_collector() -> None:
    """Exclude all existing objects from garbage collection. Old garbage among them may never be collected."""
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS, _OLD_ROUNDS)
    # Collect the youngest generation first, because it holds most of the garbage from loading.
    gc.collect(0)
    gc.freeze()


_BAD_NEWS_SECONDS = 12.0
SHOW_SECONDS = 0.1
"""Minimum time between two updates of the screens."""


class BaseApp(App[object], Frontend, inherit_bindings=False):
    """The app without its modes, dialogs and keys, which ``tui.app`` adds."""

    def __init__(self, target: str | None, make_client: ClientMaker | None, glyphs: Glyphs | None) -> None:
        super().__init__()
        self.connect(target, make_client)
        self.glyphs = glyphs or (ASCII if needs_ascii(os.environ, sys.__stdout__) else UNICODE)
        if self.glyphs is ASCII:
            self._filters.append(AsciiFilter())
        self.experiments, self.sweeps = Experiments(self), Sweeps(self)
        self.guide = Guide(self, on_passed=self.bell, is_suspended=lambda: self.drills.view is not None)
        self.drills = Drills(self)
        self.terminal = TerminalSession(self)
        self.came_from: dict[str, str] = {}
        """For the mode of the open drill or lesson, the mode from which the user last went there."""
        self.receivers += (self.guide.receive, self.drills.receive)
        self.marks.is_quiet = lambda: self.guide.is_following
        self._is_show_due = False
        self.owns_process = False
        """Whether the app handles the signals and unexpected exceptions of this process; False in tests."""

    @property
    def is_typing_on_machine(self) -> bool:
        """Whether a program on the machine receives the keys. Any thread may read this."""
        raise NotImplementedError

    @property
    def views(self) -> list[StateScreen[Any]]:
        return [screen for screen in self.screen_stack if isinstance(screen, StateScreen)]

    def settle(self) -> None:
        if self.owns_process:
            settle_collector()

    def show_soon(self) -> None:
        """Schedule one update of the screens after ``SHOW_SECONDS``, however many calls are made until then."""
        if not self._is_show_due:
            self._is_show_due = True
            self.set_timer(SHOW_SECONDS, self.show_now)

    def show_now(self) -> None:
        self._is_show_due = False
        for view in self.views if self.is_running else ():
            view.changes += 1

    def select(self, *, array: str | None = None, disk: str | None = None) -> None:
        """Change the selection, which is stored for the next start. None leaves a part unchanged."""
        self.lab.selected_array = array or self.lab.selected_array
        self.lab.selected_disk = disk or self.lab.selected_disk
        self.show_soon()

    def built(self, plan: Plan) -> None:
        """Select the array that this plan created, if any, and switch to the Lab screen."""
        created = next((step for step in plan.steps if step.argv[:2] == ("mdadm", "--create")), None)
        if created:
            self.select(array=created.argv[2].removeprefix("/dev/"))
        self.switch_mode("lab")

    def show_error(self, error: LabError) -> None:
        hint = error.hint.replace(RUN_AGAIN, "press Ctrl+R")
        self.show_message(f"{error.message}\nnext: {hint}" if hint else error.message, is_bad=True)

    def show_message(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        options: dict[str, Any] = {"severity": "error", "timeout": _BAD_NEWS_SECONDS} if is_bad else {}
        self.notify(text, title=title, markup=False, **options)

    def choose_freely(self) -> None:
        self.switch_mode("build")

    def get_key_display(self, binding: Binding) -> str:
        """Return the name of a key, in words if the terminal has no characters for Enter and the arrows."""
        shown = super().get_key_display(binding)
        return KEY_WORDS.get(shown, shown) if self.glyphs is ASCII else shown


class StateScreen(Screen[R]):
    """A screen whose widgets show the state of the lab."""

    changes = reactive(0, repaint=False, init=False)
    """Counts the changes of the state that are to be shown, while the screen is in front or below a dialog."""
    if TYPE_CHECKING:
        app = getters.app(BaseApp)
