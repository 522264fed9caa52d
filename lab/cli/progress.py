"""Progress of long operations on standard error: a bar with the time left on a terminal, otherwise a line per step."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lab.cli.output import err
from lab.units import human_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from lab.experiments.progress import RunProgress


class ProgressBar:
    """``with ProgressBar() as bar: bar.show("rebuild", 0.5); …``."""

    def __init__(self, *, quiet: bool = False, is_terminal: bool | None = None) -> None:
        self._quiet = quiet
        self.is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._label = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show_run(self, progress: RunProgress) -> None:
        """Show the progress of an experiment."""
        self.show(progress.label, progress.fraction, progress.left_seconds, progress.step_seconds)

    def show(self, label: str, fraction: float, left_seconds: float | None = None, step_seconds: float = 0.0) -> None:
        """Show the current step, and the fraction done.

        ``left_seconds`` None: estimated from the bar's progress so far.
        """
        if self._quiet or not label:
            return
        if not self.is_terminal:
            if label != self._label:
                self._label = label
                err(f"{label} (about {human_seconds(step_seconds)})" if step_seconds >= 1 else label)
            return
        from rich.markup import escape

        if self._bar is None or self._task is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
            left = TextColumn("left {task.fields[left]}")
            self._bar = Progress(*columns, TimeElapsedColumn(), left, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=1.0, left="")
            self._bar.start()
        seconds = self._bar.tasks[0].time_remaining if left_seconds is None else left_seconds
        left_text = "–" if seconds is None else human_seconds(seconds)
        self._bar.update(self._task, description=escape(label), completed=fraction, left=left_text)
