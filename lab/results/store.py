"""The folder of results.

::

    <root>/<id>/record.json     the whole record, once the run is over
    <root>/<id>/draft.json      the record as it was at the start, while the run is going or after it broke off
    <root>/<id>/cells.jsonl     one finished cell or rebuild a line, while the run is going
    <root>/<id>/raw/NNNN.json.gz   fio's documents, word for word; timelines of rebuilds
    <root>/<id>/lock            locked by the process that writes

Ids begin with the time (UTC), so names sort by age.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lab.errors import ResultError
from lab.host.files import storage_error, sync_folder, write_file
from lab.old_names import with_new_keys
from lab.results.formats import refuse_newer
from lab.results.journal import RunJournal, read_journal, with_entries
from lab.results.record import KIND, SCHEMA_VERSION, ResultRecord, RunStatus, encode_record

RECORD_NAME = "record.json"
DRAFT_NAME = "draft.json"
JOURNAL_NAME = "cells.jsonl"
LOCK_NAME = "lock"
LATEST = "latest"
_DELETING_PREFIX = ".deleting-"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _Header(msgspec.Struct, frozen=True):
    kind: str = ""
    schema_version: int = 0


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """One line of a list of results; ``problem`` says why one cannot be read."""

    id: str
    created_utc: str = ""
    experiment: str = ""
    target: str = ""
    status: RunStatus | None = None
    measured_count: int = 0
    """Cells and rebuilds that are there."""
    planned_count: int = 0
    """Those that are there and those that are missing: an adaptive run measures more than was planned."""
    problem: str = ""


def decode_record(data: bytes, *, source: str) -> ResultRecord:
    """A record from the bytes of its file.

    Raises ResultError if it is none, is damaged, or was written by a newer raidlab.
    """
    try:
        header = msgspec.json.decode(data, type=_Header)
        if header.kind != KIND:
            raise ResultError(f"'{source}' is not a raidlab result", hint="check the path")
        refuse_newer(source, "result", header.schema_version, SCHEMA_VERSION)
        if header.schema_version == 1:
            return msgspec.convert(with_new_keys(msgspec.json.decode(data)), ResultRecord)
        return msgspec.json.decode(data, type=ResultRecord)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is damaged: {error}", hint="restore it from a copy, or delete it") from None


class ResultStore:
    """Results under ``root``, which is made on the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def new_id(self, experiment: str, now: datetime | None = None) -> str:
        """An id that no stored result has, such as ``20261121T100129Z-antioquia-quick``."""
        moment = (now or datetime.now(UTC)).astimezone(UTC)
        word = re.sub(r"[^a-z0-9.]+", "-", experiment.lower()).strip("-.") or "run"
        first = wanted = f"{moment:%Y%m%dT%H%M%SZ}-{word}"
        number = 1
        while (self.root / wanted).exists():
            number += 1
            wanted = f"{first}-{number}"
        return wanted

    def begin(self, draft: ResultRecord) -> RunJournal:
        """Start to write a result under the draft's id; close the journal (``with``) when done.

        Raises ResultError if the id is taken or bad, or the folder cannot be written.
        """
        folder = self._folder(draft.id)
        if folder.exists():
            raise ResultError(f"there is a result '{draft.id}' already", hint="take a new id")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
        except OSError as error:
            raise storage_error(f"no result can be stored in '{self.root}'", error) from error
        try:
            (folder / "raw").mkdir()
            write_file(folder / DRAFT_NAME, encode_record(draft))
            sync_folder(self.root)
            return RunJournal(folder, draft)
        except (ResultError, OSError) as error:
            # Without its draft the folder would be a result that nobody can read.
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise storage_error(f"no result can be stored in '{self.root}'", error) from error
            raise

    def resume(self, name: str) -> RunJournal:
        """Go on with an incomplete result; ``journal.record.missing_keys`` says what is left.

        Raises ResultError if it is complete, or another process is writing it.
        """
        folder = self._folder(self.find(name))
        if (folder / RECORD_NAME).exists() and self.load(folder.name).status is RunStatus.COMPLETE:
            raise ResultError(f"result '{folder.name}' is complete", hint="start a new run")
        journal = RunJournal(folder, self.load(folder.name))
        try:
            write_file(folder / DRAFT_NAME, encode_record(journal.record))
            (folder / RECORD_NAME).unlink(missing_ok=True)
        except (ResultError, OSError) as error:
            journal.close()
            raise error if isinstance(error, ResultError) else storage_error(str(folder), error) from error
        return journal

    def load(self, name: str) -> ResultRecord:
        """A result by id, unique beginning of an id, or ``latest``. One that broke off comes as incomplete.

        Raises ResultError if there is none, it is damaged, or it is newer than this raidlab.
        """
        folder = self._folder(self.find(name))
        try:
            record_path = folder / RECORD_NAME
            if record_path.exists():
                return decode_record(record_path.read_bytes(), source=str(record_path))
            draft = decode_record((folder / DRAFT_NAME).read_bytes(), source=str(folder / DRAFT_NAME))
        except OSError as error:
            raise storage_error(f"result '{folder.name}' cannot be read", error) from error
        return with_entries(draft, read_journal(folder / JOURNAL_NAME))

    def raw_json(self, record_id: str, raw_file: str) -> str:
        """The document behind a cell's ``raw_file`` or a rebuild's ``timeline_file``. Raises ResultError."""
        folder = self._folder(record_id)
        path = folder / raw_file
        if path.resolve().parent != (folder / "raw").resolve():
            raise ResultError(f"'{raw_file}' is not a raw file of result '{record_id}'", hint="the record is damaged")
        try:
            return gzip.decompress(path.read_bytes()).decode()
        except (OSError, EOFError, UnicodeError, zlib.error) as error:
            raise ResultError(f"'{path}' cannot be read: {error}", hint="restore it from a copy") from None

    def list(self) -> tuple[ResultSummary, ...]:
        """All results, newest first; those that cannot be read are there with their problem."""
        return tuple(self._summary(name) for name in sorted(self._ids(), reverse=True))

    def ids(self) -> tuple[str, ...]:
        """The ids of all results, newest first; none is read."""
        return tuple(sorted(self._ids(), reverse=True))

    def find(self, name: str) -> str:
        """The id meant by an id, the unique beginning of one, or ``latest``. Raises ResultError for none or several."""
        # Without looking at all the others: a report on thousands asks for each.
        if name != LATEST and _ID.fullmatch(name) and self._is_there(self.root / name):
            return name
        ids = sorted(self._ids())
        if not ids:
            raise ResultError(f"there are no results in '{self.root}'", hint="run an experiment first")
        if name == LATEST:
            return ids[-1]
        found = [each for each in ids if name and each.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ResultError(f"'{name}' may be {len(found)} results: {', '.join(found)}", hint="write more of the id")
        raise ResultError(f"there is no result '{name}' in '{self.root}'", hint="'raidlab results' lists them")

    def delete(self, name: str) -> str:
        """Delete one result and return its id. Raises ResultError if it is being written or cannot be deleted."""
        folder = self._folder(self.find(name))
        doomed = folder.with_name(_DELETING_PREFIX + folder.name)
        try:
            with _not_being_written(folder):
                folder.rename(doomed)
            shutil.rmtree(doomed)
        except OSError as error:
            raise storage_error(f"result '{folder.name}' cannot be deleted", error) from error
        return folder.name

    def _folder(self, record_id: str) -> Path:
        if not _ID.fullmatch(record_id):
            raise ResultError(f"'{record_id}' is no id of a result", hint="use letters, digits, '.', '-' and '_'")
        return self.root / record_id

    @staticmethod
    def _is_there(folder: Path) -> bool:
        return (folder / RECORD_NAME).exists() or (folder / DRAFT_NAME).exists()

    def _ids(self) -> Iterator[str]:
        try:
            for path in self.root.iterdir():
                if not path.name.startswith(".") and self._is_there(path):
                    yield path.name
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(f"'{self.root}' cannot be read", error) from error

    def _summary(self, name: str) -> ResultSummary:
        try:
            record = self.load(name)
        except ResultError as error:
            return ResultSummary(name, problem=error.message)
        return ResultSummary(
            name,
            record.created_utc,
            record.experiment,
            record.conditions.target,
            record.status,
            len(record.done_keys),
            len(record.done_keys) + len(record.missing_keys),
        )


@contextlib.contextmanager
def _not_being_written(folder: Path) -> Iterator[None]:
    """Hold the writer's lock. Raises ResultError if someone else does."""
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ResultError(f"result '{folder.name}' is being written", hint="wait for the run, or stop it") from None
    finally:
        os.close(descriptor)
