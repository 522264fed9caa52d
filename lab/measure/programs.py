"""The lab's own programs for machines: stand-alone files, put there when they are first called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.machine.api import CommandResult, Machine

RUN_FOLDER = "/run/raidlab"
LONGEST_SECONDS = 24 * 3600.0


def call_program(
    machine: Machine, file_name: str, place: str, arguments: Sequence[str], *, stdin_text: str = ""
) -> CommandResult:
    """Run a program of this folder on the machine as ``/run/raidlab/PLACE``; its status is for the caller to judge."""
    path = f"{RUN_FOLDER}/{place}"
    program = Path(__file__).with_name(file_name).read_text(encoding="utf-8")
    if machine.read([path])[path] != program:
        machine.run(("mkdir", "-p", RUN_FOLDER))
        machine.write(path, program)
    argv = ("python3", "-IS", path, *arguments)
    return machine.run(argv, stdin_text=stdin_text, check=False, timeout_seconds=LONGEST_SECONDS)
