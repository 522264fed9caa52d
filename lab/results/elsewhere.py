"""Results that are not in the store: folders from other computers, and files of a part that reads such.

What is taken in is checked as a whole before anything of it is stored. Where results are only looked at, one that is
bad stops no other.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.errors import LabError, ResultError
from lab.host.files import storage_error, sync_folder, write_file
from lab.parts import added
from lab.results.record import ResultRecord, encode_record
from lab.results.store import RECORD_NAME, ResultStore, decode_record

_IMPORTING_PREFIX = ".importing-"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Results as the files of their folders."""

    source: Path
    results: Mapping[str, Mapping[str, bytes]]
    """Id -> path in the result's folder -> content."""
    has_raw: bool
    """Whether fio's documents were read too."""

    def record(self, result_id: str) -> ResultRecord:
        """One result. Raises ResultError if it is damaged, newer than this raidlab, another one's, or not whole."""
        files = self.results[result_id]
        record = decode_record(files[RECORD_NAME], source=f"{self.source}/{result_id}")
        if record.id != result_id or not _ID.fullmatch(result_id):
            raise ResultError(
                f"'{self.source}' holds result '{record.id}' under the name '{result_id}'", hint="restore the file"
            )
        missing = [name for name in record.files if name not in files] if self.has_raw else []
        if missing:
            raise ResultError(f"result '{result_id}' lacks {', '.join(missing[:3])}", hint="copy its whole folder")
        return record


@dataclass(frozen=True, slots=True)
class FoundResult:
    """A result that somebody has named."""

    record: ResultRecord
    source: str
    read_file: Callable[[str], str]
    """Of fio's documents and timelines, by the names in the record. Raises ResultError."""


def is_file_name(name: str) -> bool:
    """Whether a word names a file of results or a folder, and no stored result."""
    return "/" in name or _reader(Path(name)) is not None


def find_results(names: Sequence[str], store: ResultStore) -> Iterator[FoundResult | str]:
    """Every result that can be read, of the store, files and folders; for any other a sentence that says why not."""
    for name in names:
        try:
            yield from _of_name(name, store)
        except LabError as error:
            yield error.message


def read_files(file: Path, *, with_raw: bool = True) -> ResultFiles:
    """The results of a file. Raises ResultError for one that no part of this raidlab reads, or that is damaged."""
    read = _reader(file) or added("results in a file")
    if read is None:
        raise ResultError(f"'{file}' is no file of results", hint="name a result, a bundle, or a folder of either")
    found: ResultFiles = read(file, with_raw=with_raw)
    return found


def _reader(file: Path) -> Callable[..., ResultFiles] | None:
    return added(f"results in {file.suffix}") if file.suffix else None


def _of_name(name: str, store: ResultStore) -> Iterator[FoundResult | str]:
    path = Path(name)
    if not is_file_name(name) and not (path.is_dir() and name not in store.ids()):
        yield _stored(store, store.find(name))
    elif _reader(path):
        yield from _of_file(path)
    elif path.is_dir() or path.is_file():
        yield from _of_folder(path if path.is_dir() else path.parent)
    else:
        raise ResultError(f"there is no '{name}'", hint="name a result, a bundle, or a folder of either")


def _of_folder(folder: Path) -> Iterator[FoundResult | str]:
    """A result's own folder, or one that holds results, files of them, or both."""
    inner = ResultStore(folder)
    if folder.name in ResultStore(folder.parent).ids():
        yield _stored(ResultStore(folder.parent), folder.name)
        return
    files = sorted(path for path in folder.iterdir() if path.is_file() and _reader(path))
    ids = sorted(inner.ids())
    if not files and not ids:
        raise ResultError(f"there are neither results nor bundles in '{folder}'", hint="check the path")
    for result_id in ids:
        yield _or_problem(partial(_stored, inner, result_id))
    for file in files:
        try:
            yield from _of_file(file)
        except LabError as error:
            yield error.message


def _or_problem(load: Callable[[], FoundResult]) -> FoundResult | str:
    try:
        return load()
    except LabError as error:
        return error.message


def _stored(store: ResultStore, result_id: str) -> FoundResult:
    return FoundResult(store.load(result_id), result_id, partial(store.raw_json, result_id))


def _of_file(file: Path) -> Iterator[FoundResult | str]:
    found = read_files(file, with_raw=False)
    for result_id in found.results:
        yield _or_problem(partial(_in_file, found, result_id))


def _in_file(found: ResultFiles, result_id: str) -> FoundResult:
    def read_file(name: str) -> str:
        # Read only now: a report on a class looks into none of them.
        files = read_files(found.source).results[result_id]
        try:
            return gzip.decompress(files[name]).decode()
        except (KeyError, OSError, EOFError, UnicodeError) as error:
            raise ResultError(f"'{found.source}' has no '{name}' that can be read: {error}") from None

    return FoundResult(found.record(result_id), str(found.source), read_file)


def files_of(store: ResultStore, record: ResultRecord) -> dict[str, bytes]:
    """The files of one result by their path in its folder. Raises ResultError if a document of fio is missing."""
    files = {RECORD_NAME: encode_record(record)}
    for name in record.files:
        store.raw_json(record.id, name)
        files[name] = (store.root / record.id / name).read_bytes()
    return files


def import_results(store: ResultStore, source: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take in a file, a result's folder, or a folder of results; returns new ids, and those that were there before.

    Raises ResultError, with nothing stored, for what is damaged, newer than this raidlab, or has another result's id.
    """
    found = ResultFiles(source, _read_folder(source), has_raw=True) if source.is_dir() else read_files(source)
    if not found.results:
        raise ResultError(f"there are no results in '{source}'", hint="check the path")
    new: list[str] = []
    known: list[str] = []
    for result_id in found.results:
        (known if _is_there(store, found.record(result_id)) else new).append(result_id)
    for result_id in new:
        _store(store, result_id, found.results[result_id])
    return tuple(new), tuple(known)


def _is_there(store: ResultStore, record: ResultRecord) -> bool:
    if not (store.root / record.id).exists():
        return False
    if store.load(record.id) == record:
        return True
    raise ResultError(
        f"there is another result '{record.id}' here", hint=f"delete that one first: raidlab results delete {record.id}"
    )


def _store(store: ResultStore, result_id: str, files: Mapping[str, bytes]) -> None:
    """Put a result in its place in one move."""
    part = store.root / f"{_IMPORTING_PREFIX}{result_id}.{os.getpid()}"
    try:
        (part / "raw").mkdir(parents=True)
        for path, data in files.items():
            write_file(part / path, data)
        part.rename(store.root / result_id)
        sync_folder(store.root)
    except OSError as error:
        raise storage_error(f"result '{result_id}' cannot be stored in '{store.root}'", error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _read_folder(folder: Path) -> Mapping[str, Mapping[str, bytes]]:
    """Results of a folder, or the one whose folder it is; those that broke off come as far as they are."""
    store = ResultStore(folder.parent if _is_result(folder) else folder)
    names = [folder.name] if _is_result(folder) else sorted(path.name for path in folder.iterdir() if _is_result(path))
    return {name: files_of(store, store.load(name)) for name in names}


def _is_result(folder: Path) -> bool:
    return not folder.name.startswith(".") and any((folder / name).is_file() for name in (RECORD_NAME, "draft.json"))
