"""Spindles on the disks of a virtual machine."""

from __future__ import annotations

import json

import pytest

from lab.disks.attaching import with_backing
from lab.disks.guard import reasons_against
from lab.disks.inventory import read_devices
from lab.disks.kinds import DiskKind, DiskSpec, LabDisk
from lab.errors import LabError
from lab.units import MIB
from tests.unit.disks.machines import Device, machine_of
from tests.unit.fakes import FakeMachine, Scripted, as_machine

SPINDLE = DiskSpec(name="disk10", kind=DiskKind.SPINDLE, size_bytes=200 * MIB, model="hdd-7200")
DISKS = tuple(
    LabDisk(name=f"disk0{number}", kind=DiskKind.VIRTIO, node=f"/dev/vd{letter}", size_bytes=500 * MIB)
    for number, letter in enumerate("bcde", start=1)
)


def machine(*, signed: str = "") -> FakeMachine:
    """vdb is in an array; the others are free."""
    holders = {"vdb": ("md0",)}
    fake = machine_of(*(Device(f"vd{letter}", holders=holders.get(f"vd{letter}", ())) for letter in "bcde"))
    found = [{"device": name, "type": "ext4"} for name in signed.split()]
    fake.answers[("wipefs", "--json")] = Scripted(stdout=json.dumps({"signatures": found}))
    return fake


def test_spindles_take_the_last_disks_that_carry_nothing() -> None:
    loop = DiskSpec(name="disk11", kind=DiskKind.LOOP, size_bytes=MIB)
    wanted = [SPINDLE, loop, DiskSpec(name="disk12", kind=DiskKind.SPINDLE, size_bytes=MIB, model="slow")]
    made = with_backing(as_machine(machine(signed="vde\n")), DISKS, wanted)
    assert [spec.backing for spec in made] == ["/dev/vdd", "", "/dev/vdc"]


def test_too_few_free_disks_are_told_before_anything_is_attached() -> None:
    fake = machine(signed="vdc\nvdd\nvde\n")
    with pytest.raises(LabError, match="no free lab disk is large enough for the spindle disk10") as refused:
        with_backing(as_machine(fake), DISKS, [SPINDLE])
    assert "raidlab disks reset" in refused.value.hint


def test_a_disk_that_is_too_small_is_not_taken() -> None:
    large = DiskSpec(name="disk10", kind=DiskKind.SPINDLE, size_bytes=501 * MIB, model="slow")
    with pytest.raises(LabError, match="large enough"):
        with_backing(as_machine(machine()), DISKS, [large])


def test_without_virtual_disks_spindles_stay_in_memory() -> None:
    fake = machine()
    loop = LabDisk(name="disk01", kind=DiskKind.LOOP, node="/dev/loop0", size_bytes=MIB)
    assert with_backing(as_machine(fake), [loop], [SPINDLE]) == [SPINDLE]
    assert fake.runs == []


def test_the_disk_below_a_spindle_is_refused_with_its_name() -> None:
    above = LabDisk(name="disk10", kind=DiskKind.SPINDLE, node="/dev/nbd0", size_bytes=MIB, backing="/dev/vde")
    devices = read_devices(as_machine(machine()))
    assert reasons_against(devices["vde"], {"nbd0": above}, devices) == ("the spindle disk10 lies on it",)
