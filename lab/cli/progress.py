"""Progress of long work on standard error: a bar with the time left on a terminal, otherwise one line per step."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lab.cli.output import err
from lab.units import human_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressReporter:
    """``with ProgressReporter() as progress: progress.start(60, 3); progress.step("…", 20); progress.advance(0.5); …``.

    Work is counted in expected seconds, so long steps fill more of the bar than short ones.
    """

    def __init__(self, *, quiet: bool = False, is_terminal: bool | None = None) -> None:
        self._quiet = quiet
        self._is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._total_steps = 0
        self._step_number = 0
        self._done_seconds = 0.0
        self._step_seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def start(self, total_seconds_estimate: float, total_steps: int) -> None:
        """Begin; the estimate may be rough."""
        self._total_steps = total_steps
        if self._quiet or not self._is_terminal:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        self._bar = Progress(*columns, *times, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=max(total_seconds_estimate, 0.001))
        self._bar.start()

    def step(self, label: str, expected_seconds: float) -> None:
        """The step before is over, this one begins."""
        self._done_seconds += self._step_seconds
        self._step_seconds = expected_seconds
        self._step_number += 1
        count = f"[{self._step_number}/{self._total_steps}] " if self._total_steps > 1 else ""
        if self._bar is not None and self._task is not None:
            from rich.markup import escape

            self._bar.update(self._task, description=escape(f"{count}{label}"), completed=self._done_seconds)
        elif not self._quiet:
            about = f" (about {human_seconds(expected_seconds)})" if expected_seconds >= 1 else ""
            err(f"{count}{label}{about}")

    def advance(self, step_fraction: float) -> None:
        """How much of the present step is done, from 0 to 1."""
        if self._bar is not None and self._task is not None:
            done = self._done_seconds + self._step_seconds * min(1.0, max(0.0, step_fraction))
            self._bar.update(self._task, completed=done)

    def finish(self) -> None:
        """Take the bar away. A second call does nothing."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
