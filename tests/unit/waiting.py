"""Waits for real processes and threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.host.clock import HostClock, wait_for


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie (proc(5), field 3 of stat)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(is_reached: Callable[[], object], what: str = "it") -> None:
    """Raises WaitTimedOut after a minute."""
    wait_for(is_reached, bool, what=what, timeout_seconds=60, clock=HostClock(), interval_seconds=0.02)
