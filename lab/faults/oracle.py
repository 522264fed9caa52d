"""The oracle for an open lab: it writes files of known content to a file system, and judges them by a stored ledger.

A later process can continue the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from lab.disks import Lab
from lab.errors import LabError
from lab.faults.guest.ledger import ALLOWED
from lab.faults.place import FILES, run_program
from lab.gates.decoding import FormatVersion, convert
from lab.host.files import write_file
from lab.store import Journal
from lab.units import MIB


@dataclass(frozen=True, slots=True)
class BadPlace:
    """A place in a file whose content violates a promise."""

    name: str
    """The name of the file below the folder."""
    offset_bytes: int
    verdict: str
    """One of guest/ledger.py's verdicts: lost after acknowledgement, silently corrupt or unreadable."""
    found: str
    allowed: str

    def __str__(self) -> str:
        place = f"{self.name} at byte {self.offset_bytes}"
        return f"{place}: {self.verdict}, found {self.found}, allowed {self.allowed}"


@dataclass(frozen=True, slots=True)
class OracleVerdict:
    """The result of one check of all data."""

    verdicts: dict[str, int]
    """Verdict -> number of 4 KiB blocks."""
    bad: tuple[BadPlace, ...]
    """The first violations; the program on the machine limits their number."""

    @property
    def is_intact(self) -> bool:
        """Whether all acknowledged writes are present; those in flight may or may not be."""
        return not self.bad and set(self.verdicts) <= set(ALLOWED)

    @property
    def sentence(self) -> str:
        total = sum(self.verdicts.values())
        words = ", ".join(f"{count} {word}" for word, count in self.verdicts.items())
        if self.is_intact:
            return f"all {total} blocks are correct ({words})"
        return f"of {total} blocks: {words}; first {self.bad[0]}" if self.bad else f"of {total} blocks: {words}"


MOST_LEDGER_BYTES = 64 * MIB
_RUN_OPERATIONS = 64
"""Maximum number of operations in one run of the program. Each run begins a new plan, so this number and the seed
together determine the content of the files.
"""
_REPORTED_OPERATIONS = 8


class OracleRegion(msgspec.Struct, frozen=True, kw_only=True):
    """Where the oracle writes, as stored in the first line of its ledger file."""

    where: str
    """The mount point of a file system."""
    seed: str
    mix: dict[str, int] = {}
    """Parameters of guest/file_ledger.py (FilePlan)."""
    fills: int = 0
    """Number of fills; it is part of the content's seed, so data of earlier fills never match current data."""
    format_version: FormatVersion = 1


class _Reported(msgspec.Struct, frozen=True):
    """A line of the ledger file, which contains events."""

    events: list[list[Any]] = []


class Oracle:
    """Writes known files below a mount point of a lab, and checks them.

    ``Oracle.open(session.lab, session.folder, "/mnt")`` continues an existing ledger or begins a new one. Then call
    ``fill()``, ``advance(100)`` and ``check()``. The folders d0 and d1 of the file system belong to the oracle.
    """

    def __init__(self, lab: Lab, file: Path, region: OracleRegion, events: list[list[Any]]) -> None:
        self.lab, self.file, self.region, self.events = lab, file, region, events
        self._journal = _journal(file)

    @classmethod
    def open(
        cls, lab: Lab, folder: Path, where: str, *, seed: str = "oracle", mix: dict[str, int] | None = None
    ) -> Oracle:
        """Return the oracle for a mount point; its ledger is a file in the existing folder ``folder``.

        If a ledger exists, ``seed`` and ``mix`` are taken from it. Raises LabError if the ledger is damaged.
        """
        file = folder / f"oracle-{where.strip('/').replace('/', '-')}.jsonl"
        if file.exists():
            return cls(lab, file, *read_ledger(file))
        return cls(lab, file, OracleRegion(where=where, seed=seed, mix=mix or {}), [])

    def fill(self) -> None:
        """Begin a new ledger, and write some files. Raises LabError if a write failed."""
        self.events = []
        self.region = replace(self.region, fills=self.region.fills + 1)
        write_file(self.file, msgspec.json.encode(self.region) + b"\n")
        self._carry_out(4 * self.region.mix.get("names", 10))

    def advance(self, operations: int) -> None:
        """Carry out further operations on files, and wait until all of them are complete.

        Raises LabError with the system's message if any operation failed, and MachineLost if the machine is lost.
        """
        for done in range(0, operations, _RUN_OPERATIONS):
            self._carry_out(min(_RUN_OPERATIONS, operations - done))

    def check(self) -> OracleVerdict:
        """Read all data and compare them with the ledger. Raises LabError if nothing can be read."""
        document = self._run([["check"], ["tell"]])[0]
        bad = [BadPlace(name, at, word, str(found), str(may)) for name, at, word, found, may in document["bad"]]
        return OracleVerdict(document["verdicts"], tuple(bad))

    def _carry_out(self, operations: int) -> None:
        steps: list[list[Any]] = [["files", self.region.mix]]
        for done in range(0, operations, _REPORTED_OPERATIONS):
            steps += [["work", min(_REPORTED_OPERATIONS, operations - done)], ["tell"]]
        if failed := [each for each in self._run([*steps, ["close"], ["tell"]]) if each.get("failures")]:
            why = failed[-1].get("first_failure") or f"{failed[-1]['failures']} operations failed"
            raise LabError(f"the oracle could not write to {self.region.where}: {why}", hint="check the array's state")

    def _run(self, steps: list[list[Any]]) -> list[dict[str, Any]]:
        """Run steps on the machine. Raises LabError if one of them could not be carried out."""
        region = self.region
        seed = f"{region.seed}:{region.fills}"
        history = {"seed": seed, "folder": region.where, "ledger": self.events, "steps": steps}
        documents = []
        for document in run_program(self.lab.machine, FILES, {"histories": [history]}):
            if events := document.get("new"):
                self.events = [*self.events, *events]
                self._journal.append(_Reported(events))
            if "broke" in document:
                why = f"the oracle's step '{document['kind']}' on {region.where}: {document['broke']}"
                raise LabError(why, hint="check the array's state")
            documents.append(document)
        return documents


def _journal(file: Path) -> Journal[OracleRegion | _Reported]:
    """Open the ledger file, which contains the region and then one line per report."""
    return Journal(
        file,
        dict[str, Any],
        hint="move it elsewhere, and write the data again",
        most_bytes=MOST_LEDGER_BYTES,
        error=LabError,
    )


def read_ledger(file: Path) -> tuple[OracleRegion, list[list[Any]]]:
    """Return the region and the events, without an incomplete last line. Raises LabError if the file is damaged."""
    try:
        journal = _journal(file)
        journal.repair()
        first, *lines = journal.read()
        return convert(first, OracleRegion), [event for line in lines for event in convert(line, _Reported).events]
    except ValueError as error:
        raise LabError(
            f"the oracle's ledger '{file}' is damaged: {error}", hint="move it elsewhere, and write the data again"
        ) from None
