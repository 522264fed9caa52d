"""Results from one computer to another: written to a bundle, and taken in from one, or from folders.

What is taken in is checked as a whole before anything of it is stored.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import ResultError
from lab.results.atomic import storage_error, sync_folder, write_file
from lab.results.bundle import check_result, read_bundle, write_bundle
from lab.results.record import ResultRecord, encode_record
from lab.results.signing import KEY_NAME, Signer, load_signer
from lab.results.store import RECORD_NAME, ResultStore, decode_record

_IMPORTING_PREFIX = ".importing-"


def signer_of(store: ResultStore) -> Signer:
    """The key beside a store's folder, made on first use. Raises ResultError."""
    return load_signer(store.root.parent / KEY_NAME)


def export_results(store: ResultStore, names: Sequence[str], file: Path, *, raidlab_version: str) -> tuple[str, ...]:
    """Write results to ``file``, signed; it appears whole or not at all. Returns their ids.

    Raises ResultError for one that cannot be read, or if the file cannot be written.
    """
    ids = tuple(dict.fromkeys(store.find(name) for name in names))
    if not ids:
        raise ResultError("no result is named", hint="'raidlab results' lists them")
    results = {result_id: _files_of(store, store.load(result_id)) for result_id in ids}
    write_file(file, write_bundle(results, signer_of(store), raidlab_version=raidlab_version))
    return ids


def _files_of(store: ResultStore, record: ResultRecord) -> dict[str, bytes]:
    """The files of one result by their path in its folder. Raises ResultError if a document of fio is missing."""
    files = {RECORD_NAME: encode_record(record)}
    for name in record.files:
        store.raw_json(record.id, name)
        files[name] = (store.root / record.id / name).read_bytes()
    return files


def import_results(store: ResultStore, source: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take in a bundle, a result's folder, or a folder of results; returns new ids, and those that were there before.

    Raises ResultError, with nothing stored, for what is damaged, newer than this raidlab, or has another result's id.
    """
    found = _read_folder(source) if source.is_dir() else read_bundle(source).results
    if not found:
        raise ResultError(f"there are no results in '{source}'", hint="check the path")
    new, known = [], []
    for result_id, files in found.items():
        record = decode_record(files[RECORD_NAME], source=f"{source}/{result_id}")
        check_result(record, result_id, files, source)
        if _is_there(store, record):
            known.append(result_id)
        else:
            new.append(result_id)
    for result_id in new:
        _store(store, result_id, found[result_id])
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
    return {name: _files_of(store, store.load(name)) for name in names}


def _is_result(folder: Path) -> bool:
    return not folder.name.startswith(".") and any((folder / name).is_file() for name in (RECORD_NAME, "draft.json"))
