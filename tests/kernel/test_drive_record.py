"""The record of the lab's own drives: all of their requests in one order, and drives restored to any state of it.

Tested are the drives of the embedded kernel, and those that a program serves to a stock kernel with two processors.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from lab.disks.attaching import DRIVES_CONTROL
from lab.errors import LabError
from lab.faults.guest.ledger import DISCARD, DRIVE_FLUSH, DRIVE_WRITE, MARK, NEVER, THROUGH, Cut, Record, Request
from lab.faults.place import FaultPlace, open_place
from lab.machine import Host, Machine, parse_target

pytestmark = [pytest.mark.timeout(600)]
BLOCK = 4096
MACHINES = [
    pytest.param("uml:?time=virtual", marks=[pytest.mark.kernel, pytest.mark.virtual_time]),
    pytest.param("qemu:", marks=[pytest.mark.qemu]),
]


@pytest.fixture(scope="module", params=MACHINES)
def place(request: pytest.FixtureRequest) -> Iterator[FaultPlace]:
    with open_place(parse_target(request.param), Host.real("tests"), drives=3) as opened:
        yield opened


@pytest.fixture
def machine(place: FaultPlace) -> Machine:
    """The machine with blank drives, all of them recorded from now on."""
    place.blank()
    place.lab.machine.write(DRIVES_CONTROL, "forget")
    for number in range(len(place.nodes)):
        place.lab.machine.write(DRIVES_CONTROL, f"record {number}")
    return place.lab.machine


def write(machine: Machine, text: str, block: int, *, drive: int = 0, how: str = "") -> None:
    """Write a block filled with one letter."""
    flags = "direct,dsync" if how == "dsync" else "direct"
    sync = "conv=notrunc,fsync" if how == "fsync" else "conv=notrunc"
    put = f"dd of=/dev/drive{drive} bs={BLOCK} seek={block} iflag=fullblock oflag={flags} {sync} status=none"
    machine.run(("sh", "-c", f"head -c {BLOCK} /dev/zero | tr '\\0' {text} | {put}"))


def letters(machine: Machine, drive: int = 0) -> str:
    """The first byte of each sector of the first four blocks, with a dot for a zero."""
    read = f"dd if=/dev/drive{drive} bs={BLOCK} count=4 iflag=direct status=none | base64 -w0"
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
    reported = [(each.kind, each.drive, each.sector * bool(each.count), each.count) for each in record.requests]
    assert reported == [
        (DRIVE_WRITE, 0, 0, 8),
        (MARK, 0, 0, 17),
        (DRIVE_WRITE, 1, 8, 8),
        (DRIVE_FLUSH, 1, 0, 0),
        (DRIVE_WRITE, 0, 16, 8),
        # O_DSYNC past the page cache: a write with FUA, and nevertheless a flush (blkdev_write_iter()).
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


def test_a_drive_can_be_restored_to_a_list_of_writes_and_to_its_base(machine: Machine) -> None:
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
        # What is written now belongs only to this state and is not recorded.
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


def test_a_drive_without_discards_is_blanked_too(place: FaultPlace, machine: Machine) -> None:
    write(machine, "a", 0, drive=2)
    machine.write(f"/sys/block/{place.lab.disks[2].kernel_name}/queue/discard_max_bytes", "0")
    place.blank()
    assert letters(machine, 2) == "." * 32


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


def test_writes_are_durable_only_after_a_flush(machine: Machine) -> None:
    write(machine, "a", 0, how="fsync")
    write(machine, "b", 1)
    write(machine, "c", 2, how="dsync")
    record = recorded(machine)
    # The time before the flush that follows the write past the cache.
    at = next(each.ended for each in record.requests if each.flags & THROUGH)
    sure, open_ = record.split(0, at)
    assert ([each.sector // 8 for each in sure], [each.sector // 8 for each in open_]) == ([0, 2], [1])
    assert record.split(0, record.moments()[-1])[1] == []
    cut = Cut(at, {0: []}, {})
    machine.write(DRIVES_CONTROL, f"restore 0 {cut.lists(record, [0])[0]}")
    assert letters(machine) == "a" * 8 + "." * 8 + "c" * 8 + "." * 8


THREADS, OPERATIONS, SLOT = 6, 60, 2 * BLOCK
# Each thread has its own slots with a gap between them, so that the block layer merges nothing, and prints what it
# did. It marks the record before and after each operation.
KNOWN_SEQUENCE = """
import fcntl, json, mmap, os, random, struct, sys, threading
THREADS, OPERATIONS, SLOT, BLOCK = map(int, sys.argv[1:])
control, done = os.open("/dev/lab-drives", os.O_WRONLY), []

def work(number):
    chance, drive = random.Random(number), number % 2
    fd, buffer = os.open(f"/dev/drive{drive}", os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, BLOCK)
    for turn in range(OPERATIONS):
        name, at = number * OPERATIONS + turn, (turn * THREADS + number) * SLOT
        kind = chance.choice(("write", "write", "write", "through", "flush", "discard"))
        buffer[:] = random.Random(name).randbytes(BLOCK)
        os.write(control, f"mark {2 * name}".encode())
        if kind == "flush":
            os.fsync(fd)
        elif kind == "discard":
            fcntl.ioctl(fd, 0x1277, struct.pack("<QQ", at, BLOCK))
        else:
            os.pwritev(fd, [buffer], at, os.RWF_DSYNC if kind == "through" else 0)
        os.write(control, f"mark {2 * name + 1}".encode())
        done.append((name, drive, kind, at))

threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(json.dumps(done))
"""


def test_no_request_of_a_known_sequence_is_missed(machine: Machine) -> None:
    """Requests of several threads overlap. Each is recorded once, with its data, between its two marks."""
    sizes = map(str, (THREADS, OPERATIONS, SLOT, BLOCK))
    done: list[Any] = json.loads(machine.run(("python3", "-IS", "-c", KNOWN_SEQUENCE, *sizes)).stdout)
    record = recorded(machine)
    data = base64.b64decode(machine.run(("base64", "-w0", "/dev/lab-record-data")).stdout)
    when = {value: event for event, value in record.marks}
    assert len(done) == THREADS * OPERATIONS
    seen = {(each.drive, each.sector * 512): each for each in record.requests if each.kind in (DRIVE_WRITE, DISCARD)}
    assert len(seen) == sum(each.kind in (DRIVE_WRITE, DISCARD) for each in record.requests)
    for name, drive, kind, at in done:
        first, last = when[2 * name], when[2 * name + 1]
        if kind in ("flush", "through"):
            # The block layer may answer several callers with one flush, which begins after all of them have asked.
            assert any(
                first < each.came and each.ended < last for each in record.by_drive[drive] if each.kind == DRIVE_FLUSH
            ), (name, kind)
        if kind != "flush":
            found = seen.pop((drive, at))
            assert first < found.came < found.ended < last, (name, kind)
            assert (found.kind == DISCARD, bool(found.flags & THROUGH)) == (kind == "discard", kind == "through")
            assert found.count == BLOCK // 512
            written = random.Random(name).randbytes(BLOCK)
            assert kind == "discard" or data[found.data : found.data + BLOCK] == written
    assert not seen
    if machine.facts.cpu_count > 1:
        assert most_at_once(record.requests) > 1


def most_at_once(requests: list[Request]) -> int:
    changes = sorted(change for each in requests if each.kind != MARK for change in ((each.came, 1), (each.ended, -1)))
    under_way, most = 0, 0
    for _, change in changes:
        under_way += change
        most = max(most, under_way)
    return most
