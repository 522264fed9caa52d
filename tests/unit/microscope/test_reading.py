"""The shape of an array from sysfs, where its sectors lie, and the programs that read its members."""

from __future__ import annotations

import base64
import errno
import json
import struct
import zlib
from pathlib import Path

import pytest

from lab.errors import ArrayError
from lab.microscope import extents_program, member_program
from lab.microscope.array_map import AreaKind, MappedArray, areas_of, locate, on_member, read_shape, superblock_sector
from tests.unit.arrays import captures
from tests.unit.fakes import FakeMachine
from tests.unit.microscope.arrays import CHUNK_SECTORS, OFFSET, arrays_on, shape_of


@pytest.mark.parametrize("label", captures.labels())
def test_every_captured_array_has_a_shape(label: str) -> None:
    """Captures lack some files, as older kernels do."""
    shape = read_shape(arrays_on(captures.machine_with(label)), "md0")
    found = locate(shape, 0)
    assert found.places
    assert bool(found.parities) == shape.is_parity
    assert (shape.reshaping is not None) == ("reshaping" in label and shape.level != "raid1")


def test_a_place_names_disk_and_sector() -> None:
    found = locate(shape_of("raid5", 4), 3 * CHUNK_SECTORS + 5)
    assert (found.block, found.chunk, found.stripe, found.chunk_offset_bytes) == (3, 3, 1, 5 * 512)
    (place,), (parity,) = found.places, found.parities
    assert (place.member, place.device, place.slot) == ("disk04", "/dev/ubdd", 3)
    assert place.device_sector == parity.device_sector == OFFSET + CHUNK_SECTORS + 5
    assert parity.member == "disk03"


def test_missing_or_incomplete_members_are_noted() -> None:
    words = {"dev___ubda__slot": "none", "dev___ubda__state": "faulty", "dev___ubdb__state": "spare"}
    words |= {"dev___ubdb__recovery_start": "40", "dev___ubdc__bad_blocks": f"{OFFSET + 60} 8"}
    shape = shape_of("raid1", 3, 64, **words)
    notes = {sector: [place.note for place in locate(shape, sector).places] for sector in (0, 40, 64)}
    assert notes[0] == ["no member has this slot", "", ""]
    assert notes[40] == ["no member has this slot", "not rebuilt yet", ""]
    assert notes[64][2] == "in md's list of bad blocks"
    assert shape.member_in(1, 8) is shape.members_in(1)[0]
    assert shape.member_in(1, 40) is None


def test_a_replacement_has_the_block_too() -> None:
    sysfs = {"state": "spare,replacement", "slot": "1", "recovery_start": "16", "offset": "256"}
    shape = shape_of("raid5", 3, 128, **{f"dev___ubdh__{name}": text for name, text in sysfs.items()})
    sector = next(s for s in range(0, 256, CHUNK_SECTORS) if locate(shape, s).places[0].slot == 1)
    first, second = locate(shape, sector).places
    assert (first.member, second.member, second.note) == ("disk02", "disk08", "the replacement has it too")


def test_sectors_beyond_the_end_of_a_member_are_refused() -> None:
    shape = shape_of("raid5", 4)
    with pytest.raises(ArrayError, match="no sector 2048"):
        on_member(shape, shape.members[0], 2048, areas_of(shape, shape.members[0], b""))


@pytest.mark.parametrize(
    ("level", "words", "message"),
    [
        ("multipath", {}, "level multipath"),
        ("raid5", {"layout": "7"}, "raid5 has no layout 7"),
        ("raid0", {"dev___ubdb__slot": "none"}, "raid0 with 3 of 4 members"),
    ],
)
def test_what_the_map_does_not_know_is_refused(level: str, words: dict[str, str], message: str) -> None:
    with pytest.raises(ArrayError, match=message):
        shape_of(level, 4, **words)


def test_a_volume_is_sent_to_its_arrays() -> None:
    with pytest.raises(ArrayError, match="vol0 consists of several arrays"):
        read_shape(arrays_on(FakeMachine()), "vol0")


def growing(**words: str) -> MappedArray:
    """From four to five members, reshaped up to sector 64 of the array; the new data offset is 64 sectors lower."""
    sysfs = {"raid_disks": "5 (4)", "reshape_position": "64", "sync_action": "reshape", **words}
    return shape_of("raid5", 5, **{f"dev___ubd{letter}__new_offset": "64" for letter in "abcde"}, **sysfs)


def test_during_a_reshape_both_shapes_are_mapped_and_leftovers_are_not_data() -> None:
    shape = growing(sync_max="16", sync_completed="16 / 128")
    behind, ahead = locate(shape, 56), locate(shape, 64)
    assert (behind.shape, ahead.shape) == ("new", "before")
    assert behind.places[0].device_sector == 64 + CHUNK_SECTORS
    assert ahead.places[0].device_sector == OFFSET + 2 * CHUNK_SECTORS
    assert behind.doubt == ahead.doubt == ""
    # A running reshape may have passed the position that md last recorded.
    assert locate(growing(), 56).doubt == ""
    assert "md last recorded sector 64" in locate(growing(), 64).doubt
    member = shape.members[0]
    areas = areas_of(shape, member, b"")
    assert on_member(shape, member, 64, areas).shape == "new"
    by_sector = {at: on_member(shape, member, OFFSET + at, areas) for at in range(0, 32, CHUNK_SECTORS)}
    assert by_sector[0].note.startswith("left behind by the reshape")
    assert by_sector[24].shape == "before"
    # Two of the three chunks of its row have moved: the old parity remains valid as long as any chunk has not.
    parity = on_member(shape, shape.members[1], OFFSET + 16, areas)
    assert (parity.shape, parity.kind, parity.blocks) == ("before", "P", (6, 7, 8))


def superblock(log_offset: int = 8, log_sectors: int = 8, devices: int = 128) -> bytes:
    made = bytearray(4096)
    struct.pack_into("<II", made, 0, 0xA92B4EFC, 1)
    struct.pack_into("<Hi", made, 186, log_sectors, log_offset)
    struct.pack_into("<I", made, 220, devices)
    return bytes(made)


def test_areas_cover_a_member_without_holes() -> None:
    words = {"bitmap__location": "+16", "bitmap__chunksize": "65536", "bitmap__space": "8"}
    shape = shape_of("raid5", 4, **words)
    areas = areas_of(shape, shape.members[0], superblock())
    assert [(area.kind, area.start, area.length) for area in areas] == [
        (AreaKind.BEFORE, 0, 8),
        (AreaKind.SUPERBLOCK, 8, 1),
        (AreaKind.BEFORE, 9, 7),
        (AreaKind.BAD_BLOCKS, 16, 8),
        (AreaKind.BITMAP, 24, 8),
        (AreaKind.BEFORE, 32, 96),
        (AreaKind.DATA, 128, 128),
        (AreaKind.TAIL, 256, 1792),
    ]


def test_a_partial_parity_log_and_a_journal_are_areas() -> None:
    shape = shape_of("raid5", 4, dev___ubda__ppl_sector="24", dev___ubda__ppl_size="64")
    kinds = {area.kind: (area.start, area.length) for area in areas_of(shape, shape.members[0], superblock())}
    assert kinds[AreaKind.PPL] == (24, 64)
    journal = shape_of("raid5", 4, dev___ubdd__slot="journal", dev___ubdd__state="journal").members[3]
    areas = areas_of(shape, journal, superblock())
    assert areas[-2].kind is AreaKind.JOURNAL
    assert on_member(shape, journal, OFFSET, areas).area is AreaKind.JOURNAL


@pytest.mark.parametrize(
    ("metadata", "sector"), [("1.0", 2032), ("1.1", 0), ("1.2", 8), ("0.90", 1920), ("none", None)]
)
def test_the_place_of_a_superblock_depends_on_its_version(metadata: str, sector: int | None) -> None:
    assert superblock_sector(metadata, 2048) == sector


def never() -> bool:
    return False


def read(
    places: list[list[object]], hold: list[object] | None = None, array: str = ""
) -> tuple[bytes, dict[str, object]]:
    request = json.dumps({"array": array, "hold": hold, "places": places})
    answer = json.loads(member_program.main([request], never))
    return zlib.decompress(base64.b64decode(answer.pop("data"))), answer


@pytest.fixture
def device(tmp_path: Path) -> Path:
    made = tmp_path / "device"
    made.write_bytes(bytes(place % 251 for place in range(40960)))
    return made


def test_places_come_back_in_order_whatever_their_edges(device: Path) -> None:
    whole = device.read_bytes()
    data, answer = read(
        [[str(device), 512, 1024], [str(device), 7 * 512, 9000], [str(device), 0, 1]], array=str(device)
    )
    assert data == whole[512:1536] + whole[3584:12584] + whole[:1]
    assert answer == {"failed": {}, "held": False, "why_not": "not requested"}


def test_unreadable_ranges_are_zeros_and_reported(device: Path) -> None:
    data, answer = read([[str(device.parent / "none"), 0, 512], [str(device), 40448, 1024], [str(device), 0, 4]])
    assert data[:1536] == bytes(1536)
    assert data[1536:] == bytes([0, 1, 2, 3])
    failed = answer["failed"]
    assert isinstance(failed, dict)
    assert failed["0"] == "No such file or directory"
    assert "ends at byte 40960" in failed["1"]


def test_writes_wait_while_members_are_read_and_then_go_on(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[tuple[str, str]] = []
    monkeypatch.setattr(member_program, "write_sysfs", lambda path, text: reported.append((path, text)))
    _, answer = read([[str(device), 0, 512]], hold=["/sys/md", 8, 24])
    assert answer["held"]
    expected = [("suspend_lo", "8"), ("suspend_hi", "24"), ("suspend_hi", "0"), ("suspend_lo", "0")]
    assert reported == [(f"/sys/md/{name}", text) for name, text in expected]


def test_they_go_on_even_if_reading_fails_in_an_unknown_way(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []
    monkeypatch.setattr(member_program, "write_sysfs", lambda path, text: reported.append(f"{path}={text}"))

    def broken(_: object) -> None:
        raise ValueError

    monkeypatch.setattr(member_program, "read_all", broken)
    with pytest.raises(ValueError):  # noqa: PT011 - the one raised above
        read([[str(device), 0, 512]], hold=["", 8, 24])
    assert reported[-2:] == ["/suspend_hi=0", "/suspend_lo=0"]


def test_an_array_that_cannot_be_flushed_or_held_is_read_all_the_same(device: Path, tmp_path: Path) -> None:
    assert read([[str(device), 4, 4]], array=str(tmp_path / "none"))[0] == bytes([4, 5, 6, 7])
    data, answer = read([[str(device), 0, 4]], hold=[str(tmp_path / "none"), 0, 8])
    assert data == bytes([0, 1, 2, 3])
    assert (answer["held"], answer["why_not"]) == (False, "No such file or directory")


def fiemap(monkeypatch: pytest.MonkeyPatch, extents: list[tuple[int, int, int, int]]) -> list[int]:
    """A kernel that knows these extents, and reports at most two at a time."""
    asked: list[int] = []

    def ioctl(_fd: int, number: int, buffer: bytearray, _mutate: bool) -> int:
        start, _, flags, _, room, _ = extents_program.HEAD.unpack_from(buffer)
        assert number == 0xC020660B
        assert flags == extents_program.SYNC_FIRST
        asked.append(start)
        found = [each for each in extents if each[0] >= start][: min(2, room)]
        struct.pack_into("=L", buffer, 20, len(found))
        for index, (logical, physical, length, flag) in enumerate(found):
            at = extents_program.HEAD.size + index * extents_program.EXTENT.size
            extents_program.EXTENT.pack_into(buffer, at, logical, physical, length, 0, 0, flag, 0, 0, 0)
        return 0

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    return asked


def test_all_extents_are_asked_for_in_pieces(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extents = [(0, 8192, 4096, 0), (4096, 40960, 4096, 0x800), (16384, 81920, 8192, 1)]
    asked = fiemap(monkeypatch, extents)
    found = json.loads(extents_program.main([str(device)], never))
    assert found["extents"] == [list(each) for each in extents]
    assert asked == [0, 8192]
    assert found["bytes"] == 40960
    assert found["device"].count(":") == 1
    # A hole has no extents.
    fiemap(monkeypatch, [])
    assert json.loads(extents_program.main([str(device)], never))["extents"] == []


def test_a_file_system_without_extents_is_reported(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ioctl(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    with pytest.raises(OSError, match="does not report where files lie"):
        extents_program.main([str(device)], never)
    with pytest.raises(OSError, match=r"none: No such file"):
        extents_program.main([str(device.parent / "none")], never)
