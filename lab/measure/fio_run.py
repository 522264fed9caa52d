"""Starts of fio, or dd, one after the other: the one place that starts them, reads what they print and stops them."""

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
from lab.workloads.fio_output import JobFigures
from lab.workloads.live import LiveFeed, LiveInterval
from lab.workloads.window import WindowCut
from lab.workloads.workload import LoadProgram, Workload


@dataclass(frozen=True, slots=True)
class Finished:
    """One start that has ended."""

    invocation: Invocation
    figures: JobFigures
    result: CommandResult
    load_seconds: float
    """From the first request to the last answer."""

    @property
    def stretch(self) -> tuple[float, float]:
        """Begin and end of what was measured, on the machine's clock."""
        end = self.result.started_seconds + self.result.duration_seconds
        seconds = longest_seconds(self.figures)
        if self.figures.window_begin_seconds is None:
            return end - seconds, end
        begin = end - self.load_seconds + self.figures.window_begin_seconds
        return begin, begin + seconds


class FioRun:
    """``FioRun(lab, workload).run(invocations)``; ``stop`` may be called on any other thread.

    ``on_live`` is told true interval values of all starts but those that only prepare, on the thread of ``run``.
    ``is_aside``: what is measured goes on while something else is waited for (Machine.stream). ``is_due``: of LiveFeed.
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
        """Set once its first start was asked for, or never will be."""
        self._workload = workload
        self._on_live = on_live
        self._lock = threading.Lock()
        self._command: RunningCommand | None = None
        self._stop = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wanted it to end."""
        return self._stop.is_set()

    def run(self, invocations: Iterable[Invocation]) -> tuple[Finished, ...]:
        """Carry the starts out until all are done, or it is stopped: those that measured something.

        Raises WorkloadError if one fails, and what the guard raises.
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
        """End it: fio then prints what it has measured, and nothing more is started. A second call does no harm."""
        with self._lock:
            command = None if self._stop.is_set() else self._command
            self._stop.set()
        if command:
            # On a lost machine whoever reads hears of it.
            with suppress(MachineLost):
                command.stop()

    def _follow(self, command: RunningCommand, invocation: Invocation) -> Finished | None:
        """Read a start to its end; None if it was told to end before it had printed any figures."""
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
            # Nobody would hear of it any more.
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
            # Computing takes no time there.
            figures = replace(figures, fio_user_cpu_percent=None, fio_system_cpu_percent=None)
        return Finished(invocation, figures, result, feed.load_seconds)


def longest_seconds(figures: JobFigures) -> float:
    """Measured time of a job: fio's own runtime without the warm-up."""
    return max((part.runtime_seconds for part in (figures.reads, figures.writes) if part), default=0.0)
