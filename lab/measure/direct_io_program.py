"""Opens devices and files for direct I/O, for programs in the agent. Uses only the standard library."""

from __future__ import annotations

import errno
import os


def open_direct(path: str, flags: int) -> int:
    """Open with O_DIRECT if this is supported. File systems in memory may not support it, but do not read disks."""
    try:
        return os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o600)
