"""Locates a file on the device below its file system (FIEMAP). Runs in the agent, with only the standard library.

    PATH

The result is JSON. ``device`` is the number of the device (``9:0``), ``bytes`` is the size of the file, and ``extents``
lists for each extent its first byte in the file, its first byte on the device, its length in bytes, and its flags.
Cached writes are flushed first. Sources: Documentation/filesystems/fiemap.rst, include/uapi/linux/fiemap.h.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct

from lab.machine.direct_io_program import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FS_IOC_FIEMAP = 0xC020660B
SYNC_FIRST = 1
HEAD = struct.Struct("=QQLLLL")
EXTENT = struct.Struct("=QQQQQLLLL")
AT_ONCE = 128
LAST = 1
EVERYTHING = 2**64 - 1


def extents_of(fd: int, is_stopped: Callable[[], bool]) -> Iterator[list[int]]:
    """Yield all extents of an open file, in order. Raises OSError if the file system stops reporting them."""
    start = 0
    while not is_stopped():
        request = HEAD.pack(start, EVERYTHING - start, SYNC_FIRST, 0, AT_ONCE, 0)
        answer = bytearray(request + bytes(EXTENT.size * AT_ONCE))
        fcntl.ioctl(fd, FS_IOC_FIEMAP, answer, True)
        flags = LAST
        for number in range(HEAD.unpack_from(answer)[3]):
            logical, physical, length, _, _, flags, *_ = EXTENT.unpack_from(answer, HEAD.size + number * EXTENT.size)
            start = logical + length
            yield [logical, physical, length, flags]
        if flags & LAST:
            break


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """Run the program with these arguments (see the module's docstring). Raises OSError with the file's name."""
    (path,) = arguments
    try:
        with opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            found = os.fstat(fd)
            extents = list(extents_of(fd, is_stopped))
    except OSError as error:
        unknown = error.errno in (errno.EOPNOTSUPP, errno.ENOTTY)
        why = "its file system does not report where files lie (FIEMAP)" if unknown else error.strerror
        raise OSError(f"{path}: {why}") from error
    number = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
    return json.dumps({"device": number, "bytes": found.st_size, "extents": extents})
