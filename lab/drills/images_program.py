"""Copies of disks as they were when a drill began: kept, put back, and compared with what the disks hold now.

Runs inside the agent of a machine, and in the client for disks that are files of its own; standard library alone.
"""

from __future__ import annotations

import fcntl
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE_BYTES = 1 << 18
GRAIN_BYTES = 512
"""What differs is told in sectors."""
BLKFLSBUF = 0x1261


def pieces(fd: int, end: int) -> Iterator[tuple[int, int]]:
    """Offset and length of what may hold data, in pieces; holes of a file are left out."""
    at = 0
    while at < end:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
            stop = min(end, os.lseek(fd, at, os.SEEK_HOLE))
        except OSError:
            # Beyond the last data of a file (ENXIO); a block device has no holes.
            return
        while at < stop:
            length = min(PIECE_BYTES, stop - at)
            yield at, length
            at += length


def size_of(fd: int) -> int:
    """Of a file or a block device, in bytes."""
    return os.lseek(fd, 0, os.SEEK_END)


def write_at(fd: int, data: bytes, at: int) -> None:
    """All of it: where there is little room, pwrite(2) takes a part, and fails only when it is asked for the rest."""
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, at)
        view, at = view[count:], at + count


def keep(disk: str, image: str) -> int:
    """Copy a disk into a new file with holes where it has zeros. Returns the bytes that were copied."""
    source = os.open(disk, os.O_RDONLY | os.O_CLOEXEC)
    target = os.open(image, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    copied = 0
    try:
        end = size_of(source)
        os.truncate(target, end)
        for at, length in pieces(source, end):
            data = os.pread(source, length, at)
            if data.count(0) != len(data):
                write_at(target, data, at)
                copied += len(data)
        os.fsync(target)
    finally:
        os.close(source)
        os.close(target)
    return copied


def differing(disk: int, image: int) -> Iterator[tuple[int, int, bytes]]:
    """Offset, length and the image's bytes of each piece that is not the same on both, in order.

    Raises OSError if they are not equally large.
    """
    end = size_of(disk)
    if size_of(image) != end:
        raise OSError(f"the copy has {size_of(image)} bytes, and the disk {end}")
    numbers: set[int] = set()
    for fd in (disk, image):
        for at, length in pieces(fd, end):
            numbers.update((at // PIECE_BYTES, (at + length - 1) // PIECE_BYTES))
    for number in sorted(numbers):
        start = number * PIECE_BYTES
        length = min(PIECE_BYTES, end - start)
        before, now = os.pread(image, length, start), os.pread(disk, length, start)
        if before != now:
            yield start, length, before


def put_back(disk: str, image: str) -> int:
    """Make a disk again what it was, writing only what differs. Returns the bytes that were written."""
    target = os.open(disk, os.O_RDWR | os.O_CLOEXEC)
    source = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
    written = 0
    try:
        for at, length, before in differing(target, source):
            write_at(target, before, at)
            written += length
        os.fsync(target)
    finally:
        os.close(source)
        os.close(target)
    return written


def changed(disk: str, image: str) -> list[list[int]]:
    """Ranges of bytes [first, end) of a disk that are not what they were, in whole sectors, in order."""
    target = os.open(disk, os.O_RDONLY | os.O_CLOEXEC)
    source = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
    ranges: list[list[int]] = []
    try:
        for at, length, before in differing(target, source):
            now = os.pread(target, length, at)
            for start in range(0, length, GRAIN_BYTES):
                if before[start : start + GRAIN_BYTES] != now[start : start + GRAIN_BYTES]:
                    first = at + start
                    if ranges and ranges[-1][1] == first:
                        ranges[-1][1] = first + GRAIN_BYTES
                    else:
                        ranges.append([first, first + GRAIN_BYTES])
    finally:
        os.close(source)
        os.close(target)
    return ranges


def flush(nodes: list[str]) -> None:
    """What the machine has in its caches is on these disks, and is read anew (BLKFLSBUF, linux/fs.h)."""
    os.sync()
    for node in nodes:
        fd = os.open(node, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(fd, BLKFLSBUF)
        finally:
            os.close(fd)


def main(arguments: list[str], is_stopped: Callable[[], bool]) -> str:
    """``keep``, ``put_back`` or ``changed`` of pairs of disk and image in JSON; answers with a list in their order.

    ``flush`` of disks in JSON answers with an empty list.
    """
    if arguments[0] == "flush":
        flush(json.loads(arguments[1]))
        return "[]"
    work = {"keep": keep, "put_back": put_back, "changed": changed}[arguments[0]]
    answers = []
    for disk, image in json.loads(arguments[1]):
        if is_stopped():
            raise OSError("stopped")
        os.makedirs(os.path.dirname(image), mode=0o700, exist_ok=True)
        answers.append(work(disk, image))
    return json.dumps(answers)
