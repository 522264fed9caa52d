"""Write blocks that identify themselves, read them past the caches, and interrupt writes.

Runs inside the agent of a machine:

 write PATH FIRST COUNT GENERATION             write COUNT blocks with one request
 each PATH FIRST COUNT STEP GENERATION         COUNT requests of one block each, STEP blocks apart
 flush PATH                                    fsync(2)
 copy PATH TO BYTES                            copy the start of a device, as a reader sees it now
 read PATH FIRST COUNT                         -> JSON: of each block "NUMBER:GENERATION", "0", "?" or "error"
 cut PATH FIRST COUNT GENERATION SECONDS LINE...
  write with O_DSYNC, and write the lines to /dev/lab-drives SECONDS after the start
  -> "written" or "failed"

The blocks are those of the oracle (lab/faults/guest/ledger.py): no sum of blocks looks like another block.
"""

from __future__ import annotations

import _thread
import json
import os
import select
from collections.abc import Callable, Sequence

from lab.faults.guest.arrays import buffer, read_direct, write_direct
from lab.faults.guest.ledger import BLOCK_BYTES, Content, identity_of
from lab.machine.direct_io_program import opened, reads_whole

CONTROL = "/dev/lab-drives"
CONTENT = Content("planted")


def write(path: str, first: int, count: int, generation: int, flags: int = 0) -> None:
    """Write all blocks with one request."""
    view = buffer("planted", count * BLOCK_BYTES)
    view[:] = b"".join(CONTENT.block(number, generation) for number in range(first, first + count))
    with opened(path, os.O_WRONLY | os.O_DIRECT | flags) as fd:
        if os.pwrite(fd, view, first * BLOCK_BYTES) != len(view):
            raise OSError(f"{path}: a short write")


def label_of(data: bytes) -> str:
    if not any(data):
        return "0"
    found = identity_of(data[:512])
    return f"{found[0]}:{found[1]}" if found and data == CONTENT.block(*found) else "?"


def read(path: str, first: int, count: int) -> list[str]:
    """Read each block with its own request, so that an unreadable block hides no other block."""
    page = buffer("planted", BLOCK_BYTES)
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd:
        return [
            label_of(bytes(page)) if reads_whole(fd, page, number * BLOCK_BYTES) else "error"
            for number in range(first, first + count)
        ]


def cut(path: str, first: int, count: int, generation: int, seconds: float, lines: Sequence[str]) -> str:
    """Write blocks, and send the lines to the drives in the middle of the write."""
    ended, end = os.pipe()
    result: list[str] = []

    def work() -> None:
        try:
            write(path, first, count, generation, os.O_DSYNC)
            result.append("written")
        except OSError:
            result.append("failed")
        os.close(end)

    _thread.start_new_thread(work, ())
    select.select([], [], [], seconds)
    with opened(CONTROL, os.O_WRONLY) as control:
        for line in lines:
            os.write(control, line.encode())
    os.read(ended, 1)
    os.close(ended)
    return result[0]


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    verb, path, *rest = arguments
    if verb == "flush":
        with opened(path, os.O_WRONLY) as fd:
            os.fsync(fd)
        return ""
    if verb == "copy":
        write_direct(rest[0], 0, read_direct(path, 0, int(rest[1])))
        return ""
    if verb == "cut":
        return cut(path, int(rest[0]), int(rest[1]), int(rest[2]), float(rest[3]), rest[4:])
    numbers = [int(word) for word in rest]
    if verb == "read":
        return json.dumps(read(path, *numbers))
    if verb == "each":
        first, count, step, generation = numbers
        for index in range(count):
            write(path, first + index * step, 1, generation)
        return ""
    write(path, *numbers)
    return ""
