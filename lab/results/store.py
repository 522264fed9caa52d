"""The folder of results.

::

    <root>/<id>/record.json     the whole record, once the run is over
    <root>/<id>/draft.json      the record as it was at the start, while the run is going or after it broke off
    <root>/<id>/cells.jsonl     one finished cell or rebuild a line, while the run is going
    <root>/<id>/raw/NNNN.json.gz   fio's documents, word for word; timelines of rebuilds
    <root>/<id>/lock            locked by the process that writes
    <root>/<id>/imported        there if the result came from elsewhere

What is read here is a plain file of bounded size below the result's own folder, and the record is the one that the
folder is named after: nobody who may give us a result leads us to another file by it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lab.errors import ResultError
from lab.gates.decoding import decode_json
from lab.gates.files import MOST_DOCUMENT_BYTES, MOST_RECORD_BYTES, gunzip, read_inside
from lab.gates.names import checked_name
from lab.gates.text import visible
from lab.host.files import storage_error, sync_folder, write_file
from lab.old_names import with_new_keys
from lab.parts import added
from lab.results.formats import decode_visible, refuse_newer
from lab.results.journal import RunJournal, read_journal, with_entries
from lab.results.leftovers import DELETING_PREFIX, LOCK_NAME, changing
from lab.results.record import KIND, SCHEMA_VERSION, ResultRecord, RunStatus, encode_record

RECORD_NAME = "record.json"
DRAFT_NAME = "draft.json"
JOURNAL_NAME = "cells.jsonl"
IMPORTED_NAME = "imported"
LATEST = "latest"
_LONGEST_WORD = 80
"""Of an experiment's id in a result's: with time and number it stays a name (lab.gates.names)."""
_DOCUMENT = re.compile(r"raw/[0-9]{4,9}\.json\.gz")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class _Header(msgspec.Struct, frozen=True):
    kind: str = ""
    schema_version: int = 0
    id: str = ""
    created_utc: str = ""


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
    is_imported: bool = False
    """It came from elsewhere: ``latest`` never means it."""
    problem: str = ""


def checked_id(text: str) -> str:
    """``text``, if it can be a result's id: a name that is no other word for a result, nor that of a file of results.

    Raises ResultError.
    """
    checked_name(text, "result", error=ResultError)
    ending = Path(text).suffix
    if text.lower() == LATEST or (ending and added(f"results in {ending.lower()}")):
        raise ResultError(f"'{text}' cannot be the name of a result: it means something else", hint="take another")
    return text


def is_document(name: str) -> bool:
    """Whether it is the place of a document of fio, or of a timeline, in a result's folder."""
    return _DOCUMENT.fullmatch(name) is not None


def unpacked(data: bytes, what: str) -> str:
    """A document as it was stored. Raises ResultError if it is damaged, or too large to be one."""
    try:
        return gunzip(data, MOST_DOCUMENT_BYTES, what).decode()
    except UnicodeError as error:
        raise ResultError(f"{what} cannot be read: {error}", hint="restore it from a copy") from None


def decode_own(data: bytes, result_id: str, *, source: str) -> ResultRecord:
    """The record of ``result_id``. Raises ResultError as ``decode_record``, and if it is another one's.

    A result that a virtual machine brought, where there was one of its name, stands beside it with the machine's name
    behind (provision/vagrant/results.rb): from then on that is its id.
    """
    record = decode_record(data, source=source)
    if checked_id(result_id).startswith(f"{record.id}-"):
        return msgspec.structs.replace(record, id=result_id)
    if record.id != result_id:
        raise ResultError(f"'{source}' is the record of another result, '{record.id}'", hint="restore its name")
    return record


def decode_record(data: bytes, *, source: str) -> ResultRecord:
    """A record from the bytes of its file.

    Raises ResultError if it is none, is damaged, or was written by a newer raidlab.
    """
    try:
        header = decode_json(data, _Header)
        if header.kind != KIND:
            raise ResultError(f"'{source}' is not a raidlab result", hint="check the path")
        refuse_newer(source, "result", header.schema_version, SCHEMA_VERSION)
        if header.schema_version == 1:
            return _without_doubles(decode_visible(data, ResultRecord, with_new_keys), source)
        return _without_doubles(decode_visible(data, ResultRecord), source)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is damaged: {error}", hint="restore it from a copy, or delete it") from None


def _without_doubles(record: ResultRecord, source: str) -> ResultRecord:
    count = len(record.cells) + len(record.rebuilds)
    if len(record.done_keys) < count:
        raise ResultError(f"'{source}' is damaged: it has a measurement twice", hint="restore it from a copy")
    return record


class ResultStore:
    """Results under ``root``, which is made on the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def new_id(self, experiment: str, now: datetime | None = None) -> str:
        """An id that no stored result has, such as ``20261121T100129Z-antioquia-quick``."""
        moment = (now or datetime.now(UTC)).astimezone(UTC)
        word = re.sub(r"[^a-z0-9]+", "-", experiment.lower())[:_LONGEST_WORD].strip("-") or "run"
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
        try:
            with changing(self.root):
                try:
                    folder.mkdir()
                except FileExistsError:
                    raise ResultError(f"there is a result '{draft.id}' already", hint="take a new id") from None
                try:
                    (folder / "raw").mkdir()
                    write_file(folder / DRAFT_NAME, encode_record(draft))
                    sync_folder(self.root)
                    return RunJournal(folder, draft)
                except BaseException:
                    # Without its draft the folder would be a result that nobody can read.
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
        except OSError as error:
            raise storage_error(f"no result can be stored in '{self.root}'", error) from error

    def resume(self, name: str) -> RunJournal:
        """Go on with an incomplete result; ``journal.record.missing_keys`` says what is left.

        Raises ResultError if it is complete, or another process is writing it.
        """
        folder = self._folder(self.find(name))
        if is_there(folder / RECORD_NAME) and self.load(folder.name).status is RunStatus.COMPLETE:
            raise ResultError(f"result '{folder.name}' is complete", hint="start a new run")
        journal = RunJournal(folder, self.load(folder.name))
        if done := len(journal.record.done_keys):
            resumed_after = (*journal.record.resumed_after, done)
            journal.record = msgspec.structs.replace(journal.record, resumed_after=resumed_after)
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
            if is_there(folder / RECORD_NAME):
                return self._decode(folder, RECORD_NAME)
            draft = self._decode(folder, DRAFT_NAME)
            return with_entries(draft, read_journal(folder / JOURNAL_NAME))
        except OSError as error:
            raise _unreadable(f"result '{folder.name}'", error) from error

    def raw(self, record_id: str, raw_file: str) -> bytes:
        """The file behind a cell's ``raw_file`` or a rebuild's ``timeline_file``, packed. Raises ResultError."""
        folder = self._folder(record_id)
        if not is_document(raw_file):
            raise ResultError(
                f"'{raw_file}' is not a raw file of result '{record_id}'", hint="'show --json' names those that it has"
            )
        try:
            return read_inside(folder, raw_file, MOST_DOCUMENT_BYTES)
        except OSError as error:
            raise _unreadable(f"'{folder / raw_file}'", error) from error

    def raw_json(self, record_id: str, raw_file: str) -> str:
        """The document in it. Raises ResultError."""
        return unpacked(self.raw(record_id, raw_file), f"'{self.root / record_id / raw_file}'")

    def list(self) -> tuple[ResultSummary, ...]:
        """All results: those measured here, newest first, then those from elsewhere, then those that cannot be read."""
        found = [self._summary(name) for name in self._ids()]
        return tuple(sorted(found, key=_by_age, reverse=True))

    def ids(self) -> tuple[str, ...]:
        """The ids of all results, in the order of their names, backwards; none is read."""
        return tuple(sorted(self._ids(), reverse=True))

    def find(self, name: str) -> str:
        """The id meant by an id, the unique beginning of one, or ``latest``. Raises ResultError for none or several.

        ``latest`` is the newest of those measured here (by ``created_utc``) that can be read: what somebody sent is
        never it, whatever its name or date.
        """
        # Without looking at all the others: a report on thousands asks for each.
        if name != LATEST and _is_word(name) and is_result(self.root / name):
            return name
        ids = sorted(self._ids())
        if not ids:
            raise ResultError(f"there are no results in '{self.root}'", hint="run an experiment first")
        if name == LATEST:
            return self._latest(ids)
        found = [each for each in ids if name and each.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ResultError(f"'{name}' may be {len(found)} results: {', '.join(found)}", hint="write more of the id")
        raise ResultError(f"there is no result '{name}' in '{self.root}'", hint="'raidlab results' lists them")

    def delete(self, name: str) -> str:
        """Delete one result and return its id. Raises ResultError if it is being written or cannot be deleted."""
        folder = self._folder(self.find(name))
        doomed = folder.with_name(f"{DELETING_PREFIX}{folder.name}.{os.getpid()}")
        try:
            with changing(self.root):
                with _not_being_written(folder):
                    folder.rename(doomed)
                shutil.rmtree(doomed)
        except OSError as error:
            raise storage_error(f"result '{folder.name}' cannot be deleted", error) from error
        return folder.name

    def is_imported(self, record_id: str) -> bool:
        """Whether it came from elsewhere."""
        return is_there(self.root / record_id / IMPORTED_NAME)

    def _folder(self, record_id: str) -> Path:
        return self.root / checked_id(record_id)

    @staticmethod
    def _decode(folder: Path, name: str) -> ResultRecord:
        return decode_own(read_inside(folder, name, MOST_RECORD_BYTES), folder.name, source=str(folder / name))

    def _latest(self, ids: Sequence[str]) -> str:
        own = [(created, each) for each in ids if not self.is_imported(each) and (created := self._created(each))]
        if not own:
            raise ResultError(
                f"no result in '{self.root}' was measured here",
                hint="'latest' means none from elsewhere: write its id; 'raidlab results' lists them",
            )
        return max(own)[1]

    def _created(self, record_id: str) -> str:
        """Its date, so that dates sort by age; empty if it cannot be read."""
        folder = self.root / record_id
        try:
            name = RECORD_NAME if is_there(folder / RECORD_NAME) else DRAFT_NAME
            header = decode_json(read_inside(folder, name, MOST_RECORD_BYTES), _Header)
        except (ResultError, OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return ""
        return header.created_utc if header.id == record_id and _MOMENT.fullmatch(header.created_utc) else ""

    def _ids(self) -> Iterator[str]:
        try:
            for path in self.root.iterdir():
                if not path.name.startswith(".") and is_result(path):
                    yield path.name
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(f"'{self.root}' cannot be read", error) from error

    def _summary(self, name: str) -> ResultSummary:
        try:
            record = self.load(name)
        except ResultError as error:
            return ResultSummary(visible(name), is_imported=self.is_imported(name), problem=error.message)
        return ResultSummary(
            name,
            record.created_utc,
            record.experiment,
            record.conditions.target,
            record.status,
            len(record.done_keys),
            len(record.done_keys) + len(record.missing_keys),
            self.is_imported(name),
        )


def is_there(path: Path) -> bool:
    """Whether there is something, also where that may not be looked at."""
    try:
        path.lstat()
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
    return True


def is_result(folder: Path) -> bool:
    """Whether it is the folder of a result, finished or not."""
    return is_there(folder / RECORD_NAME) or is_there(folder / DRAFT_NAME)


def _is_word(name: str) -> bool:
    """Whether a name of one result alone, and no path."""
    return "/" not in name and "\0" not in name and not name.startswith(".") and name != ""


def _by_age(summary: ResultSummary) -> tuple[bool, bool, str, str]:
    created = summary.created_utc if _MOMENT.fullmatch(summary.created_utc) else ""
    return not summary.problem, not summary.is_imported, created, summary.id


def _unreadable(what: str, error: OSError) -> ResultError:
    hints = {errno.EACCES: "make it readable for you (chmod u+rwX)", errno.ENOENT: "restore it from a copy"}
    hint = hints.get(error.errno or 0, "restore it from a copy, or delete it")
    return ResultError(f"{what} cannot be read: {error.strerror or error}", hint=hint)


@contextlib.contextmanager
def _not_being_written(folder: Path) -> Iterator[None]:
    """Hold the writer's lock. Raises ResultError if someone else does."""
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ResultError(f"result '{folder.name}' is being written", hint="wait for the run, or stop it") from None
    finally:
        os.close(descriptor)
