"""A terminal on a real kernel: editors, pagers, completion, floods and its end; and ``raidlab shell`` with it."""

from __future__ import annotations

import os
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.disks import Lab, open_lab
from lab.host.clock import HostClock, wait_for
from lab.machine import Host, Machine, TypedCommand, parse_target
from tests.kernel.place import kernel_target
from tests.kernel.rig import file_disks
from tests.kernel.student import kernels_of, own_state
from tests.waiting import PATIENCE_SECONDS
from tests.window import RAIDLAB, Window, command
from tui.terminal import TerminalScreen

__all__ = ["own_state"]
pytestmark = pytest.mark.kernel
DISKS = file_disks(2, 48)
COLUMNS, ROWS = 80, 20


class Sitting:
    """A user at a terminal of the machine, who sees the app's screen."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.commands: list[TypedCommand] = []
        self.count = 0
        self.terminal = machine.terminal(COLUMNS, ROWS, on_command=self.commands.append)
        self.screen = TerminalScreen(COLUMNS, ROWS, self.terminal.type)
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        self.until(lambda: "#" in self.text(), "a prompt")

    def _look(self) -> None:
        for chunk in self.terminal.chunks():
            with self.screen.lock:
                self.screen.feed(chunk)
            self.count += len(chunk)

    def text(self) -> str:
        with self.screen.lock:
            return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, is_reached: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        # A failure shows the screen's text.
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

    def is_in_editor(self) -> bool:
        with self.screen.lock:
            return self.screen.is_alternate

    def leave(self) -> None:
        self.terminal.stop()
        self.thread.join(PATIENCE_SECONDS)
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


@pytest.mark.virtual_time
def test_in_virtual_time_commands_take_theirs_and_waiting_for_a_key_takes_none() -> None:
    with open_lab(parse_target("uml:?time=virtual"), Host.real("tests"), wanted=DISKS) as lab:
        sitting = Sitting(lab.machine)
        begun = uptime(lab.machine)
        time.sleep(0.5)
        # Time stands still between requests, each of which takes a moment.
        assert 0 <= uptime(lab.machine) - begun < 0.1
        assert 5 <= sitting.run("sleep 5").seconds < 5.1
        assert 5 <= uptime(lab.machine) - begun < 6
        sitting.type("vi /tmp/notes\r", "~")
        begun = uptime(lab.machine)
        time.sleep(0.5)
        # vi may not have printed everything yet, and each piece takes a moment. Free-running time would be much faster.
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
    with Window(command(RAIDLAB, "--on", kernel_target().text, "shell"), state) as window:
        window.shows(b"# ")
        yield window


def assert_given_back(window: Window, state: Path) -> None:
    assert termios.tcgetattr(window.ours) == window.settings
    assert kernels_of(window.process.pid, state) == set()


def test_raidlab_shell_passes_the_status_on_and_follows_the_window(tmp_path: Path) -> None:
    with shell_in_a_window(tmp_path) as window:
        termios.tcsetwinsize(window.ours, (31, 97))
        os.kill(window.process.pid, signal.SIGWINCH)
        window.type("until stty size | grep '31 97'; do :; done; tty; mdadm --version\r")
        window.until(lambda: b"/dev/pts/0" in window.output and b"mdadm - v" in window.output, "its answers")
        window.type("exit 5\r")
        assert window.end() == 5
        assert b"7777" not in window.output
        assert_given_back(window, tmp_path)


def test_raidlab_shell_has_a_way_out(tmp_path: Path) -> None:
    with shell_in_a_window(tmp_path) as window:
        # The line that is typed does not contain the word that is printed.
        window.type("trap '' INT HUP; echo hel''d; sleep 1000\r")
        window.shows(b"held")
        window.type("\r~.")
        assert window.end() == 1
        assert_given_back(window, tmp_path)


def test_raidlab_shell_gives_the_window_back_when_the_machine_dies_or_it_is_to_end(tmp_path: Path) -> None:
    for how, status in (("machine", 4), ("command", 143)):
        with shell_in_a_window(tmp_path) as window:
            window.type("less /etc/services\r")
            window.shows(b"\x1b[?1049h")
            if how == "machine":
                for kernel in kernels_of(window.process.pid, tmp_path):
                    os.killpg(kernel, signal.SIGKILL)
            else:
                window.process.terminate()
            assert window.end() == status
            assert window.output.rfind(b"\x1b[?1049l") > window.output.rfind(b"\x1b[?1049h")
            assert_given_back(window, tmp_path)
