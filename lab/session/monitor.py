"""Looks at all arrays and disks at one time of the machine's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.arrays.status import ArrayStatus
from lab.measure.samples import CpuTicks, DiskCounters, parse_cpu, parse_diskstats
from lab.session.session import LabSession


@dataclass(frozen=True, slots=True)
class Look:
    """One look at everything."""

    time_seconds: float
    """On the machine's monotonic clock."""
    arrays: tuple[ArrayStatus, ...]
    disks: Mapping[str, DiskCounters]
    """Counters by kernel name: arrays, their members and the lab's disks."""
    cpu: CpuTicks | None = None
    md_thread_ticks: Mapping[str, int] | None = None
    """CPU time of md's threads for each array, in hundredths of a second since the first look."""

    def array(self, name: str) -> ArrayStatus | None:
        """The array of this name."""
        return next((status for status in self.arrays if status.name == name), None)


def look_once(session: LabSession, name: str | None = None) -> Look:
    """Read everything once; with ``name`` this array alone. Raises ArrayError if it does not run."""
    arrays = (session.status(name),) if name else session.statuses()
    texts = session.machine.read(["/proc/uptime", "/proc/diskstats", "/proc/stat"])
    # proc(5): the first number is the seconds since the start.
    uptime = (texts["/proc/uptime"] or "0").split()[0]
    return Look(
        float(uptime), arrays, parse_diskstats(texts["/proc/diskstats"] or ""), parse_cpu(texts["/proc/stat"] or "")
    )
