"""Runs histories on the machine: operations on arrays, interleaved with writes of the oracle, checks and crash points.

The program reads a job as JSON from standard input and prints one JSON document per line: ``{"step": …}`` after a step,
``{"alive": true}`` during a long one, ``{"end": …}`` at the end of a history. One process runs a whole history, because
in virtual time the speed of the client must not influence the history. A step is a list whose first item is the name of
a method of the player without ``do_``, such as ``["run", ["mdadm", …], 60]``. A job with ``cuts`` contains the
geometry, the ledger and the members of a recording. For each cut, the drives are restored to its state, the array is
started and judged, and one document is printed.

The oracle's writes use O_DIRECT and the kernel's asynchronous interface (io_submit(2)), because a single thread must
know the order in which they were submitted and ended. While the drives are recorded
(provision/kernel/driver/lab_record.h), each event of the ledger is also marked in the record, so that the two can be
correlated.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from lab.faults.guest.arrays import (
    PIECE_BYTES,
    QuickArray,
    buffer,
    freshest,
    pause,
    pauses,
    read_direct,
    read_text,
    retried,
    skip_modprobe,
    stop_array,
    wait_idle,
    write_direct,
    write_text,
    wrong_rows,
)
from lab.faults.guest.ledger import (
    ACKNOWLEDGED,
    ALL,
    ALLOWED,
    BLOCK_BYTES,
    CORRUPT,
    DISCARD,
    DRIVE_WRITE,
    FAILED,
    FLUSH,
    INTACT,
    SETTLED,
    UNREADABLE,
    WRITE,
    Content,
    Cut,
    Ledger,
    Record,
    chosen_cut,
    cut_of,
    describe_block,
    generations_of,
    judged,
)
from lab.machine.direct_io_program import opened, reads_whole

MOST_UNDER_WAY = 32
MOST_BLOCKS = 64
MOST_BAD = 32
"""Maximum number of bad blocks that a check lists individually."""
ALL_BAD = 1 << 20
# asm/unistd.h: io_setup, io_destroy, io_getevents, io_submit.
CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
PWRITE, FDSYNC = 1, 3
RWF_DSYNC = 2
# struct iocb and struct io_event of linux/aio_abi.h, on little-endian machines.
IOCB = struct.Struct("<QIIHhIQQqQII")
EVENT = struct.Struct("<QQqq")


class Asynchronous:
    """An asynchronous I/O context (io_setup(2))."""

    def __init__(self) -> None:
        setup, self.destroy_call, self.events_call, self.submit_call = CALLS[os.uname().machine]
        self.call = ctypes.CDLL(None, use_errno=True).syscall
        self.context = ctypes.c_ulong(0)
        if self.call(setup, MOST_UNDER_WAY * 2, ctypes.byref(self.context)) < 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self.events = ctypes.create_string_buffer(EVENT.size * MOST_UNDER_WAY)
        self.block = ctypes.create_string_buffer(IOCB.size)
        self.pointer = ctypes.c_void_p(ctypes.addressof(self.block))

    def submit(self, fd: int, tag: int, operation: int, address: int, length: int, offset: int, flags: int) -> None:
        """Submit one request. Raises OSError if the kernel rejects it."""
        IOCB.pack_into(self.block, 0, tag, 0, flags, operation, 0, fd, address, length, offset, 0, 0, 0)
        if self.call(self.submit_call, self.context, ctypes.c_long(1), ctypes.byref(self.pointer)) != 1:
            raise OSError(ctypes.get_errno(), "io_submit")

    def ended(self, least: int) -> list[tuple[int, int]]:
        """Return (tag, result) of at least ``least`` requests that have ended.

        A negative result is a negated error number.
        """
        count = self.call(
            self.events_call, self.context, ctypes.c_long(least), ctypes.c_long(MOST_UNDER_WAY), self.events, None
        )
        found = (EVENT.unpack_from(self.events, index * EVENT.size) for index in range(max(0, count)))
        return [(tag, result) for tag, _, result, _ in found]

    def close(self) -> None:
        """Destroy the context, which waits for requests in flight."""
        self.call(self.destroy_call, self.context)


class RequestWriter:
    """Keeps several requests in flight, and records their starts and results as events of a ledger."""

    def __init__(self, ledger: Any, slot_bytes: int, mark_fd: int) -> None:
        self.ledger, self.slot_bytes, self.mark_fd = ledger, slot_bytes, mark_fd
        self.asynchronous = Asynchronous()
        self.buffer = mmap.mmap(-1, MOST_UNDER_WAY * slot_bytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self.free = list(range(MOST_UNDER_WAY))
        self.under_way: dict[int, tuple[int, int, int]] = {}
        """Number of an operation -> its slot in the buffer, and the offset and length of its data in bytes."""
        self.failures = 0
        self.first_failure = ""

    def note(self, kind: str, number: int, *more: Any) -> None:
        """Record an event in the ledger, and mark it in the drives' record."""
        at = self.ledger.add(kind, number, *more)
        if self.mark_fd >= 0:
            os.write(self.mark_fd, f"mark {at}".encode())

    def buffered(self, data: bytes) -> int:
        """Copy data to the slot of the next request, and return the address of the copy."""
        start = self.free[-1] * self.slot_bytes
        self.buffer[start : start + len(data)] = data
        return self.address + start

    def send(
        self, number: int, fd: int, kind: int, address: int = 0, length: int = 0, at: int = 0, flags: int = 0
    ) -> None:
        """Submit a request. Raises OSError if the kernel rejects it."""
        self.asynchronous.submit(fd, number, kind, address, length, at, flags)
        self.under_way[number] = (self.free.pop(), at, length)

    def end(self, number: int, *, is_done: bool, why: str = "") -> None:
        self.note(ACKNOWLEDGED if is_done else FAILED, number)
        if not is_done:
            self.failures += 1
            self.first_failure = self.first_failure or why

    def reap(self, least: int) -> None:
        """Wait until at least ``least`` requests have ended, and record all that have."""
        for number, result in self.asynchronous.ended(least):
            slot, _, length = self.under_way.pop(number)
            self.free.append(slot)
            self.end(number, is_done=result == length, why=f"error {-result}" if result < 0 else "a short write")

    def drain(self) -> None:
        while self.under_way:
            self.reap(1)

    def close(self) -> None:
        self.drain()
        self.asynchronous.close()


class Writer(RequestWriter):
    """Writes generations of blocks to one device or file, and records the result of each write.

    ``mix`` determines the operations of ``advance``. At most ``depth`` requests are in flight, on the ``count`` blocks
    from ``first`` on. One operation in ``flush`` is a flush, and one write in ``through`` uses O_DSYNC (0 means none).
    Writes span up to ``largest`` blocks, and one in ``whole`` is a full stripe of ``stripe`` blocks.
    """

    def __init__(self, path: str, content: Content, ledger: Ledger, mix: dict[str, int], mark_fd: int = -1) -> None:
        self.content = content
        self.mix = {"depth": 4, "flush": 8, "through": 16, "largest": 8, "whole": 8, "stripe": 0, **mix}
        self.random = random.Random(f"{content.seed}:{len(ledger.events)}")
        self.fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
        super().__init__(ledger, max(MOST_BLOCKS, self.mix["stripe"]) * BLOCK_BYTES, mark_fd)
        self.number = ledger.newest

    def write(self, first: int, count: int, *, is_through: bool = False) -> None:
        """Start a write of a new generation of these blocks."""
        self.number += 1
        data = b"".join(self.content.block(block, self.number) for block in range(first, first + count))
        request = (PWRITE, self.buffered(data), len(data), first * BLOCK_BYTES, RWF_DSYNC if is_through else 0)
        self.note(WRITE, self.number, first, count, int(is_through))
        self.begin(*request)

    def flush(self) -> None:
        """Start a flush of all acknowledged writes to the media."""
        self.number += 1
        self.note(FLUSH, self.number)
        self.begin(FDSYNC)

    def begin(self, *request: int) -> None:
        try:
            self.send(self.number, self.fd, *request)
        except OSError:
            self.end(self.number, is_done=False)

    def fill(self) -> None:
        end = self.mix["first"] + self.mix["count"]
        for first in range(self.mix["first"], end, MOST_BLOCKS):
            self.write(first, min(MOST_BLOCKS, end - first))
            if len(self.under_way) >= 4:
                self.reap(1)
        self.drain()
        self.flush()
        self.drain()

    def advance(self, operations: int) -> None:
        """Carry out operations chosen by the seed, leaving up to ``depth`` requests in flight."""
        for _ in range(operations):
            while len(self.under_way) >= self.mix["depth"]:
                self.reap(1)
            if self.one_in("flush"):
                self.flush()
                continue
            first, count = self.place()
            while self.is_busy(first, count):
                self.reap(1)
            self.write(first, count, is_through=self.one_in("through"))
        self.reap(0)

    def one_in(self, word: str) -> bool:
        return bool(self.mix[word]) and self.random.randrange(self.mix[word]) == 0

    def place(self) -> tuple[int, int]:
        """Choose the first block and length of the next write: a full stripe, a single block, or a few blocks."""
        start, room, stripe = self.mix["first"], self.mix["count"], self.mix["stripe"]
        if stripe and room >= stripe and self.one_in("whole"):
            return start + self.random.randrange(room // stripe) * stripe, stripe
        count = 1 if self.random.randrange(2) else self.random.randint(1, min(self.mix["largest"], room))
        return start + self.random.randint(0, room - count), count

    def is_busy(self, first: int, count: int) -> bool:
        """Whether a request to any of these blocks is in flight."""
        start, end = first * BLOCK_BYTES, (first + count) * BLOCK_BYTES
        return any(at < end and start < at + length for _, at, length in self.under_way.values())

    def close(self) -> None:
        super().close()
        os.close(self.fd)


def verdict_on(content: Content, block: int, data: memoryview, allowed: list[int]) -> tuple[str, list[Any]]:
    """Return the verdict on a block, and the generation of each sector or, if it is corrupt, what it seems to be."""
    if len(allowed) == 1 and data == content.block(block, allowed[0]):
        return INTACT, allowed
    whole = bytes(data)
    generations = generations_of(content, block, whole)
    verdict = judged(generations, allowed)
    return verdict, [describe_block(whole)] if verdict == CORRUPT else generations


def check(path: str, content: Content, allowed: dict[int, list[int]], most_bad: int = MOST_BAD) -> dict[str, Any]:
    """Read every block with O_DIRECT, and return the verdicts as a document of the following form.

    ``{"verdicts": {verdict: count}, "bad": [[block, verdict, found, allowed], …], "found": {block: generation}}``.
    ``bad`` contains the first ``most_bad`` blocks with a verdict that is not allowed, each with the generations of its
    sectors or what the block appears to be. ``found`` maps each block with several allowed generations to the one that
    is present, or to None if the block is torn.
    """
    view = buffer("check", PIECE_BYTES)
    seen: dict[str, Any] = {"verdicts": {}, "bad": [], "found": {}}
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd:
        last = max(allowed, default=-1)
        for start in range(min(allowed, default=0), last + 1, PIECE_BYTES // BLOCK_BYTES):
            size = min(PIECE_BYTES // BLOCK_BYTES, last + 1 - start)
            is_whole = reads_whole(fd, view[: size * BLOCK_BYTES], start * BLOCK_BYTES)
            for block in range(start, start + size):
                if block not in allowed:
                    continue
                data = view[(block - start) * BLOCK_BYTES : (block - start + 1) * BLOCK_BYTES]
                verdict: str = UNREADABLE
                found: list[Any] = []
                if is_whole or reads_whole(fd, data, block * BLOCK_BYTES):
                    verdict, found = verdict_on(content, block, data, allowed[block])
                seen["verdicts"][verdict] = seen["verdicts"].get(verdict, 0) + 1
                if verdict in ALLOWED and len(allowed[block]) > 1:
                    seen["found"][block] = found[0] if all(each == found[0] for each in found) else None
                elif verdict not in ALLOWED and len(seen["bad"]) < most_bad:
                    seen["bad"].append([block, verdict, found, allowed[block]])
    return seen


CONTROL, RECORD_NODE = "/dev/lab-drives", "/dev/lab-record"
TAIL = 2000
COMPLAINTS = (
    *("WARNING:", "BUG:", "Oops", "Call Trace", "hung task", "blocked for more than", "kernel BUG", "refcount"),
    "general protection",
)
"""Words that must not appear in the kernel log while a history runs."""
STATE_READS = 3
"""Maximum number of times that md's attributes are read, if they change during a read."""
STATE_FILES = (
    *("array_state", "degraded", "sync_action", "mismatch_cnt", "level", "raid_disks", "resync_start"),
    *("consistency_policy", "reshape_position", "journal_mode", "component_size"),
)


def send_document(document: dict[str, Any]) -> None:
    """Print one document for the client."""
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
    sys.stdout.flush()


ALIVE_SECONDS = 10.0


class Alive:
    """During a long step, tells the client every ten seconds, by the machine's clock, that the program is not stuck."""

    def __init__(self) -> None:
        self.sent_at = time.monotonic()

    def report(self) -> None:
        if time.monotonic() - self.sent_at >= ALIVE_SECONDS:
            send_document({"alive": True})
            self.sent_at = time.monotonic()


def drives(line: str) -> None:
    """Send a line to the drives' driver. Raises OSError if the driver refuses it."""
    with opened(CONTROL, os.O_WRONLY) as fd:
        os.write(fd, line.encode())


def restore_drives(cut: Cut, record: Record, numbers: Sequence[int]) -> None:
    """Restore these drives to the state that a cut leaves."""
    for number, words in cut.lists(record, numbers).items():
        drives(f"restore {number} {words}".rstrip())


def read_record() -> Record:
    """Read everything recorded so far."""
    with open(RECORD_NODE, "rb", buffering=0) as file:
        pieces = []
        while piece := file.read(65536):
            pieces.append(piece)
    return Record(b"".join(pieces))


def command(argv: Sequence[str], seconds: float, text: str = "") -> dict[str, Any]:
    """Run a program to its end. If it takes longer than ``seconds``, it is killed and ``status`` is null."""
    out_read, out_write = os.pipe()
    in_fd = os.memfd_create("stdin")
    os.write(in_fd, text.encode())
    os.lseek(in_fd, 0, os.SEEK_SET)
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in ((0, in_fd), (1, out_write), (2, out_write))]
    try:
        pid = os.posix_spawnp(argv[0], list(argv), os.environ, file_actions=actions, setsid=True)
    except OSError as error:
        os.close(out_read)
        return {"status": 127, "output": f"{argv[0]}: {error.strerror}"}
    finally:
        os.close(out_write)
        os.close(in_fd)
    os.set_blocking(out_read, False)
    output, status = b"", None
    for _ in pauses(seconds, 0.002, 1.2, 0.1):
        with contextlib.suppress(BlockingIOError):
            output += os.read(out_read, 65536)
        ended, raw = os.waitpid(pid, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(raw)
            break
    else:
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(BlockingIOError):
        output += os.read(out_read, 65536)
    os.close(out_read)
    return {"status": status, "output": output.decode("utf-8", "replace")[-TAIL:]}


# linux/fs.h
BLKDISCARD, BLKZEROOUT = 0x1277, 0x127F


def clear_device(node: str, *, can_discard: bool) -> None:
    """Overwrite a device with zeros. The lab's own drives return zeros after a discard; other devices may not."""
    with opened(node, os.O_WRONLY) as fd:
        size = os.lseek(fd, 0, os.SEEK_END)
        fcntl.ioctl(fd, BLKDISCARD if can_discard else BLKZEROOUT, struct.pack("<QQ", 0, size))


def accept_discards(queue: str) -> bool:
    """Enable discards if they were disabled, and return whether the device accepts them.

    The kernel accepts only multiples of the discard granularity (queue_max_discard_store()). In Linux 6.12 and 7.2 the
    granularity of a device is 0 while its discards are disabled, so they cannot be enabled again.
    """
    node = f"{queue}/discard_max_bytes"
    granule = int(read_text(f"{queue}/discard_granularity") or 0)
    if read_text(node) == "0" and granule:
        most = int(read_text(f"{queue}/discard_max_hw_bytes") or 0)
        write_text(node, str(most - most % granule))
    return read_text(node) not in ("", "0")


def reset_drives(nodes: Sequence[str], *, are_ours: bool) -> None:
    """Stop recording drives, restore their normal operation and blank them.

    ``are_ours`` says whether they are the lab's own drives.
    """
    if are_ours:
        drives("forget")
    for number, node in enumerate(nodes):
        for line in ("plug {}", "pace {} 0", "still {}") if are_ours else ():
            drives(line.format(number))
        can_discard = are_ours and accept_discards(f"/sys/block/{os.path.basename(node)}/queue")
        clear_device(node, can_discard=can_discard)


class KernelLog:
    """The kernel log since this object was created; empty if it cannot be read."""

    def __init__(self) -> None:
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.fd, 0, os.SEEK_END)
        except OSError:
            self.fd = -1

    def lines(self) -> list[str]:
        """Return the lines since the last call."""
        found: list[str] = []
        while self.fd >= 0:
            try:
                line = os.read(self.fd, 8192).decode("utf-8", "replace")
            except BlockingIOError:
                break
            except BrokenPipeError:
                # The ring buffer was overwritten; the next read continues with the oldest available line.
                continue
            found.append(line.partition(";")[2].partition("\n")[0])
        return found

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def complaints_in(lines: Iterable[str]) -> list[str]:
    """Return the lines that contain one of ``COMPLAINTS``."""
    return [line for line in lines if any(word in line for word in COMPLAINTS)]


class Player:
    """Runs one history.

    ``job`` contains the seed, the steps and the geometry (rows, chunk, member_bytes).
    """

    most_bad = MOST_BAD

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.content = Content(job["seed"])
        self.ledger = Ledger()
        self.writer: Writer | None = None
        self.mark_fd = -1
        self.is_cut = False
        self.node = job.get("node", "/dev/md0")
        self.folder = f"/sys/block/{os.path.basename(os.path.realpath(self.node))}/md"
        self.log = KernelLog()

    def play(self) -> None:
        """Run the steps, up to the first one that cannot be carried out."""
        steps = self.job["steps"]
        for number, step in enumerate(steps):
            began = time.monotonic()
            try:
                seen = self.carry_out(*step) or {}
            except Exception as error:
                seen = {"broke": f"{type(error).__name__}: {error}"}
            send_document({"step": number, "kind": step[0], "seconds": time.monotonic() - began, **seen})
            if "broke" in seen:
                break
        self.finish()
        send_document({"end": True, "ledger": self.ledger.events if self.job.get("wants_ledger") else []})

    def carry_out(self, name: str, *arguments: Any) -> Any:
        return getattr(self, "do_" + name)(*arguments)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            self.do_close()
        self.log.close()

    def do_run(self, argv: list[str], seconds: float = 60.0) -> dict[str, Any]:
        return command(argv, seconds)

    def do_write(self, path: str, text: str) -> dict[str, Any]:
        """Write a value to a file in /sys; a refusal does not end the history."""
        return {"refused": write_text(path, text)}

    def do_line(self, line: str) -> None:
        drives(line)

    def do_open(self, path: str, mix: dict[str, int]) -> dict[str, Any]:
        self.writer = Writer(path, self.content, self.ledger, mix, self.mark_fd)
        return {}

    def do_fill(self) -> dict[str, Any]:
        assert self.writer
        self.writer.fill()
        return {"events": len(self.ledger.events), "failures": self.writer.failures}

    def do_advance(self, operations: int) -> dict[str, Any]:
        """Carry out further operations, some of which remain in flight."""
        assert self.writer
        self.writer.advance(operations)
        return {"events": len(self.ledger.events), "failures": self.writer.failures}

    def do_flush(self) -> dict[str, Any]:
        assert self.writer
        self.writer.drain()
        self.writer.flush()
        self.writer.drain()
        return {"failures": self.writer.failures}

    def do_drain(self) -> dict[str, Any]:
        assert self.writer
        self.writer.drain()
        return {"failures": self.writer.failures}

    def do_close(self) -> None:
        if self.writer:
            self.writer.close()
        self.writer = None

    def do_pause(self, seconds: float) -> None:
        pause(seconds)

    def do_idle(self, seconds: float = 120.0) -> dict[str, Any]:
        return {"idle": wait_idle(self.folder, seconds), **self.state()}

    def do_until(self, path: str, words: list[str], seconds: float, least: int | None = None) -> dict[str, Any]:
        """Wait until a file's content is one of ``words``, or begins with a number that is at least ``least``."""
        text = ""
        for _ in pauses(seconds, 0.002, 1.2, 0.05):
            text = read_text(path)
            first = text.split()[0] if text else ""
            if text in words or (least is not None and first.isdigit() and int(first) >= least):
                return {"text": text}
        return {"text": text, "late": True}

    def do_record(self, numbers: list[int]) -> None:
        """Start recording these drives; their current content is the base of the record."""
        drives("forget")
        for number in numbers:
            # The driver refuses while the drive has requests in flight.
            retried(partial(drives, f"record {number}"), errno.EINVAL, 5.0, 0.05)
        if self.mark_fd < 0:
            self.mark_fd = os.open(CONTROL, os.O_WRONLY)
        os.write(self.mark_fd, f"mark {len(self.ledger.events)}".encode())
        if self.writer:
            self.writer.mark_fd = self.mark_fd

    def do_still(self, numbers: list[int]) -> dict[str, Any]:
        for number in numbers:
            drives(f"still {number}")
        self.end_marks()
        return {"events": len(self.ledger.events)}

    def end_marks(self) -> None:
        if self.writer:
            self.writer.mark_fd = -1
        os.close(self.mark_fd)
        self.mark_fd = -1

    def do_cut(self, numbers: list[int], kind: str, seed: str) -> dict[str, Any]:
        """Stop the array and restore each drive to a state that a power cut or a kernel crash could have left.

        Everything that happens after this moment is undone, so md can be stopped cleanly, and no request has to wait
        for a drive.
        """
        events = self.ledger.events[:]
        os.write(self.mark_fd, f"mark {len(events)}".encode())
        record = read_record()
        self.do_still(numbers)
        self.do_close()
        stop = command(["mdadm", "--stop", self.node], 60.0)
        at = record.requests[-1].came if record.requests else 0
        cut = chosen_cut(record, at, kind, random.Random(seed))
        restore_drives(cut, record, numbers)
        # Acknowledgements after the power cut do not count.
        self.ledger = Ledger(events)
        # After a crash of the kernel only, drives hold all ended writes, so acknowledged ones must be present.
        self.is_cut = kind != ALL
        return {"cut": cut.word(), **({"stop": stop, "broke": stop["output"]} if stop["status"] else {})}

    def do_check(self) -> dict[str, Any]:
        found = self.read_all(self.ledger)
        return {"verdicts": found["verdicts"], "bad": found["bad"], "open": len(found["found"]), **self.state()}

    def read_all(self, ledger: Ledger) -> dict[str, Any]:
        """Judge all blocks of a ledger (see ``check``)."""
        allowed = ledger.allowed(is_power_cut=self.is_cut)
        return check(self.job.get("data", self.node), self.content, allowed, self.most_bad)

    def do_settle(self) -> dict[str, Any]:
        """Record the content of blocks with several allowed generations, which must not change from now on."""
        found = self.read_all(self.ledger)
        for block, generation in found["found"].items():
            if generation is not None:
                self.ledger.add(SETTLED, block, generation)
        self.is_cut = False
        return {"verdicts": found["verdicts"], "bad": found["bad"]}

    def do_parity(self) -> dict[str, Any]:
        """Read the members, and return the rows with inconsistent parity or copies."""
        return {"wrong": wrong_rows(self.folder, self.job["geometry"])}

    def do_state(self) -> dict[str, Any]:
        return self.state()

    def do_flip(self, node: str, at: int, length: int) -> dict[str, Any]:
        """Invert bytes of a device without md's knowledge."""
        start, end = at // 4096 * 4096, -(-(at + length) // 4096) * 4096
        data = bytearray(read_direct(node, start, end - start))
        for place in range(at - start, at - start + length):
            data[place] ^= 0xFF
        return {"bytes": write_direct(node, start, bytes(data))}

    def do_copy(self, node: str, source: int, target: int, length: int) -> dict[str, Any]:
        """Copy bytes of a device to another offset on it, as a misdirected write would."""
        return {"bytes": write_direct(node, target, read_direct(node, source, length))}

    def state(self) -> dict[str, Any]:
        """Return md's attributes, and the members as node -> [slot or -1, state, bad blocks if there are any]."""
        state: dict[str, str] = {}
        members: dict[str, Any] = {}
        for _ in range(STATE_READS):
            state = {name: read_text(f"{self.folder}/{name}") for name in STATE_FILES}
            members = self.members()
            if read_text(f"{self.folder}/degraded") == state["degraded"]:
                break
        return {"state": {name: text for name, text in state.items() if text}, "members": members}

    def member_node(self, name: str) -> str:
        """Return the device node by which the history refers to the member that the kernel calls ``name``."""
        return f"/dev/{name}"

    def members(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in names_in(self.folder):
            if name.startswith("dev-"):
                slot = read_text(f"{self.folder}/{name}/slot")
                seen: list[Any] = [int(slot) if slot.isdigit() else -1, read_text(f"{self.folder}/{name}/state")]
                if bad := read_text(f"{self.folder}/{name}/bad_blocks"):
                    # The file counts sectors from the start of the drive; the member's data begin at the offset.
                    offset = int(read_text(f"{self.folder}/{name}/offset") or 0)
                    lines = [line.split() for line in bad.splitlines()]
                    seen.append([[int(first) - offset, int(count)] for first, count in lines])
                found[self.member_node(name[4:])] = seen
        return found


def names_in(folder: str) -> list[str]:
    """Return the sorted names in a folder, or none if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


SETTLE_SECONDS = 600.0


class DriveStates:
    """The states of the drives of a stored recording, computed without their driver.

    ``images`` contains the ``record``, and the ``data`` and the drives' ``bases`` compressed with gzip, all in base64.
    """

    def __init__(self, images: dict[str, Any]) -> None:
        # These modules are rarely needed, and an embedded kernel loads modules slowly.
        import base64
        import gzip

        self.record = Record(base64.b64decode(images["record"]))
        self.data = gzip.decompress(base64.b64decode(images["data"]))
        self.bases = {int(number): gzip.decompress(base64.b64decode(text)) for number, text in images["bases"].items()}

    def of(self, number: int, words: str) -> bytes:
        """Return the content of a drive after the listed requests (lab_record.h, ``lab_drive_restore``)."""
        image = bytearray(self.bases[number])
        for word in words.split():
            span, _, part = word.partition(":")
            first, _, last = span.partition("-")
            for each in self.record.requests[int(first) : int(last or first) + 1]:
                if each.drive != number or each.kind not in (DRIVE_WRITE, DISCARD):
                    continue
                begin, _, end = (part or f"0-{each.count - 1}").partition("-")
                skipped, length = int(begin) * 512, (int(end) + 1 - int(begin)) * 512
                at = each.sector * 512 + skipped
                piece = self.data[each.data + skipped :][:length] if each.kind == DRIVE_WRITE else bytes(length)
                image[at : at + length] = piece
        return bytes(image)


class Points:
    """Tries the crash points of one recording; ``members`` maps drive numbers to nodes.

    The drives themselves restore their states, unless the job has the ``images`` of a stored recording.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.content = Content(job["seed"])
        self.ledger = Ledger(job["ledger"])
        self.images = DriveStates(job["images"]) if job.get("images") else None
        self.record: Record = self.images.record if self.images else read_record()
        self.members: dict[int, str] = {int(number): node for number, node in job["members"].items()}
        self.array = QuickArray("/run/raidlab/crash-md0")
        self.allowed: dict[int, dict[int, list[int]]] = {}

    def judge(self, word: str) -> dict[str, Any]:
        cut = cut_of(word)
        if self.images:
            for number, words in cut.lists(self.record, list(self.members)).items():
                write_direct(self.members[number], 0, self.images.of(number, words))
        else:
            restore_drives(cut, self.record, list(self.members))
        nodes = [node for number, node in self.members.items() if number not in cut.missing]
        event = self.record.ledger_event(cut.at)
        if event not in self.allowed:
            self.allowed = {event: self.ledger.allowed(event, is_power_cut=True)}
        seen: dict[str, Any] = {"cut": word}
        if self.job.get("tells_labels"):
            names = ("raid_disks", "reshape_position", "data_offset", "recovery_offset")
            found = [label.superblock for label in freshest(nodes)]
            seen["labels"] = [{name: getattr(superblock, name) for name in names} for superblock in found]
        if not self.begin(nodes, seen):
            return seen
        try:
            if self.job.get("looks_first", True):
                seen["started"] = self.check_blocks(self.allowed[event], has_parity=False)
            seen["idle"] = self.array.settle(SETTLE_SECONDS)
            seen["settled"] = self.check_blocks(self.allowed[event], has_parity=not cut.missing)
        finally:
            self.stop()
        return seen

    def begin(self, nodes: list[str], seen: dict[str, Any]) -> bool:
        """Start the array, by force if need be, and return whether it runs; ``seen`` receives reasons for refusals."""
        for word, is_forced in (("refused", False), ("dead", True)):
            reason = self.start(nodes, is_forced=is_forced)
            if not reason:
                return True
            seen[word] = reason
        return False

    def start(self, nodes: list[str], *, is_forced: bool) -> str:
        if not self.job.get("by_mdadm"):
            return self.array.start(nodes, is_forced=is_forced)
        words = ["--force"] if is_forced else []
        done = command(["mdadm", "--assemble", "/dev/md0", "--run", *words, *nodes], 60.0)
        if done["status"] == 0:
            return ""
        command(["mdadm", "--stop", "/dev/md0"], 60.0)
        return str(done["output"].strip() or f"status {done['status']}")

    def stop(self) -> None:
        if self.job.get("by_mdadm"):
            command(["mdadm", "--stop", "/dev/md0"], 60.0)
        else:
            stop_array(self.array.node)

    def check_blocks(self, allowed: dict[int, list[int]], *, has_parity: bool) -> dict[str, Any]:
        node = "/dev/md0" if self.job.get("by_mdadm") else self.array.node
        found = check(node, self.content, allowed, self.job.get("most_bad", MOST_BAD))
        seen: dict[str, Any] = {"verdicts": found["verdicts"], "state": self.array.file("array_state")}
        seen["degraded"] = self.array.file("degraded")
        if found["bad"]:
            seen["bad"] = found["bad"]
        if has_parity:
            seen["wrong_rows"] = wrong_rows(self.array.folder, self.job["geometry"])
        return seen


def run_job(player: type[Player]) -> None:
    """Run the histories of the job, or judge its cuts."""
    skip_modprobe()
    job = json.load(sys.stdin)
    for history in job.get("histories", ()):
        player(history).play()
    if "cuts" not in job:
        return
    points = Points(job)
    for word in job["cuts"]:
        try:
            send_document(points.judge(word))
        except Exception as error:
            send_document({"cut": word, "broke": f"{type(error).__name__}: {error}"})
            break
    send_document({"end": True})


def main() -> None:
    """Run one job."""
    run_job(Player)
