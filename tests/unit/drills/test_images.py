"""Copies of disks: kept, compared and put back, to the byte."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.drills.images_program import PIECE_BYTES, changed, keep, main, put_back

SIZE = 3 * PIECE_BYTES + 4096


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """With data at its beginning, across two pieces, and at its very end."""
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(SIZE)
        for at in (0, PIECE_BYTES - 512, SIZE - 512):
            file.seek(at)
            file.write(os.urandom(1024 if at + 1024 <= SIZE else 512))
    return path


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_copy_is_the_same_and_has_holes_where_there_are_zeros(disk: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    copied = keep(str(disk), str(image))
    assert image.read_bytes() == disk.read_bytes()
    assert copied < SIZE
    assert image.stat().st_blocks * 512 < SIZE
    assert image.stat().st_mode & 0o777 == 0o600


@given(writes=st.lists(st.tuples(st.integers(0, SIZE - 4096), st.binary(min_size=1, max_size=4096)), max_size=6))
def test_whatever_is_written_is_told_in_whole_sectors_and_taken_back(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("disks")
    disk, image = folder / "disk", folder / "image"
    disk.write_bytes(bytes(SIZE))
    write(disk, 8192, b"x" * 8192)
    before = disk.read_bytes()
    keep(str(disk), str(image))
    for at, data in writes:
        write(disk, at, data)
    now = disk.read_bytes()
    ranges = changed(str(disk), str(image))
    told = {sector for first, end in ranges for sector in range(first // 512, end // 512)}
    assert told == {
        sector for sector in range(SIZE // 512) if before[sector * 512 :][:512] != now[sector * 512 :][:512]
    }
    assert ranges == sorted(ranges)
    assert all(end <= first for (_, end), (first, _) in itertools.pairwise(ranges))
    put_back(str(disk), str(image))
    assert disk.read_bytes() == before
    assert image.read_bytes() == before


def test_what_was_erased_is_put_back_too(disk: Path, tmp_path: Path) -> None:
    before = disk.read_bytes()
    keep(str(disk), str(tmp_path / "image"))
    with disk.open("r+b") as file:
        file.truncate(0)
        file.truncate(SIZE)
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
    keep(str(disk), str(image))
    os.truncate(image, 4096)
    write(disk, PIECE_BYTES, b"later")
    before = disk.read_bytes()
    with pytest.raises(OSError, match="the copy has 4096 bytes"):
        work(str(disk), str(image))
    assert disk.read_bytes() == before


def test_what_is_written_only_in_part_is_gone_on_with(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, whole = tmp_path / "image", disk.read_bytes()
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data[: len(data) // 2 + 1]), at))
    keep(str(disk), str(image))
    assert image.read_bytes() == whole
    write(disk, 0, b"x" * 4096)
    put_back(str(disk), str(image))
    assert disk.read_bytes() == whole
