"""Runs histories on the machine: operations on arrays, writes of the oracle in between, and checks.

It reads a job as JSON from its standard input and prints one JSON document per line: ``{"step": …}`` after each step,
``{"end": …}`` at the end of a history. One process runs a whole history, because in virtual time the speed of the
client must have no influence.

A step is a list whose first item is the name of a method below without ``do_``: ``["run", ["mdadm", …], 60]``.
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
"""Words in the kernel log that no history may cause."""
STATE_READS = 3
"""Maximum number of reads of md's attributes, if they change during a read."""
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
    """Print one document for the client."""
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def drives(line: str) -> None:
    """Send a line to the drives' driver. Raises OSError if it is refused."""
    fd = os.open(CONTROL, os.O_WRONLY)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def read_record() -> Record:
    """Everything recorded so far."""
    with open(RECORD_NODE, "rb", buffering=0) as file:
        pieces = []
        while piece := file.read(65536):
            pieces.append(piece)
    return Record(b"".join(pieces))


def command(argv: Sequence[str], seconds: float, text: str = "") -> dict[str, Any]:
    """Run a program to its end; if it takes longer than ``seconds``, it is killed and ``status`` is null."""
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
    """The kernel log from now on; empty if it cannot be read."""

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
                # The ring buffer was overwritten; the next read continues with the oldest available line.
                continue
            found.append(line.partition(";")[2].partition("\n")[0])
        return found

    def close(self) -> None:
        """Close the kernel log."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def complaints_in(lines: Iterable[str], words: Sequence[str] = COMPLAINTS) -> list[str]:
    """The lines that contain one of these words."""
    return [line for line in lines if any(word in line for word in words)]


class Player:
    """Runs one history.

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
        """Run all steps, or up to one that cannot be carried out."""
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
        """Close the writer and the kernel log."""
        with contextlib.suppress(OSError):
            self.do_close()
        self.log.close()

    def do_run(self, argv: list[str], seconds: float = 60.0, text: str = "") -> dict[str, Any]:
        """Run a program."""
        return command(argv, seconds, text)

    def do_write(self, path: str, text: str) -> dict[str, Any]:
        """Write a value to a file in /sys; a refusal does not end the history."""
        return {"refused": write_text(path, text)}

    def do_line(self, line: str) -> dict[str, Any]:
        """Send a line to the drives' driver."""
        drives(line)
        return {}

    def do_open(self, path: str, mix: dict[str, int]) -> dict[str, Any]:
        """Open the oracle's writer on a device or a file."""
        self.writer = Writer(path, self.content, self.ledger, mix, self.mark_fd)
        return {}

    def do_fill(self) -> dict[str, Any]:
        """Write one generation of every block."""
        assert self.writer
        self.writer.fill()
        return {"events": len(self.ledger.events), "failures": self.writer.failures}

    def do_advance(self, operations: int) -> dict[str, Any]:
        """Carry out further operations; some remain in flight."""
        assert self.writer
        self.writer.advance(operations)
        return {"events": len(self.ledger.events), "failures": self.writer.failures}

    def do_flush(self) -> dict[str, Any]:
        """Flush, and wait for its end."""
        assert self.writer
        self.writer.drain()
        self.writer.flush()
        self.writer.drain()
        return {"failures": self.writer.failures}

    def do_drain(self) -> dict[str, Any]:
        """Wait until no request is in flight."""
        assert self.writer
        self.writer.drain()
        return {"failures": self.writer.failures}

    def do_close(self) -> dict[str, Any]:
        """Close the oracle's writer."""
        if self.writer:
            self.writer.close()
        self.writer = None
        return {}

    def do_pause(self, seconds: float) -> dict[str, Any]:
        """Let time pass on the machine."""
        pause(seconds)
        return {}

    def do_idle(self, seconds: float = 120.0) -> dict[str, Any]:
        """Wait until md is idle."""
        return {"idle": wait_idle(self.folder, seconds), **self.state()}

    def do_until(self, path: str, words: list[str], seconds: float = 60.0) -> dict[str, Any]:
        """Wait until a file is equal to one of these words, or begins with a number not less than the first one."""
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
        """Start recording these drives; their current content is the base of the record."""
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
        """Stop recording these drives."""
        for number in numbers:
            drives(f"still {number}")
        self.end_marks()
        return {"events": len(self.ledger.events)}

    def end_marks(self) -> None:
        """Stop marking the ledger's events in the record."""
        if self.writer:
            self.writer.mark_fd = -1
        os.close(self.mark_fd)
        self.mark_fd = -1

    def do_cut(self, numbers: list[int], kind: str, seed: str) -> dict[str, Any]:
        """A power cut: requests in flight fail, the array is gone, and each drive is restored to a possible state.

        Acknowledgements after the cut do not count.
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
    """How a power cut affects the drives, as a line to their driver."""

    def end_array(self) -> dict[str, Any]:
        """Stop what remains of the array after a power cut."""
        return {"stop": command(["mdadm", "--stop", self.node], 60.0)}

    def restore(self, cut: Cut, record: Record, numbers: list[int]) -> None:
        """Restore the state of the drives that the cut left."""
        for number, words in cut.lists(record, numbers).items():
            if self.cut_drives == "pull":
                drives(f"plug {number}")
            drives(f"restore {number} {words}".rstrip())

    def use_ledger(self, events: list[list[Any]], kind: str) -> None:
        """Continue with these events after a power cut of this kind."""
        self.ledger = Ledger(events)
        self.is_cut = True

    def do_check(self) -> dict[str, Any]:
        """The oracle's verdict on all blocks."""
        allowed = self.ledger.allowed(is_power_cut=self.is_cut)
        found = check(self.job.get("data", self.node), self.content, allowed, self.most_bad)
        return {"verdicts": found["verdicts"], "bad": found["bad"], "open": len(found["found"]), **self.state()}

    def do_settle(self) -> dict[str, Any]:
        """Record the content of blocks with several allowed generations; it must not change from now on."""
        allowed = self.ledger.allowed(is_power_cut=self.is_cut)
        found = check(self.job.get("data", self.node), self.content, allowed, self.most_bad)
        for block, generation in found["found"].items():
            if generation is not None:
                self.ledger.add(SETTLED, block, generation)
        self.is_cut = False
        return {"verdicts": found["verdicts"], "bad": found["bad"]}

    def do_parity(self) -> dict[str, Any]:
        """The rows with inconsistent parity or copies, read from the members."""
        shape = self.job["geometry"]
        return {"wrong": wrong_rows(self.folder, shape["rows"], shape["chunk"], shape["member_bytes"])}

    def do_state(self) -> dict[str, Any]:
        """The state of md."""
        return self.state()

    def do_read(self, path: str) -> dict[str, Any]:
        """Read a small file."""
        return {"text": read_text(path)}

    def do_flip(self, node: str, at: int, length: int) -> dict[str, Any]:
        """Invert bytes of a device without md's knowledge."""
        start, end = at // 4096 * 4096, -(-(at + length) // 4096) * 4096
        data = bytearray(read_direct(node, start, end - start))
        for place in range(at - start, at - start + length):
            data[place] ^= 0xFF
        return self.put(node, start, bytes(data))

    def do_copy(self, node: str, source: int, target: int, length: int) -> dict[str, Any]:
        """Copy bytes of a device to another place on it, as a misdirected write does."""
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
        """The attributes of md, and its members: node -> [slot or -1, state, bad blocks if there are any]."""
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
                    # The file has sectors from the start of the drive; the member's data begin at the offset.
                    offset = int(read_text(f"{self.folder}/{name}/offset") or 0)
                    lines = [line.split() for line in bad.splitlines()]
                    seen.append([[int(first) - offset, int(count)] for first, count in lines])
                found["/dev/" + name[4:]] = seen
        return found


def names_in(folder: str) -> list[str]:
    """The sorted names in a folder; empty if it does not exist."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def main() -> None:
    """Run the histories of one job."""
    skip_modprobe()
    job = json.load(sys.stdin)
    for history in job["histories"]:
        Player(history).play()
