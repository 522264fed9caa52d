from __future__ import annotations

import time
from pathlib import Path

import pytest

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.disks import DiskKind, LabDisk
from lab.errors import SpecError
from lab.plans import Danger
from lab.units import KIB, MIB
from tests.unit.disks.machines import lab_disks

A, B, C, D, E = (f"/dev/ubd{letter}" for letter in "abcde")
JOURNAL, PPL = ConsistencyPolicy.JOURNAL, ConsistencyPolicy.PPL


PARITY = "--chunk=512 --layout=left-symmetric --bitmap=none"
UUID = "00000000:00000000:00000000:00000001"
CREATE = {
    "--level=raid0 --raid-devices=2 --chunk=4": ArraySpec("raid0", (A, B), chunk_bytes=4096),
    "--level=raid1 --raid-devices=2 --bitmap=internal --spare-devices=1": ArraySpec(
        "1", (A, B), spares=(C,), bitmap=Bitmap.INTERNAL
    ),
    "--level=raid4 --raid-devices=3 --chunk=64 --bitmap=none --write-journal=/dev/ubdd": ArraySpec(
        "raid4", (A, B, C), chunk_bytes=65536, consistency_policy=JOURNAL, journal_device=D
    ),
    f"--level=raid5 --raid-devices=3 {PARITY}": ArraySpec(
        "raid5", ("/dev/disk/by-id/virtio-RAIDLAB-01", "/dev/sdb", "/dev/sdc")
    ),
    f"--level=raid5 --raid-devices=3 {PARITY} --consistency-policy=ppl": ArraySpec(
        "raid5", (A, B, C), consistency_policy=PPL
    ),
    f"--uuid={UUID} --level=raid5 --raid-devices=3 --chunk=16 --layout=right-asymmetric --data-offset=2048 --size=5120 "
    "--bitmap=none --assume-clean --force --spare-devices=1 --write-mostly": ArraySpec(
        "raid5",
        (A, B, C),
        "md7",
        spares=(D,),
        chunk_bytes=16 * KIB,
        layout="right-asymmetric",
        assume_clean=True,
        forces_resync=True,
        size_bytes=5 * MIB,
        data_offset_bytes=2 * MIB,
        uuid=UUID,
        options=("--write-mostly",),
    ),
    "--level=raid6 --raid-devices=4 --chunk=512 --layout=right-symmetric --bitmap=none --assume-clean": ArraySpec(
        "raid6", (A, B, C, D), assume_clean=True, layout="right-symmetric"
    ),
    "--level=raid10 --raid-devices=4 --chunk=512 --layout=n2 --bitmap=none": ArraySpec("raid10", (A, B, C, D)),
    "--level=raid10 --raid-devices=3 --chunk=64 --layout=o3 --bitmap=none": ArraySpec(
        "raid10", (A, B, C), name="md127", layout="o3", chunk_bytes=65536
    ),
}


@pytest.mark.parametrize("options", CREATE)
def test_create(options: str) -> None:
    spec = CREATE[options]
    (step,) = spec.creation().steps
    start = f"mdadm --create /dev/{spec.name} --run --metadata=1.2 --homehost=any"
    assert step.shell_line() == " ".join([start, options, *spec.members, *spec.spares])
    assert step.danger is Danger.DATA
    journal = (spec.journal_device,) if spec.journal_device else ()
    assert step.writes_devices == spec.members + spec.spares + journal
    assert step.undo == ("mdadm", "--stop", f"/dev/{spec.name}")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (ArraySpec("raid7", (A, B)), "unknown level 'raid7'"),
        (ArraySpec("raid5", (A, B)), "raid5 needs at least 3 members, not 2"),
        (ArraySpec("raid6", (A, B, C)), "raid6 needs at least 4 members, not 3"),
        (ArraySpec("single", (A, B)), "single takes exactly 1 disk, not 2"),
        (ArraySpec("raid0", (A, B), chunk_bytes=12288), "not a power of two (md would allow it for raid0"),
        (ArraySpec("raid5", (A, B, C), chunk_bytes=12288), "not a power of two"),
        (ArraySpec("raid5", (A, B, C), chunk_bytes=2048), "below 4 KiB"),
        (ArraySpec("raid5", (A, B, C), chunk_bytes=0), "below 4 KiB"),
        (ArraySpec("raid1", (A, B), chunk_bytes=65536), "raid1 has no chunk"),
        (ArraySpec("raid1", (A, A)), "member /dev/ubda is named twice"),
        (ArraySpec("raid1", (A, B), spares=(A,)), "spare /dev/ubda is also a member"),
        (ArraySpec("raid1", (A, B), spares=(C, C)), "spare /dev/ubdc is named twice"),
        (ArraySpec("raid0", (A, B), spares=(C,)), "raid0 cannot use spares"),
        (ArraySpec("single", (A,), spares=(C,)), "single cannot use spares"),
        (ArraySpec("raid0", (A, B), bitmap=Bitmap.INTERNAL), "raid0 has no redundancy that a bitmap"),
        (ArraySpec("raid0", (A, B), assume_clean=True), "no first resync"),
        (ArraySpec("raid5", (A, B, C), bitmap=Bitmap.INTERNAL, consistency_policy=PPL), "with policy ppl"),
        (ArraySpec("raid6", (A, B, C, D), consistency_policy=PPL), "policy ppl works on raid5 only"),
        (ArraySpec("raid5", (A, B, C), consistency_policy=JOURNAL), "policy journal needs a journal device"),
        (ArraySpec("raid1", (A, B), consistency_policy=JOURNAL, journal_device=C), "raid4, raid5 and raid6, not raid1"),
        (ArraySpec("raid5", (A, B, C), journal_device=D), "needs policy journal, not resync"),
        (
            ArraySpec("raid5", (A, B, C), consistency_policy=JOURNAL, journal_device=A),
            "journal /dev/ubda is also a member",
        ),
        (ArraySpec("raid5", (A, B, C), layout="n2"), "'n2' is not a layout of raid5"),
        (ArraySpec("raid1", (A, B), layout="left-symmetric"), "is not a layout of raid1"),
        (ArraySpec("raid10", (A, B), layout="n3"), "keeps 3 copies, more than the 2 members"),
        (ArraySpec("raid1", (A, B), name="md0; reboot"), "is not 'md' and a number"),
        (ArraySpec("raid1", (A, B), name="sda"), "is not 'md' and a number"),
        (ArraySpec("raid1", (A, "--force")), "'--force' is not a device node"),
        (ArraySpec("raid1", (A, "/dev/../etc/passwd")), "is not a device node"),
        (ArraySpec("raid5", (A, B, C), bitmap_chunk_bytes=65536), "a bitmap chunk size needs an internal bitmap"),
    ],
)
def test_each_problem_is_named(spec: ArraySpec, problem: str) -> None:
    assert len(spec.problems()) == 1
    with pytest.raises(SpecError, match="array ") as caught:
        spec.creation()
    assert problem in caught.value.message
    assert caught.value.hint


def test_all_problems_come_at_once() -> None:
    spec = ArraySpec("raid5", (A, A), spares=(A,), chunk_bytes=3000, bitmap=Bitmap.INTERNAL, consistency_policy=PPL)
    with pytest.raises(SpecError) as caught:
        spec.validate()
    assert caught.value.message.startswith("array md0: 5 problems:")
    for word in ("named twice", "also a member", "at least 3 members", "below 4 KiB", "with policy ppl"):
        assert word in caught.value.message


def test_the_device_is_the_array_or_the_bare_disk() -> None:
    assert ArraySpec("raid1", (A, B), name="md3").device == "/dev/md3"
    single = ArraySpec("single", (A,))
    assert (single.device, single.creation().steps) == (A, ())


REPOSITORY = Path(__file__).resolve().parents[3]


def test_no_other_module_writes_mdadm_create() -> None:
    modules = [path for package in ("lab", "tui") for path in (REPOSITORY / package).rglob("*.py")]
    found = {
        path.relative_to(REPOSITORY).as_posix()
        for path in modules
        for line in path.read_text(encoding="utf-8").splitlines()
        # Other modules look for it in a plan.
        if '"--create"' in line and "==" not in line
    }
    assert found == {"lab/arrays/spec.py"}


DISKS = lab_disks("abcdefghi")
NODES = tuple(disk.node for disk in DISKS)


@pytest.mark.parametrize(
    ("level", "members", "survives", "cost"),
    [
        ("raid0", 3, "no failed members", 1),
        ("raid1", 3, "2 failed members", 3),
        ("raid5", 4, "1 failed member", 4),
        ("raid5", 3, "1 failed member", 3),
        ("raid6", 6, "2 failed members", 6),
        ("raid10", 6, "1 to 3 failed members", 2),
    ],
)
def test_a_choice_shows_what_it_survives_and_what_a_write_costs(
    level: str, members: int, survives: str, cost: int
) -> None:
    shown = ArraySpec(level, NODES[:members]).preview(DISKS)
    assert shown.can_be_built
    assert shown.survives == survives
    assert shown.write_penalty.startswith(f"{cost} I/O")
    assert shown.raw_bytes == members * 500 * MIB
    assert shown.commands[0].startswith(f"mdadm --create /dev/md0 --run --metadata=1.2 --homehost=any --level={level}")


def test_the_smallest_member_decides() -> None:
    odd = (*DISKS[:2], LabDisk(name="disk99", kind=DiskKind.FILE, node="/dev/ubdz", size_bytes=600 * MIB))
    shown = ArraySpec("raid1", ("/dev/ubda", "/dev/ubdz")).preview(odd)
    assert shown.usable_bytes < 500 * MIB
    assert shown.unused_bytes == 100 * MIB


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ArraySpec("raid0", ()), "needs at least 2 members"),
        (ArraySpec("raid1", ("/dev/sda", "/dev/sdb")), "not disks of this lab: /dev/sda, /dev/sdb"),
        (ArraySpec("raid5", NODES[:3], chunk_bytes=1 << 30), "too small"),
    ],
)
def test_an_invalid_spec_has_a_preview_with_problems_and_never_raises(spec: ArraySpec, message: str) -> None:
    shown = spec.preview(DISKS)
    assert not shown.can_be_built
    assert shown.plan is None
    assert message in " ".join(shown.problems)


def test_every_level_on_every_number_of_disks_is_judged_in_milliseconds() -> None:
    choices = [(level, count) for level in LevelName for count in range(len(NODES) + 1)]
    begin = time.process_time()
    for level, count in choices:
        ArraySpec(level.value, NODES[:count]).preview(DISKS, FileSystem.EXT4)
    assert (time.process_time() - begin) / len(choices) < 0.005
