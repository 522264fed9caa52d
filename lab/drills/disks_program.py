"""Copy the disks of a drill when it begins, compare them with the copies later, and locate the drill's data.

This program runs in the agent of a machine, or in the client if the disks are files of the client.

The location of the data is recorded when they are complete, and they are searched for when the drill is judged. A
*cell* is 4 KiB of one member with its required content, which is data, a copy of data, or parity. A *row* consists of
the cells at the same offset on every member. In a row with parity, as many cells can be reconstructed as there are
parity cells. The required content is stored as digests, so no array is assembled and no superblock is read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os

from lab.arrays.parity_program import exclusive_or, q_of
from lab.machine.direct_io_program import opened
from lab.microscope.extents_program import extents_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

PIECE_BYTES = 1 << 18
PAGE_BYTES = 4096
GRAIN_BYTES = 512
"""Changes are reported in sectors."""
BLKFLSBUF = 0x1261
_ZEROS = bytes(PAGE_BYTES)
_NOT_WRITTEN = 0x80E
"""FIEMAP_EXTENT_UNKNOWN, DELALLOC, ENCODED and UNWRITTEN (linux/fiemap.h). The pages of such an extent are unknown, or
do not contain the data of the file.
"""


def extents(fd: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges [first, last) that may hold data. A block device has no holes."""
    last = 0
    # ENXIO: no data after this offset (lseek(2), SEEK_DATA).
    with contextlib.suppress(OSError):
        while last < end:
            first = os.lseek(fd, last, os.SEEK_DATA)
            last = min(end, os.lseek(fd, first, os.SEEK_HOLE))
            yield first, last


def pieces(fd: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and the length of each piece that may hold data, leaving out the holes of a file."""
    for first, last in extents(fd, end):
        for at in range(first, last, PIECE_BYTES):
            yield at, min(PIECE_BYTES, last - at)


def size_of(fd: int) -> int:
    """Return the size of a file or a block device in bytes."""
    return os.lseek(fd, 0, os.SEEK_END)


def write_at(fd: int, data: bytes, at: int) -> None:
    """Write all of the data.

    If space is short, pwrite(2) writes only a part, and does not fail until it is called again for the rest.
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
    """Yield the offset, the length and the image's data of each piece that differs between disk and image, in order.

    Raises OSError if their sizes differ.
    """
    end = size_of(disk)
    if size_of(image) != end:
        raise OSError(f"the copy has {size_of(image)} bytes, but the disk has {end}")
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
    """Restore a disk from its image, writing only the pieces that differ. Returns the number of bytes written."""
    written = 0
    with opened(disk, os.O_RDWR) as target, opened(image, os.O_RDONLY) as source:
        for at, length, before in differing(target, source):
            write_at(target, before, at)
            written += length
        os.fsync(target)
    return written


def changed(disk: str, image: str) -> list[list[int]]:
    """Return the byte ranges [first, end) of a disk that differ from its image, in whole sectors and in order."""
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
    """Write dirty pages to all disks, and drop the page cache of the given ones (BLKFLSBUF, linux/fs.h)."""
    os.sync()
    for node in nodes:
        with opened(node, os.O_RDONLY) as fd:
            fcntl.ioctl(fd, BLKFLSBUF)


def digest(page: bytes) -> str:
    """Return the digest of a 4 KiB page, or an empty string if it is all zeros: such pages prove nothing."""
    return "" if page == _ZEROS else hashlib.blake2b(page, digest_size=8).hexdigest()


def note(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of an array that hold parts of the file system on it.

    In the request, ``node`` is the array, ``files`` are its pages that hold files, ``meta`` are those that may hold
    metadata, and ``also`` are other pages. ``geometries`` is a list. A geometry has the sizes ``chunk`` and ``member``
    in pages, the number of ``parts`` of a member, the number of ``parities``, and a ``pattern`` with the rows of one
    period, as [part, row, [[kind, number] of each slot]] with kind D, P or Q.

    In the answer, ``geometries`` has a list of rows for each geometry, as [parities, [[slot, page, digest, is parity],
    …], [[array page, cells…], …]]. ``files`` and ``meta`` are the pages of the request, the latter without those that
    contain only zeros.
    """
    with opened(asked["node"], os.O_RDONLY) as array:
        files = {*asked["files"]}
        meta = [page for page in sorted({*asked["meta"]} - files) if _page(array, page) != _ZEROS]
        noted = sorted({*files, *meta, *asked["also"]})
        found = [_rows(array, geometry, noted) for geometry in asked["geometries"]]
    return {"geometries": found, "files": sorted(files), "meta": meta}


def _page(fd: int, page: int) -> bytes:
    return os.pread(fd, PAGE_BYTES, page * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")


def mapped(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the pages of the device that hold the ``files`` and ``folders`` of the file system on ``place``."""
    files: set[int] = set()
    folders: set[int] = set()
    for folder, _, names in os.walk(asked["place"]):
        folders |= _pages_of(folder)
        for name in names:
            files |= _pages_of(os.path.join(folder, name))
    return {"files": sorted(files), "folders": sorted(folders)}


def _pages_of(path: str) -> set[int]:
    """Return the pages of a file or folder on its device. Not all file systems report those of a folder."""
    found: set[int] = set()
    with opened(path, os.O_RDONLY | os.O_NOFOLLOW) as fd, contextlib.suppress(OSError):
        for _, physical, length, flags in extents_of(fd, lambda: False):
            if not flags & _NOT_WRITTEN:
                found.update(range(physical // PAGE_BYTES, -(-(physical + length) // PAGE_BYTES)))
    return found


def _rows(array: int, geometry: dict[str, Any], noted: list[int]) -> list[list[Any]]:
    chunk, pattern, parities = geometry["chunk"], geometry["pattern"], geometry["parities"]
    data = 1 + max(number for _, _, cells in pattern for kind, number in cells if kind == "D")
    period = 1 + max(row for _, row, _ in pattern)
    part_pages = geometry["member"] // geometry["parts"] // chunk * chunk
    places: dict[int, list[int]] = {}
    for index, (_, _, cells) in enumerate(pattern):
        for kind, number in cells:
            if kind == "D":
                places.setdefault(number, []).append(index)
    rows: dict[tuple[int, int, int], list[Any]] = {}
    for page in noted:
        (whole, number), inner = divmod(page // chunk, data), page % chunk
        for index in dict.fromkeys(places[number]):
            part, row, cells = pattern[index]
            key = (whole, index, inner)
            if key not in rows:
                at = part * part_pages + (whole * period + row) * chunk + inner
                rows[key] = [parities, _cells(array, cells, at, (whole * data * chunk + inner, chunk)), []]
            mine = [slot for slot, cell in enumerate(cells) if cell == ["D", number]]
            rows[key][2].append([page, *mine])
    return list(rows.values())


def _cells(array: int, cells: list[list[Any]], at: int, begins: tuple[int, int]) -> list[list[Any]]:
    """Return the cells of a row.

    ``begins`` is (first, step): the cell with number N holds the array's page ``first + N * step``.
    """
    texts = {
        slot: _page(array, begins[0] + number * begins[1]) for slot, (kind, number) in enumerate(cells) if kind == "D"
    }
    parity = exclusive_or(texts.values(), PAGE_BYTES)
    found = []
    for slot, (kind, _) in enumerate(cells):
        text = texts.get(slot, parity)
        if kind == "Q":
            # The coefficients follow the order of slots, beginning after Q (raid6_d0() in drivers/md/raid5.c).
            order = [*range(slot + 1, len(cells)), *range(slot)]
            text = q_of(dict(enumerate(texts[other] for other in order if other in texts)), PAGE_BYTES)
        found.append([slot, at, digest(text), int(kind != "D")])
    return found


def examine(asked: dict[str, Any]) -> dict[str, Any]:
    """Find out how much of the recorded data is still on the disks, or can be computed from what is there.

    In the request, ``noted`` is the file with the answer of ``note``, ``disks`` are the paths of the disks, and
    ``slots`` has [index of the disk, first page of its data] of all disks that may be in each slot of the array. A
    page that is not all zeros counts as found on any disk, at any multiple of 4 KiB.

    In the answer, ``files`` and ``meta`` are those pages of the array that have been destroyed. ``cells`` has a letter
    for each cell: d for data or p for parity, in upper case if the member itself holds the required content.
    """
    with open(asked["noted"], encoding="utf-8") as file:
        noted = json.load(file)
    held = [_pages(path) for path in asked["disks"]]
    anywhere = {text for pages in held for text in pages.values()}
    there: set[int] = set()
    marks: list[str] = []
    for rows in noted["geometries"]:
        for parities, cells, pages in rows:
            good = []
            for slot, at, text, is_parity in cells:
                places = asked["slots"][slot]
                is_home = any(held[disk].get(first + at, "") == text for disk, first in places)
                marks.append("dDpP"[2 * is_parity + is_home])
                good.append(is_home or (text != "" and text in anywhere))
            is_whole = good.count(False) <= parities
            there.update(page for page, *mine in pages if is_whole or any(good[cell] for cell in mine))
    lost = {word: [page for page in noted[word] if page not in there] for word in ("files", "meta")}
    return {**lost, "cells": "".join(marks)}


def _pages(path: str) -> dict[int, str]:
    """Return the digest of each page of a disk by page number, leaving out pages of zeros."""
    found = {}
    with opened(path, os.O_RDONLY) as fd:
        end = size_of(fd)
        for first, last in extents(fd, end):
            for at in range(first // PAGE_BYTES * PAGE_BYTES, last, PIECE_BYTES):
                piece = os.pread(fd, min(PIECE_BYTES, end - at), at)
                if piece.count(0) == len(piece):
                    continue
                for start in range(0, len(piece) - PAGE_BYTES + 1, PAGE_BYTES):
                    if text := digest(piece[start : start + PAGE_BYTES]):
                        found[(at + start) // PAGE_BYTES] = text
    return found


def main(arguments: list[str], is_stopped: Callable[[], bool]) -> str:
    """Do the work that the first argument names. The request, which is the second argument, and the answer are JSON.

    ``keep``, ``put_back`` and ``changed`` take a list of pairs of disk and image, and return a list of results.
    """
    work, asked = arguments[0], json.loads(arguments[1])
    whole: dict[str, Callable[[Any], Any]] = {"flush": flush, "mapped": mapped, "note": note, "look": examine}
    if work in whole:
        return json.dumps(whole[work](asked))
    answers = []
    for disk, image in asked:
        if is_stopped():
            raise OSError("stopped")
        os.makedirs(os.path.dirname(image), mode=0o700, exist_ok=True)
        answers.append({"keep": save, "put_back": put_back, "changed": changed}[work](disk, image))
    return json.dumps(answers)
