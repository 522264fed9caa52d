"""Layers between a drive and md, and bytes changed behind md's back: what scenarios inject.

Runs in the machine as a part of other programs (lab/faults/program.py), standard library alone. A layer is a
device of the device mapper over a whole drive. Words of commands name drives by number:
``@2`` is drive 2 as md sees it, with whatever lies over it, and ``#2`` the bare drive.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import struct
from collections.abc import Sequence
from typing import Any

from lab.faults.guest.arrays import double, exclusive_or, read_direct, read_text, syndrome, write_text
from lab.faults.guest.player import Player, command, drives

LAYER_PREFIX = "fault-"
MAPPER_FOLDER = "/dev/mapper"
# linux/fs.h
BLKDISCARD, BLKZEROOUT, BLKGETSIZE64 = 0x1277, 0x127F, 0x80081272
DEFAULTS = {
    "/proc/sys/dev/raid/speed_limit_min": "1000",
    "/proc/sys/dev/raid/speed_limit_max": "200000",
    "/sys/module/raid456/parameters/devices_handle_discard_safely": "N",
}
NAMED_DRIVE = re.compile(r"([@#])(\d+)")


def device_bytes(node: str) -> int:
    """How large a device is."""
    fd = os.open(node, os.O_RDONLY)
    try:
        return int(struct.unpack("<Q", fcntl.ioctl(fd, BLKGETSIZE64, bytes(8)))[0])
    finally:
        os.close(fd)


def clear_device(node: str, *, can_discard: bool) -> None:
    """Zeros over all of it. The lab's own drives give zeros where data were discarded; others need not."""
    fd = os.open(node, os.O_WRONLY)
    try:
        size = struct.unpack("<Q", fcntl.ioctl(fd, BLKGETSIZE64, bytes(8)))[0]
        fcntl.ioctl(fd, BLKDISCARD if can_discard else BLKZEROOUT, struct.pack("<QQ", 0, size))
    finally:
        os.close(fd)


def kernel_name_of(node: str) -> str:
    """``drive3`` or ``dm-0``: what sysfs calls a device."""
    number = os.stat(node).st_rdev
    return os.path.basename(os.readlink(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"))


def culprit_of(pieces: Sequence[bytes], p: bytes, q: bytes) -> str:
    """Which chunk of a RAID 6 row is the wrong one, if one alone is.

    ``data 2`` (in Q's order), ``P``, ``Q``, ``none`` or ``several``.

    If data chunk z is off by E, then P by E and Q by 2^z E, in each byte (H. P. Anvin, The mathematics of RAID-6,
    section 4).
    """
    p_off, q_off = exclusive_or((p, exclusive_or(pieces))), exclusive_or((q, syndrome(pieces)))
    if not any(p_off):
        return "Q" if any(q_off) else "none"
    if not any(q_off):
        return "P"
    error = p_off
    for index in range(len(pieces)):
        if error == q_off:
            return f"data {index}"
        error = double(error)
    return "several"


class LayerSteps(Player):
    """Steps that inject. ``job["nodes"]``: the bare drives; ``job["has_record"]``: whether they are the lab's own."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.bare: list[str] = job["nodes"]
        self.over: dict[int, str] = {}
        self.first_sums: dict[tuple[int, ...], list[str]] = {}

    def node_of(self, number: int) -> str:
        """A drive as md sees it."""
        return self.over.get(number, self.bare[number])

    def filled(self, text: str) -> str:
        """The text with nodes in the place of ``@2`` and ``#2``."""
        return NAMED_DRIVE.sub(
            lambda found: (self.node_of if found[1] == "@" else self.bare.__getitem__)(int(found[2])), text
        )

    def do_run(self, argv: list[str], seconds: float = 60.0, text: str = "") -> dict[str, Any]:
        """A program."""
        argv = [self.filled(word) for word in argv]
        return {"argv": argv, **command(argv, seconds, self.filled(text))}

    def do_write(self, path: str, text: str) -> dict[str, Any]:
        """A value in a file under /sys; ``dev-@2`` in its path is what md calls a member."""
        return super().do_write(self.member_path(path), text)

    def do_read(self, path: str) -> dict[str, Any]:
        """A small file; the same of its path."""
        return super().do_read(self.member_path(path))

    def member_path(self, path: str) -> str:
        return re.sub(r"@(\d+)", lambda found: kernel_name_of(self.node_of(int(found[1]))), path)

    def do_layer(self, number: int, table: str) -> dict[str, Any]:
        """Put a device of the mapper over a drive; ``{size}`` in its table is the drive's, in sectors."""
        name = f"{LAYER_PREFIX}{number}"
        # Where no udev runs, the node is made by dmsetup itself, if it is told to look.
        made = command(["dmsetup", "--verifyudev", "create", name], 30.0, self.table_text(number, table))
        if made["status"] == 0:
            self.over[number] = f"{MAPPER_FOLDER}/{name}"
        return made

    def do_integrity(self, number: int) -> dict[str, Any]:
        """Checksums over a drive.

        Formatted, as large as it then says, and written once so that every checksum is right (Documentation/admin-
        guide/device-mapper/dm-integrity.rst).
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
        """The same of a block that is searched for on a bare drive: a layer over it decides where its data lie."""
        whole = read_direct(self.bare[number], 0, device_bytes(self.bare[number]))
        versions = sorted(self.ledger.allowed()[block], reverse=True)
        places = [whole.find(self.content.block(block, version)) for version in versions]
        at = next((place for place in places if place >= 0), -1)
        if at < 0:
            return {"broke": f"block {block} is not on drive {number}"}
        return {"found_at": at, **self.do_flip(self.bare[number], at, length)}

    def do_table(self, number: int, table: str) -> dict[str, Any]:
        """Another table for a layer, while it is in use."""
        name = f"{LAYER_PREFIX}{number}"
        loaded = command(["dmsetup", "reload", name], 30.0, self.table_text(number, table))
        return loaded if loaded["status"] else command(["dmsetup", "resume", name], 30.0)

    def table_text(self, number: int, table: str) -> str:
        size = device_bytes(self.bare[number]) // 512
        return self.filled(re.sub(r"\{size(?:-(\d+))?\}", lambda found: str(size - int(found[1] or 0)), table))

    def do_loop(self, number: int, sector: int) -> dict[str, Any]:
        """A drive with another size of sector, by a loop device over it."""
        made = command(
            ["losetup", "--find", "--show", "--direct-io=on", "--sector-size", str(sector), self.bare[number]], 30.0
        )
        if made["status"] == 0:
            self.over[number] = made["output"].strip()
        return made

    def do_sum(self, numbers: list[int]) -> dict[str, Any]:
        """Whether bare drives hold the same as when this was first asked."""
        sums = [
            hashlib.sha256(read_direct(self.bare[each], 0, device_bytes(self.bare[each]))).hexdigest()
            for each in numbers
        ]
        self.first_sums.setdefault(tuple(numbers), sums)
        return {"same": self.first_sums[tuple(numbers)] == sums}

    def do_message(self, number: int, text: str) -> dict[str, Any]:
        """Tell a layer something."""
        return command(["dmsetup", "message", f"{LAYER_PREFIX}{number}", "0", *text.split()], 30.0)

    def do_hang(self, number: int) -> dict[str, Any]:
        """Requests to a layer wait from now on."""
        return command(["dmsetup", "suspend", "--noflush", "--nolockfs", f"{LAYER_PREFIX}{number}"], 30.0)

    def do_wake(self, number: int) -> dict[str, Any]:
        """They go on."""
        return command(["dmsetup", "resume", f"{LAYER_PREFIX}{number}"], 30.0)

    def do_unlayer(self, number: int) -> dict[str, Any]:
        """The drive alone again."""
        self.over.pop(number, None)
        return command(["dmsetup", "remove", f"{LAYER_PREFIX}{number}"], 30.0)

    def do_flip(self, node: str, at: int, length: int) -> dict[str, Any]:
        """Bytes of a drive turned over, behind md's back."""
        node = self.filled(node)
        return {"node": node, **super().do_flip(node, at, length)}

    def do_copy(self, node: str, source: int, target: int, length: int) -> dict[str, Any]:
        """Bytes of a drive copied to another place of it: a write that went astray."""
        return super().do_copy(self.filled(node), source, target, length)

    def do_age(self, node: str, at: int, block: int, generation: int, sectors: list[int]) -> dict[str, Any]:
        """Some sectors of a block as an earlier generation had them: the rest of its last write never came."""
        node, first, count = self.filled(node), sectors[0] * 512, sectors[1] * 512
        data = bytearray(read_direct(node, at, 4096))
        data[first : first + count] = self.content.block(block, generation)[first : first + count]
        return self.put(node, at, bytes(data))

    def do_culprits(self, rows: list[Any], mends: bool = False) -> dict[str, Any]:
        """Look at rows of a RAID 6 for the chunk that is wrong.

        ``[[row, culprit, slot or null], …]`` of those that do not fit.

        ``rows``: ``[row, [data slots in Q's order], P's slot, Q's slot]``. ``mends``: and write the data chunk that
        is wrong anew, from P and the others.
        """
        chunk = self.job["geometry"]["chunk"]
        places = {int(slot): (self.bare[number], at) for slot, number, at in self.job["slots"]}
        found: list[list[Any]] = []
        for row, data, p, q in rows:
            chunks = {
                slot: read_direct(places[slot][0], places[slot][1] + row * chunk, chunk) for slot in (*data, p, q)
            }
            told = culprit_of([chunks[slot] for slot in data], chunks[p], chunks[q])
            if told == "none":
                continue
            if not told.startswith("data"):
                found.append([row, told, {"P": p, "Q": q}.get(told)])
                continue
            slot = data[int(told.split()[1])]
            found.append([row, told, slot])
            if mends:
                others = [chunks[each] for each in (*data, p) if each != slot]
                node, at = places[slot]
                self.put(node, at + row * chunk, exclusive_or(others))
        return {"culprits": found}

    def clear_layers(self) -> None:
        """No layer of ours, whoever left it."""
        for node in self.over.values():
            if node.startswith("/dev/loop"):
                command(["losetup", "--detach", node], 30.0)
        for name in sorted(os.listdir(MAPPER_FOLDER)) if os.path.isdir(MAPPER_FOLDER) else ():
            if name.startswith(LAYER_PREFIX):
                command(["dmsetup", "remove", "--force", name], 30.0)
        self.over.clear()

    def clear_drives(self) -> None:
        """Every drive answers, at its own pace, unrecorded, and is blank."""
        if self.job["has_record"]:
            drives("forget")
        for number, node in enumerate(self.bare):
            if self.job["has_record"]:
                for line in ("plug {}", "pace {} 0", "still {}"):
                    drives(line.format(number))
            clear_device(node, can_discard=self.job["has_record"])

    def clear_settings(self) -> None:
        """What scenarios change of md itself, as it is by default."""
        for path, value in DEFAULTS.items():
            if read_text(path) not in ("", value):
                write_text(path, value)
