from __future__ import annotations

import pytest

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.errors import LabError, SpecError
from lab.units import MIB
from tests.unit.fakes import FakeMachine, Scripted

MD = "/dev/md0"


def test_ext4_is_made_with_the_arrays_geometry() -> None:
    plan = filesystem.make(
        FileSystem.EXT4, MD, size_bytes=996 * MIB, chunk_bytes=512 << 10, full_stripe_bytes=1024 << 10
    )
    assert plan.lines() == [
        "mkfs.ext4 -F -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0,stride=128,stripe_width=256 /dev/md0"
    ]
    plain = filesystem.make(FileSystem.EXT4, MD, size_bytes=100 * MIB)
    assert plain.lines() == ["mkfs.ext4 -F -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/md0"]
    assert plan.destroys_data
    assert plan.steps[0].writes_devices == (MD,)


def test_xfs_needs_300_mib() -> None:
    assert filesystem.make(FileSystem.XFS, MD, size_bytes=300 * MIB).lines() == ["mkfs.xfs -f /dev/md0"]
    with pytest.raises(SpecError, match="too small for xfs, which needs 300 MiB") as caught:
        filesystem.make(FileSystem.XFS, MD, size_bytes=299 * MIB)
    assert "ext4" in caught.value.hint


def test_mount_and_unmount() -> None:
    assert filesystem.mount(FileSystem.EXT4, MD, options=("noatime", "data=writeback")).lines() == [
        "mkdir -p /run/raidlab/mnt/md0",
        "mount -t ext4 -o noatime,data=writeback /dev/md0 /run/raidlab/mnt/md0",
    ]
    assert filesystem.unmount(FileSystem.XFS, MD).lines() == [
        "umount /run/raidlab/mnt/md0",
        "rmdir /run/raidlab/mnt/md0",
    ]


def test_raw_needs_no_steps() -> None:
    raw = FileSystem.RAW
    plans = (
        filesystem.make(raw, MD, size_bytes=MIB),
        filesystem.mount(raw, MD),
        filesystem.unmount(raw, MD),
    )
    assert [plan.steps for plan in plans] == [(), (), ()]


def test_free_bytes() -> None:
    assert filesystem.free_bytes(FakeMachine(answers={("stat",): Scripted("83682 4096\n")}), "/x") == 83682 * 4096
    with pytest.raises(LabError, match="could not be read"):
        filesystem.free_bytes(FakeMachine(), "/x")
