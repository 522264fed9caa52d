"""Reads the contents of the disks for lessons that check them, on the lab's thread, every ``FRESH_SECONDS`` at most."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.checks.state import DeepState
    from lab.errors import LabError
    from lab.lessons.student import LessonSession
    from lab.session.monitor import Snapshot
    from tui.frontend import Frontend

FRESH_SECONDS = 2.0
"""Maximum age of the data; reading them takes several commands on the machine."""


class DiskLook:
    """The contents of the disks, as last read in this step; ``on_gathered`` is called after each read."""

    def __init__(self, frontend: Frontend, *, on_gathered: Callable[[], object]) -> None:
        self._frontend = frontend
        self._on_gathered = on_gathered
        self._found: tuple[float, DeepState] | None = None
        self._is_gathering = False
        self._step_number = 0

    def forget(self) -> None:
        """Discard the data when another step begins, including data that are still being read."""
        self._found = None
        self._step_number += 1

    def state(self, seat: LessonSession, since: Snapshot, look: Snapshot) -> DeepState:
        """The data that were read last; if they are old and the lesson needs them, they are read again."""
        from lab.checks.state import DeepState
        from lab.lessons.student import asks_for_disks, deep_state

        is_fresh = self._found and 0 <= look.time_seconds - self._found[0] < FRESH_SECONDS
        if not self._is_gathering and not is_fresh and asks_for_disks(seat.lesson):
            self._is_gathering = True
            self._frontend.look_up(
                lambda session: deep_state(seat.lesson, session, since, look),
                on_done=partial(self._gathered, self._step_number, look),
                on_error=self._failed,
            )
        return self._found[1] if self._found else DeepState()

    def _gathered(self, step_number: int, look: Snapshot, found: DeepState) -> None:
        self._is_gathering = False
        if step_number == self._step_number:
            self._found = (look.time_seconds, found)
        self._on_gathered()

    def _failed(self, _: LabError) -> None:
        self._is_gathering = False
