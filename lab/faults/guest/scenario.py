"""Runs scenarios on the machine, with the steps of the player and further steps that only scenarios need.

Each of the job's ``histories`` is like the player's, and also contains ``nodes`` (the bare drives), ``has_record``,
``has_journal``, ``members`` (the number of members, which are the first drives), ``data_offset`` (in bytes) and
``stripe_blocks``. Each document contains the ``seconds`` that its step took by the machine's clock.

A layer is a device-mapper device over a whole drive. Commands refer to drives by number: ``@2`` is drive 2 as md
sees it, with all layers over it, and ``#2`` is the bare drive.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
import os
import random
import re
import shutil
import signal
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Any

from lab.arrays.parity_program import exclusive_or, q_of, scaled
from lab.faults.guest.arrays import (
    IdleWatch,
    QuickArray,
    buffer,
    kernel_name,
    label_of,
    pause,
    pauses,
    read_direct,
    read_into,
    read_text,
    stop_array,
    write_direct,
    write_text,
)
from lab.faults.guest.ledger import (
    ALLOWED,
    BLOCK_BYTES,
    CORRUPT,
    UNREADABLE,
    Cut,
    Ledger,
    Record,
    chosen_cut,
    generations_of,
    joined,
    judged,
)
from lab.faults.guest.player import (
    ALL_BAD,
    PWRITE,
    TAIL,
    Alive,
    Asynchronous,
    KernelLog,
    Player,
    Points,
    clear_device,
    command,
    complaints_in,
    names_in,
    reset_drives,
    run_job,
)
from lab.machine.direct_io_program import opened

LAYER_PREFIX = "fault-"
MAPPER_FOLDER = "/dev/mapper"
# md's parameters that scenarios change.
DEFAULTS = {
    "/proc/sys/dev/raid/speed_limit_min": "1000",
    "/proc/sys/dev/raid/speed_limit_max": "200000",
    "/sys/module/raid456/parameters/devices_handle_discard_safely": "N",
}
MOUNT_FOLDER = "/run/raidlab/mnt/fault"
WORK_FOLDER = "/run/raidlab/fault"
"""The folder for a scenario's files, which is empty when the scenario starts."""
MOST_SHOWN, MOST_EXAMPLES, LONGEST_LOG = 6, 3, 400
MEMBER_FILES = ("slot", "state", "errors", "bad_blocks", "recovery_start")
METERS = {"reads": 0, "read_sectors": 2, "writes": 4, "write_sectors": 6, "flushes": 15}
"""Indices of the fields of /sys/block/*/stat (Documentation/block/stat.rst)."""
LABEL_BYTES = 8192
"""Bytes at the start of each member, which include everything that md changes when another member fails."""
POINT_COUNTS = (
    *("points", "refused", "dead", "wrong_parity", "not_idle", "untouched_corrupt", "untouched_lost"),
    *("unreadable_points", "in_flight_corrupt", "outside_open_stripes"),
)
NAMED_DRIVE = re.compile(r"(dev-|/sys/class/block/|)([@#])(\d+)")


def device_bytes(node: str) -> int:
    """Return the size of a device in bytes."""
    with opened(node, os.O_RDONLY) as fd:
        return os.lseek(fd, 0, os.SEEK_END)


def culprit_of(pieces: Sequence[bytes], p: bytes, q: bytes) -> str:
    """Return which chunk of a RAID 6 row is wrong, if exactly one is.

    The result is ``data 2`` (in Q's order), ``P``, ``Q``, ``none`` or ``several``. If data chunk z is off by E, then P
    is off by E and Q by 2^z E, in each byte (H. P. Anvin, The mathematics of RAID-6, section 4).
    """
    p_off = exclusive_or((p, *pieces), len(p))
    q_off = exclusive_or((q, q_of(dict(enumerate(pieces)), len(q))), len(q))
    if not any(p_off):
        return "Q" if any(q_off) else "none"
    if not any(q_off):
        return "P"
    error = p_off
    for index in range(len(pieces)):
        if error == q_off:
            return f"data {index}"
        error = scaled(error, 2)
    return "several"


def ranges(numbers: Iterable[int]) -> str:
    """Return the numbers as sorted ranges, such as ``0-3,8,10-11``."""
    return joined(sorted(numbers), {}).replace(" ", ",")


class PointSummary:
    """The results of the crash points so far."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(POINT_COUNTS, 0)
        self.examples: dict[str, list[str]] = {}
        self.at: dict[str, set[int]] = {}

    def add(self, seen: dict[str, Any], missing: list[int], allowed: dict[int, list[int]], stripe: int) -> None:
        """Add one crash point; ``stripe`` is the number of data blocks in a full stripe."""
        names = {"points"} | {name for name in ("refused", "dead") if seen.get(name)}
        last = seen.get("settled") or seen.get("started") or {}
        names |= {"wrong_parity"} if last.get("wrong_rows") else set()
        names |= {"not_idle"} if not seen.get("idle", True) else set()
        for block, verdict, _, versions in last.get("bad", ()):
            first = block // stripe * stripe
            is_open = any(len(allowed.get(each, ())) > 1 for each in range(first, first + stripe))
            names |= {"outside_open_stripes"} if not is_open else set()
            if verdict == UNREADABLE:
                names.add("unreadable_points")
            elif len(versions) > 1:
                names.add("in_flight_corrupt")
            else:
                names.add("untouched_corrupt" if verdict == CORRUPT else "untouched_lost")
                self.at.setdefault("+".join(map(str, missing)), set()).add(block)
        for name in names:
            self.counts[name] += 1
            if len(self.examples.setdefault(name, [])) < MOST_EXAMPLES:
                self.examples[name].append(seen["cut"])

    def value(self) -> dict[str, Any]:
        """Return the result for the client, in which ``untouched_at`` maps missing members to blocks."""
        examples = {name: words for name, words in self.examples.items() if name != "points"}
        at = {missing: ranges(blocks) for missing, blocks in self.at.items()}
        return {**self.counts, "untouched_at": at, "examples": examples}


def chosen_cuts(record: Record, kinds: list[str], losses: list[list[int]], most_moments: int, chance: Any) -> list[Cut]:
    """Return the cuts of all moments, kinds and losses, in the order of their moments."""
    moments = record.moments()
    if 0 < most_moments < len(moments):
        moments = [moments[index * len(moments) // most_moments] for index in range(most_moments)]
    return [chosen_cut(record, at, kind, chance, lost) for at in moments for kind in kinds for lost in losses]


class ScenarioPlayer(Player):
    """Runs one history of a scenario.

    ``job["nodes"]`` are the bare drives; ``job["has_record"]`` says whether they are the lab's own.
    """

    most_bad = ALL_BAD
    """All bad blocks are listed, because their locations are compared with the level's arithmetic."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.bare: list[str] = job["nodes"]
        self.over: dict[int, str] = {}
        self.first_sums: dict[tuple[int, ...], list[str]] = {}
        self.meter: dict[str, int] = {}
        self.metered_from = 0.0
        self.programs: dict[str, tuple[int, int]] = {}
        self.worlds: dict[str, Ledger] = {}

    # Failing layers below the members

    def node_of(self, number: int) -> str:
        """Return the device of a drive as md sees it."""
        return self.over.get(number, self.bare[number])

    def filled(self, text: str) -> str:
        """Return the text with ``@2`` and ``#2`` replaced by device nodes, and by their names in paths below /sys."""

        def named(found: re.Match[str]) -> str:
            node = self.node_of(int(found[3])) if found[2] == "@" else self.bare[int(found[3])]
            return found[1] + (kernel_name(node) if found[1] else node)

        return NAMED_DRIVE.sub(named, text)

    def do_run(self, argv: list[str], seconds: float = 60.0) -> dict[str, Any]:
        argv = [self.filled(word) for word in argv]
        return {"argv": argv, **command(argv, seconds)}

    def do_write(self, path: str, text: str) -> dict[str, Any]:
        """Write a value to a file in /sys; ``dev-@2`` in its path becomes the folder of the member."""
        return super().do_write(self.filled(path), text)

    def do_read(self, path: str) -> dict[str, Any]:
        """Read a small file; its path is filled in as in ``do_write``."""
        return {"text": read_text(self.filled(path))}

    def do_layer(self, number: int, table: str) -> dict[str, Any]:
        """Create a device-mapper device over a drive; ``{size}`` in its table becomes the drive's size in sectors."""
        name = f"{LAYER_PREFIX}{number}"
        # With --verifyudev, dmsetup creates the node itself if udev is not running.
        made = command(["dmsetup", "--verifyudev", "create", name], 30.0, self.table_text(number, table))
        if made["status"] == 0:
            self.over[number] = f"{MAPPER_FOLDER}/{name}"
        return made

    def do_integrity(self, number: int) -> dict[str, Any]:
        """Create a dm-integrity device over a drive.

        The device is formatted, enlarged to the size that its superblock then reports, and overwritten once so that
        every checksum is valid (Documentation/admin-guide/device-mapper/dm-integrity.rst).
        """
        table = "0 {sectors} integrity #N 0 4 D 1 internal_hash:crc32c".replace("#N", f"#{number}")
        made = self.do_layer(number, table.format(sectors=8))
        if made["status"]:
            return made
        self.do_unlayer(number)
        # provided_data_sectors of struct superblock in drivers/md/dm-integrity.c.
        sectors = struct.unpack_from("<Q", read_direct(self.bare[number], 0, 4096), 16)[0]
        made = self.do_layer(number, table.format(sectors=sectors))
        if made["status"] == 0:
            clear_device(self.node_of(number), can_discard=False)
        return made

    def do_flip_found(self, number: int, block: int, length: int) -> dict[str, Any]:
        """Find the offset at which a layer has stored a block on the bare drive, and invert bytes there."""
        whole = read_direct(self.bare[number], 0, device_bytes(self.bare[number]))
        versions = sorted(self.ledger.allowed()[block], reverse=True)
        places = (whole.find(self.content.block(block, version)) for version in versions)
        at = next((place for place in places if place >= 0), None)
        if at is None:
            return {"broke": f"block {block} is not on drive {number}"}
        return {"found_at": at, **self.do_flip(self.bare[number], at, length)}

    def do_table(self, number: int, table: str) -> dict[str, Any]:
        name = f"{LAYER_PREFIX}{number}"
        loaded = command(["dmsetup", "reload", name], 30.0, self.table_text(number, table))
        return loaded if loaded["status"] else command(["dmsetup", "resume", name], 30.0)

    def table_text(self, number: int, table: str) -> str:
        size = device_bytes(self.bare[number]) // 512
        return self.filled(re.sub(r"\{size(?:-(\d+))?\}", lambda found: str(size - int(found[1] or 0)), table))

    def do_loop(self, number: int, sector: int) -> dict[str, Any]:
        options = ["--find", "--show", "--direct-io=on", "--sector-size", str(sector)]
        made = command(["losetup", *options, self.bare[number]], 30.0)
        if made["status"] == 0:
            self.over[number] = made["output"].strip()
        return made

    def do_sum(self, numbers: list[int]) -> dict[str, Any]:
        """Return whether these bare drives hold the same content as at the first call for the same drives."""
        nodes = [self.bare[each] for each in numbers]
        sums = [hashlib.sha256(read_direct(node, 0, device_bytes(node))).hexdigest() for node in nodes]
        self.first_sums.setdefault(tuple(numbers), sums)
        return {"same": self.first_sums[tuple(numbers)] == sums}

    def do_message(self, number: int, text: str) -> dict[str, Any]:
        return command(["dmsetup", "message", f"{LAYER_PREFIX}{number}", "0", *text.split()], 30.0)

    def do_hang(self, number: int) -> dict[str, Any]:
        """Suspend a layer, so that requests to it wait."""
        return command(["dmsetup", "suspend", "--noflush", "--nolockfs", f"{LAYER_PREFIX}{number}"], 30.0)

    def do_wake(self, number: int) -> dict[str, Any]:
        return command(["dmsetup", "resume", f"{LAYER_PREFIX}{number}"], 30.0)

    def do_unlayer(self, number: int) -> dict[str, Any]:
        self.over.pop(number, None)
        return command(["dmsetup", "remove", f"{LAYER_PREFIX}{number}"], 30.0)

    def do_flip(self, node: str, at: int, length: int) -> dict[str, Any]:
        node = self.filled(node)
        return {"node": node, **super().do_flip(node, at, length)}

    def do_copy(self, node: str, source: int, target: int, length: int) -> dict[str, Any]:
        return super().do_copy(self.filled(node), source, target, length)

    def do_age(self, node: str, at: int, block: int, generation: int, sectors: list[int]) -> dict[str, Any]:
        """Restore an earlier generation of some sectors of a block, as if its last write had been torn."""
        node, first, count = self.filled(node), sectors[0] * 512, sectors[1] * 512
        data = bytearray(read_direct(node, at, 4096))
        data[first : first + count] = self.content.block(block, generation)[first : first + count]
        return {"bytes": write_direct(node, at, bytes(data))}

    def do_culprits(self, rows: list[Any], mends: bool = False) -> dict[str, Any]:
        """Return the wrong chunk of each inconsistent row of a RAID 6, as ``[[row, culprit, slot or null], …]``.

        Each of ``rows`` is ``[row, [data slots in Q's order], P's slot, Q's slot]``. With ``mends``, a wrong data chunk
        is also recomputed from P and the other data chunks, and rewritten.
        """
        chunk = self.job["geometry"]["chunk"]
        found: list[list[Any]] = []
        for row, data, p, q in rows:
            at = self.job["data_offset"] + row * chunk
            chunks = {slot: read_direct(self.bare[slot], at, chunk) for slot in (*data, p, q)}
            culprit = culprit_of([chunks[slot] for slot in data], chunks[p], chunks[q])
            if culprit == "none":
                continue
            if not culprit.startswith("data"):
                found.append([row, culprit, {"P": p, "Q": q}.get(culprit)])
                continue
            slot = data[int(culprit.split()[1])]
            found.append([row, culprit, slot])
            if mends:
                others = [chunks[each] for each in (*data, p) if each != slot]
                write_direct(self.bare[slot], at, exclusive_or(others, chunk))
        return {"culprits": found}

    def clear_layers(self) -> None:
        for node in self.over.values():
            if node.startswith("/dev/loop"):
                command(["losetup", "--detach", node], 30.0)
        for name in names_in(MAPPER_FOLDER):
            if name.startswith(LAYER_PREFIX):
                command(["dmsetup", "remove", "--force", name], 30.0)
        self.over.clear()

    # The oracle

    def do_look(self) -> dict[str, Any]:
        """Judge all blocks, and return the verdicts, with the block numbers for each verdict that is not allowed."""
        return {**self.seen_by(self.ledger), **self.state()}

    def seen_by(self, ledger: Ledger) -> dict[str, Any]:
        found = self.read_all(ledger)
        at: dict[str, list[int]] = {}
        in_flight = 0
        for block, verdict, _, versions in found["bad"]:
            at.setdefault(verdict, []).append(block)
            in_flight += len(versions) > 1
        return {
            "verdicts": found["verdicts"],
            "at": {verdict: ranges(blocks) for verdict, blocks in at.items()},
            "bad": found["bad"][:MOST_SHOWN],
            "bad_in_flight": in_flight,
            "blocks": sum(found["verdicts"].values()),
        }

    def do_world(self, verb: str, name: str = "") -> dict[str, Any]:
        """Manage one ledger for each half of an array whose halves are written to separately.

        ``keep`` saves the current ledger under a name, ``take`` restores it, and ``which`` returns the names of the
        saved ledgers that match the data.
        """
        if verb == "keep":
            self.worlds[name] = Ledger(self.ledger.events)
        elif verb == "take":
            self.ledger = Ledger(self.worlds[name].events)
        else:
            seen = {each: self.seen_by(ledger)["verdicts"] for each, ledger in self.worlds.items()}
            return {"fits": [each for each, verdicts in seen.items() if set(verdicts) <= set(ALLOWED)]}
        return {}

    def do_fingerprint(self) -> dict[str, Any]:
        """Return a number derived from the order of all writes and their ends, and from the content of the array."""
        digest = hashlib.sha256(repr(self.ledger.events).encode())
        size = (self.ledger.blocks()[-1] + 1) * BLOCK_BYTES
        digest.update(read_direct(self.job.get("data", self.node), 0, size))
        return {"fingerprint": int.from_bytes(digest.digest()[:6], "big")}

    def do_copies(self, block: int) -> dict[str, Any]:
        """Judge each copy of a block in a mirror; ``copies`` maps its slot to the verdict."""
        allowed = self.ledger.allowed(is_power_cut=self.is_cut)[block]
        at, copies = self.job["data_offset"] + block * BLOCK_BYTES, {}
        for slot in range(self.job["members"]):
            data = read_direct(self.bare[slot], at, BLOCK_BYTES)
            copies[slot] = judged(generations_of(self.content, block, data), allowed)
        return {"copies": copies}

    # The state of md

    def state(self) -> dict[str, Any]:
        found = super().state()
        if self.writer:
            self.writer.reap(0)
            found["under_way"] = len(self.writer.under_way)
        if not os.path.isdir(self.folder):
            return found
        known = {}
        for number in range(len(self.bare)):
            node = self.node_of(number)
            if os.path.exists(node):
                known[kernel_name(node)] = number
        members = {}
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("dev-") and name[4:] in known:
                words = {file: read_text(f"{self.folder}/{name}/{file}") for file in MEMBER_FILES}
                words["bad_blocks"] = str(len(words["bad_blocks"].splitlines()))
                members[str(known[name[4:]])] = words
        return {**found, "members": members}

    def do_events(self, numbers: list[int]) -> dict[str, Any]:
        labels = {str(number): label_of(self.node_of(number)) for number in numbers}
        return {"events": {number: label.superblock.events if label else -1 for number, label in labels.items()}}

    # Counts and times

    def counts(self) -> dict[str, int]:
        """Return the drives' request counts so far: totals, and each drive's reads and writes, such as ``reads_2``."""
        total = dict.fromkeys(METERS, 0)
        for number, node in enumerate(self.bare):
            fields = read_text(f"/sys/block/{os.path.basename(node)}/stat").split()
            for name, index in METERS.items():
                total[name] += int(fields[index]) if index < len(fields) else 0
            total |= {f"{name}_{number}": int(fields[METERS[name]]) for name in ("reads", "writes")}
        return total

    def do_meter(self) -> None:
        self.meter, self.metered_from = self.counts(), time.monotonic()

    def do_metered(self) -> dict[str, Any]:
        """Return the counts since ``do_meter``, and the time in seconds."""
        now = self.counts()
        return {"lasted": time.monotonic() - self.metered_from, **{name: now[name] - self.meter[name] for name in now}}

    def do_reads(self, count: int) -> dict[str, Any]:
        """Read single blocks at offsets chosen by the seed; ``each`` is the mean time of a read in seconds."""
        chance, blocks = random.Random(f"{self.content.seed}:reads"), self.ledger.blocks()
        view, began, failures = buffer("reads", BLOCK_BYTES), time.monotonic(), 0
        for _ in range(count):
            try:
                read_into(self.node, chance.choice(blocks) * BLOCK_BYTES, view)
            except OSError:
                failures += 1
        return {"each": (time.monotonic() - began) / count, "failures": failures}

    def do_exposure(self, seconds: float) -> dict[str, Any]:
        """Wait until md is idle; return how long the array was degraded, and how many members it lacked at most."""
        began = last = time.monotonic()
        exposed, most, watch = 0.0, 0, IdleWatch(self.folder)
        is_idle = watch.is_idle(0.0)
        while not is_idle and last - began < seconds:
            degraded = int(read_text(f"{self.folder}/degraded") or 0)
            pause(0.005)
            now = time.monotonic()
            is_idle = watch.is_idle(now - last)
            exposed += (now - last) * (degraded > 0)
            most, last = max(most, degraded), now
        return {"exposed": exposed, "most_degraded": most, "idle": is_idle, "lasted": last - began, **self.state()}

    # Concurrent operations

    def do_under(self, argv: list[str], seconds: float = 60.0) -> dict[str, Any]:
        assert self.writer
        self.do_start("under", argv)
        began, operations, status = time.monotonic(), 0, None
        while status is None and time.monotonic() - began < seconds:
            status = self.ended("under")
            self.writer.advance(1)
            operations += 1
        result, counts = self.do_end("under"), {"operations": operations, "failures": self.writer.failures}
        return {"argv": argv, "status": status, **result, **counts}

    def do_load(self, seconds: float, words: list[str] | None = None) -> dict[str, Any]:
        """Continue writing for ``seconds``, or until md's ``sync_action`` is one of ``words``.

        ``rate`` is the number of operations per second.
        """
        assert self.writer
        began, operations = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            self.writer.advance(8)
            operations += 8
            if words and read_text(f"{self.folder}/sync_action") in words:
                break
        lasted = time.monotonic() - began
        counts = {"operations": operations, "rate": operations / max(lasted, 1e-9), "failures": self.writer.failures}
        return {"lasted": lasted, **counts}

    def do_start(self, name: str, argv: list[str]) -> dict[str, Any]:
        argv = [self.filled(word) for word in argv]
        out = os.memfd_create(name)
        actions = [(os.POSIX_SPAWN_DUP2, out, number) for number in (1, 2)]
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setsid=True)
        self.programs[name] = (pid, out)
        return {"argv": argv}

    def ended(self, name: str) -> int | None:
        pid, _ = self.programs[name]
        try:
            ended, raw = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return 0
        return os.waitstatus_to_exitcode(raw) if ended else None

    def do_end(self, name: str) -> dict[str, Any]:
        """Kill a background program, and return its output."""
        pid, out = self.programs[name]
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        text = os.pread(out, 65536, max(0, os.fstat(out).st_size - 65536)).decode("utf-8", "replace")
        os.close(out)
        del self.programs[name]
        return {"output": text[-TAIL:]}

    def do_file(self, path: str, text: str) -> None:
        """Create a file below /run, such as a configuration file for mdadm."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.filled(text))

    # The kernel log

    def do_log(self) -> dict[str, Any]:
        """Return the complaints in the kernel log since the history began, and the last messages of md."""
        lines = self.log.lines()
        messages = [text[:LONGEST_LOG] for text in lines if text.startswith("md")]
        return {"complaints": complaints_in(lines)[:MOST_SHOWN], "told": messages[-MOST_SHOWN:]}

    def end_all(self) -> None:
        for name in list(self.programs):
            self.do_end(name)

    # Crash points and lost members

    def do_points(
        self, members: list[int], losses: list[list[int]], kinds: list[str], most_moments: int
    ) -> dict[str, Any]:
        """Try crash points of the recording: each kind of cut with each loss, at ``most_moments`` moments (0: all).

        ``losses`` are lists of drives that are lost at the same time, ``[]`` for none. Afterwards the drives hold the
        state that the last crash point left.
        """
        nodes = {number: self.bare[number] for number in members}
        known = {"seed": self.job["seed"], "geometry": self.job["geometry"], "ledger": self.ledger.events}
        job = {**known, "members": nodes, "most_bad": ALL_BAD}
        points, alive = Points(job), Alive()
        chance, summary = random.Random(f"{self.content.seed}:points"), PointSummary()
        for cut in chosen_cuts(points.record, kinds, losses, most_moments, chance):
            seen = points.judge(cut.word())
            allowed = points.allowed[points.record.ledger_event(cut.at)]
            summary.add(seen, list(cut.missing), allowed, self.job["stripe_blocks"])
            alive.report()
        return summary.value()

    def do_sets(self, members: list[int], sets: list[list[int]]) -> dict[str, Any]:
        """For each set of members, start the array, fail them, read it, and then try to start it without them.

        The array must be stopped beforehand. Return, for each set, the blocks that can be read, the state of md, and
        whether md starts the array from the remaining members.
        """
        array = QuickArray(self.node)
        labels = {number: read_direct(self.bare[number], 0, LABEL_BYTES) for number in members}
        outcomes, alive = [], Alive()
        for failed in sets:
            seen: dict[str, Any] = {"failed": failed, "refused": array.start([self.bare[each] for each in members])}
            if not seen["refused"]:
                write_text(f"{self.folder}/fail_last_dev", "1")
                for number in failed:
                    write_text(f"{self.folder}/dev-{kernel_name(self.bare[number])}/state", "faulty")
                seen |= self.brief()
                stop_array(array.node)
            self.put_labels(labels)
            seen["restart_refused"] = array.start([self.bare[each] for each in members if each not in failed])
            if not seen["restart_refused"]:
                seen["restarted"] = self.brief()
                stop_array(array.node)
            self.put_labels(labels)
            outcomes.append(seen)
            alive.report()
        return {"sets": outcomes}

    def brief(self) -> dict[str, Any]:
        seen = self.seen_by(self.ledger)
        words = {name: self.read_md(name) for name in ("array_state", "degraded")}
        return {"verdicts": seen["verdicts"], "at": seen["at"], **words}

    def read_md(self, name: str) -> str:
        return read_text(f"{self.folder}/{name}")

    def put_labels(self, labels: dict[int, bytes]) -> None:
        for number, data in labels.items():
            write_direct(self.bare[number], 0, data)

    def do_changed_write(self, block: int, seconds: float) -> dict[str, Any]:
        """Start a direct write, and change its data after ``seconds``, while it is in flight.

        Any program may change its own memory in this way.
        """
        asynchronous, page = Asynchronous(), mmap.mmap(-1, BLOCK_BYTES)
        page[:] = b"A" * BLOCK_BYTES
        fd = os.open(self.node, os.O_WRONLY | os.O_DIRECT)
        try:
            address = ctypes.addressof(ctypes.c_char.from_buffer(page))
            asynchronous.submit(fd, 1, PWRITE, address, BLOCK_BYTES, block * BLOCK_BYTES, 0)
            pause(seconds)
            page[:] = b"B" * BLOCK_BYTES
            ended = asynchronous.ended(1)
        finally:
            asynchronous.close()
            os.close(fd)
        return {"failures": sum(result != BLOCK_BYTES for _, result in ended)}

    def do_race(self, members: list[int], rounds: int) -> dict[str, Any]:
        """Repeatedly stop the array while every member is announced to ``mdadm --incremental``, as udev may do.

        Return how often the array was in each state immediately afterwards, and how often it settled in each.
        """
        right_after: dict[str, int] = {}
        settled: dict[str, int] = {}
        unsettled, torn_up, alive = 0, 0, Alive()
        for number in range(rounds):
            self.do_start("stop", ["mdadm", "--stop", self.node])
            for member in members[number % len(members) :] + members[: number % len(members)]:
                self.do_start(f"add{member}", ["mdadm", "--incremental", self.node_of(member)])
            word = self.read_md("array_state") or "gone"
            right_after[word] = right_after.get(word, 0) + 1
            while any(self.ended(name) is None for name in ("stop", *(f"add{member}" for member in members))):
                pause(0.01)
            self.end_all()
            word, is_settled = self.settled_word()
            settled[word] = settled.get(word, 0) + 1
            unsettled += not is_settled
            is_whole = word.endswith(f"with {len(members)} members")
            torn_up += not (is_whole or word.startswith(("gone", "clear", "inactive")))
            command(["mdadm", "--stop", self.node], 30.0)
            done = command(["mdadm", "--assemble", self.node, *(self.node_of(each) for each in members)], 30.0)
            if done["status"]:
                return {"broke": f"round {number}: {done['output']}", "right_after": right_after, "settled": settled}
            alive.report()
        counts = {"rounds": rounds, "unsettled": unsettled, "torn_up": torn_up}
        return {"right_after": right_after, "settled": settled, **counts}

    def settled_word(self) -> tuple[str, bool]:
        """Return the state and number of members once two consecutive readings agree, and whether they ever did."""
        before = ""
        for _ in pauses(10.0, 0.1):
            there = sum(name.startswith("rd") for name in names_in(self.folder))
            now = f"{self.read_md('array_state') or 'gone'} with {there} members"
            if now == before:
                return now, True
            before = now
        return before, False

    # The beginning and the end of a history

    def play(self) -> None:
        """Run the steps from blank drives, up to the first one that cannot be carried out, and clean up."""
        self.clear()
        self.log.close()
        self.log = KernelLog()
        super().play()

    def finish(self) -> None:
        self.clear()
        self.log.close()

    def do_activate(self) -> dict[str, Any]:
        """Make the array active if md has started it read-auto."""
        if self.read_md("array_state") in ("read-auto", "readonly"):
            return self.do_write(f"{self.folder}/array_state", "active")
        return {}

    def do_data(self, path: str) -> None:
        self.job["data"] = path

    def do_mount(self) -> dict[str, Any]:
        os.makedirs(MOUNT_FOLDER, exist_ok=True)
        return command(["mount", "-t", "ext4", self.node, MOUNT_FOLDER], 60.0)

    def do_unmount(self) -> dict[str, Any]:
        return command(["umount", MOUNT_FOLDER], 60.0)

    def clear(self) -> None:
        """Stop all programs, arrays and layers that a history left behind, unmount everything, and blank the drives."""
        self.end_all()
        if self.writer:
            with contextlib.suppress(OSError):
                self.writer.close()
            self.writer = None
        if os.path.ismount(MOUNT_FOLDER):
            self.do_unmount()
        for _ in pauses(0.4, 0.02):
            left = [name for name in names_in("/sys/block") if name.startswith("md") and self.is_ours(name)]
            if not left:
                break
            for name in left:
                command(["mdadm", "--stop", f"/dev/{name}"], 30.0)
        shutil.rmtree(WORK_FOLDER, ignore_errors=True)
        os.makedirs(WORK_FOLDER, exist_ok=True)
        self.clear_layers()
        reset_drives(self.bare, are_ours=self.job["has_record"])
        for path, value in DEFAULTS.items():
            if read_text(path) not in ("", value):
                write_text(path, value)
        # Stopping an array whose journal supports discards may hang (docs/findings.md, 4).
        for node in self.bare if self.job.get("has_journal") else ():
            write_text(f"/sys/block/{os.path.basename(node)}/queue/discard_max_bytes", "0")

    def is_ours(self, name: str) -> bool:
        """Whether an array lies on the lab's drives, or on layers over them."""
        ours = {os.path.basename(node) for node in self.bare}
        members = [each[4:] for each in names_in(f"/sys/block/{name}/md") if each.startswith("dev-")]
        return any({member, *names_in(f"/sys/block/{member}/slaves")} & ours for member in members)


def main() -> None:
    """Run one job."""
    run_job(ScenarioPlayer)
