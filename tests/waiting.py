"""Looks at real processes, and waits for them and for threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

PATIENCE_SECONDS = 120.0
"""How long a test waits for what must happen at some time, however busy the computer is."""


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie (proc(5), field 3 of stat)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def listening(pids: Iterable[int]) -> dict[str, str]:
    """Inode -> address, in hexadecimal as in /proc/net/tcp (proc(5)), of the sockets on which processes listen."""
    inodes = set()
    for pid in pids:
        # Processes may end and close files meanwhile, and nobody may look into a session of sshd's (prctl(2),
        # PR_SET_DUMPABLE), which does not listen.
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(entry.readlink().name.removeprefix("socket:[").removesuffix("]"))
    # While others open and close sockets, the list may leave out a line, but not each time.
    tables = [Path("/proc/net", name).read_text() for name in ("tcp", "tcp6") * 5]
    lines = [line.split() for table in tables for line in table.splitlines()]
    return {words[9]: words[1].partition(":")[0] for words in lines if words[3] == "0A" and words[9] in inodes}


def wait_until(
    holds: Callable[[], object], seconds: float = PATIENCE_SECONDS, failure: Callable[[], str] = lambda: ""
) -> None:
    """Raises AssertionError if it does not hold within so many seconds; ``failure`` says what there is instead."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, failure()
        time.sleep(0.02)
