"""Ctrl-C, SIGTERM and SIGHUP end a command in good order: an exception, so that everything that is open closes."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_IMPATIENT_FROM = 3
_is_anything_open = True


class Interrupted(BaseException):
    """Someone wants this command to end; ``exit_status`` is the one that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


def install(say: Callable[[str], object]) -> None:
    """From here on each of them raises Interrupted, once; a second one only says that the closing is under way.

    One that the parent ignores stays ignored: whoever started the command with nohup(1), or in the background of a
    script, wants it to go on.
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
        if received >= _IMPATIENT_FROM or not _is_anything_open:
            say("raidlab: interrupted")
            os._exit(128 + number)
        if received == 1:
            raise Interrupted(number)
        say("raidlab: closing; once more leaves at once")

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def nothing_is_open() -> None:
    """Until ``close_in_order`` a signal ends the process at once: an exception among imports could get lost there."""
    global _is_anything_open
    _is_anything_open = False


def close_in_order() -> None:
    """From here on something may be open."""
    global _is_anything_open
    _is_anything_open = True


def ignore() -> None:
    """At the very end: all is done and told, and the interpreter puts the system's handlers back before it leaves."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def kept() -> Iterator[None]:
    """For what sets handlers of its own: afterwards those are back that were there (asyncio puts Python's instead)."""
    before = [(number, signal.getsignal(number)) for number in ENDING]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


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
