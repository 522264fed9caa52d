"""The CPU account: what the work cost, md's kernel threads included, without what the machine uses when idle.

fio counts only its own threads (RUSAGE_THREAD), so the parity thread's work is missing from its figures; /proc/stat
has all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.measure.samples import TICKS_PER_SECOND, Sample, busy_fraction
from lab.results.record import CpuFigures
from lab.units import GIB

FEWEST_TICKS = 10
"""With fewer busy ticks of the clock, the cost of one I/O is known to no better than one part in ten: no figure."""


def idle_fraction(samples: Sequence[Sample]) -> float:
    """Busy part of all CPU time in samples that were taken while nothing ran; 0 where it cannot be told."""
    if len(samples) < 2:
        return 0.0
    return busy_fraction(samples[0], samples[-1]) or 0.0


def cpu_figures(
    samples: Sequence[Sample],
    *,
    idle_baseline: float,
    total_ios: int,
    total_bytes: int,
    job_cpu_seconds: float | None = None,
) -> CpuFigures | None:
    """The account over the stretch that ``samples`` cover; I/Os and bytes are scaled to nothing: they belong to it.

    None without two samples that carry CPU counters.
    """
    if len(samples) < 2 or samples[0].cpu is None or samples[-1].cpu is None:
        return None
    first, last = samples[0].cpu, samples[-1].cpu
    busy, idle = last.busy - first.busy, last.idle - first.idle
    steal = last.steal - first.steal
    cpu_seconds = max(0.0, busy - idle_baseline * (busy + idle)) / TICKS_PER_SECOND
    is_known = busy >= FEWEST_TICKS
    md_seconds = (samples[-1].md_thread_ticks - samples[0].md_thread_ticks) / TICKS_PER_SECOND
    return CpuFigures(
        cpu_seconds_total=cpu_seconds,
        job_cpu_seconds=job_cpu_seconds,
        md_thread_cpu_seconds=md_seconds,
        cpu_microseconds_per_io=cpu_seconds * 1e6 / total_ios if total_ios and is_known else None,
        cpu_seconds_per_gib=cpu_seconds * GIB / total_bytes if total_bytes and is_known else None,
        idle_baseline_fraction=idle_baseline,
        steal_fraction=steal / (busy + idle + steal) if busy + idle + steal else None,
    )
