"""The folder of results, results outside it, and the result of a run in progress.

Each finished cell is on disk before the next one starts.

Results outside the folder are in folders from other computers, and in files whose formats plugins add. Imported and
merely displayed results pass the same check: the record must be valid, and every document that it names must exist and
decompress. An import is checked completely before any of it is stored. When results are only displayed, an invalid one
does not affect the others.
"""

from __future__ import annotations

import errno
import gzip
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from lab.errors import LabError, ResultError
from lab.gates.decoding import FormatVersion, decode_json
from lab.gates.files import MOST_DOCUMENT_BYTES, MOST_RECORD_BYTES, gunzip, read_inside
from lab.gates.text import checked_name, shortened, visible
from lab.host.files import storage_error, sync_folder, write_file
from lab.host.signals import Interrupted
from lab.plugins import extension, extensions
from lab.results.record import (
    KIND,
    SCHEMA_VERSION,
    CellRecord,
    RebuildRecord,
    ResultRecord,
    RunStatus,
    Timeline,
    decode_visible,
    encode_record,
    encode_timeline,
    refuse_newer,
)
from lab.results.rows import grouped
from lab.store import LATEST, Journal, RunFolders, id_word, is_there, stem
from lab.tomlfile import with_new_keys

RECORD_NAME, DRAFT_NAME, JOURNAL_NAME = "record.json", "draft.json", "cells.jsonl"
Entry = CellRecord | RebuildRecord


class ResultNotStored(ResultError):
    """The finished record could not be written to its folder. ``payload`` holds its bytes, to be saved elsewhere."""

    def __init__(self, cause: ResultError, payload: bytes) -> None:
        super().__init__(cause.message, hint=f"{cause.hint}; the finished record can be saved elsewhere")
        self.payload = payload


def journal_of(folder: Path) -> Journal[Entry]:
    """Return the journal of the result in ``folder``, with one finished cell or rebuild per line."""
    # A result may be displayed from another user's folder.
    return Journal(folder / JOURNAL_NAME, Entry, hint="remove that line", is_own=False, decode=decode_visible)


def _with_entries(record: ResultRecord, entries: Iterable[Entry]) -> ResultRecord:
    """Return the record with entries added, each of which replaces an earlier one with the same key."""
    cells = {cell.key: cell for cell in record.cells}
    rebuilds = {rebuild.key: rebuild for rebuild in record.rebuilds}
    for entry in entries:
        if isinstance(entry, CellRecord):
            cells[entry.key] = entry
        else:
            rebuilds[entry.key] = entry
    return msgspec.structs.replace(record, cells=tuple(cells.values()), rebuilds=tuple(rebuilds.values()))


class RunJournal(AbstractContextManager["RunJournal"]):
    """The writer of one result. Only one process can have it open at a time."""

    def __init__(self, runs: RunFolders, record: ResultRecord) -> None:
        """Take the lock, and repair an incomplete last line. Raises ResultError, and MachineBusy if it is held."""
        self.folder = runs.path(record.id)
        self._journal = journal_of(self.folder)
        with ExitStack() as held:
            held.enter_context(runs.held(record.id))
            self._journal.repair()
            # Include entries written by another process after ``record`` was read and before the lock was taken.
            self.record = _with_entries(record, self._journal.read())
            """The record so far."""
            self._held = held.pop_all()

    def add(self, entry: Entry, *, timeline: Timeline | None = None) -> Entry:
        """Durably store one finished cell or rebuild, and return it as stored, with its document in a separate file.

        Raises ResultError if the entry cannot be stored, which leaves the record unchanged.
        """
        if isinstance(entry, CellRecord):
            if text := entry.figures.raw_json:
                figures = msgspec.structs.replace(entry.figures, raw_json="")
                entry = msgspec.structs.replace(entry, figures=figures, raw_file=self._write_document(text))
        elif timeline:
            entry = msgspec.structs.replace(entry, timeline_file=self._write_document(encode_timeline(timeline)))
        try:
            self._journal.append(entry)
        except (KeyboardInterrupt, Interrupted):
            # The signal may have arrived after the line was complete, so read what has been stored.
            self.record = _with_entries(self.record, self._journal.read())
            raise
        self.record = _with_entries(self.record, [entry])
        return entry

    def _write_document(self, text: str) -> str:
        number = len(self.record.files)
        while (self.folder / f"raw/{number:04d}.json.gz").exists():
            number += 1
        name = f"raw/{number:04d}.json.gz"
        write_file(self.folder / name, gzip.compress(text.encode(errors="replace"), mtime=0))
        return name

    def finish(self, changed: ResultRecord | None = None, *, status: RunStatus = RunStatus.COMPLETE) -> ResultRecord:
        """Write the final record and close. ``changed`` is the record so far with changes, such as its timings.

        If it raises ResultNotStored, which holds the bytes, the journal is kept for ``resume``.
        """
        record = msgspec.structs.replace(changed or self.record, status=status)
        payload = encode_record(record)
        try:
            write_file(self.folder / RECORD_NAME, payload)
        except ResultError as error:
            self.close()
            raise ResultNotStored(error, payload) from error
        self.record = record
        with suppress(OSError):
            self._journal.path.unlink(missing_ok=True)
            (self.folder / DRAFT_NAME).unlink(missing_ok=True)
        self.close()
        return record

    def close(self) -> None:
        """Release the lock. The entries added so far remain as an incomplete result."""
        self._held.close()

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Results that are read from their folders file by file, because a class may have too many to hold in memory."""

    source: Path
    ids: Sequence[str]
    read: Callable[[str, Iterable[str]], Iterator[bytes]]
    """Reads the files of one result's folder lazily, by path. Raises ResultError."""
    documents: Mapping[str, Collection[str]] | None
    """The paths of each result's documents if these are already checked. None if they are checked on reading."""

    def record(self, result_id: str) -> ResultRecord:
        """Read one result. Raises ResultError if it is damaged, is newer than this raidlab, or lacks a document."""
        (data,) = self.read(result_id, [RECORD_NAME])
        return self.checked(result_id, data)

    def checked(self, result_id: str, data: bytes) -> ResultRecord:
        record = _decode_own(data, result_id, source=f"{self.source}/{result_id}")
        if self.documents is None:
            for name in record.files:
                self.document(result_id, name)
        elif missing := [name for name in record.files if name not in self.documents[result_id]]:
            raise ResultError(
                f"result '{result_id}' in '{self.source}' lacks {', '.join(missing[:3])}", hint="copy the result again"
            )
        return record

    def document(self, result_id: str, name: str) -> str:
        """Read a fio document or a timeline. Raises ResultError."""
        (data,) = self.read(result_id, [name])
        return unpacked(data, f"'{name}' of result '{result_id}' in '{self.source}'")


IMPORTED_NAME = "imported"
_DOCUMENT = re.compile(r"raw/[0-9]{4,9}\.json\.gz")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class _Header(msgspec.Struct, frozen=True):
    kind: str = ""
    schema_version: FormatVersion = 0
    id: str = ""
    created_utc: str = ""


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """One line of a list of results. ``problem`` says why the result cannot be read."""

    id: str
    created_utc: str = ""
    experiment: str = ""
    target: str = ""
    status: RunStatus | None = None
    measured_count: int = 0
    """Number of stored cells and rebuilds."""
    planned_count: int = 0
    """Number of stored and missing cells and rebuilds. An adaptive run measures more than planned."""
    is_imported: bool = False
    """Whether the result was imported; ``latest`` never refers to an imported result."""
    problem: str = ""

    @property
    def can_be_resumed(self) -> bool:
        return self.status is RunStatus.INCOMPLETE and not self.is_imported


def checked_id(text: str) -> str:
    """Return ``text`` if it may be the id of a result, and is not a reserved word such as ``latest``.

    Raises ResultError.
    """
    checked_name(text, "result", error=ResultError)
    is_file = Path(text).suffix.lower() in {each.suffix for each in extensions(ResultFormat)}
    if text.lower() == LATEST or is_file:
        raise ResultError(f"'{text}' cannot be the name of a result: it is reserved", hint="choose a different name")
    return text


def is_document(name: str) -> bool:
    """Whether ``name`` is the path of a fio document or timeline in a result's folder."""
    return _DOCUMENT.fullmatch(name) is not None


def unpacked(data: bytes, what: str) -> str:
    """Decompress a stored document. Raises ResultError if it is damaged or too large."""
    try:
        return gunzip(data, MOST_DOCUMENT_BYTES, what).decode()
    except UnicodeError as error:
        raise ResultError(f"{what} cannot be read: {error}", hint="restore it from a copy") from None


def _decode_own(data: bytes, result_id: str, *, source: str) -> ResultRecord:
    """Decode the record of ``result_id``. Raises ResultError when ``decode_record`` does, or if its id is different.

    If the name of a result copied from a virtual machine is already taken, it is stored with the machine's name
    appended (provision/vagrant/results.rb), and the longer name becomes its id.
    """
    record = decode_record(data, source=source)
    if checked_id(result_id).startswith(f"{record.id}-"):
        return msgspec.structs.replace(record, id=result_id)
    if record.id != result_id:
        raise ResultError(f"'{source}' is the record of another result, '{record.id}'", hint="restore its name")
    return record


def decode_record(data: bytes, *, source: str) -> ResultRecord:
    """Decode a record. Raises ResultError if it is not a record, is damaged, or was written by a newer raidlab."""
    try:
        header = decode_json(data, _Header)
        if header.kind != KIND:
            raise ResultError(f"'{source}' is not a raidlab result", hint="check the path")
        refuse_newer(source, "result", header.schema_version, SCHEMA_VERSION)
        record = decode_visible(data, ResultRecord, with_new_keys if header.schema_version == 1 else None)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is damaged: {error}", hint="restore it from a copy, or delete it") from None
    if len(record.done_keys) < len(record.cells) + len(record.rebuilds):
        raise ResultError(f"'{source}' is damaged: it contains a measurement twice", hint="restore it from a copy")
    return record


def new_id(experiment: str, now: datetime) -> str:
    """Return the id of a new result, such as ``20261121T100129Z-antioquia-quick``."""
    return stem(now, id_word(experiment) or "run")


class ResultStore:
    """The results under ``root``, which is created on the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = RunFolders(
            root,
            "result",
            (RECORD_NAME, DRAFT_NAME),
            begin_hint="run an experiment first",
            list_hint="'raidlab results' lists them",
            inner=("raw",),
            # The folder holds the key that signs bundles.
            beside=(root.parent,),
        )

    def begin(self, draft: ResultRecord) -> RunJournal:
        """Begin a result.

        If its id is already taken, a number is appended. The caller must close it. Raises ResultError.
        """
        try:
            with self.runs.changing():
                folder = self.runs.create(draft.id, mode=0o777)
                draft = msgspec.structs.replace(draft, id=folder.name)
                try:
                    (folder / "raw").mkdir()
                    write_file(folder / DRAFT_NAME, encode_record(draft))
                    sync_folder(self.root)
                    return RunJournal(self.runs, draft)
                except BaseException:
                    # Without a draft in it, the folder would be an unreadable result.
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
        except OSError as error:
            raise storage_error(f"no result can be stored in '{self.root}'", error) from error

    def resume(self, name: str) -> RunJournal:
        """Resume an incomplete result. Raises ResultError if it is complete, and MachineBusy if it is being written."""
        folder = self._folder(self.find(name))
        if is_there(folder / RECORD_NAME) and self.load(folder.name).status is RunStatus.COMPLETE:
            raise ResultError(f"result '{folder.name}' is complete", hint="start a new run")
        journal = RunJournal(self.runs, self.load(folder.name))
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
        """Load a result, even an interrupted one, by its id, by a unique prefix of the id, or as ``latest``.

        Raises ResultError.
        """
        folder = self._folder(self.find(name))
        try:
            if is_there(folder / RECORD_NAME):
                return self._decode(folder, RECORD_NAME)
            draft = self._decode(folder, DRAFT_NAME)
            return _with_entries(draft, journal_of(folder).read())
        except OSError as error:
            raise _unreadable(f"result '{folder.name}'", error) from error

    def resumable(self) -> Iterator[ResultSummary]:
        """Yield the results that can be resumed now, newest first. They contain a measurement and are not in use."""
        for each in self.list():
            if each.can_be_resumed and each.measured_count and not self.runs.is_held(each.id):
                yield each

    def incomplete(self, name: str) -> ResultRecord:
        """Load an incomplete result; ``latest`` is the newest that can be resumed. Raises ResultError."""
        if name == LATEST:
            name = next((each.id for each in self.resumable()), "")
            if not name:
                raise ResultError("no result can be resumed", hint="list the results with 'raidlab results'")
        record = self.load(name)
        if self.is_imported(record.id):
            raise ResultError(f"result '{record.id}' was imported", hint="resume it on the computer that measured it")
        if record.status is RunStatus.COMPLETE:
            raise ResultError(f"result '{record.id}' is complete", hint="start a new run")
        return record

    def raw(self, record_id: str, raw_file: str) -> bytes:
        """Read the compressed file that a cell's ``raw_file`` or a rebuild's ``timeline_file`` names.

        Raises ResultError.
        """
        folder = self._folder(record_id)
        if not is_document(raw_file):
            raise ResultError(
                f"'{raw_file}' is not a raw file of result '{record_id}'",
                hint=f"'raidlab --json results show {record_id}' lists its raw files",
            )
        try:
            return read_inside(folder, raw_file, MOST_DOCUMENT_BYTES)
        except OSError as error:
            raise _unreadable(f"'{folder / raw_file}'", error) from error

    def raw_json(self, record_id: str, raw_file: str) -> str:
        """Decompress the document in a raw file. Raises ResultError."""
        return unpacked(self.raw(record_id, raw_file), f"'{self.root / record_id / raw_file}'")

    def list(self) -> tuple[ResultSummary, ...]:
        """List the results that were measured here, newest first, then imported ones, then unreadable ones."""
        found = [self._summary(name) for name in self.runs.names()]
        return tuple(sorted(found, key=_by_age, reverse=True))

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all results, newest first, without reading the results."""
        return self.runs.ids()

    def find(self, name: str) -> str:
        """Resolve an id, a unique prefix of one, or ``latest`` to an id. Raises ResultError if none or several match.

        ``latest`` is the newest readable result measured here, by ``created_utc``. It is never an imported result,
        whatever its name or date.
        """
        return self.runs.find(name, self._latest)

    def delete(self, name: str) -> str:
        """Delete one result and return its id. Raises ResultError, and MachineBusy if it is being written."""
        result_id = checked_id(self.find(name))
        self.runs.delete(result_id)
        return result_id

    def is_imported(self, record_id: str) -> bool:
        return is_there(self.root / record_id / IMPORTED_NAME)

    def _folder(self, record_id: str) -> Path:
        return self.root / checked_id(record_id)

    @staticmethod
    def _decode(folder: Path, name: str) -> ResultRecord:
        return _decode_own(read_inside(folder, name, MOST_RECORD_BYTES), folder.name, source=str(folder / name))

    def _latest(self, ids: Sequence[str]) -> str:
        own = [(created, each) for each in ids if not self.is_imported(each) and (created := self._created(each))]
        if not own:
            raise ResultError(
                f"no result in '{self.root}' was measured here",
                hint="'latest' excludes imported results, so give an id; 'raidlab results' lists the ids",
            )
        return max(own)[1]

    def _created(self, record_id: str) -> str:
        """Return the result's date in a form that sorts by age, or an empty string if it cannot be read."""
        folder = self.root / record_id
        try:
            name = RECORD_NAME if is_there(folder / RECORD_NAME) else DRAFT_NAME
            header = decode_json(read_inside(folder, name, MOST_RECORD_BYTES), _Header)
        except (ResultError, OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return ""
        return header.created_utc if header.id == record_id and _MOMENT.fullmatch(header.created_utc) else ""

    def _summary(self, name: str) -> ResultSummary:
        try:
            record = self.load(checked_id(name))
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


def is_result(folder: Path) -> bool:
    """Whether a folder holds a result, complete or not."""
    return is_there(folder / RECORD_NAME) or is_there(folder / DRAFT_NAME)


def _by_age(summary: ResultSummary) -> tuple[bool, bool, str, str]:
    created = summary.created_utc if _MOMENT.fullmatch(summary.created_utc) else ""
    return not summary.problem, not summary.is_imported, created, summary.id


def _unreadable(what: str, error: OSError) -> ResultError:
    hints = {errno.EACCES: "make it readable (chmod u+rwX)", errno.ENOENT: "restore it from a copy"}
    hint = hints.get(error.errno or 0, "restore it from a copy, or delete it")
    return ResultError(f"{what} cannot be read: {error.strerror or error}", hint=hint)


@dataclass(frozen=True, slots=True)
class MeasuredRebuild:
    """The rebuilds of one array in a stored result, under one workload or none."""

    result: str
    experiment: str
    array: str
    under_workload: str
    """The workload during the rebuilds; empty if there was none."""
    bytes_per_second: float
    """The median of the repeats."""
    count: int


def measured_rebuilds(store: ResultStore) -> tuple[MeasuredRebuild, ...]:
    """Return all measured rebuilds in this store, in the order of ``list``. Unreadable results are left out."""
    found = []
    for summary in store.list():
        with suppress(ResultError):
            rebuilds = store.load(summary.id).rebuilds
            measured = (each for each in rebuilds if each.rebuild_seconds > 0 and each.rebuilt_bytes > 0)
            for (array, under), group in grouped(measured, lambda each: (each.array, each.under_workload)).items():
                rates = [each.rebuilt_bytes / each.rebuild_seconds for each in group]
                found.append(MeasuredRebuild(summary.id, summary.experiment, array, under, median(rates), len(rates)))
    return tuple(found)


class ResultFormat(NamedTuple):
    """A file format for results, which a plugin adds."""

    suffix: str
    """In lowercase letters, for example ``.zip``."""
    read: Callable[[Path], ResultFiles]
    """Reads a file. Raises ResultError, for example if the file has a different format."""
    write: Callable[[ResultStore, Sequence[str], Path], object]
    """Writes the results with these names to a file. Raises ResultError."""


@dataclass(frozen=True, slots=True)
class FoundResult:
    """A result that the user specified."""

    record: ResultRecord
    source: str
    read_file: Callable[[str], str]
    """Reads fio documents and timelines, by the names in the record. Raises ResultError."""


def is_file_name(name: str) -> bool:
    """Whether a word names a results file or a folder, instead of a stored result."""
    return "/" in name or _format_of(Path(name)) is not None


def find_results(names: Sequence[str], store: ResultStore) -> Iterator[FoundResult | str]:
    """Yield each readable result in the store, in files and in folders, and the reason for each unreadable one."""
    for name in names:
        try:
            yield from _of_name(name, store)
        except LabError as error:
            yield error.message
        except OSError as error:
            yield f"'{shortened(name)}' cannot be read: {error.strerror or error}"


def read_files(file: Path) -> ResultFiles:
    """Read the results in a file. Raises ResultError if its format is unknown to this raidlab, or if it is damaged."""
    # A file with any other name is read as well, because people rename bundles that they download.
    found = _format_of(file) or extension(ResultFormat)
    if found is None:
        raise ResultError(f"'{file}' is not a results file", hint="name a result, a bundle, or a folder of either")
    return found.read(file)


def _format_of(file: Path) -> ResultFormat | None:
    return next((each for each in extensions(ResultFormat) if each.suffix == file.suffix.lower()), None)


def _of_name(name: str, store: ResultStore) -> Iterator[FoundResult | str]:
    path = Path(name)
    if not is_file_name(name) and not (path.is_dir() and name not in store.ids()):
        result_id = store.find(name)
        yield FoundResult(store.load(result_id), result_id, partial(store.raw_json, result_id))
    elif _format_of(path):
        yield from _each(read_files(path))
    elif path.is_dir() or path.is_file():
        yield from _of_folder(path if path.is_dir() else path.parent, store)
    else:
        raise ResultError(f"'{name}' does not exist", hint="name a result, a bundle, or a folder of either")


def _of_folder(folder: Path, store: ResultStore) -> Iterator[FoundResult | str]:
    """Yield the results in the folder of a single result, or in a folder that contains results and results files."""
    stored = _in_folder(folder)
    files = [] if is_result(folder) else sorted(path for path in folder.iterdir() if _format_of(path))
    if not files and not stored.ids:
        raise ResultError(f"there are neither results nor bundles in '{folder}'", hint="check the path")
    yield from _each(stored)
    yield from find_results([str(file) for file in files], store)


def _each(found: ResultFiles) -> Iterator[FoundResult | str]:
    for result_id in sorted(found.ids):
        try:
            yield FoundResult(found.record(result_id), str(found.source), partial(found.document, result_id))
        except LabError as error:
            yield error.message


def files_of(store: ResultStore, record: ResultRecord) -> Iterator[tuple[str, bytes]]:
    """Yield the files of one result, with their paths in its folder. Raises ResultError if a document is damaged."""
    yield RECORD_NAME, encode_record(record)
    for name in record.files:
        data = store.raw(record.id, name)
        unpacked(data, f"'{store.root / record.id / name}'")
        yield name, data


def import_results(store: ResultStore, source: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Import a file, a result's folder, or a folder of results. Return the new ids, and those already in the store.

    Raises ResultError, and stores nothing, if a result is damaged, is newer than this raidlab, or has a wrong id.
    """
    found = _in_folder(source) if source.is_dir() else read_files(source)
    if not found.ids:
        raise ResultError(
            f"there are no results in '{source}'",
            hint="check the path; 'raidlab class' shows the lessons and drills in bundles",
        )
    new: dict[str, Sequence[str]] = {}
    known: list[str] = []
    for result_id in found.ids:
        record = found.record(result_id)
        if _is_known(store, record):
            known.append(result_id)
        else:
            new[result_id] = (RECORD_NAME, *record.files)
    for result_id, names in new.items():
        contents = chain((b"",), found.read(result_id, names))
        store.runs.put(result_id, zip((IMPORTED_NAME, *names), contents, strict=True))
    return tuple(new), tuple(known)


def _is_known(store: ResultStore, record: ResultRecord) -> bool:
    if not is_there(store.root / record.id):
        return False
    if store.load(record.id) == record:
        return True
    raise ResultError(
        f"a different result with the id '{record.id}' is already stored here",
        hint=f"delete it first: raidlab results delete {record.id}",
    )


def _in_folder(folder: Path) -> ResultFiles:
    """Return the results in a folder, or the one in a result's folder. Interrupted results count as incomplete."""
    whole = folder.resolve()
    store = ResultStore(whole.parent if is_result(whole) else whole)

    def read(result_id: str, names: Iterable[str]) -> Iterator[bytes]:
        for name in names:
            yield encode_record(store.load(result_id)) if name == RECORD_NAME else store.raw(result_id, name)

    return ResultFiles(folder, (whole.name,) if is_result(whole) else sorted(store.ids()), read, None)
