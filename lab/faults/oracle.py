"""The oracle on an open lab, which writes known data to a device or to files and judges them by a stored ledger.

It can run concurrently with loads and faults, on md arrays, volumes and mounted file systems. A later process can
continue its ledger, even if the machine was lost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from lab.arrays.status import ArrayStatus, read_array
from lab.disks import Lab
from lab.errors import LabError
from lab.faults.guest.file_ledger import BEGIN, FileLedger, FilePlan
from lab.faults.guest.ledger import ACKNOWLEDGED, BLOCK_BYTES, CORRUPT, FAILED, FLUSH, LOST, UNREADABLE, WRITE, Ledger
from lab.faults.place import FILES, run_program
from lab.gates.decoding import FormatVersion, convert, digits
from lab.host.files import write_file
from lab.plans import Step
from lab.store import Journal
from lab.units import MIB, SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class BadPlace:
    """A block, or a place in a file, whose content violates a promise."""

    where: str
    """The device, or the name of the file below the folder."""
    offset_bytes: int
    verdict: str
    """One of guest/ledger.py's verdicts: lost after acknowledgement, silently corrupt or unreadable."""
    found: str
    allowed: str
    stripe: int | None = None
    """The number of the row of chunks, from the start of the members' data; None for files, for RAID 1, and if
    ``where`` is not an md array.
    """
    members: tuple[str, ...] = ()
    """Devices that hold the block, a copy of it or its parity."""

    def __str__(self) -> str:
        at = f", stripe {self.stripe}" if self.stripe is not None else ""
        on = f", on {', '.join(self.members)}" if self.members else ""
        place = f"{self.where} at byte {self.offset_bytes}{at}{on}"
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
        return not self.bad and not any(word in self.verdicts for word in (LOST, CORRUPT, UNREADABLE))

    @property
    def sentence(self) -> str:
        total = sum(self.verdicts.values())
        words = ", ".join(f"{count} {word}" for word, count in self.verdicts.items())
        if self.is_intact:
            return f"all {total} blocks are correct ({words})"
        return f"of {total} blocks: {words}; first {self.bad[0]}" if self.bad else f"of {total} blocks: {words}"


def place_of(status: ArrayStatus, offset_bytes: int) -> tuple[int | None, tuple[str, ...]]:
    """Return the stripe that contains a byte of an array, and the devices that hold it, its copies or its parity.

    Stripes are numbered from the start of the members' data; the stripe is None for RAID 1.
    """
    members = [(each.slot, each.device) for each in status.members if each.slot is not None]
    if not status.chunk_bytes:
        return None, tuple(device for _, device in members)
    geometry, sector = status.geometry, offset_bytes // SECTOR_BYTES
    devices = tuple(device for slot, device in members if geometry.place_on(slot, sector))
    return geometry.stripe_of(sector), devices


MOST_LEDGER_BYTES = 64 * MIB
_FILL_BLOCKS = 64
"""Blocks per write of a fill (guest/player.py, MOST_BLOCKS)."""
_CALL_OPERATIONS = 64
"""Default maximum number of operations whose results are unknown after the loss of the machine, because one run of the
program carries out at most this many.
"""
_REPORTED_OPERATIONS = 8


class OracleRegion(msgspec.Struct, frozen=True, kw_only=True):
    """Where the oracle writes, as stored in the first line of its ledger file."""

    where: str
    """A device (/dev/…), or the mount point of a file system."""
    seed: str
    first_block: int = 0
    block_count: int = 0
    """In blocks of 4 KiB; used for devices only."""
    mix: dict[str, int] = {}
    """Parameters of guest/player.py (Writer) or guest/file_ledger.py (FilePlan)."""
    fills: int = 0
    """Number of fills; it is part of the content's seed, so data of earlier fills never match current data."""
    format_version: FormatVersion = 1

    @property
    def content_seed(self) -> str:
        return f"{self.seed}:{self.fills}"

    @property
    def has_files(self) -> bool:
        return not self.where.startswith("/dev/")


class _Asked(msgspec.Struct, frozen=True):
    """A line of the file: the number of operations requested (0 once that request has ended), or ledger events."""

    operations: int | None = None
    events: list[list[Any]] = []


class Oracle:
    """Writes known data to one device or below one folder of a lab, and checks them.

    ``Oracle.open(session.lab, session.folder, "/dev/md0")`` continues an existing ledger or begins a new one. Then call
    ``fill()``, ``advance(100)`` and ``check()``. No other program may write to the device, or to the part of it that
    the oracle uses. A file system must be mounted, and its folders d0 and d1 belong to the oracle.
    """

    def __init__(self, lab: Lab, file: Path, region: OracleRegion) -> None:
        self.lab, self.file, self.region = lab, file, region
        self._journal = _journal(file)
        self.events: list[list[Any]] = []
        self._open_operations = 0
        self._window_at = 0
        """Number of events when operations were last requested from the machine."""
        if file.exists():
            self._load()

    @classmethod
    def open(
        cls,
        lab: Lab,
        folder: Path,
        where: str,
        *,
        first_block: int = 0,
        block_count: int | None = None,
        seed: str = "oracle",
        mix: dict[str, int] | None = None,
    ) -> Oracle:
        """Return the oracle of a device or a mount point; its ledger is a file in the existing folder ``folder``.

        ``first_block`` and ``block_count`` select the part of the device to use, in blocks of 4 KiB. If ``block_count``
        is None, it extends to the end of the device. If a ledger exists, all parameters except ``where`` are taken
        from it. Raises LabError if the ledger is damaged, and CommandFailed if the device does not exist.
        """
        file = folder / f"oracle-{where.strip('/').replace('/', '-')}.jsonl"
        if file.exists():
            return cls(lab, file, _lines(file)[0])
        count = block_count or 0
        if where.startswith("/dev/") and block_count is None:
            size = digits(lab.machine.run(("blockdev", "--getsize64", where)).stdout.strip()) or 0
            count = size // BLOCK_BYTES - first_block
        region = OracleRegion(where=where, seed=seed, first_block=first_block, block_count=count, mix=mix or {})
        return cls(lab, file, region)

    def fill(self) -> None:
        """Begin a new ledger, and write one generation of every block, or some files.

        Raises DeviceRefused if the guard refuses the device, and LabError if a write failed.
        """
        self.events, self._open_operations = [], 0
        self.region = replace(self.region, fills=self.region.fills + 1)
        write_file(self.file, msgspec.json.encode(self.region) + b"\n")
        if self.region.has_files:
            operations = 4 * self.region.mix.get("names", 10)
            # A single call suffices: if the machine is lost during it, the caller fills again anyway.
            self.advance(operations, most_in_doubt=operations)
            return
        writes = -(-self.region.block_count // _FILL_BLOCKS) + 1
        self._play([self._begin(), ["fill"]], writes)

    def advance(self, operations: int, *, most_in_doubt: int = _CALL_OPERATIONS) -> None:
        """Carry out further operations (writes and flushes, or operations on files), none of which remains in flight.

        ``most_in_doubt`` limits the number of operations whose results are unknown if the machine is lost. Raises
        LabError with the system's message if any operation failed, and MachineLost if the machine is lost.
        """
        step = "work" if self.region.has_files else "advance"
        while operations > 0:
            part = min(operations, most_in_doubt)
            operations -= part
            steps: list[list[Any]] = []
            for start in range(0, part, _REPORTED_OPERATIONS):
                steps += [[step, min(_REPORTED_OPERATIONS, part - start)], ["tell"]]
            self._play([self._begin(), *steps], part)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Carry out operations continuously on another thread, during the faults that the caller injects.

        The first error of an operation is raised at the end of the context. In virtual time, a concurrent load must
        have ``is_aside`` (lab/session/load.py).
        """
        is_over, failures = threading.Event(), list[Exception]()

        def work() -> None:
            try:
                while not is_over.is_set():
                    self.advance(_CALL_OPERATIONS)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=work, name="raidlab-oracle", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
        if failures:
            raise failures[0]

    def check(self, *, after_loss: bool = False) -> OracleVerdict:
        """Read all data and compare them with the ledger.

        ``after_loss`` means that the machine's kernel died at some moment since the last operation. An operation that
        was in flight may or may not have taken effect, and file data that were only in the page cache may or may not be
        present. Whatever this check finds must be present from then on. Do not call it inside ``going_on``. Raises
        LabError if nothing can be read, and MachineLost if the machine is lost.
        """
        self._close_window()
        check = "recheck" if after_loss and self.region.has_files else "check"
        return self._verdict(self._run([[check], *([["settle"]] if after_loss else []), ["tell"]])[0])

    def _begin(self) -> list[Any]:
        region = self.region
        if region.has_files:
            return ["files", region.mix]
        return ["open", region.where, {**region.mix, "first": region.first_block, "count": region.block_count}]

    def _play(self, steps: list[list[Any]], operations: int) -> None:
        """Run steps that write; the request is recorded before the machine receives it."""
        self._close_window()
        if not self.region.has_files:
            why = "The oracle writes known data there."
            self.lab.guard.check(Step(("true",), why, writes_devices=(self.region.where,)))
        self._note(_Asked(operations))
        self._open_operations = operations
        documents = self._run([*steps, ["close"], ["tell"]])
        self._note(_Asked(0))
        self._open_operations = 0
        if failed := [each for each in documents if each.get("failures")]:
            why = failed[-1].get("first_failure") or f"{failed[-1]['failures']} operations failed"
            raise LabError(f"the oracle could not write to {self.region.where}: {why}", hint="check the array's state")

    def _run(self, steps: list[list[Any]]) -> list[dict[str, Any]]:
        """Run steps on the machine. Raises LabError if one of them could not be carried out."""
        region = self.region
        place = {"folder": region.where} if region.has_files else {"data": region.where, "node": region.where}
        known = {"seed": region.content_seed, "has_files": region.has_files, "ledger": self.events}
        history = {**known, **place, "steps": steps}
        documents = []
        for document in run_program(self.lab.machine, FILES, {"histories": [history]}):
            self._add(document.get("new", []))
            if "broke" in document:
                why = f"the oracle's step '{document['kind']}' on {region.where}: {document['broke']}"
                raise LabError(why, hint="check the array's state")
            documents.append(document)
        return documents

    def _add(self, events: list[list[Any]]) -> None:
        if events:
            self.events = [*self.events, *events]
            self._note(_Asked(events=events))

    def _close_window(self) -> None:
        """After the loss of the machine, record the operations that it may have carried out without reporting them."""
        if not self._open_operations:
            return
        count, self._open_operations = self._open_operations, 0
        self._add(self._unknown_files(count) if self.region.has_files else self._unknown_blocks(count))
        self._note(_Asked(0))

    def _unknown_blocks(self, asked: int) -> list[list[Any]]:
        """Return events for the unreported writes, each of which may have gone to any block of the region."""
        issued = sum(event[0] in (WRITE, FLUSH) for event in self.events[self._window_at :])
        newest = Ledger(self.events).newest
        region = (self.region.first_block, self.region.block_count, 0)
        return [[WRITE, newest + number, *region] for number in range(1, asked - issued + 1)]

    def _unknown_files(self, asked: int) -> list[list[Any]]:
        begun = [index for index, event in enumerate(self.events) if event[0] == BEGIN and index >= self._window_at]
        if begun:
            ledger, start = FileLedger(self.events[: begun[0] + 1]), begun[0] + 1
            head: list[list[Any]] = []
        else:
            # The program had not even reported its start.
            ledger, start = FileLedger(self.events), len(self.events)
            head = [[BEGIN, ledger.newest + 1, self.region.mix]]
            ledger.add(*head[0])
        plan = FilePlan(self.region.content_seed, ledger, self.region.mix)
        issued = sum(event[0] not in (ACKNOWLEDGED, FAILED) for event in self.events[start:])
        plan.skip(issued)
        return [*head, *(plan.next().event for _ in range(asked - issued))]

    def _note(self, line: _Asked) -> None:
        self._journal.append(line)
        if line.operations:
            self._window_at = len(self.events)

    def _load(self) -> None:
        self._journal.repair()
        for line in _lines(self.file)[1]:
            self.events += line.events
            if line.operations is not None:
                self._open_operations = line.operations
                self._window_at = len(self.events)

    def _verdict(self, document: dict[str, Any]) -> OracleVerdict:
        if self.region.has_files:
            bad = [BadPlace(name, at, word, str(found), str(may)) for name, at, word, found, may in document["bad"]]
            return OracleVerdict(document["verdicts"], tuple(bad))
        status = self._array()
        places = []
        for block, word, found, may in document["bad"]:
            stripe, members = place_of(status, block * BLOCK_BYTES) if status else (None, ())
            where = (self.region.where, block * BLOCK_BYTES)
            places.append(BadPlace(*where, word, str(found), f"generations {may}", stripe, members))
        return OracleVerdict(document["verdicts"], tuple(places))

    def _array(self) -> ArrayStatus | None:
        name = self.region.where.removeprefix("/dev/")
        return read_array(self.lab.machine, name) if name.startswith("md") else None


def _journal(file: Path) -> Journal[OracleRegion | _Asked]:
    """Open the ledger file, which contains the region and then one line per request or report."""
    return Journal(
        file,
        dict[str, Any],
        hint="move it elsewhere, and write the data again",
        most_bytes=MOST_LEDGER_BYTES,
        error=LabError,
    )


def _lines(file: Path) -> tuple[OracleRegion, list[_Asked]]:
    """Return the region and all complete lines after it. Raises LabError if the file is damaged."""
    try:
        first, *lines = _journal(file).read()
        return convert(first, OracleRegion), [convert(line, _Asked) for line in lines]
    except ValueError as error:
        raise LabError(
            f"the oracle's ledger '{file}' is damaged: {error}", hint="move it elsewhere, and write the data again"
        ) from None
