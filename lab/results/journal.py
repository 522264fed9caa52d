"""One result while its run is going: every finished cell is on the disk before the next one starts."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from lab.errors import ResultError
from lab.gates.files import MOST_RECORD_BYTES, read_plain
from lab.host.files import storage_error, sync_folder, write_all, write_file
from lab.results.formats import decode_visible
from lab.results.record import CellRecord, RebuildRecord, ResultRecord, RunStatus, Timings, encode_record
from lab.results.timeline import Timeline, encode_timeline

Entry = CellRecord | RebuildRecord


class ResultNotStored(ResultError):
    """The finished record did not reach its folder; ``payload`` is what should have been written, to save elsewhere."""

    def __init__(self, cause: ResultError, payload: bytes) -> None:
        super().__init__(cause.message, hint=f"{cause.hint}; the finished record can be saved elsewhere")
        self.payload = payload


def read_journal(path: Path) -> list[Entry]:
    """The entries of a journal; a last line that was torn while it was written is left out.

    Raises ResultError for damage before the last line.
    """
    try:
        lines = read_plain(path, MOST_RECORD_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(f"'{path}' cannot be read", error) from error
    entries: list[Entry] = []
    # A whole line ends with a line end, so what follows the last one is empty or torn.
    for number, line in enumerate(lines[:-1], start=1):
        try:
            entries.append(decode_visible(line, Entry))  # type: ignore[arg-type]
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ResultError(f"'{path}', line {number} is damaged: {error}", hint="remove that line") from None
    return entries


def with_entries(record: ResultRecord, entries: Iterable[Entry]) -> ResultRecord:
    """The record with entries added; one whose key is there already takes the old one's place."""
    cells = {cell.key: cell for cell in record.cells}
    rebuilds = {rebuild.key: rebuild for rebuild in record.rebuilds}
    for entry in entries:
        if isinstance(entry, CellRecord):
            cells[entry.key] = entry
        else:
            rebuilds[entry.key] = entry
    return msgspec.structs.replace(record, cells=tuple(cells.values()), rebuilds=tuple(rebuilds.values()))


class RunJournal:
    """The writer of one result. Only one process can have it open."""

    def __init__(self, folder: Path, record: ResultRecord) -> None:
        """Take the lock and open the journal, repairing a torn last line.

        Raises ResultError if another process writes this result, or the folder refuses.
        """
        self.folder = folder
        with contextlib.ExitStack() as opened:
            try:
                lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                opened.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path = folder / "cells.jsonl"
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                journal = os.open(path, flags, 0o600)
                opened.callback(os.close, journal)
                whole = read_plain(path, MOST_RECORD_BYTES).rfind(b"\n") + 1
                os.ftruncate(journal, whole)
                sync_folder(folder)
            except BlockingIOError:
                raise ResultError(
                    f"another raidlab is writing result '{folder.name}'", hint="wait for that run, or stop it"
                ) from None
            except OSError as error:
                raise storage_error(f"result '{folder.name}' cannot be written", error) from error
            # Entries written by another process after ``record`` was read, and before the lock, count too.
            self.record = with_entries(record, read_journal(path))
            """The record as far as it has come."""
            opened.pop_all()
        self._lock, self._journal = lock, journal

    def add(self, entry: Entry, *, timeline: Timeline | None = None) -> Entry:
        """Store one finished cell or rebuild, durably, and return it as stored. Raw JSON goes to a file of its own.

        So does the ``timeline`` of a rebuild.

        Raises ResultError; then the entry is not in the record, and the earlier ones are as they were.
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
        try:
            line = msgspec.json.encode(entry) + b"\n"
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            raise ResultError(f"'{entry.key}' has a value that cannot be stored: {error}") from None
        before = os.fstat(self._journal).st_size
        try:
            write_all(self._journal, line)
            os.fsync(self._journal)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._journal, before)
            raise storage_error(f"'{entry.key}' cannot be stored in '{self.folder}'", error) from error
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
        """Write the final record and close. ``changes`` replaces the record (its arrays or conditions grew meanwhile).

        Raises ResultNotStored, which carries the bytes; the journal is still there then, for ``resume``.
        """
        record = with_entries(changes, [*self.record.cells, *self.record.rebuilds]) if changes else self.record
        all_stamps = tuple(dict.fromkeys([*record.stamps, *stamps]))
        record = msgspec.structs.replace(record, status=status, timings=timings or record.timings, stamps=all_stamps)
        payload = encode_record(record)
        try:
            write_file(self.folder / "record.json", payload)
        except ResultError as error:
            self.close()
            raise ResultNotStored(error, payload) from error
        self.record = record
        with contextlib.suppress(OSError):
            (self.folder / "cells.jsonl").unlink(missing_ok=True)
            (self.folder / "draft.json").unlink(missing_ok=True)
        self.close()
        return record

    def close(self) -> None:
        """Give up the lock; what was added stays, as an incomplete result."""
        for name in ("_journal", "_lock"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
