"""Closes a machine that takes too long by this computer's clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from lab.errors import LabError
from lab.machine.api import Machine

_POLL_SECONDS = 0.5


class Watchdog:
    """Closes a machine after ``seconds`` without a call of ``feed``.

    Calls that wait for the machine then raise MachineLost. In virtual time, a program that computes endlessly stops the
    machine's clock, so nothing on the machine can end it. ``is_exceeded`` is polled, and the machine is closed earlier
    if it returns True. ``before_closing`` is called just before the machine is closed, because closing removes the
    machine's files.
    """

    def __init__(
        self,
        machine: Machine,
        seconds: float,
        *,
        is_exceeded: Callable[[], bool] = lambda: False,
        before_closing: Callable[[], object] = lambda: None,
    ) -> None:
        self.has_closed = False
        self._machine, self.seconds = machine, seconds
        self._is_exceeded, self._before_closing = is_exceeded, before_closing
        self._last = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="raidlab-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def feed(self) -> None:
        """Restart the time limit."""
        self._last = time.monotonic()

    def _watch(self) -> None:
        # Wait in short steps, because the limit may be shortened meanwhile.
        while (left := self._last + self.seconds - time.monotonic()) > 0 and not self._is_exceeded():
            if self._is_over.wait(min(left, _POLL_SECONDS)):
                return
        self._before_closing()
        self.has_closed = True
        with suppress(LabError):
            self._machine.close()
