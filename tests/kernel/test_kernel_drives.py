"""The machine in virtual time: its drives' control lines, including invalid ones, drives in use, and its openings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab.disks import DiskKind, DiskSpec, Lab, open_lab
from lab.disks.attaching import DRIVES_CONTROL, content_sums
from lab.errors import LabError
from lab.machine import Host, Machine, parse_target
from lab.units import MIB
from tests.kernel.kill import Place
from tests.kernel.rig import file_disks

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time]
TARGET = parse_target("uml:?time=virtual")
DRIVE = DiskSpec(name="disk02", kind=DiskKind.SPINDLE, size_bytes=8 * MIB + 512, model="cheetah-4lp")
DISKS = (*file_disks(1, 16), DRIVE)
SPARE = 9
SHOW = ("--json", "array", "show")
ADD = f"add {SPARE} 1048576"
MECHANICS = (
    "rpm=7200 cylinders=5000 surfaces=2 zones=1:100 seek_short=1,0.1,100 seek_long=2,0.001 queue=4 interface=1e7"
)
BAD_LINES = (
    *("remove", "remove 0 0", "remove -1", "remove 0x0"),
    # Numbers cut to 32 or 64 bits would name the first drive or mean 512 bytes.
    *("remove 4294967296", "add 4294967305 1048576 service=1", f"add {SPARE} 18446744073709552128 service=1"),
    *("remove 0\0and more", "remove 0\npull 0"),
    # The drive has mechanics, so no base contains what its cache holds.
    *("record 0", "restore 0"),
    *("record", "mark", "mark -1", "mark 4294967296", "mark 1 2", "forget 0", "explode 0", "pull 0 now"),
    *("pace 0", "pace 0 -1", "pace 0 5ms", "pace 0 9223372036854775807"),
    *(f"add {SPARE} 1000 service=1", f"add {SPARE} -512 service=1", "add 65536 1048576 service=1", ADD),
    *(f"{ADD} service{word}" for word in ("", "=0", "=5ms", "=9223372036854775807", f"=1 {MECHANICS}")),
    *(f"{ADD} service=1 {word}" for word in ("concurrent=0", "concurrent=65", "rate=0", "rate=1e8")),
    *(f"{ADD} {word}" for word in ("rate=100000000", "service=1 file=/etc/hostname", "rpm=7200", "x" * 4000)),
    *(f"{ADD} {MECHANICS} {word}" for word in ("rate=100000000", "rpm=inf", "overhead=nan", "zones=inf:100")),
    *(f"{ADD} {MECHANICS} {word}" for word in ("seek_long=-1000,0", "read_ahead=-512")),
    f"{ADD} {MECHANICS} write_cache=4611686018427387904",
)
SUM_OF = """
import hashlib, sys
data = open(sys.argv[1], "rb").read()
pieces = [len(data).to_bytes(8, "little")]
for at in range(0, len(data), 4096):
    page = data[at : at + 4096]
    pieces += [at.to_bytes(8, "little"), page] if any(page) else []
print(hashlib.sha256(b"".join(pieces)).hexdigest())
"""
"""Computes the checksum that the drives' attribute reports for a drive from a read of the drive."""


@pytest.fixture
def machine(lab: Lab) -> Iterator[Machine]:
    """The machine, which must have its only drive, /dev/drive0, after each test; the drive must still answer."""
    yield lab.machine
    assert drives(lab.machine) == ["drive0"]
    lab.machine.run(("dd", "if=/dev/drive0", "of=/dev/null", "iflag=direct", "count=1"))


def drives(machine: Machine) -> list[str]:
    return [name for name in machine.list_dirs(["/sys/block"])["/sys/block"] if name.startswith("drive")]


@pytest.mark.parametrize("line", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_bad_line_is_refused_and_changes_nothing(machine: Machine, line: str) -> None:
    with pytest.raises(LabError, match="Invalid argument"):
        machine.write(DRIVES_CONTROL, line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [("add 0 1048576 service=1", "File exists"), ("pull 5", "No such device"), ("x" * 70000, "too long")],
    ids=["again", "nobody", "long"],
)
def test_other_lines_that_cannot_be_have_their_reason(machine: Machine, line: str, reason: str) -> None:
    with pytest.raises(LabError, match=reason):
        machine.write(DRIVES_CONTROL, line)


def test_the_mechanics_of_the_bad_lines_are_good_ones(machine: Machine) -> None:
    machine.write(DRIVES_CONTROL, f"{ADD} {MECHANICS}")
    assert drives(machine) == ["drive0", f"drive{SPARE}"]
    machine.write(DRIVES_CONTROL, f"remove {SPARE}")


def test_data_take_the_time_that_their_rate_gives(machine: Machine) -> None:
    machine.write(DRIVES_CONTROL, f"{ADD} service=1000000 rate=100000000")
    copying = ("dd", f"if=/dev/drive{SPARE}", "of=/dev/null", "iflag=direct", "bs=1M", "count=1")
    assert machine.run(copying).duration_seconds == pytest.approx(0.001 + MIB / 100e6, rel=0.01)
    machine.write(DRIVES_CONTROL, f"remove {SPARE}")


def test_a_drive_in_use_is_not_removed_and_goes_when_it_is_closed(machine: Machine) -> None:
    machine.write(DRIVES_CONTROL, f"{ADD} service=1000000")
    holder = machine.stream(("sh", "-c", f"sleep 1 </dev/drive{SPARE}"), is_aside=True)
    machine.sleep(0.5)
    with pytest.raises(LabError, match="busy"):
        machine.write(DRIVES_CONTROL, f"remove {SPARE}")
    assert drives(machine) == ["drive0", f"drive{SPARE}"]
    machine.sleep(1.0)
    assert holder.result().status == 0
    machine.write(DRIVES_CONTROL, f"remove {SPARE}")


def test_drives_come_and_go_while_others_open_them(machine: Machine) -> None:
    """Each open(2) first looks for partitions, which takes the drive 30 ms, so a removal often meets an open drive."""
    opener = "for i in $(seq 20); do dd if=$1 of=/dev/null iflag=direct bs=4k count=2 2>/dev/null; done; true"
    opening = [machine.stream(("sh", "-c", opener, "open", f"/dev/drive{SPARE}")) for _ in range(3)]
    for _ in range(15):
        machine.write(DRIVES_CONTROL, f"{ADD} service=30000000")
        machine.sleep(0.05)
        while drives(machine) != ["drive0"]:
            with suppress(LabError):
                machine.write(DRIVES_CONTROL, f"remove {SPARE}")
            machine.sleep(0.01)
    assert [each.result().status for each in opening] == [0, 0, 0]


def test_a_pulled_drive_fails_requests_in_flight_and_keeps_its_medium(lab: Lab, machine: Machine) -> None:
    write = ("dd", "if=/dev/urandom", "of=/dev/drive0", "bs=512", "count=4096", "oflag=direct", "conv=fsync")
    machine.run(write)
    before = content_sums(machine, lab.disks)["disk02"]
    read = f"""
      for skip in 0 1 2 3 4 5 6 7; do
        dd if=/dev/drive0 of=/dev/null bs=64k count=1 skip=$skip iflag=direct 2>/dev/null && echo read &
      done
      sleep 0.001
      printf 'pull 0' > {DRIVES_CONTROL}
      wait
      dd if=/dev/drive0 of=/dev/null count=1 iflag=direct 2>/dev/null && echo read
      printf 'plug 0' > {DRIVES_CONTROL}
      dd if=/dev/drive0 of=/dev/null count=1 iflag=direct 2>/dev/null && echo again
    """
    assert machine.run(("sh", "-c", read)).stdout.split() == ["again"]
    assert content_sums(machine, lab.disks)["disk02"] == before


def test_checksums_of_drives_take_no_time_and_match_a_read(lab: Lab, machine: Machine) -> None:
    """The checksum includes data that only the write cache holds, while the drive is still busy writing them."""
    for disk in lab.disks:
        machine.run(("dd", "if=/dev/urandom", f"of={disk.node}", "bs=4k", "count=100", "seek=7", "oflag=direct"))
    before = machine.clock.monotonic_seconds()
    sums = content_sums(machine, lab.disks)
    # Reading the time takes some two microseconds, reading a block some milliseconds.
    assert machine.clock.monotonic_seconds() - before < 1e-5
    assert sums == {d.name: machine.run(("python3", "-c", SUM_OF, d.node)).stdout.strip() for d in lab.disks}
    machine.run(("dd", "if=/dev/zero", "of=/dev/drive0", "bs=512", "count=1", "seek=16384", "oflag=direct"))
    assert set(content_sums(machine, lab.disks)) == set(sums)


def test_a_machine_closes_at_once_while_its_drives_are_busy() -> None:
    with open_lab(TARGET, Host.real("tests"), wanted=DISKS) as lab:
        lab.machine.write(DRIVES_CONTROL, "pace 0 900000000000")
        for node in ("/dev/drive0", "/dev/ubda"):
            lab.machine.stream(("sh", "-c", f"while :; do dd if={node} of=/dev/null iflag=direct; done"), is_aside=True)
        begin = time.monotonic()
    # A request to the drive takes 15 minutes.
    assert time.monotonic() - begin < 600


@pytest.mark.parametrize("openings", [1, pytest.param(30, marks=[pytest.mark.wide, pytest.mark.timeout(600)])])
def test_a_lab_opens_in_virtual_time_as_in_real_time(tmp_path: Path, openings: int) -> None:
    real, virtual = Place(tmp_path), Place(tmp_path, "uml:?time=virtual")
    made = real.run(("array", "create", "md0", "--level", "5", "--disks", "9", "--assume-clean"))
    before = real.run(SHOW)
    assert (made.status, before.status) == (0, 0), made.stderr + before.stderr
    assert "md0" in before.stdout
    for _ in range(openings):
        shown = virtual.run(SHOW)
        assert shown.status == 0, shown.stderr
        assert shown.stdout == before.stdout
        assert virtual.leftovers(shown) == []
    assert real.run(SHOW).stdout == before.stdout
