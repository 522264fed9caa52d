"""The writer and checker of the oracle: concurrent writes, recorded in the ledger, and the verdict on each block.

Writes use O_DIRECT and the asynchronous interface of the kernel (io_submit(2)), because a single thread must know the
order in which they were submitted and ended. While the drives are recorded (provision/kernel/driver/lab_record.h), each
event of the ledger is also marked in the record, so that the two can be correlated.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
import struct
from collections.abc import Callable
from typing import Any

from lab.faults.guest.arrays import BUFFERS
from lab.faults.guest.ledger import (
    ACKNOWLEDGED,
    ALLOWED,
    BLOCK_BYTES,
    CORRUPT,
    FAILED,
    FLUSH,
    INTACT,
    UNREADABLE,
    WRITE,
    Content,
    Ledger,
    generations_of,
    judged,
    looks_like,
)

MOST_UNDER_WAY = 32
MOST_BLOCKS = 64
PIECE_BYTES = 1024 * 1024
MOST_BAD = 32
"""Maximum number of bad blocks that a check lists individually."""
ALL_BAD = 1 << 20
# asm/unistd.h: io_setup, io_destroy, io_getevents, io_submit.
CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
PWRITE, FDSYNC = 1, 3
RWF_DSYNC = 2
# struct iocb and struct io_event of linux/aio_abi.h, on little-endian machines.
IOCB = struct.Struct("<QIIHhIQQqQII")
EVENT = struct.Struct("<QQqq")


class Asynchronous:
    """An asynchronous I/O context (io_setup(2))."""

    def __init__(self) -> None:
        setup, self.destroy_call, self.events_call, self.submit_call = CALLS[os.uname().machine]
        self.call = ctypes.CDLL(None, use_errno=True).syscall
        self.context = ctypes.c_ulong(0)
        if self.call(setup, MOST_UNDER_WAY * 2, ctypes.byref(self.context)) < 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self.events = ctypes.create_string_buffer(EVENT.size * MOST_UNDER_WAY)
        self.block = ctypes.create_string_buffer(IOCB.size)
        self.pointer = ctypes.c_void_p(ctypes.addressof(self.block))

    def submit(self, fd: int, tag: int, operation: int, address: int, length: int, offset: int, flags: int) -> None:
        """Submit one request. Raises OSError if the kernel rejects it."""
        IOCB.pack_into(self.block, 0, tag, 0, flags, operation, 0, fd, address, length, offset, 0, 0, 0)
        if self.call(self.submit_call, self.context, ctypes.c_long(1), ctypes.byref(self.pointer)) != 1:
            raise OSError(ctypes.get_errno(), "io_submit")

    def ended(self, least: int) -> list[tuple[int, int]]:
        """(tag, result) of ended requests; waits for at least ``least``. A negative result is an error number."""
        count = self.call(
            self.events_call, self.context, ctypes.c_long(least), ctypes.c_long(MOST_UNDER_WAY), self.events, None
        )
        found = (EVENT.unpack_from(self.events, index * EVENT.size) for index in range(max(0, count)))
        return [(tag, result) for tag, _, result, _ in found]

    def close(self) -> None:
        """Destroy the context, which waits for requests in flight."""
        self.call(self.destroy_call, self.context)


class Writer:
    """Writes generations of blocks to one device or file, and records the result of each write.

    ``mix`` determines the operations of ``advance``: at most ``depth`` requests in flight, on the ``count`` blocks from
    ``first`` on; one operation in ``flush`` is a flush, one write in ``through`` is O_DSYNC (0: none). Writes have up
    to ``largest`` blocks, and one in ``whole`` is a full stripe of ``stripe`` blocks.
    """

    def __init__(self, path: str, content: Content, ledger: Ledger, mix: dict[str, int], mark_fd: int = -1) -> None:
        self.content, self.ledger, self.mark_fd = content, ledger, mark_fd
        self.mix = {"depth": 4, "flush": 8, "through": 16, "largest": 8, "whole": 8, "stripe": 0, **mix}
        self.random = random.Random(f"{content.seed}:{len(ledger.events)}")
        self.fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
        self.asynchronous = Asynchronous()
        self.slot_bytes = max(MOST_BLOCKS, self.mix["stripe"]) * BLOCK_BYTES
        self.buffer = mmap.mmap(-1, MOST_UNDER_WAY * self.slot_bytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.free = list(range(MOST_UNDER_WAY))
        self.under_way: dict[int, tuple[int, int, int]] = {}
        self.number = ledger.newest
        self.failures = 0

    def note(self, kind: str, number: int, *more: int) -> None:
        """Record an event in the ledger, and mark it in the drives' record."""
        at = self.ledger.add(kind, number, *more)
        if self.mark_fd >= 0:
            os.write(self.mark_fd, f"mark {at}".encode())

    def write(self, first: int, count: int, *, is_through: bool = False) -> None:
        """Start a write of a new generation of these blocks."""
        self.number += 1
        slot = self.free.pop()
        data = b"".join(self.content.block(block, self.number) for block in range(first, first + count))
        start = slot * self.slot_bytes
        self.buffer[start : start + len(data)] = data
        self.under_way[self.number] = (slot, first, count)
        self.note(WRITE, self.number, first, count, int(is_through))
        flags = RWF_DSYNC if is_through else 0
        self.send(self.number, PWRITE, self.address + start, len(data), first * BLOCK_BYTES, flags)

    def flush(self) -> None:
        """Start a flush of all acknowledged writes to the media."""
        self.number += 1
        self.under_way[self.number] = (self.free.pop(), 0, 0)
        self.note(FLUSH, self.number)
        self.send(self.number, FDSYNC, 0, 0, 0, 0)

    def send(self, number: int, *request: int) -> None:
        try:
            self.asynchronous.submit(self.fd, number, *request)
        except OSError:
            self.end(number, -errno.EIO)

    def end(self, number: int, result: int) -> None:
        slot, _, count = self.under_way.pop(number)
        self.free.append(slot)
        is_done = result == count * BLOCK_BYTES
        self.failures += not is_done
        self.note(ACKNOWLEDGED if is_done else FAILED, number)

    def reap(self, least: int) -> None:
        """Record ended requests, after waiting for at least ``least``."""
        for number, result in self.asynchronous.ended(least):
            self.end(number, result)

    def drain(self) -> None:
        """Wait until no request is in flight."""
        while self.under_way:
            self.reap(1)

    def fill(self) -> None:
        """Write one generation of every block, and flush."""
        end = self.mix["first"] + self.mix["count"]
        for first in range(self.mix["first"], end, MOST_BLOCKS):
            self.write(first, min(MOST_BLOCKS, end - first))
            if len(self.under_way) >= 4:
                self.reap(1)
        self.drain()
        self.flush()
        self.drain()

    def advance(self, operations: int, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Carry out operations chosen by the seed; up to ``depth`` requests remain in flight."""
        for _ in range(operations):
            if is_stopped():
                break
            while len(self.under_way) >= self.mix["depth"]:
                self.reap(1)
            if self.one_in("flush"):
                self.flush()
                continue
            first, count = self.place()
            while self.is_busy(first, count):
                self.reap(1)
            self.write(first, count, is_through=self.one_in("through"))
        self.reap(0)

    def one_in(self, word: str) -> bool:
        return bool(self.mix[word]) and self.random.randrange(self.mix[word]) == 0

    def place(self) -> tuple[int, int]:
        """The place of the next write: sometimes a full stripe, otherwise a few blocks, often a single one."""
        start, room, stripe = self.mix["first"], self.mix["count"], self.mix["stripe"]
        if stripe and room >= stripe and self.one_in("whole"):
            return start + self.random.randrange(room // stripe) * stripe, stripe
        count = 1 if self.random.randrange(2) else self.random.randint(1, min(self.mix["largest"], room))
        return start + self.random.randint(0, room - count), count

    def is_busy(self, first: int, count: int) -> bool:
        return any(begin < first + count and first < begin + length for _, begin, length in self.under_way.values())

    def close(self) -> None:
        """Wait until no request is in flight, and close the device."""
        self.drain()
        self.asynchronous.close()
        os.close(self.fd)


def read_piece(fd: int, view: memoryview, offset: int) -> bool:
    """Whether the whole range could be read."""
    try:
        return os.preadv(fd, [view], offset) == len(view)
    except OSError:
        return False


def verdict_on(content: Content, block: int, data: memoryview, allowed: list[int]) -> tuple[str, list[Any]]:
    """The verdict on a block, and the generation of each sector or, if it is corrupt, what it appears to be."""
    if len(allowed) == 1 and data == content.block(block, allowed[0]):
        return INTACT, allowed
    whole = bytes(data)
    told = generations_of(content, block, whole)
    verdict = judged(told, allowed)
    return verdict, [looks_like(whole)] if verdict == CORRUPT else told


def check(path: str, content: Content, allowed: dict[int, list[int]], most_bad: int = MOST_BAD) -> dict[str, Any]:
    """The verdict on every block, read with O_DIRECT.

    ``{"verdicts": {verdict: count}, "bad": [[block, verdict, found, allowed], …], "found": {block: generation}}``.
    ``bad`` has the first ``most_bad`` blocks with a verdict that is not allowed, with the generation of each sector or
    what they appear to be. ``found`` has the blocks with several allowed generations, and the one that is present, None
    if torn.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    view = BUFFERS.get("check", PIECE_BYTES)
    seen: dict[str, Any] = {"verdicts": {}, "bad": [], "found": {}}
    try:
        last = max(allowed, default=-1)
        for start in range(min(allowed, default=0), last + 1, PIECE_BYTES // BLOCK_BYTES):
            size = min(PIECE_BYTES // BLOCK_BYTES, last + 1 - start)
            is_whole = read_piece(fd, view[: size * BLOCK_BYTES], start * BLOCK_BYTES)
            for block in range(start, start + size):
                if block not in allowed:
                    continue
                data = view[(block - start) * BLOCK_BYTES : (block - start + 1) * BLOCK_BYTES]
                verdict: str = UNREADABLE
                told: list[Any] = []
                if is_whole or read_piece(fd, data, block * BLOCK_BYTES):
                    verdict, told = verdict_on(content, block, data, allowed[block])
                note_verdict(seen, block, verdict, told, allowed[block], most_bad)
    finally:
        os.close(fd)
    return seen


def note_verdict(
    seen: dict[str, Any], block: int, verdict: str, told: list[Any], allowed: list[int], most_bad: int
) -> None:
    """Count a verdict, and add the block to ``bad`` or ``found`` if it belongs there."""
    seen["verdicts"][verdict] = seen["verdicts"].get(verdict, 0) + 1
    if verdict not in ALLOWED:
        if len(seen["bad"]) < most_bad:
            seen["bad"].append([block, verdict, told, allowed])
    elif len(allowed) > 1:
        seen["found"][block] = told[0] if all(each == told[0] for each in told) else None
