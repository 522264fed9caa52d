"""Journals: append-only files of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from lab.errors import LabError, ResultError
from lab.gates.decoding import decode_json
from lab.gates.files import MOST_RECORD_BYTES, read_plain
from lab.host.files import append_file, storage_error

T = TypeVar("T")


@dataclass(frozen=True)
class Journal(Generic[T]):
    """One JSON document of type ``kind`` per line; a line is valid once its line end is written.

    Several processes may read at any time. Only the holder of the folder's lock may append. It calls ``repair`` before
    its first ``append`` to a file that another process may have started.
    """

    path: Path
    kind: Any
    """The type of an entry, which may be a union."""
    hint: str = "restore it from a copy, or remove the line"
    """The hint for a damaged line."""
    skips_damaged: bool = False
    """Skip damaged lines. For entries that are recreated if missing."""
    is_own: bool = True
    """The file must belong to this user and have no other hard link."""
    is_durable: bool = True
    """An entry survives a power failure as soon as ``append`` returns."""
    most_bytes: int = MOST_RECORD_BYTES
    decode: Callable[[bytes, Any], Any] = decode_json
    error: type[LabError] = ResultError

    def read(self) -> list[T]:
        """All complete lines; empty if there is no file. An incomplete last line, torn by a crash, is ignored.

        Raises ``error`` for a damaged line, or a file that does not belong to this user or is larger than
        ``most_bytes``.
        """
        data = self._data()
        found: list[T] = []
        for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n")[:-1], start=1):
            try:
                found.append(self.decode(line, self.kind))
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                if not self.skips_damaged:
                    raise self.error(f"'{self.path}', line {number} is damaged: {error}", hint=self.hint) from None
        return found

    def repair(self) -> None:
        """Truncate an incomplete last line. Raises ``error`` as ``read``, or if the file cannot be changed."""
        data = self._data()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            try:
                os.truncate(self.path, whole)
            except OSError as error:
                raise self._refused(f"'{self.path}' cannot be repaired", error) from error

    def append(self, entry: T) -> None:
        """Append one entry.

        Raises ``error``; the file is then unchanged, except for a possible incomplete last line.
        """
        try:
            line = msgspec.json.encode(entry) + b"\n"
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            raise self.error(f"an entry of '{self.path}' has a value that cannot be stored: {error}") from None
        try:
            append_file(self.path, line, is_durable=self.is_durable)
        except OSError as error:
            raise self._refused(f"no entry can be stored in '{self.path}'", error) from error

    def remove(self) -> None:
        """Remove the file, if there is one. Raises OSError."""
        with suppress(FileNotFoundError):
            self.path.unlink()

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
