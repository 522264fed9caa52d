"""The base class of all modal screens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.await_complete import AwaitComplete
from textual.events import Event, Key
from textual.screen import ModalScreen

if TYPE_CHECKING:
    from textual import getters

    from tui.base_app import BaseApp

R = TypeVar("R")


class Modal(ModalScreen[R]):
    """A modal screen that can be dismissed at any time: more than once, or while another screen is above it.

    Textual would end the app in the first case, and remove the other screen in the second.
    """

    if TYPE_CHECKING:
        app = getters.app(BaseApp)

    SEEN_FIRST: ClassVar[bool] = False
    """Ignore keys typed before the screen was visible, except Escape: the user cannot confirm what is not visible."""

    _shown_seconds = math.inf
    _has_left = False
    _answers: tuple[R | None, ...] = ()
    """The result with which it is dismissed as soon as no screen is above it."""

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        """Dismiss the screen with a result, once: now, or as soon as no screen is above it."""
        if self._has_left:
            return AwaitComplete()
        if self.app.screen_stack[-1:] != [self]:
            self._answers = (result,)
            return AwaitComplete()
        self._has_left = True
        return super().dismiss(result)

    def on_mount(self) -> None:
        self.call_after_refresh(self._note_shown)

    def _note_shown(self) -> None:
        self._shown_seconds = Event().time

    @property
    def is_shown(self) -> bool:
        """Whether the screen has been visible."""
        return self._shown_seconds < math.inf

    def is_meant(self, key: Key) -> bool:
        """Whether the key may have been typed for this screen."""
        return not self.SEEN_FIRST or key.key == "escape" or key.time >= self._shown_seconds

    def on_screen_resume(self) -> None:
        for result in self._answers:
            self.dismiss(result)
