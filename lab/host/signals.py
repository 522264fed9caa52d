"""Ctrl-C and SIGTERM end a command in good order: an exception, so that everything that is open closes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

_IMPATIENT_FROM = 3


class Interrupted(BaseException):
    """Someone wants this command to end; ``exit_status`` is the one that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


def install(say: Callable[[str], object]) -> None:
    """From here on both signals raise Interrupted; a second one only says that the closing is under way."""
    received = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received == 1 or received >= _IMPATIENT_FROM:
            raise Interrupted(number)
        say("raidlab: closing; once more leaves at once")

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
