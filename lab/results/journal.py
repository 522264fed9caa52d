"""One result during its run: every finished cell is on the disk before the next one starts."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from lab.errors import ResultError
from lab.host.files import write_file
from lab.results.formats import decode_visible
from lab.results.record import CellRecord, RebuildRecord, ResultRecord, RunStatus, Timings, encode_record
from lab.results.timeline import Timeline, encode_timeline
from lab.store.runs import Journal, RunFolders

RECORD_NAME, DRAFT_NAME, JOURNAL_NAME = "record.json", "draft.json", "cells.jsonl"
Entry = CellRecord | RebuildRecord


class ResultNotStored(ResultError):
    """The finished record could not be written to its folder; ``payload`` holds its bytes, to save elsewhere."""

    def __init__(self, cause: ResultError, payload: bytes) -> None:
        super().__init__(cause.message, hint=f"{cause.hint}; the finished record can be saved elsewhere")
        self.payload = payload


def journal_of(folder: Path) -> Journal[Entry]:
    """The finished cells and rebuilds of the result in ``folder``, one per line."""
    # A result may be displayed from another user's folder.
    return Journal(folder / JOURNAL_NAME, Entry, hint="remove that line", is_own=False, decode=decode_visible)


def with_entries(record: ResultRecord, entries: Iterable[Entry]) -> ResultRecord:
    """The record with entries added; an entry replaces an earlier one with the same key."""
    cells = {cell.key: cell for cell in record.cells}
    rebuilds = {rebuild.key: rebuild for rebuild in record.rebuilds}
    for entry in entries:
        if isinstance(entry, CellRecord):
            cells[entry.key] = entry
        else:
            rebuilds[entry.key] = entry
    return msgspec.structs.replace(record, cells=tuple(cells.values()), rebuilds=tuple(rebuilds.values()))


class RunJournal:
    """The writer of one result. Only one process can have it open at a time."""

    def __init__(self, runs: RunFolders, record: ResultRecord) -> None:
        """Take the lock and open the journal, repairing an incomplete last line.

        Raises MachineBusy if another process writes this result, ResultError if the folder cannot be written.
        """
        self.folder = runs.path(record.id)
        self._journal = journal_of(self.folder)
        with ExitStack() as held:
            held.enter_context(runs.held(record.id))
            self._journal.repair()
            # Include entries written by another process after ``record`` was read and before the lock was taken.
            self.record = with_entries(record, self._journal.read())
            """The record so far."""
            self._held = held.pop_all()

    def add(self, entry: Entry, *, timeline: Timeline | None = None) -> Entry:
        """Store one finished cell or rebuild durably, and return it as stored.

        The raw JSON of a cell and the ``timeline`` of a rebuild are written to separate files.

        Raises ResultError; then the entry is not in the record, and the earlier ones are unchanged.
        """
        if isinstance(entry, CellRecord):
            text = entry.figures.raw_json
        else:
            text = encode_timeline(timeline) if timeline else ""
        if text:
            number = len(self.record.files)
            while (self.folder / f"raw/{number:04d}.json.gz").exists():
                number += 1
            name = f"raw/{number:04d}.json.gz"
            write_file(self.folder / name, gzip.compress(text.encode(errors="replace"), mtime=0))
            if isinstance(entry, CellRecord):
                figures = msgspec.structs.replace(entry.figures, raw_json="")
                entry = msgspec.structs.replace(entry, figures=figures, raw_file=name)
            else:
                entry = msgspec.structs.replace(entry, timeline_file=name)
        self._journal.append(entry)
        self.record = with_entries(self.record, [entry])
        return entry

    def finish(
        self,
        *,
        status: RunStatus = RunStatus.COMPLETE,
        timings: Timings | None = None,
        stamps: Iterable[str] = (),
        changes: ResultRecord | None = None,
    ) -> ResultRecord:
        """Write the final record and close. ``changes`` replaces the record, if its arrays or conditions changed.

        Raises ResultNotStored, which holds the bytes; the journal is then kept for ``resume``.
        """
        record = with_entries(changes, [*self.record.cells, *self.record.rebuilds]) if changes else self.record
        all_stamps = tuple(dict.fromkeys([*record.stamps, *stamps]))
        record = msgspec.structs.replace(record, status=status, timings=timings or record.timings, stamps=all_stamps)
        payload = encode_record(record)
        try:
            write_file(self.folder / RECORD_NAME, payload)
        except ResultError as error:
            self.close()
            raise ResultNotStored(error, payload) from error
        self.record = record
        with suppress(OSError):
            self._journal.remove()
            (self.folder / DRAFT_NAME).unlink(missing_ok=True)
        self.close()
        return record

    def close(self) -> None:
        """Release the lock; the entries added so far remain as an incomplete result."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
