"""Plays histories on the machine: what is done to arrays, with writes of the oracle in between, and what is seen.

It reads a job as JSON on its standard input and prints one JSON document a line: ``{"step": …}`` after each step,
``{"end": …}`` at the end of a history. One process plays a history from beginning to end, since in virtual time the
pace of the client must not show.

A step is a list, its first word one of the methods below: ``["run", ["mdadm", …], 60]``.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from lab.faults.guest.arrays import (
    pause,
    read_direct,
    read_text,
    skip_modprobe,
    wait_idle,
    write_text,
    wrong_rows,
)
from lab.faults.guest.ledger import SETTLED, Content, Ledger
from lab.faults.guest.record import Cut, Record, chosen_cut
from lab.faults.guest.writer import MOST_BAD, Writer, check

CONTROL, RECORD_NODE = "/dev/lab-drives", "/dev/lab-record"
TAIL = 2000
COMPLAINTS = (
    *("WARNING:", "BUG:", "Oops", "Call Trace", "hung task", "blocked for more than", "kernel BUG", "refcount"),
    "general protection",
)
"""Words of the kernel's log that no history may cause."""
STATE_READS = 3
"""Of md's attributes, where they change while they are read."""
STATE_FILES = (
    "array_state",
    "degraded",
    "sync_action",
    "mismatch_cnt",
    "level",
    "raid_disks",
    "resync_start",
    "consistency_policy",
    "reshape_position",
    "journal_mode",
    "component_size",
)


def say(document: dict[str, Any]) -> None:
    """One line for the client."""
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def drives(line: str) -> None:
    """A line for the drives' driver. Raises OSError if it is refused."""
    fd = os.open(CONTROL, os.O_WRONLY)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def read_record() -> Record:
    """All that was recorded so far."""
    with open(RECORD_NODE, "rb", buffering=0) as file:
        pieces = []
        while piece := file.read(65536):
            pieces.append(piece)
    return Record(b"".join(pieces))


def command(argv: Sequence[str], seconds: float, text: str = "") -> dict[str, Any]:
    """Run a program to its end; past its time it is killed, and ``status`` is null."""
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
    output, waited, step, status = b"", 0.0, 0.002, None
    while True:
        with contextlib.suppress(BlockingIOError):
            output += os.read(out_read, 65536)
        ended, raw = os.waitpid(pid, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(raw)
            break
        if waited >= seconds:
            os.killpg(pid, signal.SIGKILL)
            break
        pause(step)
        waited += step
        step = min(step * 1.2, 0.1)
    with contextlib.suppress(BlockingIOError):
        output += os.read(out_read, 65536)
    os.close(out_read)
    return {"status": status, "output": output.decode("utf-8", "replace")[-TAIL:]}


class KernelLog:
    """The kernel's log from now on; empty where it cannot be read."""

    def __init__(self) -> None:
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.fd, 0, os.SEEK_END)
        except OSError:
            self.fd = -1

    def lines(self) -> list[str]:
        """The lines since the last call."""
        found: list[str] = []
        while self.fd >= 0:
            try:
                line = os.read(self.fd, 8192).decode("utf-8", "replace")
            except BlockingIOError:
                break
            except BrokenPipeError:
                # The ring was overwritten before it was read: the next read continues behind that.
                continue
            found.append(line.partition(";")[2].partition("\n")[0])
        return found

    def close(self) -> None:
        """Release the device."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def complaints_in(lines: Iterable[str], words: Sequence[str] = COMPLAINTS) -> list[str]:
    """The lines that have one of these words."""
    return [line for line in lines if any(word in line for word in words)]


class Player:
    """One history.

    ``job``: seed, steps, drives (numbers), geometry (rows, chunk, member_bytes) and an earlier ledger.
    """

    most_bad = MOST_BAD

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.content = Content(job["seed"])
        self.ledger = Ledger(job.get("ledger", ()))
        self.writer: Writer | None = None
        self.mark_fd = -1
        self.cut_at = 0
        self.is_cut = False
        self.node = job.get("node", "/dev/md0")
        self.folder = f"/sys/block/{os.path.basename(os.path.realpath(self.node))}/md"
        self.log = KernelLog()

    def play(self) -> None:
        """All steps, or as far as one that cannot be carried out at all."""
        steps = self.job["steps"]
        for number, step in enumerate(steps):
            began = time.monotonic()
            try:
                seen = getattr(self, "do_" + step[0])(*step[1:]) or {}
            except Exception as error:
                seen = {"broke": f"{type(error).__name__}: {error}"}
            say({"step": number, "kind": step[0], "seconds": time.monotonic() - began, **seen})
            if "broke" in seen:
                break
        self.finish()
        say({"end": True, "ledger": self.ledger.events if self.job.get("wants_ledger") else []})

    def finish(self) -> None:
        """Release what the history holds."""
        with contextlib.suppress(OSError):
            self.do_close()
        self.log.close()

    def do_run(self, argv: list[str], seconds: float = 60.0, text: str = "") -> dict[str, Any]:
        """A program."""
        return command(argv, seconds, text)

    def do_write(self, path: str, text: str) -> dict[str, Any]:
        """A value in a file under /sys; refused is no end."""
        return {"refused": write_text(path, text)}

    def do_line(self, line: str) -> dict[str, Any]:
        """A line for the drives."""
        drives(line)
        return {}

    def do_open(self, path: str, mix: dict[str, int]) -> dict[str, Any]:
        """The oracle's writer on a device or a file."""
        self.writer = Writer(path, self.content, self.ledger, mix, self.mark_fd)
        return {}

    def do_fill(self) -> dict[str, Any]:
        """A generation of every block."""
        assert self.writer
        self.writer.fill()
        return {"events": len(self.ledger.events), "failures": self.writer.failures}

    def do_advance(self, operations: int) -> dict[str, Any]:
        """Further writes; some stay under way."""
        assert self.writer
        self.writer.advance(operations)
        return {"events": len(self.ledger.events), "failures": self.writer.failures}

    def do_flush(self) -> dict[str, Any]:
        """A flush, and wait for it."""
        assert self.writer
        self.writer.drain()
        self.writer.flush()
        self.writer.drain()
        return {"failures": self.writer.failures}

    def do_drain(self) -> dict[str, Any]:
        """Wait for what is under way."""
        assert self.writer
        self.writer.drain()
        return {"failures": self.writer.failures}

    def do_close(self) -> dict[str, Any]:
        """The writer lets go of its device."""
        if self.writer:
            self.writer.close()
        self.writer = None
        return {}

    def do_pause(self, seconds: float) -> dict[str, Any]:
        """Let the machine's time pass."""
        pause(seconds)
        return {}

    def do_idle(self, seconds: float = 120.0) -> dict[str, Any]:
        """Until md has nothing to do."""
        return {"idle": wait_idle(self.folder, seconds), **self.state()}

    def do_until(self, path: str, words: list[str], seconds: float = 60.0) -> dict[str, Any]:
        """Until a file says one of these words, or begins with a number of at least the first."""
        waited, step = 0.0, 0.002
        while waited < seconds:
            text = read_text(path)
            first = text.split()[0] if text else ""
            if text in words or (words[0].isdigit() and first.isdigit() and int(first) >= int(words[0])):
                return {"text": text}
            pause(step)
            waited += step
            step = min(step * 1.2, 0.05)
        return {"text": read_text(path), "late": True}

    def do_record(self, numbers: list[int]) -> dict[str, Any]:
        """From now on these drives are recorded; what they hold now is their base."""
        drives("forget")
        for number in numbers:
            drives(f"record {number}")
        if self.mark_fd < 0:
            self.mark_fd = os.open(CONTROL, os.O_WRONLY)
        os.write(self.mark_fd, f"mark {len(self.ledger.events)}".encode())
        if self.writer:
            self.writer.mark_fd = self.mark_fd
        return {}

    def do_still(self, numbers: list[int]) -> dict[str, Any]:
        """They are recorded no longer."""
        for number in numbers:
            drives(f"still {number}")
        self.end_marks()
        return {"events": len(self.ledger.events)}

    def end_marks(self) -> None:
        """The ledger is no longer marked in the record."""
        if self.writer:
            self.writer.mark_fd = -1
        os.close(self.mark_fd)
        self.mark_fd = -1

    def do_cut(self, numbers: list[int], kind: str, seed: str) -> dict[str, Any]:
        """The power fails: requests in flight fail, the array is gone, each drive holds what it might then hold.

        What ends after the power has failed counts for nothing.
        """
        events = self.ledger.events[:]
        os.write(self.mark_fd, f"mark {len(events)}".encode())
        record = read_record()
        for number in numbers:
            drives(f"{self.cut_drives} {number}")
        self.end_marks()
        self.do_close()
        stopped = self.end_array()
        at = record.requests[-1].came if record.requests else 0
        cut = chosen_cut(record, at, kind, random.Random(seed))
        self.restore(cut, record, numbers)
        self.use_ledger(events, kind)
        return {"cut": cut.word(), **stopped}

    cut_drives = "pull"
    """What a power cut does to the drives, as a line to their driver."""

    def end_array(self) -> dict[str, Any]:
        """After a power cut, stop what is left of the array."""
        return {"stop": command(["mdadm", "--stop", self.node], 60.0)}

    def restore(self, cut: Cut, record: Record, numbers: list[int]) -> None:
        """Make the drives hold what the cut left."""
        for number, words in cut.lists(record, numbers).items():
            if self.cut_drives == "pull":
                drives(f"plug {number}")
            drives(f"restore {number} {words}".rstrip())

    def use_ledger(self, events: list[list[Any]], kind: str) -> None:
        """Go on with these events, after a power cut of that kind."""
        self.ledger = Ledger(events)
        self.is_cut = True

    def do_check(self) -> dict[str, Any]:
        """The oracle's verdict on what can be read now."""
        allowed = self.ledger.allowed(is_power_cut=self.is_cut)
        found = check(self.job.get("data", self.node), self.content, allowed, self.most_bad)
        return {"verdicts": found["verdicts"], "bad": found["bad"], "open": len(found["found"]), **self.state()}

    def do_settle(self) -> dict[str, Any]:
        """What blocks hold now, of which several generations were allowed, is what they hold from now on."""
        allowed = self.ledger.allowed(is_power_cut=self.is_cut)
        found = check(self.job.get("data", self.node), self.content, allowed, self.most_bad)
        for block, generation in found["found"].items():
            if generation is not None:
                self.ledger.add(SETTLED, block, generation)
        self.is_cut = False
        return {"verdicts": found["verdicts"], "bad": found["bad"]}

    def do_parity(self) -> dict[str, Any]:
        """Rows whose parity or copies do not fit, read from the members."""
        shape = self.job["geometry"]
        return {"wrong": wrong_rows(self.folder, shape["rows"], shape["chunk"], shape["member_bytes"])}

    def do_state(self) -> dict[str, Any]:
        """What md says."""
        return self.state()

    def do_read(self, path: str) -> dict[str, Any]:
        """A small file."""
        return {"text": read_text(path)}

    def do_flip(self, node: str, at: int, length: int) -> dict[str, Any]:
        """Bytes of a device turned over, behind md's back."""
        start, end = at // 4096 * 4096, -(-(at + length) // 4096) * 4096
        data = bytearray(read_direct(node, start, end - start))
        for place in range(at - start, at - start + length):
            data[place] ^= 0xFF
        return self.put(node, start, bytes(data))

    def do_copy(self, node: str, source: int, target: int, length: int) -> dict[str, Any]:
        """Bytes of a device copied to another place of it: a write that went astray."""
        return self.put(node, target, read_direct(node, source, length))

    def put(self, node: str, at: int, data: bytes) -> dict[str, Any]:
        import mmap

        fd = os.open(node, os.O_WRONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, len(data))
        buffer[:] = data
        try:
            return {"bytes": os.pwrite(fd, buffer, at)}
        finally:
            os.close(fd)

    def state(self) -> dict[str, Any]:
        """Md's attributes, and its members: node -> [slot or -1, state, bad blocks if there are any]."""
        state: dict[str, str] = {}
        members: dict[str, Any] = {}
        for _ in range(STATE_READS):
            state = {name: read_text(f"{self.folder}/{name}") for name in STATE_FILES}
            members = self.members()
            if read_text(f"{self.folder}/degraded") == state["degraded"]:
                break
        return {"state": {name: text for name, text in state.items() if text}, "members": members}

    def members(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in names_in(self.folder):
            if name.startswith("dev-"):
                slot = read_text(f"{self.folder}/{name}/slot")
                seen: list[Any] = [int(slot) if slot.isdigit() else -1, read_text(f"{self.folder}/{name}/state")]
                if bad := read_text(f"{self.folder}/{name}/bad_blocks"):
                    # From the beginning of the drive; its data begin at the offset.
                    offset = int(read_text(f"{self.folder}/{name}/offset") or 0)
                    lines = [line.split() for line in bad.splitlines()]
                    seen.append([[int(first) - offset, int(count)] for first, count in lines])
                found["/dev/" + name[4:]] = seen
        return found


def names_in(folder: str) -> list[str]:
    """The sorted names in a folder, which may vanish at any moment."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def main() -> None:
    """One job: histories, one after the other."""
    skip_modprobe()
    job = json.load(sys.stdin)
    for history in job["histories"]:
        Player(history).play()
