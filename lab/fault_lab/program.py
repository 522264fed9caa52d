"""The fault lab's programs on the machine: files joined to one, sent once, started with a job, heard line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.disks.lab import packed
from lab.errors import LabError, MachineLost
from lab.host.signals import Interrupted
from lab.machine import RUN_FOLDER, Machine

_HERE = Path(__file__).resolve().parent
_PARTS = ("blocks", "ledger", "record", "arrays", "writer", "player")
PLAYER = (*_PARTS,)
CRASH = (*_PARTS, "crash")
CAMPAIGN = (*_PARTS, "cuts", "campaign")
CONTROLS = (*CAMPAIGN, "controls")


def joined_source(parts: Sequence[str]) -> str:
    """One program of several files, each of which stands alone but for what those before it define."""
    future = "from __future__ import annotations\n"
    texts = [(_HERE / f"{part}_program.py").read_text(encoding="utf-8") for part in parts]
    return future + "".join(text.replace(future, "", 1) for text in texts) + f"\n\n{parts[-1]}_main()\n"


def run_program(
    machine: Machine,
    parts: Sequence[str],
    job: Mapping[str, Any],
    *,
    change: Callable[[str], str] = lambda source: source,
) -> Iterator[dict[str, Any]]:
    """Start a program with a job; its documents as they come. ``change`` alters its source first, to test the oracle.

    Closing the iterator ends the program. Raises LabError with its last words if it ends without having come to its
    end.
    """
    path = _placed(machine, parts[-1], change(joined_source(parts)))
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


def _placed(machine: Machine, name: str, source: str) -> str:
    """Put a program on the machine, as a module that is compiled once, and return the path of what starts it.

    The module's name follows from what is in it: so the one that was compiled before is never another one.
    """
    path, module = f"{RUN_FOLDER}/fault-{name}", f"fault_{name}_{sha256(source.encode()).hexdigest()[:16]}"
    start = f"import sys\n\nsys.path.insert(0, {RUN_FOLDER!r})\nimport {module}\n"
    if machine.read([path])[path] != start:
        # In this order: where the start is, its module is whole.
        machine.write(f"{RUN_FOLDER}/{module}.py", source)
        machine.write(path, start)
    return path


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
