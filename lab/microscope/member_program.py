"""Reads a snapshot of members with direct I/O. It runs in the agent, and uses only the standard library.

    {"array": node or "", "hold": [folder, first, end] or null, "places": [[node, offset, length], ...]}

``array`` is flushed first, so that md has received all writes. ``hold`` contains the array's md folder and the range of
sectors to which writes are suspended while the members are read (suspend_lo and suspend_hi in md.rst). Writes are
always resumed afterwards. Offsets and lengths are in bytes, and are multiples of 512.

The result is JSON. ``data`` is the content of all places in sequence, compressed and in base64, with zeros for places
that could not be read. ``failed`` maps the index of each such place to the system's message. ``held`` says whether
writes were suspended, and ``why_not`` says why not.
"""

from __future__ import annotations

import base64
import contextlib
import json
import mmap
import os
import zlib

from lab.machine.direct_io_program import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

PAGE_BYTES = 4096


def write_sysfs(path: str, text: str) -> None:
    """Write a value to a sysfs file."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def flush(node: str) -> None:
    """Flush all cached data of a device."""
    with opened(node, os.O_RDONLY) as fd:
        os.fsync(fd)


def read_place(node: str, offset: int, length: int) -> bytes:
    """Read these bytes of a device with direct I/O, in whole pages because some devices reject parts of pages."""
    start = offset - offset % PAGE_BYTES
    end = offset + length
    size = -(-(end - start) // PAGE_BYTES) * PAGE_BYTES
    with (
        opened(node, os.O_RDONLY, prefers_direct=True) as fd,
        mmap.mmap(-1, size) as buffer,
        memoryview(buffer) as view,
    ):
        done = 0
        while start + done < end:
            count = os.preadv(fd, [view[done:]], start + done)
            # Direct I/O returns part of a page at the end of a device whose size is not a multiple of a page.
            if count <= 0:
                raise OSError(f"{node} ends at byte {start + done}")
            done += count
        return bytes(view[offset - start : end - start])


def read_all(places: list[list[Any]]) -> tuple[bytes, dict[str, str]]:
    """Read all places, and return their content and the error messages by index."""
    found: list[bytes] = []
    failed: dict[str, str] = {}
    for number, (node, offset, length) in enumerate(places):
        try:
            found.append(read_place(node, offset, length))
        except OSError as error:
            failed[str(number)] = error.strerror or str(error)
            found.append(bytes(length))
    return b"".join(found), failed


def let_writes_wait(folder: str, first: int, end: int) -> str:
    """Suspend writes to these sectors. Return an error message, or an empty string if this succeeds."""
    try:
        write_sysfs(f"{folder}/suspend_lo", str(first))
        write_sysfs(f"{folder}/suspend_hi", str(end))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """Run the program with these arguments (see the module's docstring)."""
    request: dict[str, Any] = json.loads(arguments[0])
    if request["array"]:
        # An array that has lost too many members cannot be flushed, and its cached data will not reach any member.
        with contextlib.suppress(OSError):
            flush(request["array"])
    hold: list[Any] | None = request["hold"]
    why_not = let_writes_wait(*hold) if hold else "not requested"
    try:
        data, failed = read_all(request["places"])
    finally:
        if hold and not why_not:
            # Set the end first, so that no region is suspended at any time in between.
            write_sysfs(f"{hold[0]}/suspend_hi", "0")
            write_sysfs(f"{hold[0]}/suspend_lo", "0")
    packed = base64.b64encode(zlib.compress(data, 1)).decode()
    return json.dumps({"data": packed, "failed": failed, "held": not why_not, "why_not": why_not})
