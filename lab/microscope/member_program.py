"""What members hold, read at one moment and past every cache. Runs inside the agent, standard library alone.

    {"array": node or "", "hold": [folder, first, end] or null, "places": [[node, offset, length], ...]}

``array`` is flushed first, so that what was written to it has reached md. ``hold`` names the array's md folder and the
sectors of it to which writes shall wait while the members are read (suspend_lo and suspend_hi in md.rst); they are let
go whatever happens. Offsets and lengths are bytes, multiples of 512.

Returns JSON: ``data``, all places one after the other, compressed, in base64; ``failed``, place -> the system's words
for each that could not be read, whose bytes are zeros; ``held``, whether writes did wait, and ``why_not``.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import mmap
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

PAGE_BYTES = 4096


def tell(path: str, text: str) -> None:
    """Write a value to a file of sysfs."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def flush(node: str) -> None:
    """Have everything that was written to a device go down to its driver."""
    fd = os.open(node, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_past_cache(node: str) -> int:
    """For reading; what knows no direct I/O has no cache in front of it either."""
    try:
        return os.open(node, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return os.open(node, os.O_RDONLY)
        raise


def read_place(node: str, offset: int, length: int) -> bytes:
    """These bytes of a device, by direct I/O of whole pages: half a page some devices refuse."""
    start = offset - offset % PAGE_BYTES
    end = offset + length
    size = -(-(end - start) // PAGE_BYTES) * PAGE_BYTES
    fd = open_past_cache(node)
    try:
        with mmap.mmap(-1, size) as buffer, memoryview(buffer) as view:
            done = 0
            while start + done < end:
                count = os.preadv(fd, [view[done:]], start + done)
                # What direct I/O reads at the end of a device that is no whole number of pages is a piece of a page.
                if count <= 0:
                    raise OSError(f"{node} ends at byte {start + done}")
                done += count
            return bytes(view[offset - start : end - start])
    finally:
        os.close(fd)


def read_all(places: list[list[Any]]) -> tuple[bytes, dict[str, str]]:
    """All places, and why some could not be read."""
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
    """Hold writes to these sectors back; returns why that could not be, empty if it is done."""
    try:
        tell(f"{folder}/suspend_lo", str(first))
        tell(f"{folder}/suspend_hi", str(end))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """See above."""
    request: dict[str, Any] = json.loads(arguments[0])
    if request["array"]:
        # An array that has lost too much cannot take it any more: then it is on no member.
        with contextlib.suppress(OSError):
            flush(request["array"])
    hold: list[Any] | None = request["hold"]
    why_not = let_writes_wait(*hold) if hold else "not asked for"
    try:
        data, failed = read_all(request["places"])
    finally:
        if hold and not why_not:
            # First the end: then no region is held, whenever md looks.
            tell(f"{hold[0]}/suspend_hi", "0")
            tell(f"{hold[0]}/suspend_lo", "0")
    packed = base64.b64encode(zlib.compress(data, 1)).decode()
    return json.dumps({"data": packed, "failed": failed, "held": not why_not, "why_not": why_not})
