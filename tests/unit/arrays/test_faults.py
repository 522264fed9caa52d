from __future__ import annotations

import pytest

from lab.arrays import operations
from lab.disks import DiskKind, LabDisk
from lab.errors import DeviceRefused, SpecError
from lab.plans import Danger
from lab.units import KIB, MIB

B = "/dev/ubdb"


def test_breaking_an_array_is_told_to_md_itself() -> None:
    plan = operations.fail("md0", B, breaks_array=True)
    said = "{ echo faulty > state || grep -E '\"'\"'faulty|in_sync'\"'\"' state; }'"
    first, second = plan.lines()
    assert first == f"sh -c 'cd /sys/block/md0/md/dev-ubdb && {said}"
    assert "grep -q broken ../array_state && break" in second
    assert plan.ends_array
    assert "from 4.3 on it refuses" in plan.steps[0].why


def test_a_mapped_member_is_found_under_the_name_that_md_has_for_it() -> None:
    step, _ = operations.fail("md0", "/dev/mapper/adapt0-1-2", breaks_array=True).steps
    assert step.argv[2].startswith(
        "cd /sys/block/md0/md/dev-$(lsblk --nodeps --noheadings --output KNAME /dev/mapper/adapt0-1-2) && "
    )
    assert step.writes_devices == ("/dev/md0", "/dev/mapper/adapt0-1-2")


def test_a_scsi_disk_can_be_pulled_and_no_part_of_one() -> None:
    disk = LabDisk(name="sdc", kind=DiskKind.PHYSICAL, node="/dev/sdc", size_bytes=MIB)
    (gone,) = operations.pull(disk).steps
    assert gone.shell_line() == "sh -c 'echo 1 > /sys/block/sdc/device/delete'"
    assert gone.writes_devices == ("/dev/sdc",)
    assert operations.plug_in(disk, arrays=["md0"]).lines()[0] == "mdadm --manage /dev/md0 --remove /dev/sdc"
    for other in (B, "/dev/vdb", "/dev/sdc1"):
        with pytest.raises(DeviceRefused, match="cannot be pulled"):
            operations.pull(LabDisk(name="other", kind=DiskKind.PHYSICAL, node=other, size_bytes=MIB))


def test_corruption_hits_the_data_and_nothing_before_it() -> None:
    plan = operations.corrupt(
        B, data_offset_bytes=2 * MIB, data_bytes=100 * MIB, start_bytes=MIB, length_bytes=64 * KIB
    )
    assert plan.lines() == [
        "dd if=/dev/urandom of=/dev/ubdb bs=4096 seek=768 count=16 oflag=direct conv=notrunc,fsync status=none"
    ]
    step = plan.steps[0]
    assert step.danger is Danger.DATA
    assert step.writes_devices == (B,)
    assert step.why.startswith("WARNING")


@pytest.mark.parametrize(
    ("offset", "start", "length", "problem"),
    [
        (0, 0, 4096, "superblock"),
        (MIB, -4096, 4096, "not inside"),
        (MIB, 0, 0, "not inside"),
        (MIB, 0, 2 * MIB, "not inside"),
        (MIB, 512, 4096, "multiples of 4096"),
    ],
)
def test_corruption_outside_the_data_is_refused(offset: int, start: int, length: int, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        operations.corrupt(B, data_offset_bytes=offset, data_bytes=MIB, start_bytes=start, length_bytes=length)
