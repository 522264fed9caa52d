"""Writes known data to a device or file, or verifies them block by block, with direct I/O.

Runs in the agent with only the standard library. Its arguments are:

    write|verify PATH OFFSET_BYTES LENGTH_BYTES SEED

Every 4 KiB block is derived only from the seed and the block's number (SHAKE-128), so the data can be verified without
a copy. Returns JSON: ``{"changed": [[start, length], …], "unreadable": [[start, length], …]}``, in bytes from the start
of the data. Raises OSError with the system's message if the device or file cannot be opened or written.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os

from lab.machine.direct_io_program import opened, reads_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCK_BYTES = 4096
PIECE_BYTES = 1024 * 1024


def block(seed: str, number: int) -> bytes:
    """Return the content of one block."""
    return hashlib.shake_128(f"{seed}:{number}".encode()).digest(BLOCK_BYTES)


def write(path: str, offset: int, length: int, seed: str, is_stopped: Callable[[], bool]) -> None:
    """Write all data and flush them to the disks."""
    flags = os.O_WRONLY | (0 if path.startswith("/dev/") else os.O_CREAT)
    view = memoryview(mmap.mmap(-1, PIECE_BYTES))
    with opened(path, flags, prefers_direct=True) as fd:
        for start in range(0, length, PIECE_BYTES):
            if is_stopped():
                break
            size = min(PIECE_BYTES, length - start)
            first = start // BLOCK_BYTES
            view[:size] = b"".join(block(seed, first + index) for index in range(size // BLOCK_BYTES))
            done = 0
            while done < size:
                done += os.pwrite(fd, view[done:size], offset + start + done)
        os.fsync(fd)


def verify(
    path: str, offset: int, length: int, seed: str, is_stopped: Callable[[], bool]
) -> dict[str, list[list[int]]]:
    """Find the blocks that differ from the written data or cannot be read."""
    found: dict[str, list[list[int]]] = {"changed": [], "unreadable": []}
    view = memoryview(mmap.mmap(-1, PIECE_BYTES))
    with opened(path, os.O_RDONLY, prefers_direct=True) as fd:
        for start in range(0, length, PIECE_BYTES):
            if is_stopped():
                break
            size = min(PIECE_BYTES, length - start)
            is_whole = reads_whole(fd, view[:size], offset + start)
            for place in range(start, start + size, BLOCK_BYTES):
                data = view[place - start : place - start + BLOCK_BYTES]
                if not is_whole and not reads_whole(fd, data, offset + place):
                    add(found["unreadable"], place)
                elif data != block(seed, place // BLOCK_BYTES):
                    add(found["changed"], place)
    return found


def add(stretches: list[list[int]], place: int) -> None:
    """Add one block to the list of ranges."""
    if stretches and sum(stretches[-1]) == place:
        stretches[-1][1] += BLOCK_BYTES
    else:
        stretches.append([place, BLOCK_BYTES])


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """Run the action in ``arguments``, as the module's docstring describes."""
    action, path, offset, length, seed = arguments
    found: dict[str, list[list[int]]] = {"changed": [], "unreadable": []}
    try:
        if action == "write":
            write(path, int(offset), int(length), seed, is_stopped)
        else:
            found = verify(path, int(offset), int(length), seed, is_stopped)
    except OSError as error:
        raise OSError(f"{path}: {error.strerror}") from error
    return json.dumps(found)
