"""Drives with mechanics on a real kernel: power cuts, and a drive on another disk.

tests/unit/disks/test_mechanics.py tests how a drive answers, and benchmarks/calibration.py compares times and model.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from lab.arrays import operations
from lab.disks import DiskKind, DiskSpec, Lab, LabDisk
from lab.disks.kinds import DriveModel, all_drive_models, find_drive_model
from lab.errors import DeviceRefused, LabError
from lab.measure.calibration import reader
from lab.units import MIB

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

SIZE = 48 * MIB
DISKS = (DiskSpec(name="new", kind=DiskKind.SPINDLE, size_bytes=SIZE, model="sata-7200"),)


# Writes pages all over the disk, eight at a time, flushes if told to, cuts the power and counts the remaining pages.
SCRIPT = """
import mmap, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
disk = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
server, is_safe = int(Path(sys.argv[2]).read_text()), sys.argv[3] == "safe"
places = [index * 7919 % 12000 * 4096 for index in range(int(sys.argv[4]))]
def write(place):
    page = mmap.mmap(-1, 4096)
    page[:] = place.to_bytes(8, "big") * 512
    os.pwrite(disk, page, place)
def is_there(place):
    page = mmap.mmap(-1, 4096)
    os.preadv(disk, [page], place)
    return page[:] == place.to_bytes(8, "big") * 512
with ThreadPoolExecutor(8) as pool:
    list(pool.map(write, places))
    if is_safe:
        os.fsync(disk)
    os.kill(server, signal.SIGUSR1)
    print(sum(pool.map(is_there, sorted(places))))
"""


@pytest.fixture
def turtle(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabDisk]:
    """A drive that turns so slowly that it needs almost a minute to write its cache to the medium."""
    own = find_drive_model("sata-7200").mechanics
    assert own
    monkeypatch.setitem(all_drive_models(), "turtle", DriveModel(title="slow", mechanics=replace(own, rpm=120.0)))
    (disk,) = lab.attach([DiskSpec(name="turtle", kind=DiskKind.SPINDLE, size_bytes=SIZE, model="turtle")])
    yield disk
    lab.detach([disk])


def there(lab: Lab, disk: LabDisk, how: str, count: int) -> int:
    lab.reset([disk])
    argv = ("python3", "-IS", "-c", SCRIPT, disk.node, f"/run/raidlab/{disk.name}.pid", how, str(count))
    return int(lab.machine.run(argv).stdout)


def test_a_power_cut_loses_what_the_write_cache_held(lab: Lab, turtle: LabDisk) -> None:
    # More pages than reach the medium while they are written, even on a busy computer, and fewer than the cache can
    # hold.
    assert there(lab, turtle, "at once", 1200) < 1200
    assert operations.cut_power(lab.disk("new")).lines() == ["pkill -USR1 -F /run/raidlab/new.pid"]
    lab.execute(operations.cut_power(lab.disk("new")))


def test_a_power_cut_takes_nothing_that_was_flushed(lab: Lab) -> None:
    assert there(lab, lab.disk("new"), "safe", 160) == 160


def test_a_drive_that_answers_from_the_medium_has_nothing_to_lose(lab: Lab) -> None:
    plain = LabDisk(name="x", kind=DiskKind.SPINDLE, node="/dev/nbd9", size_bytes=SIZE, model="hdd-7200")
    with pytest.raises(DeviceRefused, match=r"no volatile write cache .*\n.*sata-7200"):
        operations.cut_power(plain)


def test_a_drive_that_cannot_be_calibrated_is_named(lab: Lab) -> None:
    with pytest.raises(LabError, match="nbd60 cannot be read"):
        reader(lab.machine, "/dev/nbd60")([(0, 4096)], 1)


def test_a_drive_lies_on_another_disk(lab: Lab) -> None:
    """As in a virtual machine: data that are written and flushed are on the disk below, and discards reach it."""
    (below,) = lab.attach([DiskSpec(name="below", kind=DiskKind.LOOP, size_bytes=8 * MIB)])
    spec = DiskSpec(name="above", kind=DiskKind.SPINDLE, size_bytes=6 * MIB, model="sata-7200", backing=below.node)
    (above,) = lab.attach([spec])
    run = lab.machine.run
    assert run(("blockdev", "--getsize64", above.node)).stdout.strip() == str(6 * MIB)
    run(("sh", "-c", f"yes lab | dd of={above.node} bs=64k count=16 iflag=fullblock conv=fsync status=none"))
    head = f"dd if={below.node} bs=64k count=16 iflag=direct status=none"
    assert run(("sh", "-c", f"{head} | sort | uniq -c")).stdout.split() == ["262144", "lab"]
    run(("blkdiscard", "--force", above.node))
    assert run(("sh", "-c", f"{head} | tr -d '\\0' | wc -c")).stdout.strip() == "0"
    lab.detach([above])
    lab.detach([below])
