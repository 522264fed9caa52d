"""The programs of the fault lab on a machine: each gets a job as JSON and answers with one JSON document a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.disks.lab import packed
from lab.errors import LabError, MachineLost
from lab.host.signals import Interrupted
from lab.machine import GuestProgram, Machine
from lab.machine.guest_program import Change, unchanged

_GUEST = Path(__file__).with_name("guest")
PLAYER = GuestProgram(_GUEST / "player.py", "fault-player")
CRASH = GuestProgram(_GUEST / "crash.py", "fault-crash")
CAMPAIGN = GuestProgram(_GUEST / "campaign.py", "fault-campaign")
CONTROLS = GuestProgram(_GUEST / "controls.py", "fault-controls")
FILES = GuestProgram(_GUEST / "files.py", "fault-files")
SCENARIO = GuestProgram(_GUEST / "scenario.py", "fault-scenario")


def run_program(
    machine: Machine, program: GuestProgram, job: Mapping[str, Any], *, change: Change = unchanged
) -> Iterator[dict[str, Any]]:
    """Start a program with a job; its documents as they come. ``change``: see Machine.install.

    Closing the iterator ends the program. Raises LabError with its last words if it ends without having come to its
    end.
    """
    path = machine.install(program, change)
    argv, text = packed(("python3", "-IS", path), json.dumps(job, separators=(",", ":")))
    running = machine.stream(argv, stdin_text=text, keeps_output=False)
    rest, has_ended = "", False
    try:
        for chunk in running.chunks():
            *lines, rest = (rest + chunk).split("\n")
            for line in lines:
                document = _document(line)
                has_ended = has_ended or "end" in document
                yield document
    except (KeyboardInterrupt, Interrupted):
        # Who interrupts closes the machine too: in virtual time its agent hears of a stop only after a while.
        has_ended = True
        raise
    finally:
        if not has_ended:
            # With a lost machine the program has ended too.
            with suppress(MachineLost):
                running.stop(signal_number=9)
    result = running.result()
    if result.status or not has_ended:
        said = (result.stderr.strip().splitlines() or ["no word"])[-1]
        raise LabError(
            f"the program {path} on {machine.facts.target} ended with status {result.status}: {said}",
            hint="the machine's kernel may have killed it: raidlab exec dmesg",
        )


def _document(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LabError(
            f"the machine answered what is no document: {line[:80]}", hint="see what else writes to its line"
        )
    return found
