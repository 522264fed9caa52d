"""Attaching and detaching disks on a machine: a partial failure leaves nothing attached, and disks in use stay."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from lab.disks.guard import Guard
from lab.disks.kinds import DiskKind, DiskSpec, specs
from lab.disks.lab import Lab, open_lab
from lab.errors import CommandFailed, DeviceRefused, LabError, SpecError
from lab.machine import parse_target
from lab.plans import Plan, Step
from lab.units import MIB
from tests.unit.disks.machines import SIZE, Device, host_in, lab_disk, lab_disks, machine_of
from tests.unit.fakes import FakeMachine, Scripted


def empty_lab(machine: FakeMachine, tmp_path: Path) -> Lab:
    return Lab(machine, host_in(tmp_path), ())


def loops(*sizes: int) -> FakeMachine:
    return machine_of(*(Device(f"loop{number}", size_bytes=size) for number, size in enumerate(sizes)))


FIRST, SECOND, THIRD = (Step((word, "a b"), f"Why {word}.") for word in ("first", "second", "third"))


def test_steps_run_in_order_and_are_announced_before(tmp_path: Path) -> None:
    machine, announced = FakeMachine(), list[tuple[str, int]]()
    plan = Plan.of("Test", [FIRST, SECOND])
    empty_lab(machine, tmp_path).execute(
        plan, before_step=lambda step: announced.append((step.argv[0], len(machine.runs)))
    )
    assert machine.runs == [FIRST.argv, SECOND.argv]
    assert announced == [("first", 0), ("second", 1)]


def test_the_first_error_ends_the_plan(tmp_path: Path) -> None:
    machine = FakeMachine()
    machine.answers[("second",)] = Scripted(status=1, stderr="its own")
    with pytest.raises(CommandFailed, match="its own"):
        empty_lab(machine, tmp_path).execute(Plan("Test", (FIRST, SECOND, THIRD)))
    assert machine.runs == [FIRST.argv, SECOND.argv]


def test_a_step_that_was_objected_to_does_not_run(tmp_path: Path) -> None:
    def object_to(step: Step) -> None:
        raise PermissionError(step.argv[0])

    machine = FakeMachine()
    with pytest.raises(PermissionError, match="first"):
        empty_lab(machine, tmp_path).execute(Plan("Test", (FIRST,)), before_step=object_to)
    assert machine.runs == []


def test_loop_disks_take_free_devices_in_order(tmp_path: Path) -> None:
    machine = loops(0, MIB, 0, 0)
    lab = empty_lab(machine, tmp_path)
    made = lab.attach(specs(2, DiskKind.LOOP, size_bytes=MIB))
    assert [disk.node for disk in made] == ["/dev/loop0", "/dev/loop2"]
    assert lab.disks == made
    assert machine.runs[0] == ("modprobe", "loop", "max_loop=64")
    # The embedded kernel's file system does not support direct I/O.
    assert ("losetup", "/dev/loop2", "/run/raidlab/disks/disk02.img") in machine.runs


def test_disks_attached_before_a_failure_are_detached(tmp_path: Path) -> None:
    machine = loops(0, 0)
    machine.answers[("losetup", "/dev/loop1")] = Scripted(status=1, stderr="busy")
    lab = empty_lab(machine, tmp_path)
    with pytest.raises(CommandFailed):
        lab.attach(specs(2, DiskKind.LOOP, size_bytes=MIB))
    assert ("losetup", "--detach", "/dev/loop0") in machine.runs
    assert lab.disks == ()


def test_too_few_free_devices(tmp_path: Path) -> None:
    machine = loops(0, MIB)
    with pytest.raises(LabError, match="no free loop device is left for 1 disk"):
        empty_lab(machine, tmp_path).attach(specs(2, DiskKind.LOOP, size_bytes=MIB))
    assert machine.runs[-2:] == [("losetup", "--detach", "/dev/loop0"), ("rm", "-f", "/run/raidlab/disks/disk01.img")]


def test_a_name_that_is_taken_is_refused_before_anything_runs(tmp_path: Path) -> None:
    machine = loops(0)
    lab = Lab(machine, host_in(tmp_path), [lab_disk()])
    with pytest.raises(SpecError, match="several disks are named disk01"):
        lab.attach(specs(1, DiskKind.LOOP, size_bytes=MIB))
    assert machine.runs == []


def test_file_disks_cannot_be_added_to_a_running_machine(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="file disks cannot be added"):
        empty_lab(FakeMachine(), tmp_path).attach(specs(1, DiskKind.FILE))


def test_a_second_set_of_ram_disks_would_be_the_first(tmp_path: Path) -> None:
    machine = FakeMachine()
    lab = empty_lab(machine, tmp_path)
    lab.attach(specs(2, DiskKind.RAM, size_bytes=MIB))
    with pytest.raises(SpecError, match="already has ram disks"):
        lab.attach(specs(1, DiskKind.RAM, size_bytes=MIB, first=3))
    assert machine.runs == [("modprobe", "brd", "rd_nr=2", "rd_size=1024")]
    # A later command removes them too.
    later = Lab(machine, host_in(tmp_path), lab.disks)
    later.detach(lab.disks)
    assert machine.runs[-1][-1].endswith("modprobe -r brd")
    assert later.disks == ()


def test_detach_runs_the_way_back_and_forgets_the_disk(tmp_path: Path) -> None:
    machine = loops(0, 0)
    lab = empty_lab(machine, tmp_path)
    first, second = lab.attach(specs(2, DiskKind.LOOP, size_bytes=MIB))
    machine.runs.clear()
    lab.detach([first])
    assert machine.runs[2:] == [
        ("losetup", "--detach", "/dev/loop0"),
        ("rm", "-f", "/run/raidlab/disks/disk01.img"),
    ]
    assert lab.disks == (second,)
    lab.release()
    assert ("losetup", "--detach", "/dev/loop1") in machine.runs
    assert machine.runs.count(("losetup", "--detach", "/dev/loop0")) == 1


def test_a_disk_is_forgotten_as_soon_as_it_is_detached(tmp_path: Path) -> None:
    machine = loops(0, 0)
    lab = empty_lab(machine, tmp_path)
    lab.attach(specs(2, DiskKind.LOOP, size_bytes=MIB))
    machine.answers[("losetup", "--detach", "/dev/loop1")] = Scripted(status=1, stderr="busy")
    with pytest.raises(CommandFailed):
        lab.detach(lab.disks)
    assert ("losetup", "--detach", "/dev/loop0") in machine.runs
    machine.runs.clear()
    lab.release()
    assert machine.runs == [("losetup", "--detach", "/dev/loop1"), ("rm", "-f", "/run/raidlab/disks/disk02.img")]


def test_a_disk_in_use_is_neither_detached_nor_reset(tmp_path: Path) -> None:
    machine = machine_of(Device("ubda", holders=("md0",)), Device("md0", members=("ubda",)))
    lab = Lab(machine, host_in(tmp_path), [lab_disk()])
    with pytest.raises(DeviceRefused, match="member of md0"):
        lab.detach(lab.disks)
    with pytest.raises(DeviceRefused, match=r"disk01 \(/dev/ubda\) is a member of md0\n.*stop the array"):
        lab.reset(lab.disks)
    assert machine.runs == [], "nothing has to be read of a disk in use"


def test_a_disk_used_as_swap_is_not_reset(tmp_path: Path) -> None:
    swaps = "/dev/ubda                               partition\t511996\t\t0\t\t-2\n"
    lab = Lab(machine_of(Device("ubda"), swaps=swaps), host_in(tmp_path), [lab_disk()])
    with pytest.raises(DeviceRefused, match=r"disk01 \(/dev/ubda\) is used as swap\n.*swapoff"):
        lab.reset(lab.disks)


def test_a_physical_disk_passes_the_guard_before_it_is_taken_in(tmp_path: Path) -> None:
    machine = machine_of(Device("sdb", entries=("sdb1",)))
    machine.answers[("readlink",)] = Scripted("/dev/sdb\n")
    wanted = [DiskSpec(name="disk01", kind=DiskKind.PHYSICAL, backing="/dev/disk/by-id/x")]
    lab = empty_lab(machine, tmp_path)
    with pytest.raises(DeviceRefused, match="partitions: sdb1"):
        lab.attach(wanted)
    machine.dirs["/sys/block/sdb"] = ("size",)
    made = lab.attach(wanted)
    assert (made[0].node, made[0].size_bytes, made[0].backing) == ("/dev/sdb", 500 * MIB, "/dev/disk/by-id/x")


def test_a_partition_is_refused_as_a_physical_disk(tmp_path: Path) -> None:
    machine = machine_of(Device("sdb"))
    machine.answers[("readlink",)] = Scripted("/dev/sdb1\n")
    with pytest.raises(DeviceRefused, match="not a whole disk"):
        empty_lab(machine, tmp_path).attach([DiskSpec(name="disk01", kind=DiskKind.PHYSICAL, backing="/dev/sdb1")])


def open_as(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use this machine for every target."""
    monkeypatch.setattr("lab.disks.lab.open_machine", lambda *_, **__: nullcontext(machine))


def test_a_machine_just_started_gets_the_folder_of_the_disks_sockets_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_of()
    open_as(machine, monkeypatch)
    with open_lab(parse_target("ssh:somewhere"), host_in(tmp_path)):
        pass
    assert machine.runs[0] == ("mkdir", "-p", "/run/raidlab")


@pytest.mark.parametrize("size_bytes", [SIZE, 4 * SIZE])
def test_an_experiment_leaves_disks_alone_that_carry_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    """No device uses a member of a stopped array. If no disk is suitable, none is chosen or erased."""
    machine = machine_of(Device("vda", number="254:0"), Device("vdb", number="254:16"))
    open_as(machine, monkeypatch)
    monkeypatch.setattr("lab.disks.lab.virtio_disks", lambda _: lab_disks("ab", kind=DiskKind.VIRTIO, prefix="/dev/vd"))
    monkeypatch.setattr(Guard, "carried", lambda _, nodes: {node: ("xfs",) for node in nodes if node == "/dev/vda"})

    monkeypatch.setattr(Lab, "attach", lambda *_: [])
    monkeypatch.setattr("lab.disks.lab.needs_backing", lambda spec: spec.size_bytes > SIZE)
    target, wanted = parse_target("ssh:somewhere"), [DiskSpec(name="a", kind=DiskKind.FILE, size_bytes=size_bytes)]
    is_possible = size_bytes == SIZE
    with (
        nullcontext() if is_possible else pytest.raises(LabError),
        open_lab(target, host_in(tmp_path), wanted=wanted) as lab,
    ):
        assert [disk.node for disk in lab.disks] == ["/dev/vdb"]
    erased = {word for argv in machine.runs for word in argv if word in ("/dev/vda", "/dev/vdb")}
    assert erased == ({"/dev/vdb"} if is_possible else set())


def test_a_disk_below_an_emulated_drive_is_blank_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = lab_disk("a", "/dev/nbd0", DiskKind.SPINDLE, model="ssd", backing="/dev/vda")
    blanked = list[str]()
    open_as(machine_of(), monkeypatch)
    monkeypatch.setattr("lab.disks.lab._choose_plain_disks", lambda lab, _: lab.use([drive]))
    monkeypatch.setattr(Lab, "reset", lambda _, disks: blanked.extend(disk.node for disk in disks))
    monkeypatch.setattr(Lab, "release", lambda _: None)
    with open_lab(parse_target("ssh:somewhere"), host_in(tmp_path), wanted=[]):
        pass
    assert blanked == ["/dev/nbd0"]
