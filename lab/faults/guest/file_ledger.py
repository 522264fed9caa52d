"""The ledger of files, which records operations on a file system, and so determines what may be found there.

A *file* has a number that it keeps when it is renamed; a new file with an old name gets a different number. Offsets and
lengths are counted in sectors of 512 bytes. The number of a write is the generation with which it fills its sectors
(ledger.py); generation 0 consists of zeros. Block b of file f is block ``f * FILE_BLOCKS + b`` of the content, so no
two files share content.

After a power cut, ext4 (data=ordered, the default) and XFS promise the following:

    data      A file and its size reflect everything written before a completed fsync(2) or fdatasync(2) began, and
              every completed write with O_DSYNC (open(2)). Later writes may or may not be present, each sector
              independently; the file may be shorter than they made it, or contain zeros in place of their data.
    names     The names in a folder are at least as recent as when the last completed fsync of the folder began: "an
              explicit fsync() on a file descriptor for the directory is also needed" (fsync(2)).
    changes   Each later change of a name is present completely or not at all, including rename(2) over another file,
              because both file systems keep a journal of their metadata.
    others    A file contains only its own data and zeros, no data of another file, and nothing that was in its blocks
              before (data=ordered, Documentation/admin-guide/ext4.rst; XFS marks new blocks as unwritten until their
              data are on the disk).

Applications should not rely on anything beyond that, such as the order of changes (T. S. Pillai et al., All File
Systems Are Not Created Equal, OSDI 2014).

The plan generates many small concurrent jobs, like those of real programs, from a seed. The next operation depends
only on the operations submitted so far, never on timing.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

from lab.faults.guest.ledger import ACKNOWLEDGED, BLOCK_SECTORS, FAILED

FILE_BLOCKS = 256
"""Maximum number of 4 KiB blocks of a file."""
FIRST_FILE = 4096
"""Lower numbers would collide with the blocks of the bare device, for devices up to 4 GiB."""
CREATE, RENAME, UNLINK = "create", "rename", "unlink"
FILE_WRITE, FILE_SYNC, FOLDER_SYNC, SYNC_ALL = "write", "fsync", "fsync folder", "syncfs"
BEGIN = "begin"
CHANGES = (CREATE, RENAME, UNLINK)


def folder_of(name: str) -> str:
    """Return the folder of a name, such as ``d0`` for ``d0/f3``."""
    return name.partition("/")[0]


def changed(names: dict[str, int], kind: str, words: list[Any]) -> dict[str, int]:
    """Return the names (name -> file) after a change; they are unchanged if it is impossible.

    ``words`` are the fields of the event after kind and number.
    """
    after = dict(names)
    if kind == CREATE:
        after.setdefault(words[1], words[0])
    elif kind == UNLINK:
        after.pop(words[0], None)
    elif words[0] in names:
        after[words[1]] = after.pop(words[0])
    return after


class FileStates:
    """The allowed names and contents of files.

    ``names`` maps a name to the files that it may refer to, oldest first; 0 stands for no file. ``files`` maps a file
    to (minimum size in bytes, maximum size, sector -> generations, oldest first); other sectors are zeros. ``folders``
    maps a folder to (names that are certain, events of later changes in order).
    """

    def __init__(self) -> None:
        self.names: dict[str, list[int]] = {}
        self.files: dict[int, tuple[int, int, dict[int, list[int]]]] = {}
        self.folders: dict[str, tuple[dict[str, int], list[list[Any]]]] = {}


class FileLedger:
    """Everything that the writer knows; ``events`` contains all of it, as lists, numbered from 1."""

    def __init__(self, events: Iterable[list[Any]] = ()) -> None:
        self.events: list[list[Any]] = []
        self.came: dict[int, int] = {}
        self.ended: dict[int, int] = {}
        self.newest = 0
        self.newest_file = FIRST_FILE - 1
        for event in events:
            self.add(*event)

    def add(self, kind: str, number: int, *more: Any) -> int:
        """Append an event, and return its number.

        Operations are ``create N FILE NAME``, ``rename N NAME NAME``, ``unlink N NAME``, ``write N FILE SECTOR COUNT
        THROUGH`` (THROUGH is 1 for O_DSYNC), ``fsync N FILE``, ``fsync folder N FOLDER`` and ``syncfs N``; each may
        later be ``acknowledged N`` or ``failed N``. ``begin N MIX`` means that a writer starts its plan.
        """
        self.events.append([kind, number, *more])
        at = len(self.events)
        if kind == ACKNOWLEDGED:
            self.ended[number] = at
        elif kind != FAILED:
            self.came[number] = at
            self.newest = max(self.newest, number)
        if kind == CREATE:
            self.newest_file = max(self.newest_file, more[0])
        return at

    def has_ended(self, number: int, at: int) -> int:
        """Return the event that acknowledged operation ``number``, or 0 if that had not happened by event ``at``."""
        ended = self.ended.get(number, 0)
        return ended if ended <= at else 0

    def present(self) -> tuple[dict[str, int], dict[int, int]]:
        """Return name -> file and file -> number of sectors, as programs see them if all operations succeeded."""
        names: dict[str, int] = {}
        sizes: dict[int, int] = {}
        for kind, _, *more in self.events:
            if kind in CHANGES:
                names = changed(names, kind, more)
                if kind == CREATE:
                    sizes[more[0]] = 0
            elif kind == FILE_WRITE:
                sizes[more[0]] = max(sizes.get(more[0], 0), more[1] + more[2])
        return names, sizes

    def synced_before(self, at: int, *, is_power_cut: bool) -> dict[object, int]:
        """Return the events at which the last syncs of each folder, of each file and of everything (key "") began.

        Operations that ended before their sync began are certain at event ``at``.
        """
        if not is_power_cut:
            return {"": at + 1}
        found: dict[object, int] = {"": 0}
        for kind, number, *more in self.events[:at]:
            if kind in (FILE_SYNC, FOLDER_SYNC, SYNC_ALL) and self.has_ended(number, at):
                what = more[0] if more else ""
                found[what] = max(found.get(what, 0), self.came[number])
        return found

    def allowed(self, at: int | None = None, *, is_power_cut: bool = False) -> FileStates:
        """Return the names and contents of files that are allowed after event ``at`` (None: after all events)."""
        at = len(self.events) if at is None else at
        synced = self.synced_before(at, is_power_cut=is_power_cut)
        states = FileStates()
        self.allow_names(states, at, synced)
        candidates = {file for files in states.names.values() for file in files if file}
        writes: dict[int, list[tuple[int, int, int, bool]]] = {file: [] for file in candidates}
        for kind, number, *more in self.events[:at]:
            if kind == FILE_WRITE and more[0] in candidates:
                ended = self.has_ended(number, at)
                before = max(synced[""], synced.get(more[0], 0))
                is_sure = ended > 0 and (ended < before or bool(more[3]))
                writes[more[0]].append((number, more[1], more[2], is_sure))
        for file, those in writes.items():
            states.files[file] = of_writes(those)
        return states

    def allow_names(self, states: FileStates, at: int, synced: dict[object, int]) -> None:
        for kind, number, *more in self.events[:at]:
            if kind not in CHANGES:
                continue
            folder = folder_of(more[-1])
            sure, later = states.folders.get(folder, ({}, []))
            ended = self.has_ended(number, at)
            if not later and 0 < ended < max(synced[""], synced.get(folder, 0)):
                states.folders[folder] = (changed(sure, kind, more), later)
            else:
                states.folders[folder] = (sure, [*later, [kind, number, *more]])
        for sure, later in states.folders.values():
            for name, file in sure.items():
                states.names[name] = [file]
            names = sure
            for kind, _, *more in later:
                before, names = names, changed(names, kind, more)
                for name in more if kind == RENAME else more[-1:]:
                    states.names.setdefault(name, [before.get(name, 0)]).append(names.get(name, 0))


def of_writes(writes: list[tuple[int, int, int, bool]]) -> tuple[int, int, dict[int, list[int]]]:
    """Return the minimum and maximum size in bytes, and the generations that each sector may hold.

    ``writes`` contains, in order, generation, first sector, count, and whether the write is certain to be present.
    """
    least = most = 0
    sectors: dict[int, list[int]] = {}
    for generation, first, count, is_sure in writes:
        most = max(most, first + count)
        if is_sure:
            least = max(least, first + count)
            for sector in range(first, first + count):
                sectors[sector] = [generation]
        else:
            for sector in range(first, first + count):
                sectors.setdefault(sector, [0]).append(generation)
    return least * 512, most * 512, sectors


FOLDERS = ("d0", "d1")
FILE_MIX = {"names": 10, "depth": 3, "largest": 16, "unsynced": 4, "through": 8, "direct": 3, "everything": 24}


class Operation(NamedTuple):
    """One system call, as recorded in the ledger.

    ``waits`` are the operations that must end before it starts. ``is_direct`` means that it uses O_DIRECT, and
    ``is_data_only`` that it is fdatasync(2) instead of fsync(2).
    """

    event: list[Any]
    waits: tuple[int, ...] = ()
    is_direct: bool = False
    is_data_only: bool = False

    @property
    def number(self) -> int:
        return int(self.event[1])


class FilePlan:
    """The endless sequence of operations that follows from a seed.

    ``mix`` contains the number of file ``names``, the ``depth`` (number of concurrent jobs), and the ``largest`` size
    of a file in blocks of 4 KiB. One sync in ``unsynced`` is omitted, one write in ``through`` uses O_DSYNC, one burst
    of writes in ``direct`` uses O_DIRECT, and one job in ``everything`` is a syncfs(2) (0 means none).
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
        """Return the next operation, and update names and sizes as if it had ended."""
        while True:
            if len(self.jobs) < self.mix["depth"]:
                self.begin()
            index = self.chance.randrange(len(self.jobs))
            try:
                return next(self.jobs[index])
            except StopIteration:
                del self.jobs[index], self.busy[index]

    def begin(self) -> None:
        """Start a new job on a name that no other job uses."""
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
        """Plan a write of ``count`` sectors, or of fewer if the file would exceed its maximum size."""
        count = max(1, min(count, self.mix["largest"] * BLOCK_SECTORS - first))
        self.sizes[file] = max(self.sizes[file], first + count)
        event = [FILE_WRITE, self.number(), file, first, count, int(self.one_in("through"))]
        return Operation(event, waits, is_direct=is_direct)

    def sync(self, file: int, waits: tuple[int, ...] = ()) -> Operation:
        return Operation([FILE_SYNC, self.number(), file], waits, is_data_only=self.chance.randrange(2) == 0)

    def folder(self, name: str, waits: tuple[int, ...] = ()) -> Operation:
        return Operation([FOLDER_SYNC, self.number(), folder_of(name)], waits)

    def some_blocks(self) -> int:
        """Return the number of sectors in one, two or four blocks, most often one."""
        return BLOCK_SECTORS * self.chance.choice((1, 1, 2, 4))

    def written(self, name: str, fewest: int) -> Generator[Operation, None, tuple[int, ...]]:
        """Create a file and write it from its beginning; return the number of its sync, if any, in a tuple."""
        yield self.created(name)
        file = self.names[name]
        for _ in range(self.chance.randint(fewest, 3)):
            count = self.chance.choice((self.some_blocks(), self.chance.randint(1, 12)))
            yield self.write(file, self.sizes[file], count)
        if self.one_in("unsynced"):
            return ()
        done = self.sync(file)
        yield done
        return (done.number,)

    def make(self, name: str) -> Generator[Operation, None, None]:
        """Create a file, write it, and sync its folder."""
        waits = yield from self.written(name, 0)
        if not self.one_in("unsynced"):
            yield self.folder(name, waits)

    def append(self, name: str) -> Generator[Operation, None, None]:
        """Append small pieces with occasional syncs, as to a log."""
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
        """Write blocks in place or beyond the end of the file, like a database; with O_DIRECT, several at a time."""
        file, blocks = self.names[name], max(1, self.sizes[self.names[name]] // BLOCK_SECTORS)
        is_direct = self.one_in("direct")
        under_way: dict[int, tuple[int, int]] = {}
        for _ in range(self.chance.randint(1, 5)):
            first = self.chance.randrange(blocks) * BLOCK_SECTORS
            if self.chance.randrange(8) == 0:
                # This may leave a hole.
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
                # A write that extends the file must end before the next one begins.
                under_way[done.number] = (0, 1 << 32) if grows else (first, first + count)
            yield done
        if not self.one_in("unsynced"):
            yield self.sync(file)
        if under_way:
            # Do not let another job write to this file before these writes have ended.
            yield self.sync(file, tuple(under_way))

    def replace(self, name: str) -> Generator[Operation, None, None]:
        """Write a new file, sync it, rename it over the old one, and sync the folder, like an editor."""
        folder = folder_of(name)
        other = f"{folder}/.{name[len(folder) + 1 :]}.new"
        if other in self.names:
            yield Operation([UNLINK, self.number(), other])
            del self.names[other]
        waits = yield from self.written(other, 1)
        event = [RENAME, self.number(), other, name]
        self.names[name] = self.names.pop(other)
        yield Operation(event, waits)
        if not self.one_in("unsynced"):
            yield self.folder(name)

    def remove(self, name: str) -> Generator[Operation, None, None]:
        event = [UNLINK, self.number(), name]
        del self.names[name]
        yield Operation(event)
        if not self.one_in("unsynced"):
            yield self.folder(name)

    def sync_all(self) -> Generator[Operation, None, None]:
        yield Operation([SYNC_ALL, self.number()])
