"""Copies of a drill's disks when it began: created, restored, and compared with the current disks.

This program runs in the agent of a machine, and in the client for disks that are the client's files. It uses only the
standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PIECE_BYTES = 1 << 18
GRAIN_BYTES = 512
"""Changes are reported in sectors."""
BLKFLSBUF = 0x1261


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """Open a file or a device; a new file can be read by its owner only."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def pieces(fd: int, end: int) -> Iterator[tuple[int, int]]:
    """Offset and length of each piece that may hold data; holes of a file are omitted."""
    at = 0
    while at < end:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
            stop = min(end, os.lseek(fd, at, os.SEEK_HOLE))
        except OSError:
            # ENXIO: no more data in this file. A block device has no holes.
            return
        while at < stop:
            length = min(PIECE_BYTES, stop - at)
            yield at, length
            at += length


def size_of(fd: int) -> int:
    """Size of a file or a block device in bytes."""
    return os.lseek(fd, 0, os.SEEK_END)


def write_at(fd: int, data: bytes, at: int) -> None:
    """Write all of the data.

    If space is short, pwrite(2) writes a part, and fails only when it is called for the rest.
    """
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, at)
        view, at = view[count:], at + count


def save(disk: str, image: str) -> int:
    """Copy a disk into a new file, with holes in place of zeros. Returns the number of bytes copied."""
    copied = 0
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with opened(disk, os.O_RDONLY) as source, opened(image, new) as target:
        end = size_of(source)
        os.truncate(target, end)
        for at, length in pieces(source, end):
            data = os.pread(source, length, at)
            if data.count(0) != len(data):
                write_at(target, data, at)
                copied += len(data)
        os.fsync(target)
    return copied


def differing(disk: int, image: int) -> Iterator[tuple[int, int, bytes]]:
    """Offset, length and the image's data of each piece that differs between disk and image, in order.

    Raises OSError if their sizes differ.
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
    """Restore a disk from its image, and write only the pieces that differ. Returns the number of bytes written."""
    written = 0
    with opened(disk, os.O_RDWR) as target, opened(image, os.O_RDONLY) as source:
        for at, length, before in differing(target, source):
            write_at(target, before, at)
            written += length
        os.fsync(target)
    return written


def changed(disk: str, image: str) -> list[list[int]]:
    """Byte ranges [first, end) of a disk that differ from its image, in whole sectors, in order."""
    ranges: list[list[int]] = []
    with opened(disk, os.O_RDONLY) as target, opened(image, os.O_RDONLY) as source:
        for at, length, before in differing(target, source):
            now = os.pread(target, length, at)
            for start in range(0, length, GRAIN_BYTES):
                if before[start : start + GRAIN_BYTES] != now[start : start + GRAIN_BYTES]:
                    first = at + start
                    if ranges and ranges[-1][1] == first:
                        ranges[-1][1] = first + GRAIN_BYTES
                    else:
                        ranges.append([first, first + GRAIN_BYTES])
    return ranges


def flush(nodes: list[str]) -> None:
    """Write the machine's caches to these disks, and invalidate their caches (BLKFLSBUF, linux/fs.h)."""
    os.sync()
    for node in nodes:
        with opened(node, os.O_RDONLY) as fd:
            fcntl.ioctl(fd, BLKFLSBUF)


def main(arguments: list[str], is_stopped: Callable[[], bool]) -> str:
    """Do ``keep``, ``put_back`` or ``changed`` for pairs of disk and image; input and result are JSON lists.

    ``flush`` takes a list of devices, and returns an empty list.
    """
    if arguments[0] == "flush":
        flush(json.loads(arguments[1]))
        return "[]"
    work = {"keep": save, "put_back": put_back, "changed": changed}[arguments[0]]
    answers = []
    for disk, image in json.loads(arguments[1]):
        if is_stopped():
            raise OSError("stopped")
        os.makedirs(os.path.dirname(image), mode=0o700, exist_ok=True)
        answers.append(work(disk, image))
    return json.dumps(answers)
