"""What the wall time of a run went into: fio, mkfs, mdadm, resyncs, and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.machine.api import CommandResult
from lab.results.record import Timings
from lab.seams.clock import Clock


class Stopwatch:
    """Counts commands by their program, and waiting for resyncs by itself.

    Args:
        clock: this process's clock.
        started_seconds: when the whole began on that clock.
    """

    def __init__(self, clock: Clock, started_seconds: float) -> None:
        self._clock = clock
        self._started = started_seconds
        self._seconds = {"fio": 0.0, "mkfs": 0.0, "mdadm": 0.0, "resync": 0.0}
        self._is_in_resync = False

    def on_command(self, result: CommandResult) -> None:
        """Listener for a machine's commands."""
        program = result.argv[0].partition(".")[0]
        # What happens while a resync is waited for is inside that wait already.
        if program in self._seconds and not self._is_in_resync:
            self._seconds[program] += result.duration_seconds

    @contextmanager
    def resync(self) -> Iterator[None]:
        """Time a wait for a resync or rebuild."""
        begin = self._clock.monotonic_seconds()
        self._is_in_resync = True
        try:
            yield
        finally:
            self._is_in_resync = False
            self._seconds["resync"] += self._clock.monotonic_seconds() - begin

    def timings(self, earlier: Timings | None = None) -> Timings:
        """The account until now, with that of an earlier part of the same run added."""
        total = self._clock.monotonic_seconds() - self._started
        before = earlier or Timings()
        return Timings(
            fio_seconds=before.fio_seconds + self._seconds["fio"],
            mkfs_seconds=before.mkfs_seconds + self._seconds["mkfs"],
            mdadm_seconds=before.mdadm_seconds + self._seconds["mdadm"],
            resync_seconds=before.resync_seconds + self._seconds["resync"],
            other_seconds=before.other_seconds + max(0.0, total - sum(self._seconds.values())),
            total_seconds=before.total_seconds + total,
        )
