"""The terminal: it goes away, it is tiny, it sends too much; and what is shown on it goes on."""

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

import pyte

from tests.hardening.workbench import RAIDLAB, Bench, expect, promise
from tui.app import Settings, save_settings

_PATIENCE_SECONDS = 120.0
_BUSY_SECONDS = 8.0
"""On top of what is promised: other programs want the processors too."""


class Window:
    """The app in a terminal without a controlling process: nobody is sent SIGHUP, as below make."""

    def __init__(self, bench: Bench, columns: int, rows: int) -> None:
        self.ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self.columns, self.rows = columns, rows
        changes = {"RAIDLAB_CONFIG": str(bench.state), "TERM": "xterm-256color", "TMPDIR": str(bench.folder)}
        self.process = subprocess.Popen(
            [RAIDLAB, "--on", "uml:"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=bench.folder,
            env=bench.environment(changes), start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.output = b""

    def read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.ours], [], [], left)[0]:
                try:
                    self.output += os.read(self.ours, 1 << 16)
                except OSError:
                    return

    def text(self) -> str:
        """What stands on the screen."""
        screen = pyte.Screen(self.columns, self.rows)
        pyte.ByteStream(screen).feed(self.output)
        return "\n".join(screen.display)

    def until(self, is_reached: Callable[[], object], what: str) -> None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while not is_reached():
            expect(time.monotonic() < end and self.process.poll() is None, f"never: {what}: {self.output[-600:]!r}")
            self.read(0.3)

    def type(self, data: bytes) -> None:
        while data:
            self.read(0.01)
            if select.select([], [self.ours], [], 0.5)[1]:
                data = data[os.write(self.ours, data[:256]) :]

    def ends_within(self, seconds: float) -> None:
        try:
            self.process.wait(seconds + _BUSY_SECONDS)
        except subprocess.TimeoutExpired:
            expect(False, f"it still runs {seconds:g} s later")


@contextmanager
def _app(bench: Bench, columns: int = 120, rows: int = 40) -> Iterator[Window]:
    bench.state.mkdir(mode=0o700, exist_ok=True)
    save_settings(bench.state / "app.json", Settings(was_welcomed=True))
    window = Window(bench, columns, rows)
    try:
        yield window
    finally:
        window.process.kill()
        window.process.wait()
        os.close(window.ours)


@promise("the app ends with its terminal, though nobody sends SIGHUP, and leaves no machine", needs_machine=True)
def _(bench: Bench) -> None:
    with _app(bench) as window:
        window.until(lambda: "Nothing is built yet" in window.text(), "the lab is open")
        spare = os.open(os.devnull, os.O_RDONLY)
        # The other end is closed; its number stays for the end of this.
        os.dup2(spare, window.ours)
        os.close(spare)
        window.ends_within(5.0)
    left = [path.name for path in (bench.state / "machines").iterdir() if not path.name.startswith(".")]
    expect(left == [], f"left in machines/: {left}")


@promise("whatever is pasted, keys work afterwards and SIGTERM is obeyed meanwhile", needs_machine=True)
def _(bench: Bench) -> None:
    with _app(bench) as window:
        window.until(lambda: "Nothing is built yet" in window.text(), "the lab is open")
        window.type(b"2")
        window.until(lambda: "Layout" in window.text(), "the screen Build")
        window.type(b"\x1b[200~" + b"A\x1b[31m\n" * 14_000 + b"\x1b[201~")
        window.type(b"1")
        window.until(lambda: "Layout" not in window.text(), "a key is obeyed after the paste")
        window.type(b"\x1b[200~" + b"A\x1b[31m\n" * 500)
        window.process.terminate()
        window.ends_within(2.0)
        expect(window.process.returncode == 128 + signal.SIGTERM, f"status {window.process.returncode}")


@promise("no key ends the app in a window of 80 by 2, or of one cell", needs_machine=True)
def _(bench: Bench) -> None:
    with _app(bench, 80, 2) as window:
        window.until(lambda: b"Lab" in window.output, "the first screen")
        for rows, columns in ((2, 80), (1, 1), (3, 80), (2, 80)):
            termios.tcsetwinsize(window.ours, (rows, columns))
            window.process.send_signal(signal.SIGWINCH)
            window.read(0.5)
            for key in (b"\x10", b"\x1b[5~", b"\x1b[6~", b"\x1b[27u"):
                window.type(key)
                window.read(0.5)
        expect(window.process.poll() is None, f"it has ended: {window.output[-600:]!r}")
        expect(b"Traceback" not in window.output and b"should not happen" not in window.output, "a traceback")


@promise("the benchmark of keys reaches the screen that it measures", needs_machine=True)
def _(bench: Bench) -> None:
    from benchmarks.app_keys import build, prepare
    from benchmarks.support.terminal import app_in_terminal

    before = os.environ.get("RAIDLAB_STATE")
    bench.state.mkdir(mode=0o700, exist_ok=True)
    os.environ["RAIDLAB_STATE"] = str(bench.state)
    try:
        prepare()
        with app_in_terminal(bench.state) as app:
            build(app)
    except SystemExit as stopped:
        expect(False, str(stopped))
    finally:
        if before is None:
            del os.environ["RAIDLAB_STATE"]
        else:
            os.environ["RAIDLAB_STATE"] = before


def _youngest_seconds(text: str) -> int:
    """Of the newest event of a second ago or more; 0 where none is shown."""
    return min(map(int, re.findall(r"(\d+) s ago", text)), default=0)


@promise("how long ago an event was counts on", needs_machine=True)
def _(bench: Bench) -> None:
    made = bench.run("array", "create", "--level", "1", "--disks", "2", "--wait", on_machine=True)
    expect(made.status == 0, str(made))
    with _app(bench) as window:
        window.until(lambda: "md0" in window.text() and "in sync" in window.text(), "the array")
        window.type(b"f")
        window.until(lambda: "Run" in window.text() and "--fail" in window.text(), "the plan")
        window.type(b"r")
        # A busy computer may paint so seldom that a step is left out.
        seen = [0]
        while len(seen) < 4:
            window.until(lambda: _youngest_seconds(window.text()) > seen[-1], f"more than {seen[-1]} s ago")
            seen.append(_youngest_seconds(window.text()))
