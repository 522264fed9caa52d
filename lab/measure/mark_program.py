"""Writes known data to a device or file, or verifies them block by block, with direct I/O.

Runs in the agent with only the standard library. Its arguments are:

    write|verify PATH OFFSET_BYTES LENGTH_BYTES SEED

Every 4 KiB block is derived only from the seed and the block's number (SHAKE-128), so no copy is needed to compare.
Returns JSON: ``{"changed": [[start, length], …], "unreadable": [[start, length], …]}``,
in bytes from the mark's start. Raises OSError with the system's message if the device or file cannot be opened or
written.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os

from lab.measure.direct_io_program import open_direct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCK_BYTES = 4096
PIECE_BYTES = 1024 * 1024


def block(seed: str, number: int) -> bytes:
    """Return the content of one block."""
    return hashlib.shake_128(f"{seed}:{number}".encode()).digest(BLOCK_BYTES)


def write(path: str, offset: int, length: int, seed: str, is_stopped: Callable[[], bool]) -> None:
    """Write the whole mark and flush it to the disks."""
    fd = open_direct(path, os.O_WRONLY | (0 if path.startswith("/dev/") else os.O_CREAT))
    buffer = mmap.mmap(-1, PIECE_BYTES)
    try:
        for start in range(0, length, PIECE_BYTES):
            if is_stopped():
                break
            size = min(PIECE_BYTES, length - start)
            first = start // BLOCK_BYTES
            buffer[:size] = b"".join(block(seed, first + index) for index in range(size // BLOCK_BYTES))
            done = 0
            while done < size:
                done += os.pwrite(fd, memoryview(buffer)[done:size], offset + start + done)
        os.fsync(fd)
    finally:
        os.close(fd)


def read_piece(fd: int, buffer: mmap.mmap, size: int, offset: int) -> bytes | None:
    """Read one piece; None on an error or a short read."""
    try:
        return buffer[:size] if os.preadv(fd, [memoryview(buffer)[:size]], offset) == size else None
    except OSError:
        return None


def verify(
    path: str, offset: int, length: int, seed: str, is_stopped: Callable[[], bool]
) -> dict[str, list[list[int]]]:
    """Find the blocks of the mark that differ or cannot be read."""
    found: dict[str, list[list[int]]] = {"changed": [], "unreadable": []}
    fd = open_direct(path, os.O_RDONLY)
    buffer = mmap.mmap(-1, PIECE_BYTES)
    try:
        for start in range(0, length, PIECE_BYTES):
            if is_stopped():
                break
            size = min(PIECE_BYTES, length - start)
            piece = read_piece(fd, buffer, size, offset + start)
            for place in range(start, start + size, BLOCK_BYTES):
                if piece is None:
                    data = read_piece(fd, buffer, BLOCK_BYTES, offset + place)
                else:
                    data = piece[place - start : place - start + BLOCK_BYTES]
                if data is None:
                    add(found["unreadable"], place)
                elif data != block(seed, place // BLOCK_BYTES):
                    add(found["changed"], place)
    finally:
        os.close(fd)
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
