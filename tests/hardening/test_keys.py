"""Random keys, resizes and pastes on every screen of the real app, in a real terminal, on the embedded kernel.

It is a problem if the app ends with a traceback, reports a bug, stops answering, or in the end does not obey SIGTERM.
"""

from __future__ import annotations

import collections
import os
import random
import re
import select
import signal
import string
import tempfile
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.window import Window, command
from tui.app import Settings, save_settings

if TYPE_CHECKING:
    # The app imports this module, too.
    from tests.conftest import LongRun

SECONDS = 40.0
LONGEST_SECONDS = 180.0
ANSWER_SECONDS = 300.0
"""Time limit for an answer: on an overloaded computer even a repaint is slow."""
ANSWER_CPU_SECONDS = 60.0
"""Limit for the processor time of an answer."""
START_SECONDS = 120.0
_WORDS_OF_BUGS = (b"Traceback (most recent call last)", b"this should not happen")
STACKS = "stacks"
_TAIL_BYTES = 6000
_PAUSES = (0.0, 0.0, 0.005, 0.02, 0.05)
_SIZES = ((1, 1), (2, 1), (80, 2), (80, 3), (5, 20), (20, 5), (500, 200), (80, 24), (120, 40), (200, 60), (0, 0))
_USUAL_SIZES = ((80, 24), (120, 40), (100, 30))
_ARROWS = [f"\x1b[{letter}" for letter in "ABCDHF"] + ["\x1b[5~", "\x1b[6~", "\x1b[Z", "\t", "\r", " ", "\x1b", "\x7f"]
_FUNCTIONS = ["\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS", *(f"\x1b[{code}~" for code in (15, 17, 18, 19, 20, 21, 23, 24))]
_LETTERS = [each for each in string.ascii_letters if each not in "qQ"]
_SIGNS = list("?/:+-,.<>=!*()[]{}'\"\\|~@#$%^&_;")
_MODIFIED = ["\x1b[1;2A", "\x1b[1;5B", "\x1b[1;3C", "\x1b[27u", "\x1b[57399u", "\x1b[97;5u", "\x1ba", "\x1b]", "\x1bP"]
_KEY = re.compile(r"\x1b(?:\[[0-9;]*.|O.)|[^\x1b]")
_LEAVE = "\x1b[24~\x1b[27u"
"""F12, which leads out of the terminal, then Escape."""
_ROUTES = (
    "1b", "1d", "1f\r", "1x", "1w\r", "1v", "1l", "1\x1b[B\x1b[Bf", "1s", "1a", "1m", "1r", "1b\r", "2\r", "2r", "3\r",
    "4\r", "4c", "5\r\techo hello\r", "5mdadm --detail /dev/md0\r", "6\r", "6\r\r\r", "6\x1b[B\x1b[B\r", "7\r",
    "8\x1b[C\x1b[C", "8g12\r", "9\r", "9\x1b[B\r", "9\r\r", "0+++", "\x10", "\x10lab\r", "\x10raid\x1b[B\r",
    "\x10\x1b[5~\x1b[6~", "\x1bOP", "?", "\x14", "\x1b[23~",
)  # fmt: skip


def report(numbers: int) -> None:
    """Runs in the app's process: writes the focused screen and widget to ``numbers`` whenever the app answers."""
    import asyncio
    import faulthandler
    import threading

    from textual.app import ScreenStackError

    import tui.app

    made = tui.app.RaidlabApp.__init__
    stacks = (Path(tempfile.gettempdir()) / STACKS).open("w", encoding="utf-8")
    # First the tasks, if Python still runs; then all threads.
    signal.signal(signal.SIGUSR1, lambda *_: tell_tasks())
    faulthandler.register(signal.SIGUSR1, file=stacks, chain=True)

    def tell_tasks() -> None:
        for task in asyncio.all_tasks():
            task.print_stack(file=stacks)
        stacks.flush()

    def watched(app: tui.app.RaidlabApp, *positional: object, **named: object) -> None:
        made(app, *positional, **named)  # type: ignore[arg-type]
        threading.Thread(target=tell, args=(app,), daemon=True).start()

    def tell(app: tui.app.RaidlabApp) -> None:
        beaten = threading.Event()
        while True:
            time.sleep(0.05)
            loop = app._own_loop
            if loop is None:
                continue
            beaten.clear()
            try:
                # Queued behind everything that already waits for the app.
                loop.call_soon_threadsafe(app.call_later, beaten.set)
                beaten.wait()
                place = f"{type(app.screen).__name__} {type(app.focused).__name__}"
            except (RuntimeError, ScreenStackError):
                continue
            os.write(numbers, f"{place}\n".encode())

    tui.app.RaidlabApp.__init__ = watched  # type: ignore[method-assign, assignment]


_CHILD = """
import sys
from tests.hardening.test_keys import report
report(int(sys.argv.pop(1)))
from lab.cli.main import run
sys.exit(run())
"""


class Sitting(Window):
    def __init__(self, state: Path) -> None:
        self._heard, told = os.pipe()
        os.set_blocking(self._heard, False)
        self.temporary = state / "tmp"
        self.temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        super().__init__(command(_CHILD, str(told), "--on", "uml:"), state, environment=environment, passed=[told])
        os.close(told)
        os.set_blocking(self.ours, False)
        self.place = "start none"
        self.is_over = False
        self.answered = time.monotonic()
        self._answered_cpu_seconds = 0.0
        self._rest = b""

    def look(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            ready = select.select([self.ours, self._heard], [], [], left)[0]
            if not ready:
                return
            try:
                if self.ours in ready:
                    self.output = (self.output + os.read(self.ours, 1 << 16))[-_TAIL_BYTES * 20 :]
                if self._heard in ready:
                    data = os.read(self._heard, 4096)
                    self.is_over = not data
                    *lines, self._rest = (self._rest + data).split(b"\n")
                    if lines:
                        self.place, self.answered = lines[-1].decode(), time.monotonic()
                        self._answered_cpu_seconds = self._cpu_seconds()
            except (BlockingIOError, OSError):
                pass
            if self.is_over or left == 0.0:
                return

    def type(self, keys: str | bytes) -> None:
        """Type all keys: a terminal accepts only as much as the app reads."""
        data = keys.encode("utf-8", "surrogateescape") if isinstance(keys, str) else keys
        until = time.monotonic() + ANSWER_SECONDS
        while data and not self.is_over and time.monotonic() < until and self.process.poll() is None:
            try:
                data = data[os.write(self.ours, data[:4096]) :]
            except BlockingIOError:
                self.look(0.01)

    def is_stuck(self) -> bool:
        if time.monotonic() - self.answered > ANSWER_SECONDS:
            return True
        return self._cpu_seconds() - self._answered_cpu_seconds > ANSWER_CPU_SECONDS

    def _cpu_seconds(self) -> float:
        """Return the processor time of the app's process (proc(5), fields 14 and 15 of stat)."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return 0.0
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self) -> None:
        """Wait until the app has answered twice: it has then handled everything that was typed before."""
        for _ in range(2):
            asked = time.monotonic()
            while self.answered <= asked and not self.is_over and not self.is_stuck():
                self.look(0.05)

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self.ours, (rows, columns))
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGWINCH)

    def bug(self) -> str:
        kept = [path.read_text("utf-8", "replace")[-_TAIL_BYTES:] for path in self.temporary.glob("*.traceback")]
        if kept:
            return "\n".join(kept)
        found = next((words for words in _WORDS_OF_BUGS if words in self.output), None)
        return self.output[-_TAIL_BYTES:].decode("utf-8", "replace") if found else ""

    def terminate(self) -> float:
        """End the app with SIGTERM, or SIGKILL if that has no effect; returns how long it took."""
        begun = time.monotonic()
        if self.process.poll() is None:
            self.process.terminate()
        while self.process.poll() is None and time.monotonic() - begun < ANSWER_SECONDS:
            self.look(0.02)
        seconds = time.monotonic() - begun
        self.kill()
        os.close(self._heard)
        return seconds


def key(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(_ARROWS)
    if kind < 0.6:
        return rng.choice(_LETTERS)
    if kind < 0.75:
        return rng.choice(string.digits)
    if kind < 0.85:
        return rng.choice(_FUNCTIONS)
    if kind < 0.9:
        return chr(rng.choice([each for each in range(1, 27) if each not in (17, 18, 26)]))
    if kind < 0.95:
        return rng.choice(_SIGNS)
    return rng.choice(_MODIFIED)


def mouse(rng: random.Random) -> str:
    x, y = rng.randint(1, 130), rng.randint(1, 45)
    button = rng.choice((0, 0, 2, 35, 64, 65))
    end = f"\x1b[<{button};{x};{y}m" if button in (0, 2) else ""
    return f"\x1b[<{button};{x};{y}M{end}"


def paste(rng: random.Random) -> bytes:
    garbage = rng.randbytes(rng.randint(1, 3000))
    texts = (
        b"mdadm --detail /dev/md0\n", b"A\x1b[31m\n" * 14_000, b"x" * 1_000_000, b"4\n" * 100, garbage,
        b"in\x1b[201~q\x1b[201~", "é\u202e\x00\ud800".encode("utf-8", "surrogatepass"), b"",
    )  # fmt: skip
    text = rng.choice(texts)
    return b"\x1b[200~" + text + (b"\x1b[201~" if rng.random() < 0.85 else b"")


def garbage(rng: random.Random) -> bytes:
    return rng.choice(
        (
            rng.randbytes(rng.randint(1, 400)).replace(b"q", b"").replace(b"\x11", b""),
            b"\x1b[" + b"1" * 100_000 + b"m",
            b"\x1b[99999999999u",
            b"\x1b[1114112;1u\x1b[55296u\x1b[97:65;1u",
            b"\x1b]52;c;" + b"A" * 50_000,
            b"\x1bP" + b"q" * 1000 + b"\x1b\\",
            b"\x1b[48;0;0;0;0t\x1b[<35;1;1M",
            b"\x1b[48;9999999;9999999;1;1t",
            b"\x1b[<35;20;20M" * 5000,
            b"\x1b[<0;99999999999;-5M",
            b"\x1b[A" * 3000,
            b"\xff\xfe\x80",
        )
    )


class Fuzzer:
    """One run, in which the app is started again whenever it ends."""

    def __init__(self, state: Path, seed: int) -> None:
        self._state, self._rng = state, random.Random(seed)
        self.screens: set[str] = set()
        """The screens that received keys."""
        self.problem = ""
        self._recent: collections.deque[str] = collections.deque(maxlen=60)
        self._same = 0

    def run(self, seconds: float) -> None:
        """Run until the time is up or a problem is found."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.problem:
            self._sit(until)

    def _sit(self, until: float) -> None:
        save_settings(self._state / "app.json", Settings(was_welcomed=self._rng.random() < 0.8))
        sitting = Sitting(self._state)
        begun = time.monotonic()
        while sitting.place.startswith("start") and not sitting.is_over:
            sitting.look(0.1)
            if time.monotonic() - begun > START_SECONDS:
                self._wrong(sitting, "no first screen")
                break
        while time.monotonic() < until and not self.problem and not sitting.is_over:
            self._act(sitting)
            self._check(sitting)
        taken = sitting.terminate()
        if not self.problem and taken >= ANSWER_SECONDS:
            self._wrong(sitting, "SIGTERM is not obeyed")
        status = sitting.process.returncode
        if not self.problem and (status not in (0, 128 + signal.SIGTERM) or sitting.bug()):
            self._wrong(sitting, f"status {status}")

    def _act(self, sitting: Sitting) -> None:
        rng, before = self._rng, sitting.place
        kind = rng.random()
        if self._same > 150:
            # A program or a dialog takes most keys here.
            self._send(sitting, _LEAVE + rng.choice(string.digits))
            self._same = 0
        elif kind < 0.03:
            self._resize(sitting)
        elif kind < 0.045:
            self._send(sitting, paste(rng))
        elif kind < 0.055:
            self._send(sitting, garbage(rng))
        elif kind < 0.08:
            self._send(sitting, mouse(rng))
        elif kind < 0.12:
            self._send(sitting, _LEAVE)
            for each in _KEY.findall(rng.choice(_ROUTES)):
                self._send(sitting, each)
                sitting.look(0.03)
        elif kind < 0.1201:
            self._send(sitting, "\x11")
        else:
            self._send(sitting, "".join(key(rng) for _ in range(rng.choice((1, 1, 1, 2, 5)))))
        sitting.look(rng.choice(_PAUSES))
        if rng.random() < 0.3:
            # Otherwise the queue of keys would grow, and a long wait would mean nothing.
            sitting.settle()
        self._same = self._same + 1 if sitting.place == before else 0

    def _send(self, sitting: Sitting, what: str | bytes) -> None:
        self._recent.append(f"{sitting.place}: {what[:60]!r}")
        self.screens.add(sitting.place.split()[0])
        sitting.type(what)

    def _resize(self, sitting: Sitting) -> None:
        sizes = [self._rng.choice(_SIZES) for _ in range(self._rng.choice((1, 1, 10)))]
        for columns, rows in (*sizes, *((self._rng.choice(_USUAL_SIZES),) if self._rng.random() < 0.7 else ())):
            self._recent.append(f"{columns}x{rows}")
            sitting.resize(columns, rows)
            sitting.look(self._rng.choice(_PAUSES))

    def _check(self, sitting: Sitting) -> None:
        while True:
            silent = time.monotonic() - sitting.answered
            if silent <= 2.0 or sitting.is_over or sitting.is_stuck():
                break
            sitting.look(0.2)
        if sitting.is_stuck() and not sitting.is_over:
            sitting.process.send_signal(signal.SIGUSR1)
            sitting.look(1.0)
            self._wrong(sitting, f"no answer for {silent:.0f} s")
        elif sitting.bug():
            self._wrong(sitting, "a bug")

    def _wrong(self, sitting: Sitting, what: str) -> None:
        recent = "\n  ".join(self._recent)
        stacks = sitting.temporary / STACKS
        tail = (
            (stacks.read_text("utf-8") if stacks.exists() else "")
            or sitting.bug()
            or sitting.output[-_TAIL_BYTES:].decode("utf-8", "replace")
        )
        self.problem = f"{what}\n  {recent}\n{tail}"


@pytest.mark.kernel
@pytest.mark.wide
def test_random_keys_do_not_end_the_app(tmp_path: Path, long_run: LongRun) -> None:
    fuzzer, begun = Fuzzer(tmp_path, long_run.seed), time.monotonic()
    fuzzer.run(long_run.seconds or SECONDS)
    # On a busy computer the first screen may take half of that time.
    while not fuzzer.problem and len(fuzzer.screens) <= 3 and time.monotonic() - begun < LONGEST_SECONDS:
        fuzzer.run(SECONDS)
    assert not fuzzer.problem, fuzzer.problem
    assert len(fuzzer.screens) > 3
