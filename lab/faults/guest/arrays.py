"""md from inside the machine: superblocks, arrays started by the driver's own requests, parity read member by member.

Starting an array by mdadm takes an embedded kernel 90 ms, of which the driver needs a tenth. For thousands of crash
points this does what mdadm --assemble does for members that agree: the freshest first, and none that lags more than one
event behind (Assemble.c, super_1_validate() in drivers/md/md.c).
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import stat
import struct
from collections.abc import Sequence
from typing import Any

MD_MAJOR = 9
SUPERBLOCK_AT, SUPERBLOCK_BYTES = 4096, 4096
MD_MAGIC = 0xA92B4EFC
RESHAPE_ACTIVE = 4
# linux/raid/md_u.h
SET_ARRAY_INFO, ADD_NEW_DISK, RUN_ARRAY, STOP_ARRAY = 0x40480923, 0x40140921, 0x400C0930, 0x932
START_DEGRADED = "/sys/module/md_mod/parameters/start_dirty_degraded"
SPARE_ROLE, FAULTY_ROLE, JOURNAL_ROLE = 0xFFFF, 0xFFFE, 0xFFFD
POLYNOMIAL = 0x11D


def read_text(path: str) -> str:
    """A small file.

    Empty if it cannot be read. By as few system calls as can be, which are what the machine is slow at.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode("ascii", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def write_text(path: str, text: str) -> str:
    """The system's reason if it is refused, else nothing."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError as error:
        return str(error.strerror)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        return str(error.strerror)
    finally:
        os.close(fd)
    return ""


def pause(seconds: float) -> None:
    """Let time pass; in virtual time that costs nothing."""
    select.select((), (), (), seconds)


def skip_modprobe() -> None:
    """Where all drivers are built in, nothing is to look for them.

    Md asks for its level's at each start, which costs an embedded kernel two programs.
    """
    if os.path.exists("/dev/lab-drives"):
        write_text("/proc/sys/kernel/modprobe", "\0")


class Buffers:
    """Pages for direct I/O that are kept: an embedded kernel takes longer to find a new page than to fill it."""

    def __init__(self) -> None:
        self.kept: dict[object, mmap.mmap] = {}

    def get(self, name: object, length: int) -> memoryview:
        """So many bytes, which whoever asks for the same name overwrites."""
        found = self.kept.get(name)
        if found is None or len(found) < length:
            found = self.kept[name] = mmap.mmap(-1, -(-length // mmap.PAGESIZE) * mmap.PAGESIZE)
        return memoryview(found)[:length]


BUFFERS = Buffers()


def read_into(path: str, at: int, view: memoryview) -> int:
    """Some of a device, past the page cache, which knows nothing of what a drive was made to hold."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        return os.preadv(fd, [view], at)
    finally:
        os.close(fd)


def read_direct(path: str, at: int, length: int) -> bytes:
    """The same, as bytes of their own."""
    view = BUFFERS.get("read", length)
    return bytes(view[: read_into(path, at, view)])


class MemberLabel:
    """What a superblock of format 1.2 says (struct mdp_superblock_1 in linux/raid/md_p.h).

    Raises ValueError for none.
    """

    def __init__(self, node: str) -> None:
        data = read_direct(node, SUPERBLOCK_AT, SUPERBLOCK_BYTES)
        if len(data) < SUPERBLOCK_BYTES or struct.unpack_from("<I", data)[0] != MD_MAGIC:
            raise ValueError(f"{node} has no superblock")
        self.node = node
        self.uuid = data[16:32]
        self.features, self.level = struct.unpack_from("<I", data, 8)[0], struct.unpack_from("<i", data, 72)[0]
        self.data_offset, self.recovery_offset, self.number = struct.unpack_from("<Q16xQI", data, 128)
        self.size = struct.unpack_from("<Q", data, 80)[0]
        self.raid_disks, position = struct.unpack_from("<I8xQ", data, 92)
        self.reshape_position = position if self.features & RESHAPE_ACTIVE else None
        self.events, self.resync_offset = struct.unpack_from("<QQ", data, 200)
        most = struct.unpack_from("<I", data, 220)[0]
        roles = struct.unpack_from(f"<{min(most, 1920)}H", data, 256)
        self.role = roles[self.number] if self.number < len(roles) else SPARE_ROLE


def freshest(nodes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those that an array would be started from, the freshest first, and those that are left out."""
    labels, left = [], []
    for node in nodes:
        try:
            labels.append(MemberLabel(node))
        except (OSError, ValueError):
            left.append(node)
    most = max((each.events for each in labels), default=0)
    labels.sort(key=lambda each: (-each.events, each.number))
    left += [each.node for each in labels if each.events + 1 < most]
    return [each.node for each in labels if each.events + 1 >= most], left


class QuickArray:
    """md0, started and stopped without a program."""

    def __init__(self, node: str) -> None:
        self.node = node
        if not os.path.exists(node):
            os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(MD_MAJOR, 0))
        self.folder = "/sys/block/md0/md"

    def start(self, nodes: Sequence[str], *, is_forced: bool = False) -> str:
        """Start it from these.

        The reason if md refuses. Forced: also if dirty and degraded (md(4), start_dirty_degraded).
        """
        write_text(START_DEGRADED, str(int(is_forced)))
        chosen, _ = freshest(nodes)
        if not chosen:
            return "no member has a superblock"
        fd = os.open(self.node, os.O_RDWR)
        try:
            fcntl.ioctl(fd, SET_ARRAY_INFO, struct.pack("<18i", 1, 2, *[0] * 16))
            for node in chosen:
                number = os.stat(node).st_rdev
                info = struct.pack("<5i", 0, os.major(number), os.minor(number), 0, 0)
                try:
                    fcntl.ioctl(fd, ADD_NEW_DISK, info)
                except OSError:
                    # Not of this array, or not fit for it: md goes on with the others, and so does mdadm.
                    continue
            fcntl.ioctl(fd, RUN_ARRAY, bytes(12))
        except OSError as error:
            self.halt(fd)
            return str(error.strerror)
        finally:
            os.close(fd)
            write_text(START_DEGRADED, "0")
        return ""

    def halt(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, STOP_ARRAY, 0)

    def stop(self) -> str:
        """Stop it; the reason if it is in use."""
        fd = os.open(self.node, os.O_RDWR)
        try:
            fcntl.ioctl(fd, STOP_ARRAY, 0)
        except OSError as error:
            return str(error.strerror)
        finally:
            os.close(fd)
        return ""

    def file(self, name: str) -> str:
        """One of md's attributes; empty if it is not there."""
        return read_text(f"{self.folder}/{name}")

    def settle(self, seconds: float) -> bool:
        """Let it be written on, so that md takes up what it has to do, and wait for the end of that."""
        if self.file("array_state") in ("read-auto", "readonly"):
            write_text(f"{self.folder}/array_state", "active")
        return wait_idle(self.folder, seconds)


def wait_idle(folder: str, seconds: float) -> bool:
    """Whether md had nothing more to do before so many seconds were over."""
    waited, step, calm = 0.0, 0.005, 0
    while waited < seconds:
        # A sync that is about to start shows only when md's thread has looked.
        calm = calm + 1 if read_text(f"{folder}/sync_action") in ("idle", "") else 0
        if calm >= 3:
            return True
        pause(step)
        waited += step
        step = min(step * 1.3, 0.25)
    return False


def double(data: bytes) -> bytes:
    """Each byte times 2 in GF(2^8) (H. P. Anvin, The mathematics of RAID-6)."""
    return data.translate(DOUBLES)


DOUBLES = bytes((value << 1 ^ (POLYNOMIAL if value & 0x80 else 0)) & 0xFF for value in range(256))


def exclusive_or(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Byte by byte."""
    total = 0
    for piece in pieces:
        total ^= int.from_bytes(piece, "little")
    return total.to_bytes(len(pieces[0]), "little")


def syndrome(pieces: Sequence[bytes | memoryview]) -> bytes:
    """RAID 6's Q over data chunks in order: the sum of each times a power of 2, by Horner's rule."""
    q = bytes(len(pieces[0]))
    for piece in reversed(pieces):
        q = exclusive_or((double(q), piece))
    return q


def disagreeing(rows: Sequence[Any], members: dict[int, memoryview], chunk: int) -> list[int]:
    """Rows whose copies or parity do not fit; rows of members that are not there are left out.

    A row is ``["copies", [[slot, chunk], …]]``, or ``["parity", chunk, [data slots in order], P's slot, Q's slot or
    null]``; ``chunk`` counts from the start of the member's data.
    """
    found = []
    for number, row in enumerate(rows):
        if row[0] == "copies":
            places = [(slot, at) for slot, at in row[1] if slot in members]
            pieces = [members[slot][at * chunk : (at + 1) * chunk] for slot, at in places]
            if any(piece != pieces[0] for piece in pieces[1:]):
                found.append(number)
            continue
        _, at, data, p, q = row
        if any(slot not in members for slot in (*data, p, *(() if q is None else (q,)))):
            continue
        pieces = [members[slot][at * chunk : (at + 1) * chunk] for slot in data]
        is_wrong = exclusive_or(pieces) != members[p][at * chunk : (at + 1) * chunk]
        if not is_wrong and q is not None:
            is_wrong = syndrome(pieces) != members[q][at * chunk : (at + 1) * chunk]
        if is_wrong:
            found.append(number)
    return found


def members_of(folder: str) -> dict[int, tuple[str, int, str]]:
    """Slot -> (node, data offset in bytes, state) of a running array's members, from sysfs."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("dev-"):
            slot = read_text(f"{folder}/{name}/slot")
            if slot.isdigit():
                offset = int(read_text(f"{folder}/{name}/offset") or 0) * 512
                found[int(slot)] = (f"/dev/{name[4:]}", offset, read_text(f"{folder}/{name}/state"))
    return found


def wrong_rows(folder: str, rows: Sequence[Any], chunk: int, member_bytes: int) -> list[int]:
    """The same of a running array, with its members that are in sync."""
    data = {}
    for slot, (node, offset, state) in members_of(folder).items():
        if "in_sync" in state.split(","):
            data[slot] = BUFFERS.get(slot, member_bytes)
            read_into(node, offset, data[slot])
    return disagreeing(rows, data, chunk)
