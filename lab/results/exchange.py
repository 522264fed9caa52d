"""Results as one file for another computer, and back: a ZIP archive with every record, fio's documents and checksums.

::

    manifest.json                  kind, format, and the SHA-256 of every other file
    results/<id>/record.json       the whole record
    results/<id>/raw/NNNN.json.gz  fio's documents, word for word

What is read back is checked as a whole before anything of it is stored. The archive proves that it is undamaged, not
who made it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lab.errors import ResultError
from lab.results.atomic import storage_error, sync_folder, write_file
from lab.results.record import ResultRecord, encode_record
from lab.results.store import RECORD_NAME, ResultStore, decode_record
from lab.units import GIB

KIND = "raidlab-export"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
LARGEST_BYTES = GIB
"""Of everything in an archive, unpacked: more is no result of this program."""
_RAW = re.compile(r"raw/[0-9]{4,}\.json\.gz")
_IMPORTING_PREFIX = ".importing-"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds."""

    kind: str = KIND
    format_version: int = FORMAT_VERSION
    raidlab_version: str
    sha256: dict[str, str]
    """Path in the archive -> checksum in hexadecimal digits."""


def export_results(store: ResultStore, names: Sequence[str], file: Path, *, raidlab_version: str) -> tuple[str, ...]:
    """Write results to ``file``, which appears whole or not at all; returns their ids.

    Raises ResultError for one that cannot be read, or if the file cannot be written.
    """
    ids = tuple(dict.fromkeys(store.find(name) for name in names))
    if not ids:
        raise ResultError("no result is named", hint="'raidlab results' lists them")
    buffer = io.BytesIO()
    sums: dict[str, str] = {}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for result_id in ids:
            for path, data in _files_of(store, store.load(result_id)).items():
                place = f"results/{result_id}/{path}"
                sums[place] = hashlib.sha256(data).hexdigest()
                archive.writestr(_entry(place), data)
        manifest = Manifest(raidlab_version=raidlab_version, sha256=sums)
        archive.writestr(_entry(MANIFEST), msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    write_file(file, buffer.getvalue())
    return ids


def _entry(place: str) -> zipfile.ZipInfo:
    """Without the time of writing, so that the same results make the same bytes."""
    entry = zipfile.ZipInfo(place)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _files_of(store: ResultStore, record: ResultRecord) -> dict[str, bytes]:
    """The files of one result by their path in its folder. Raises ResultError if a document of fio is missing."""
    files = {RECORD_NAME: encode_record(record)}
    for cell in record.cells:
        if cell.raw_file:
            store.raw_json(record.id, cell.raw_file)
            files[cell.raw_file] = (store.root / record.id / cell.raw_file).read_bytes()
    return files


def import_results(store: ResultStore, source: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take in an archive, a result's folder, or a folder of results; returns new ids, and those that were there before.

    Raises ResultError, with nothing stored, for what is damaged, newer than this raidlab, or has another result's id.
    """
    found = _read_folder(source) if source.is_dir() else _read_archive(source)
    if not found:
        raise ResultError(f"there are no results in '{source}'", hint="check the path")
    new, known = [], []
    for result_id, files in found.items():
        record = decode_record(files[RECORD_NAME], source=f"{source}/{result_id}")
        _check(record, result_id, files, source)
        if _is_there(store, record):
            known.append(result_id)
        else:
            new.append(result_id)
    for result_id in new:
        _store(store, result_id, found[result_id])
    return tuple(new), tuple(known)


def _check(record: ResultRecord, result_id: str, files: dict[str, bytes], source: Path) -> None:
    if record.id != result_id or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", result_id):
        raise ResultError(
            f"'{source}' holds result '{record.id}' under the name '{result_id}'", hint="restore the file"
        )
    missing = [cell.raw_file for cell in record.cells if cell.raw_file and cell.raw_file not in files]
    if missing:
        raise ResultError(f"result '{result_id}' lacks {', '.join(missing[:3])}", hint="copy its whole folder")


def _is_there(store: ResultStore, record: ResultRecord) -> bool:
    if not (store.root / record.id).exists():
        return False
    if store.load(record.id) == record:
        return True
    raise ResultError(
        f"there is another result '{record.id}' here", hint=f"delete that one first: raidlab results delete {record.id}"
    )


def _store(store: ResultStore, result_id: str, files: dict[str, bytes]) -> None:
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


def _read_folder(folder: Path) -> dict[str, dict[str, bytes]]:
    """Results of a folder, or the one whose folder it is; those that broke off come as far as they are."""
    store = ResultStore(folder.parent if _is_result(folder) else folder)
    names = [folder.name] if _is_result(folder) else sorted(path.name for path in folder.iterdir() if _is_result(path))
    return {name: _files_of(store, store.load(name)) for name in names}


def _is_result(folder: Path) -> bool:
    return not folder.name.startswith(".") and any((folder / name).is_file() for name in (RECORD_NAME, "draft.json"))


def _read_archive(file: Path) -> dict[str, dict[str, bytes]]:
    """Result -> path -> content, every checksum right."""
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST_BYTES:
                raise ResultError(f"'{file}' is larger than any export", hint="check the path")
            manifest = _manifest(archive.read(MANIFEST), file)
            contents = {place: archive.read(place) for place in manifest.sha256}
    except (KeyError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise ResultError(f"'{file}' is no export of raidlab, or is damaged: {error}", hint="copy it again") from None
    except OSError as error:
        raise storage_error(f"'{file}' cannot be read", error) from error
    found: dict[str, dict[str, bytes]] = {}
    for place, data in contents.items():
        if hashlib.sha256(data).hexdigest() != manifest.sha256[place]:
            raise ResultError(f"'{file}' is damaged: the checksum of {place} is wrong", hint="copy it again")
        folder, _, rest = place.partition("/")
        result_id, _, path = rest.partition("/")
        if folder != "results" or not (path == RECORD_NAME or _RAW.fullmatch(path)):
            raise ResultError(f"'{file}' holds '{place}', which belongs to no result", hint="do not use this file")
        found.setdefault(result_id, {})[path] = data
    lacking = [result_id for result_id, files in found.items() if RECORD_NAME not in files]
    if lacking:
        raise ResultError(f"'{file}' has no record of {', '.join(lacking)}", hint="copy it again")
    return found


def _manifest(data: bytes, file: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ResultError(f"'{file}' is no export of raidlab: {error}", hint="check the path") from None
    if manifest.kind != KIND:
        raise ResultError(f"'{file}' is no export of raidlab", hint="check the path")
    if manifest.format_version > FORMAT_VERSION:
        raise ResultError(
            f"'{file}' has export format {manifest.format_version}; this raidlab reads up to {FORMAT_VERSION}",
            hint="read it with a newer raidlab",
        )
    return manifest
