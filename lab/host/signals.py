"""Ctrl-C, SIGTERM and SIGHUP end a command in good order: an exception, so that everything that is open closes."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from types import FrameType

_IMPATIENT_FROM = 3


class Interrupted(BaseException):
    """Someone wants this command to end; ``exit_status`` is the one that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


def install(say: Callable[[str], object]) -> None:
    """From here on each of them raises Interrupted; a second one only says that the closing is under way.

    A SIGHUP that the parent ignores stays ignored: whoever started the command with nohup(1) wants it to go on.
    """
    received = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        if number == signal.SIGHUP:
            leave_lost_terminal()
            if received:
                # The kernel and the shell each send one when a window closes: that is nobody's impatience.
                return
        received += 1
        if received == 1 or received >= _IMPATIENT_FROM:
            raise Interrupted(number)
        say("raidlab: closing; once more leaves at once")

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, handle)


def leave_lost_terminal() -> None:
    """Put /dev/null in place of a terminal that is gone: what is said while closing must not fail (EIO)."""
    for descriptor in range(3):
        try:
            is_lost = stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor)
        except OSError:
            # It was closed before.
            continue
        if is_lost:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, descriptor)
            os.close(null)
