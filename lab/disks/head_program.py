"""The first bytes of devices, read past the page cache. Runs inside the agent of a machine, standard library alone.

    LENGTH_BYTES DEVICE...      a multiple of 4096

Returns as many bytes of each device, one after the other, compressed since they are mostly zeros and an embedded
kernel's serial line is slow, in base64. What a device does not have or cannot read is zeros.
"""

from __future__ import annotations

import base64
import contextlib
import mmap
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


PAGE_BYTES = 4096


def read(fd: int, view: memoryview, offset: int) -> None:
    """At once if that can be; otherwise the pages that can be read."""
    try:
        os.preadv(fd, [view], offset)
    except OSError:
        if len(view) > PAGE_BYTES:
            for start in range(0, len(view), PAGE_BYTES):
                read(fd, view[start : start + PAGE_BYTES], offset + start)
        else:
            view[:] = bytes(len(view))


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """See above."""
    length, devices = int(arguments[0]), arguments[1:]
    # Direct I/O needs memory that begins at a page.
    with mmap.mmap(-1, length * len(devices)) as heads, memoryview(heads) as view:
        for index, device in enumerate(devices):
            with contextlib.suppress(OSError):
                fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
                try:
                    read(fd, view[index * length : (index + 1) * length], 0)
                finally:
                    os.close(fd)
        return base64.b64encode(zlib.compress(view, 1)).decode()
