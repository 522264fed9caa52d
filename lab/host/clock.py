"""Clocks, and the client's wait loop, which is a bounded poll that reports its last observation.

No other module of the client calls ``time.sleep``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from lab.errors import WaitTimedOut

T = TypeVar("T")


class Clock(Protocol):
    """The lab's source of time. Tests pass a clock that jumps instead of waiting."""

    def monotonic_seconds(self) -> float: ...
    def utc_now(self) -> datetime: ...
    def sleep(self, seconds: float) -> None: ...


class HostClock:
    """The host's clock."""

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def utc_now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def utc_text(clock: Clock) -> str:
    """Return the time as ISO 8601 in UTC, with microseconds, so that events within a second keep their order."""
    return clock.utc_now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def utc_second_text(clock: Clock) -> str:
    """Return the time in the format of results, with whole seconds."""
    return clock.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """Parse a time from either function above. Return ``datetime.min`` for any other text.

    Times must be parsed before they are sorted, because as text ``…29Z`` sorts after ``…29.5Z``.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def polls(clock: Clock, timeout_seconds: float, interval_seconds: float = 0.05) -> Iterator[bool]:
    """Yield once for each poll of a bounded wait, and pause in between.

    Yield True for the last poll, which follows the time-out, and False for all others.
    """
    deadline = clock.monotonic_seconds() + timeout_seconds
    while not (is_last := clock.monotonic_seconds() >= deadline):
        yield is_last
        clock.sleep(interval_seconds)
    yield is_last


def wait_for(
    observe: Callable[[], T],
    is_reached: Callable[[T], bool],
    *,
    what: str,
    timeout_seconds: float,
    clock: Clock,
    hint: str = "",
) -> T:
    """Poll ``observe`` until ``is_reached`` holds, and return that value. Raises WaitTimedOut with the last value."""
    for is_last in polls(clock, timeout_seconds):
        seen = observe()
        if is_reached(seen):
            return seen
        if is_last:
            raise WaitTimedOut(f"waited {timeout_seconds:g} s for {what}; last seen: {seen}", hint=hint)
    raise AssertionError("polls() never yielded True, which marks the last poll")
