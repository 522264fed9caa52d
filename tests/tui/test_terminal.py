"""The app in a real terminal: it restores the terminal however it ends, and it ends when the terminal goes away.

The lab is a fake. tests/kernel/test_hangup.py tests the app with an open machine.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.window import PATIENCE_SECONDS, TAKES_CONTROL, Window, command

pytestmark = pytest.mark.slow
LOST_SECONDS = 5.0
TERM_SECONDS = 2.0
BUSY_SECONDS = 60.0
"""Added to the promised times, since other tests need the processors too."""
CHILD = """
import contextlib, functools, pathlib, sys, threading
from lab.host import signals
signals.install()
import tui.app, tui.text
from tests.tui.fake_lab import FakeLab
from tui.client import LabClient
from tui.app import Settings, save_settings, state_file
state, mode, trouble = sys.argv[1:]
save_settings(state_file(), Settings(was_welcomed=True))
lab = FakeLab(pathlib.Path(state))
def client(post):
    return LabClient("uml:", post, host=lab.host, opener=lab.open)
tui.app.RaidlabApp = functools.partial(tui.app.RaidlabApp, make_client=client)
tui.text.TextApp = functools.partial(tui.text.TextApp, make_client=client)
def report():
    print("blocked", file=sys.__stderr__, flush=True)
def block():
    report()
    threading.Event().wait()
trouble and exec(trouble)
try:
    sys.exit(tui.app.main("uml:") if mode == "app" else tui.text.main("uml:", lambda words: 0, (), lambda words: None))
except signals.Interrupted as interrupted:
    sys.exit(interrupted.exit_status)
"""
READY = {"app": b"disk09", "text": b"The machine uml: is running."}


class AppWindow(Window):
    """A window whose app may be a child of another program, such as make."""

    def __init__(self, argv: list[str], state: Path) -> None:
        super().__init__(argv, state)
        self.state = state

    def quiet(self, seconds: float) -> None:
        """Read until nothing was painted for this many seconds."""
        while select.select([self.ours], [], [], seconds)[0]:
            self.take(0)

    def apps(self) -> list[int]:
        """The processes that use this state, whatever their parents are."""
        word = str(self.state).encode()
        return [
            int(entry.name)
            for entry in Path("/proc").glob("[0-9]*")
            if word in _command_line(entry) and b"-c" in _command_line(entry)
        ]

    def kill(self) -> None:
        for each in self.apps():
            os.kill(each, signal.SIGKILL)
        super().kill()


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def ended_within(window: AppWindow, seconds: float) -> bool:
    end = time.monotonic() + seconds + BUSY_SECONDS
    window.process.poll()
    while (found := window.apps()) and time.monotonic() < end:
        time.sleep(0.02)
        window.process.poll()
    return not found


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., AppWindow]]:
    """Open a window with the app or the text mode, and wait until it shows the lab."""
    windows: list[AppWindow] = []

    def open_one(
        mode: str = "app", way: str = "alone", trouble: str = "", *, waits: bool = True, code: str = CHILD
    ) -> AppWindow:
        argv = command(code, str(tmp_path / "state"), mode, trouble)
        line = shlex.join(argv)
        match way:
            case "make":
                file = tmp_path / "Makefile"
                child = tmp_path / "child.sh"
                child.write_text(f"{line}\n")
                file.write_text(f".PHONY: lab\nlab:\n\t@sh {child}\n")
                argv = ["make", "-f", str(file), "lab"]
            case "script":
                argv = ["script", "-qc", line, "/dev/null"]
            case "ignored":
                argv = ["sh", "-c", f"trap '' HUP; {line}"]
        if way in ("make", "control", "script"):
            argv = command(f"{TAKES_CONTROL}os.execvp(sys.argv[1], sys.argv[1:])", *argv)
        window = AppWindow(argv, tmp_path / "state")
        windows.append(window)
        if waits:
            window.shows(READY[mode] if code is CHILD else b"Welcome")
        return window

    yield open_one
    for window in windows:
        window.kill()


# Nobody answers on port 9 of this computer: the machine does not start, but the app does.
COMMAND = """
from lab.cli.main import run; import sys
from tui.app import RaidlabApp
RaidlabApp.action_next_theme = lambda self: {patch}
sys.exit(run(['--on', 'ssh:nobody@127.0.0.1:9']))
"""
LEAVE, THEME = b"\x11", b"\x14"


@pytest.mark.parametrize(
    ("patch", "ends", "says", "ends_well"),
    [
        ("0", LEAVE, b"", True),
        ("0", signal.SIGTERM, b"", False),
        ("0", signal.SIGHUP, b"", False),
        ("self.call_later(lambda: 1 / 0)", THEME, b"ZeroDivisionError", False),
        # The app shows the defect in a key's action and continues.
        ("1 / 0", THEME, b"this should not happen", True),
    ],
    ids=["left", "SIGTERM", "SIGHUP", "crash", "bug of a key"],
)
def test_however_it_ends_the_terminal_is_as_it_was(
    opened: Callable[..., AppWindow], patch: str, ends: bytes | signal.Signals, says: bytes, ends_well: bool
) -> None:
    window = opened(code=COMMAND.format(patch=patch))
    if isinstance(ends, bytes):
        window.type(ends)
    else:
        window.process.send_signal(ends)
    window.shows(says)
    if ends == THEME and ends_well:
        window.type(LEAVE)
    # The terminal is restored shortly before the process ends.
    assert (window.end() == 0) == ends_well
    window.assert_restored()


@pytest.mark.parametrize(
    ("mode", "way"),
    [*(("app", way) for way in ("alone", "control", "make", "script", "ignored")), ("text", "alone"), ("text", "make")],
)
def test_a_terminal_that_goes_away_ends_it(opened: Callable[..., AppWindow], way: str, mode: str) -> None:
    window = opened(mode, way)
    window.close()
    assert ended_within(window, LOST_SECONDS)


ACTION = "tui.app.RaidlabApp.func.action_next_theme"
BUSY_LOOP = f"""
def spin(app):
    report()
    while True:
        pass
{ACTION} = spin
"""
STUCK_START = """
@contextlib.contextmanager
def never(*_, **__):
    block()
    yield
lab.open = never
"""
TROUBLES = {
    "blocked loop": (f"{ACTION} = lambda app: block()", THEME),
    "busy loop": (BUSY_LOOP, THEME),
    "stuck job": (f"{ACTION} = lambda app: app.job('stuck', lambda session: block())", THEME),
    "stuck closing": ("LabClient.close = lambda client: block()", b"q"),
    "stuck start": (STUCK_START, b""),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("how", ["SIGTERM", "closed"])
def test_whatever_it_is_at_it_ends(opened: Callable[..., AppWindow], trouble: str, how: str) -> None:
    code, key = TROUBLES[trouble]
    window = opened(trouble=code, waits=bool(key))
    window.type(key)
    window.shows(b"blocked")
    if how == "closed":
        window.close()
        assert ended_within(window, LOST_SECONDS)
        return
    window.process.terminate()
    # Read as a terminal does: without a reader there would be no room for the output that restores the terminal.
    window.read(TERM_SECONDS + BUSY_SECONDS, lambda: window.process.poll() is not None)
    assert ended_within(window, TERM_SECONDS)
    assert window.process.wait() == 128 + signal.SIGTERM
    window.read_rest()
    if b"\x1b[?1049h" in window.output:
        # The terminal is restored even if the app is ended by force.
        assert window.output.rfind(b"\x1b[?1049l") > window.output.rfind(b"\x1b[?1049h")


@pytest.mark.parametrize("mode", ["app", "text"])
def test_a_reader_that_never_reads_holds_nothing_up(opened: Callable[..., AppWindow], mode: str) -> None:
    window = opened(mode)
    for _ in range(3000):
        # Each key repaints the screen or prints the help, and nothing of that is read.
        if not select.select([], [window.ours], [], 0.2)[1]:
            break
        window.type(THEME if mode == "app" else b"help\n")
        time.sleep(0.001)
    time.sleep(0.5)
    window.process.terminate()
    assert ended_within(window, TERM_SECONDS)


FEW_WAITING = "import tui.driver; tui.driver._MOST_WAITING_BYTES = 20_000"


@pytest.mark.wide
def test_frames_skipped_for_a_slow_reader_are_painted_at_the_end(opened: Callable[..., AppWindow]) -> None:
    windows = []
    for stalls in (True, False):
        window = opened(trouble=FEW_WAITING)
        windows.append(window)
        for key in (THEME * 4, b"3", b"1", b"2", b"4", b"2"):
            window.type(key)
            if stalls:
                time.sleep(0.5)
            else:
                window.quiet(0.5)
                window.read(0.5)
    end = time.monotonic() + PATIENCE_SECONDS
    shown: list[str] = []
    while (len(set(shown)) != 1 or "Layout" not in shown[0]) and time.monotonic() < end:
        for window in windows:
            # A delayed app is silent too.
            window.quiet(1.0)
        shown = [window.text for window in windows]
    assert shown[0] == shown[1]
    assert "Layout" in shown[0]


PASTES = {
    "coloured": b"\x1b[200~" + b"A\x1b[31m\n" * 14_000 + b"\x1b[201~",
    "plain": b"\x1b[200~" + b"x" * 1_000_000 + b"\x1b[201~",
    "without end": b"\x1b[200~" + b"text " * 20_000,
    "not bracketed": b"4" * 300_000,
    "parameters": b"\x1b[" + b"1" * 1_000_000 + b"m",
    "title without end": b"\x1b]0;" + b"x" * 100_000,
    "no characters": b"\x1b[1114112u\x1b[99999999999;1u\x1b[97:65;1u\x1b[55296u\xff\xfe",
    "no size": b"\x1b[48;0;0;0;0t\x1b[<35;1;1M\x1b[48;24;80;0;0t\x1b[<35;1;1M",
    "mouse": b"\x1b[<35;20;20M\x1b[<64;3;3M" * 20_000,
}


def flood(window: AppWindow, data: bytes) -> None:
    """Write all data, and read the output meanwhile."""
    os.set_blocking(window.ours, False)
    end = time.monotonic() + PATIENCE_SECONDS
    while data and time.monotonic() < end:
        try:
            data = data[os.write(window.ours, data[:4096]) :]
        except BlockingIOError:
            window.read(0.01)
    assert not data, "it does not read on"


@pytest.mark.parametrize("paste", PASTES)
@pytest.mark.wide
def test_after_a_flood_keys_work_and_memory_is_bounded(opened: Callable[..., AppWindow], paste: str) -> None:
    window = opened()
    before = _resident_bytes(window.process.pid)
    flood(window, PASTES[paste])
    # Longer than the app waits for the end of a paste.
    window.read(1.5)
    window.output = b""
    window.type(b"9")
    window.shows(b"Drills")
    assert _resident_bytes(window.process.pid) - before < 100 * 2**20
    window.process.terminate()
    assert ended_within(window, TERM_SECONDS)


@pytest.mark.parametrize("reports_sizes", [False, True], ids=["never asked", "agreed on"])
def test_an_unrequested_size_report_is_ignored(opened: Callable[..., AppWindow], reports_sizes: bool) -> None:
    window = opened()
    if reports_sizes:
        # A terminal that reports its size in band (DEC private mode 2048) says that it can, and that this is enabled.
        window.type(b"\x1b[?2048;1$y")
    window.type(b"\x1b[48;90;200;0;0t")
    window.read(1.5)
    window.output = b""
    window.type(b"9")
    window.shows(b"Drills")

    def lowest_row() -> int:
        return max(int(row) for row in re.findall(rb"\x1b\[([0-9]+);[0-9]+H", window.output))

    if reports_sizes:
        window.until(lambda: lowest_row() > 40, "rows below the 40th are painted")
    else:
        window.quiet(1.0)
        assert lowest_row() <= 40


def test_a_signal_in_the_middle_of_a_paste_is_obeyed(opened: Callable[..., AppWindow]) -> None:
    window = opened()
    window.type(PASTES["coloured"][:3000])
    window.process.terminate()
    assert ended_within(window, TERM_SECONDS)


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
