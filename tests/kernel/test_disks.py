"""Lab disks of every kind on a real kernel, and the guard against devices that are not lab disks."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.arrays import operations
from lab.arrays.discovery import MD_HEAD_BYTES, superblocks_in
from lab.disks import DiskKind, DiskSpec, Lab, LabDisk
from lab.disks.guard import Guard
from lab.disks.inventory import READ_HEADS, DiskEnds, read_ends
from lab.errors import CommandTimedOut, DeviceRefused
from lab.machine import TargetKind
from lab.measure.calibration import reader
from lab.plans import Danger, Plan, Step
from lab.units import KIB, MIB
from tests.kernel.place import kernel_target
from tests.kernel.rig import DEVICE, Rig

pytestmark = pytest.mark.kernel

# As many as the embedded kernel accepts, of sixteen different sizes, none of them a whole number of MiB.
DISKS = tuple(
    DiskSpec(name=f"disk{number:02}", kind=DiskKind.FILE, size_bytes=16 * MIB + number * 512) for number in range(1, 17)
)
OTHERS = (
    DiskSpec(name="loop1", kind=DiskKind.LOOP, size_bytes=12 * MIB + 512),
    DiskSpec(name="loop2", kind=DiskKind.LOOP, size_bytes=20 * MIB),
    DiskSpec(name="ram1", kind=DiskKind.RAM, size_bytes=10 * MIB + KIB),
    DiskSpec(name="ram2", kind=DiskKind.RAM, size_bytes=10 * MIB + KIB),
    DiskSpec(name="spindle1", kind=DiskKind.SPINDLE, size_bytes=8 * MIB + 512, model="hdd-7200"),
    DiskSpec(name="spindle2", kind=DiskKind.SPINDLE, size_bytes=8 * MIB, model="ssd"),
)
MARK = "/run/the-step-ran"


@pytest.fixture(scope="module")
def others(lab: Lab) -> Iterator[dict[str, LabDisk]]:
    made = lab.attach(OTHERS)
    yield {disk.name: disk for disk in made}
    lab.detach(made)
    assert [disk.kind for disk in lab.disks] == [DiskKind.FILE] * 16


def size_of(lab: Lab, disk: LabDisk) -> int:
    return int(lab.machine.run(("blockdev", "--getsize64", disk.node)).stdout)


def test_sixteen_file_disks_have_their_exact_sizes(lab: Lab) -> None:
    files = [disk for disk in lab.disks if disk.kind is DiskKind.FILE]
    assert [size_of(lab, disk) for disk in files] == [spec.size_bytes for spec in DISKS]
    assert [disk.serial for disk in files] == [f"RAIDLAB-{number:02}" for number in range(1, 17)]


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: spec.name)
def test_other_kinds_attach_with_their_exact_size(lab: Lab, others: dict[str, LabDisk], spec: DiskSpec) -> None:
    disk = others[spec.name]
    assert disk.kind is spec.kind
    assert size_of(lab, disk) == spec.size_bytes == disk.size_bytes
    # The last sector exists, and there is no sector behind it.
    last = spec.size_bytes // 512 - 1
    write = ("dd", "if=/dev/urandom", f"of={disk.node}", "bs=512", "count=1", "conv=fsync", "status=none")
    assert lab.machine.run((*write, f"seek={last}")).status == 0
    assert lab.machine.run((*write, f"seek={last + 1}"), check=False).status != 0


@pytest.mark.parametrize("depth", [pytest.param(1, marks=pytest.mark.wide), 4])
def test_a_7200_rpm_drive_answers_75_times_a_second(lab: Lab, others: dict[str, LabDisk], depth: int) -> None:
    disk = others["spindle1"]
    reads = reader(lab.machine, disk.node)([(number * 4 * KIB, 4 * KIB) for number in range(300)], depth)
    # Other load on this computer can make answers late, but none early. So the rate has a hard upper limit, and the
    # quickest reads show the drive's own time: not the very quickest, since a read that reaches the drive late waits
    # less for others, and the first ones find no queue. An emulated processor adds a millisecond, a twelfth of it.
    assert len(reads) / (max(end for _, end in reads) - min(begin for begin, _ in reads)) < 77
    seconds = sorted(end - begin for begin, end in reads[depth:])
    assert depth / seconds[len(seconds) // 50] > (73 if kernel_target().kind is TargetKind.UML else 60)


def stored_bytes(lab: Lab, disk: LabDisk) -> int | None:
    """Bytes that a sparse image occupies, on the computer or on the machine; None for a disk in memory."""
    if disk.kind is DiskKind.FILE:
        return Path(disk.backing).stat().st_blocks * 512
    if disk.kind is DiskKind.LOOP:
        return int(lab.machine.run(("stat", "-c", "%b", disk.backing)).stdout) * 512
    return None


@pytest.mark.parametrize("name", ["disk08", "loop2", "ram1", "spindle2"])
def test_reset_makes_blank_and_stores_nothing(lab: Lab, others: dict[str, LabDisk], name: str) -> None:
    assert others
    rig, disk = Rig(lab), lab.disk(name)
    rig.fill(disk.node)
    compare = ("cmp", "-n", str(disk.size_bytes), disk.node, "/dev/zero")
    assert lab.machine.run(compare, check=False).status == 1
    used = stored_bytes(lab, disk)
    assert used is None or used >= disk.size_bytes
    lab.reset([disk])
    assert lab.machine.run(compare, check=False).status == 0
    assert stored_bytes(lab, disk) in (None, 0)


def refuse(lab: Lab, node: str, reason: str) -> None:
    """Require that the guard gives this reason, and that a plan does not run a step that would write to the device."""
    lab.machine.run(("rm", "-f", MARK))
    step = Step(("touch", MARK), "Would write.", danger=Danger.DATA, writes_devices=(node,))
    with pytest.raises(DeviceRefused, match=reason) as refused:
        lab.execute(Plan.of("Write", [step]))
    assert node in refused.value.message
    assert lab.machine.run(("test", "-e", MARK), check=False).status == 1


def test_a_step_on_a_lab_disk_runs(lab: Lab, rig: Rig) -> None:
    # The step runs unless it is refused, as it is in the tests below.
    lab.machine.run(("rm", "-f", MARK))
    lab.execute(Plan.of("Write", [Step(("touch", MARK), "Writes.", writes_devices=(rig.nodes[0],))]))
    assert lab.machine.run(("test", "-e", MARK), check=False).status == 0


@pytest.fixture
def foreign_loop(lab: Lab) -> Iterator[str]:
    lab.machine.run(("modprobe", "loop"))
    lab.machine.run(("truncate", "--size", "16M", "/run/foreign.img"))
    node = lab.machine.run(("losetup", "--find", "--show", "/run/foreign.img")).stdout.strip()
    yield node
    lab.machine.run(("mdadm", "--stop", DEVICE), check=False)
    lab.machine.run(("losetup", "--detach", node))
    lab.machine.run(("rm", "/run/foreign.img"))


def test_the_guard_refuses_devices_that_it_does_not_know(lab: Lab, foreign_loop: str) -> None:
    refuse(lab, "/dev/sdz", "there is no such device")
    refuse(lab, foreign_loop, "it is not a lab disk")


def test_the_guard_refuses_a_mounted_disk(lab: Lab, rig: Rig) -> None:
    node = rig.nodes[0]
    lab.machine.run(("mkfs.ext4", "-q", "-F", node))
    lab.machine.run(("mkdir", "-p", "/run/elsewhere"))
    lab.machine.run(("mount", node, "/run/elsewhere"))
    try:
        refuse(lab, node, "it is mounted on /run/elsewhere")
        with pytest.raises(DeviceRefused, match="is mounted on /run/elsewhere"):
            lab.reset([lab.disk(node)])
    finally:
        lab.machine.run(("umount", "/run/elsewhere"))
    Guard(lab.machine, lab.disks).check(Step(("true",), "Free again.", writes_devices=(node,)))


def test_the_guard_refuses_an_array_with_foreign_members(lab: Lab, rig: Rig, foreign_loop: str) -> None:
    mine = rig.nodes[0]
    create = ("mdadm", "--create", DEVICE, "--run", "--level=1", "--raid-devices=2", "--bitmap=none", "--assume-clean")
    lab.machine.run((*create, "--metadata=1.2", mine, foreign_loop))
    refuse(lab, DEVICE, "members that are not lab disks: loop")
    # The array uses its lab disk, so the lab must not write to that disk either.
    refuse(lab, mine, "it is in use by md0")


def test_the_guard_refuses_a_read_only_disk(lab: Lab, rig: Rig) -> None:
    node = rig.nodes[2]
    lab.machine.run(("blockdev", "--setro", node))
    try:
        refuse(lab, node, "it is read-only")
    finally:
        lab.machine.run(("blockdev", "--setrw", node))


def test_superblocks_are_read_past_the_page_cache(lab: Lab, rig: Rig) -> None:
    """Read through the cache, members of a running array may look out of date, and then could not even be stopped."""
    spec = rig.create("raid1", 3)
    first = spec.members[0]
    lab.machine.run(("dd", f"if={first}", "of=/dev/null", "bs=8192", "count=1", "status=none"))
    before = superblocks_in(read_ends(lab.machine, spec.members, MD_HEAD_BYTES))
    lab.execute(operations.fail(spec.name, spec.members[2]))
    through_the_cache = lab.machine.run(("sh", "-c", f"head -c 8192 {first} | base64 -w0")).stdout
    stale = superblocks_in({first: DiskEnds(base64.b64decode(through_the_cache))})[first]
    now = superblocks_in(read_ends(lab.machine, spec.members, MD_HEAD_BYTES))
    assert stale.events == before[first].events < now[first].events


@pytest.fixture
def silent_disk(lab: Lab, rig: Rig) -> Iterator[str]:
    lab.machine.run(("dmsetup", "create", "silent", "--table", f"0 2048 linear {rig.nodes[0]} 0"))
    number = lab.machine.run(("dmsetup", "info", "-c", "--noheadings", "-o", "minor", "silent")).stdout.strip()
    lab.machine.run(("dmsetup", "suspend", "--noflush", "silent"))
    yield f"/dev/dm-{number}"
    lab.machine.run(("dmsetup", "resume", "silent"))
    lab.machine.run(("dmsetup", "remove", "--retry", "silent"))


def test_a_disk_that_does_not_answer_holds_up_nothing_else(lab: Lab, rig: Rig, silent_disk: str) -> None:
    with pytest.raises(CommandTimedOut):
        lab.machine.call(READ_HEADS, ("4096", "0", silent_disk), timeout_seconds=0.5)
    assert lab.machine.run(("echo", "here")).stdout == "here\n"
    assert read_ends(lab.machine, [rig.nodes[1]], 4096)[rig.nodes[1]].first == bytes(4096)
