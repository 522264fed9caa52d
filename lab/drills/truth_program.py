"""Location of a drill's data on its disks: recorded when they are complete, searched for when the drill is judged.

This program runs in the agent of a machine, and in the client for disks that are the client's files. It uses only the
standard library.

A *cell* is 4 KiB of one member, with its required content: data, a copy of data, or parity over data. A *row* consists
of the cells at the same place of every member. A row with parity allows as many cells to be computed as it has
parities. The required content is stored as digests, so no array is assembled, and no superblock is read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

PAGE_BYTES = 4096
_PIECE_BYTES = 1 << 18
_ZEROS = bytes(PAGE_BYTES)
_FIEMAP = 0xC020660B
"""FS_IOC_FIEMAP of linux/fs.h."""
_EXTENTS = 512
_LAST, _NOT_WRITTEN = 0x1, 0x80F
"""Flags of an extent (linux/fiemap.h): the last one; of unknown location, or allocated and unwritten."""
_TWICE = bytes((value << 1 ^ (0x11D if value & 0x80 else 0)) & 0xFF for value in range(256))
"""Every value multiplied by 2 in the field of RAID 6 (lab.microscope.picture)."""


def digest(page: bytes) -> str:
    """Digest of 4 KiB; empty for zeros, which may be anywhere."""
    return "" if page == _ZEROS else hashlib.blake2b(page, digest_size=8).hexdigest()


def note(asked: dict[str, Any]) -> dict[str, Any]:
    """The rows of an array that hold some of the file system on it.

    The request has ``node``; ``files`` and ``meta``, its pages that hold files and that may hold metadata; ``also``,
    other pages; and ``geometries``. A geometry has ``chunk`` and ``member`` in pages, ``parts`` of a member,
    ``parities``, and ``pattern``, its rows of one period, as [part, row, [[kind, number] of each slot]] with kind D, P
    or Q.

    The answer has ``geometries``, for each a list of rows, [parities, [[slot, page, digest, is parity], …], [[array
    page, cells…], …]]; and ``files`` and ``meta``, the latter without pages of zeros.
    """
    array = os.open(asked["node"], os.O_RDONLY | os.O_CLOEXEC)
    try:
        files = {*asked["files"]}
        meta = [page for page in sorted({*asked["meta"]} - files) if _page(array, page) != _ZEROS]
        noted = sorted({*files, *meta, *asked["also"]})
        found = [_rows(array, geometry, noted) for geometry in asked["geometries"]]
    finally:
        os.close(array)
    return {"geometries": found, "files": sorted(files), "meta": meta}


def _page(fd: int, page: int) -> bytes:
    return os.pread(fd, PAGE_BYTES, page * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")


def mapped(asked: dict[str, Any]) -> dict[str, Any]:
    """``files`` and ``folders``: pages of the device that hold those of the file system mounted on ``place``."""
    files: set[int] = set()
    folders: set[int] = set()
    for folder, _, names in os.walk(asked["place"]):
        folders |= _pages_of(folder)
        for name in names:
            files |= _pages_of(os.path.join(folder, name))
    return {"files": sorted(files), "folders": sorted(folders)}


def _pages_of(path: str) -> set[int]:
    """Pages of a file or folder on its device; empty for a folder if the file system does not report them."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    found: set[int] = set()
    try:
        start = 0
        while True:
            answer = bytearray(struct.pack("=QQIIII", start, (1 << 64) - 1 - start, 1, 0, _EXTENTS, 0))
            answer += bytes(56 * _EXTENTS)
            try:
                fcntl.ioctl(fd, _FIEMAP, answer)
            except OSError:
                return found
            count = struct.unpack_from("=I", answer, 20)[0]
            flags = _LAST
            for number in range(count):
                logical, physical, length, _, _, flags = struct.unpack_from("=QQQQQI", answer, 32 + 56 * number)
                start = logical + length
                if not flags & _NOT_WRITTEN & ~_LAST:
                    found.update(range(physical // PAGE_BYTES, -(-(physical + length) // PAGE_BYTES)))
            if not count or flags & _LAST:
                return found
    finally:
        os.close(fd)


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
    """The cells of a row; ``begins``: the array's page of number 0, and the number of pages per number."""
    texts = {
        slot: _page(array, begins[0] + number * begins[1]) for slot, (kind, number) in enumerate(cells) if kind == "D"
    }
    total = 0
    for text in texts.values():
        total ^= int.from_bytes(text, "little")
    parity = total.to_bytes(PAGE_BYTES, "little")
    found = []
    for slot, (kind, _) in enumerate(cells):
        text = texts.get(slot, parity)
        if kind == "Q":
            text = _second_parity(texts, slot, len(cells))
        found.append([slot, at, digest(text), int(kind != "D")])
    return found


def _second_parity(texts: dict[int, bytes], q_slot: int, slots: int) -> bytes:
    """Q parity; the coefficients follow the order of slots, beginning after Q (raid6_d0() in drivers/md/raid5.c)."""
    order = [slot % slots for slot in range(q_slot + 1, q_slot + slots)]
    found = _ZEROS
    for slot in reversed([slot for slot in order if slot in texts]):
        mixed = int.from_bytes(found.translate(_TWICE), "little") ^ int.from_bytes(texts[slot], "little")
        found = mixed.to_bytes(PAGE_BYTES, "little")
    return found


def examine(asked: dict[str, Any]) -> dict[str, Any]:
    """How much of the recorded data the disks still hold, or can be computed from them.

    The request has ``noted``, the file with the answer of ``note``; ``disks``, their paths; and ``slots``, for each
    slot of the array the [index of the disk, first page of its data] of all disks that may be its member. A page that
    is not all zeros counts wherever it is on any disk, at a multiple of 4 KiB. The answer has ``files`` and ``meta``,
    the array's pages that are destroyed, and ``cells``, a letter for each cell: d for data, p for parity, in upper case
    if the member itself holds it.
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
    """Page of a disk -> digest of its content, without pages of zeros."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    found = {}
    try:
        end = os.lseek(fd, 0, os.SEEK_END)
        for first, last in _data(fd, end):
            for at in range(first // PAGE_BYTES * PAGE_BYTES, last, _PIECE_BYTES):
                piece = os.pread(fd, min(_PIECE_BYTES, end - at), at)
                if piece.count(0) == len(piece):
                    continue
                for start in range(0, len(piece) - PAGE_BYTES + 1, PAGE_BYTES):
                    if text := digest(piece[start : start + PAGE_BYTES]):
                        found[(at + start) // PAGE_BYTES] = text
    finally:
        os.close(fd)
    return found


def _data(fd: int, end: int) -> Iterator[tuple[int, int]]:
    """Byte ranges [first, last) that may hold data; a block device has no holes."""
    at = 0
    # ENXIO: no more data in this file.
    with contextlib.suppress(OSError):
        while at < end:
            first = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, first, os.SEEK_HOLE)
            yield first, at


def main(arguments: list[str], is_stopped: Callable[[], bool]) -> str:
    """Run ``mapped``, ``note`` or ``look``; request and answer are JSON."""
    del is_stopped
    work = {"mapped": mapped, "note": note, "look": examine}[arguments[0]]
    return json.dumps(work(json.loads(arguments[1])))
