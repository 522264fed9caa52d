"""The real app in a terminal: what is typed, what it paints and when, and what it costs."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.host.processes import isolated_python

ROWS, COLUMNS = 40, 120
DOWN, UP, ENTER, ESCAPE = b"\x1b[B", b"\x1b[A", b"\r", b"\x1b"
PATIENCE_SECONDS = 90.0
_TICKS = os.sysconf("SC_CLK_TCK")
_COMMAND = "import sys; from lab.cli.main import run; sys.exit(run())"
# The sign of the rack's cursor, styles, the disk that it stands on.
_CURSOR = re.compile(rb"\xe2\x96\xb8(?:\x1b\[[0-9;]*m|[^\x1b]){0,12}?disk(\d\d)")


class AppInTerminal:
    """The app on an embedded kernel, 120 x 40, true colour."""

    def __init__(self, arguments: tuple[str, ...] = ("--on", "uml:"), *, command: str = _COMMAND) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
        self.painted: list[tuple[float, bytes]] = []
        """Times of the monotonic clock, and what came then."""
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            isolated_python("-c", command, *arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        )
        os.close(theirs)

    def type(self, keys: bytes) -> float:
        """Press keys; returns when."""
        now = time.monotonic()
        os.write(self._ours, keys)
        return now

    def look(self, seconds: float) -> None:
        """Take in what is painted for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._take(left)

    def look_until(self, is_reached: Callable[[bytes], object], what: str, since: int = 0) -> int:
        """Look until everything painted from the ``since``-th piece on has it; returns how many pieces there are."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_reached(b"".join(data for _, data in self.painted[since:])):
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"never: {what}; {b''.join(data for _, data in self.painted)[-600:]!r}")
            self._take(0.05)
        return len(self.painted)

    def _take(self, seconds: float) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:
                time.sleep(seconds)
                return
            self.painted.append((time.monotonic(), data))

    def cursor_seconds(self, typed: float, since: int, timeout: float = 5.0) -> tuple[float, int]:
        """When, after a key, the rack's cursor was painted on another disk, and on which."""
        text, place = b"", since
        while time.monotonic() < typed + timeout:
            while place < len(self.painted):
                moment, data = self.painted[place]
                text += data
                place += 1
                if found := _CURSOR.search(text):
                    return moment - typed, int(found[1])
            self._take(0.02)
        raise SystemExit(f"a key was never answered: {text[-400:]!r}")

    def cpu_seconds(self) -> dict[str, float]:
        """What the app, and the embedded kernel with all that runs in it, have used so far."""
        used = {"app": 0.0, "machine": 0.0}
        for pid in _family(self.process.pid):
            used["app" if pid == self.process.pid else "machine"] += _ticks(pid) / _TICKS
        return used

    def rss_bytes(self) -> int:
        """Resident memory of the app."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """Leave the app; kill it if it does not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            end = time.monotonic() + 20
            while self.process.poll() is None and time.monotonic() < end:
                self._take(0.1)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            os.close(self._ours)


@contextmanager
def app_in_terminal(state: Path, **settings: object) -> Iterator[AppInTerminal]:
    """The app, welcomed before."""
    from tui.app import Settings, save_settings

    save_settings(state / "app.json", Settings(was_welcomed=True, **settings))  # type: ignore[arg-type]
    app = AppInTerminal()
    try:
        yield app
    finally:
        app.close()


def load_average() -> float:
    """Of the last minute: a computer that does other things measures those too."""
    return round(os.getloadavg()[0], 2)


def _family(pid: int) -> list[int]:
    """A process and all that came from it and still runs."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            parents.setdefault(_stat(int(folder.name))[1], []).append(int(folder.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def _stat(pid: int) -> tuple[int, int]:
    """Ticks of CPU time, and the parent (proc(5)); zeros for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[11]) + int(fields[12]), int(fields[1])


def _ticks(pid: int) -> int:
    return _stat(pid)[0]
