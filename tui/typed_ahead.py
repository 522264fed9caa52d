"""Serialises input that arrives faster than the app handles it, as if the user typed one key at a time.

Textual passes on a key at once, while messages caused by the previous key are still queued: the cursor moves, a dialog
opens. Without serialisation, ``Down f`` in one packet of a slow line would fail the wrong disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.css.query import NoMatches
from textual.errors import NoWidget
from textual.screen import Screen

from tui.screens.modal import Modal

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.events import Event

    from tui.base_app import BaseApp

_LEAST_PASSES, _MOST_PASSES = 2, 20
_VALVE_SECONDS = 0.5
_MOST_VALVES = 10
"""Maximum number of timeouts; then the next key is handled even if the screen has not appeared yet."""
_HARMLESS = (events.MouseMove, events.MouseScrollDown, events.MouseScrollUp)
"""Events that select nothing; the next event need not wait for them."""


class TypedAhead:
    """Passes on one key, click or paste at a time.

    A message travels from the focused widget through its parents to the screen and the app. A callback that is sent
    along the same path afterwards arrives when all of them have handled the message. Messages that a handler posts need
    another pass.
    """

    def __init__(self, app: BaseApp, let_in: Callable[[Event], Awaitable[None]]) -> None:
        """``let_in`` handles one event; it runs in the app's own task."""
        self._app = app
        self._let_in = let_in
        self._held: deque[Event] = deque()
        self._is_following = False
        self._turn = 0
        """Number of the current turn; callbacks of earlier turns are ignored."""
        self._seen: Screen[object] | None = None
        """The screen at the front before the current event; later, the newest screen that appeared."""
        self._valve: asyncio.TimerHandle | None = None
        self._valves = 0

    @property
    def is_busy(self) -> bool:
        """Whether input, or a message caused by input, is still to be handled."""
        return self._is_following or bool(self._held)

    async def take(self, event: Event) -> None:
        """Handle this event now, or after the events before it."""
        if self._is_following:
            self._held.append(event)
            return
        self._seen = screen = self._app.screen
        if isinstance(event, events.Key) and isinstance(screen, Modal) and not screen.is_meant(event):
            return
        await self._let_in(event)
        if not isinstance(event, _HARMLESS):
            self._is_following, self._valves = True, 0
            self._begin(event)

    def _begin(self, event: Event | None = None) -> None:
        self._turn += 1
        self._set_valve()
        self._follow(self._turn, self._way(event), 0, 1)

    def _way(self, event: Event | None = None) -> list[DOMNode]:
        """The path from the widget that receives the event to the app."""
        screen = self._app.screen
        target: DOMNode = screen.focused or screen
        if isinstance(event, events.MouseEvent):
            try:
                target, _ = screen.get_widget_at(event.x, event.y)
            except (NoWidget, NoMatches):
                target = screen
        return list(target.ancestors_with_self)

    def _follow(self, turn: int, way: list[DOMNode], index: int, number: int) -> None:
        """Send the callback along the path from ``way[index]``; nodes that have closed are skipped."""
        if turn != self._turn or not self._is_following:
            return
        for at in range(index, len(way)):
            if way[at].call_later(partial(self._follow, turn, way, at + 1, number)):
                return
        self._passed(turn, way, number)

    def _passed(self, turn: int, way: list[DOMNode], number: int) -> None:
        now, screen = self._way(), self._app.screen
        is_quiet = way == now and not any(each.message_queue_size for each in now)
        if number < _MOST_PASSES and (number < _LEAST_PASSES or not is_quiet):
            self._follow(turn, now, 0, number + 1)
        elif screen is not self._seen:
            self._seen = screen
            if self._held:
                # Update the new screen before the next key, which was typed for the contents that it shows.
                self._app.show_now()
            self._follow(turn, now, 0, 1)
        else:
            self._end()

    def _end(self) -> None:
        self._is_following = False
        if self._valve:
            self._valve.cancel()
            self._valve = None
        if self._held:
            self._is_following = True
            self._app.call_later(self._next)

    async def _next(self) -> None:
        event, self._is_following = self._held.popleft(), False
        await self.take(event)
        if self._held and not self._is_following:
            self._is_following = True
            self._app.call_later(self._next)

    def _set_valve(self) -> None:
        if self._valve:
            self._valve.cancel()
        self._valve = asyncio.get_running_loop().call_later(_VALVE_SECONDS, self._look_after)

    def _look_after(self) -> None:
        """Start another pass after a timeout: a callback is lost if its widget closes before it is called."""
        if not self._app.is_running or not self._app.screen_stack:
            return
        self._valves += 1
        if self._valves > _MOST_VALVES:
            self._end()
        else:
            self._begin()
