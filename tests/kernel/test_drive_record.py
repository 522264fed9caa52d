"""The record of the lab's own drives: what was asked of them, in one order, and drives made to hold any state of it."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from lab.disks.attaching import DRIVES_CONTROL
from lab.errors import LabError
from lab.faults.guest.ledger import DISCARD, DRIVE_FLUSH, DRIVE_WRITE, MARK, NEVER, THROUGH, Cut, Record
from lab.faults.place import FaultPlace, open_place
from lab.machine import Host, Machine, parse_target

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time]
BLOCK = 4096


@pytest.fixture(scope="module")
def place() -> Iterator[FaultPlace]:
    with open_place(parse_target("uml:?time=virtual"), Host.real("tests"), drives=2) as opened:
        yield opened


@pytest.fixture
def machine(place: FaultPlace) -> Machine:
    """Both drives blank and recorded from now on."""
    place.blank()
    place.lab.machine.write(DRIVES_CONTROL, "forget")
    for number in place.numbers:
        place.lab.machine.write(DRIVES_CONTROL, f"record {number}")
    return place.lab.machine


def write(machine: Machine, text: str, block: int, *, drive: int = 0, how: str = "") -> None:
    """A block full of one letter."""
    flags = "direct,dsync" if how == "dsync" else "direct"
    sync = "conv=notrunc,fsync" if how == "fsync" else "conv=notrunc"
    put = f"dd of=/dev/drive{drive} bs={BLOCK} seek={block} iflag=fullblock oflag={flags} {sync} status=none"
    machine.run(("sh", "-c", f"head -c {BLOCK} /dev/zero | tr '\\0' {text} | {put}"))


def letters(machine: Machine, drive: int = 0, blocks: int = 4) -> str:
    """The first byte of each sector of the first blocks, a dot for a zero."""
    read = f"dd if=/dev/drive{drive} bs={BLOCK} count={blocks} iflag=direct status=none | base64 -w0"
    data = base64.b64decode(machine.run(("sh", "-c", read)).stdout)
    return "".join(chr(data[at]) if data[at] else "." for at in range(0, len(data), 512))


def recorded(machine: Machine) -> Record:
    return Record(base64.b64decode(machine.run(("base64", "-w0", "/dev/lab-record")).stdout))


def test_requests_and_marks_have_one_order(machine: Machine) -> None:
    write(machine, "a", 0)
    machine.write(DRIVES_CONTROL, "mark 17")
    write(machine, "b", 1, drive=1, how="fsync")
    write(machine, "c", 2, how="dsync")
    machine.run(("blkdiscard", "-o", str(BLOCK), "-l", str(BLOCK), "/dev/drive1"))
    record = recorded(machine)
    told = [(each.kind, each.drive, each.sector * bool(each.count), each.count) for each in record.requests]
    assert told == [
        (DRIVE_WRITE, 0, 0, 8),
        (MARK, 0, 0, 17),
        (DRIVE_WRITE, 1, 8, 8),
        (DRIVE_FLUSH, 1, 0, 0),
        (DRIVE_WRITE, 0, 16, 8),
        # O_DSYNC past the page cache: a write with FUA, and all the same a flush (blkdev_write_iter()).
        (DRIVE_FLUSH, 0, 0, 0),
        (DISCARD, 1, 8, 8),
    ]
    assert [bool(each.flags & THROUGH) for each in record.requests] == [False] * 4 + [True, False, False]
    events = [
        number
        for each in record.requests
        for number in ((each.came,) if each.kind == MARK else (each.came, each.ended))
    ]
    assert events == sorted(events)
    assert NEVER not in events


def test_a_drive_holds_what_a_list_says_and_its_base_again(machine: Machine) -> None:
    write(machine, "a", 0)
    write(machine, "b", 1)
    write(machine, "c", 0)
    assert letters(machine) == "c" * 8 + "b" * 8 + "." * 16
    for words, seen in (
        ("", "." * 32),
        ("0", "a" * 8 + "." * 24),
        ("0-2", "c" * 8 + "b" * 8 + "." * 16),
        ("1 2:2-3", "..cc...." + "b" * 8 + "." * 16),
    ):
        machine.write(DRIVES_CONTROL, f"restore 0 {words}".rstrip())
        assert letters(machine) == seen, words
        # What is written on it now belongs to that state alone, and is not recorded.
        write(machine, "z", 3)
    assert len(recorded(machine).requests) == 3
    machine.write(DRIVES_CONTROL, "restore 0")
    assert letters(machine) == "." * 32


def test_discarded_pages_come_back_too(machine: Machine) -> None:
    write(machine, "a", 1)
    machine.write(DRIVES_CONTROL, "record 0")
    machine.run(("blkdiscard", "-o", "0", "-l", str(4 * BLOCK), "/dev/drive0"))
    assert letters(machine) == "." * 32
    machine.write(DRIVES_CONTROL, "restore 0")
    assert letters(machine) == "........aaaaaaaa................"
    machine.write(DRIVES_CONTROL, "restore 0 1")
    assert letters(machine) == "." * 32


@pytest.mark.parametrize("words", ["99", "1-", "x", "0:7", "0:3-1", "0:0-8", "0,1", "-1", "1 2"])
def test_a_bad_list_is_refused_and_leaves_the_base(machine: Machine, words: str) -> None:
    write(machine, "a", 0)
    with pytest.raises(LabError, match="Invalid argument"):
        machine.write(DRIVES_CONTROL, f"restore 0 {words}")
    assert letters(machine) == "." * 32


def test_a_drive_without_a_base_cannot_go_back(place: FaultPlace, machine: Machine) -> None:
    machine.write(DRIVES_CONTROL, "add 9 1048576 service=1000")
    with pytest.raises(LabError, match="Invalid argument"):
        machine.write(DRIVES_CONTROL, "restore 9")
    machine.write(DRIVES_CONTROL, "remove 9")


def test_what_is_sure_after_a_flush_and_what_is_not(machine: Machine) -> None:
    write(machine, "a", 0, how="fsync")
    write(machine, "b", 1)
    write(machine, "c", 2, how="dsync")
    record = recorded(machine)
    # Before the flush that follows the write past the cache.
    at = next(each.ended for each in record.requests if each.flags & THROUGH)
    sure, open_ = record.split(0, at)
    assert ([each.sector // 8 for each in sure], [each.sector // 8 for each in open_]) == ([0, 2], [1])
    assert record.split(0, record.moments()[-1])[1] == []
    cut = Cut(at, {0: []})
    machine.write(DRIVES_CONTROL, f"restore 0 {cut.lists(record, [0])[0]}")
    assert letters(machine) == "a" * 8 + "." * 8 + "c" * 8 + "." * 8
