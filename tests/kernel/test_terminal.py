"""A terminal on a real kernel: editors, pagers, completion, floods, its end; and ``raidlab shell`` around it."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.disks import Lab, open_lab
from lab.errors import LabError, MachineLost
from lab.host.clock import HostClock, wait_for
from lab.machine import Host, Machine, TypedCommand, parse_target
from lab.machine.terminal import HISTORY_FILE
from tests.kernel.place import kernel_target
from tests.kernel.rig import file_disks
from tests.kernel.student import kernels_of, own_state
from tests.kernel.test_app_terminal import Terminal as Window
from tui.terminal import TerminalScreen

__all__ = ["own_state"]
pytestmark = pytest.mark.kernel
DISKS = file_disks(2, 48)
COLUMNS, ROWS = 80, 20


class Sitting:
    """Somebody at a terminal of the machine, with the app's screen before them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.commands: list[TypedCommand] = []
        self.count = 0
        self.failure: LabError | None = None
        self.terminal = machine.terminal(COLUMNS, ROWS, on_command=self.commands.append)
        self.screen = TerminalScreen(COLUMNS, ROWS, self.terminal.type)
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        self.until(lambda: "#" in self.text(), "a prompt")

    def _look(self) -> None:
        try:
            for chunk in self.terminal.chunks():
                with self.screen.lock:
                    self.screen.feed(chunk)
                self.count += len(chunk)
        except LabError as error:
            self.failure = error

    def text(self) -> str:
        with self.screen.lock:
            return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, is_reached: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        # The screen's text, so that a failure shows it.
        wait_for(self.text, lambda _: is_reached(), what=what, timeout_seconds=seconds, clock=HostClock())

    def type(self, text: str, shown: str = "") -> None:
        self.terminal.type(text.encode())
        if shown:
            self.until(lambda: shown in self.text(), shown)

    def run(self, line: str) -> TypedCommand:
        count = len(self.commands)
        self.type(f"{line}\r")
        self.until(lambda: len(self.commands) > count, line)
        return self.commands[-1]

    def start(self, line: str) -> None:
        """Type it, and wait until it is what the terminal's keys reach (``+``: foreground, ps(1))."""
        self.type(f"{line}\r")
        shown = re.compile(rf"^\S*\+\S*\s+{re.escape(line)}$", re.MULTILINE)
        ps = ("ps", "-e", "-o", "stat=,args=")
        self.until(lambda: bool(shown.search(self.machine.run(ps).stdout)), f"{line} to run")

    def is_in_editor(self) -> bool:
        with self.screen.lock:
            return self.screen.is_alternate

    def leave(self) -> None:
        self.terminal.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def sitting(lab: Lab) -> Iterator[Sitting]:
    found = Sitting(lab.machine)
    yield found
    found.leave()


def uptime(machine: Machine) -> float:
    text = machine.read(["/proc/uptime"])["/proc/uptime"]
    assert text
    return float(text.split()[0])


def test_vi_edits_less_pages_and_the_shell_completes(sitting: Sitting) -> None:
    assert "process group" not in sitting.text()
    sitting.type("vi /tmp/notes\r", "~")
    assert sitting.is_in_editor()
    sitting.type("ihello from vi", "hello from vi")
    sitting.type("\x1b:wq\r")
    sitting.until(lambda: bool(sitting.commands), "vi ends")
    assert sitting.machine.read(["/tmp/notes"]) == {"/tmp/notes": "hello from vi\n"}
    assert not sitting.is_in_editor()
    sitting.type("seq 1000 | less\r", "\n:")
    sitting.type(" ", f"\n{ROWS + 5}\n")
    sitting.type("q")
    sitting.until(lambda: len(sitting.commands) == 2, "less ends")
    sitting.type("clear; cat /proc/mdst\t", "/proc/mdstat")
    sitting.type("\r", "unused devices")


def test_it_has_job_control_a_size_and_a_history(sitting: Sitting) -> None:
    sitting.terminal.resize(101, 33)
    assert sitting.run("[ \"$(stty size)\" = '33 101' ]").status == 0
    sitting.start("sleep 70")
    sitting.type("\x1a", "Stopped")
    sitting.until(lambda: sitting.commands[-1].line == "sleep 70", "its end, for the shell")
    assert sitting.commands[-1].status == 148
    assert sitting.run("bg %1; kill %1; wait %1").status == 143
    interrupted = len(sitting.commands)
    sitting.start("sleep 71")
    sitting.type("\x03")
    sitting.until(lambda: len(sitting.commands) > interrupted, "the interrupt")
    assert (sitting.commands[-1].line, sitting.commands[-1].status) == ("sleep 71", 130)
    kept = sitting.machine.read([HISTORY_FILE])[HISTORY_FILE]
    assert kept
    assert kept.splitlines()[-1] == "sleep 71"


def test_a_flood_delays_no_look_and_ctrl_c_ends_it(sitting: Sitting) -> None:
    sitting.type("yes\r")
    sitting.until(lambda: sitting.count > 500_000, "a flood")
    for _ in range(20):
        sitting.machine.read(["/proc/mdstat"])
    sitting.type("\x03")
    sitting.until(lambda: bool(sitting.commands), "the flood's end", seconds=10)
    assert (sitting.commands[-1].line, sitting.commands[-1].status) == ("yes", 130)


def test_a_long_paste_arrives_whole(sitting: Sitting) -> None:
    data = "".join(f"{number:06d} a line of what was pasted, long enough to count\n" for number in range(1900))
    sitting.type("cat > /tmp/pasted\r", "pasted")
    time.sleep(0.5)
    sitting.type(data + "\x04")
    sitting.until(lambda: bool(sitting.commands), "its end", seconds=60)
    told = sitting.machine.run(("sha256sum", "/tmp/pasted")).stdout.split()[0]
    assert told == hashlib.sha256(data.encode()).hexdigest()


def test_what_a_closed_terminal_leaves_behind_is_ended(lab: Lab) -> None:
    sitting = Sitting(lab.machine)
    sitting.type("trap '' HUP; sh -c 'sleep 7077; :'\r")
    sitting.until(lambda: "sleep 7077" in lab.machine.run(("ps", "ax")).stdout, "the program")
    sitting.leave()
    assert "sleep 7077" not in lab.machine.run(("ps", "ax")).stdout


def test_who_looks_learns_that_the_machine_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    with open_lab(kernel_target(), Host.real("tests"), wanted=DISKS) as lab:
        sitting = Sitting(lab.machine)
        sitting.type("less /etc/services\r")
        sitting.until(sitting.is_in_editor, "a pager")
        for kernel in kernels_of(os.getpid(), tmp_path):
            os.killpg(kernel, signal.SIGKILL)
        sitting.thread.join(20)
        assert isinstance(sitting.failure, MachineLost)
        sitting.type("x")


@pytest.mark.virtual_time
def test_in_virtual_time_commands_take_theirs_and_waiting_for_a_key_takes_none() -> None:
    with open_lab(parse_target("uml:?time=virtual"), Host.real("tests"), wanted=DISKS) as lab:
        sitting = Sitting(lab.machine)
        begun = uptime(lab.machine)
        time.sleep(0.5)
        # It stands still between requests; each of them takes a moment.
        assert 0 <= uptime(lab.machine) - begun < 0.1
        assert 5 <= sitting.run("sleep 5").seconds < 5.1
        assert 5 <= uptime(lab.machine) - begun < 6
        sitting.type("vi /tmp/notes\r", "~")
        begun = uptime(lab.machine)
        time.sleep(0.5)
        # It may not have printed all by then, and each piece is given a moment. Time that is let go runs much faster.
        assert uptime(lab.machine) - begun < 1
        sitting.type("ihello", "hello")
        sitting.type("\x1b:wq\r")
        sitting.until(lambda: len(sitting.commands) == 2, "vi ends")
        sitting.type("yes\r")
        sitting.until(lambda: sitting.count > 500_000, "a flood")
        sitting.type("\x03")
        sitting.until(lambda: len(sitting.commands) == 3, "the flood's end")
        sitting.leave()


@contextmanager
def shell_in_a_window(state: Path) -> Iterator[Window]:
    script = f"import os, sys; os.environ['RAIDLAB_STATE'] = {str(state)!r}; from lab.cli.main import run; "
    window = Window(
        [sys.executable, "-c", script + f"sys.argv[1:] = ['--on', {kernel_target().text!r}, 'shell']; sys.exit(run())"]
    )
    try:
        window.read_until(lambda output: b"# " in output, "a prompt")
        yield window
    finally:
        window.close()


def assert_given_back(window: Window, state: Path) -> None:
    assert termios.tcgetattr(window._theirs) == window.settings
    assert kernels_of(window.process.pid, state) == set()


def test_raidlab_shell_passes_the_status_on_and_follows_the_window(tmp_path: Path) -> None:
    with shell_in_a_window(tmp_path) as window:
        termios.tcsetwinsize(window._theirs, (31, 97))
        os.kill(window.process.pid, signal.SIGWINCH)
        window.type("until stty size | grep '31 97'; do :; done; tty; mdadm --version\r")
        window.read_until(lambda output: b"/dev/pts/0" in output and b"mdadm - v" in output, "its answers")
        window.type("exit 5\r")
        assert window.end() == 5
        assert b"7777" not in window.output
        assert_given_back(window, tmp_path)


def test_raidlab_shell_has_a_way_out(tmp_path: Path) -> None:
    with shell_in_a_window(tmp_path) as window:
        window.type("trap '' INT HUP; sleep 1000\r")
        time.sleep(0.5)
        window.type("\r~.")
        assert window.end() == 1
        assert_given_back(window, tmp_path)


def test_raidlab_shell_gives_the_window_back_when_the_machine_dies_or_it_is_to_end(tmp_path: Path) -> None:
    for how, status in (("machine", 4), ("command", 143)):
        with shell_in_a_window(tmp_path) as window:
            window.type("less /etc/services\r")
            window.read_until(lambda output: b"\x1b[?1049h" in output, "a pager")
            if how == "machine":
                for kernel in kernels_of(window.process.pid, tmp_path):
                    os.killpg(kernel, signal.SIGKILL)
            else:
                window.process.terminate()
            assert window.end() == status
            assert window.output.rfind(b"\x1b[?1049l") > window.output.rfind(b"\x1b[?1049h")
            assert_given_back(window, tmp_path)
