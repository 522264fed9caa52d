"""Disks: their signatures and images, the state of their arrays, and the state folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.hardening.workbench import Bench, expect

pytestmark = pytest.mark.wide

SIZE = 48 * 1024**2


def _bare(bench: Bench, count: int) -> list[Path]:
    listed = [{"name": f"disk{number:02}", "kind": "file", "size_bytes": SIZE} for number in range(1, count + 1)]
    bench.disks.mkdir(mode=0o700, parents=True)
    for folder in (bench.state, bench.state / "labs", bench.disks.parent):
        folder.chmod(0o700)
    (bench.disks.parent / "lab.json").write_text(json.dumps(listed))
    images = [bench.disks / f"{disk['name']}.img" for disk in listed]
    for image in images:
        with image.open("wb") as file:
            file.truncate(SIZE)
    return images


def _write(image: Path, place: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(place if place >= 0 else SIZE + place)
        file.write(data)


def _survived(bench: Bench) -> tuple[int, int]:
    """Failures that md0 survives now: at least, and at most."""
    theory = json.loads(bench.run("--json", "array", "show", "md0", on_machine=True).worked().out)["theory"]
    return theory["failures_survived_now"], theory["most_failures_survived_now"]


CARRIED = (
    ("LVM2_member", 512, b"LABELONE" + bytes(16) + b"LVM2 001"),
    ("gpt", -512, b"EFI PART"),
    ("isw_raid_member", -1024, b"Intel Raid ISM Cfg Sig. 1.3.00"),
    ("swap", 4086, b"SWAPSPACE2"),
    ("iso9660", 32769, b"CD001"),
    ("btrfs", 65600, b"_BHRfS_M"),
)


@pytest.mark.kernel
def test_what_a_disk_carries_is_shown_and_never_overwritten(bench: Bench) -> None:
    images = _bare(bench, 9)
    for image, (_, place, data) in zip(images[3:], CARRIED, strict=True):
        _write(image, place, data)
    made = "mdadm --create /dev/md{} --run --level=1 --raid-devices=2 --metadata={} {} {}; mdadm --stop /dev/md{}"
    bench.run("exec", "--", made.format(7, "1.0", "/dev/ubda", "/dev/ubdb", 7), on_machine=True)
    shown = json.loads(bench.run("--json", "disks", on_machine=True).worked().out)["disks"]
    carried = {disk["name"]: disk["carries"] for disk in shown}
    expect("linux_raid_member" in carried["disk01"], f"an array with metadata 1.0 is not shown: {carried}")
    for number, (kind, _, _) in enumerate(CARRIED, 4):
        expect(kind in carried[f"disk{number:02}"], f"{kind} is not shown: {carried}")
    before = [image.read_bytes() for image in images[3:]]
    for disks in ("disk01,disk03", "disk04,disk03", *(f"disk0{number},disk03" for number in range(5, 10))):
        for level in ("1", "adapt5"):
            bench.run("array", "create", "--level", level, "--disks", disks, on_machine=True).was_refused()
    bench.run("array", "create", "--level", "1", "--disks", "2", on_machine=True).was_refused()
    bench.run("load", "mixed", "--on", "disk05", on_machine=True).is_answer()
    expect([image.read_bytes() for image in images[3:]] == before, "a disk that carries something was written on")
    bench.run("disks", "reset", *carried, on_machine=True).was_refused(because="md7")
    bench.run("array", "destroy", "md7", on_machine=True).worked()
    bench.run("disks", "reset", *carried, on_machine=True).worked()
    expect(not any(any(image.read_bytes()) for image in images), "a reset leaves something on a disk")


@pytest.mark.kernel
def test_the_failures_that_an_array_survives_are_those_of_its_members_and_layout(bench: Bench) -> None:
    _bare(bench, 4)
    create = ("array", "create", "--level", "10", "--disks", "4", "--layout", "f2", "--assume-clean")
    bench.run(*create, on_machine=True).worked()
    expect(_survived(bench) == (1, 2), f"whole: {_survived(bench)}")
    for disk, survived in (("disk01", (0, 1)), ("disk03", (0, 0))):
        bench.run("array", "fail", "md0", disk, on_machine=True).worked()
        expect(_survived(bench) == survived, f"far copies without {disk}: {_survived(bench)}")
    said = bench.run("array", "show", "md0", on_machine=True).worked().out
    line = next(line for line in said.splitlines() if line.startswith("survives"))
    expect("no failed members now" in line and "1 to 2 failed members when complete" in line, line)


@pytest.mark.kernel
def test_a_state_folder_from_which_no_kernel_can_start_is_refused_in_a_sentence(bench: Bench) -> None:
    folder = Path(f"/dev/shm/raidlab-hardening-{os.getpid()}")
    try:
        done = bench.run("array", "show", environment={"RAIDLAB_STATE": str(folder)}, on_machine=True).is_answer()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    expect("panic" not in done.said and "crashed" not in done.said, str(done))
    expect(done.status == 0 or "/dev/shm" in done.err, str(done))
