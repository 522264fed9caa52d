"""Commands typed by hand on the machine, line by line, as root.

The working folder, variables, functions and the parameters of ``set --`` persist.

Each line runs in a bash of its own that starts from the final state of the previous one. So a line can be interrupted,
or the machine lost, without leaving a hanging shell. There is no terminal: programs that need one (vi, top) do not
work.
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
"""Maximum number of characters of a command's output that is stored; earlier output is passed to ``on_output`` only."""

# $1 folder (empty: the home folder), $2 file with the saved state, $3 the line.
# set -a exports assignments, so that the next line sees them.
# The driver is loaded so that /proc/mdstat exists before the first array.
_SCRIPT = """exec 2>&1
cd "${1:-$HOME}" || cd /
[ -e /proc/mdstat ] || modprobe -q md_mod
_lab_kept=$2 _lab_line=$3; set --
[ -r "$_lab_kept" ] && . "$_lab_kept"
set -a; eval "$_lab_line"; status=$?; set +a
{ export -p; declare -f; echo "set -- ${*@Q}"; } > "$_lab_kept" 2>/dev/null; pwd > "$_lab_kept.folder"
exit $status"""
_SIGINT, _SIGKILL = 2, 9


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The result of one line."""

    line: str
    status: int
    """128 + N if signal N ended it: 130 after an interrupt."""
    output: str
    """Standard output and standard error in order; only the end of a long output."""
    seconds: float


class Shell:
    """``shell.run("cat /proc/mdstat", on_output=print)``; ``interrupt`` from another thread ends the current line.

    Call ``session.rescan`` afterwards, on the thread that runs plans: the line may have created or stopped arrays.
    """

    def __init__(self, session: LabSession) -> None:
        self._session, self._machine = session, session.machine
        self._state = f"{RUN_FOLDER}/shell-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._command: RunningCommand | None = None
        self._interrupts = 0
        self.folder = ""
        """Initial folder of the next line; empty before the first line has run, which means the home folder."""

    @property
    def is_running(self) -> bool:
        return self._command is not None

    def run(self, line: str, *, on_output: Callable[[str], None] = lambda _: None) -> ShellResult:
        """Run one line and wait for its end; ``on_output`` receives its output in pieces as it arrives.

        Raises LabError if a line is already running, MachineLost if the machine is lost.
        """
        with self._lock:
            if self._command is not None:
                raise LabError("a command is still running in this shell", hint="wait for it, or interrupt it")
            argv = ("bash", "-c", _SCRIPT, "bash", self.folder, self._state, line)
            self._command = command = self._machine.stream(argv, keeps_output=False)
            self._interrupts = 0
        # Evaluated for each line: a drill may have begun since.
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
        """Send SIGINT, like Ctrl-C; a second call sends SIGKILL. Has no effect if no line is running."""
        with self._lock:
            command = self._command
            self._interrupts += 1
            number = _SIGINT if self._interrupts == 1 else _SIGKILL
        if command:
            with contextlib.suppress(MachineLost):
                command.stop(signal_number=number)

    def close(self) -> None:
        """Delete the saved state. On a lost machine there is nothing to delete."""
        self.interrupt()
        with contextlib.suppress(LabError):
            self._machine.run(("rm", "-f", self._state, f"{self._state}.folder"), check=False)

    def _follow_folder(self) -> None:
        path = f"{self._state}.folder"
        folder = (self._machine.read([path])[path] or "").strip()
        self.folder = folder or self.folder
