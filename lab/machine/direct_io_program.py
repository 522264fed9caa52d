"""Opens and reads devices and files, for the programs on machines. Uses only the standard library."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def opened(path: str, flags: int, *, prefers_direct: bool = False) -> Iterator[int]:
    """Open a file or a device for the duration of the context, and yield its descriptor. Raises OSError.

    A new file can be read only by its owner. With ``prefers_direct``, O_DIRECT is used if it is supported. A file
    system in memory may not support O_DIRECT, but it does not read from a disk anyway.
    """
    try:
        fd = os.open(path, flags | (os.O_DIRECT if prefers_direct else 0), 0o600)
    except OSError as error:
        if not prefers_direct or error.errno != errno.EINVAL:
            raise
        fd = os.open(path, flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def reads_whole(fd: int, view: memoryview, offset: int) -> bool:
    """Read a range into ``view``, and return whether all of it could be read."""
    try:
        return os.preadv(fd, [view], offset) == len(view)
    except OSError:
        return False
