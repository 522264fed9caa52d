"""SHA-256 over files and devices, past the page cache. Runs on the machine as a file of its own, with python3 alone.

    sum_program.py SKIP_BYTES LENGTH_BYTES PATH...      LENGTH_BYTES 0: to the end

Why not dd and sha256sum: both move data in small pieces, and each piece costs a system call, which is what an embedded
kernel is slowest at (0.8 s against 2.9 s for 400 MiB there).
"""

import errno
import hashlib
import mmap
import os
import sys
from pathlib import Path

PIECE_BYTES = 4 * 1024 * 1024


def add_file(digest: "hashlib._Hash", path: str, skip: int, length: int) -> int:
    """Feed one file or device to the digest and return its bytes; a folder is left out."""
    if Path(path).is_dir():
        return 0
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # File systems in memory know no direct I/O, and have no cache in front of them either.
        fd = os.open(path, os.O_RDONLY)
    buffer = mmap.mmap(-1, PIECE_BYTES)
    view = memoryview(buffer)
    offset, end = skip, skip + length if length else None
    try:
        while end is None or offset < end:
            count = os.preadv(fd, [view], offset)
            if not count:
                break
            digest.update(view[: count if end is None else min(count, end - offset)])
            offset += count
    finally:
        os.close(fd)
    return (offset if end is None else min(offset, end)) - skip


def main() -> int:
    """Print digest and bytes of all files in the order given; status 1 and the reason if one cannot be read."""
    digest = hashlib.sha256()
    total = 0
    for path in sys.argv[3:]:
        try:
            total += add_file(digest, path, int(sys.argv[1]), int(sys.argv[2]))
        except OSError as error:
            sys.stderr.write(f"{path}: {error.strerror}\n")
            return 1
    sys.stdout.write(f"{digest.hexdigest()} {total}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
