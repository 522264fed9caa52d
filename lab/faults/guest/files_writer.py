"""The oracle's writer of files: carries out a plan on a mounted file system, and notes what was acknowledged.

Runs inside the agent of a machine as a part of other programs, standard library alone.

Direct writes and syncs go by io_submit(2), so that several are under way while one thread knows their order; all else
ends at once.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import Any

from lab.faults.guest.blocks import BLOCK_BYTES, SECTOR_BYTES, Content
from lab.faults.guest.files_ledger import (
    BEGIN,
    CREATE,
    FILE_BLOCKS,
    FILE_SYNC,
    FILE_WRITE,
    FOLDER_SYNC,
    RENAME,
    SYNC_ALL,
    FileLedger,
)
from lab.faults.guest.files_plan import BLOCK_SECTORS, FOLDERS, FilePlan, Operation
from lab.faults.guest.ledger import ACKNOWLEDGED, FAILED
from lab.faults.guest.writer import FDSYNC, MOST_UNDER_WAY, PWRITE, RWF_DSYNC, Asynchronous

FSYNC = 2
SLOT_BLOCKS = 8
MOST_FAILURES = 16


def syncfs(fd: int) -> None:
    """Have all of the file system of an open file on the disks (syncfs(2)). Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).syncfs(fd) < 0:
        raise OSError(ctypes.get_errno(), "syncfs")


class Files:
    """Files kept open: by number, through the page cache and past it; and folders."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.open: dict[tuple[object, bool], int] = {}
        self.paths: dict[int, str] = {}

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def get(self, file: int, *, is_direct: bool = False) -> int:
        """A descriptor of a file."""
        found = self.open.get((file, is_direct))
        if found is None:
            if file not in self.paths:
                raise FileNotFoundError(errno.ENOENT, "it could not be made")
            flags = os.O_RDWR | (os.O_DIRECT if is_direct else 0)
            found = self.open[file, is_direct] = os.open(self.path(self.paths[file]), flags)
        return found

    def folder(self, name: str) -> int:
        """A descriptor of a folder."""
        found = self.open.get((name, False))
        if found is None:
            found = self.open[name, False] = os.open(self.path(name), os.O_RDONLY | os.O_DIRECTORY)
        return found

    def drop(self, file: int) -> None:
        """It has no name any more."""
        for is_direct in (False, True):
            fd = self.open.pop((file, is_direct), None)
            if fd is not None:
                os.close(fd)

    def close(self) -> None:
        while self.open:
            os.close(self.open.popitem()[1])


class FileWriter:
    """Works below ``root``, in folders that are made and synced at its start. ``mix``: see FilePlan."""

    def __init__(self, root: str, content: Content, ledger: FileLedger, mix: dict[str, int], mark_fd: int = -1) -> None:
        self.content, self.ledger, self.mark_fd = content, ledger, mark_fd
        self.files = Files(root)
        for folder in FOLDERS:
            os.makedirs(self.files.path(folder), exist_ok=True)
            for name in () if ledger.events else os.listdir(self.files.path(folder)):
                # Of an earlier ledger.
                os.unlink(self.files.path(f"{folder}/{name}"))
        syncfs(self.files.folder(""))
        self.names, _ = ledger.present()
        self.files.paths = {file: name for name, file in self.names.items()}
        self.note([BEGIN, ledger.newest + 1, mix])
        self.plan = FilePlan(content.seed, ledger, mix)
        self.asynchronous = Asynchronous()
        self.slot_bytes = SLOT_BLOCKS * BLOCK_BYTES
        self.buffer = mmap.mmap(-1, MOST_UNDER_WAY * self.slot_bytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.free = list(range(MOST_UNDER_WAY))
        self.under_way: dict[int, tuple[int, int]] = {}
        self.failures = 0
        self.first_failure = ""

    def note(self, event: list[Any]) -> None:
        """Into the ledger, and as a mark into the drives' record."""
        at = self.ledger.add(*event)
        if self.mark_fd >= 0:
            os.write(self.mark_fd, f"mark {at}".encode())

    def advance(self, operations: int) -> None:
        """So many more operations; some stay under way. Ends early where nothing works any more."""
        for _ in range(operations):
            if self.failures >= MOST_FAILURES:
                return
            operation = self.plan.next()
            while len(self.under_way) >= MOST_UNDER_WAY - 1 or any(each in self.under_way for each in operation.waits):
                self.reap(1)
            self.note(operation.event)
            try:
                self.carry_out(operation)
            except OSError as error:
                self.end(operation.number, is_done=False, why=f"{operation.event[0]}: {error.strerror}")
        self.reap(0)

    def carry_out(self, operation: Operation) -> None:
        """Ask the system for it. Raises OSError if it fails at once."""
        kind, number, *more = operation.event
        if kind == FILE_WRITE:
            self.write(operation)
        elif kind == FILE_SYNC:
            self.send(number, self.files.get(more[0]), FDSYNC if operation.is_data_only else FSYNC)
        elif kind == FOLDER_SYNC:
            self.send(number, self.files.folder(more[0]), FSYNC)
        elif kind == SYNC_ALL:
            syncfs(self.files.folder(""))
            self.end(number, is_done=True)
        else:
            self.change(kind, more)
            self.end(number, is_done=True)

    def change(self, kind: str, more: list[Any]) -> None:
        """Make, rename or remove a file."""
        if kind == CREATE:
            file, name = more
            self.files.open[file, False] = os.open(self.files.path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            self.names[name], self.files.paths[file] = file, name
        elif kind == RENAME:
            source, target = more
            os.rename(self.files.path(source), self.files.path(target))
            replaced = self.names.get(target)
            self.names[target] = self.names.pop(source)
            self.files.paths[self.names[target]] = target
            if replaced is not None:
                self.files.drop(replaced)
        else:
            os.unlink(self.files.path(more[0]))
            self.files.drop(self.names.pop(more[0]))

    def write(self, operation: Operation) -> None:
        _, number, file, first, count, is_through = operation.event
        data = content_of(self.content, file, first, count, number)
        flags = RWF_DSYNC if is_through else 0
        if not operation.is_direct:
            done = os.pwritev(self.files.get(file), [data], first * SECTOR_BYTES, flags)
            self.end(number, is_done=done == len(data), why="a short write")
            return
        slot = self.free[-1]
        start = slot * self.slot_bytes
        self.buffer[start : start + len(data)] = data
        fd = self.files.get(file, is_direct=True)
        self.send(number, fd, PWRITE, self.address + start, len(data), first * SECTOR_BYTES, flags)

    def send(
        self, number: int, fd: int, kind: int, address: int = 0, length: int = 0, at: int = 0, flags: int = 0
    ) -> None:
        self.asynchronous.submit(fd, number, kind, address, length, at, flags)
        self.under_way[number] = (self.free.pop(), length)

    def reap(self, least: int) -> None:
        """Note what has ended, waiting for at least so many."""
        for number, result in self.asynchronous.ended(least):
            slot, length = self.under_way.pop(number)
            self.free.append(slot)
            self.end(number, is_done=result == length, why=f"error {-result}" if result < 0 else "a short write")

    def end(self, number: int, *, is_done: bool, why: str = "") -> None:
        self.note([ACKNOWLEDGED if is_done else FAILED, number])
        if not is_done:
            self.failures += 1
            self.first_failure = self.first_failure or why

    def drain(self) -> None:
        """Wait for all that is under way."""
        while self.under_way:
            self.reap(1)

    def close(self) -> None:
        """What is under way ends first."""
        self.drain()
        self.asynchronous.close()
        self.files.close()


def content_of(content: Content, file: int, first: int, count: int, generation: int) -> bytes:
    """What a write puts into these sectors."""
    start, end = first // BLOCK_SECTORS, -(-(first + count) // BLOCK_SECTORS)
    data = b"".join(content.block(file * FILE_BLOCKS + block, generation) for block in range(start, end))
    skipped = (first - start * BLOCK_SECTORS) * SECTOR_BYTES
    return data[skipped : skipped + count * SECTOR_BYTES]
