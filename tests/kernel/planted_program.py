"""Blocks that tell what they are, written to and read from a device past the caches; and writes that are cut off.

Runs inside the agent of a machine, standard library alone:

    write PATH FIRST COUNT GENERATION             one request
    each PATH FIRST COUNT STEP GENERATION         COUNT requests of a block each, STEP blocks apart
    flush PATH                                    fsync
    copy PATH TO BYTES                            all of a device, as whoever reads it now gets it
    read PATH FIRST COUNT                         -> JSON: of each block its "NUMBER:GENERATION", "0", "?" or "error"
    cut PATH FIRST COUNT GENERATION SECONDS LINE...
        a write with O_DSYNC that is under way while, after so many seconds, the lines go to /dev/lab-drives
        -> "written" or "failed"

A block begins with its number and its generation, and the rest follows from these (SHAKE-128): no sum of blocks looks
like another one.
"""

from __future__ import annotations

import _thread
import hashlib
import json
import mmap
import os
import select

from lab.machine.direct_io_program import opened, reads_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCK_BYTES = 4096
CONTROL = "/dev/lab-drives"


def block(number: int, generation: int) -> bytes:
    head = f"{number:08d}{generation:08d}".encode()
    return head + hashlib.shake_128(head).digest(BLOCK_BYTES - len(head))


def write(path: str, first: int, count: int, generation: int, flags: int = 0) -> None:
    """One request for all of it."""
    data = mmap.mmap(-1, count * BLOCK_BYTES)
    data[:] = b"".join(block(number, generation) for number in range(first, first + count))
    with opened(path, os.O_WRONLY | os.O_DIRECT | flags) as fd:
        if os.pwrite(fd, data, first * BLOCK_BYTES) != len(data):
            raise OSError(f"{path}: a short write")


def label_of(data: bytes) -> str:
    if not any(data):
        return "0"
    number, generation = data[:8], data[8:16]
    if number.isdigit() and generation.isdigit() and data == block(int(number), int(generation)):
        return f"{int(number)}:{int(generation)}"
    return "?"


def read(path: str, first: int, count: int) -> list[str]:
    """Each block by itself, so that one that cannot be read hides no other."""
    page = memoryview(mmap.mmap(-1, BLOCK_BYTES))
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd:
        return [
            label_of(bytes(page)) if reads_whole(fd, page, number * BLOCK_BYTES) else "error"
            for number in range(first, first + count)
        ]


def copy(path: str, to: str, length: int) -> None:
    piece = mmap.mmap(-1, 256 * BLOCK_BYTES)
    with opened(path, os.O_RDONLY | os.O_DIRECT) as source, opened(to, os.O_WRONLY | os.O_DIRECT) as target:
        for at in range(0, length, len(piece)):
            os.pwrite(target, memoryview(piece)[: os.preadv(source, [piece], at)], at)


def cut(path: str, first: int, count: int, generation: int, seconds: float, lines: Sequence[str]) -> str:
    """A write of which the lines come in the middle."""
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
        copy(path, rest[0], int(rest[1]))
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
