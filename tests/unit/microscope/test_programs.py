"""The programs that run inside the agent, on files of this computer."""

from __future__ import annotations

import base64
import errno
import json
import struct
import zlib
from pathlib import Path

import pytest

from lab.microscope import extents_program, member_program


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
    assert answer == {"failed": {}, "held": False, "why_not": "not asked for"}


def test_what_cannot_be_read_is_zeros_and_told(device: Path) -> None:
    data, answer = read([[str(device.parent / "none"), 0, 512], [str(device), 40448, 1024], [str(device), 0, 4]])
    assert data[:1536] == bytes(1536)
    assert data[1536:] == bytes([0, 1, 2, 3])
    failed = answer["failed"]
    assert isinstance(failed, dict)
    assert failed["0"] == "No such file or directory"
    assert "ends at byte 40960" in failed["1"]


def test_writes_wait_while_members_are_read_and_then_go_on(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(member_program, "tell", lambda path, text: told.append((path, text)))
    _, answer = read([[str(device), 0, 512]], hold=["/sys/md", 8, 24])
    assert answer["held"]
    expected = [("suspend_lo", "8"), ("suspend_hi", "24"), ("suspend_hi", "0"), ("suspend_lo", "0")]
    assert told == [(f"/sys/md/{name}", text) for name, text in expected]


def test_an_array_that_takes_nothing_more_is_read_all_the_same(device: Path) -> None:
    assert read([[str(device), 4, 4]], array=str(device.parent / "none"))[0] == bytes([4, 5, 6, 7])


def test_they_go_on_even_if_reading_fails_in_an_unknown_way(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(member_program, "tell", lambda path, text: told.append(f"{path}={text}"))

    def broken(_: object) -> None:
        raise ValueError

    monkeypatch.setattr(member_program, "read_all", broken)
    with pytest.raises(ValueError):  # noqa: PT011 - the one raised above
        read([[str(device), 0, 512]], hold=["", 8, 24])
    assert told[-2:] == ["/suspend_hi=0", "/suspend_lo=0"]


def test_an_array_that_cannot_be_held_is_read_all_the_same(device: Path, tmp_path: Path) -> None:
    data, answer = read([[str(device), 0, 4]], hold=[str(tmp_path / "none"), 0, 8])
    assert data == bytes([0, 1, 2, 3])
    assert (answer["held"], answer["why_not"]) == (False, "No such file or directory")


def fiemap(monkeypatch: pytest.MonkeyPatch, extents: list[tuple[int, int, int, int]]) -> list[int]:
    """A kernel that knows these extents, and tells at most two at once."""
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


def test_a_hole_has_no_extents(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fiemap(monkeypatch, [])
    assert json.loads(extents_program.main([str(device)], never))["extents"] == []


def test_a_file_system_that_does_not_tell_is_named(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ioctl(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    with pytest.raises(OSError, match="does not tell where files lie"):
        extents_program.main([str(device)], never)
    with pytest.raises(OSError, match=r"none: No such file"):
        extents_program.main([str(device.parent / "none")], never)
