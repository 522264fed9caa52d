"""What all screens that come up above another have in common."""

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
    """May be told to leave at any time: again when it has left, or while another screen lies above it.

    Textual would end the app over the first, and take away the other screen over the second.
    """

    if TYPE_CHECKING:
        app = getters.app(BaseApp)

    SEEN_FIRST: ClassVar[bool] = False
    """Keys that were typed before this was on the screen do nothing, but Escape: nobody agrees to what is not seen."""

    _shown_seconds = math.inf
    _has_left = False
    _answers: tuple[R | None, ...] = ()
    """What to leave with as soon as nothing lies above."""

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        """Leave with a result, now or when nothing lies above any more; once."""
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
        """Whether it has been on the screen."""
        return self._shown_seconds < math.inf

    def is_meant(self, key: Key) -> bool:
        """Whether the key may have been typed for this."""
        return not self.SEEN_FIRST or key.key == "escape" or key.time >= self._shown_seconds

    def on_screen_resume(self) -> None:
        for result in self._answers:
            self.dismiss(result)
