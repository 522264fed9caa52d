"""Opens devices and files for direct I/O, for programs in the agent; standard library only."""

from __future__ import annotations

import errno
import os


def open_direct(path: str, flags: int) -> int:
    """Open with O_DIRECT where supported; file systems in memory may not support it, but read nothing from a disk."""
    try:
        return os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o600)
