"""Advances the clock of a machine in virtual time, at a pace that the user chooses or to the next event.

The clock of such a machine advances only while something waits for time to pass. Operations that themselves wait (a
plan, a shell) are not affected by the pace.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lab.errors import LabError
from lab.session.session import LabSession

SPEEDS = (1.0, 10.0, 100.0, math.inf)
"""Machine seconds per second of this computer's clock; infinity means as fast as possible."""
LONGEST_STEP_SECONDS = 3600.0
TICK_SECONDS = 0.1
"""About how long a portion of machine time takes on this computer's clock. A new pace waits for a portion's end."""
_LEAST_SECONDS, _MOST_SECONDS = 0.01, 600.0
_TOGETHER_SECONDS = 0.3
"""Changes within this interval count as one event, such as a failure and the rebuild onto a spare."""
_STOP_SECONDS = 5.0
_BLOCKS = "/sys/block"
_RUNNING = frozenset({"clean", "active", "active-idle", "write-pending"})


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed at which time passes."""

    speed: float
    """One of SPEEDS, or 0 if time is paused."""
    is_step: bool = False
    """Whether time passes as fast as possible, but only until the next event on an array."""

    @property
    def is_paused(self) -> bool:
        return not self.speed

    @property
    def words(self) -> str:
        """The pace as text: ``paused``, ``10x``, ``max`` or ``step``."""
        if self.is_step:
            return "step"
        return "paused" if self.is_paused else "max" if math.isinf(self.speed) else f"{self.speed:.0f}x"


PAUSED, STEP = Pace(0.0), Pace(math.inf, is_step=True)


@dataclass(slots=True)
class Portions:
    """How many machine seconds to advance at a time, adapted to how long recent portions took."""

    most_seconds: float = 1.0

    def next(self, speed: float, since_seconds: float) -> float:
        """Return the portion that is due ``since_seconds`` after the last one began, on this computer's clock."""
        if math.isinf(speed):
            return self.most_seconds
        return min(speed * min(since_seconds, 2 * TICK_SECONDS), self.most_seconds)

    def took(self, portion_seconds: float, seconds: float) -> None:
        if seconds > TICK_SECONDS:
            self.most_seconds = max(_LEAST_SECONDS, portion_seconds / 2)
        elif seconds < TICK_SECONDS / 2 and portion_seconds >= self.most_seconds:
            self.most_seconds = min(_MOST_SECONDS, self.most_seconds * 2)


class Pacer:
    """Lets time pass on a separate thread, at first at 1x: ``Pacer(session, on_pace=…, on_end=…).start()``.

    ``on_pace`` is called on the thread that chose a pace, with the new pace and a note about it. ``on_end`` is
    called once with the error that ended the thread, such as MachineLost, unless ``stop`` was called.
    """

    def __init__(
        self,
        session: LabSession,
        *,
        on_pace: Callable[[Pace, str], None] = lambda _pace, _note: None,
        on_end: Callable[[LabError], None] = lambda _: None,
    ) -> None:
        self._session, self._machine = session, session.machine
        self._on_pace, self._on_end = on_pace, on_end
        self._pace = Pace(SPEEDS[0])
        self._portions = Portions()
        self._choosing = threading.Lock()
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="raidlab-pace", daemon=True)

    @property
    def pace(self) -> Pace:
        return self._pace

    def start(self) -> None:
        self._on_pace(self._pace, "")
        self._thread.start()

    def stop(self) -> None:
        """Stop; no more time passes after this has returned. It is safe to call repeatedly, and on a lost machine."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=_STOP_SECONDS)

    def go(self, pace: Pace, note: str = "", *, after: Pace | None = None) -> None:
        """Set the pace, with ``after`` only if that is still the pace. STEP pauses at an event or after an hour."""
        with self._choosing:
            if after is not None and self._pace is not after:
                return
            # Always a new object, to distinguish a repeated step request from the previous one.
            self._pace = replace(pace)
            self._woken.set()
            self._on_pace(self._pace, note)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._woken.clear()
                pace = self._pace
                if pace.is_step:
                    self._step(pace)
                elif pace.is_paused:
                    self._woken.wait()
                else:
                    self._go_on(pace)
        except LabError as error:
            self._end(error)
        except Exception as error:
            self._end(LabError(f"advancing the machine's clock failed: {error!r}", hint="report this"))
            raise

    def _end(self, error: LabError) -> None:
        if not self._stopping.is_set():
            self._on_end(error)

    def _is_still(self, pace: Pace) -> bool:
        return self._pace is pace and not self._stopping.is_set()

    def _go_on(self, pace: Pace) -> None:
        clock = self._session.host.clock
        since = TICK_SECONDS
        while self._is_still(pace):
            began = clock.monotonic_seconds()
            portion = self._portions.next(pace.speed, since)
            self._machine.sleep(portion)
            took = clock.monotonic_seconds() - began
            self._portions.took(portion, took)
            if not math.isinf(pace.speed):
                self._woken.wait(max(0.0, TICK_SECONDS - took))
            since = clock.monotonic_seconds() - began

    def _step(self, pace: Pace) -> None:
        before = self._watched()
        if not before:
            self.go(PAUSED, "There is no array, so no event can occur.", after=pace)
            return
        clock = self._session.host.clock
        now = self._machine.sleep(0)
        end = now + LONGEST_STEP_SECONDS
        while self._is_still(pace) and now < end:
            began = clock.monotonic_seconds()
            portion = max(_LEAST_SECONDS, min(self._portions.next(pace.speed, TICK_SECONDS), end - now))
            now = self._sleep_until_change(portion, before)
            self._portions.took(portion, clock.monotonic_seconds() - began)
            if self._watched() != before:
                self._settle()
                self.go(PAUSED, after=pace)
                return
        self.go(PAUSED, "Nothing has happened to any array for an hour of machine time.", after=pace)

    def _settle(self) -> None:
        """Wait until the changes that belong to an event have ended."""
        before: Mapping[str, str] = {}
        while (seen := self._watched()) != before and not self._stopping.is_set():
            before = seen
            self._machine.sleep(_TOGETHER_SECONDS)

    def _sleep_until_change(self, seconds: float, watched: Mapping[str, str]) -> float:
        """Advance time by ``seconds`` or until md reports a change, and return the machine's time."""
        # md reports array_state too, but does so on each write to a clean array.
        until = [path for path in watched if not path.endswith("/array_state")]
        try:
            return self._machine.sleep(seconds, until=until)
        except LabError:
            # A vanished array is a change; any other error is raised.
            if self._watched() == watched:
                raise
            return -math.inf

    def _watched(self) -> dict[str, str]:
        """Return, for all arrays, the values whose changes md reports (sysfs_notify in drivers/md/md.c), by path."""
        (names,) = self._machine.list_dirs([_BLOCKS]).values()
        folders = [f"{_BLOCKS}/{name}/md" for name in names if name.startswith("md")]
        entries = self._machine.list_dirs(folders) if folders else {}
        paths = [
            f"{folder}/{entry}/state" if entry.startswith("dev-") else f"{folder}/{entry}"
            for folder, found in entries.items()
            for entry in found
            if entry.startswith("dev-") or entry in ("array_state", "sync_action", "degraded")
        ]
        texts = self._machine.read(paths) if paths else {}
        return {path: "running" if text.strip() in _RUNNING else text for path, text in texts.items() if text}
