"""The command line inside the text mode: ``raidlab …``, on the lab that is open here."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.client.client import LabClient

# They read what is stored, and need no machine.
_WITHOUT_MACHINE = frozenset({"results", "compare", "export", "lint", "workloads", "--help", "--version"})


def run_command_line(words: str, client: LabClient, on_done: Callable[[int], None]) -> None:
    """Run ``raidlab WORDS``; the lab is closed meanwhile if the command opens it itself.

    Args:
        words: what stands behind ``raidlab``.
        client: has the lab open.
        on_done: told the exit status, on another thread.
    """
    threading.Thread(target=lambda: on_done(_run(words, client)), name="command", daemon=True).start()


def _run(words: str, client: LabClient) -> int:
    from lab.cli.context import options, use_options
    from lab.cli.main import run

    try:
        argv = shlex.split(words)
    except ValueError as error:
        sys.stderr.write(f"raidlab: {error}: a quote is missing\n")
        return 2
    needs_machine = not (argv and argv[0] in _WITHOUT_MACHINE)
    before, own = sys.stdin, options()
    # What it would ask would be taken for a line of the text mode: it is to refuse, and name the option that says yes.
    with open(os.devnull, encoding="ascii") as nothing, client.released() if needs_machine else nullcontext():
        sys.stdin = nothing
        try:
            return run([*(("--on", client.target) if client.target and needs_machine else ()), *argv])
        finally:
            sys.stdin = before
            use_options(own)
