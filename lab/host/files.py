"""Read, write and lock files on the host on which this client runs, and store tracebacks of bugs.

A lock covers a whole file (flock(2)) or a single byte of a file, and is released when its holder ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import select
import stat
import struct
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import LabError, ResultError
from lab.gates.files import kind_of, open_plain

SHARED, ALONE = fcntl.LOCK_SH, fcntl.LOCK_EX
_NONE_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def open_lock(path: Path, *, error: type[LabError] = ResultError) -> int:
    """Open a lock file, and create a missing one. Raises OSError, or ``error`` if the file is not the lab's own."""
    return open_plain(path, os.O_RDWR | os.O_CREAT, is_own=True, error=error)


def take(descriptor: int, how: int, path: Path, *, waits: bool = False) -> None:
    """Lock an open file as ``SHARED`` or ``ALONE``. Raises OSError, or BlockingIOError if it is already locked."""
    try:
        fcntl.flock(descriptor, how if waits else how | fcntl.LOCK_NB)
    except OSError as error:
        raise _explained(error, path) from None


def take_byte(descriptor: int, place: int, path: Path) -> bool:
    """Lock a byte of an open file (F_OFD_SETLK, fcntl_locking(2)). Return False if it is locked. Raises OSError."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise _explained(error, path) from None
    return True


@contextmanager
def locked(path: Path, how: int, *, waits: bool = False) -> Iterator[None]:
    """Hold the lock on a file, which is created if it is missing. Raises the errors of ``open_lock`` and ``take``."""
    with open(open_lock(path), "rb") as lock:
        take(lock.fileno(), how, path, waits=waits)
        yield


def _explained(error: OSError, path: Path) -> OSError:
    if error.errno in _NONE_HERE:
        return OSError(errno.ENOLCK, f"the file system of '{path}' does not support locks")
    return error


_HINTS = {
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EDQUOT: "your quota is used up; delete old results, or choose another folder",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EROFS: "the file system is mounted read-only; choose another folder",
    errno.EACCES: "give yourself write permission on the folder, or choose another folder",
    errno.EPERM: "choose another name or folder, because this name may belong to another user",
    errno.EMFILE: "allow more open files: ulimit -n 1024",
    errno.ENFILE: "this computer has too many open files; close other programs",
    errno.ENOMEM: "close other programs, or allow more memory (ulimit -v)",
    errno.EAGAIN: "close other programs, or allow more processes (ulimit -u)",
    errno.E2BIG: "the environment or the command is too long; unset large variables",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ENOLCK: "keep the lab on a local disk: RAIDLAB_STATE=FOLDER",
    errno.EEXIST: "choose a file name that does not exist yet",
}
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_LONGEST_BYTES = 200
"""The name of a temporary file contains at most this many bytes of the file's name, because a name may have 255."""
_MOST_LINKS = 40
"""Maximum number of links that the kernel follows (path_resolution(7))."""


class HostFiles:
    """Reads small text files below ``root``, for which tests pass a temporary folder."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def path(self, name: str) -> Path:
        return self._root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """Return the file's text, or None if it is missing or may not be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


def advice(error: OSError, otherwise: str) -> str:
    """Return the hint for a system error, or ``otherwise`` if there is none."""
    return _HINTS.get(error.errno or 0, otherwise)


def storage_error(what: str, error: OSError) -> ResultError:
    """Return a ResultError for an error of the file system, with a hint."""
    return ResultError(f"{what}: {error.strerror or error}", hint=advice(error, "check the disk that it is on"))


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, even if one write(2) accepts only some, as when the disk fills up. Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            # The pipe is non-blocking, and its reader is slow.
            select.select([], [descriptor], [])


def require_written(descriptor: int) -> None:
    """Raise OSError for an error that a file system reports only on close(2), such as a full NFS server.

    To find such an error while the write can still be undone, this closes a copy of the descriptor.
    """
    os.close(os.dup(descriptor))


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable with fsync(2). Raises OSError."""
    with _opened(folder) as descriptor:
        os.fsync(descriptor)


def replace_file(path: Path, data: bytes, *, is_durable: bool = True, mode: int = 0o644) -> None:
    """Replace ``path`` atomically with a temporary file that contains ``data``, and make the change durable.

    The temporary file is synced and renamed, and then the folder is synced. If OSError is raised, the temporary file
    has been removed and ``path`` is unchanged. Without ``is_durable``, nothing is synced, and a power failure may lose
    the data. The umask applies to ``mode``.

    A file or a symlink at ``path`` is replaced, never written to. A pipe or a character device, such as /dev/stdout, is
    kept and written to. A disk or another user's pipe is refused.
    """
    ours = _own_descriptor(path)
    if ours is not None:
        if stat.S_ISBLK(os.fstat(ours).st_mode):
            raise OSError(errno.EINVAL, "it is a disk", str(path))
        _write(ours, data, is_durable=False)
    elif (special := _special_at(path)) is not None:
        _write_to_special(path, special, data)
    else:
        with _opened(path.parent) as folder, _temporary(folder, path.name, mode) as (name, descriptor):
            _write(descriptor, data, is_durable=is_durable)
            os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            if is_durable:
                os.fsync(folder)


def create_file(path: Path, data: bytes, *, is_durable: bool = True, mode: int = 0o600) -> bool:
    """Create a file at ``path``. If ``path`` exists, leave it alone and return False. Raises OSError."""
    with _opened(path.parent) as folder, _temporary(folder, path.name, mode) as (name, descriptor):
        _write(descriptor, data, is_durable=is_durable)
        try:
            try:
                # link(2) fails if the name exists, so only one of two concurrent callers creates the file.
                os.link(name, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                _create_without_links(folder, path.name, data, mode)
        except FileExistsError:
            return False
        if is_durable:
            os.fsync(folder)
    return True


def _write(descriptor: int, data: bytes, *, is_durable: bool) -> None:
    """Write all of ``data``, and check that the file system has stored it. Raises OSError."""
    write_all(descriptor, data)
    if is_durable:
        os.fsync(descriptor)
    require_written(descriptor)


def open_to_append(path: Path, *, error: type[LabError] = ResultError) -> int:
    """Open one of the lab's own files for appending, or create it for this user only. Raises OSError or ``error``."""
    return open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, is_own=True, error=error)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield the path of an empty file for a program to fill. At the end, the file replaces ``path``. Raises OSError."""
    with _opened(path.parent) as folder, _temporary(folder, path.name, 0o644) as (name, descriptor):
        before = os.fstat(descriptor)
        yield path.with_name(name)
        after = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino):
            raise OSError(errno.EPERM, "another program has replaced it", str(path))
        os.fsync(descriptor)
        require_written(descriptor)
        os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Open a folder. Later operations use its descriptor, even if the path leads elsewhere by then."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _temporary(folder: int, name: str, mode: int) -> Iterator[tuple[str, int]]:
    """Create a file in ``folder`` and yield its name and descriptor. At the end, remove it unless it was renamed."""
    short = os.fsdecode(os.fsencode(name)[:_LONGEST_BYTES])
    temporary = f".{short}.{secrets.token_hex(8)}.tmp"
    # O_EXCL never opens an existing file, pipe or link with this name (open(2)).
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        yield temporary, descriptor
    finally:
        # Errors of close(2) were checked after the write (require_written).
        with contextlib.suppress(OSError):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _create_without_links(folder: int, name: str, data: bytes, mode: int) -> None:
    """Create a file where hard links are not supported (exFAT, some FUSE file systems). Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
        try:
            _write(file.fileno(), data, is_durable=True)
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise


def _own_descriptor(path: Path) -> int | None:
    """Return the descriptor of this process to which ``path`` refers, such as /dev/stdout or /dev/fd/N, or None."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if re.fullmatch(rf"/proc/{os.getpid()}(/task/[0-9]+)?/fd", folder):
            return int(path.name) if re.fullmatch("[0-9]{1,9}", path.name) else None
        try:
            if not _is_ours(path.stat(follow_symlinks=False)):
                return None
            path = Path(folder) / path.readlink()
        except OSError:
            return None
    return None


def _special_at(path: Path) -> os.stat_result | None:
    """Return the status of a special file at ``path``, or None for a regular or missing file or another user's link."""
    try:
        found = path.stat(follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            if not _is_ours(found):
                return None
            found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if stat.S_ISREG(found.st_mode) else found


def _is_ours(found: os.stat_result) -> bool:
    """Whether the file belongs to this user, or to root, who is unrestricted anyway."""
    return found.st_uid in (os.geteuid(), 0)


def _write_to_special(path: Path, seen: os.stat_result, data: bytes) -> None:
    kind = kind_of(seen.st_mode)
    if stat.S_ISBLK(seen.st_mode):
        raise OSError(errno.EINVAL, "it is a disk", str(path))
    if not (stat.S_ISFIFO(seen.st_mode) or stat.S_ISCHR(seen.st_mode)):
        raise OSError(errno.EEXIST, f"{kind} has this name", str(path))
    if stat.S_ISFIFO(seen.st_mode) and not _is_ours(seen):
        raise OSError(errno.EEXIST, f"{kind} of another user has this name", str(path))
    # With O_NONBLOCK, a pipe without a reader fails (ENXIO) instead of blocking.
    with open(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "wb", buffering=0) as file:
        found = os.fstat(file.fileno())
        if (found.st_dev, found.st_ino) != (seen.st_dev, seen.st_ino):
            raise OSError(errno.EEXIST, "it was replaced while it was being opened", str(path))
        os.set_blocking(file.fileno(), True)
        write_all(file.fileno(), data)


def write_file(path: Path, data: bytes, *, is_durable: bool = True, mode: int = 0o644) -> None:
    """Replace a file the way ``replace_file`` does, but raise ResultError with a hint."""
    try:
        replace_file(path, data, is_durable=is_durable, mode=mode)
    except OSError as error:
        raise storage_error(f"'{path}' cannot be written", error) from error


def make_folder(path: Path, *, mode: int = 0o777) -> None:
    """Create an output folder that the user specified, and its parents. Raises ResultError with a hint."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(f"the folder '{path}' cannot be created", error) from error


def store_traceback(error: BaseException) -> str:
    """Write the traceback to a new file, and say how to report the error: with that file, or with the source line."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="raidlab-", suffix=".traceback")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"report it with this source line: {last.filename}:{last.lineno}"
    return f"report it with {path}"


def bug_words(error: BaseException) -> str:
    """Return one sentence that describes the error."""
    return f"this should not happen: {type(error).__name__}: {error}"
