"""Arrays on bare drives of the kernel with the planted bugs, by plain mdadm: as small as they show anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.disks.attaching import DRIVES_CONTROL, KERNEL_DRIVE_NODE
from lab.faults.campaign import PLANTED_SWITCH
from lab.machine import GuestProgram, Machine
from lab.units import KIB, MIB

ARRAY = "/dev/md0"
FOLDER = "/sys/block/md0/md"
DRIVE_BYTES = 8 * MIB
BLOCK_BYTES = 4 * KIB
CHUNK_KIB = 64
CHUNK_BLOCKS = CHUNK_KIB * KIB // BLOCK_BYTES
PIECE_BLOCKS = 256
PLAIN = "service=100000"
SLOW_SECONDS = 5
"""For each request of a drive that is slow."""
LONGEST_SYNC_SECONDS = 600
PROGRAM = GuestProgram(Path(__file__).with_name("planted_program.py"), "planted-blocks")


@dataclass(slots=True)
class Bench:
    """One array at a time, md0, on drives that are made for it. Blocks are of generation 1, and then of 2."""

    machine: Machine
    number: int = 0
    """The bug that is planted."""
    drives: list[int] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    """The drive in each slot."""
    made: int = 0
    expected: dict[int, set[str]] = field(default_factory=dict)
    """What each block may be."""

    def played(self, history: Callable[[Bench], set[int]], number: int) -> set[int]:
        """What a history finds with this bug planted where it asks for it (0: none)."""
        self.number = number
        try:
            return history(self)
        finally:
            self.clear()

    def plant(self) -> None:
        if self.number:
            self.machine.write(PLANTED_SWITCH, str(self.number))

    def clear(self) -> None:
        """No bug, no array and no drive."""
        if self.number:
            self.machine.write(PLANTED_SWITCH, "0")
        for number in self.drives:
            self.line("plug", number)
        if self.machine.read([f"{FOLDER}/level"])[f"{FOLDER}/level"]:
            self.stop()
        for number in self.drives:
            self.line("remove", number)
        self.drives, self.members, self.expected, self.made = [], [], {}, 0

    def line(self, *words: object) -> None:
        """One for the driver."""
        self.machine.write(DRIVES_CONTROL, " ".join(map(str, words)))

    def add_drive(self, words: str = PLAIN) -> int:
        number = self.made
        self.line("add", number, DRIVE_BYTES, words)
        self.drives.append(number)
        self.made += 1
        return number

    def mdadm(self, *words: object) -> None:
        self.machine.run(("mdadm", *map(str, words)))

    def manage(self, verb: str, *numbers: int) -> None:
        self.mdadm(ARRAY, verb, *nodes(numbers))

    def fail(self, *slots: int) -> None:
        self.manage("--fail", *(self.members[slot] for slot in slots))

    def create(
        self,
        level: int,
        count: int,
        *options: str,
        words: Sequence[str] = (),
        size_kib: int = 512,
        has_journal: bool = False,
        is_planted: bool = True,
    ) -> None:
        """An array whose parity and copies agree, filled and started anew; behind that the bug is planted."""
        self.members = [self.add_drive(*words[slot : slot + 1]) for slot in range(count)]
        if has_journal:
            options = (*options, f"--write-journal={KERNEL_DRIVE_NODE}{self.add_drive()}")
        if not options:
            options = ("--bitmap=none",)
        if level != 1:
            options = (*options, f"--chunk={CHUNK_KIB}")
        shape = (f"--level={level}", f"--raid-devices={count}", f"--size={size_kib}", "--assume-clean", *options)
        self.mdadm("--create", ARRAY, "--run", "--quiet", *shape, *nodes(self.members))
        blocks = self.blocks
        for first in range(0, blocks, PIECE_BLOCKS):
            self.write(first, min(PIECE_BLOCKS, blocks - first), 1)
        self.restart()
        if is_planted:
            self.plant()

    @property
    def blocks(self) -> int:
        path = "/sys/block/md0/size"
        return int(self.machine.read([path])[path] or 0) * 512 // BLOCK_BYTES

    def call(self, *words: object) -> str:
        return self.machine.call(PROGRAM, [str(word) for word in words])

    def write(self, first: int, count: int, generation: int = 2) -> None:
        """One request, acknowledged."""
        self.call("write", ARRAY, first, count, generation)
        self.expected |= {block: {f"{block}:{generation}"} for block in range(first, first + count)}

    def wrong(self) -> set[int]:
        """The blocks that are nothing of what they may be."""
        found = json.loads(self.call("read", ARRAY, 0, self.blocks))
        return {block for block, told in enumerate(found) if told not in self.expected[block]}

    def attribute(self, name: str) -> str:
        path = f"{FOLDER}/{name}"
        return (self.machine.read([path])[path] or "").strip()

    def put(self, name: str, value: object) -> None:
        self.machine.write(f"{FOLDER}/{name}", str(value))

    def stay_dirty(self) -> None:
        """From the next write on the array is dirty until it is stopped."""
        self.put("safe_mode_delay", 0)

    def stop(self) -> None:
        self.mdadm("--stop", "--quiet", ARRAY)

    def assemble(self, numbers: Iterable[int] | None = None) -> None:
        """From these drives, as far as mdadm takes them; then it may be written, and what is to be synced is."""
        self.mdadm("--assemble", ARRAY, "--run", "--quiet", *nodes(self.drives if numbers is None else numbers))
        self.mdadm("--readwrite", ARRAY)
        for name in ("sync_speed_max", "sync_max"):
            self.put(name, {"sync_max": "max"}.get(name, "system"))
        self.idle()

    def restart(self) -> None:
        """No stripe is left in the cache."""
        self.stop()
        self.assemble()

    def idle(self) -> None:
        """Until nothing is synced any more."""
        for _ in range(LONGEST_SYNC_SECONDS * 2):
            self.machine.sleep(0.5)
            if self.attribute("sync_action") == "idle":
                return
        raise AssertionError(f"still {self.attribute('sync_action')}")

    def mismatches(self) -> int:
        self.put("sync_action", "check")
        self.idle()
        return int(self.attribute("mismatch_cnt"))

    def replace(self, slot: int, stops_at: int = 0) -> int:
        """A blank drive in the place of a member, up to this sector of it or wholly; returns its number."""
        self.fail(slot)
        self.manage("--remove", self.members[slot])
        self.line("remove", self.members[slot])
        self.drives.remove(self.members[slot])
        self.members[slot] = self.add_drive()
        if stops_at:
            self.put("sync_max", stops_at)
        self.manage("--add", self.members[slot])
        if stops_at:
            self.machine.sleep(5)
        else:
            self.idle()
        return self.members[slot]

    def cut(self, block: int, seconds: float, *, slow: int) -> None:
        """A power cut so long after a write through the caches began, while a drive is slow. The array is stopped."""
        self.line("pace", slow, SLOW_SECONDS * 10**9)
        self.call("cut", ARRAY, block, 1, 2, seconds, *self.pull_lines(slow))
        self.expected[block] = {*self.expected[block], f"{block}:2"}
        self.line("pace", slow, 0)
        self.after_cut()

    def lose_caches(self) -> None:
        """A power cut while members have nothing under way but lose what their caches hold. The array is stopped."""
        for line in self.pull_lines():
            self.line(line)
        self.after_cut()

    def pull_lines(self, last: int = 0) -> list[str]:
        """All drives at once; the one that has something under way last, before md can tell the others of its loss."""
        return [f"pull {number}" for number in sorted(self.drives, key=lambda number: number == last)]

    def after_cut(self) -> None:
        self.stop()
        for number in self.drives:
            self.line("plug", number)

    def crash(self) -> None:
        """What a power cut now would leave, while nothing is under way, on drives of its own. The array is stopped."""
        before = list(self.drives)
        copies = {number: self.add_drive() for number in before}
        for number, copy in copies.items():
            self.call("copy", f"{KERNEL_DRIVE_NODE}{number}", f"{KERNEL_DRIVE_NODE}{copy}", DRIVE_BYTES)
        self.stop()
        for number in before:
            self.line("remove", number)
        self.drives = list(copies.values())
        self.members = [copies[number] for number in self.members]


def nodes(numbers: Iterable[int]) -> list[str]:
    return [f"{KERNEL_DRIVE_NODE}{number}" for number in numbers]
