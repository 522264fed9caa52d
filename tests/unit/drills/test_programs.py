"""The programs of drills: exact copies of disks, the data that members still contain, and when md is busy."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import re
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab.drills
from lab.arrays.geometry import ChunkKind, StripeRow, stripe_rows
from lab.arrays.levels import Raid10, Raid10Layout, level_with_layout
from lab.arrays.parity_program import exclusive_or, q_of
from lab.drills import disks_program
from lab.drills.desk import geometry_of, read_truth
from lab.drills.disks_program import PAGE_BYTES, PIECE_BYTES, changed, main, put_back, save
from lab.errors import DrillError
from lab.microscope import extents_program

SIZE = 3 * PIECE_BYTES + 4096


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A disk with data at its beginning, across two pieces, and in its last sector."""
    path = tmp_path / "disk"
    path.touch()
    os.truncate(path, SIZE)
    for at, length in ((0, 1024), (PIECE_BYTES - 512, 1024), (SIZE - 512, 512)):
        write(path, at, os.urandom(length))
    return path


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_copy_is_the_same_and_has_holes_where_there_are_zeros(disk: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    copied = save(str(disk), str(image))
    assert image.read_bytes() == disk.read_bytes()
    assert copied < SIZE
    assert image.stat().st_blocks * 512 < SIZE
    assert image.stat().st_mode & 0o777 == 0o600


SMALL_PIECE = 8192
SMALL = 3 * SMALL_PIECE + 4096
"""With small pieces, more writes cross the border between two of them."""


@given(writes=st.lists(st.tuples(st.integers(0, SMALL - 4096), st.binary(min_size=1, max_size=4096)), max_size=6))
def test_writes_are_reported_in_whole_sectors_and_undone(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("disks")
    disk, image = folder / "disk", folder / "image"
    disk.write_bytes(bytes(SMALL))
    write(disk, 8192, b"x" * 8192)
    before = disk.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disks_program, "PIECE_BYTES", SMALL_PIECE)
        save(str(disk), str(image))
        for at, data in writes:
            write(disk, at, data)
        now = disk.read_bytes()
        ranges = changed(str(disk), str(image))
        put_back(str(disk), str(image))
    reported = {sector for first, end in ranges for sector in range(first // 512, end // 512)}
    assert reported == {at // 512 for at in range(0, SMALL, 512) if before[at : at + 512] != now[at : at + 512]}
    assert ranges == sorted(ranges)
    assert all(end <= first for (_, end), (first, _) in itertools.pairwise(ranges))
    assert disk.read_bytes() == before
    assert image.read_bytes() == before


def test_erased_data_are_restored_too(disk: Path, tmp_path: Path) -> None:
    before = disk.read_bytes()
    save(str(disk), str(tmp_path / "image"))
    os.truncate(disk, 0)
    os.truncate(disk, SIZE)
    assert sum(end - first for first, end in changed(str(disk), str(tmp_path / "image"))) == 2048 + 512
    put_back(str(disk), str(tmp_path / "image"))
    assert disk.read_bytes() == before


def test_it_answers_in_the_order_of_the_disks(disk: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"1" * 512)
    pairs = json.dumps([[str(disk), str(tmp_path / "images" / "a")], [str(other), str(tmp_path / "images" / "b")]])
    main(["keep", pairs], lambda: False)
    write(other, 0, b"2")
    assert json.loads(main(["changed", pairs], lambda: False)) == [[], [[0, 512]]]
    assert json.loads(main(["put_back", pairs], lambda: False)) == [0, 512]


def test_it_can_be_stopped(disk: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="stopped"):
        main(["keep", json.dumps([[str(disk), str(tmp_path / "image")]])], lambda: True)


@pytest.mark.parametrize("work", [put_back, changed])
def test_a_copy_of_another_size_is_refused_and_nothing_written(disk: Path, tmp_path: Path, work: Any) -> None:
    image = tmp_path / "image"
    save(str(disk), str(image))
    os.truncate(image, 4096)
    write(disk, PIECE_BYTES, b"later")
    before = disk.read_bytes()
    with pytest.raises(OSError, match="the copy has 4096 bytes"):
        work(str(disk), str(image))
    assert disk.read_bytes() == before


def test_partial_writes_are_continued(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, whole = tmp_path / "image", disk.read_bytes()
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data[: len(data) // 2 + 1]), at))
    save(str(disk), str(image))
    assert image.read_bytes() == whole
    write(disk, 0, b"x" * 4096)
    put_back(str(disk), str(image))
    assert disk.read_bytes() == whole


ROWS, CHUNK_PAGES, OFFSET_PAGES = 24, 2, 3
ROW_PAGES = ROWS * CHUNK_PAGES


@dataclass
class Made:
    """Members made by the rules of geometry.py and picture.py, and the program's record of the array."""

    folder: Path
    rows: tuple[StripeRow, ...]
    parts: int
    geometry: dict[str, Any]
    noted: dict[str, Any]
    members: list[Path]
    data: list[bytes]

    def look(self, others: tuple[Path, ...] = ()) -> dict[str, Any]:
        slots = [[[number, OFFSET_PAGES]] for number in range(len(self.members))]
        disks = [str(path) for path in (*self.members, *others)]
        return disks_program.examine({"noted": str(self.folder / "noted"), "disks": disks, "slots": slots})

    def wipe(self, slot: int, row: int, *, part: int = 0, inner: int = 0) -> None:
        at = OFFSET_PAGES + (part * (ROWS // self.parts) + row) * CHUNK_PAGES + inner
        write(self.members[slot], at * PAGE_BYTES, bytes(PAGE_BYTES))

    def pages(self, row: int, kinds: tuple[ChunkKind, ...] = (ChunkKind.DATA,), slot: int | None = None) -> set[int]:
        """First pages of the chunks of these kinds in a row."""
        cells = enumerate(self.rows[row].chunks)
        return {c.number * CHUNK_PAGES for at, c in cells if c.kind in kinds and slot in (None, at)}


def make(folder: Path, level_name: str, members: int, layout: str | None = None, seed: int = 1) -> Made:
    folder.mkdir(exist_ok=True)
    level = level_with_layout(level_name, layout if level_name == "raid10" else None)
    parts = level.copies if isinstance(level, Raid10) and level.layout is Raid10Layout.FAR else 1
    rotation = None if level_name == "raid10" else layout
    rows = stripe_rows(level, rotation, members, ROWS // parts)
    chance = random.Random(seed)
    count = 1 + max(c.number for row in rows for c in row.chunks if c.kind is ChunkKind.DATA)
    chunk_bytes = CHUNK_PAGES * PAGE_BYTES
    data = [chance.randbytes(chunk_bytes) for _ in range(count)]
    texts = [bytearray((OFFSET_PAGES + ROW_PAGES) * PAGE_BYTES) for _ in range(members)]
    for row in rows:
        at = (OFFSET_PAGES + (row.part * (ROWS // parts) + row.row) * CHUNK_PAGES) * PAGE_BYTES
        for slot, cell in enumerate(_row(row, data, chunk_bytes)):
            texts[slot][at : at + chunk_bytes] = cell
    array = folder / "array"
    array.write_bytes(b"".join(data))
    paths = [folder / f"member{slot}" for slot in range(members)]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    status: Any = SimpleNamespace(
        raid=level,
        layout=rotation,
        component_bytes=ROW_PAGES * PAGE_BYTES,
        raid_disks=members,
        members=(),
    )
    geometry = geometry_of(status, chunk_bytes)
    noted = note(folder, range(count * CHUNK_PAGES), geometry)
    return Made(folder, rows, parts, geometry, noted, paths, data)


def note(folder: Path, files: Iterable[int], geometry: dict[str, Any]) -> dict[str, Any]:
    """Record the location of these pages of the array."""
    asked = {"node": str(folder / "array"), "files": [*files], "meta": [], "also": [], "geometries": [geometry]}
    noted = disks_program.note(asked)
    (folder / "noted").write_text(json.dumps(noted))
    return noted


def _row(row: StripeRow, data: list[bytes], length: int) -> list[bytes]:
    mine = {slot: data[c.number] for slot, c in enumerate(row.chunks) if not c.kind.is_parity}
    q_slot = next((slot for slot, c in enumerate(row.chunks) if c.kind is ChunkKind.Q), 0)
    order = [slot % len(row.chunks) for slot in range(q_slot + 1, q_slot + len(row.chunks))]
    weighed = {power: mine[slot] for power, slot in enumerate(slot for slot in order if slot in mine)}
    parity = {ChunkKind.P: exclusive_or(mine.values(), length), ChunkKind.Q: q_of(weighed, length)}
    return [mine.get(slot) or parity[c.kind] for slot, c in enumerate(row.chunks)]


LEVELS = [
    *(("raid5", members, layout) for members in (3, 4, 5) for layout in ("left-symmetric", "left-asymmetric")),
    ("raid5", 4, "right-symmetric"),
    *(("raid6", members, layout) for members in (4, 5) for layout in ("left-symmetric", "left-asymmetric")),
    ("raid10", 4, "n2"),
    ("raid10", 4, "f2"),
    ("raid10", 4, "o2"),
]


@pytest.mark.parametrize(("level", "members", "layout"), LEVELS)
def test_whole_members_hold_every_cell_and_lack_nothing(tmp_path: Path, level: str, members: int, layout: str) -> None:
    found = make(tmp_path / "made", level, members, layout).look()
    assert (found["files"], {*found["cells"]} - {*"DP"}) == ([], set())


@pytest.mark.parametrize(("level", "spare"), [("raid5", 1), ("raid6", 2)])
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_destroyed_blocks_are_reported_as_lost(tmp_path: Path, level: str, spare: int, seed: int) -> None:
    made = make(tmp_path / "made", level, 5, "left-symmetric")
    chance = random.Random(seed)
    gone: set[int] = set()
    for row in chance.sample(range(ROWS), 8):
        slots = chance.sample(range(5), chance.randrange(1, 5))
        for slot in slots:
            made.wipe(slot, row)
        if len(slots) > spare:
            gone |= {page for slot in slots for page in made.pages(row, slot=slot)}
    assert {*made.look()["files"]} == gone


def test_a_mirrored_block_is_lost_only_if_each_copy_is(tmp_path: Path) -> None:
    made = make(tmp_path / "made", "raid10", 4, "n2")
    made.wipe(0, 5)
    assert made.look()["files"] == []
    made.wipe(1, 5)
    assert {*made.look()["files"]} == made.pages(5, slot=0)


def test_what_lies_elsewhere_can_be_had_if_it_is_not_zeros(tmp_path: Path) -> None:
    made = make(tmp_path / "made", "raid5", 4, "left-symmetric")
    other = tmp_path / "other"
    at = (OFFSET_PAGES + 7 * CHUNK_PAGES) * PAGE_BYTES
    first, second = (made.members[slot].read_bytes()[at : at + PAGE_BYTES] for slot in (0, 1))
    for slot in (0, 1, 2):
        made.wipe(slot, 7)
    lacking = {*made.look()["files"]}
    assert lacking == set().union(*(made.pages(7, slot=slot) for slot in (0, 1, 2)))
    other.write_bytes(bytes(9 * PAGE_BYTES) + first + second)
    assert made.look((other,))["files"] == []
    # The search compares whole blocks, so it does not find data that are shifted by a sector.
    other.write_bytes(bytes(9 * PAGE_BYTES + 512) + first + second + bytes(512))
    assert {*made.look((other,))["files"]} == lacking


def test_zeros_count_where_they_lay_and_nowhere_else(tmp_path: Path) -> None:
    made = make(tmp_path / "made", "raid5", 4, "left-symmetric")
    # The parity of a row of zeros is zero too.
    row_bytes = 3 * CHUNK_PAGES * PAGE_BYTES
    write(made.folder / "array", 4 * row_bytes, bytes(row_bytes))
    note(made.folder, made.noted["files"], made.geometry)
    # The members still contain the old data of this row, and zeros elsewhere do not count as copies.
    assert {*made.look()["files"]} == set(range(4 * 3 * CHUNK_PAGES, 5 * 3 * CHUNK_PAGES))


NOTED = json.dumps({"geometries": [], "files": [0], "meta": [], "slots": [], "uuid": ""})


@pytest.mark.parametrize("text", ["{", '{"files": [0], "meta": [], "slots": [], "uuid": ""}', "[" * 100_000])
@pytest.mark.parametrize("name", ["truth.json", "truth-begun.json"])
def test_a_damaged_note_is_named(tmp_path: Path, name: str, text: str) -> None:
    session: Any = None
    assert read_truth(session, [], tmp_path) is None
    (tmp_path / "truth.json").write_text(NOTED)
    (tmp_path / name).write_text(text)
    with pytest.raises(DrillError, match=rf"{re.escape(name)}' is damaged") as caught:
        read_truth(session, [], tmp_path)
    assert caught.value.hint == "give the drill up with 'raidlab drill leave'"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("{", "gave an invalid answer"),
        ("[" * 100_000, "gave an invalid answer"),
        ('{"files": [], "meta": [], "cells": 1}', "gave an invalid answer: Expected `str`"),
        ('{"files": [], "meta": [], "cells": "DD"}', r"truth-begun\.json' has 1 cell, but 2 were examined"),
    ],
)
def test_a_wrong_answer_from_the_machine_is_named(tmp_path: Path, answer: str, message: str) -> None:
    machine = SimpleNamespace(call=lambda *_, **__: answer)
    session: Any = SimpleNamespace(target=SimpleNamespace(is_embedded=False), machine=machine)
    (tmp_path / "truth.json").write_text(NOTED)
    (tmp_path / "truth-begun.json").write_text('{"files": [], "meta": [], "cells": "D"}')
    with pytest.raises(DrillError, match=message) as caught:
        read_truth(session, [], tmp_path)
    assert caught.value.hint == "give the drill up with 'raidlab drill leave'"


def test_a_note_of_a_slot_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(target=SimpleNamespace(is_embedded=True))
    rows = '[[[1, [[0, 0, "", 0]], [[0, 0]]]]]'
    (tmp_path / "truth.json").write_text(NOTED.replace('"geometries": []', f'"geometries": {rows}'))
    (tmp_path / "truth-begun.json").write_text('{"files": [], "meta": [], "cells": "D"}')
    with pytest.raises(DrillError, match="gave an invalid answer") as caught:
        read_truth(session, [], tmp_path)
    assert caught.value.hint == "give the drill up with 'raidlab drill leave'"


def test_the_file_map_knows_every_block_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(random.Random(1).randbytes(5 * PAGE_BYTES))
    with (tmp_path / "file").open("rb+") as file:
        os.fsync(file.fileno())
    found = disks_program.mapped({"place": str(tmp_path)})
    # Some file systems do not report where their files are.
    assert len(found["files"]) in (0, 5)


def test_every_page_of_an_extent_is_in_the_file_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ioctl(_fd: int, _number: int, answer: bytearray, _mutate: bool) -> int:
        struct.pack_into("=L", answer, 20, 1)
        last = 1
        extents_program.EXTENT.pack_into(
            answer, extents_program.HEAD.size, 0, 8 * PAGE_BYTES, 5 * PAGE_BYTES, 0, 0, last, 0, 0, 0
        )
        return 0

    (tmp_path / "file").touch()
    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert disks_program.mapped({"place": str(tmp_path)})["files"] == [8, 9, 10, 11, 12]


def test_a_file_system_that_does_not_tell_where_its_files_are_gives_an_empty_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ioctl(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    (tmp_path / "file").touch()
    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert disks_program.mapped({"place": str(tmp_path)}) == {"files": [], "folders": []}


def test_extents_that_were_reported_before_a_failure_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ioctl(_fd: int, _number: int, answer: bytearray, _mutate: bool) -> int:
        if extents_program.HEAD.unpack_from(answer)[0]:
            raise OSError(errno.EIO, "Input/output error")
        struct.pack_into("=L", answer, 20, 1)
        extents_program.EXTENT.pack_into(answer, extents_program.HEAD.size, 0, 8192, 4096, 0, 0, 0, 0, 0, 0)
        return 0

    (tmp_path / "file").touch()
    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert disks_program.mapped({"place": str(tmp_path)}) == {"files": [2], "folders": [2]}


# Files and words: md.rst in the kernel's documentation. On real arrays: tests/kernel/test_settle.py.
SETTLE = Path(lab.drills.__file__).with_name("settle.bash")
IDLE = {
    "sync_action": "idle",
    "reshape_position": "none",
    "array_state": "clean",
    "degraded": "0",
    "resync_start": "none",
    "dev-sda/state": "in_sync",
    "dev-sdb/state": "in_sync",
}


def is_busy(folder: Path, files: dict[str, str]) -> bool:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n")
    found = subprocess.run(
        ["bash", "-euc", f'. {SETTLE}\n_is_busy "$1" && echo busy || echo settled', "bash", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == ""
    return found.stdout == "busy\n"


BUSY = {
    "rebuild": {"sync_action": "recover", "degraded": "1"},
    "frozen": {"sync_action": "frozen"},
    "reshape": {"reshape_position": "2048"},
    "resync due": {"resync_start": "0"},
    "spare for a hole": {"degraded": "1", "dev-sdb/state": "spare"},
    "replacement": {"dev-sda/state": "in_sync,want_replacement", "dev-sdc/state": "spare,replacement"},
    "replacement, other order": {"dev-sdc/state": "replacement,spare"},
}
SETTLED = {
    "whole": {},
    "a spare in reserve": {"dev-sdc/state": "spare"},
    "a hole": {"degraded": "1", "dev-sdb/state": "faulty"},
    "a hole and no resync": {"degraded": "1", "resync_start": "0"},
    "read-only": {"array_state": "readonly", "resync_start": "0"},
    "read-auto": {"array_state": "read-auto", "degraded": "1", "dev-sdb/state": "spare"},
    "no replacement": {"dev-sda/state": "in_sync,want_replacement"},
}


@pytest.mark.parametrize("name", [*BUSY, *SETTLED])
def test_only_what_md_does_or_is_about_to_do_is_waited_for(tmp_path: Path, name: str) -> None:
    assert is_busy(tmp_path, IDLE | (BUSY | SETTLED)[name]) is (name in BUSY)


def test_an_array_without_redundancy_is_never_busy(tmp_path: Path) -> None:
    assert not is_busy(tmp_path, {"array_state": "clean"})
