"""What is done to files: many small jobs side by side, as programs do them, chosen by a seed alone.

Runs inside the agent of a machine as a part of other programs, and in the client; standard library alone.

What comes next never depends on how long anything takes, only on what has been asked for so far. So a client whose
machine was lost can tell what it may have been doing (``FilePlan.skip``).
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

from lab.faults.guest.files_ledger import (
    CREATE,
    FILE_SYNC,
    FILE_WRITE,
    FOLDER_SYNC,
    RENAME,
    SYNC_ALL,
    UNLINK,
    FileLedger,
    folder_of,
)

BLOCK_SECTORS = 8
FOLDERS = ("d0", "d1")
FILE_MIX = {"names": 10, "depth": 3, "largest": 16, "unsynced": 4, "through": 8, "direct": 3, "everything": 24}


class Operation:
    """One call of the system, as the ledger notes it.

    ``waits``: operations that must have ended before; ``is_direct``: past the page cache; ``is_data_only``:
    fdatasync(2).
    """

    __slots__ = ("event", "is_data_only", "is_direct", "waits")

    def __init__(
        self, event: list[Any], waits: tuple[int, ...] = (), *, is_direct: bool = False, is_data_only: bool = False
    ) -> None:
        self.event, self.waits, self.is_direct, self.is_data_only = event, waits, is_direct, is_data_only

    @property
    def number(self) -> int:
        return int(self.event[1])


class FilePlan:
    """The operations of one seed, one after the other without end.

    ``mix``: ``names`` of files, ``depth`` jobs side by side, files of ``largest`` blocks of 4 KiB at most; one sync in
    ``unsynced`` is left out, one write in ``through`` is O_DSYNC, one burst of writes in ``direct`` O_DIRECT, and one
    job in ``everything`` a syncfs(2) (0: none).
    """

    def __init__(self, seed: str, ledger: FileLedger, mix: dict[str, int]) -> None:
        self.mix = {**FILE_MIX, **mix}
        self.chance = random.Random(f"{seed}:{ledger.newest}")
        self.names, self.sizes = ledger.present()
        self.newest, self.newest_file = ledger.newest, ledger.newest_file
        self.jobs: list[Generator[Operation, None, None]] = []
        self.busy: list[str] = []
        width = len(str(self.mix["names"] - 1))
        self.all_names = [f"{FOLDERS[number % 2]}/f{number:0{width}d}" for number in range(self.mix["names"])]

    def next(self) -> Operation:
        """The next operation; names and sizes are then as if it had ended."""
        while True:
            if len(self.jobs) < self.mix["depth"]:
                self.begin()
            index = self.chance.randrange(len(self.jobs))
            try:
                return next(self.jobs[index])
            except StopIteration:
                del self.jobs[index], self.busy[index]

    def skip(self, operations: int) -> None:
        """Those that were asked for already."""
        for _ in range(operations):
            self.next()

    def begin(self) -> None:
        """A new job on a name that no other job works on."""
        name = self.chance.choice([each for each in self.all_names if each not in self.busy])
        if self.one_in("everything"):
            job = self.sync_all()
        elif name not in self.names:
            job = self.chance.choice((self.make, self.make, self.replace))(name)
        elif self.sizes.get(self.names[name], 0) > (self.mix["largest"] - 4) * BLOCK_SECTORS:
            job = self.chance.choice((self.overwrite, self.replace, self.remove))(name)
        else:
            job = self.chance.choice(
                (self.append, self.append, self.overwrite, self.overwrite, self.replace, self.replace, self.remove)
            )(name)
        self.jobs.append(job)
        self.busy.append(name)

    def one_in(self, word: str) -> bool:
        return bool(self.mix[word]) and self.chance.randrange(self.mix[word]) == 0

    def number(self) -> int:
        self.newest += 1
        return self.newest

    def created(self, name: str) -> Operation:
        self.newest_file += 1
        self.names[name] = self.newest_file
        self.sizes[self.newest_file] = 0
        return Operation([CREATE, self.number(), self.newest_file, name])

    def write(
        self, file: int, first: int, count: int, waits: tuple[int, ...] = (), *, is_direct: bool = False
    ) -> Operation:
        """Of so many sectors; what would make the file too long is cut off."""
        count = max(1, min(count, self.mix["largest"] * BLOCK_SECTORS - first))
        self.sizes[file] = max(self.sizes[file], first + count)
        event = [FILE_WRITE, self.number(), file, first, count, int(self.one_in("through"))]
        return Operation(event, waits, is_direct=is_direct)

    def sync(self, file: int, waits: tuple[int, ...] = ()) -> Operation:
        return Operation([FILE_SYNC, self.number(), file], waits, is_data_only=self.chance.randrange(2) == 0)

    def folder(self, name: str, waits: tuple[int, ...] = ()) -> Operation:
        return Operation([FOLDER_SYNC, self.number(), folder_of(name)], waits)

    def some_blocks(self) -> int:
        """Sectors of one to four whole blocks, mostly one."""
        return BLOCK_SECTORS * self.chance.choice((1, 1, 2, 4))

    def make(self, name: str) -> Generator[Operation, None, None]:
        """A new file, written from its beginning."""
        yield self.created(name)
        file = self.names[name]
        waits: tuple[int, ...] = ()
        for _ in range(self.chance.randrange(4)):
            yield self.write(
                file, self.sizes[file], self.chance.choice((self.some_blocks(), self.chance.randint(1, 12)))
            )
        if not self.one_in("unsynced"):
            done = self.sync(file)
            waits = (done.number,)
            yield done
        if not self.one_in("unsynced"):
            yield self.folder(name, waits)

    def append(self, name: str) -> Generator[Operation, None, None]:
        """As a log: small pieces at the end, synced now and then."""
        file = self.names[name]
        waits: tuple[int, ...] = ()
        for _ in range(self.chance.randint(2, 6)):
            if self.sizes[file] >= self.mix["largest"] * BLOCK_SECTORS:
                return
            yield self.write(file, self.sizes[file], self.chance.randint(1, 12), waits)
            if self.chance.randrange(2):
                done = self.sync(file)
                waits = (done.number,)
                yield done

    def overwrite(self, name: str) -> Generator[Operation, None, None]:
        """As a database: blocks in place, several under way at once past the page cache; also behind the end."""
        file, blocks = self.names[name], max(1, self.sizes[self.names[name]] // BLOCK_SECTORS)
        is_direct = self.one_in("direct")
        under_way: dict[int, tuple[int, int]] = {}
        for _ in range(self.chance.randint(1, 5)):
            first = self.chance.randrange(blocks) * BLOCK_SECTORS
            if self.chance.randrange(8) == 0:
                # Perhaps with a hole before it.
                first = -(-self.sizes[file] // BLOCK_SECTORS + self.chance.randint(-1, 0)) * BLOCK_SECTORS
            if first >= self.mix["largest"] * BLOCK_SECTORS:
                continue
            count = self.some_blocks()
            if not is_direct and self.chance.randrange(2):
                first, count = first + self.chance.randrange(BLOCK_SECTORS), self.chance.randint(1, 8)
            grows = first + count > self.sizes[file]
            waits = tuple(
                number for number, (start, end) in under_way.items() if grows or (start < first + count and first < end)
            )
            done = self.write(file, first, count, waits, is_direct=is_direct)
            for number in waits:
                del under_way[number]
            if is_direct:
                # One that makes the file longer ends before the next begins.
                under_way[done.number] = (0, 1 << 32) if grows else (first, first + count)
            yield done
        if not self.one_in("unsynced"):
            yield self.sync(file)
        if under_way:
            # Nothing else writes to this file before these have ended.
            yield self.sync(file, tuple(under_way))

    def replace(self, name: str) -> Generator[Operation, None, None]:
        """As editors do: a new file under another name, synced, renamed over the old one, the folder synced."""
        folder = folder_of(name)
        other = f"{folder}/.{name[len(folder) + 1 :]}.new"
        if other in self.names:
            yield Operation([UNLINK, self.number(), other])
            del self.names[other]
        yield self.created(other)
        file = self.names[other]
        waits: tuple[int, ...] = ()
        for _ in range(self.chance.randint(1, 3)):
            yield self.write(
                file, self.sizes[file], self.chance.choice((self.some_blocks(), self.chance.randint(1, 12)))
            )
        if not self.one_in("unsynced"):
            done = self.sync(file)
            waits = (done.number,)
            yield done
        event = [RENAME, self.number(), other, name]
        self.names[name] = self.names.pop(other)
        yield Operation(event, waits)
        if not self.one_in("unsynced"):
            yield self.folder(name)

    def remove(self, name: str) -> Generator[Operation, None, None]:
        """A file goes."""
        event = [UNLINK, self.number(), name]
        del self.names[name]
        yield Operation(event)
        if not self.one_in("unsynced"):
            yield self.folder(name)

    def sync_all(self) -> Generator[Operation, None, None]:
        """All of the file system."""
        yield Operation([SYNC_ALL, self.number()])
