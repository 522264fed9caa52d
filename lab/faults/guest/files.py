"""Writes and judges the oracle's files on the machine, and runs histories with files.

Direct writes and syncs use io_submit(2), so that several can be in flight while a single thread knows their order. All
other operations are synchronous.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections import Counter
from typing import Any, NamedTuple

from lab.faults.guest.arrays import write_text
from lab.faults.guest.file_ledger import (
    BEGIN,
    CREATE,
    FILE_BLOCKS,
    FILE_SYNC,
    FILE_WRITE,
    FIRST_FILE,
    FOLDER_SYNC,
    FOLDERS,
    RENAME,
    SYNC_ALL,
    FileLedger,
    FilePlan,
    FileStates,
    Operation,
    changed,
    folder_of,
)
from lab.faults.guest.ledger import (
    ALLOWED,
    BLOCK_BYTES,
    BLOCK_SECTORS,
    CORRUPT,
    INTACT,
    LOST,
    NEW,
    OLD,
    SECTOR_BYTES,
    TORN,
    UNREADABLE,
    Content,
    generation_of,
    identity_of,
)
from lab.faults.guest.player import (
    FDSYNC,
    MOST_BAD,
    MOST_UNDER_WAY,
    PWRITE,
    RWF_DSYNC,
    Player,
    RequestWriter,
    run_job,
)
from lab.machine.direct_io_program import opened

FSYNC = 2
SLOT_BLOCKS = 8
MOST_FAILURES = 16


def syncfs(fd: int) -> None:
    """Write out the whole file system of an open file (syncfs(2)). Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).syncfs(fd) < 0:
        raise OSError(ctypes.get_errno(), "syncfs")


class Files:
    """The open descriptors of files (by number, with and without O_DIRECT) and of folders (by name)."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.open: dict[tuple[object, bool], int] = {}
        self.paths: dict[int, str] = {}

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def get(self, file: int, *, is_direct: bool = False) -> int:
        """Return a descriptor of a file. Raises OSError, for example if the file could not be created."""
        found = self.open.get((file, is_direct))
        if found is None:
            if file not in self.paths:
                raise FileNotFoundError(errno.ENOENT, "the file could not be created")
            flags = os.O_RDWR | (os.O_DIRECT if is_direct else 0)
            found = self.open[file, is_direct] = os.open(self.path(self.paths[file]), flags)
        return found

    def folder(self, name: str) -> int:
        found = self.open.get((name, False))
        if found is None:
            found = self.open[name, False] = os.open(self.path(name), os.O_RDONLY | os.O_DIRECTORY)
        return found

    def drop(self, file: int) -> None:
        """Close the descriptors of a file that no longer has a name."""
        for is_direct in (False, True):
            fd = self.open.pop((file, is_direct), None)
            if fd is not None:
                os.close(fd)

    def close(self) -> None:
        while self.open:
            os.close(self.open.popitem()[1])


class FileWriter(RequestWriter):
    """Carries out a FilePlan below ``root``, in folders that it creates and syncs first. For ``mix``, see FilePlan."""

    def __init__(self, root: str, content: Content, ledger: FileLedger, mix: dict[str, int], mark_fd: int = -1) -> None:
        super().__init__(ledger, SLOT_BLOCKS * BLOCK_BYTES, mark_fd)
        self.content = content
        self.files = Files(root)
        for folder in FOLDERS:
            os.makedirs(self.files.path(folder), exist_ok=True)
            for name in () if ledger.events else os.listdir(self.files.path(folder)):
                # The file belongs to an earlier ledger.
                os.unlink(self.files.path(f"{folder}/{name}"))
        syncfs(self.files.folder(""))
        self.names, _ = ledger.present()
        self.files.paths = {file: name for name, file in self.names.items()}
        self.note(BEGIN, ledger.newest + 1, mix)
        self.plan = FilePlan(content.seed, ledger, mix)

    def advance(self, operations: int) -> None:
        """Carry out further operations, leaving some in flight. Return early after ``MOST_FAILURES`` failures."""
        for _ in range(operations):
            if self.failures >= MOST_FAILURES:
                return
            operation = self.plan.next()
            while len(self.under_way) >= MOST_UNDER_WAY - 1 or any(each in self.under_way for each in operation.waits):
                self.reap(1)
            self.note(*operation.event)
            try:
                self.carry_out(operation)
            except OSError as error:
                self.end(operation.number, is_done=False, why=f"{operation.event[0]}: {error.strerror}")
        self.reap(0)

    def carry_out(self, operation: Operation) -> None:
        """Start an operation. Raises OSError if it fails immediately."""
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
        fd = self.files.get(file, is_direct=True)
        self.send(number, fd, PWRITE, self.buffered(data), len(data), first * SECTOR_BYTES, flags)

    def close(self) -> None:
        super().close()
        self.files.close()


def content_of(content: Content, file: int, first: int, count: int, generation: int) -> bytes:
    """Return the content that a write puts into these sectors."""
    start, end = first // BLOCK_SECTORS, -(-(first + count) // BLOCK_SECTORS)
    data = b"".join(content.block(file * FILE_BLOCKS + block, generation) for block in range(start, end))
    skipped = (first - start * BLOCK_SECTORS) * SECTOR_BYTES
    return data[skipped : skipped + count * SECTOR_BYTES]


class Found(NamedTuple):
    """The file found under a name: its bytes, or the error message if it cannot be read."""

    data: bytes
    error: str = ""


def read_files(root: str) -> dict[str, Found]:
    """Read the files in all folders, by name; a folder that cannot be listed has an entry with the error."""
    found: dict[str, Found] = {}
    for folder in FOLDERS:
        try:
            names = os.listdir(f"{root}/{folder}")
        except OSError as error:
            found[folder] = Found(b"", str(error.strerror))
            continue
        for name in names:
            found[f"{folder}/{name}"] = read_file(f"{root}/{folder}/{name}")
    return found


def read_file(path: str) -> Found:
    """Read one file, up to slightly more than the maximum size of the oracle's files."""
    try:
        with opened(path, os.O_RDONLY | os.O_NOFOLLOW) as fd:
            return Found(os.pread(fd, min(os.fstat(fd).st_size, (FILE_BLOCKS + 1) * BLOCK_BYTES), 0))
    except OSError as error:
        return Found(b"", str(error.strerror))


class FileVerdict(NamedTuple):
    """How well the data found match one file: the verdicts on its blocks, and the bad places."""

    verdicts: Counter[str]
    bad: list[list[Any]]


def judged_file(content: Content, file: int, data: bytes, state: tuple[int, int, dict[int, list[int]]]) -> FileVerdict:
    """Judge each block of a file, and list the bad ones as [offset in bytes, verdict, found, allowed]."""
    least, most, sectors = state
    verdict = FileVerdict(Counter(), [])
    if len(data) < least:
        verdict.bad.append([len(data), LOST, f"{len(data)} bytes", f"{least} bytes or more"])
    elif len(data) > most or len(data) % SECTOR_BYTES:
        verdict.bad.append(
            [min(len(data), most), CORRUPT, f"{len(data)} bytes", f"{most} bytes or fewer, in whole sectors"]
        )
    for start in range(0, max(len(data), most), BLOCK_BYTES):
        first = start // SECTOR_BYTES
        allowed = [sectors.get(first + index, [0]) for index in range(BLOCK_SECTORS)]
        piece = data[start : start + BLOCK_BYTES]
        whole = content.block(file * FILE_BLOCKS + start // BLOCK_BYTES, allowed[0][0]) if allowed[0][0] else b""
        if piece == whole and len(allowed[0]) == 1 and all(each == allowed[0] for each in allowed):
            verdict.verdicts[INTACT] += 1
            continue
        generations = [sector_generation(content, file, first + index, data) for index in range(BLOCK_SECTORS)]
        word = judged_block(generations, allowed)
        verdict.verdicts[word] += 1
        if word not in ALLOWED:
            index = next(index for index, each in enumerate(generations) if each not in allowed[index])
            at = (first + index) * SECTOR_BYTES
            seen = (
                f"generation {generations[index]}"
                if generations[index]
                else describe_sector(data[at : at + SECTOR_BYTES])
            )
            verdict.bad.append([at, word, seen, allowed[index]])
    return verdict


def sector_generation(content: Content, file: int, sector: int, data: bytes) -> int | None:
    """Return a sector's generation: 0 for zeros and beyond the end of the file, None for any other content."""
    piece = data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]
    if not any(piece):
        return 0
    return generation_of(content, file * FILE_BLOCKS + sector // BLOCK_SECTORS, sector % BLOCK_SECTORS, piece)


def judged_block(generations: list[int | None], allowed: list[list[int]]) -> str:
    """Judge a block like one on a device (``judged`` in ledger.py), but with allowed generations for each sector."""
    if any(generation is None for generation in generations):
        return CORRUPT
    if any(generation not in allowed[index] for index, generation in enumerate(generations)):
        return LOST
    open_ = [(generations[index], may) for index, may in enumerate(allowed) if len(may) > 1]
    if not open_:
        return INTACT
    old = sum(generation == may[0] for generation, may in open_)
    return OLD if old == len(open_) else TORN if old else NEW


def describe_sector(sector: bytes) -> str:
    """Describe a sector whose content is not one of its generations."""
    if not any(sector):
        return "zeros"
    identity = identity_of(sector)
    if identity is None:
        return "unknown bytes"
    number, generation = identity
    file, block = divmod(number, FILE_BLOCKS)
    if file < FIRST_FILE:
        return f"earlier content of the device: its block {number}"
    return f"block {block} of file {file}, generation {generation}"


class FilesCheck:
    """Compares all files with the states that are allowed."""

    def __init__(self, content: Content, states: FileStates, found: dict[str, Found]) -> None:
        self.content, self.states, self.found = content, states, found
        self.files, self.blocks = Counter[str](), Counter[str]()
        self.bad: list[list[Any]] = []
        self.seen: dict[str, list[int]] = {}
        """Name -> the possible files, 0 for no file; empty if they cannot be determined."""
        for name in sorted({*states.names, *found}):
            self.check_name(name)
        for folder, (sure, later) in sorted(states.folders.items()):
            self.check_folder(folder, sure, later)

    def check_name(self, name: str) -> None:
        allowed, found = self.states.names.get(name, [0]), self.found.get(name)
        if found is None:
            self.seen[name] = [0]
            word = INTACT if allowed == [0] else LOST if 0 not in allowed else OLD if allowed[0] == 0 else NEW
            self.count(word, name, "no such file", allowed)
            return
        if found.error:
            self.count(UNREADABLE, name, found.error, allowed)
            return
        verdicts = {
            file: judged_file(self.content, file, found.data, self.states.files[file])
            for file in dict.fromkeys(allowed)
            if file
        }
        suited = [file for file, each in verdicts.items() if not each.bad]
        self.seen[name] = suited or list(verdicts)
        if not verdicts:
            self.count(LOST, name, f"a file that was removed, {len(found.data)} bytes", allowed)
            return
        # Choose the newest of several matching files, because an old empty file would match as well.
        chosen = max(suited) if suited else min(verdicts, key=lambda file: (len(verdicts[file].bad), -file))
        self.count(INTACT if len(set(allowed)) == 1 else OLD if chosen == allowed[0] else NEW, name)
        self.blocks += verdicts[chosen].verdicts
        self.bad += [[name, *each] for each in verdicts[chosen].bad]

    def count(self, word: str, name: str, seen: str = "", allowed: list[int] | None = None) -> None:
        self.files[word] += 1
        if word not in ALLOWED:
            # Such a name reveals nothing about the other names.
            self.seen[name] = []
            self.bad.append([name, 0, word, seen, [f"file {each}" if each else "no file" for each in allowed or ()]])

    def check_folder(self, folder: str, sure: dict[str, int], later: list[list[Any]]) -> None:
        """Check whether the names in a folder can result from changes that were each applied completely."""
        names = [name for name in self.seen if folder_of(name) == folder]
        if not all(self.can_be(part, sure, later) for part in parts_of(names, later)):
            shown = ", ".join(f"{name} is {' or '.join(map(str, self.seen[name]))}" for name in sorted(names))
            self.files[CORRUPT] += 1
            self.bad.append([folder, 0, CORRUPT, shown, "names that result from complete changes"])

    def fits(self, state: dict[str, int], names: list[str]) -> bool:
        return all(not self.seen[name] or state.get(name, 0) in self.seen[name] for name in names)

    def can_be(self, names: list[str], sure: dict[str, int], later: list[list[Any]]) -> bool:
        """Whether a subset of the later changes, each applied completely, results in these names."""
        states = {tuple(sure.get(name, 0) for name in names)}
        for kind, _, *more in later:
            if more[-1] in names:
                for state in list(states):
                    after = changed(named(names, state), kind, more)
                    states.add(tuple(after.get(name, 0) for name in names))
        return any(self.fits(named(names, state), names) for state in states)

    def document(self) -> dict[str, Any]:
        return {"files": self.files, "verdicts": self.blocks, "bad": self.bad[:MOST_BAD]}


def named(names: list[str], state: tuple[int, ...]) -> dict[str, int]:
    """Return name -> file for the names that refer to a file."""
    return {names[index]: file for index, file in enumerate(state) if file}


def parts_of(names: list[str], later: list[list[Any]]) -> list[list[str]]:
    """Return the groups of names that are connected by renames."""
    group = {name: {name} for name in names}
    for kind, _, *more in later:
        if kind == RENAME and more[0] in group and more[1] in group:
            both = group[more[0]] | group[more[1]]
            for name in both:
                group[name] = both
    return [sorted(each) for each in {id(each): each for each in group.values()}.values()]


class FilePlayer(Player):
    """Runs a history with files; ``job["folder"]`` is the mount point of the file system."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.files = FileLedger(job.get("ledger", ()))
        # Code that only counts or returns events works for both kinds of ledger.
        self.ledger.events = self.files.events
        self.mounted = job["folder"]
        self.sent = len(self.ledger.events)

    def do_files(self, mix: dict[str, int]) -> None:
        """Open the writer of files, which replaces the block writer and has the same interface for steps."""
        writer: Any = FileWriter(self.mounted, self.content, self.files, mix, self.mark_fd)
        self.writer = writer

    def do_work(self, operations: int) -> dict[str, Any]:
        """Carry out further operations on files, some of which remain in flight."""
        seen = self.do_advance(operations)
        return {**seen, "first_failure": self.writer.first_failure if self.writer else ""}

    def do_tell(self) -> dict[str, Any]:
        """Return the events since the last call, which the client stores in case the machine is lost."""
        events, self.sent = self.ledger.events[self.sent :], len(self.ledger.events)
        return {"new": events}

    def do_check(self) -> dict[str, Any]:
        """Judge the files as programs see them, with data that may come from the page cache."""
        write_text("/proc/sys/vm/drop_caches", "1\n")
        check = FilesCheck(self.content, self.files.allowed(), read_files(self.mounted))
        return {**check.document(), **self.state()}


def main() -> None:
    """Run the histories of one job."""
    run_job(FilePlayer)
