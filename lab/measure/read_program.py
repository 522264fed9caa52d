"""Reads parts of a disk with direct I/O and reports when each read starts and ends. Runs in the agent.

    DEVICE DEPTH PLACES

Each line of PLACES is a byte offset and a length, both multiples of 4096. DEPTH reads are in flight. Returns the start
and end of each read, in seconds of the machine's clock and in the order of PLACES. The disk is opened read-only.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import threading
import time

from lab.machine.direct_io_program import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """Read all places, and return the times of the reads."""
    path, depth = arguments[0], int(arguments[1])
    places = [tuple(map(int, line.split())) for line in arguments[2].splitlines()]
    times: list[tuple[float, float]] = [(0.0, 0.0)] * len(places)
    largest = max(length for _, length in places)
    counter = itertools.count()
    failures: list[OSError] = []

    def work(disk: int) -> None:
        page = memoryview(mmap.mmap(-1, largest))
        while (index := next(counter)) < len(places) and not is_stopped():
            offset, length = places[index]
            begin = time.monotonic()
            try:
                if os.preadv(disk, [page[:length]], offset) != length:
                    raise OSError(errno.ENODATA, "the disk ends before the place to read")
            except OSError as error:
                failures.append(error)
                return
            times[index] = (begin, time.monotonic())

    with opened(path, os.O_RDONLY | os.O_DIRECT) as disk:
        threads = [threading.Thread(target=work, args=(disk,)) for _ in range(depth - 1)]
        for thread in threads:
            thread.start()
        work(disk)
        for thread in threads:
            thread.join()
    if failures:
        raise OSError(f"{path}: {failures[0].strerror}")
    return "".join(f"{begin:.7f} {end:.7f}\n" for begin, end in times)
