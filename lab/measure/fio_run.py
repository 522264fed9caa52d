"""Run fio or dd processes in sequence: the only place that starts them, reads their output and stops them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from lab.disks import Lab
from lab.errors import LabError, MachineLost
from lab.machine.api import CommandResult, RunningCommand
from lab.workloads.dd_job import parse_dd
from lab.workloads.fio_job import FioPhase, Invocation
from lab.workloads.fio_output import JobFigures, LiveFeed, LiveInterval, WindowCut
from lab.workloads.workload import LoadProgram, Workload


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished process."""

    invocation: Invocation
    figures: JobFigures
    result: CommandResult
    load_seconds: float
    """From the first request to the last completion."""

    @property
    def stretch(self) -> tuple[float, float]:
        """Begin and end of the measured interval, on the machine's clock."""
        end = self.result.started_seconds + self.result.duration_seconds
        seconds = longest_seconds(self.figures)
        if self.figures.window_begin_seconds is None:
            return end - seconds, end
        begin = end - self.load_seconds + self.figures.window_begin_seconds
        return begin, begin + seconds


class FioRun:
    """``FioRun(lab, workload).run(invocations)``; ``stop`` may be called on any other thread.

    ``on_live`` is called with the values of each interval, on the thread of ``run``, except during preparation.
    ``is_aside``: the load runs while the caller waits for something else (Machine.stream). ``is_due``: see LiveFeed.
    """

    def __init__(
        self,
        lab: Lab,
        workload: Workload,
        on_live: Callable[[LiveInterval], None] = lambda _: None,
        *,
        is_aside: bool = False,
        is_due: Callable[[], bool] = lambda: True,
    ) -> None:
        self._lab = lab
        self._is_due = is_due
        self._is_aside = is_aside
        self.has_begun = threading.Event()
        """Set once its start is requested or cancelled."""
        self._workload = workload
        self._on_live = on_live
        self._lock = threading.Lock()
        self._command: RunningCommand | None = None
        self._stop = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether stop was requested."""
        return self._stop.is_set()

    def run(self, invocations: Iterable[Invocation]) -> tuple[Finished, ...]:
        """Run the invocations until all are done or stop is requested; returns those that measured something.

        Raises WorkloadError if one fails, and the errors of the guard.
        """
        finished: list[Finished] = []
        for invocation in invocations:
            self._lab.guard.check(invocation.step())
            with self._lock:
                if self._stop.is_set():
                    break
                self._command = command = self._lab.machine.stream(
                    invocation.argv,
                    stdin_text=invocation.stdin_text,
                    keeps_output=False,
                    is_aside=self._is_aside and invocation.phase is not FioPhase.PREPARE,
                )
            self.has_begun.set()
            try:
                ended = self._follow(command, invocation)
            finally:
                with self._lock:
                    self._command = None
            if ended is None or (self.is_stopped and not (ended.figures.reads or ended.figures.writes)):
                break
            if invocation.phase is not FioPhase.PREPARE:
                finished.append(ended)
        return tuple(finished)

    def stop(self) -> None:
        """Stop fio, which then prints its results so far; no further process is started. Idempotent."""
        with self._lock:
            command = None if self._stop.is_set() else self._command
            self._stop.set()
        if command:
            # If the machine is lost, the thread that reads the output raises the error.
            with suppress(MachineLost):
                command.stop()

    def _follow(self, command: RunningCommand, invocation: Invocation) -> Finished | None:
        """Read the output of a process to its end; None if it was stopped before it printed any figures."""
        cut = WindowCut(invocation.window) if invocation.window else None
        feed = LiveFeed(cut, self._workload.request_bytes, is_due=self._is_due)
        tell = self._on_live if invocation.phase is not FioPhase.PREPARE else lambda _: None
        try:
            for chunk in command.chunks():
                for interval in feed.feed(chunk):
                    tell(interval)
            for interval in feed.finish():
                tell(interval)
        except BaseException:
            # Its output would have no reader.
            with suppress(LabError):
                command.stop()
            raise
        result = command.result()
        if self._workload.program is LoadProgram.DD:
            figures = parse_dd(result.stderr, self._workload, exit_status=result.status)
            return Finished(invocation, figures, result, longest_seconds(figures))
        if not feed.last_document and self.is_stopped:
            return None
        figures = feed.figures(exit_status=result.status, stderr_text=result.stderr, accept_interrupted=self.is_stopped)
        if self._lab.machine.facts.is_virtual_time:
            # Computation takes no virtual time.
            figures = replace(figures, fio_user_cpu_percent=None, fio_system_cpu_percent=None)
        return Finished(invocation, figures, result, feed.load_seconds)


def longest_seconds(figures: JobFigures) -> float:
    """Measured time of a job: fio's runtime without the ramp time."""
    return max((part.runtime_seconds for part in (figures.reads, figures.writes) if part), default=0.0)
