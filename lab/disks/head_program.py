"""Read the first and last bytes of devices with direct I/O.

This program runs inside an agent and uses only the standard library. Its arguments are

    FIRST_BYTES LAST_BYTES DEVICE...    multiples of 4096

For each device, the program returns the first ``FIRST_BYTES`` bytes, the 4096 bytes that hold md's metadata of format
0.90, and the last ``LAST_BYTES``. The bytes are compressed, because most are zeros and an embedded kernel's serial line
is slow. Then they are encoded in base64. Missing and unreadable bytes are zeros.
"""

from __future__ import annotations

import base64
import contextlib
import mmap
import os
import zlib

from lab.machine.direct_io_program import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


PAGE_BYTES = 4096
_OLD_RESERVED_BYTES = 65536


def old_place(size: int) -> int:
    """Return where metadata 0.90 begins on a device of this size (MD_NEW_SIZE_SECTORS, linux/raid/md_p.h)."""
    return size - size % _OLD_RESERVED_BYTES - _OLD_RESERVED_BYTES


def bytes_each(first: int, last: int) -> int:
    """Return the number of bytes that are returned for each device."""
    return first + PAGE_BYTES + last


def read(fd: int, view: memoryview, offset: int) -> None:
    """Fill ``view`` in one read if possible, or else page by page with zeros for unreadable pages."""
    if offset < 0:
        return
    try:
        os.preadv(fd, [view], offset)
    except OSError:
        if len(view) > PAGE_BYTES:
            for start in range(0, len(view), PAGE_BYTES):
                read(fd, view[start : start + PAGE_BYTES], offset + start)
        else:
            view[:] = bytes(len(view))


def read_ends(fd: int, view: memoryview, first: int, last: int) -> None:
    """Fill ``view``, which has ``bytes_each`` bytes, with the three parts of a device or an image."""
    read(fd, view[:first], 0)
    size = os.lseek(fd, 0, os.SEEK_END)
    read(fd, view[first : first + PAGE_BYTES], old_place(size))
    # A device ends at a sector boundary, which is the alignment that direct I/O requires.
    read(fd, view[first + PAGE_BYTES :], size - last)


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """Return the bytes of all devices, as the module's docstring describes."""
    first, last, devices = int(arguments[0]), int(arguments[1]), arguments[2:]
    length = bytes_each(first, last)
    # Direct I/O needs page-aligned memory.
    with mmap.mmap(-1, length * len(devices)) as ends, memoryview(ends) as view:
        for index, device in enumerate(devices):
            with contextlib.suppress(OSError), opened(device, os.O_RDONLY | os.O_DIRECT) as fd:
                read_ends(fd, view[index * length : (index + 1) * length], first, last)
        return base64.b64encode(zlib.compress(view, 1)).decode()
