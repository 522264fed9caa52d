"""Commands typed by hand on the machine, one line after the other, as root: folder, variables and functions are kept.

Each line is a bash of its own that begins where the last one ended, so that a line can be interrupted, or the machine
lost, without a shell left hanging somewhere. There is no terminal: programs that want one (vi, top) do not work.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from lab.errors import LabError, MachineLost
from lab.machine import RUN_FOLDER, RunningCommand
from lab.session.session import LabSession

KEPT_CHARACTERS = 64_000
"""How much of one command's output is kept; the rest has been handed on."""

# $1 folder (empty: the home folder), $2 file with what was kept, $3 the line.
# set -a: what the line assigns is there for the next one.
# Whoever looks into /proc/mdstat before the first array needs the driver to be there.
_SCRIPT = """exec 2>&1
cd "${1:-$HOME}" || cd /
[ -e /proc/mdstat ] || modprobe -q md_mod
[ -r "$2" ] && . "$2"
set -a; eval "$3"; status=$?; set +a
{ export -p; declare -f; } > "$2" 2>/dev/null; pwd > "$2.folder"
exit $status"""
_SIGINT, _SIGKILL = 2, 9


@dataclass(frozen=True, slots=True)
class ShellResult:
    """One line that was carried out."""

    line: str
    status: int
    """128 + N if signal N ended it: 130 after an interrupt."""
    output: str
    """What it printed, standard output and error in order; of much output the end."""
    seconds: float


class Shell:
    """``shell.run("cat /proc/mdstat", on_output=print)``; ``interrupt`` from another thread ends the line that runs.

    Call ``session.rescan`` afterwards, on the thread that runs plans: the line may have made or stopped arrays.
    """

    def __init__(self, session: LabSession) -> None:
        self._session, self._machine = session, session.machine
        self._state = f"{RUN_FOLDER}/shell-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._command: RunningCommand | None = None
        self._interrupts = 0
        self.folder = ""
        """Where the next line begins; empty until a first line has run: in the home folder."""

    @property
    def is_running(self) -> bool:
        return self._command is not None

    def run(self, line: str, *, on_output: Callable[[str], None] = lambda _: None) -> ShellResult:
        """Carry out one line and wait for its end; ``on_output`` gets pieces of its output as they come.

        Raises LabError if a line runs already, MachineLost if the machine goes.
        """
        with self._lock:
            if self._command is not None:
                raise LabError("a command is still running in this shell", hint="wait for it, or interrupt it")
            argv = ("bash", "-c", _SCRIPT, "bash", self.folder, self._state, line)
            self._command = command = self._machine.stream(argv, keeps_output=False)
            self._interrupts = 0
        # Asked anew each time: a drill may have begun since.
        self._session.on_typed(line)
        kept: deque[str] = deque()
        size = 0
        try:
            for chunk in command.chunks():
                kept.append(chunk)
                size += len(chunk)
                while size - len(kept[0]) > KEPT_CHARACTERS:
                    size -= len(kept.popleft())
                on_output(chunk)
            result = command.result()
        finally:
            with self._lock:
                self._command = None
        self._follow_folder()
        status = result.status if result.status >= 0 else 128 - result.status
        return ShellResult(line, status, "".join(kept)[-KEPT_CHARACTERS:], result.duration_seconds)

    def interrupt(self) -> None:
        """As Ctrl-C; a second one kills. Does nothing if no line runs."""
        with self._lock:
            command = self._command
            self._interrupts += 1
            number = _SIGINT if self._interrupts == 1 else _SIGKILL
        if command:
            with contextlib.suppress(MachineLost):
                command.stop(signal_number=number)

    def close(self) -> None:
        """Forget what was kept. On a lost machine there is nothing to forget."""
        self.interrupt()
        with contextlib.suppress(LabError):
            self._machine.run(("rm", "-f", self._state, f"{self._state}.folder"), check=False)

    def _follow_folder(self) -> None:
        path = f"{self._state}.folder"
        folder = (self._machine.read([path])[path] or "").strip()
        self.folder = folder or self.folder
