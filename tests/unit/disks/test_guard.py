"""The guard refuses devices that it does not know, and a refused step never runs."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.disks.guard import Guard
from lab.disks.kinds import DiskKind, LabDisk
from lab.disks.lab import Lab, packed
from lab.errors import DeviceRefused, ModuleMissing, SpecError, ToolMissing
from lab.plans import Danger, Plan, Step
from tests.unit.cli.superblocks import as_read
from tests.unit.disks.machines import SIZE, Device, host_in, lab_disk, machine_of
from tests.unit.fakes import FakeMachine, Scripted

UBDA = Device("ubda", number="98:0")
MOUNT = "40 27 98:0 / /mnt/data rw,relatime - ext4 /dev/ubda rw\n"
OUR_MOUNT = "41 27 98:0 / /run/raidlab/mnt/md0 rw,relatime - ext4 /dev/ubda rw\n"
SWAP = "/dev/ubda                               partition\t511996\t\t0\t\t-2\n"


def writing(*nodes: str) -> Step:
    return Step(("destroy", *nodes), "A test.", danger=Danger.DATA, writes_devices=nodes)


def check(machine: FakeMachine, *nodes: str, disks: tuple[LabDisk, ...] = (lab_disk(),)) -> None:
    Guard(machine, disks).check(writing(*nodes))


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (
            machine_of(Device("ubda", size_bytes=SIZE + 512)),
            f"it has {SIZE + 512} bytes, but the lab's disk01 has {SIZE}",
        ),
        (machine_of(UBDA, mounts=MOUNT), "it is mounted on /mnt/data"),
        (machine_of(Device("ubda", entries=("ubda1", "ubda2"))), "it has partitions: ubda1, ubda2"),
        (machine_of(UBDA, swaps=SWAP), "it is used as swap"),
        (machine_of(Device("ubda", read_only=True)), "it is read-only"),
        (machine_of(Device("ubda", holders=("dm-0",))), "it is in use by dm-0"),
        (
            machine_of(Device("ubda", holders=("md0",)), Device("md0", number="9:0", members=("sda", "ubda"))),
            "it is in use by md0",
        ),
        (machine_of(), "there is no such device"),
    ],
    ids=["size", "mounted", "partitions", "swap", "read-only", "holder", "foreign-array", "absent"],
)
def test_reasons(machine: FakeMachine, reason: str) -> None:
    with pytest.raises(DeviceRefused) as caught:
        check(machine, "/dev/ubda")
    assert caught.value.message == f"the lab does not write to /dev/ubda: {reason}"


def test_every_disk_that_is_not_of_the_lab_is_refused_with_every_reason() -> None:
    machine = machine_of(
        UBDA, Device("sda", number="8:0", entries=("sda1",), read_only=True), Device("sdb", number="8:16")
    )
    sentence = (
        r"/dev/sda: it is not a lab disk; it has partitions: sda1; it is read-only \| /dev/sdb: it is not a lab disk"
    )
    with pytest.raises(DeviceRefused, match=sentence):
        check(machine, "/dev/ubda", "/dev/sda", "/dev/sdb")


@pytest.mark.parametrize(
    "machine",
    [
        machine_of(UBDA),
        machine_of(UBDA, mounts=OUR_MOUNT),
        machine_of(Device("ubda", holders=("md0",)), Device("md0", number="9:0", members=("ubda",))),
    ],
    ids=["free", "our-mount", "our-array"],
)
def test_a_lab_disk_may_be_written_on(machine: FakeMachine) -> None:
    check(machine, "/dev/ubda")
    # An array that does not exist yet is no reason to refuse the step.
    check(machine, "/dev/md7", "/dev/ubda")


def test_a_physical_disk_is_known_by_its_serial_and_its_size() -> None:
    disks = (lab_disk(node="/dev/sdb", kind=DiskKind.PHYSICAL, serial="Y"),)
    check(machine_of(Device("sdb", serial="Y")), "/dev/sdb", disks=disks)
    with pytest.raises(DeviceRefused, match="it has the serial 'X', but the lab's disk01 has 'Y'"):
        check(machine_of(Device("sdb", serial="X")), "/dev/sdb", disks=disks)
    with pytest.raises(DeviceRefused, match=f"it has {SIZE * 2} bytes"):
        check(machine_of(Device("sdb", size_bytes=SIZE * 2, serial="Y")), "/dev/sdb", disks=disks)


def test_arrays_of_lab_disks_may_be_written_on_and_others_not() -> None:
    machine = machine_of(Device("md0", members=("ubda",)), Device("md1", members=("sda", "ubda")), Device("md2"))
    check(machine, "/dev/md0")
    with pytest.raises(DeviceRefused, match="/dev/md1: it is an array with members that are not lab disks: sda"):
        check(machine, "/dev/md1")
    with pytest.raises(DeviceRefused, match="/dev/md2: it is not a lab disk"):
        check(machine, "/dev/md2")


def test_the_guard_reads_nothing_for_a_step_that_writes_nowhere() -> None:
    machine = FakeMachine()
    Guard(machine, ()).check(Step(("true",), "A test."))
    assert machine.reads == []


def test_set_disks_replaces_all() -> None:
    guard = Guard(machine_of(UBDA), [lab_disk()])
    guard.set_disks([])
    with pytest.raises(DeviceRefused, match="not a lab disk"):
        guard.check(writing("/dev/ubda"))


def test_refusals_list_what_the_lab_leaves_alone() -> None:
    machine = machine_of(UBDA, Device("sda", number="8:0"), Device("loop0", size_bytes=0))
    refused = Guard(machine, [lab_disk()]).refusals()
    assert [(refusal.device.node, refusal.reasons) for refusal in refused] == [("/dev/sda", ("it is not a lab disk",))]


def lab_on(machine: FakeMachine, tmp_path: Path, *disks: LabDisk) -> Lab:
    return Lab(machine, host_in(tmp_path), disks)


def test_a_refused_step_and_those_after_it_never_run(tmp_path: Path) -> None:
    machine = machine_of(UBDA, Device("sda", number="8:0"))
    lab = lab_on(machine, tmp_path, lab_disk())
    with pytest.raises(DeviceRefused):
        lab.execute(Plan("Test", (writing("/dev/ubda"), writing("/dev/sda"), writing("/dev/ubda"))))
    assert machine.runs == [("destroy", "/dev/ubda")]


def test_the_guard_checks_again_before_every_step(tmp_path: Path) -> None:
    machine = machine_of(UBDA)
    machine.answers[("destroy",)] = Scripted(act=lambda: machine.files.update({"/sys/block/ubda/ro": "1\n"}))
    with pytest.raises(DeviceRefused, match="read-only"):
        lab_on(machine, tmp_path, lab_disk()).execute(Plan("Test", (writing("/dev/ubda"), writing("/dev/ubda"))))
    assert len(machine.runs) == 1


def test_a_missing_driver_is_named(tmp_path: Path) -> None:
    sentence = "modprobe: FATAL: Module brd not found in directory /lib/modules/6.1.0-1-cloud-amd64"
    machine = machine_of()
    machine.answers[("modprobe",)] = Scripted(status=1, stderr=sentence)
    with pytest.raises(ModuleMissing, match="no driver 'brd'"):
        lab_on(machine, tmp_path).execute(Plan("Test", (Step(("modprobe", "brd"), "A test."),)))


def test_a_lab_disk_by_name_node_or_serial(tmp_path: Path) -> None:
    lab = lab_on(FakeMachine(), tmp_path, lab_disk(serial="RAIDLAB-01"))
    for word in ("disk01", "/dev/ubda", "ubda", "RAIDLAB-01"):
        assert lab.disk(word).name == "disk01"
    with pytest.raises(SpecError, match=r"\n  next: did you mean 'disk01'\?$"):
        lab.disk("disk1")


# --- blank disks ------------------------------------------------------------------------------------------------------

# util-linux 2.38.1 (Debian 12), 2026-11-21: one image with ext4 and one blank image.
WIPEFS_EXT4 = """\
{
   "signatures": [
      {
         "device": "ubda",
         "offset": "0x438",
         "type": "ext4",
         "uuid": "37344645-7699-4ab2-8b4e-5a2afab5890e",
         "label": null
      }
   ]
}
"""
WIPEFS_BLANK = '{\n   "signatures": [\n\n   ]\n}\n'


def blank_check(machine: FakeMachine, answer: Scripted, *nodes: str) -> None:
    machine.answers[("wipefs", "--json")] = answer
    Guard(machine, [lab_disk()]).check_blank(nodes or ("/dev/ubda",))


@pytest.mark.parametrize("message", [WIPEFS_BLANK, ""])
def test_a_blank_disk_passes(message: str) -> None:
    machine = machine_of(UBDA)
    blank_check(machine, Scripted(message))
    assert machine.runs[1:] == [("wipefs", "--json", "/dev/ubda")]


@pytest.mark.parametrize("kind", ["linux_raid_member", "raidlab_volume"])
def test_metadata_of_an_array_are_refused_except_where_they_are_expected(kind: str) -> None:
    answer = Scripted(WIPEFS_EXT4.replace("ext4", kind))
    with pytest.raises(DeviceRefused, match=rf"^disk01 \(/dev/ubda\) carries {kind}\n.*'raidlab disks reset disk01'$"):
        blank_check(machine_of(UBDA), answer)
    machine = machine_of(UBDA)
    machine.answers[("wipefs", "--json")] = answer
    Guard(machine, [lab_disk()]).check_blank(("/dev/ubda",), members=("/dev/ubda",))


def _no_program() -> None:
    raise ToolMissing("wipefs is not installed")


def test_without_wipefs_the_guard_reads_signatures_itself() -> None:
    machine = machine_of(UBDA)
    machine.answers[("agent:read-heads",)] = Scripted(
        as_read([bytes(24) + bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")])
    )
    machine.answers[("wipefs",)] = Scripted(act=_no_program)
    with pytest.raises(DeviceRefused, match=r"^disk01 \(/dev/ubda\) carries bcache"):
        Guard(machine, [lab_disk()]).check_blank(("/dev/ubda",))


def test_partitions_that_nothing_uses_are_no_obstacle_to_what_erases_them() -> None:
    machine = machine_of(Device("ubda", entries=("ubda1",)))
    erase = Step(("true",), "A test.", writes_devices=("/dev/ubda",), ignores_partitions=True)
    Guard(machine, [lab_disk()]).check(erase)
    used = machine_of(Device("ubda", entries=("ubda1",)), mounts="42 27 98:1 / /c rw - ext4 /dev/ubda1 rw\n")
    with pytest.raises(DeviceRefused, match="its partitions are used by /c"):
        Guard(used, [lab_disk()]).check(erase)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (machine_of(Device("ubda", holders=("md0",))), "disk01 (/dev/ubda) is a member of md0"),
        (machine_of(UBDA, mounts=OUR_MOUNT), "disk01 (/dev/ubda) is mounted on /run/raidlab/mnt/md0"),
    ],
)
def test_a_disk_in_use_is_not_blank(machine: FakeMachine, reason: str) -> None:
    with pytest.raises(DeviceRefused, match=f"^{re.escape(reason)}\n") as caught:
        blank_check(machine, Scripted(WIPEFS_EXT4))
    # A reset would be refused too.
    assert "reset" not in caught.value.hint


@pytest.mark.parametrize(
    "answer",
    [
        # wipefs 2.38.1 for a disk that it cannot read: nothing on standard output, and status 1.
        Scripted(status=1, stderr="wipefs: error: /dev/ubda: probing initialization failed: Input/output error"),
        Scripted("not JSON"),
    ],
)
def test_a_disk_that_cannot_be_examined_does_not_pass_for_blank(answer: Scripted) -> None:
    with pytest.raises(DeviceRefused, match="the signatures on /dev/ubda cannot be read"):
        blank_check(machine_of(UBDA), answer)


@pytest.mark.skipif(not shutil.which("wipefs") or not shutil.which("mkfs.ext4"), reason="needs wipefs and mkfs.ext4")
def test_real_wipefs_is_understood(tmp_path: Path) -> None:
    image = tmp_path / "ubda"
    with image.open("wb") as file:
        file.truncate(8 << 20)

    def wipefs() -> Scripted:
        done = subprocess.run(["wipefs", "--json", str(image)], capture_output=True, text=True, timeout=30, check=False)
        return Scripted(done.stdout, done.returncode, done.stderr)

    blank_check(machine_of(UBDA), wipefs())
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=60, capture_output=True)
    with pytest.raises(DeviceRefused, match=r"^disk01 \(/dev/ubda\) carries ext4"):
        blank_check(machine_of(UBDA), wipefs())


VOLUME = (
    Device("ubda", holders=("dm-0", "dm-1")),
    Device("dm-0", number="254:0", members=("ubda",), holders=("md100",), mapped_name="adapt0-d00w00"),
    Device("dm-1", number="254:1", members=("ubda",), mapped_name="adapt0-d00w01"),
    Device("md100", number="9:100", members=("dm-0",), holders=("dm-2",)),
    Device("dm-2", number="254:2", members=("md100",), mapped_name="adapt0"),
)


def test_slices_of_lab_disks_and_what_lies_on_them_may_be_written_on() -> None:
    machine = machine_of(*VOLUME)
    check(machine, "/dev/mapper/adapt0-d00w00", "/dev/md100", "/dev/mapper/adapt0", "/dev/ubda")


def test_a_mapping_that_lies_on_another_disk_in_the_end_is_refused() -> None:
    foreign = (
        Device("sda", number="8:0", holders=("dm-3",)),
        Device("dm-3", number="254:3", members=("sda", "ubda"), holders=("md101",), mapped_name="home"),
        Device("md101", number="9:101", members=("dm-3",)),
    )
    machine = machine_of(*VOLUME, *foreign)
    with pytest.raises(
        DeviceRefused, match="/dev/mapper/home: it is a mapping with members that are not lab disks: sda"
    ):
        check(machine, "/dev/mapper/home")
    with pytest.raises(DeviceRefused, match="/dev/md101: it is an array with members that are not lab disks: sda"):
        check(machine, "/dev/md101")


def test_a_lab_disk_under_a_mapping_with_another_disk_is_refused() -> None:
    machine = machine_of(
        Device("ubda", holders=("dm-0",)),
        Device("dm-0", number="254:0", members=("sda", "ubda"), mapped_name="home"),
    )
    with pytest.raises(DeviceRefused, match="/dev/ubda: it is in use by dm-0"):
        check(machine, "/dev/ubda")


def test_a_mapping_in_use_is_found_by_its_node() -> None:
    guard = Guard(machine_of(*VOLUME), [lab_disk()])
    guard.check_unused(["/dev/mapper/adapt0"])
    with pytest.raises(DeviceRefused, match=r"^/dev/mapper/adapt0-d00w00 is a member of md100"):
        guard.check_unused(["/dev/mapper/adapt0-d00w00"])


@pytest.mark.parametrize("length", [10, 100_000])
def test_a_long_standard_input_arrives_as_it_was(length: int) -> None:
    text = "0 8 linear /dev/ubda 0\n" * length
    argv, given = packed(("sha256sum",), text)
    assert len(given) <= len(text)
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split()[0] == hashlib.sha256(text.encode()).hexdigest()
    # The packing hides no failure.
    argv, given = packed(("sh", "-c", "cat > /dev/null; exit 3"), text)
    assert subprocess.run(argv, input=given, text=True, check=False, timeout=30).returncode == 3
