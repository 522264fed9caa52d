"""The picture of a stripe is what md really writes: chunks are numbered on the array and looked for on the members."""

from __future__ import annotations

import json

import pytest

from lab.arrays.filesystem import FileSystem
from lab.arrays.geometry import Chunk, ChunkKind, StripeRow, stripe_rows
from lab.arrays.levels import Raid10, Raid10Layout
from lab.measure.job import make_cold
from lab.measure.samples import parse_diskstats
from lab.units import KIB, SECTOR_BYTES
from tests.kernel.rig import DEVICE, NAME, Rig, file_disks

pytestmark = pytest.mark.kernel

DISKS = file_disks(6, 16)
CHUNK_BYTES = 4 * KIB
ROWS = 18

WRITE_NUMBERS = """
import os, sys
device, chunk, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(device, "r+b", buffering=0) as out:
    for number in range(count):
        out.write((0x5A << 56 | number + 1).to_bytes(8, "big") * (chunk // 8))
    os.fsync(out.fileno())
"""
READ_NUMBERS = """
import json, sys
found = []
for place in sys.argv[3:]:
    node, offset = place.split("@")
    with open(node, "rb", buffering=0) as member:
        member.seek(int(offset))
        words = [member.read(int(sys.argv[1])) for _ in range(int(sys.argv[2]))]
    found.append([int.from_bytes(word[:8], "big") if word == word[:8] * (len(word) // 8) else None for word in words])
print(json.dumps(found))
"""


def number_of(chunk: Chunk) -> int:
    return 0x5A << 56 | chunk.number + 1


def parity_p(row: StripeRow) -> int:
    value = 0
    for chunk in row.chunks:
        value ^= 0 if chunk.kind.is_parity else number_of(chunk)
    return value


def doubled(value: int) -> int:
    """Each byte times 2 in the field that RAID 6 computes in (polynomial 0x11d; Anvin, The mathematics of RAID-6)."""
    return int.from_bytes(
        bytes((byte << 1 ^ (0x1D if byte & 0x80 else 0)) & 0xFF for byte in value.to_bytes(8, "big")), "big"
    )


def parity_q(row: StripeRow) -> int:
    """md counts the data from the slot behind Q (raid6_d0() in drivers/md/raid5.c)."""
    q_slot = next(slot for slot, chunk in enumerate(row.chunks) if chunk.kind is ChunkKind.Q)
    behind = [*row.chunks[q_slot + 1 :], *row.chunks[:q_slot]]
    value = 0
    for chunk in reversed([chunk for chunk in behind if not chunk.kind.is_parity]):
        value = doubled(value) ^ number_of(chunk)
    return value


def expected(row: StripeRow) -> list[int]:
    parities = {ChunkKind.P: parity_p, ChunkKind.Q: parity_q}
    return [parities[chunk.kind](row) if chunk.kind.is_parity else number_of(chunk) for chunk in row.chunks]


def read_members(rig: Rig, members: int, part_bytes: int, part: int) -> list[list[int]]:
    """What the members hold, row by row, in slot order."""
    status = rig.status
    places = []
    for slot in range(members):
        member = next(each for each in status.members if each.slot == slot)
        # md writes past the members' own page cache.
        rig.lab.machine.run(("blockdev", "--flushbufs", member.device))
        places.append(f"{member.device}@{(member.data_offset_sectors or 0) * SECTOR_BYTES + part * part_bytes}")
    arguments = (str(CHUNK_BYTES), str(ROWS), *places)
    columns = json.loads(rig.lab.machine.run(("python3", "-c", READ_NUMBERS, *arguments)).stdout)
    return [list(row) for row in zip(*columns, strict=True)]


ROTATIONS = ("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric")


@pytest.mark.parametrize(
    ("level", "layout", "members"),
    [
        ("raid0", None, 3),
        ("raid4", None, 4),
        *(("raid5", layout, 4) for layout in ROTATIONS),
        *(("raid6", layout, 5) for layout in ROTATIONS),
        ("raid10", "n2", 4),
        ("raid10", "n2", 5),
        ("raid10", "n3", 4),
        ("raid10", "f2", 4),
        ("raid10", "f3", 5),
        ("raid10", "o2", 5),
    ],
)
def test_every_chunk_lies_where_the_picture_shows_it(rig: Rig, level: str, layout: str | None, members: int) -> None:
    spec = rig.create(level, members, layout=layout, chunk_bytes=CHUNK_BYTES)
    rows = stripe_rows(spec.raid, layout, members, ROWS)
    count = 1 + max(chunk.number for row in rows for chunk in row.chunks if not chunk.kind.is_parity)
    rig.lab.machine.run(("python3", "-c", WRITE_NUMBERS, DEVICE, str(CHUNK_BYTES), str(count)))
    part_bytes = 0
    if isinstance(spec.raid, Raid10) and spec.raid.layout is Raid10Layout.FAR:
        part_bytes = spec.raid.member_used_bytes(rig.status.component_bytes or 0, CHUNK_BYTES) // spec.raid.copies
    for part in sorted({row.part for row in rows}):
        pictured = [expected(row) for row in rows if row.part == part]
        assert read_members(rig, members, part_bytes, part) == pictured


def test_a_cold_start_forgets_the_stripes_that_md_keeps(rig: Rig) -> None:
    rig.create("raid5", 4, chunk_bytes=64 * KIB)
    size = f"/sys/block/{NAME}/md/stripe_cache_size"
    rig.lab.machine.write(size, "300")
    first, again = member_reads(rig), member_reads(rig)
    told = make_cold(rig.lab, FileSystem.RAW, DEVICE, rig.lab.disks[:4], (NAME,))
    assert "md's stripe caches emptied" in told
    assert first > 0
    assert again == 0
    assert member_reads(rig) > 0
    assert (rig.lab.machine.read([size])[size] or "").strip() == "300"


def member_reads(rig: Rig) -> int:
    """Reads on the members while 64 small writes go to always the same stripes: md keeps 17 in any case."""

    def count() -> int:
        disks = parse_diskstats(rig.lab.machine.read(["/proc/diskstats"])["/proc/diskstats"] or "")
        return sum(disks[node.removeprefix("/dev/")].reads for node in rig.nodes[:4])

    before = count()
    options = ("bs=4k", "count=64", "oflag=direct", "conv=notrunc", "status=none")
    rig.lab.machine.run(("dd", "if=/dev/urandom", f"of={DEVICE}", *options))
    return count() - before
