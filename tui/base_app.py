"""What screens and widgets know of the app: the frontend, its services, what is selected, and notifications."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.binding import Binding

from lab.errors import RUN_AGAIN
from tui.collector import settle_collector
from tui.drills import Drills
from tui.faults import FaultRuns
from tui.fleet import Fleets
from tui.frontend import ClientMaker, Frontend
from tui.glyphs import ASCII, UNICODE, Glyphs
from tui.lessons.guide import Guide
from tui.plain import KEY_WORDS, AsciiFilter, needs_ascii
from tui.runs import Experiments
from tui.sweeps import Sweeps

if TYPE_CHECKING:
    from lab.errors import LabError
    from lab.plans import Plan

_BAD_NEWS_SECONDS = 12.0


class BaseApp(App[object], Frontend, inherit_bindings=False):
    """The app without its modes, dialogs and keys, which ``tui.app`` adds.

    Args:
        target: the machine, or None for the one that suits this computer.
        make_client: another client, for tests.
        glyphs: the signs to draw with; None: what the terminal can show.
    """

    def __init__(self, target: str | None, make_client: ClientMaker | None, glyphs: Glyphs | None) -> None:
        super().__init__()
        self.connect(target, make_client)
        self.glyphs = glyphs or (ASCII if needs_ascii(os.environ, sys.__stdout__) else UNICODE)
        if self.glyphs is ASCII:
            self._filters.append(AsciiFilter())
        self.experiments, self.faults = Experiments(self), FaultRuns(self)
        self.fleets, self.sweeps = Fleets(self), Sweeps(self)
        self.guide = Guide(self, on_passed=self.bell, waits=lambda: self.drills.view is not None)
        self.drills = Drills(self)
        self.services += (self.guide, self.drills)
        self.marks.is_quiet = lambda: self.guide.is_following
        self.owns_process = False
        """Whether signals and bugs of this process are the app's alone: not in tests."""

    @property
    def is_typing_on_machine(self) -> bool:
        """Whether the keys are a program's on the machine. On any thread."""
        raise NotImplementedError

    def settle(self) -> None:
        """Much has been loaded that stays. Does nothing where the app shares its process."""
        if self.owns_process:
            settle_collector()

    def show_now(self) -> None:
        """Bring the screens that can be seen up to date."""
        raise NotImplementedError

    def select(self, *, array: str | None = None, disk: str | None = None) -> None:
        """Change what is selected; it is remembered over restarts."""
        self.lab.selected_array = array or self.lab.selected_array
        self.lab.selected_disk = disk or self.lab.selected_disk
        self.show_soon()

    def built(self, plan: Plan) -> None:
        """A first array has been built: select it, and let the Lab screen show it."""
        created = next((step for step in plan.steps if step.argv[:2] == ("mdadm", "--create")), None)
        if created:
            self.select(array=created.argv[2].removeprefix("/dev/"))
        self.switch_mode("lab")

    def show_error(self, error: LabError) -> None:
        hint = error.hint.replace(RUN_AGAIN, "press Ctrl+R")
        self.say(f"{error.message}\nnext: {hint}" if hint else error.message, is_bad=True)

    def say(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        """In a notification; bad news stays longer."""
        options: dict[str, Any] = {"severity": "error", "timeout": _BAD_NEWS_SECONDS} if is_bad else {}
        self.notify(text, title=title, markup=False, **options)

    def choose_freely(self) -> None:
        self.switch_mode("build")

    def get_key_display(self, binding: Binding) -> str:
        """In words where the terminal has no signs for Enter and the arrows."""
        shown = super().get_key_display(binding)
        return KEY_WORDS.get(shown, shown) if self.glyphs is ASCII else shown
