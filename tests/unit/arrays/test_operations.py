from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.arrays import operations as ops
from lab.arrays.spec import Bitmap
from lab.disks import DiskKind, LabDisk
from lab.errors import DeviceRefused, SpecError
from lab.plans import Danger, Plan
from lab.units import KIB, MIB

A, B, C, D, E = (f"/dev/ubd{letter}" for letter in "abcde")
MANAGE, GROW = "mdadm --manage /dev/md0", "mdadm --grow /dev/md0"
QUIET = "sh -c 'for _ in $(seq 300); do grep -q [1-9] /sys/class/block/ubdb/inflight || break; sleep 0.1; done'"
SYNC_ACTION = "> /sys/block/md0/md/sync_action'"
LINES: list[tuple[Plan, list[str]]] = [
    (ops.assemble("md0", (A, B)), ["mdadm --assemble --run /dev/md0 /dev/ubda /dev/ubdb"]),
    (ops.assemble("md0", (A,), force=True), ["mdadm --assemble --run --force /dev/md0 /dev/ubda"]),
    (ops.stop("md0"), ["mdadm --stop /dev/md0"]),
    (ops.fail("md0", B), [f"{MANAGE} --fail /dev/ubdb"]),
    (ops.remove("md0", B), [QUIET, f"{MANAGE} --remove /dev/ubdb"]),
    (ops.add("md0", B), [f"{MANAGE} --add /dev/ubdb"]),
    (ops.add("md0", B, erase_first=True), ["mdadm --zero-superblock /dev/ubdb", f"{MANAGE} --add /dev/ubdb"]),
    (ops.re_add("md0", B), [f"{MANAGE} --re-add /dev/ubdb"]),
    (ops.replace("md0", A, D), [f"{MANAGE} --add /dev/ubdd", f"{MANAGE} --replace /dev/ubda --with /dev/ubdd"]),
    (ops.replace("md0", A, D, is_spare=True), [f"{MANAGE} --replace /dev/ubda --with /dev/ubdd"]),
    (ops.grow_members("md0", "raid5", 3, (D,)), [f"{MANAGE} --add {D}", f"{GROW} --raid-devices=4"]),
    (ops.grow_members("md0", "raid0", 2, (C,)), [f"{GROW} --raid-devices=3 --add {C}"]),
    (ops.grow_members("md0", "raid1", 2, (C,)), [f"{MANAGE} --add {C}", f"{GROW} --raid-devices=3"]),
    (ops.grow_members("md0", "raid5", 3, (), (D,)), [f"{GROW} --raid-devices=4"]),
    (ops.grow_members("md0", "raid5", 3, (E,), (D,)), [f"{MANAGE} --add {E}", f"{GROW} --raid-devices=5"]),
    (ops.grow_level("md0", "raid1", "raid5", 2, (), (C,)), [f"{GROW} --level=5", f"{GROW} --raid-devices=3"]),
    (ops.grow_size("md0"), [f"{GROW} --size=max"]),
    (
        ops.grow_level("md0", "raid1", "raid5", 2, (C,)),
        [f"{GROW} --level=5", f"{MANAGE} --add {C}", f"{GROW} --raid-devices=3"],
    ),
    (
        ops.grow_level("md0", "raid5", "raid6", 3, (D,)),
        [
            f"{MANAGE} --add /dev/ubdd",
            "mkdir -p /run/raidlab/backup",
            "sh -c 'mdadm --grow /dev/md0 --level=6 --raid-devices=4 --backup-file=/run/raidlab/backup/md0 "
            "> /run/raidlab/backup/md0.log 2>&1 || { cat /run/raidlab/backup/md0.log >&2; exit 1; }'",
        ],
    ),
    (ops.scrub("md0", "check"), [f"sh -c 'echo check {SYNC_ACTION}"]),
    (ops.scrub("md0", "repair"), [f"sh -c 'echo repair {SYNC_ACTION}"]),
    (ops.scrub("md0", "stop"), [f"sh -c 'echo idle {SYNC_ACTION}"]),
    (
        ops.set_sync_speed("md0", minimum_kib_per_second=1000, maximum_kib_per_second=None),
        [
            "sh -c 'echo 1000 > /sys/block/md0/md/sync_speed_min'",
            "sh -c 'echo system > /sys/block/md0/md/sync_speed_max'",
        ],
    ),
    (ops.set_bitmap("md0", Bitmap.NONE), ["mdadm --grow /dev/md0 --bitmap=none"]),
    (ops.zero_superblocks((A, B)), ["mdadm --zero-superblock /dev/ubda", "mdadm --zero-superblock /dev/ubdb"]),
]


@pytest.mark.parametrize(("plan", "lines"), LINES, ids=[f"{n}-{plan.title}" for n, (plan, _) in enumerate(LINES)])
def test_every_operation_explains_its_commands_and_names_what_they_write(plan: Plan, lines: list[str]) -> None:
    assert plan.lines() == lines
    for step in plan.steps:
        assert step.why.endswith(".")
        named = {word for word in step.argv if word.startswith("/dev/ubd")}
        assert named <= set(step.writes_devices)
        if step.danger is Danger.DATA:
            assert step.writes_devices


def test_what_overwrites_a_device_is_dangerous() -> None:
    assert ops.add("md0", B).destroys_data
    assert ops.replace("md0", A, D).destroys_data
    assert not ops.fail("md0", B).destroys_data
    assert not ops.scrub("md0", "check").destroys_data


def test_stop_has_an_undo_command_that_assembles() -> None:
    assert ops.stop("md0", (A, B)).steps[0].undo == ("mdadm", "--assemble", "--run", "/dev/md0", A, B)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.assemble("md0", ()),
        lambda: ops.grow_members("md0", "raid5", 3, ()),
        lambda: ops.grow_members("md0", "single", 1, (B,)),
        lambda: ops.grow_members("md0", "raid10", 4, (E,)),
        lambda: ops.grow_level("md0", "raid1", "raid5", 3, ()),
        lambda: ops.grow_level("md0", "raid5", "raid6", 3, ()),
        lambda: ops.grow_level("md0", "raid6", "raid5", 4, ()),
        lambda: ops.set_sync_speed("md0", minimum_kib_per_second=0, maximum_kib_per_second=None),
        lambda: ops.set_sync_speed("md0", minimum_kib_per_second=2, maximum_kib_per_second=1),
        lambda: ops.stop("md0 /dev/sda"),
        lambda: ops.scrub("md0", "polish"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_hint(make: object) -> None:
    assert callable(make)
    with pytest.raises(SpecError) as caught:
        make()
    assert caught.value.hint


def test_breaking_an_array_writes_to_its_sysfs_state() -> None:
    plan = ops.fail("md0", B, breaks_array=True)
    command = "{ echo faulty > state || grep -E '\"'\"'faulty|in_sync'\"'\"' state; }'"
    first, second = plan.lines()
    assert first == f"sh -c 'cd /sys/block/md0/md/dev-ubdb && {command}"
    assert "grep -q broken ../array_state && break" in second
    assert plan.ends_array
    assert "later versions refuse" in plan.steps[0].why


def test_a_mapped_member_is_found_under_the_name_that_md_has_for_it() -> None:
    step, _ = ops.fail("md0", "/dev/mapper/adapt0-1-2", breaks_array=True).steps
    assert step.argv[2].startswith(
        "cd /sys/block/md0/md/dev-$(lsblk --nodeps --noheadings --output KNAME /dev/mapper/adapt0-1-2) && "
    )
    assert step.writes_devices == ("/dev/md0", "/dev/mapper/adapt0-1-2")


def test_what_cannot_be_pulled_or_slowed_is_refused_with_what_can() -> None:
    file = LabDisk(name="disk01", kind=DiskKind.FILE, node=A, size_bytes=MIB)
    with pytest.raises(DeviceRefused, match="disk01 cannot be pulled: it is part of the embedded kernel") as refused:
        ops.pull(file)
    assert "--kind spindle" in refused.value.hint
    with pytest.raises(DeviceRefused, match="disk01 is a file disk"):
        ops.slow(file, "slow")
    with pytest.raises(SpecError, match="drive model ssd is not slower"):
        ops.slow(LabDisk(name="disk07", kind=DiskKind.SPINDLE, node=B, size_bytes=MIB, model="hdd-10k"), "ssd")


def test_a_scsi_disk_can_be_pulled_and_no_part_of_one() -> None:
    disk = LabDisk(name="sdc", kind=DiskKind.PHYSICAL, node="/dev/sdc", size_bytes=MIB)
    (gone,) = ops.pull(disk).steps
    assert gone.shell_line() == "sh -c 'echo 1 > /sys/block/sdc/device/delete'"
    assert gone.writes_devices == ("/dev/sdc",)
    assert ops.plug_in(disk, arrays=["md0"]).lines()[0] == "mdadm --manage /dev/md0 --remove /dev/sdc"
    for other in (B, "/dev/vdb", "/dev/sdc1"):
        with pytest.raises(DeviceRefused, match="cannot be pulled") as refused:
            ops.pull(LabDisk(name="other", kind=DiskKind.PHYSICAL, node=other, size_bytes=MIB))
        assert "fail it with 'raidlab array fail'" in refused.value.hint


@pytest.mark.parametrize(("failures", "status", "reads"), [(0, 0, 1), (3, 0, 4), (1000, 1, 100)])
def test_a_virtio_disk_that_is_plugged_in_is_read_until_it_answers(
    failures: int, status: int, reads: int, tmp_path: Path
) -> None:
    disk = LabDisk(name="disk02", kind=DiskKind.FILE, node="/dev/vdb", size_bytes=MIB)
    rescan, read = ops.plug_in(disk).steps
    assert rescan.shell_line() == "sh -c 'echo 1 > /sys/bus/pci/rescan'"
    dd = f'#!/bin/sh\necho "$1" >>{tmp_path}/reads\ntest $(wc -l <{tmp_path}/reads) -gt {failures}\n'
    for name, text in (("dd", dd), ("sleep", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(read.argv, env=environment, check=False).returncode == status
    assert (tmp_path / "reads").read_text().split() == ["if=/dev/vdb"] * reads


def test_corruption_hits_the_data_and_nothing_before_it() -> None:
    plan = ops.corrupt(B, data_offset_bytes=2 * MIB, data_bytes=100 * MIB, start_bytes=MIB, length_bytes=64 * KIB)
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
        (-4096, 0, 4096, "negative"),
        (MIB, -4096, 4096, "not inside"),
        (MIB, 0, 0, "not inside"),
        (MIB, 0, 2 * MIB, "not inside"),
        (MIB, 512, 4096, "multiples of 4096"),
    ],
)
def test_corruption_outside_the_data_is_refused(offset: int, start: int, length: int, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        ops.corrupt(B, data_offset_bytes=offset, data_bytes=MIB, start_bytes=start, length_bytes=length)
