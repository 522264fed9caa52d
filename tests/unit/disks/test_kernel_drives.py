"""Lines to the driver of emulated drives in virtual time, and checksums of what they hold."""

from __future__ import annotations

from dataclasses import replace

from lab.disks import DiskKind, LabDisk
from lab.disks.attaching import content_sums
from lab.units import MIB
from tests.unit.fakes import FACTS, FakeMachine

SUM = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
DISKS = (
    LabDisk(name="disk01", kind=DiskKind.SPINDLE, node="/dev/drive3", size_bytes=MIB),
    LabDisk(name="disk02", kind=DiskKind.LOOP, node="/dev/loop0", size_bytes=MIB),
)


def machine(*, is_virtual_time: bool) -> FakeMachine:
    files: dict[str, str | None] = {"/sys/block/drive3/content_sum": f"{SUM}\n"}
    return FakeMachine(files=files, facts=replace(FACTS, is_virtual_time=is_virtual_time))


def test_disks_whose_driver_tells_have_a_checksum_in_virtual_time() -> None:
    assert content_sums(machine(is_virtual_time=True), DISKS) == {"disk01": SUM}


def test_real_time_has_no_checksums() -> None:
    assert content_sums(machine(is_virtual_time=False), DISKS) == {}
