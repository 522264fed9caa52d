"""Reads superblocks, starts arrays with md's ioctls, and compares members directly, all on the machine.

Starting an array with mdadm takes 90 ms in an embedded kernel, and md accounts for only a tenth of that. So that
thousands of crash points can be tried, this module does what mdadm --assemble does for consistent members: it adds the
freshest member first, and leaves out members that are more than one event behind (Assemble.c, super_1_validate() in
drivers/md/md.c).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import mmap
import os
import select
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from lab.arrays.parity_program import exclusive_or, q_of
from lab.arrays.superblock_program import SUPERBLOCK_OFFSET, VersionOne, parse_version_one
from lab.machine.direct_io_program import opened

T = TypeVar("T")
MD_MAJOR = 9
SUPERBLOCK_BYTES = 4096
"""The number of bytes that md itself reads (super_1_load() in drivers/md/md.c)."""
# linux/raid/md_u.h
SET_ARRAY_INFO, ADD_NEW_DISK, RUN_ARRAY, STOP_ARRAY = 0x40480923, 0x40140921, 0x400C0930, 0x932
DUE_SECONDS = 5.0
START_DEGRADED = "/sys/module/md_mod/parameters/start_dirty_degraded"
PIECE_BYTES = 1024 * 1024
STOP_SECONDS, STOP_PAUSE_SECONDS = 4.0, 0.02


def read_text(path: str) -> str:
    """Return the content of a small file without surrounding white space, or an empty text if it cannot be read.

    As few system calls as possible are made, because they are slow in an embedded kernel.
    """
    try:
        with opened(path, os.O_RDONLY) as fd:
            return os.read(fd, 4096).decode("ascii", "replace").strip()
    except OSError:
        return ""


def write_text(path: str, text: str) -> str:
    """Write to a file, and return the system's error message, which is empty on success."""
    try:
        with opened(path, os.O_WRONLY) as fd:
            os.write(fd, text.encode())
    except OSError as error:
        return str(error.strerror)
    return ""


def pause(seconds: float) -> None:
    """Sleep; in virtual time this takes hardly any real time."""
    select.select((), (), (), seconds)


def pauses(limit: float, first: float, factor: float = 1.0, most: float = math.inf) -> Iterator[float]:
    """Pause until the pauses add up to ``limit``; yield 0 first, and then, after each pause, its length.

    Each pause is ``factor`` times as long as the one before, but no longer than ``most``.
    """
    yield 0.0
    waited, step = 0.0, first
    while waited < limit:
        pause(step)
        waited += step
        yield step
        step = min(step * factor, most)


def retried(act: Callable[[], T], passing: int, seconds: float, pause_seconds: float) -> T:
    """Call ``act`` again for up to ``seconds`` while it raises an OSError with the number ``passing``."""
    failure: OSError | None = None
    for _ in pauses(seconds, pause_seconds):
        try:
            return act()
        except OSError as error:
            if error.errno != passing:
                raise
            failure = error
    assert failure
    raise failure


def skip_modprobe() -> None:
    """Disable modprobe on a kernel that has all drivers built in.

    Whenever an array is started, md requests the module of its level; for each request an embedded kernel would start
    two processes.
    """
    if os.path.exists("/sys/class/misc/lab-drives"):
        write_text("/proc/sys/kernel/modprobe", "\0")


_BUFFERS: dict[object, mmap.mmap] = {}


def buffer(name: object, length: int) -> memoryview:
    """Return a buffer for direct I/O; later calls with the same name return the same memory.

    An embedded kernel takes longer to allocate a page than to fill it.
    """
    found = _BUFFERS.get(name)
    if found is None or len(found) < length:
        found = _BUFFERS[name] = mmap.mmap(-1, -(-length // mmap.PAGESIZE) * mmap.PAGESIZE)
    return memoryview(found)[:length]


def read_into(path: str, at: int, view: memoryview) -> int:
    """Read from a device, and return the number of bytes.

    The device is read with O_DIRECT, because restoring a drive does not update the page cache.
    """
    with opened(path, os.O_RDONLY | os.O_DIRECT) as fd:
        return os.preadv(fd, [view], at)


def read_direct(path: str, at: int, length: int) -> bytes:
    """Read like ``read_into``, but return the bytes."""
    view = buffer("read", length)
    return bytes(view[: read_into(path, at, view)])


def write_direct(path: str, at: int, data: bytes) -> int:
    """Write to a device with O_DIRECT, and return the number of bytes."""
    done, piece = 0, buffer("write", PIECE_BYTES)
    with opened(path, os.O_WRONLY | os.O_DIRECT) as fd:
        for start in range(0, len(data), PIECE_BYTES):
            size = min(PIECE_BYTES, len(data) - start)
            piece[:size] = data[start : start + size]
            done += os.pwritev(fd, [piece[:size]], at + start)
    return done


def kernel_name(node: str) -> str:
    """Return the name of a device in sysfs, such as ``drive3`` or ``dm-0``; its node may be a link."""
    number = os.stat(node).st_rdev
    return os.path.basename(os.readlink(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"))


class MemberLabel(NamedTuple):
    """A device, and its superblock of version 1.2."""

    node: str
    superblock: VersionOne


def label_of(node: str) -> MemberLabel | None:
    """Return a device with its superblock, or None if it has none or cannot be read."""
    try:
        found = parse_version_one(read_direct(node, SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES))
    except OSError:
        return None
    return MemberLabel(node, found) if found else None


def freshest(nodes: Sequence[str]) -> list[MemberLabel]:
    """Return the members from which an array would be started, freshest first."""
    labels = [label for node in nodes if (label := label_of(node))]
    labels.sort(key=lambda each: (-each.superblock.events, each.superblock.dev_number))
    return [each for each in labels if each.superblock.events + 1 >= labels[0].superblock.events]


def stop_array(node: str) -> str:
    """Stop an array by ioctl(2), which md refuses while any process has it open.

    Return md's error message, which is empty if the array is stopped or was not running.
    """
    reason = ""
    for _ in pauses(STOP_SECONDS, STOP_PAUSE_SECONDS):
        try:
            fd = os.open(node, os.O_RDWR)
        except OSError:
            return ""
        try:
            fcntl.ioctl(fd, STOP_ARRAY, 0)
            return ""
        except OSError as error:
            if error.errno == errno.ENODEV:
                return ""
            reason = str(error.strerror)
        finally:
            os.close(fd)
    return reason


class QuickArray:
    """The array md0, started by ioctl(2) without mdadm."""

    def __init__(self, node: str) -> None:
        self.node = node
        if not os.path.exists(node):
            os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(MD_MAJOR, 0))
        self.folder = "/sys/block/md0/md"

    def start(self, nodes: Sequence[str], *, is_forced: bool = False) -> str:
        """Start the array from these members, and return md's error message, which is empty on success.

        With ``is_forced``, start it even if it is dirty and degraded (md(4), start_dirty_degraded).
        """
        write_text(START_DEGRADED, str(int(is_forced)))
        chosen = freshest(nodes)
        if not chosen:
            return "no member has a superblock"
        # md may still be deleting the array that was stopped before (md_open()).
        fd = retried(lambda: os.open(self.node, os.O_RDWR), errno.ENODEV, 10.0, 0.01)
        try:
            fcntl.ioctl(fd, SET_ARRAY_INFO, struct.pack("<18i", 1, 2, *[0] * 16))
            for label in chosen:
                number = os.stat(label.node).st_rdev
                info = struct.pack("<5i", 0, os.major(number), os.minor(number), 0, 0)
                try:
                    fcntl.ioctl(fd, ADD_NEW_DISK, info)
                except OSError:
                    # md rejects a member that does not belong to the array or is unsuitable. Like mdadm, continue
                    # with the others.
                    continue
            fcntl.ioctl(fd, RUN_ARRAY, bytes(12))
        except OSError as error:
            with contextlib.suppress(OSError):
                fcntl.ioctl(fd, STOP_ARRAY, 0)
            return str(error.strerror)
        finally:
            os.close(fd)
            write_text(START_DEGRADED, "0")
        return ""

    def file(self, name: str) -> str:
        """Return the value of one of md's attributes; it is empty if the attribute does not exist."""
        return read_text(f"{self.folder}/{name}")

    def settle(self, seconds: float) -> bool:
        """Make the array active, so that md begins pending work; return whether md became idle in time."""
        if self.file("array_state") in ("read-auto", "readonly"):
            write_text(f"{self.folder}/array_state", "active")
        return wait_idle(self.folder, seconds)


def sync_is_due(folder: str) -> bool:
    """Whether md will start a sync on its own: a resync, a rebuild, a replacement, or the rest of a reshape."""
    if read_text(f"{folder}/array_state") not in ("clean", "active", "active-idle", "write-pending"):
        return False
    if any(read_text(f"{folder}/{name}") not in ("none", "") for name in ("resync_start", "reshape_position")):
        return True
    is_degraded = read_text(f"{folder}/degraded") not in ("0", "")
    try:
        members = [read_text(f"{folder}/{name}/state") for name in os.listdir(folder) if name.startswith("dev-")]
    except OSError:
        return False
    return any("want_replacement" in words or (is_degraded and "spare" in words.split(",")) for words in members)


class IdleWatch:
    """Considers md idle after three consecutive idle readings that, if a sync is due, span at least DUE_SECONDS.

    md's thread starts a sync only when it runs, so a pending sync is not visible immediately. A sync that is due may
    never start, for example because the array is broken or no spare is large enough.
    """

    def __init__(self, folder: str) -> None:
        self.folder, self.readings, self.seconds = folder, 0, 0.0

    def is_idle(self, seconds: float) -> bool:
        """Read again, ``seconds`` after the last reading, and return whether md is idle."""
        action = read_text(f"{self.folder}/sync_action")
        if action not in ("idle", ""):
            self.readings, self.seconds = 0, 0.0
            return False
        self.seconds += seconds if self.readings else 0.0
        self.readings += 1
        return self.readings >= 3 and (not action or self.seconds >= DUE_SECONDS or not sync_is_due(self.folder))


def wait_idle(folder: str, seconds: float) -> bool:
    """Wait until md is idle. Return False if it is still busy after ``seconds``."""
    watch = IdleWatch(folder)
    return any(watch.is_idle(step) for step in pauses(seconds, 0.005, 1.3, 0.25))


def disagreeing(rows: Sequence[Any], members: dict[int, memoryview], chunk: int) -> list[int]:
    """Return the indices of rows with inconsistent copies or parity, skipping parity rows that lack a member.

    A row is ``["copies", [[slot, chunk], …]]``, or ``["parity", chunk, [data slots in order], P's slot, Q's slot or
    null]``. In a row, ``chunk`` is the index of a chunk from the start of the member's data; the parameter ``chunk`` is
    the size of a chunk in bytes.
    """
    found = []
    for number, row in enumerate(rows):
        if row[0] == "copies":
            pieces = [members[slot][at * chunk : (at + 1) * chunk] for slot, at in row[1] if slot in members]
            is_wrong = any(piece != pieces[0] for piece in pieces[1:])
        else:
            _, at, data, p, q = row
            if any(slot not in members for slot in (*data, p, *(() if q is None else (q,)))):
                continue
            pieces = [members[slot][at * chunk : (at + 1) * chunk] for slot in data]
            is_wrong = exclusive_or(pieces, chunk) != members[p][at * chunk : (at + 1) * chunk]
            if not is_wrong and q is not None:
                is_wrong = q_of(dict(enumerate(pieces)), chunk) != members[q][at * chunk : (at + 1) * chunk]
        if is_wrong:
            found.append(number)
    return found


def wrong_rows(folder: str, geometry: dict[str, Any]) -> list[int]:
    """Apply ``disagreeing`` to the in-sync members of a running array.

    ``geometry`` contains ``rows``, ``chunk`` and ``member_bytes``. Raises OSError if a member cannot be read.
    """
    data = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("dev-") and "in_sync" in read_text(f"{folder}/{name}/state").split(","):
            slot = read_text(f"{folder}/{name}/slot")
            if slot.isdigit():
                data[int(slot)] = buffer(int(slot), geometry["member_bytes"])
                read_into(f"/dev/{name[4:]}", int(read_text(f"{folder}/{name}/offset") or 0) * 512, data[int(slot)])
    return disagreeing(geometry["rows"], data, geometry["chunk"])
