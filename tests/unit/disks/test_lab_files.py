from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.disks.kinds import DiskKind, DiskSpec, LabDisk, specs
from lab.disks.lab import (
    REGISTRY,
    DiskImages,
    Lab,
    lab_folder,
    read_registry,
    scratch_folder,
    write_registry,
)
from lab.errors import LabError, SpecError
from lab.gates.decoding import MOST_DISK_BYTES
from lab.machine.state_folder import StateFolder
from lab.units import MIB
from tests.unit.disks.machines import Device, host_in, lab_disk, machine_of
from tests.unit.fakes import FakeMachine


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return host_in(tmp_path).state


def files(count: int = 2) -> tuple[DiskSpec, ...]:
    return specs(count, DiskKind.FILE, size_bytes=8 * MIB)


def test_images_are_sparse_until_they_are_written_to_and_of_exact_size(state: StateFolder) -> None:
    with scratch_folder(state, files()) as folder:
        folder.images.make(folder.specs)
        found = [folder.images.path(spec.name).stat() for spec in folder.specs]
        assert [(image.st_size, image.st_mode & 0o777) for image in found] == [(8 * MIB, 0o600)] * 2
        assert all(folder.images.is_never_written(spec.name) for spec in folder.specs)
        with folder.images.path(folder.specs[0].name).open("r+b") as image:
            image.write(b"something")
            os.fsync(image.fileno())
        assert [folder.images.is_never_written(spec.name) for spec in folder.specs] == [False, True]


def test_existing_images_keep_their_data(state: StateFolder) -> None:
    with scratch_folder(state, files()) as folder:
        folder.images.make(folder.specs[:1])
        with folder.images.path(folder.specs[0].name).open("r+b") as image:
            image.write(b"kept")
        folder.images.make(folder.specs)
        assert folder.images.path(folder.specs[0].name).read_bytes()[:4] == b"kept"
        assert folder.images.path(folder.specs[1].name).exists()


def test_too_little_room_is_reported_before_any_image_is_made(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scratch_folder(state, files()) as folder:
        monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_bavail=15, f_frsize=MIB))
        with pytest.raises(LabError, match=r"the disks need up to 16 MiB, but .* has 15 MiB left"):
            folder.images.make(folder.specs)
        assert not folder.images.path(folder.specs[0].name).exists()
        # Images that already exist need no further space.
        folder.images.make(folder.specs[:1])
        folder.images.make(folder.specs)


def test_a_new_lab_has_nine_disks_and_the_next_start_finds_them(state: StateFolder) -> None:
    with lab_folder(state, "default") as folder:
        assert [spec.name for spec in folder.specs] == [f"disk0{number}" for number in range(1, 10)]
        folder.save(files(3))
    with lab_folder(state, "default") as folder:
        assert folder.specs == files(3)


def test_save_drops_the_images_of_disks_that_went(state: StateFolder) -> None:
    with lab_folder(state, "default") as folder:
        folder.save(files(3))
        folder.images.make(folder.specs)
        images = [folder.images.path(spec.name) for spec in folder.specs]
        folder.save(files(1))
        assert [image.exists() for image in images] == [True, False, False]
        assert folder.specs == files(1)


def test_without_its_list_a_lab_has_the_disks_with_existing_images(state: StateFolder) -> None:
    with lab_folder(state, "default") as folder:
        folder.save(files(3))
        folder.images.make(folder.specs)
        folder.images.path(folder.specs[1].name).write_bytes(b"\1" * 8 * MIB)
    (state.root / "labs" / "default" / "lab.json").unlink()
    with lab_folder(state, "default") as folder:
        assert folder.specs == files(3)
        assert folder.images.path(folder.specs[1].name).read_bytes() == b"\1" * 8 * MIB


FAR = "../../../../victim"
DISK = '{"name": "disk01", "kind": "file"}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(
            (damaged, "is damaged")
            for damaged in ("[{", '[{"name": "x"}]', '[{"name": "\udcff", "kind": "file"}]', "{}")
        ),
        (f'[{{"name": "{FAR}", "kind": "file"}}]', "cannot be the name of a disk"),
        (f"[{DISK}, {DISK}]", "several disks are named disk01"),
        ('[{"name": "a", "kind": "file", "size_bytes": 9000000000000000000}]', "1M to|is not possible"),
        (f'[{{"name": "a", "kind": "file", "size_bytes": 1{"0" * 5000}}}]', "is damaged|is not possible"),
        ('[{"name": "a", "kind": "spindle", "model": "hdd-7200", "backing": "/dev/ubda"}]', "disk a cannot be a disk"),
        ('[{"name": "a", "kind": "physical", "backing": "/dev/sda"}]', "disk a cannot be a disk"),
        ('[{"name": "a", "kind": "spindle", "model": "no"}]', "no drive model 'no'"),
        ("[" * 100_000, "is damaged"),
        (f"[{', '.join(DISK.replace('disk01', f'd{number}') for number in range(65))}]", "65 disks are too many"),
    ],
)
def test_a_damaged_list_or_one_of_what_cannot_be_touches_nothing(state: StateFolder, text: str, words: str) -> None:
    victim = state.root.parent / "victim.img"
    victim.write_bytes(b"precious")
    with lab_folder(state, "default"):
        pass
    path = state.root / "labs" / "default" / "lab.json"
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(data)
    with pytest.raises(LabError, match=words) as caught:
        lab_folder(state, "default")
    assert str(path) in caught.value.message
    assert len(caught.value.message) < 400
    assert "move that file elsewhere" in caught.value.hint
    assert victim.read_bytes() == b"precious"
    assert path.read_bytes() == data
    # The lab does not stay locked.
    path.unlink()
    with lab_folder(state, "default") as folder:
        assert len(folder.specs) == 9


def test_disks_that_cannot_be_made_leave_the_lab_as_it_was(state: StateFolder) -> None:
    with lab_folder(state, "default") as folder:
        folder.save(files(2))
        # Larger than any file, or any file system, on which tests run.
        with pytest.raises(LabError, match=r"the disks need up to|cannot be created"):
            folder.add([DiskSpec(name="disk03", kind=DiskKind.FILE, size_bytes=MOST_DISK_BYTES)])
        assert folder.specs == files(2)
    assert not list(state.root.glob("labs/default/disks/*"))
    with lab_folder(state, "default") as folder:
        assert folder.specs == files(2)


def test_an_image_that_is_not_what_the_lab_made_is_not_removed(state: StateFolder) -> None:
    with lab_folder(state, "default") as folder:
        folder.save(files(2))
        folder.images.make(folder.specs)
        image, content = folder.images.path(folder.specs[1].name), b"\2" * 9 * MIB
        image.write_bytes(content)
        uses: list[Callable[[], None]] = [lambda: folder.save(files(1)), lambda: folder.images.make(folder.specs)]
        for use in uses:
            with pytest.raises(LabError, match=f"has {9 * MIB} bytes instead of {8 * MIB}") as caught:
                use()
            assert "move the file elsewhere to keep its data" in caught.value.hint
            assert "remove" not in caught.value.hint
        assert folder.specs == files(2)
        kept = image.rename(state.root / "kept.img")
        folder.images.make(folder.specs)
        assert kept.read_bytes() == content
    with lab_folder(state, "default") as folder:
        assert folder.specs == files(2)


def test_what_a_killed_add_left_is_made_anew_and_data_are_not(state: StateFolder) -> None:
    further = [DiskSpec(name="disk03", kind=DiskKind.FILE, size_bytes=16 * MIB)]
    with lab_folder(state, "default") as folder:
        folder.save(files(2))
        folder.images.make([DiskSpec(name="disk03", kind=DiskKind.FILE, size_bytes=8 * MIB)])
        folder.add(further)
        assert folder.images.path(further[0].name).stat().st_size == 16 * MIB
        folder.save(files(2))
        folder.images.path(further[0].name).write_bytes(b"other data")
        with pytest.raises(LabError, match=r"there is already an image .*, which is not in the lab's list"):
            folder.add(further)
        assert folder.images.path(further[0].name).read_bytes() == b"other data"


def test_a_scratch_folder_is_removed_and_a_lab_stays(state: StateFolder) -> None:
    with scratch_folder(state, files(1)) as scratch:
        scratch.images.make(scratch.specs)
        image = scratch.images.path(scratch.specs[0].name)
    with lab_folder(state, "default") as lab:
        kept = lab.images.path(lab.specs[0].name).parents[1]
    assert not image.parents[1].exists()
    assert kept.is_dir()


def test_a_scratch_folder_checks_its_disks_first(state: StateFolder) -> None:
    with pytest.raises(SpecError, match="not possible"):
        scratch_folder(state, [DiskSpec(name="disk01", kind=DiskKind.FILE, size_bytes=5)])
    assert not list(state.root.glob("machines/*"))


def test_the_host_cache_is_dropped_only_where_there_are_images(state: StateFolder, tmp_path: Path) -> None:
    host, ram = host_in(tmp_path), [lab_disk("disk02", "/dev/ram0", DiskKind.RAM)]
    with scratch_folder(state, files(1)) as folder:
        folder.images.make(folder.specs)
        lab = Lab(machine_of(), host, folder.lab_disks(folder.specs), folder=folder)
        assert lab.drop_host_cache([*lab.disks, *ram]) is True
        assert lab.drop_host_cache(ram) is False
    assert Lab(machine_of(), host, lab.disks).drop_host_cache(lab.disks) is False


# --- the list of disks attached on a machine --------------------------------------------------------------------------

LOOP = lab_disk("disk01", "/dev/loop0", DiskKind.LOOP, backing="/var/lib/raidlab/disks/disk01.img")


PHYSICAL = lab_disk("disk01", "/dev/nvme1n1", DiskKind.PHYSICAL, serial="Y")


@pytest.mark.parametrize(
    ("disk", "machine", "is_same"),
    [
        (LOOP, machine_of(Device("loop0", loop_file=LOOP.backing)), True),
        (LOOP, machine_of(), False),
        (LOOP, machine_of(Device("loop0", size_bytes=MIB, loop_file=LOOP.backing)), False),
        (LOOP, machine_of(Device("loop0", loop_file="/home/someone/else.img")), False),
        (PHYSICAL, machine_of(Device("nvme1n1", serial="Y")), True),
        (PHYSICAL, machine_of(Device("nvme1n1", serial="X")), False),
    ],
    ids=["loop", "gone", "size", "file", "physical", "serial"],
)
def test_a_registry_is_read_back_without_disks_that_are_not_what_they_were(
    disk: LabDisk, machine: FakeMachine, is_same: bool
) -> None:
    write_registry(machine, [disk])
    assert read_registry(machine) == ((disk,) if is_same else ())


def entry(name: str = "disk01", node: str = "/dev/loop0", backing: str = LOOP.backing) -> str:
    disk = {"name": name, "kind": "loop", "node": node, "size_bytes": LOOP.size_bytes, "backing": backing}
    return json.dumps(disk)


@pytest.mark.parametrize(
    "text",
    [
        "[{",
        '{"name": 1}',
        "[" * 100_000,
        f"[{entry()}, {entry()}]",
        f"[{entry('../x')}]",
        f"[{entry(node='/dev/../etc/passwd')}]",
        f"[{entry(backing='/home/someone/else.img')}]",
        f"[{entry().replace(str(LOOP.size_bytes), '-1')}]",
    ],
)
def test_a_registry_that_is_damaged_is_named(text: str) -> None:
    machine = machine_of(Device("loop0", loop_file=LOOP.backing))
    machine.files[REGISTRY] = text
    with pytest.raises(LabError, match=f"the list of disks {REGISTRY} on fake: is damaged") as caught:
        read_registry(machine)
    assert len(caught.value.message) < 300
    machine.files[REGISTRY] = f"[{entry()}]"
    assert read_registry(machine) == (LOOP,)


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


def as_linked_folder(image: Path, victim: Path) -> None:
    elsewhere = victim.parent / "elsewhere"
    elsewhere.mkdir()
    victim.rename(elsewhere / image.name)
    victim.symlink_to(elsewhere / image.name)
    image.parent.rmdir()
    image.parent.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "exchange",
    [
        lambda image, victim: image.symlink_to(victim),
        lambda image, victim: image.hardlink_to(victim),
        lambda image, victim: image.symlink_to(victim.with_name("nothing")),
        lambda image, _: os.mkfifo(image),
        lambda image, _: image.mkdir(),
        as_linked_folder,
    ],
    ids=["link", "hard-link", "dangling-link", "pipe", "folder", "linked-folder"],
)
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
def test_a_file_that_is_not_an_image_of_the_lab_is_not_touched(
    images: DiskImages, victim: Path, exchange: Callable[[Path, Path], None], use: Callable[[DiskImages], object]
) -> None:
    exchange(images.path("disk01"), victim)
    with pytest.raises(LabError) as caught:
        use(images)
    assert "move" in caught.value.hint
    assert victim.read_bytes() == b"\1" * MIB
    assert not victim.with_name("nothing").exists()
    assert os.path.lexists(images.path("disk01"))


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
    with pytest.raises(LabError, match=r"an image of 2 MiB cannot be created in .*: File too large"):
        images.make(wanted)
    assert not list(images.path("disk01").parent.iterdir())


def test_images_of_another_user_are_refused(images: DiskImages, monkeypatch: pytest.MonkeyPatch) -> None:
    images.make([SPEC])
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    owner = images.path("disk01").stat().st_uid
    with pytest.raises(LabError, match=f"belongs to another user \\(number {owner}\\)"):
        images.open("disk01")
