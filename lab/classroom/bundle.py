"""Read and write bundles.

A bundle contains results and practice, that is, lessons and drills, and is signed so that changes are detected.

::

    manifest.json                  kind, format, public key, and the SHA-256 of every other file
    manifest.sig                   the key's signature over manifest.json
    results/<id>/record.json       the complete record
    results/<id>/raw/NNNN.json.gz  fio's documents, unchanged
    lessons/<id>.json              the progress in one lesson
    drills/<outcome id>.json       a finished drill with its verdict

The signature covers the checksums, and the checksums cover the files. A bundle with any other file is rejected.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from lab import __version__
from lab.errors import LabError, ResultError
from lab.gates.decoding import FormatVersion, decode_json
from lab.gates.files import MOST_DOCUMENT_BYTES, MOST_OWN_BYTES, MOST_RECORD_BYTES, open_plain
from lab.gates.text import is_name, visible
from lab.host.files import create_file, make_folder, storage_error, write_file
from lab.results.record import ResultRecord, refuse_newer
from lab.results.store import RECORD_NAME, ResultFiles, ResultStore, checked_id, files_of, is_document, unpacked
from lab.units import GIB, MIB

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_NAME = "signing-key.pem"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def public_key_of(signer: Ed25519PrivateKey) -> str:
    """Return the public key that belongs to a private key, in hexadecimal digits."""
    return signer.public_key().public_bytes_raw().hex()


def fingerprint(public_key: str) -> str:
    """Return a short hash of a public key for people to compare, in four groups of four hexadecimal digits."""
    digits = hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:16]
    return "-".join(digits[place : place + 4] for place in range(0, 16, 4))


def load_signer(path: Path) -> Ed25519PrivateKey:
    """Return the private key in ``path``. If the file does not exist, create it, readable only by its owner.

    Raises ResultError if other users can read the key, if it is damaged, or if it cannot be written.
    """
    try:
        if not path.exists():
            _make_key(path)
        descriptor = open_plain(path, is_own=True)
        with open(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & _OTHERS:
                hint = f"run 'chmod 600 {path}', or delete the file, so that the next export creates a new key"
                raise ResultError(f"other users can read the key '{path}'", hint=hint)
            data = file.read(MOST_OWN_BYTES)
    except OSError as error:
        raise storage_error(f"the key '{path}' cannot be used", error) from error
    return _private_key(data, path)


def is_signed(public_key: str, signature: bytes, data: bytes) -> bool:
    """Whether ``signature`` is valid for ``data``. False if the key is invalid or the signature is malformed."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _make_key(path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    make_folder(path.parent, mode=0o700)
    # If two processes create a key at the same time, both use the first.
    create_file(path, data)


def _private_key(data: bytes, path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ResultError(f"'{path}' is not a raidlab key", hint="delete it, so that the next export creates a new key")
    return key


SUFFIX = ".zip"
KIND = "raidlab-export"
RESULTS_VERSION, FORMAT_VERSION = 2, 3
"""The format of bundles that contain only results, which older versions can read, and that of bundles with practice."""
LESSONS, DRILLS = "lessons", "drills"
"""The folders in a bundle that contain practice."""
MOST_PRACTICE = 1000
"""Maximum number of lessons and drills in a bundle. A term has a few dozen."""
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
MOST_BUNDLE_BYTES = GIB
"""Maximum size of the file, and of its uncompressed content. This is enough for a hundred of the largest results."""
_MOST_DIRECTORY_BYTES = 4 * MIB
"""Maximum size of the zip directory and of the manifest. This is enough for some 40,000 documents."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1 | 0x20 | 0x40
"""Flags of a zip entry that is encrypted, contains patched data, or uses strong encryption (APPNOTE.TXT, 4.4.4)."""
_COPY_AGAIN = "copy it again, or request a new export"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The checksums of the files in a bundle, and the key that signed them."""

    kind: str = KIND
    format_version: FormatVersion = RESULTS_VERSION
    raidlab_version: str
    public_key: str
    """The key that signed the bundle, in hexadecimal digits."""
    sha256: dict[str, str]
    """Maps each path in the bundle to its checksum in hexadecimal digits."""


class _Header(msgspec.Struct, frozen=True):
    kind: str = ""
    format_version: FormatVersion = 0


@dataclass(frozen=True, slots=True)
class Bundle(ResultFiles):
    """A bundle whose signature and checksums have been verified."""

    manifest: Manifest
    practice: tuple[str, ...]
    """Paths of lessons and drills in the bundle, for lab.classroom.folder."""

    def records(self) -> Iterator[ResultRecord | LabError]:
        """Yield the result for each id in ``ids``, or the error if it cannot be read.

        Raises ResultError if the file was replaced in the meantime.
        """
        with _open(self.source) as archive:
            for result_id in self.ids:
                try:
                    data = _content(archive, self.manifest, f"results/{result_id}/{RECORD_NAME}", self.source)
                    yield self.checked(result_id, data)
                except LabError as error:
                    yield error


def export_results(
    store: ResultStore, names: Sequence[str], file: Path, practice: Mapping[str, bytes] = MappingProxyType({})
) -> tuple[str, ...]:
    """Write a signed bundle to ``file`` atomically, and return the ids of its results.

    ``practice`` maps paths in the bundle to the contents of those files. Raises ResultError if a result cannot be read,
    or if the file cannot be written.
    """
    ids = tuple(dict.fromkeys(store.find(name) for name in names))
    if not ids and not practice:
        raise ResultError(
            "no result was specified",
            hint="give an id from 'raidlab results', or add lessons and drills with --practice",
        )
    if len(practice) > MOST_PRACTICE:
        raise ResultError(
            f"a bundle holds at most {MOST_PRACTICE} lessons and drills, but there are {len(practice)}",
            hint=f"move old drills out of '{store.root.parent / DRILLS}'",
        )
    results = {result_id: dict(files_of(store, store.load(result_id))) for result_id in ids}
    with store.runs.changing():
        signer = load_signer(store.root.parent / KEY_NAME)
    write_file(file, write_bundle(results, signer, practice))
    return ids


def write_bundle(
    results: Mapping[str, Mapping[str, bytes]],
    signer: Ed25519PrivateKey,
    practice: Mapping[str, bytes] = MappingProxyType({}),
) -> bytes:
    """Return the bytes of a bundle, which depend only on the files and the key."""
    buffer = io.BytesIO()
    contents = {f"results/{name}/{path}": data for name, files in results.items() for path, data in files.items()}
    contents |= practice
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, data in contents.items():
            archive.writestr(_entry(place), data)
        manifest = Manifest(
            format_version=FORMAT_VERSION if practice else RESULTS_VERSION,
            raidlab_version=__version__,
            public_key=public_key_of(signer),
            sha256={place: hashlib.sha256(data).hexdigest() for place, data in contents.items()},
        )
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        archive.writestr(_entry(MANIFEST), text)
        archive.writestr(_entry(SIGNATURE), signer.sign(text))
    return buffer.getvalue()


def _entry(place: str) -> zipfile.ZipInfo:
    """Return a zip entry without a time stamp, so that the same files give the same bytes."""
    entry = zipfile.ZipInfo(place)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


class _Archive(io.FileIO):
    """A file that limits each read to the size of the largest valid zip directory, which zipfile reads in one call."""

    def read(self, size: int | None = -1) -> bytes:
        most = _MOST_DIRECTORY_BYTES + 1
        data = super().read(most if size is None or size < 0 else min(size, most)) or b""
        if len(data) > _MOST_DIRECTORY_BYTES:
            raise zipfile.BadZipFile("its directory is too large for a raidlab export")
        return data


@contextmanager
def _open(file: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive. Raises ResultError unless it is a zip file that raidlab could have written."""
    try:
        with _Archive(open_plain(file)) as raw:
            if os.fstat(raw.fileno()).st_size > MOST_BUNDLE_BYTES:
                raise ResultError(f"'{file}' is too large to be a raidlab export", hint="check the path")
            with zipfile.ZipFile(raw) as archive:
                yield archive
    # zipfile raises RuntimeError if an entry is encrypted, and NotImplementedError if its compression is unsupported.
    except (KeyError, zipfile.BadZipFile, EOFError, RuntimeError, zlib.error, ValueError, struct.error) as error:
        raise ResultError(f"'{file}' is not a raidlab export, or is damaged: {error}", hint=_COPY_AGAIN) from None
    except OSError as error:
        raise storage_error(f"'{file}' cannot be read", error) from error


def _read_entry(archive: zipfile.ZipFile, place: str, most_bytes: int) -> bytes:
    """Return the content of an entry. Its header may state a false size, so decompression limits the size."""
    pieces: list[bytes] = []
    with archive.open(place) as entry:
        while piece := entry.read(MIB):
            pieces.append(piece)
            if len(pieces) * MIB > most_bytes + MIB:
                raise zipfile.BadZipFile(f"{place} is too large for a raidlab export")
    return b"".join(pieces)


def read_bundle(file: Path) -> Bundle:
    """Read a bundle, and verify its signature, its checksums and the compression of its documents.

    Raises ResultError if the file is not a bundle, is truncated, was written by a newer version, is unsigned, or was
    edited.
    """
    with _open(file) as archive:
        _refuse_strange(archive, file)
        manifest = _manifest(archive, file)
        _refuse_edited(archive, manifest, file)
        found: dict[str, list[str]] = {}
        practice = tuple(place for place in manifest.sha256 if _is_practice(place, manifest))
        if len(practice) > MOST_PRACTICE:
            raise ResultError(f"'{file}' has too many lessons and drills for an export", hint="do not use this file")
        for place in practice:
            _content(archive, manifest, place, file)
        for place in (each for each in manifest.sha256 if not _is_practice(each, manifest)):
            result_id, path = _parted(place, file)
            data = _content(archive, manifest, place, file)
            if path != RECORD_NAME:
                unpacked(data, f"{place} in '{file}'")
            found.setdefault(result_id, []).append(path)
    lacking = [result_id for result_id, paths in found.items() if RECORD_NAME not in paths]
    if lacking:
        raise ResultError(f"'{file}' has no record of {', '.join(lacking)}", hint=_COPY_AGAIN)

    def read(result_id: str, names: Iterable[str]) -> Iterator[bytes]:
        # The checksums are verified again, since the file may have been replaced.
        with _open(file) as archive:
            for name in names:
                yield _content(archive, manifest, f"results/{result_id}/{name}", file)

    documents: Mapping[str, Collection[str]] = {result_id: frozenset(paths) for result_id, paths in found.items()}
    return Bundle(file, tuple(found), read, documents, manifest, practice)


def read_practice(bundle: Bundle) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each lesson and drill in a bundle.

    Raises ResultError if the file was replaced in the meantime.
    """
    with _open(bundle.source) as archive:
        for place in bundle.practice:
            yield place, _content(archive, bundle.manifest, place, bundle.source)


def _refuse_strange(archive: zipfile.ZipFile, file: Path) -> None:
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > MOST_BUNDLE_BYTES:
        raise ResultError(f"'{file}' is too large to be a raidlab export", hint="check the path")
    if any(entry.flag_bits & _ENCRYPTED for entry in entries):
        raise ResultError(f"'{file}' is encrypted, but exports never are", hint="decrypt it with its password first")
    if any(entry.compress_type not in _METHODS for entry in entries):
        raise ResultError(f"'{file}' is not compressed the way raidlab exports are", hint=_COPY_AGAIN)


def _refuse_edited(archive: zipfile.ZipFile, manifest: Manifest, file: Path) -> None:
    places = archive.namelist()
    strangers = sorted(set(places) - set(manifest.sha256) - {MANIFEST, SIGNATURE})
    if strangers or len(set(places)) < len(places):
        reason = f"it also contains {visible(', '.join(strangers[:3]))}" if strangers else "it contains a file twice"
        raise ResultError(f"'{file}' was edited: {reason}", hint=_COPY_AGAIN)


def _is_practice(place: str, manifest: Manifest) -> bool:
    folder, _, name = place.partition("/")
    is_place = folder in (LESSONS, DRILLS) and name.endswith(".json") and is_name(name)
    return is_place and manifest.format_version > RESULTS_VERSION


def _parted(place: str, file: Path) -> tuple[str, str]:
    """Return the id of the result to which ``place`` belongs, and the path in the folder of that result."""
    folder, result_id, path = [*place.split("/", 2), "", ""][:3]
    if folder != "results" or not (path == RECORD_NAME or is_document(path)):
        raise ResultError(
            f"'{file}' contains '{place}', which does not belong to a result", hint="do not use this file"
        )
    return checked_id(result_id), path


def _content(archive: zipfile.ZipFile, manifest: Manifest, place: str, file: Path) -> bytes:
    most_bytes = MOST_RECORD_BYTES if place.endswith(RECORD_NAME) else MOST_DOCUMENT_BYTES
    data = _read_entry(archive, place, MOST_OWN_BYTES if _is_practice(place, manifest) else most_bytes)
    if hashlib.sha256(data).hexdigest() != manifest.sha256.get(place):
        raise ResultError(f"'{file}' was edited: the checksum of {place} is wrong", hint=_COPY_AGAIN)
    return data


def _manifest(archive: zipfile.ZipFile, file: Path) -> Manifest:
    """Return the manifest after verifying its signature.

    The format version is checked first, because a newer format may have a different signature.
    """
    data = _read_entry(archive, MANIFEST, _MOST_DIRECTORY_BYTES)
    try:
        header = decode_json(data, _Header)
        if header.kind != KIND:
            raise ResultError(f"'{file}' is not a raidlab export", hint="check the path")
        refuse_newer(file, "export", header.format_version, FORMAT_VERSION)
        if header.format_version < RESULTS_VERSION:
            raise ResultError(
                f"'{file}' is not signed, because an older raidlab wrote it", hint="export its results again"
            )
        manifest = decode_json(data, Manifest)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{file}' is not a raidlab export: {error}", hint="check the path") from None
    if SIGNATURE not in archive.namelist():
        raise ResultError(f"'{file}' was edited: its signature is missing", hint=_COPY_AGAIN)
    if not is_signed(manifest.public_key, _read_entry(archive, SIGNATURE, MIB), data):
        raise ResultError(f"'{file}' was edited: its signature does not match its contents", hint=_COPY_AGAIN)
    return manifest
