"""Computes the SHA-256 of files and devices with direct I/O. Runs in the agent with only the standard library.

    SKIP_BYTES LENGTH_BYTES PATH...      LENGTH_BYTES 0: to the end

Returns the digest over all files in the order given, and the total number of bytes.

dd and sha256sum would be slower, because both move data in small pieces, and each piece costs a system call, the
slowest operation of an embedded kernel. There, 400 MiB take 0.8 s with this program and 2.9 s with dd and sha256sum.
"""

from __future__ import annotations

import hashlib
import mmap
import os

from lab.machine.direct_io_program import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PIECE_BYTES = 4 * 1024 * 1024


def add_file(digest: hashlib._Hash, path: str, skip: int, length: int, is_stopped: Callable[[], bool]) -> int:
    """Feed one file or device to the digest, and return the number of bytes read; a folder is skipped."""
    if os.path.isdir(path):
        return 0
    view = memoryview(mmap.mmap(-1, PIECE_BYTES))
    offset, end = skip, skip + length if length else None
    with opened(path, os.O_RDONLY, prefers_direct=True) as fd:
        while (end is None or offset < end) and not is_stopped():
            count = os.preadv(fd, [view], offset)
            if not count:
                break
            digest.update(view[: count if end is None else min(count, end - offset)])
            offset += count
    return (offset if end is None else min(offset, end)) - skip


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """Run the program. Raises OSError with the name of the file that cannot be read."""
    digest = hashlib.sha256()
    total = 0
    for path in arguments[2:]:
        try:
            total += add_file(digest, path, int(arguments[0]), int(arguments[1]), is_stopped)
        except OSError as error:
            raise OSError(f"{path}: {error.strerror}") from error
    return f"{digest.hexdigest()} {total}"
