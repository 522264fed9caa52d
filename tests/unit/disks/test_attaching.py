"""Exact commands: what is printed for a student is what runs as root."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

import lab.disks
from lab.disks.attaching import (
    detach_plan,
    loop_attachment,
    ram_attachments,
    reset_plan,
    spindle_attachment,
    with_backing,
)
from lab.disks.guard import reasons_against
from lab.disks.inventory import read_devices
from lab.disks.kinds import DiskKind, DiskSpec, LabDisk
from lab.errors import LabError, SpecError
from lab.plans import Danger
from lab.units import MIB
from tests.unit.disks.machines import Device, lab_disk, lab_disks, machine_of
from tests.unit.fakes import FakeMachine, Scripted, as_machine


def spec(kind: DiskKind, **more: str) -> DiskSpec:
    return DiskSpec(name="disk01", kind=kind, size_bytes=64 * MIB, **more)


@pytest.mark.parametrize(
    ("direct", "losetup"),
    [
        (True, "losetup --direct-io=on /dev/loop3 /images/disk01.img"),
        (False, "losetup /dev/loop3 /images/disk01.img"),
    ],
)
def test_loop(direct: bool, losetup: str) -> None:
    disk, attach = loop_attachment(spec(DiskKind.LOOP), 3, folder="/images", direct=direct)
    assert attach.lines() == ["mkdir -p /images", "truncate --size 67108864 /images/disk01.img", losetup]
    assert detach_plan([disk]).lines() == ["losetup --detach /dev/loop3", "rm -f /images/disk01.img"]
    assert disk == LabDisk(
        name="disk01", kind=DiskKind.LOOP, node="/dev/loop3", size_bytes=64 * MIB, backing="/images/disk01.img"
    )
    assert detach_plan([disk]).destroys_data
    assert not attach.destroys_data


QUEUE = "--filter=pause --filter=noparallel --filter=delay memory 67108864"
SERVERS = {
    "hdd-7200": f"{QUEUE} rdelay=13ms wdelay=13ms serialize=all-requests",
    "hdd-10k": f"{QUEUE} rdelay=7ms wdelay=7ms serialize=all-requests",
    "ssd": "--threads 16 --filter=pause --filter=delay memory 67108864 rdelay=0ms wdelay=0ms",
    "slow": f"{QUEUE} rdelay=50ms wdelay=50ms serialize=all-requests",
}


CONSTANT = tomllib.loads((Path(lab.disks.__file__).parent / "drive_models.toml").read_text("utf-8"))


@pytest.mark.parametrize("model", CONSTANT)
def test_spindle(model: str) -> None:
    disk, attach = spindle_attachment(spec(DiskKind.SPINDLE, model=model), 2)
    start = "nbdkit --unix /run/raidlab/disk01.sock --pidfile /run/raidlab/disk01.pid "
    assert attach.lines() == [
        f"{start}{SERVERS[model]} pause-control=/run/raidlab/disk01.pause",
        "nbd-client -unix /run/raidlab/disk01.sock /dev/nbd2 -b 512",
        f"sh -c 'echo {int(model != 'ssd')} > /sys/block/nbd2/queue/rotational'",
    ]
    assert detach_plan([disk]).lines() == [
        "nbd-client -d /dev/nbd2",
        "pkill -F /run/raidlab/disk01.pid",
        "rm -f /run/raidlab/disk01.sock /run/raidlab/disk01.pid /run/raidlab/disk01.pause",
    ]
    assert (disk.node, disk.backing, disk.model) == ("/dev/nbd2", "memory", model)


def test_spindle_with_mechanics_and_over_another_device() -> None:
    def first_line(model: str, **more: str) -> str:
        _, attach = spindle_attachment(spec(DiskKind.SPINDLE, model=model, **more), 2, drive_plugin="/p/drive.so")
        return attach.lines()[0]

    assert first_line("barracuda-4lp") == (
        "nbdkit --unix /run/raidlab/disk01.sock --pidfile /run/raidlab/disk01.pid --threads 16 --filter=pause "
        "/p/drive.so size=67108864 rpm=7200 cylinders=5172 surfaces=5 zones=0.34:186,0.33:158,0.33:124 "
        "seek_short=3,0.232702,600 seek_long=7.2814,0.002364 track_switch=0.8 overhead=1.1 interface=20000000 queue=1 "
        "read_ahead=131072 write_cache=131072 transport=0.4 pause-control=/run/raidlab/disk01.pause"
    )
    below = first_line("sata-7200", backing="/dev/vdb")
    assert "--threads 64 " in below
    assert " size=67108864 backing=/dev/vdb " in below
    assert " --filter=delay --filter=truncate file /dev/vdb truncate=" in first_line("slow", backing="/dev/vdb")


def test_ram_disks_are_made_together() -> None:
    wanted = [DiskSpec(name=f"disk0{number}", kind=DiskKind.RAM, size_bytes=64 * MIB) for number in (1, 2, 3)]
    disks, plan = ram_attachments(wanted)
    assert plan.lines() == ["modprobe brd rd_nr=3 rd_size=65536"]
    assert detach_plan(disks).lines() == ["sh -c '[ ! -e /sys/module/brd/initstate ] || modprobe -r brd'"]
    assert [(disk.name, disk.node) for disk in disks] == [
        ("disk01", "/dev/ram0"),
        ("disk02", "/dev/ram1"),
        ("disk03", "/dev/ram2"),
    ]
    with pytest.raises(SpecError, match="different sizes"):
        ram_attachments([*wanted, DiskSpec(name="disk04", kind=DiskKind.RAM, size_bytes=MIB)])


ZEROED_ENDS = [
    f"blkdiscard --force --zeroout --length {MIB} --offset 0 /dev/ubda",
    f"blkdiscard --force --zeroout --length {MIB} --offset {lab_disk().size_bytes - MIB} /dev/ubda",
]


@pytest.mark.parametrize(
    ("kind", "backing", "lines"),
    [
        (DiskKind.FILE, "", ["blkdiscard --force /dev/ubda"]),
        (DiskKind.LOOP, "", ["blkdiscard --force /dev/ubda"]),
        (DiskKind.VIRTIO, "", ["blkdiscard --force /dev/ubda", *ZEROED_ENDS]),
        (DiskKind.SPINDLE, "", ["blkdiscard --force /dev/ubda"]),
        # A discard may not erase the device below.
        (DiskKind.SPINDLE, "/dev/vdb", ["blkdiscard --force /dev/ubda", *ZEROED_ENDS]),
        (DiskKind.RAM, "", ["blkdiscard --force --zeroout /dev/ubda"]),
        (DiskKind.PHYSICAL, "", ["wipefs --all /dev/ubda", *ZEROED_ENDS]),
    ],
)
def test_reset(kind: DiskKind, backing: str, lines: list[str]) -> None:
    disk = lab_disk(kind=kind, backing=backing)
    plan = reset_plan(disk)
    assert plan.lines() == lines
    assert {(step.danger, step.writes_devices) for step in plan.steps} == {(Danger.DATA, ("/dev/ubda",))}
    assert reset_plan(disk, has_partitions=True).lines() == [*lines, "blockdev --rereadpt /dev/ubda"]


SPINDLE = DiskSpec(name="disk10", kind=DiskKind.SPINDLE, size_bytes=200 * MIB, model="hdd-7200")
DISKS = lab_disks("bcde", kind=DiskKind.VIRTIO, prefix="/dev/vd")


def machine(*, signed: str = "") -> FakeMachine:
    """A machine on which vdb is in an array; the other disks are free."""
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


def test_too_few_free_disks_are_reported_before_anything_is_attached() -> None:
    large = replace(SPINDLE, size_bytes=501 * MIB)
    for signed, spindle in (("vdc\nvdd\nvde\n", SPINDLE), ("", large)):
        with pytest.raises(LabError, match=r"is large enough for the spindle disk10\n.*raidlab disks reset"):
            with_backing(as_machine(machine(signed=signed)), DISKS, [spindle])


def test_without_virtual_disks_spindles_stay_in_memory() -> None:
    fake = machine()
    loop = LabDisk(name="disk01", kind=DiskKind.LOOP, node="/dev/loop0", size_bytes=MIB)
    assert with_backing(as_machine(fake), [loop], [SPINDLE]) == [SPINDLE]
    assert fake.runs == []


def test_the_disk_below_a_spindle_is_refused_with_its_name() -> None:
    above = LabDisk(name="disk10", kind=DiskKind.SPINDLE, node="/dev/nbd0", size_bytes=MIB, backing="/dev/vde")
    devices = read_devices(as_machine(machine()))
    assert reasons_against(devices["vde"], {"nbd0": above}, devices) == ("it backs the spindle disk10",)
