"""Files of the computer on which this client runs, reached through a root folder that tests replace.

What is written is put in place so that a reader finds the old text or the new, never a part, even after power fails.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from lab.errors import ResultError

_HINTS = {
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EDQUOT: "your quota is used up: delete old results, or choose another folder",
    errno.EFBIG: "the limit for file sizes is too low (ulimit -f)",
    errno.EROFS: "the file system is mounted read-only: choose another folder",
    errno.EACCES: "make the folder writable for you, or choose another folder",
    errno.EPERM: "make the folder writable for you, or choose another folder",
    errno.EMFILE: "allow more open files: ulimit -n 1024",
    errno.ENFILE: "this computer has too many files open: close other programs",
    errno.ENOMEM: "close other programs, or allow more memory (ulimit -v)",
    errno.EAGAIN: "close other programs, or allow more processes (ulimit -u)",
    errno.E2BIG: "the environment or the command is too long: unset large variables",
    errno.ENAMETOOLONG: "use a shorter name",
}


class HostFiles:
    """Small text files below ``root`` (a test passes a temporary folder)."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def path(self, name: str) -> Path:
        return self._root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """The file's text, or None if it is missing or may not be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


def advice(error: OSError, otherwise: str) -> str:
    """What to do about a refusal of the system."""
    return _HINTS.get(error.errno or 0, otherwise)


def storage_error(what: str, error: OSError) -> ResultError:
    """The error for a refusal of the file system, with what to do about it."""
    return ResultError(f"{what}: {error.strerror or error}", hint=advice(error, "check the disk that holds it"))


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; a disk that fills up may take only some at first. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Put ``data`` at ``path`` in one move: temporary file, fsync, rename, fsync of the folder.

    Raises OSError; then the temporary file is gone and what was at ``path`` is untouched. What is not ``is_durable``
    may be lost when power fails, but not torn. A pipe or a device for characters, such as /dev/stdout, stays what it is
    and is written to; a disk never is.
    """
    if path.exists() and not path.is_file():
        _write_to_special(path, data)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            write_all(descriptor, data)
            if is_durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        if is_durable:
            sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write_to_special(path: Path, data: bytes) -> None:
    if path.is_block_device():
        raise OSError(errno.EINVAL, "it is a disk", str(path))
    # One that has no reader is refused (ENXIO) and not waited for.
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        os.set_blocking(descriptor, True)
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """As ``replace_file``, durably. Raises ResultError with what to do about it."""
    try:
        replace_file(path, data)
    except OSError as error:
        raise storage_error(f"'{path}' cannot be written", error) from error
