"""Results outside the store: folders from other computers, and files of formats that plugins add.

Imported and merely displayed results pass the same check: the record must be valid, and every document that it names
must exist and decompress. An import is checked completely before any of it is stored. Where results are only
displayed, an invalid one does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from lab.errors import LabError, ResultError
from lab.gates.text import shortened
from lab.plugins import extension, extensions
from lab.results.extension import ResultFormat
from lab.results.record import ResultRecord, encode_record
from lab.results.store import IMPORTED_NAME, RECORD_NAME, ResultFiles, ResultStore, is_result, unpacked
from lab.store.runs import is_there


@dataclass(frozen=True, slots=True)
class FoundResult:
    """A result that the user named."""

    record: ResultRecord
    source: str
    read_file: Callable[[str], str]
    """Reads fio documents and timelines, by the names in the record. Raises ResultError."""


def is_file_name(name: str) -> bool:
    """Whether a word names a results file or a folder, not a stored result."""
    return "/" in name or _format_of(Path(name)) is not None


def find_results(names: Sequence[str], store: ResultStore) -> Iterator[FoundResult | str]:
    """Every readable result of the store, of files and of folders; for each unreadable one the reason as a sentence."""
    for name in names:
        try:
            yield from _of_name(name, store)
        except LabError as error:
            yield error.message
        except OSError as error:
            yield f"'{shortened(name)}' cannot be read: {error.strerror or error}"


def read_files(file: Path) -> ResultFiles:
    """The results of a file. Raises ResultError if its format is unknown to this raidlab, or if it is damaged."""
    # A file with any other name is read as well: anyone who downloads a bundle may rename it.
    found = _format_of(file) or extension(ResultFormat)
    if found is None:
        raise ResultError(f"'{file}' is not a file of results", hint="name a result, a bundle, or a folder of either")
    return found.read(file)


def _format_of(file: Path) -> ResultFormat | None:
    return next((each for each in extensions(ResultFormat) if each.suffix == file.suffix), None)


def _of_name(name: str, store: ResultStore) -> Iterator[FoundResult | str]:
    path = Path(name)
    if not is_file_name(name) and not (path.is_dir() and name not in store.ids()):
        yield _stored(store, store.find(name))
    elif _format_of(path):
        yield from _of_file(path)
    elif path.is_dir() or path.is_file():
        yield from _of_folder(path if path.is_dir() else path.parent)
    else:
        raise ResultError(f"there is no '{name}'", hint="name a result, a bundle, or a folder of either")


def _of_folder(folder: Path) -> Iterator[FoundResult | str]:
    """Results of a single result's folder, or of a folder with results, results files, or both."""
    stored = _in_folder(folder)
    files = [] if is_result(folder) else sorted(path for path in folder.iterdir() if _format_of(path))
    if not files and not stored.ids:
        raise ResultError(f"there are neither results nor bundles in '{folder}'", hint="check the path")
    yield from _each(stored)
    for file in files:
        try:
            yield from _of_file(file)
        except LabError as error:
            yield error.message


def _stored(store: ResultStore, result_id: str) -> FoundResult:
    return FoundResult(store.load(result_id), result_id, partial(store.raw_json, result_id))


def _of_file(file: Path) -> Iterator[FoundResult | str]:
    yield from _each(read_files(file))


def _each(found: ResultFiles) -> Iterator[FoundResult | str]:
    for result_id in sorted(found.ids):
        try:
            yield FoundResult(found.record(result_id), str(found.source), partial(found.document, result_id))
        except LabError as error:
            yield error.message


def files_of(store: ResultStore, record: ResultRecord) -> Iterator[tuple[str, bytes]]:
    """The files of one result with their paths in its folder. Raises ResultError for a damaged document."""
    yield RECORD_NAME, encode_record(record)
    for name in record.files:
        data = store.raw(record.id, name)
        unpacked(data, f"'{store.root / record.id / name}'")
        yield name, data


def import_results(store: ResultStore, source: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Import a file, a result's folder, or a folder of results; returns the new ids and those already in the store.

    Raises ResultError, and stores nothing, if a result is damaged, newer than this raidlab, or has another's id.
    """
    found = _in_folder(source) if source.is_dir() else read_files(source)
    if not found.ids:
        raise ResultError(f"there are no results in '{source}'", hint="check the path; practice is for 'raidlab class'")
    new: dict[str, Sequence[str]] = {}
    known: list[str] = []
    for result_id in found.ids:
        record = found.record(result_id)
        if _is_known(store, record):
            known.append(result_id)
        else:
            new[result_id] = (RECORD_NAME, *record.files)
    for result_id, names in new.items():
        _store(store, result_id, names, found)
    return tuple(new), tuple(known)


def _is_known(store: ResultStore, record: ResultRecord) -> bool:
    if not is_there(store.root / record.id):
        return False
    if store.load(record.id) == record:
        return True
    raise ResultError(
        f"there is another result '{record.id}' here", hint=f"delete that one first: raidlab results delete {record.id}"
    )


def _store(store: ResultStore, result_id: str, names: Sequence[str], found: ResultFiles) -> None:
    """Store a result atomically."""
    data = zip((IMPORTED_NAME, *names), chain((b"",), found.read(result_id, names)), strict=True)
    store.runs.put(result_id, data)


def _in_folder(folder: Path) -> ResultFiles:
    """Results in a folder, or the single result of a result's folder; interrupted ones are included as incomplete."""
    whole = folder.resolve()
    store = ResultStore(whole.parent if is_result(whole) else whole)

    def read(result_id: str, names: Iterable[str]) -> Iterator[bytes]:
        for name in names:
            yield encode_record(store.load(result_id)) if name == RECORD_NAME else store.raw(result_id, name)

    return ResultFiles(folder, (whole.name,) if is_result(whole) else sorted(store.ids()), read, None)
