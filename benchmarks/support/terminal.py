"""Run the real app in a terminal, type keys, and record what the app paints and when, and its CPU time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.host.processes import isolated_python
from tests.cluster.keeper import descendants_of
from tests.window import RAIDLAB, Window
from tui.app import Settings, save_settings

DOWN, UP, ENTER = b"\x1b[B", b"\x1b[A", b"\r"
PATIENCE_SECONDS = 90.0
_TICKS = os.sysconf("SC_CLK_TCK")
# The sign of the rack's cursor, styles, and the disk on which the cursor is.
_CURSOR = re.compile(rb"\xe2\x96\xb8(?:\x1b\[[0-9;]*m|[^\x1b]){0,12}?disk(\d\d)")


class AppInTerminal(Window):
    """The app on an embedded kernel, in a terminal of 120 x 40 with true colour."""

    def __init__(self, arguments: tuple[str, ...] = ("--on", "uml:"), *, command: str = RAIDLAB) -> None:
        self.painted: list[tuple[float, bytes]] = []
        """The output so far, in pieces, each with the time on the monotonic clock."""
        self.started = time.monotonic()
        argv = isolated_python("-c", command, *arguments)
        super().__init__(argv, environment={**os.environ, "COLORTERM": "truecolor"})

    def take(self, seconds: float) -> bool:
        is_open = super().take(seconds)
        if self.output:
            self.painted.append((time.monotonic(), self.output))
            self.output = b""
        return is_open

    def read_until(self, is_reached: Callable[[bytes], object], what: str, since: int = 0) -> None:
        """Read until the output from the ``since``-th piece on satisfies the condition."""

        def is_over() -> object:
            return is_reached(b"".join(data for _, data in self.painted[since:]))

        self.read(PATIENCE_SECONDS, lambda: is_over() or self.process.poll() is not None)
        if not is_over():
            raise SystemExit(f"never: {what}; {b''.join(data for _, data in self.painted)[-600:]!r}")

    def build_array(self) -> None:
        """Build a RAID 5 with the app's keys, and wait until it is in sync."""
        self.read_until(lambda text: b"Nothing is built yet" in text, "the lab is open")
        self.type(b"b")
        self.read_until(lambda text: b"mdadm --create" in text, "the plan")
        self.read(0.5)
        self.type(b"r")
        self.read_until(lambda text: b"writes known data to md0" in text, "an array in sync")

    def cursor_seconds(self, typed: float, since: int, timeout: float = 5.0) -> float:
        """Return the time from a key press until the rack's cursor is painted on a different disk."""
        text, place = b"", since
        while time.monotonic() < typed + timeout:
            while place < len(self.painted):
                moment, data = self.painted[place]
                text += data
                place += 1
                if _CURSOR.search(text):
                    return moment - typed
            self.take(0.02)
        raise SystemExit(f"a key was never answered: {text[-400:]!r}")

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time that the app, and the embedded kernel with everything in it, have used so far."""
        machine = sum(map(_cpu_seconds, descendants_of(self.process.pid)))
        return {"app": _cpu_seconds(self.process.pid), "machine": machine}

    def cpus_busy(self, before: Mapping[str, float], seconds: float) -> dict[str, float]:
        """Return how many processors each has used since ``cpu_seconds`` returned ``before``, this long ago."""
        return {process: (value - before[process]) / seconds for process, value in self.cpu_seconds().items()}

    def rss_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def leave(self) -> None:
        self.process.terminate()
        self.read(20, lambda: self.process.poll() is not None)
        self.kill()


@contextmanager
def app_in_terminal(
    state: Path, arguments: tuple[str, ...] = ("--on", "uml:"), *, command: str = RAIDLAB
) -> Iterator[AppInTerminal]:
    save_settings(state / "app.json", Settings(was_welcomed=True))
    app = AppInTerminal(arguments, command=command)
    try:
        yield app
    finally:
        app.leave()


def _cpu_seconds(pid: int) -> float:
    """Return user and system time (proc(5)), or 0 for a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
