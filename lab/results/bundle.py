"""Bundles: results as one file that shows whether it was changed.

::

    manifest.json                  kind, format, public key, and the SHA-256 of every other file
    manifest.sig                   the key's signature over manifest.json
    results/<id>/record.json       the whole record
    results/<id>/raw/NNNN.json.gz  fio's documents, word for word

Every byte is covered: the checksums by the signature, the files by the checksums, and a file without a checksum is
refused.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.errors import ResultError
from lab.results.atomic import storage_error
from lab.results.record import ResultRecord
from lab.results.signing import Signer, fingerprint, is_signed
from lab.results.store import RECORD_NAME, decode_record
from lab.units import GIB

KIND = "raidlab-export"
FORMAT_VERSION = 2
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
LARGEST_BYTES = GIB
"""Of everything in a bundle, unpacked: more is no result of this program."""
_RAW = re.compile(r"raw/[0-9]{4,}\.json\.gz")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COPY_AGAIN = "copy it again, or ask for a new export"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle holds."""

    kind: str = KIND
    format_version: int = FORMAT_VERSION
    raidlab_version: str
    public_key: str
    """Of the key that signed, in hexadecimal digits."""
    sha256: dict[str, str]
    """Path in the bundle -> checksum in hexadecimal digits."""


class _Header(msgspec.Struct, frozen=True):
    kind: str = ""
    format_version: int = 0


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was checked as a whole."""

    file: Path
    manifest: Manifest
    results: Mapping[str, Mapping[str, bytes]]
    """Id -> path in the result's folder -> content."""
    has_raw: bool = True
    """Whether fio's documents were read too."""

    @property
    def key_fingerprint(self) -> str:
        """Whose key signed it, for people to compare."""
        return fingerprint(self.manifest.public_key)

    def record(self, result_id: str) -> ResultRecord:
        """One result. Raises ResultError if it is damaged, newer than this raidlab, or another one's."""
        files = self.results[result_id]
        record = decode_record(files[RECORD_NAME], source=f"{self.file}/{result_id}")
        check_result(record, result_id, files if self.has_raw else None, self.file)
        return record


def write_bundle(results: Mapping[str, Mapping[str, bytes]], signer: Signer, *, raidlab_version: str) -> bytes:
    """The bytes of a bundle; the same for the same results and key."""
    buffer = io.BytesIO()
    sums: dict[str, str] = {}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for result_id, files in results.items():
            for path, data in files.items():
                place = f"results/{result_id}/{path}"
                sums[place] = hashlib.sha256(data).hexdigest()
                archive.writestr(_entry(place), data)
        manifest = Manifest(raidlab_version=raidlab_version, public_key=signer.public_key, sha256=sums)
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        archive.writestr(_entry(MANIFEST), text)
        archive.writestr(_entry(SIGNATURE), signer.sign(text))
    return buffer.getvalue()


def _entry(place: str) -> zipfile.ZipInfo:
    """Without the time of writing, so that the same results make the same bytes."""
    entry = zipfile.ZipInfo(place)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def read_bundle(file: Path, *, with_raw: bool = True) -> Bundle:
    """A bundle, every checksum and the signature right. ``with_raw=False`` leaves fio's documents out, unchecked.

    Raises ResultError that tells what is wrong: no bundle, cut off, newer, unsigned, or edited.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            places = [entry.filename for entry in archive.infolist()]
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST_BYTES:
                raise ResultError(f"'{file}' is larger than any export", hint="check the path")
            manifest = _manifest(archive, file)
            contents = {
                place: archive.read(place) for place in manifest.sha256 if with_raw or place.endswith(RECORD_NAME)
            }
    except (KeyError, zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error, ValueError) as error:
        raise ResultError(f"'{file}' is no export of raidlab, or is damaged: {error}", hint=_COPY_AGAIN) from None
    except OSError as error:
        raise storage_error(f"'{file}' cannot be read", error) from error
    strangers = sorted(set(places) - set(manifest.sha256) - {MANIFEST, SIGNATURE})
    if strangers or len(set(places)) < len(places):
        raise ResultError(f"'{file}' was edited: {', '.join(strangers) or 'a file is there twice'}", hint=_COPY_AGAIN)
    return Bundle(file, manifest, _by_result(contents, manifest, file), with_raw)


def _by_result(contents: Mapping[str, bytes], manifest: Manifest, file: Path) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for place, data in contents.items():
        if hashlib.sha256(data).hexdigest() != manifest.sha256[place]:
            raise ResultError(f"'{file}' was edited: the checksum of {place} is wrong", hint=_COPY_AGAIN)
        folder, _, rest = place.partition("/")
        result_id, _, path = rest.partition("/")
        if folder != "results" or not (path == RECORD_NAME or _RAW.fullmatch(path)):
            raise ResultError(f"'{file}' holds '{place}', which belongs to no result", hint="do not use this file")
        found.setdefault(result_id, {})[path] = data
    lacking = [result_id for result_id, files in found.items() if RECORD_NAME not in files]
    if lacking:
        raise ResultError(f"'{file}' has no record of {', '.join(lacking)}", hint=_COPY_AGAIN)
    return found


def _manifest(archive: zipfile.ZipFile, file: Path) -> Manifest:
    """The manifest, if its own key signed it; the format is looked at first, since a newer one may sign otherwise."""
    data = archive.read(MANIFEST)
    try:
        header = msgspec.json.decode(data, type=_Header)
        if header.kind != KIND:
            raise ResultError(f"'{file}' is no export of raidlab", hint="check the path")
        if header.format_version > FORMAT_VERSION:
            raise ResultError(
                f"'{file}' has export format {header.format_version}; this raidlab reads up to {FORMAT_VERSION}",
                hint="read it with a newer raidlab",
            )
        if header.format_version < FORMAT_VERSION:
            raise ResultError(f"'{file}' is not signed: an older raidlab made it", hint="export its results again")
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{file}' is no export of raidlab: {error}", hint="check the path") from None
    if SIGNATURE not in archive.namelist():
        raise ResultError(f"'{file}' was edited: its signature is gone", hint=_COPY_AGAIN)
    if not is_signed(manifest.public_key, archive.read(SIGNATURE), data):
        raise ResultError(f"'{file}' was edited: its signature does not fit its contents", hint=_COPY_AGAIN)
    return manifest


def check_result(record: ResultRecord, result_id: str, files: Mapping[str, bytes] | None, source: Path) -> None:
    """Raises ResultError for a result under another one's name, or without documents of fio that its record names."""
    if record.id != result_id or not _ID.fullmatch(result_id):
        raise ResultError(
            f"'{source}' holds result '{record.id}' under the name '{result_id}'", hint="restore the file"
        )
    if files is None:
        return
    missing = [name for name in record.files if name not in files]
    if missing:
        raise ResultError(f"result '{result_id}' lacks {', '.join(missing[:3])}", hint="copy its whole folder")
