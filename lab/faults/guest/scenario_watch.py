"""What scenarios look at.

The oracle's verdict with its places, md's words, counts of the drives, times, programs that go on meanwhile.

Runs in the machine as a part of other programs, standard library alone.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections.abc import Iterable
from typing import Any

from lab.faults.guest.arrays import BUFFERS, MemberLabel, pause, read_direct, read_into, read_text
from lab.faults.guest.blocks import BLOCK_BYTES, generations_of
from lab.faults.guest.ledger import ALLOWED, Ledger, judged
from lab.faults.guest.scenario_layers import LayerSteps, kernel_name_of
from lab.faults.guest.writer import ALL_BAD, check

MOST_SHOWN = 6
MEMBER_FILES = ("slot", "state", "errors", "bad_blocks", "recovery_start")
METERS = {"reads": 0, "read_sectors": 2, "writes": 4, "write_sectors": 6, "flushes": 15}
"""Fields of /sys/block/*/stat (Documentation/block/stat.rst)."""
COMPLAINTS = ("WARNING:", "BUG:", "Oops", "blocked for more than", "Call Trace", "kernel BUG at", "general protection")
LONGEST_LOG = 400


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,8,10-11`` for numbers in order."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


class WatchSteps(LayerSteps):
    """Steps that look."""

    most_bad = ALL_BAD
    """The places of bad blocks are compared with the level's arithmetic."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.meter: dict[str, int] = {}
        self.metered_from = 0.0
        self.programs: dict[str, tuple[int, int]] = {}
        self.worlds: dict[str, Ledger] = {}
        self.log_fd = -1

    # The oracle

    def do_look(self, seconds: float = 0.0) -> dict[str, Any]:
        """The oracle's verdict on what can be read now, with the places of each word that is not allowed."""
        if seconds:
            pause(seconds)
        return {**self.seen_by(self.ledger), **self.state()}

    def seen_by(self, ledger: Ledger) -> dict[str, Any]:
        allowed = ledger.allowed(is_power_cut=self.is_cut)
        found = check(self.job.get("data", self.node), self.content, allowed, self.most_bad)
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
            "blocks": len(allowed),
        }

    def do_world(self, verb: str, name: str = "") -> dict[str, Any]:
        """Ledgers of halves that go on apart.

        ``keep`` what is known as a name, ``take`` it again, or tell with ``which`` of them all data fit.
        """
        if verb == "keep":
            self.worlds[name] = Ledger(self.ledger.events)
        elif verb == "take":
            self.ledger = Ledger(self.worlds[name].events)
        else:
            fits = []
            for each, ledger in self.worlds.items():
                if all(verdict in ALLOWED for verdict in self.seen_by(ledger)["verdicts"]):
                    fits.append(each)
            return {"fits": fits}
        return {}

    def do_fingerprint(self) -> dict[str, Any]:
        """One number for the order of all writes and their ends so far, and for what every block of the array holds."""
        digest = hashlib.sha256(repr(self.ledger.events).encode())
        size = (self.ledger.blocks()[-1] + 1) * BLOCK_BYTES
        digest.update(read_direct(self.job.get("data", self.node), 0, size))
        return {"fingerprint": int.from_bytes(digest.digest()[:6], "big")}

    def do_copies(self, blocks: list[int]) -> dict[str, Any]:
        """What each member itself holds of some blocks of a mirror: ``copies``: slot -> verdicts in order."""
        allowed, copies = self.ledger.allowed(is_power_cut=self.is_cut), {}
        for slot, number, at in self.job["slots"]:
            told = []
            for block in blocks:
                data = read_direct(self.bare[number], at + block * BLOCK_BYTES, BLOCK_BYTES)
                told.append(judged(generations_of(self.content, block, data), allowed[block]))
            copies[str(slot)] = told
        return {"copies": copies}

    # What md says

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
                known[kernel_name_of(node)] = number
        members = {}
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("dev-") and name[4:] in known:
                words = {file: read_text(f"{self.folder}/{name}/{file}") for file in MEMBER_FILES}
                words["bad_blocks"] = str(len(words["bad_blocks"].splitlines()))
                members[str(known[name[4:]])] = words
        return {**found, "members": members}

    def do_events(self, numbers: list[int]) -> dict[str, Any]:
        """The event counts in the superblocks of drives."""
        found = {}
        for number in numbers:
            try:
                found[str(number)] = MemberLabel(self.node_of(number)).events
            except (OSError, ValueError):
                found[str(number)] = -1
        return {"events": found}

    # Counts and times

    def counts(self) -> dict[str, int]:
        """What the drives have done so far: added up, and ``reads_2`` and ``writes_2`` of each."""
        total = dict.fromkeys(METERS, 0)
        for number, node in enumerate(self.bare):
            fields = read_text(f"/sys/block/{os.path.basename(node)}/stat").split()
            for name, index in METERS.items():
                total[name] += int(fields[index]) if index < len(fields) else 0
            total |= {f"{name}_{number}": int(fields[METERS[name]]) for name in ("reads", "writes")}
        return total

    def do_meter(self) -> dict[str, Any]:
        """What the drives do is counted from here on."""
        self.meter, self.metered_from = self.counts(), time.monotonic()
        return {}

    def do_metered(self) -> dict[str, Any]:
        """What they have done since, and how long that took."""
        now = self.counts()
        return {"lasted": time.monotonic() - self.metered_from, **{name: now[name] - self.meter[name] for name in now}}

    def do_reads(self, count: int) -> dict[str, Any]:
        """So many reads of one block each, one after the other, at places chosen by the seed: the mean time of one."""
        chance, blocks = random.Random(f"{self.content.seed}:reads"), self.ledger.blocks()
        view, began, failures = BUFFERS.get("reads", BLOCK_BYTES), time.monotonic(), 0
        for _ in range(count):
            try:
                read_into(self.node, chance.choice(blocks) * BLOCK_BYTES, view)
            except OSError:
                failures += 1
        return {"each": (time.monotonic() - began) / count, "failures": failures}

    def do_exposure(self, seconds: float) -> dict[str, Any]:
        """Until md has nothing to do: how long the array was degraded meanwhile, and by how many members at most."""
        began = last = time.monotonic()
        exposed, most, calm = 0.0, 0, 0
        while calm < 3 and last - began < seconds:
            degraded = int(read_text(f"{self.folder}/degraded") or 0)
            calm = calm + 1 if read_text(f"{self.folder}/sync_action") in ("idle", "") else 0
            pause(0.005)
            now = time.monotonic()
            exposed += (now - last) * (degraded > 0)
            most, last = max(most, degraded), now
        return {"exposed": exposed, "most_degraded": most, "idle": calm >= 3, "lasted": last - began, **self.state()}

    # What goes on meanwhile

    def do_under(self, argv: list[str], seconds: float = 60.0) -> dict[str, Any]:
        """A program, while the oracle's writer goes on."""
        assert self.writer
        self.do_start("under", argv)
        began, operations, status = time.monotonic(), 0, None
        while status is None and time.monotonic() - began < seconds:
            status = self.ended("under")
            self.writer.advance(1)
            operations += 1
        said = self.do_end("under")["output"]
        return {
            "argv": argv,
            "status": status,
            "output": said,
            "operations": operations,
            "failures": self.writer.failures,
        }

    def do_load(self, seconds: float, words: list[str] | None = None) -> dict[str, Any]:
        """The writer goes on for so long, or until md's ``sync_action`` says one of the words.

        How many operations a second.
        """
        assert self.writer
        began, operations = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            self.writer.advance(8)
            operations += 8
            if words and read_text(f"{self.folder}/sync_action") in words:
                break
        lasted = time.monotonic() - began
        return {
            "lasted": lasted,
            "operations": operations,
            "rate": operations / max(lasted, 1e-9),
            "failures": self.writer.failures,
        }

    def do_start(self, name: str, argv: list[str]) -> dict[str, Any]:
        """A program that goes on; what it says is kept."""
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

    def do_hears(self, name: str, text: str, seconds: float) -> dict[str, Any]:
        """Until a program that goes on has said a text."""
        began = time.monotonic()
        while text not in self.said(name) and time.monotonic() - began < seconds:
            pause(0.02)
        return {"output": self.said(name), "heard": text in self.said(name), "lasted": time.monotonic() - began}

    def said(self, name: str) -> str:
        out = self.programs[name][1]
        return os.pread(out, 65536, max(0, os.fstat(out).st_size - 65536)).decode("utf-8", "replace")

    def do_end(self, name: str) -> dict[str, Any]:
        """End it."""
        pid, out = self.programs[name]
        try:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        text = self.said(name)
        os.close(out)
        del self.programs[name]
        return {"output": text[-2000:]}

    def do_file(self, path: str, text: str) -> dict[str, Any]:
        """A file below /run, such as a configuration of mdadm."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.filled(text))
        return {}

    # The kernel's log

    def do_log(self) -> dict[str, Any]:
        """What the kernel has said since the history began, as far as it is a complaint, and its last words on md."""
        complaints: list[str] = []
        told: list[str] = []
        while self.log_fd >= 0:
            try:
                line = os.read(self.log_fd, 8192).decode("utf-8", "replace")
            except BlockingIOError:
                break
            except BrokenPipeError:
                # The ring was overwritten before it was read: the next read goes on behind that.
                continue
            text = line.partition(";")[2].partition("\n")[0]
            complaints += [text] if any(word in text for word in COMPLAINTS) else []
            told += [text] if text.startswith("md") else []
        return {"complaints": complaints[:MOST_SHOWN], "told": [text[:LONGEST_LOG] for text in told[-MOST_SHOWN:]]}

    def open_log(self) -> None:
        """From here on."""
        try:
            self.log_fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.log_fd, 0, os.SEEK_END)
        except OSError:
            self.log_fd = -1

    def end_all(self) -> None:
        """No program of ours goes on."""
        for name in list(self.programs):
            self.do_end(name)
