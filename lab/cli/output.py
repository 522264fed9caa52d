"""Output to standard output (data) and to standard error (narration, progress of long operations)."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lab.gates.text import visible, visible_json
from lab.tables import Table
from lab.units import human_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from lab.experiments.progress import RunProgress

FEWEST_COLUMNS, MOST_COLUMNS = 40, 1000


def out(text: str = "") -> None:
    """Print lines of data."""
    print(visible(text, lines=True), flush=True)


def err(text: str) -> None:
    """Print lines of narration."""
    print(visible(text, lines=True), file=sys.stderr, flush=True)


def out_json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    out(visible_json(msgspec.json.format(_encoded(value), indent=2).decode()))


def out_json_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    out(visible_json(_encoded(value).decode()))


def _encoded(value: Any) -> bytes:
    """Encode a value as JSON.

    File names may contain bytes that are not valid UTF-8, which JSON cannot represent; these are escaped as on a
    terminal.
    """
    import msgspec

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_written_out(msgspec.to_builtins(value)))


def _written_out(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else visible(value, lines=True)
    if isinstance(value, dict):
        return {_written_out(name): _written_out(each) for name, each in value.items()}
    return [_written_out(each) for each in value] if isinstance(value, list | tuple) else value


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> str:
    """A listing as text. ``right``: headings over numbers."""
    return Table.listing(headings, rows, right=right).as_text()


def fitted(shown: Table) -> str:
    """A table as text that fits the terminal; files and pipes have no width."""
    is_shown = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shown.as_text(shutil.get_terminal_size().columns if is_shown else None)


def pairs(values: Mapping[str, object]) -> str:
    """``name  value`` lines, aligned."""
    width = max((len(name) for name in values), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}".rstrip() for name, value in values.items())


def use_width() -> None:
    """Limit the width for rich to values at which it can print, and does not use gigabytes of memory.

    With fewer columns rich takes minutes; a terminal that reports 0 has an unknown size.
    """
    for name in ("COLUMNS", "LINES"):
        typed = os.environ.pop(name, "")
        if re.fullmatch("[0-9]{1,4}", typed) and FEWEST_COLUMNS <= int(typed) <= MOST_COLUMNS:
            os.environ[name] = typed
    columns = shutil.get_terminal_size().columns
    if not FEWEST_COLUMNS <= columns <= MOST_COLUMNS:
        os.environ["COLUMNS"] = str(min(max(columns, FEWEST_COLUMNS), MOST_COLUMNS))


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
