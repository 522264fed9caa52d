"""An image is a file that the lab made itself: nothing else is written on, blanked or removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.disks.kinds import DiskKind, DiskSpec
from lab.disks.lab import DiskImages
from lab.errors import LabError
from lab.units import MIB

SPEC = DiskSpec(name="disk01", kind=DiskKind.FILE, size_bytes=MIB)


@pytest.fixture
def images(tmp_path: Path) -> DiskImages:
    (tmp_path / "lab" / "disks").mkdir(mode=0o700, parents=True)
    return DiskImages(tmp_path / "lab")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim.bin"
    file.write_bytes(b"\1" * MIB)
    return file


def as_link(image: Path, victim: Path) -> None:
    image.symlink_to(victim)


def as_hard_link(image: Path, victim: Path) -> None:
    image.hardlink_to(victim)


def as_dangling_link(image: Path, victim: Path) -> None:
    image.symlink_to(victim.with_name("nothing"))


def as_pipe(image: Path, victim: Path) -> None:
    os.mkfifo(image)


def as_folder(image: Path, victim: Path) -> None:
    image.mkdir()


def as_linked_folder(image: Path, victim: Path) -> None:
    elsewhere = victim.parent / "elsewhere"
    elsewhere.mkdir()
    victim.rename(elsewhere / image.name)
    victim.symlink_to(elsewhere / image.name)
    image.parent.rmdir()
    image.parent.symlink_to(elsewhere)


EXCHANGED = (as_link, as_hard_link, as_dangling_link, as_pipe, as_folder, as_linked_folder)


@pytest.mark.parametrize("exchange", EXCHANGED)
@pytest.mark.parametrize(
    "use",
    [
        lambda images: images.make([SPEC]),
        lambda images: images.remove("disk01"),
        lambda images: images.open("disk01", os.O_RDWR),
        lambda images: images.flush("disk01", forgets=True),
        lambda images: images.is_never_written("disk01"),
        lambda images: images.listed(),
    ],
    ids=["make", "remove", "open", "flush", "blocks", "list"],
)
def test_what_is_no_image_of_the_labs_own_is_left_alone(
    images: DiskImages, victim: Path, exchange: Callable[[Path, Path], None], use: Callable[[DiskImages], object]
) -> None:
    exchange(images.path("disk01"), victim)
    with pytest.raises(LabError) as caught:
        use(images)
    assert "move" in caught.value.hint
    assert victim.read_bytes() == b"\1" * MIB
    assert not victim.with_name("nothing").exists()
    assert os.path.lexists(images.path("disk01"))


def test_what_was_moved_away_makes_room_for_a_new_image(images: DiskImages, victim: Path) -> None:
    as_dangling_link(images.path("disk01"), victim)
    images.path("disk01").unlink()
    images.make([SPEC])
    assert images.path("disk01").stat().st_size == MIB
    assert images.path("disk01").stat().st_mode & 0o777 == 0o600


def test_the_advice_for_an_image_of_another_size_keeps_its_data(images: DiskImages, tmp_path: Path) -> None:
    images.path("disk01").write_bytes(b"\2" * 3 * MIB)
    with pytest.raises(LabError, match=f"has {3 * MIB} bytes instead of {MIB}") as caught:
        images.make([SPEC])
    assert "move the file elsewhere to keep its data" in caught.value.hint
    assert "remove" not in caught.value.hint
    images.path("disk01").rename(tmp_path / "kept.img")
    images.make([SPEC])
    assert (tmp_path / "kept.img").read_bytes() == b"\2" * 3 * MIB


def test_of_several_images_none_stays_if_one_cannot_be_made(
    images: DiskImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [DiskSpec(name=f"disk0{number}", kind=DiskKind.FILE, size_bytes=number * MIB) for number in (1, 2)]
    truncate = os.ftruncate

    def too_large(descriptor: int, length: int) -> None:
        if length > MIB:
            raise OSError(27, "File too large")
        truncate(descriptor, length)

    monkeypatch.setattr("os.ftruncate", too_large)
    with pytest.raises(LabError, match=r"an image of 2 MiB cannot be made in .*: File too large"):
        images.make(wanted)
    assert not list(images.path("disk01").parent.iterdir())


def test_images_of_another_user_are_refused(images: DiskImages, monkeypatch: pytest.MonkeyPatch) -> None:
    images.make([SPEC])
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    owner = images.path("disk01").stat().st_uid
    with pytest.raises(LabError, match=f"belongs to another user \\(number {owner}\\)"):
        images.open("disk01")
