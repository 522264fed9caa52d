"""Waits for real processes and threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie (proc(5), field 3 of stat)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(holds: Callable[[], object], seconds: float = 60, failure: Callable[[], str] = lambda: "") -> None:
    """Raises AssertionError if it does not hold within so many seconds; ``failure`` says what there is instead."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, failure()
        time.sleep(0.02)
