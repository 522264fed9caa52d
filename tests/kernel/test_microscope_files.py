"""From a file to the members, and other content of members: each area has the mark that md or mdadm writes there."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest

from lab.arrays import operations
from lab.arrays.array import OpenArrays
from lab.arrays.filesystem import FileSystem, make, mount, mount_point, unmount
from lab.arrays.levels import md_path
from lab.arrays.status import wait_until_idle
from lab.disks import Lab
from lab.errors import ArrayError
from lab.microscope.array_map import (
    BLOCK_BYTES,
    BLOCK_SECTORS,
    AreaKind,
    BytesAt,
    find_place,
    locate,
    locate_file,
    read_moment,
    read_shape,
    sector_of_member,
)
from lab.session.session import Client, LabSession
from lab.units import MIB
from tests.kernel.place import quick_marks, quick_target
from tests.kernel.rig import DEVICE, NAME, file_disks

pytestmark = [pytest.mark.kernel, *quick_marks()]

TARGET = quick_target()
DISKS = file_disks(4, 160)
WRITE_BLOCK = ("dd", "if=/dev/urandom", f"of={DEVICE}", "bs=4k", "count=1", "oflag=direct", "status=none")
WRITE_FILE = """
import hashlib, os, sys
with open(sys.argv[1], "wb") as out:
    for block in range(int(sys.argv[2])):
        if block % 7 != 3:
            out.seek(block * 4096)
            out.write(hashlib.shake_128(str(block).encode()).digest(4096))
    os.fsync(out.fileno())
"""


@pytest.fixture
def session(lab: Lab) -> LabSession:
    lab.machine.run(("sh", "-c", f"umount {DEVICE}; mdadm --stop {DEVICE}"), check=False)
    lab.reset(lab.disks)
    return LabSession(Client(TARGET, lab.host), lab)


def read_at(arrays: OpenArrays, device: str, sector: int, length: int = 512) -> bytes:
    return read_moment(arrays.machine, [BytesAt(device, sector * 512, length)]).places[0].data


def build(session: LabSession, level: str, members: int, *options: str) -> None:
    nodes = [disk.node for disk in session.disks[:members]]
    clean = ("--assume-clean",) if "--write-journal" not in options else ()
    command = ("mdadm", "--create", DEVICE, f"--level={level}", f"--raid-devices={members}", *clean, *options)
    session.machine.run((*command, "--run", *nodes))


@pytest.mark.parametrize("kind", [FileSystem.EXT4, FileSystem.XFS])
def test_every_block_of_a_file_is_found_on_a_member(session: LabSession, kind: FileSystem) -> None:
    build(session, "5", 3, "--chunk=64", "--bitmap=none")
    shape = read_shape(session, NAME)
    session.lab.execute(make(kind, DEVICE, size_bytes=shape.size_sectors * 512, chunk_bytes=65536))
    session.lab.execute(mount(kind, DEVICE))
    path, blocks = f"{mount_point(DEVICE)}/data", 2 * MIB // BLOCK_BYTES
    session.machine.run(("python3", "-c", WRITE_FILE, path, str(blocks)))
    mounted = locate_file(session, NAME, path)
    session.lab.execute(unmount(kind, DEVICE))
    # The file system is not mounted now. It is mounted for this request, and is not mounted afterwards.
    found = locate_file(session, NAME, "data")
    assert session.array(NAME).mounted_on == ()
    assert found.extents == mounted.extents
    assert found.size_bytes == blocks * BLOCK_BYTES
    numbers, places = [], []
    # XFS reserves blocks in the holes as well.
    for each in [each for each in found.extents if not each.extent.note]:
        for step in range(0, each.extent.length, BLOCK_BYTES):
            numbers.append((each.extent.file_byte + step) // BLOCK_BYTES)
            (place,) = locate(shape, (each.extent.device_byte + step) // 512).places
            assert place.device_sector is not None
            places.append(BytesAt(place.device, place.device_sector * 512, BLOCK_BYTES))
    assert numbers == [block for block in range(blocks) if block % 7 != 3]
    for number, held in zip(numbers, read_moment(session.machine, places).places, strict=True):
        assert held.data == hashlib.shake_128(str(number).encode()).digest(BLOCK_BYTES)
    words = find_place(session, NAME, "data").words
    assert f"begins in block {found.extents[0].extent.device_byte // BLOCK_BYTES}" in words


def area(arrays: OpenArrays, disk: str, kind: AreaKind) -> tuple[int, int]:
    """Start and length of an area of a disk in sectors, found by asking for the first sector of each area."""
    at = 0
    while True:
        found = sector_of_member(arrays, NAME, disk, at)
        if found.area is kind:
            return found.area_start, found.area_sectors
        at = found.area_start + found.area_sectors


def test_each_area_has_its_mark(session: LabSession) -> None:
    build(session, "5", 3, "--bitmap=internal", "--bitmap-chunk=64K")
    start, _ = area(session, "disk02", AreaKind.SUPERBLOCK)
    assert read_at(session, session.disks[1].node, start)[:4] == 0xA92B4EFC.to_bytes(4, "little")
    start, length = area(session, "disk02", AreaKind.BITMAP)
    assert read_at(session, session.disks[1].node, start)[:4] == b"bitm"
    # The area has room for all bits, and its size is a whole number of pages.
    bits = read_shape(session, NAME).geometry.stripe_count
    assert bits > 0
    assert length % 8 == 0
    start, _ = area(session, "disk02", AreaKind.BAD_BLOCKS)
    session.machine.write(md_path(NAME, f"dev-{session.disks[1].kernel_name}/bad_blocks"), "100000 8")
    # The list is written with the next superblock.
    session.machine.run(WRITE_BLOCK)
    # One word contains the place and the length of each range (super_1_sync in drivers/md/md.c).
    assert read_at(session, session.disks[1].node, start)[:8] == (100_000 << 10 | 8).to_bytes(8, "little")
    assert sector_of_member(session, NAME, "disk02", 100_007).note == "in md's list of bad blocks"
    assert sector_of_member(session, NAME, "disk02", 100_008).note == ""
    data, _ = area(session, "disk02", AreaKind.DATA)
    assert data == read_shape(session, NAME).members[1].offset
    with pytest.raises(ArrayError, match="does not lie in a stripe of md0: superblock"):
        find_place(session, NAME, "disk02@8")
    assert find_place(session, NAME, f"disk02@{data}").stripe == 0


def test_the_partial_parity_log_begins_with_its_header(session: LabSession) -> None:
    build(session, "5", 3, "--consistency-policy=ppl")
    session.machine.run(WRITE_BLOCK)
    marks = []
    for disk in session.disks[:3]:
        start, length = area(session, disk.name, AreaKind.PPL)
        assert length >= 256
        marks.append(read_at(session, disk.node, start, 4096))
    # This reserved field is filled with 0xff (struct ppl_header in include/uapi/linux/raid/md_p.h).
    assert all(mark[:512] == b"\xff" * 512 for mark in marks)
    assert len(set(marks)) > 1


def test_the_journal_is_one_area_behind_its_superblock(session: LabSession) -> None:
    journal = session.disks[3]
    build(session, "5", 3, f"--write-journal={journal.node}")
    wait_until_idle(session.machine, NAME)
    session.machine.run(WRITE_BLOCK)
    start, _ = area(session, journal.name, AreaKind.JOURNAL)
    # R5LOG_MAGIC in include/uapi/linux/raid/md_p.h.
    assert read_at(session, journal.node, start)[:4] == 0x6433C509.to_bytes(4, "little")
    assert sector_of_member(session, NAME, journal.name, start).kind is None


@pytest.mark.virtual_time
def test_a_member_being_rebuilt_is_distinguished_from_a_complete_one(session: LabSession) -> None:
    build(session, "5", 3, "--bitmap=none", "--size=65536")
    session.lab.execute(operations.set_sync_speed(NAME, minimum_kib_per_second=200, maximum_kib_per_second=200))
    failed = session.disks[0].node
    session.lab.execute(operations.fail(NAME, failed) + operations.remove(NAME, failed))
    session.lab.execute(operations.add(NAME, session.disks[3].node))
    # md records its progress at each sixteenth of the way, and does not read beyond it from a member.
    session.machine.sleep(60.0)
    shape = read_shape(session, NAME)
    notes = [
        place.note
        for sector in range(0, shape.size_sectors, 1024)
        for place in locate(shape, sector).places
        if place.device == session.disks[3].node
    ]
    assert notes[0] == ""
    assert notes[-1] == "not rebuilt yet"
    # After the first sector that is not rebuilt, all further sectors are not rebuilt either.
    assert sum(before != after for before, after in pairwise(notes)) == 1
    session.lab.execute(operations.set_sync_speed(NAME, minimum_kib_per_second=None, maximum_kib_per_second=None))
    wait_until_idle(session.machine, NAME)
    assert all(locate(read_shape(session, NAME), at * BLOCK_SECTORS).places[0].note == "" for at in range(64))
