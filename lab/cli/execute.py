"""``raidlab exec``: a single command on the machine, as root, while the lab is open."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab.cli.context import current
from lab.cli.output import err, out_json
from lab.cli.session import open_session
from lab.errors import SpecError
from lab.gates.text import visible
from lab.session.session import LabSession
from lab.session.shell import Shell


def execute(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The command, behind '--'; one word: a shell line.")
    ],
) -> int:
    """Run a command on the machine with its arrays running; its output and its status are passed on."""
    if not words:
        raise SpecError("no command was given", hint="raidlab exec -- cat /proc/mdstat")
    context = current()
    line = words[0] if len(words) == 1 else shlex.join(words)
    with open_session(context) as session:
        shell = Shell(session)
        result = shell.run(line, on_output=lambda text: None if context.json else _pass_on(text))
        session.rescan()
        shell.close()
        unseen = _unseen(session, line, result.output) if result.status and context.is_embedded else ""
    if unseen:
        err(
            f"raidlab: '{visible(unseen)}' is on this computer, not in the machine, which sees only the system's files"
            "\n  next: show it to the machine: --on 'uml:?show=PATH'"
        )
    if context.json:
        out_json({"line": line, "status": result.status, "output": result.output, "seconds": result.seconds})
    return result.status


def _unseen(session: LabSession, line: str, output: str) -> str:
    """A file of this computer that the line names and the machine does not have; empty if there is none."""
    if "No such file" not in output:
        return ""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    named = [word for word in dict.fromkeys(words) if word in output and Path(word).exists()]
    return next((word for word in named if session.machine.run(("test", "-e", word), check=False).status), "")


def _pass_on(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
