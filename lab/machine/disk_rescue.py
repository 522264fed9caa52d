#!/usr/bin/python3 -IS
"""Sets the embedded kernel's file disks going again when they stand still: a task of the agent, inside its init.

All requests of all file disks that are done come back through one socket, whose epoll event is edge-triggered
(os_add_epoll_fd in arch/um/os-Linux/irq.c). The kernel keeps the events that it was told in one static array, and goes
through it while a nested run of the same handler (a soft interrupt lets a pending SIGIO in) may overwrite it. An event
that is lost so never comes again: what is done waits in the socket, and every process for its disk, for good. The next
request of any file disk, once done, is a new event, and then the kernel takes up all that waits.
"""

from __future__ import annotations

import _thread
import os
import time

LOOK_SECONDS = 1.0
STILL_LOOKS = 2
"""So many looks in a row that find requests under way and none done: a sound disk takes milliseconds for one."""
MOST_READS = 8
"""The event of such a read can be lost as well, so there are more of them; a disk that never answers keeps them all."""
READ_BYTES = 4096
RESCUED = "did nothing for"
"""Words of the line in the kernel's log that tells of it."""


def file_disks(diskstats: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Disk -> requests under way, and how many are done: reads, writes, discards, flushes.

    Source: Documentation/admin-guide/iostats.rst.
    """
    found = {}
    for line in diskstats.splitlines():
        fields = line.split()
        # Partitions have numbers behind.
        if len(fields) > 11 and fields[2].startswith("ubd") and fields[2].isalpha():
            found[fields[2]] = (int(fields[11]), tuple(fields[3:4] + fields[7:8] + fields[14:15] + fields[18:19]))
    return found


class DiskRescue:
    """A task of the agent: it is told when a second is over. ``id`` is none that a client uses."""

    id = -1
    passes_time = False

    def __init__(self) -> None:
        self.due = time.monotonic() + LOOK_SECONDS
        self.before: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.still_looks = 0
        self.reading: list[str] = []

    def on_time(self, now: float) -> None:
        """See the agent."""
        with open("/proc/diskstats", encoding="ascii") as file:
            self.look(file.read(), now)

    def look(self, diskstats: str, now: float) -> None:
        """Read a block where nothing gets on."""
        self.due = now + LOOK_SECONDS
        disks = file_disks(diskstats)
        still = [name for name, look in disks.items() if look[0] and self.before.get(name) == look]
        is_moving = any(self.before.get(name, look)[1] != look[1] for name, look in disks.items())
        self.before = disks
        self.still_looks = self.still_looks + 1 if still and not is_moving else 0
        if self.still_looks >= STILL_LOOKS and len(self.reading) < MOST_READS:
            self.still_looks = 0
            # One whose own requests are all under way would not take another.
            calmest = min(disks, key=lambda name: disks[name][0])
            tell(f"{', '.join(still)} {RESCUED} {STILL_LOOKS * LOOK_SECONDS:g} s; reading from {calmest}")
            self.reading.append(f"/dev/{calmest}")
            # On a thread, which may have to wait as long as the disk.
            _thread.start_new_thread(self.read_block, (f"/dev/{calmest}",))

    def read_block(self, device: str) -> None:
        """Read past all caches; O_DIRECT wants memory at the start of a page."""
        # Not before it is needed: each import costs the start of the kernel.
        import mmap

        try:
            descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
            try:
                os.preadv(descriptor, [mmap.mmap(-1, READ_BYTES)], 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            tell(f"{device} could not be read: {error.strerror}")
        finally:
            self.reading.remove(device)

    def stop(self, number: int) -> None:
        """It goes on as long as the machine."""


def tell(what: str) -> None:
    """To the kernel's log, as an error (level 3), so that it stands in the console's log too."""
    with open("/dev/kmsg", "w", encoding="ascii") as log:
        log.write(f"<3>raidlab: {what}\n")
