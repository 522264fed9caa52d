from __future__ import annotations

import pytest

from lab.arrays import members as member_plans
from lab.errors import SpecError
from lab.faults import catalogue
from lab.plans import Danger
from lab.units import KIB, MIB

B = "/dev/ubdb"


def test_fail_is_mended_by_a_full_rebuild_or_with_a_bitmap_by_a_re_add() -> None:
    fault = catalogue.fail_member("md0", B)
    assert fault.inject.lines() == ["mdadm --manage /dev/md0 --fail /dev/ubdb"]
    assert fault.repair.lines() == [
        "mdadm --manage /dev/md0 --remove /dev/ubdb",
        "mdadm --zero-superblock /dev/ubdb",
        "mdadm --manage /dev/md0 --add /dev/ubdb",
    ]
    assert catalogue.fail_member("md0", B, has_bitmap=True).repair.lines()[1:] == [
        "mdadm --manage /dev/md0 --re-add /dev/ubdb"
    ]


def test_remove() -> None:
    fault = catalogue.remove_member("md0", B)
    assert [line.split()[3] for line in fault.inject.lines()] == ["--fail", "--remove"]
    assert "degraded rises" in fault.expected_effect


def test_breaking_an_array_is_told_to_md_itself() -> None:
    fault = catalogue.break_array("md0", B, ("/dev/ubda", B))
    said = "{ echo faulty > state || grep -E '\"'\"'faulty|in_sync'\"'\"' state; }'"
    assert fault.inject.lines() == [f"sh -c 'cd /sys/block/md0/md/dev-ubdb && {said}"]
    assert fault.inject.destroys_data
    assert "from 4.3 on it refuses" in fault.inject.steps[0].why
    assert fault.repair.lines()[-1] == "mdadm --assemble --run --force /dev/md0 /dev/ubda /dev/ubdb"


def test_a_mapped_member_is_found_under_the_name_that_md_has_for_it() -> None:
    (step,) = member_plans.fail("md0", "/dev/mapper/adapt0-1-2", breaks_array=True).steps
    assert step.argv[2].startswith(
        "cd /sys/block/md0/md/dev-$(lsblk --nodeps --noheadings --output KNAME /dev/mapper/adapt0-1-2) && "
    )
    assert step.writes_devices == ("/dev/md0", "/dev/mapper/adapt0-1-2")


def test_pull_is_for_scsi_disks() -> None:
    fault = catalogue.pull_member("md0", "/dev/sdc")
    assert fault.inject.lines() == ["sh -c 'echo 1 > /sys/block/sdc/device/delete'"]
    assert fault.repair.lines()[0] == "mdadm --manage /dev/md0 --remove detached"
    for other in (B, "/dev/vdb", "/dev/sdc1"):
        with pytest.raises(SpecError, match="cannot be pulled"):
            catalogue.pull_member("md0", other)


def test_corruption_hits_the_data_and_nothing_before_it() -> None:
    fault = catalogue.corrupt_member(
        "md0", B, data_offset_bytes=2 * MIB, data_bytes=100 * MIB, start_bytes=MIB, length_bytes=64 * KIB
    )
    assert fault.inject.lines() == [
        "dd if=/dev/urandom of=/dev/ubdb bs=4096 seek=768 count=16 oflag=direct conv=notrunc,fsync status=none"
    ]
    step = fault.inject.steps[0]
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
        catalogue.corrupt_member(
            "md0", B, data_offset_bytes=offset, data_bytes=MIB, start_bytes=start, length_bytes=length
        )
