"""``raidlab shell`` opens a root terminal on the machine, and ``raidlab exec`` runs a single command there."""

from __future__ import annotations

import contextlib
import shlex
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab.cli.context import current, err, out_json
from lab.cli.session import client_of
from lab.errors import LabError, SpecError
from lab.gates.text import visible
from lab.host.streams import Console, raw_console
from lab.machine import Terminal
from lab.session.session import LabSession, Shell, open_session

_LINE_ENDS = b"\r\n"


class WayOut:
    """Detects Enter ~ . in the input, the way ssh(1) does. Enter ~ ~ sends one ``~``."""

    def __init__(self) -> None:
        self._is_at_start = True
        self._has_tilde = False
        self.is_taken = False

    def pass_on(self, data: bytes) -> bytes:
        """Return the part of the input that is to be sent. After ``~ .``, it is empty."""
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
    """Open a root terminal on the machine with its arrays running, and exit with bash's status."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SpecError(
            "a shell needs a terminal", hint="for a single command or in a script, use: raidlab exec -- COMMAND"
        )
    context = current()
    with open_session(client_of(context)) as session:
        if not context.quiet:
            err("raidlab: root shell on the lab's machine; 'exit' ends it; if nothing responds, type Enter ~ .")
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
        err("raidlab: the terminal is closed; programs that were still running in it were ended")
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


def execute(
    *words: Annotated[
        str,
        Parameter(allow_leading_hyphen=True, help="The command, after '--'. The shell runs a single argument."),
    ],
) -> int:
    """Run a command on the machine with its arrays running. Print its output, and exit with its status."""
    if not words:
        raise SpecError("no command was given", hint="give one after '--': raidlab exec -- cat /proc/mdstat")
    context = current()
    line = words[0] if len(words) == 1 else shlex.join(words)
    with open_session(client_of(context)) as session:
        shell = Shell(session)
        result = shell.run(line, on_output=(lambda _: None) if context.json else partial(print, end="", flush=True))
        session.rescan()
        shell.close()
        unseen = _unseen(session, line, result.output) if result.status and context.is_embedded else ""
    if unseen:
        err(
            f"raidlab: '{visible(unseen)}' is on this computer, but the machine sees only the system's files"
            f"\n  next: show it to the machine with --on '{context.target.kind}:?show=PATH'"
        )
    if context.json:
        out_json({"line": line, "status": result.status, "output": result.output, "seconds": result.seconds})
    return result.status


def _unseen(session: LabSession, line: str, output: str) -> str:
    """Return a file of this computer that the line names and the machine lacks, or an empty string."""
    if "No such file" not in output:
        return ""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    named = [word for word in dict.fromkeys(words) if word in output and Path(word).exists()]
    return next((word for word in named if session.machine.run(("test", "-e", word), check=False).status), "")
