"""``raidlab shell``: a terminal on the machine, as root, while the lab is open."""

from __future__ import annotations

import contextlib
import sys
import threading

from lab.cli.context import current
from lab.cli.output import err
from lab.cli.session import open_session
from lab.errors import LabError, SpecError
from lab.host.console import Console, raw_console
from lab.machine import Terminal
from lab.session.session import LabSession

_LINE_ENDS = b"\r\n"


class WayOut:
    """Detects Enter ~ . in the input, as ssh(1) does; Enter ~ ~ sends one ``~``."""

    def __init__(self) -> None:
        self._is_at_start = True
        self._has_tilde = False
        self.is_taken = False

    def pass_on(self, data: bytes) -> bytes:
        """The part of the input to send; empty after ``~ .``."""
        typed = bytearray()
        for code in data:
            if self._has_tilde:
                self._has_tilde = False
                if code == ord("."):
                    self.is_taken = True
                    break
                typed += b"~" if code != ord("~") else b""
            elif self._is_at_start and code == ord("~"):
                self._has_tilde = True
                continue
            typed.append(code)
            self._is_at_start = code in _LINE_ENDS
        return bytes(typed)


def shell() -> int:
    """Open a terminal on the machine with its arrays running, as root; ends with bash's status."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SpecError(
            "there is no terminal to open a shell in", hint="for one command, or a script: raidlab exec -- COMMAND"
        )
    context = current()
    with open_session(context) as session:
        if not context.quiet:
            err("raidlab: root on the lab's machine; 'exit' leaves, and where nothing answers: Enter ~ .")
        try:
            status = _connect(session)
        finally:
            with contextlib.suppress(LabError):
                session.rescan()
    return status


def _connect(session: LabSession) -> int:
    way_out, failures = WayOut(), list[BaseException]()
    with raw_console() as console:
        terminal = session.machine.terminal(*console.size(), on_command=lambda command: session.on_typed(command.line))
        reader = threading.Thread(target=_show, args=(terminal, console, failures), name="terminal", daemon=True)
        reader.start()
        try:
            for data in console.keys(terminal.resize):
                terminal.type(way_out.pass_on(data))
                if way_out.is_taken:
                    break
        finally:
            if terminal.status is None and not failures:
                terminal.stop()
        if failures:
            raise failures[0]
    if terminal.status is None:
        err("raidlab: left; what still ran in the terminal is ended")
        return 1
    return terminal.status


def _show(terminal: Terminal, console: Console, failures: list[BaseException]) -> None:
    try:
        for chunk in terminal.chunks():
            console.show(chunk)
    except (LabError, OSError) as error:
        failures.append(error)
    finally:
        console.end()
