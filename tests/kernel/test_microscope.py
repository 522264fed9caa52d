"""The map against md itself: md numbers every sector of small arrays, and the test looks for them on the members.

The test maps in both directions, for every level and layout of md, on odd numbers of members, on members of unequal
size, and during a suspended reshape. Computed P and Q equal those that md has written.
``tests/kernel/test_microscope_writes.py`` tests changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.arrays.array import OpenArrays
from lab.arrays.geometry import ParityGeometry, Raid0Geometry
from lab.arrays.kinds import kinds
from lab.arrays.levels import md_path
from lab.arrays.status import wait_until_idle
from lab.disks import DiskKind, DiskSpec, Lab, open_lab
from lab.host.clock import polls
from lab.machine import Host, parse_target
from lab.microscope.array_map import (
    BytesAt,
    LocatedPlace,
    MappedArray,
    MappedMember,
    areas_of,
    locate,
    on_member,
    read_moment,
    read_shape,
    superblock_sector,
)
from lab.microscope.picture import parities_of
from lab.units import MIB
from tests.kernel.microscope_rig import OFFSET_KIB, blank, create, fill
from tests.kernel.numbers_program import MARK
from tests.kernel.place import quick_marks, quick_target
from tests.kernel.rig import DEVICE, NAME, file_disks

pytestmark = pytest.mark.kernel

SIZES = {8: 2, 9: 2, 10: 3}
DISKS = (
    *file_disks(7, 1),
    *(DiskSpec(name=f"disk{number:02d}", kind=DiskKind.FILE, size_bytes=size * MIB) for number, size in SIZES.items()),
)


@pytest.fixture(scope="module", params=[pytest.param(quick_target().text, marks=quick_marks())])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with open_lab(parse_target(request.param), Host.real("tests"), wanted=DISKS) as opened:
        yield opened


@pytest.fixture
def arrays(lab: Lab) -> OpenArrays:
    blank(lab)
    return OpenArrays(lab, kinds())


def contents(arrays: OpenArrays, shape: MappedArray) -> dict[str, bytes]:
    places = [BytesAt(member.device, 0, member.device_sectors * 512) for member in shape.members]
    found = read_moment(arrays.machine, places, array=DEVICE).places
    return {member.device: each.data for member, each in zip(shape.members, found, strict=True)}


def number_at(data: bytes, sector: int) -> int | None:
    """The number of the array's sector that is stored there, None if there is none."""
    word = data[sector * 512 : sector * 512 + 8]
    value = int.from_bytes(word, "big")
    is_mark = value >> 56 == MARK >> 56 and data[sector * 512 : sector * 512 + 512] == word * 64
    return (value & ~MARK) - 1 if is_mark else None


def edges(size_sectors: int) -> Iterator[int]:
    """The first and last sector of each block of 4 KiB."""
    for block in range(0, size_sectors, 8):
        yield block
        yield min(block + 7, size_sectors - 1)


def require_map(shape: MappedArray, held: dict[str, bytes], *, has_leftovers: bool = False) -> int:
    """Require that every sector is where the map says and nowhere else; return how many places were compared.

    ``has_leftovers``: a reshape has left data in their old places.
    """
    compared = 0
    by_map: dict[tuple[str, int], int] = {}
    for sector in edges(shape.size_sectors):
        located = locate(shape, sector)
        if located.doubt:
            continue
        for place in located.places:
            assert place.device_sector is not None
            assert number_at(held[place.device], place.device_sector) == sector, (sector, place)
            by_map[place.device, place.device_sector] = sector
            compared += 1
        require_parity(shape, held, sector, located.parities)
    for member in shape.members:
        areas = areas_of(shape, member, superblock_of(shape, member, held))
        assert sum(area.length for area in areas) == member.device_sectors
        for sector in edges(member.device_sectors):
            found = on_member(shape, member, sector, areas)
            there = number_at(held[member.device], sector)
            if found.doubt:
                continue
            if found.kind is not None and not found.kind.is_parity:
                assert found.sectors == (there,)
                assert by_map[member.device, sector] == there
            elif found.kind is None and not has_leftovers:
                assert there is None, found
                assert (member.device, sector) not in by_map
    return compared


def superblock_of(shape: MappedArray, member: MappedMember, held: dict[str, bytes]) -> bytes:
    start = (superblock_sector(shape.metadata, member.device_sectors) or 0) * 512
    return held[member.device][start : start + 4096]


def require_parity(shape: MappedArray, held: dict[str, bytes], sector: int, parities: tuple[LocatedPlace, ...]) -> None:
    """Require that P and Q on the members are those computed from the numbers in the stripe."""
    if not parities:
        return
    is_before = shape.reshaping is not None and shape.reshaping.is_ahead(sector)
    geometry = shape.reshaping.before if shape.reshaping and is_before else shape.geometry
    assert isinstance(geometry, ParityGeometry)
    row = geometry.row(geometry.stripe_of(sector))
    (place,) = geometry.places(sector)
    data = {}
    for slot in row.data_slots:
        content = geometry.content(slot, place.sector)
        assert content is not None
        data[slot] = (MARK | content.sectors[0] + 1).to_bytes(8, "big")
    computed = parities_of(row, data, 8)
    for parity in parities:
        assert parity.device_sector is not None
        stored = held[parity.device][parity.device_sector * 512 : parity.device_sector * 512 + 512]
        assert stored == computed[parity.slot] * 64, (sector, parity)


RAID5 = ("left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric", "parity-first", "parity-last")
DDF = ("ddf-zero-restart", "ddf-N-restart", "ddf-N-continue")
RAID6 = (*RAID5, *DDF, *(f"{word}-6" for word in RAID5 if word != "parity-last"))
ARRAYS: list[tuple[str, int, str]] = [
    ("1", 3, ""),
    ("0", 3, ""),
    ("4", 4, ""),
    *(("5", 4, f"--layout={word}") for word in RAID5),
    ("5", 7, "--chunk=16"),
    *(("6", 5, f"--layout={word}") for word in RAID6),
    ("6", 7, ""),
    *(("10", members, "--layout=n2") for members in (2, 4, 5)),
    *(("10", members, "--layout=n3") for members in (4, 5)),
    *(("10", members, "--layout=f2") for members in (3, 4, 5)),
    ("10", 5, "--layout=f3"),
    *(("10", members, "--layout=o2") for members in (3, 4, 5)),
    ("10", 5, "--layout=o3"),
    ("5", 3, "--metadata=1.0"),
    ("5", 3, "--metadata=1.1"),
]


# One of each kind: for daily runs, and on the distribution's kernel, which behaves like the kernel that is built here.
USUAL = [("0", 3, ""), ("1", 3, ""), ("5", 4, "--layout=left-symmetric"), ("6", 5, "--layout=left-symmetric")]
USUAL += [("10", 5, "--layout=n2"), ("10", 4, "--layout=f2"), ("10", 5, "--layout=o3")]


@pytest.mark.parametrize(
    ("level", "members", "option"),
    [pytest.param(*each, marks=[] if each in USUAL else [pytest.mark.wide]) for each in ARRAYS],
)
def test_every_sector_is_where_the_map_places_it(arrays: OpenArrays, level: str, members: int, option: str) -> None:
    require_filled_map(arrays, level, members, option)


@pytest.mark.wide
@pytest.mark.uml
@pytest.mark.parametrize("lab", ["uml:"], indirect=True)
@pytest.mark.parametrize(("level", "members", "option"), USUAL)
def test_the_distributions_kernel_does_the_same(arrays: OpenArrays, level: str, members: int, option: str) -> None:
    require_filled_map(arrays, level, members, option)


def require_filled_map(arrays: OpenArrays, level: str, members: int, option: str = "") -> MappedArray:
    create(arrays, level, members, *option.split())
    shape = read_shape(arrays, NAME)
    assert shape.geometry.size_sectors == shape.size_sectors
    fill(arrays)
    assert require_map(shape, contents(arrays, shape)) > 150
    return shape


@pytest.mark.wide
@pytest.mark.parametrize("layout", ["original", "alternate"])
def test_members_of_several_sizes_have_zones(arrays: OpenArrays, layout: str) -> None:
    geometry = require_filled_map(arrays, "0", 10, f"--layout={layout}").geometry
    assert isinstance(geometry, Raid0Geometry)
    assert [len(zone.slots) for zone in geometry.zones] == [10, 3, 1]


@pytest.mark.wide
def test_a_linear_array_puts_one_member_behind_the_other(arrays: OpenArrays) -> None:
    arrays.machine.run(("modprobe", "-q", "linear"), check=False)
    texts = arrays.machine.read(["/proc/mdstat", "/proc/config.gz"])
    if "[linear]" not in (texts["/proc/mdstat"] or ""):
        pytest.skip("this kernel has no linear arrays: they were gone from Linux 6.8 to 6.13")
    require_filled_map(arrays, "linear", 9)


def hold_reshape(arrays: OpenArrays, level: str, offset: int, stop_at: int, **changes: str) -> MappedArray:
    """Start a reshape without mdadm, with the data at another offset, and suspend it at ``stop_at`` member sectors."""
    machine = arrays.machine
    if offset > 2 * OFFSET_KIB:
        machine.write(md_path(NAME, "reshape_direction"), "backwards")
    for entry in machine.list_dirs([md_path(NAME)])[md_path(NAME)]:
        if entry.startswith("dev-"):
            machine.write(md_path(NAME, f"{entry}/new_offset"), str(offset))
    for file, value in changes.items():
        machine.write(md_path(NAME, file), value)
    machine.write(md_path(NAME, "sync_max"), str(stop_at))
    machine.write(md_path(NAME, "sync_action"), "reshape")
    done = md_path(NAME, "sync_completed")
    seen = [""]

    def has_stopped() -> bool:
        seen.append((machine.read([done])[done] or "").split("/")[0].strip())
        # RAID 10 records its position only from time to time.
        return seen[-1] == str(stop_at) or (level == "10" and seen[-1] == seen[-2] not in ("0", "none"))

    # Long enough that a running reshape records its position between two readings.
    assert any(has_stopped() for _ in polls(machine.clock, 60, 0.5)), f"the reshape has not stopped: {seen[-3:]}"
    return read_shape(arrays, NAME)


RESHAPES: list[tuple[str, int, str, int, dict[str, str], int]] = [
    ("5", 4, "", 1, {"raid_disks": "5"}, 192),
    ("5", 4, "", 0, {"layout": "1"}, 192),
    ("5", 4, "", 0, {"chunk_size": "16384"}, 192),
    ("5", 4, "", 0, {"layout": "3", "chunk_size": "4096"}, 320),
    ("6", 5, "", 2, {"raid_disks": "7"}, 192),
    ("6", 5, "--layout=left-symmetric-6", 0, {"layout": "2"}, 320),
    ("4", 3, "", 1, {"raid_disks": "4"}, 192),
    ("10", 4, "--layout=n2", 0, {"chunk_size": "4096"}, 192),
    ("5", 5, "", 0, {"array_size": "960", "raid_disks": "4"}, 320),
]


@pytest.mark.wide
@pytest.mark.parametrize(("level", "members", "option", "spares", "changes", "offset"), RESHAPES)
def test_during_a_reshape_each_sector_is_where_its_own_shape_places_it(
    arrays: OpenArrays, level: str, members: int, option: str, spares: int, changes: dict[str, str], offset: int
) -> None:
    create(arrays, level, members, *option.split())
    for disk in arrays.disks[members : members + spares]:
        arrays.machine.run(("mdadm", "--add", DEVICE, disk.node))
    fill(arrays)
    shape = hold_reshape(arrays, level, offset, 160, **changes)
    assert shape.reshaping is not None
    assert shape.reshaping.is_moving == (level == "10")
    assert shape.reshaping.is_backwards == (offset > 2 * OFFSET_KIB)
    assert 0 < shape.reshaping.position < shape.size_sectors
    assert require_map(shape, contents(arrays, shape), has_leftovers=True) > (50 if level == "10" else 150)
    arrays.machine.write(md_path(NAME, "sync_max"), "max")
    wait_until_idle(arrays.machine, NAME)
    shape = read_shape(arrays, NAME)
    assert shape.reshaping is None
    fill(arrays)
    assert require_map(shape, contents(arrays, shape), has_leftovers=True) > 150
