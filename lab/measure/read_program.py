"""Reads places of a disk past the caches and tells when each read began and ended. Runs on the machine, python3 alone.

    read_program.py DEVICE DEPTH < PLACES

Each line of PLACES is a byte offset and a length, multiples of 4096; DEPTH reads are in flight. Prints for each, in
the order of PLACES, the seconds of its begin and end on the machine's clock. The disk is opened for reading only.
"""

import errno
import itertools
import mmap
import os
import sys
import threading
import time


def main() -> int:
    """Read all places."""
    path, depth = sys.argv[1], int(sys.argv[2])
    places = [tuple(map(int, line.split())) for line in sys.stdin]
    times: list[tuple[float, float]] = [(0.0, 0.0)] * len(places)
    disk = os.open(path, os.O_RDONLY | os.O_DIRECT)
    largest = max(length for _, length in places)
    counter = itertools.count()
    failures: list[OSError] = []

    def work() -> None:
        page = memoryview(mmap.mmap(-1, largest))
        while (index := next(counter)) < len(places):
            offset, length = places[index]
            begin = time.monotonic()
            try:
                if os.preadv(disk, [page[:length]], offset) != length:
                    raise OSError(errno.ENODATA, "the disk ends before the place to read")
            except OSError as error:
                failures.append(error)
                return
            times[index] = (begin, time.monotonic())

    threads = [threading.Thread(target=work) for _ in range(depth - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if failures:
        sys.stderr.write(f"{path}: {failures[0].strerror}\n")
        return 1
    sys.stdout.writelines(f"{begin:.7f} {end:.7f}\n" for begin, end in times)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
