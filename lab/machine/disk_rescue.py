#!/usr/bin/python3 -IS
"""A task of the agent, in the kernel's init, that restarts the embedded kernel's file disks when they hang.

Completed requests of all file disks return through one socket, whose epoll event is edge-triggered (os_add_epoll_fd in
arch/um/os-Linux/irq.c). The kernel stores reported events in one static array. While it iterates over the array, a soft
interrupt may admit a pending SIGIO, and the nested run of the same handler overwrites the array. An event that is lost
in this way never recurs, so the completions stay in the socket, and processes wait for their disks forever. The next
completed request of any file disk is a new event. The kernel then processes all waiting completions.
"""

from __future__ import annotations

import _thread
import os
import time

CHECK_SECONDS = 1.0
STALLED_CHECKS = 2
"""A disk hangs if this many consecutive checks find requests in flight but none completed. A healthy disk needs
milliseconds for each request.
"""
MOST_READS = 8
"""Maximum number of such reads in flight. The event of such a read can be lost too, so several are allowed. A disk that
never answers uses them up.
"""
READ_BYTES = 4096
RESCUED = "did nothing for"
"""Text that identifies the report of a rescue in the kernel's log."""


def file_disks(diskstats: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Map each disk to its number of requests in flight, and to the numbers of its completed requests (iostats.rst)."""
    found = {}
    for line in diskstats.splitlines():
        fields = line.split()
        # Names of partitions end in a number.
        if len(fields) > 11 and fields[2].startswith("ubd") and fields[2].isalpha():
            found[fields[2]] = (int(fields[11]), tuple(fields[3:4] + fields[7:8] + fields[14:15] + fields[18:19]))
    return found


class DiskRescue:
    """The task that checks the disks every second. No client uses its ``id``."""

    id = -1
    passes_time = False

    def __init__(self) -> None:
        self.due = time.monotonic() + CHECK_SECONDS
        self.before: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.stalled_checks = 0
        self.reading: list[str] = []

    def on_time(self, now: float) -> None:
        with open("/proc/diskstats", encoding="ascii") as file:
            self.check(file.read(), now)

    def check(self, diskstats: str, now: float) -> None:
        self.due = now + CHECK_SECONDS
        disks = file_disks(diskstats)
        stalled = [name for name, sample in disks.items() if sample[0] and self.before.get(name) == sample]
        is_moving = any(self.before.get(name, sample)[1] != sample[1] for name, sample in disks.items())
        self.before = disks
        self.stalled_checks = self.stalled_checks + 1 if stalled and not is_moving else 0
        if self.stalled_checks >= STALLED_CHECKS and len(self.reading) < MOST_READS:
            self.stalled_checks = 0
            # A disk on which the maximum number of requests is in flight would not accept another one.
            calmest = min(disks, key=lambda name: disks[name][0])
            log_error(f"{', '.join(stalled)} {RESCUED} {STALLED_CHECKS * CHECK_SECONDS:g} s; reading from {calmest}")
            self.reading.append(f"/dev/{calmest}")
            # This runs on a separate thread, because the read may hang as long as the disk does.
            _thread.start_new_thread(self.read_block, (f"/dev/{calmest}",))

    def read_block(self, device: str) -> None:
        """Read a block with O_DIRECT, which needs page-aligned memory."""
        # This is imported on demand, because each import delays the start of the kernel.
        import mmap

        try:
            descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
            try:
                os.preadv(descriptor, [mmap.mmap(-1, READ_BYTES)], 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            log_error(f"{device} could not be read: {error.strerror}")
        finally:
            self.reading.remove(device)

    def stop(self, number: int) -> None:
        """Do nothing, because the task runs as long as the machine does."""


def log_error(text: str) -> None:
    """Write to the kernel's log, as an error (level 3), so that it appears in the console's log too."""
    with open("/dev/kmsg", "w", encoding="ascii") as log:
        log.write(f"<3>raidlab: {text}\n")
