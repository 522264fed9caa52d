"""The verdict on files: what is found below a folder, held against what the ledger allows.

Runs inside the agent of a machine as a part of other programs, and in the client; standard library alone.
"""

from __future__ import annotations

import os
from typing import Any

from lab.faults.guest.blocks import BLOCK_BYTES, SECTOR_BYTES, Content, told_by
from lab.faults.guest.files_ledger import (
    FILE_BLOCKS,
    FILE_SYNC,
    FILE_WRITE,
    FIRST_FILE,
    RENAME,
    FileLedger,
    FileStates,
    changed,
    folder_of,
)
from lab.faults.guest.files_plan import BLOCK_SECTORS, FOLDERS
from lab.faults.guest.ledger import ALLOWED, CORRUPT, INTACT, LOST, NEW, OLD, TORN, UNREADABLE
from lab.faults.guest.writer import MOST_BAD

ARBITRARY = "in flight, anything"
"""A block with a write under way of which the array says that it may then hold anything."""
IN_ORDER = "changes of names are there in their order"
HAS_NAME = "a synced new file has its name without a sync of its folder"
IS_WHOLE = "a file renamed over another without a sync is whole"
MORE = (IN_ORDER, HAS_NAME, IS_WHOLE)
"""What is more than promised, and so no fault where it is missing."""


class Found:
    """One name: its file's bytes, or why they cannot be read; None for no such name."""

    __slots__ = ("data", "error")

    def __init__(self, data: bytes, error: str = "") -> None:
        self.data, self.error = data, error


def read_files(root: str) -> dict[str, Found]:
    """All files below the folders, by name. What cannot be listed or read is told as an error."""
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
    """One file."""
    fd = -1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        size = os.fstat(fd).st_size
        # What is far too long is not read: no file of ours can be.
        return Found(os.pread(fd, min(size, (FILE_BLOCKS + 1) * BLOCK_BYTES), 0))
    except OSError as error:
        return Found(b"", str(error.strerror))
    finally:
        if fd >= 0:
            os.close(fd)


class FileVerdict:
    """How the bytes of a name suit one file. ``told``: the generation of each sector, None for anything else."""

    def __init__(self) -> None:
        self.verdicts: dict[str, int] = {}
        self.bad: list[list[Any]] = []
        self.told: list[int | None] = []

    def add(self, verdict: str) -> None:
        self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1


def judged_file(
    content: Content,
    file: int,
    data: bytes,
    state: tuple[int, int, dict[int, list[int]]],
    *,
    is_arbitrary: bool = False,
) -> FileVerdict:
    """The verdict on each block of a file, as [offset in bytes, verdict, found, allowed] where it is bad."""
    least, most, sectors = state
    verdict = FileVerdict()
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
            verdict.add(INTACT)
            verdict.told += allowed[0] * BLOCK_SECTORS
            continue
        told = [told_sector(content, file, first + index, data) for index in range(BLOCK_SECTORS)]
        verdict.told += told
        word = judged_block(told, allowed)
        if is_arbitrary and word not in ALLOWED and any(len(each) > 1 for each in allowed):
            word = ARBITRARY
        verdict.add(word)
        if word not in (*ALLOWED, ARBITRARY):
            index = next(index for index, each in enumerate(told) if each not in allowed[index])
            at = (first + index) * SECTOR_BYTES
            seen = f"generation {told[index]}" if told[index] else looked_at(data[at : at + SECTOR_BYTES])
            verdict.bad.append([at, word, seen, allowed[index]])
    return verdict


def told_sector(content: Content, file: int, sector: int, data: bytes) -> int | None:
    """The generation of a sector: 0 for zeros and behind the end, None for what is not this sector's."""
    piece = data[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES]
    if not any(piece):
        return 0
    number = file * FILE_BLOCKS + sector // BLOCK_SECTORS
    told = told_by(piece) if len(piece) == SECTOR_BYTES else None
    if told is None or told[0] != number:
        return None
    start = sector % BLOCK_SECTORS * SECTOR_BYTES
    return told[1] if piece == content.block(number, told[1])[start : start + SECTOR_BYTES] else None


def judged_block(told: list[int | None], allowed: list[list[int]]) -> str:
    """As for blocks of a device, each sector with generations of its own."""
    if any(generation is None for generation in told):
        return CORRUPT
    if any(generation not in allowed[index] for index, generation in enumerate(told)):
        return LOST
    open_ = [(told[index], may) for index, may in enumerate(allowed) if len(may) > 1]
    if not open_:
        return INTACT
    old = sum(generation == may[0] for generation, may in open_)
    return OLD if old == len(open_) else TORN if old else NEW


def looked_at(sector: bytes) -> str:
    """What a sector that is not its own seems to be."""
    if not any(sector):
        return "zeros"
    told = told_by(sector) if len(sector) == SECTOR_BYTES else None
    if told is None:
        return "unknown bytes"
    number, generation = told
    file, block = divmod(number, FILE_BLOCKS)
    if file < FIRST_FILE:
        return f"what lay on the device before: its block {number}"
    return f"block {block} of file {file}, generation {generation}"


class FilesCheck:
    """One look at all files. ``extra`` counts what is more than promised: [kept, not kept] for each."""

    def __init__(
        self, content: Content, states: FileStates, found: dict[str, Found], *, is_arbitrary: bool = False
    ) -> None:
        self.content, self.states, self.found, self.is_arbitrary = content, states, found, is_arbitrary
        self.files: dict[str, int] = {}
        self.blocks: dict[str, int] = {}
        self.bad: list[list[Any]] = []
        self.seen: dict[str, dict[int, FileVerdict | None]] = {}
        """Name -> files that it may be, 0: none, each with how its bytes suit; nothing: that cannot be told."""
        self.extra: dict[str, list[int]] = {}
        for name in sorted({*states.names, *found}):
            self.look(name)
        for folder, (sure, later) in sorted(states.folders.items()):
            self.look_at_folder(folder, sure, later)

    def look(self, name: str) -> None:
        """One name."""
        allowed, found = self.states.names.get(name, [0]), self.found.get(name)
        if found is None:
            self.seen[name] = {0: None}
            word = INTACT if allowed == [0] else LOST if 0 not in allowed else OLD if allowed[0] == 0 else NEW
            self.count(word, name, "no such file", allowed)
            return
        if found.error:
            self.count(UNREADABLE, name, found.error, allowed)
            return
        verdicts = {
            file: judged_file(self.content, file, found.data, self.states.files[file], is_arbitrary=self.is_arbitrary)
            for file in dict.fromkeys(allowed)
            if file
        }
        suited: dict[int, FileVerdict | None] = {file: each for file, each in verdicts.items() if not each.bad}
        self.seen[name] = suited or dict(verdicts)
        if not verdicts:
            self.count(LOST, name, f"a file that was removed, {len(found.data)} bytes", allowed)
            return
        # Of several that suit, the newest: an old one that is empty would suit in its place.
        chosen = max(suited) if suited else min(verdicts, key=lambda file: (len(verdicts[file].bad), -file))
        self.count(INTACT if len(set(allowed)) == 1 else OLD if chosen == allowed[0] else NEW, name)
        for word, count in verdicts[chosen].verdicts.items():
            self.blocks[word] = self.blocks.get(word, 0) + count
        self.bad += [[name, *each] for each in verdicts[chosen].bad]

    def count(self, word: str, name: str, seen: str = "", allowed: list[int] | None = None) -> None:
        self.files[word] = self.files.get(word, 0) + 1
        if word not in ALLOWED:
            # Then it says nothing about the other names.
            self.seen[name] = {}
            self.bad.append([name, 0, word, seen, [f"file {each}" if each else "no file" for each in allowed or ()]])

    def look_at_folder(self, folder: str, sure: dict[str, int], later: list[list[Any]]) -> None:
        """Whether its names together are what whole changes of them give."""
        names = [name for name in self.seen if folder_of(name) == folder]
        state, fits = sure, self.fits(sure, names)
        for kind, _, *more in later:
            state = changed(state, kind, more)
            fits = fits or self.fits(state, names)
        if later and all(self.seen[name] for name in names):
            self.count_extra(IN_ORDER, is_kept=fits)
        if not fits and not all(self.can_be(part, sure, later) for part in parts_of(names, later)):
            shown = ", ".join(f"{name} is {' or '.join(map(str, self.seen[name]))}" for name in sorted(names))
            self.files[CORRUPT] = self.files.get(CORRUPT, 0) + 1
            self.bad.append([folder, 0, CORRUPT, shown, "names that whole changes of them give"])

    def fits(self, state: dict[str, int], names: list[str]) -> bool:
        return all(not self.seen[name] or state.get(name, 0) in self.seen[name] for name in names)

    def can_be(self, names: list[str], sure: dict[str, int], later: list[list[Any]]) -> bool:
        """Whether some of the later changes, each as a whole, give what these names are."""
        states = {tuple(sure.get(name, 0) for name in names)}
        for kind, _, *more in later:
            if more[-1] in names:
                for state in list(states):
                    after = changed(named(names, state), kind, more)
                    states.add(tuple(after.get(name, 0) for name in names))
        return any(self.fits(named(names, state), names) for state in states)

    def count_extra(self, word: str, *, is_kept: bool) -> None:
        self.extra.setdefault(word, [0, 0])[not is_kept] += 1

    def look_for_more(self, ledger: FileLedger, at: int) -> None:
        """What is more than promised, where it can be told."""
        for _, later in self.states.folders.values():
            for index, (kind, number, *more) in enumerate(later):
                touched = {name for _, _, *words in later[index + 1 :] for name in words if isinstance(name, str)}
                name = more[-1]
                if name in touched or not self.seen[name]:
                    continue
                before, file = self.states.names[name][-2:]
                if file and is_synced(ledger, file, ledger.ended.get(number, at), at):
                    self.count_extra(HAS_NAME, is_kept=file in self.seen[name])
                if kind == RENAME and before and set(self.seen[name]) == {file}:
                    written = written_before(ledger, file, ledger.came[number])
                    if written and not is_synced(ledger, file, 0, at):
                        verdict = self.seen[name][file]
                        told = verdict.told if verdict else []
                        whole = all(
                            sector < len(told) and (told[sector] or 0) >= each for sector, each in written.items()
                        )
                        self.count_extra(IS_WHOLE, is_kept=whole)

    def document(self) -> dict[str, Any]:
        """For the client."""
        document: dict[str, Any] = {"files": self.files, "verdicts": self.blocks, "bad": self.bad[:MOST_BAD]}
        return {**document, "more": self.extra}


def named(names: list[str], state: tuple[int, ...]) -> dict[str, int]:
    """Name -> file, without those that stand for none."""
    return {names[index]: file for index, file in enumerate(state) if file}


def parts_of(names: list[str], later: list[list[Any]]) -> list[list[str]]:
    """Names that changes tie to each other, each group by itself."""
    group = {name: {name} for name in names}
    for kind, _, *more in later:
        if kind == RENAME and more[0] in group and more[1] in group:
            both = group[more[0]] | group[more[1]]
            for name in both:
                group[name] = both
    return [sorted(each) for each in {id(each): each for each in group.values()}.values()]


def is_synced(ledger: FileLedger, file: int, since: int, at: int) -> bool:
    """Whether a sync of a file that began after an event had ended by another."""
    for kind, number, *more in ledger.since_fresh(at):
        if kind == FILE_SYNC and more[0] == file and ledger.came[number] > since and ledger.has_ended(number, at):
            return True
    return False


def written_before(ledger: FileLedger, file: int, at: int) -> dict[int, int]:
    """Sector -> the newest generation that had been written to it before an event."""
    found = {}
    for kind, number, *more in ledger.since_fresh(at):
        if kind == FILE_WRITE and more[0] == file and ledger.has_ended(number, at):
            found.update(dict.fromkeys(range(more[1], more[1] + more[2]), number))
    return found
