"""Stores records as run folders, journals and single files, whatever the records contain.

A package that stores records defines its own ``msgspec.Struct`` types and uses

* ``RunFolders`` for runs. Each run has a folder with a header file, journals and a lock. A run grows entry by entry, or
  is stored as a whole. If a run is interrupted, a later command removes its leftovers;
* ``Journal`` for entries that are added one at a time, each durable before the next;
* ``RecordFiles`` for records that are complete when they are written, one file each;
* ``RecordFile`` for one file that is replaced as a whole.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from lab.errors import LabError, MachineBusy, ResultError
from lab.gates.decoding import decode_json, read_own_json
from lab.gates.files import MOST_OWN_BYTES, MOST_RECORD_BYTES, make_own_folder, read_plain
from lab.gates.text import checked_name, is_name, shortened
from lab.host.clock import HostClock, polls
from lab.host.files import (
    ALONE,
    SHARED,
    create_file,
    locked,
    open_to_append,
    require_written,
    storage_error,
    sync_folder,
    take,
    write_all,
    write_file,
)

T = TypeVar("T")
Other = TypeVar("Other")


class RunHeader(Protocol):
    """The fields that every header has."""

    @property
    def id(self) -> str: ...

    @property
    def format_version(self) -> int: ...


Header = TypeVar("Header", bound=RunHeader)

LATEST = "latest"
LOCK_NAME = "lock"
_STORE_LOCK = ".changing"
_PARTIAL = re.compile(r"\.(importing|deleting|replacing)-(.+?)(\.[0-9]+)?")
_COMMANDS = {"importing": "import", "deleting": "delete", "replacing": "replace"}
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]+\.tmp")
_TIME = re.compile(r"[0-9]{8}T[0-9]{6}Z(-|\Z)")
_MOST_WORD = 80
"""Maximum length of the words in an id, so that with time and number it remains a valid name (lab.gates.text)."""
_POLL_SECONDS = 1.0
"""``_is_locked`` takes the lock briefly; a process that opens the run retries for this long."""


@dataclass(frozen=True, slots=True)
class RunFolders:
    """The runs below ``root``, which is created with the first run.

    ``noun`` is the word for one run in messages ("sweep"). A run's folder contains at least one of the files
    ``header_names``. ``begin_hint`` is the hint if there are no runs, and ``list_hint`` if no run has a given name.
    """

    root: Path
    noun: str
    header_names: tuple[str, ...]
    begin_hint: str
    list_hint: str
    state_root: Path | None = None
    """The state folder, if ``root`` is inside it; all folders below the state folder must belong to this user."""
    inner: tuple[str, ...] = ()
    """Subfolders of a run's folder that contain more of its files."""
    beside: tuple[Path, ...] = ()
    """Folders outside ``root`` whose files are created or replaced only within ``changing``."""
    most_header_bytes: int = MOST_OWN_BYTES

    @property
    def header(self) -> str:
        return self.header_names[0]

    def path(self, run_id: str) -> Path:
        """Return the folder of a run. Raises ResultError if the id is invalid."""
        return self.root / checked_name(run_id, self.noun, error=ResultError)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all runs, newest first. Raises ResultError if the folder cannot be read."""
        return tuple(name for name in self.names() if is_name(name))

    def names(self) -> tuple[str, ...]:
        """Return the names of all folders with a header, in descending order. Names need not be valid ids."""
        try:
            found = [path.name for path in self.root.iterdir() if not path.name.startswith(".") and self.has(path.name)]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise storage_error(f"'{self.root}' cannot be read", error) from error
        return tuple(sorted(found, reverse=True))

    def find(self, word: str, latest: Callable[[Sequence[str]], str] = max) -> str:
        """Return the only id that begins with ``word``, or the id that ``latest`` chooses if it is "latest".

        Raises ResultError if no id or more than one matches.
        """
        # Avoid listing all other runs, because a report on thousands of runs looks up each one.
        if word != LATEST and is_name(word) and self.has(word):
            return word
        ids = self.ids()
        if not ids:
            raise ResultError(f"there is no {self.noun} in '{self.root}'", hint=self.begin_hint)
        if word == LATEST:
            return latest(ids)
        found = [each for each in ids if word and each.startswith(word)]
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(found[:10]) + (", …" if len(found) > 10 else "")
            raise ResultError(
                f"'{shortened(word)}' matches {len(found)} {self.noun}s: {some}", hint="give a longer part of the id"
            )
        raise ResultError(f"there is no {self.noun} '{shortened(word)}' in '{self.root}'", hint=self.list_hint)

    def has(self, run_id: str) -> bool:
        return any(is_there(self.root / run_id / name) for name in self.header_names)

    def create(self, first: str, *, mode: int = 0o700) -> Path:
        """Create a new run's folder. The id is ``first``, or ``first-2`` and so on if that id is taken. Raises OSError.

        Call this within ``changing``.
        """
        for name in numbered(first):
            with suppress(FileExistsError):
                self.path(name).mkdir(mode=mode)
                return self.path(name)
        raise AssertionError("all numbers are in use")

    def write_header(self, record: msgspec.Struct, run_id: str) -> None:
        """Write a header atomically and durably. Raises ResultError."""
        write_file(self.path(run_id) / self.header, msgspec.json.format(msgspec.json.encode(record), indent=1))

    def read_header(self, run_id: str, kind: type[T]) -> T:
        """Read a header. Raises ResultError if it is missing or damaged."""
        path = self.path(run_id) / self.header
        try:
            return decode_json(read_plain(path, self.most_header_bytes, is_own=True), kind)
        except OSError as error:
            raise storage_error(f"'{path}' cannot be read", error) from None
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ResultError(f"'{path}' is damaged: {error}", hint="restore it from a copy, or delete it") from None

    def good_header(self, run_id: str, kind: type[Header], format_version: int) -> Header:
        """Read a header, and require this format version and this id in it. Raises ResultError."""
        header = self.read_header(run_id, kind)
        if (header.format_version, header.id) != (format_version, run_id):
            raise ResultError(
                f"'{self.path(run_id)}' has a different format version, or its name is not the id of its {self.noun}",
                hint="read it with the raidlab version that wrote it, or restore its name",
            )
        return header

    def headers(self, kind: type[Header], format_version: int) -> dict[str, Header]:
        """Return the headers that ``good_header`` accepts, by the id of the run, newest first."""
        found: dict[str, Header] = {}
        for run_id in self.ids():
            with suppress(ResultError):
                found[run_id] = self.good_header(run_id, kind, format_version)
        return found

    def is_held(self, run_id: str) -> bool:
        """Whether a process is writing the run; False if this is unknown. No write permission is needed."""
        with suppress(OSError):
            return _is_locked(self.path(run_id) / LOCK_NAME)
        return False

    @contextmanager
    def held(self, run_id: str) -> Iterator[None]:
        """Hold a run's lock. Raises MachineBusy if another process holds it, or ResultError if it cannot be taken."""
        folder = self.path(run_id)
        with ExitStack() as stack:
            try:
                for is_last in polls(HostClock(), _POLL_SECONDS, 0.02):
                    try:
                        stack.enter_context(locked(folder / LOCK_NAME, ALONE))
                        break
                    except BlockingIOError:
                        if is_last:
                            busy = f"another raidlab is writing {self.noun} {run_id}"
                            raise MachineBusy(busy, hint="wait until it has finished, or stop it") from None
            except OSError as error:
                raise storage_error(f"'{folder}' cannot be locked", error) from error
            yield

    @contextmanager
    def begin(self, first: str) -> Iterator[Path]:
        """Create the folder of a new run as ``create`` does, and hold its lock inside the context. Raises LabError."""
        self.remove_leftovers()
        with ExitStack() as stack:
            try:
                # Without its lock the empty folder would count as a leftover.
                with self.changing():
                    folder = self.create(first)
                    stack.enter_context(self.held(folder.name))
            except OSError as error:
                raise storage_error(f"no {self.noun} can be stored in '{self.root}'", error) from error
            yield folder

    def delete(self, run_id: str, *, is_held: bool = False) -> None:
        """Remove a run. Set ``is_held`` if the caller holds its lock.

        Raises MachineBusy if another process holds the lock, and ResultError if the run cannot be removed.
        """
        folder = self.path(run_id)
        doomed = folder.with_name(f".deleting-{run_id}.{os.getpid()}")
        try:
            with self.changing():
                with nullcontext() if is_held else self.held(run_id):
                    folder.rename(doomed)
                shutil.rmtree(doomed)
        except OSError as error:
            raise storage_error(f"{self.noun} {run_id} cannot be deleted", error) from error

    def put(self, run_id: str, files: Iterable[tuple[str, bytes]], *, replaces: bool = False) -> Path:
        """Store a complete run and return its folder. ``files`` contains pairs of (path in the folder, content).

        With ``replaces``, an existing run with this id is replaced. Without it, an existing run is an error. Raises
        ResultError, or any error that ``files`` raises. After an error, the store is unchanged.
        """
        folder = self.path(run_id)
        part = self.root / f".importing-{run_id}.{os.getpid()}"
        old = self.root / f".replacing-{run_id}.{os.getpid()}"
        try:
            with self.changing():
                try:
                    part.mkdir(mode=0o700)
                    for name, data in files:
                        (part / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                        write_file(part / name, data)
                    if replaces and folder.exists():
                        folder.rename(old)
                    part.rename(folder)
                    sync_folder(self.root)
                finally:
                    if is_there(old):
                        _discard_or_restore(old, folder)
                    shutil.rmtree(part, ignore_errors=True)
        except OSError as error:
            raise storage_error(f"{self.noun} {run_id} cannot be stored in '{self.root}'", error) from error
        return folder

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep new and moved entries from being removed as leftovers. Creates ``root``. Raises LabError or OSError."""
        make_own_folder(self.root, f"the folder for {self.noun}s", root=self.state_root)
        with locked(self.root / _STORE_LOCK, SHARED, waits=True):
            yield

    def remove_leftovers(self) -> list[str]:
        """Remove the leftovers of killed commands, unless another process is changing the store.

        Return a sentence for each one that was removed.
        """
        try:
            if not any(True for _ in self._leftovers()):
                return []
            with locked(self.root / _STORE_LOCK, ALONE):
                return [sentence for path, sentence in list(self._leftovers()) if _remove(path)]
        except (OSError, LabError):
            return []

    def _leftovers(self) -> Iterator[tuple[Path, str]]:
        for entry in sorted(os.scandir(self.root), key=lambda entry: entry.name):
            if found := _PARTIAL.fullmatch(entry.name):
                yield Path(entry), f"removed the remains of a killed {_COMMANDS[found[1]]} of {self.noun} '{found[2]}'"
            elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    yield from self._leftovers_in(Path(entry))
        for path in (each for folder in self.beside for each in _temporary_files(folder)):
            yield path, f"removed '{path.name}', left by a killed command"

    def _leftovers_in(self, folder: Path) -> Iterator[tuple[Path, str]]:
        there = [name for name in self.header_names if (folder / name).exists()]
        if len(self.header_names) > 1 and there == [self.header]:
            # The other header is removed last, so this run is complete.
            return
        inner = [folder / name for name in self.inner]
        temporary = [path for each in (folder, *inner) for path in _temporary_files(each)]
        if not there:
            others = {*folder.iterdir(), *(path for each in inner for path in each.glob("*"))} - {*inner, *temporary}
            others.discard(folder / LOCK_NAME)
            if _TIME.match(folder.name) and not others and not _is_locked(folder / LOCK_NAME):
                yield folder, f"removed the empty folder of {self.noun} '{folder.name}'"
        elif temporary and not self.is_held(folder.name):
            for path in temporary:
                yield path, f"removed '{path.name}', left by a killed run in {self.noun} '{folder.name}'"


def is_there(path: Path) -> bool:
    """Whether ``path`` exists; also true if access to it is denied."""
    try:
        path.lstat()
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
    return True


def stem(now: datetime, word: str = "") -> str:
    """Return the beginning of an id: a time such as ``20261121T100129Z``, then ``-`` and ``id_word(word)`` if any."""
    time = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    plain = id_word(word)
    return f"{time}-{plain}" if plain else time


def id_word(text: str) -> str:
    """Return ``text`` in the form that ids use: lowercase letters and digits, separated by ``-``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MOST_WORD].strip("-")


def numbered(first: str) -> Iterator[str]:
    """Yield ``first``, ``first-2``, ``first-3`` and so on."""
    yield first
    for number in count(2):
        yield f"{first}-{number}"


def _is_locked(lock: Path) -> bool:
    """Whether a process holds the lock; False if the file does not exist. Raises OSError if this is unknown."""
    # The file is opened read-only and the lock is shared, so this works on read-only storage and with other readers.
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        take(descriptor, SHARED, lock)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _temporary_files(folder: Path) -> list[Path]:
    """Return the temporary files of lab.host.files that killed processes left behind."""
    try:
        return sorted(Path(entry) for entry in os.scandir(folder) if _TEMPORARY.fullmatch(entry.name))
    except (OSError, LabError):
        return []


def _discard_or_restore(old: Path, folder: Path) -> None:
    """Remove the old version of a replaced run, or restore it if no new version has taken its place."""
    if is_there(folder):
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.rename(folder)


def _remove(path: Path) -> bool:
    with suppress(OSError):
        if (found := _PARTIAL.fullmatch(path.name)) and found[1] == "replacing":
            _discard_or_restore(path, path.with_name(found[2]))
        elif path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path)
        return True
    return False


Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Journal(Generic[Entry]):
    """A file with one JSON document of type ``kind`` per line. A line is valid once its line end is written.

    Several processes may read at any time. Only the holder of the folder's lock may append. The holder calls ``repair``
    before its first ``append`` to a file that another process may have started.
    """

    path: Path
    kind: Any
    """The type of an entry, which may be a union."""
    hint: str = "restore it from a copy, or remove the line"
    """The hint for a damaged line."""
    skips_damaged: bool = False
    """Skip damaged lines. This is for entries that are created again if they are missing."""
    is_own: bool = True
    """The file must belong to this user and have no other hard link."""
    is_durable: bool = True
    """An entry survives a power failure as soon as ``append`` returns."""
    most_bytes: int = MOST_RECORD_BYTES
    decode: Callable[[bytes, Any], Any] = decode_json
    error: type[LabError] = ResultError

    def read(self) -> list[Entry]:
        """Read all complete lines; return no entries if there is no file.

        An incomplete last line, left by a crash, is ignored. Raises ``error`` if a line is damaged, or if the file does
        not belong to this user or is larger than ``most_bytes``.
        """
        data = self._data()
        found: list[Entry] = []
        for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n")[:-1], start=1):
            try:
                found.append(self.decode(line, self.kind))
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                if not self.skips_damaged:
                    raise self.error(f"'{self.path}', line {number} is damaged: {error}", hint=self.hint) from None
        return found

    def repair(self) -> None:
        """Remove an incomplete last line. Raises ``error`` if the file cannot be read or changed."""
        data = self._data()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            try:
                os.truncate(self.path, whole)
            except OSError as error:
                raise self._refused(f"'{self.path}' cannot be repaired", error) from error

    def append(self, entry: Entry) -> None:
        """Append one entry as a line. If this raises ``error``, the file has its previous length again.

        A killed process may leave an incomplete last line.
        """
        try:
            line = msgspec.json.encode(entry) + b"\n"
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            raise self.error(f"an entry of '{self.path}' contains a value that cannot be stored: {error}") from None
        refusal = f"no entry can be stored in '{self.path}'"
        try:
            descriptor = open_to_append(self.path, error=self.error)
            before = os.fstat(descriptor).st_size
        except OSError as error:
            raise self._refused(refusal, error) from error
        try:
            write_all(descriptor, line)
            if self.is_durable:
                os.fsync(descriptor)
                if before == 0:
                    # The name of a new file must be durable as well.
                    sync_folder(self.path.parent)
            require_written(descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise self._refused(refusal, error) from error
        finally:
            # Errors of close(2) were checked after the write (require_written).
            with suppress(OSError):
                os.close(descriptor)

    def _data(self) -> bytes:
        try:
            return read_plain(self.path, self.most_bytes, is_own=self.is_own, error=self.error)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._refused(f"'{self.path}' cannot be read", error) from error

    def _refused(self, what: str, error: OSError) -> LabError:
        found = storage_error(what, error)
        return self.error(found.message, hint=found.hint)


Record = TypeVar("Record", bound=msgspec.Struct)


@dataclass(frozen=True)
class RecordFiles(Generic[Record]):
    """Records of one kind below ``root``, a folder that is created with the first record.

    ``noun`` is the word for one record in messages.
    """

    root: Path
    noun: str
    kind: type[Record]
    state_root: Path | None = None
    """The state folder, if ``root`` is inside it; all folders below the state folder must belong to this user."""

    def add(self, first: str, make: Callable[[str], Record], *, folder: str = "") -> Record:
        """Choose an id, and store the record that ``make`` returns for this id.

        The id is ``first``, or ``first-2`` and so on if that id is taken. Two concurrent processes get different ids.
        The record is stored in ``root`` or, if ``folder`` is given, in this subfolder. Raises ResultError if the record
        cannot be stored, and LabError if the folder does not belong to this user.
        """
        place = self.root / checked_name(folder, self.noun) if folder else self.root
        try:
            make_own_folder(place, f"the folder for {self.noun}s", root=self.state_root)
            for name in numbered(checked_name(first, self.noun)):
                record = make(name)
                data = msgspec.json.format(msgspec.json.encode(record), indent=1)
                if create_file(place / f"{name}.json", data):
                    return record
        except OSError as error:
            raise storage_error(f"no {self.noun} can be stored in '{place}'", error) from error
        raise AssertionError("all numbers are in use")

    def read(self, pattern: str = "*") -> Iterator[tuple[str, Record]]:
        """Yield the id and the record of every readable file below ``root``, sorted by path."""
        for path in sorted(self.root.glob(f"{pattern}.json")):
            with suppress(ResultError, OSError):
                yield path.stem, read_own_json(path, self.kind)


@dataclass(frozen=True)
class RecordFile(Generic[T]):
    """One JSON file of type ``kind`` that is replaced as a whole."""

    path: Path
    kind: type[T]
    error: type[LabError] = ResultError
    indent: int = -1
    """The ``indent`` argument of msgspec.json.format; -1 means compact."""
    is_durable: bool = True
    """The content survives a power failure as soon as ``replace`` returns."""
    most_bytes: int = MOST_OWN_BYTES

    def read(self) -> T | None:
        """Return the content, or None if there is no file. Raises ``error`` if the file is damaged or unreadable."""
        with suppress(FileNotFoundError):
            return read_own_json(self.path, self.kind, most_bytes=self.most_bytes, error=self.error)
        return None

    def read_or(self, default: Other) -> T | Other:
        """Return the content, or ``default`` if the file is missing, damaged or unreadable."""
        with suppress(self.error):
            found = self.read()
            return default if found is None else found
        return default

    def replace(self, value: T | None) -> None:
        """Store the content atomically, or remove the file if ``value`` is None.

        Raises ResultError if storing fails, and OSError if the removal fails.
        """
        if value is None:
            self.path.unlink(missing_ok=True)
        else:
            data = msgspec.json.format(msgspec.json.encode(value), indent=self.indent)
            write_file(self.path, data, is_durable=self.is_durable)
