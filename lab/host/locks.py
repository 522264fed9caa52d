"""File locks, which end with their holder: flock(2), and locks of a single byte.

The only module that takes locks. On a file system without locks (NFS without its lock daemon, some FUSE file systems)
the error says so and names the file; its hint is that of ENOLCK in lab.host.files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import LabError, ResultError
from lab.gates.files import open_plain

SHARED, ALONE = fcntl.LOCK_SH, fcntl.LOCK_EX
_NONE_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def open_lock(path: Path, *, error: type[LabError] = ResultError) -> int:
    """Open a lock's file; create it if missing. Raises OSError, ``error`` if it is not the lab's own."""
    return open_plain(path, os.O_RDWR | os.O_CREAT, is_own=True, error=error)


def take(descriptor: int, how: int, path: Path, *, waits: bool = False) -> None:
    """Take the lock of an open file: ``SHARED`` or ``ALONE``. ``path`` is for the error.

    Raises BlockingIOError if another process holds it and ``waits`` is false, OSError.
    """
    try:
        fcntl.flock(descriptor, how if waits else how | fcntl.LOCK_NB)
    except OSError as error:
        raise _explained(error, path) from None


def take_byte(descriptor: int, place: int, path: Path) -> bool:
    """Lock the byte at ``place`` of an open file exclusively; False if another open file holds it. Raises OSError.

    The lock belongs to the open file, not to the process (F_OFD_SETLK, fcntl_locking(2)).
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise _explained(error, path) from None
    return True


@contextmanager
def locked(path: Path, how: int, *, waits: bool = False) -> Iterator[None]:
    """Hold the lock of a file; create the file if it is missing. Raises the errors of ``open_lock`` and ``take``."""
    descriptor = open_lock(path)
    try:
        take(descriptor, how, path, waits=waits)
        yield
    finally:
        os.close(descriptor)


def _explained(error: OSError, path: Path) -> OSError:
    if error.errno in _NONE_HERE:
        return OSError(errno.ENOLCK, f"the file system of '{path}' has no locks")
    return error
