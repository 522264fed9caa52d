from __future__ import annotations

import time

import pytest

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, LabDisk
from lab.units import MIB

DISKS = tuple(
    LabDisk(name=f"disk0{number}", kind=DiskKind.FILE, node=f"/dev/ubd{letter}", size_bytes=500 * MIB)
    for number, letter in enumerate("abcdefghi", start=1)
)
NODES = tuple(disk.node for disk in DISKS)


@pytest.mark.parametrize(
    ("level", "members", "survives", "cost"),
    [
        ("raid0", 3, "no failed members", 1),
        ("raid1", 3, "2 failed members", 3),
        ("raid5", 4, "1 failed member", 4),
        ("raid5", 3, "1 failed member", 3),
        ("raid6", 6, "2 failed members", 6),
        ("raid10", 6, "1 to 3 failed members", 2),
    ],
)
def test_a_choice_shows_what_it_survives_and_what_a_write_costs(
    level: str, members: int, survives: str, cost: int
) -> None:
    shown = ArraySpec(level, NODES[:members]).preview(DISKS)
    assert shown.can_be_built
    assert (shown.survives, shown.write_ios) == (survives, cost)
    assert shown.write_penalty.startswith(f"{cost} I/O")
    assert shown.raw_bytes == members * 500 * MIB
    assert shown.commands[0].startswith(f"mdadm --create /dev/md0 --run --metadata=1.2 --homehost=any --level={level}")


def test_the_words_for_a_small_write_count_its_reads_and_writes() -> None:
    assert ArraySpec("raid5", NODES[:3]).preview(DISKS).write_penalty == (
        "3 I/Os: the other data chunk is read, then the new data and the parity are written"
    )
    assert ArraySpec("raid6", NODES[:5]).preview(DISKS).write_penalty == (
        "5 I/Os: the other 2 data chunks are read, then the new data and both parities are written"
    )


def test_the_stripe_shows_every_member_in_every_row() -> None:
    shown = ArraySpec("raid5", NODES[:4]).preview(DISKS)
    assert [len(row.chunks) for row in shown.stripe] == [4] * 8


def test_the_smallest_member_decides() -> None:
    odd = (*DISKS[:2], LabDisk(name="disk99", kind=DiskKind.FILE, node="/dev/ubdz", size_bytes=600 * MIB))
    shown = ArraySpec("raid1", ("/dev/ubda", "/dev/ubdz")).preview(odd)
    assert shown.usable_bytes < 500 * MIB
    assert shown.unused_bytes == 100 * MIB


@pytest.mark.parametrize(
    ("spec", "file_system", "said"),
    [
        (ArraySpec("raid5", NODES[:2]), FileSystem.RAW, "raid5 needs at least 3 members, not 2"),
        (ArraySpec("raid7", NODES[:4]), FileSystem.RAW, "unknown level 'raid7'"),
        (ArraySpec("raid0", ()), FileSystem.RAW, "needs at least 2 members"),
        (ArraySpec("raid1", ("/dev/sda", "/dev/sdb")), FileSystem.RAW, "/dev/sda, /dev/sdb: not a disk of this lab"),
        (ArraySpec("raid1", NODES[:2], chunk_bytes=65536), FileSystem.RAW, "raid1 has no chunk"),
        (ArraySpec("raid5", NODES[:3], chunk_bytes=1 << 30), FileSystem.RAW, "too small"),
        (ArraySpec("raid5", NODES[:3], layout="sideways"), FileSystem.RAW, "layout 'sideways'"),
        (ArraySpec("raid5", NODES[:3], bitmap_chunk_bytes=65536), FileSystem.RAW, "a bitmap chunk needs a bitmap"),
    ],
)
def test_what_cannot_be_built_says_why_and_never_raises(spec: ArraySpec, file_system: FileSystem, said: str) -> None:
    shown = spec.preview(DISKS, file_system)
    assert not shown.can_be_built
    assert shown.plan is None
    assert said in " ".join(shown.problems)


def test_every_level_on_every_number_of_disks_is_judged_in_milliseconds() -> None:
    choices = [(level, count) for level in LevelName for count in range(len(NODES) + 1)]
    begin = time.process_time()
    for level, count in choices:
        ArraySpec(level.value, NODES[:count]).preview(DISKS, FileSystem.EXT4)
    assert (time.process_time() - begin) / len(choices) < 0.005
