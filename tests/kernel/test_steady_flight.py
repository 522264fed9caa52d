"""Short runs measure what long runs do at every depth: they contain neither a ramp nor a drain.

Two checks show this at any speed of the drives. The first one counts: at both edges of the measured window no fewer
requests are sent but not answered than there should be in flight. The second one uses Little's law: in steady state,
I/Os per second × mean latency is the number in flight, and it is lower while a queue fills or drains. A computer that
stalls at an edge moves the latencies of all requests in flight across the edge, and delays the document at the edge by
the same time, which fio's own clock shows. The product may be off by that much. benchmarks/steady_flight.py, which
nothing disturbs, measures that runs of one second and of a minute have the same rate.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
import pytest

from benchmarks.steady_flight import short_reads
from lab.disks import DiskKind, Lab, LabDisk, specs
from lab.measure.job import MeasureOptions, run_workload
from lab.units import MIB
from lab.workloads.fio_output import FioDocument, JobFigures, window_for
from tests.kernel.rig import bare

pytestmark = pytest.mark.kernel
DISKS = specs(3, DiskKind.SPINDLE, size_bytes=64 * MIB, model="hdd-7200")
MEASURES_DRIVES = True
DEPTHS = (1, 4, 32)
RUNS = {1.0: 11, 12.0: 1}
"""Seconds of a run -> number of runs."""
BIAS = 0.02
"""Including the drain, 32 requests in flight in a second of this drive would appear to be a quarter fewer."""
BLOCK_BYTES = 4096


@dataclass(frozen=True)
class Flight:
    """The requests in flight according to one run."""

    at_edges: tuple[int, ...]
    by_law: float
    late_fraction: float
    """The deviation of the time between the documents at the edges from fio's interval, as a fraction of the window."""


def flight(figures: JobFigures, interval_seconds: float) -> Flight:
    reads = figures.reads
    assert reads is not None
    edges = msgspec.json.decode(figures.raw_json, type=tuple[FioDocument, FioDocument])
    # Requests are counted shortly before they are sent, and their bytes shortly after they were answered.
    counts = tuple(edge.jobs[0].read.total_ios - edge.jobs[0].read.io_bytes // BLOCK_BYTES for edge in edges)
    seconds = reads.runtime_seconds
    late = abs(seconds - round(seconds / interval_seconds) * interval_seconds)
    return Flight(counts, reads.iops * reads.mean_seconds, late / seconds)


def flights(lab: Lab, disk: LabDisk, depth: int) -> dict[float, list[Flight]]:
    found = {}
    for seconds, runs in RUNS.items():
        workload = short_reads(depth, seconds)
        interval = window_for(workload.warmup_seconds, seconds).interval_seconds
        found[seconds] = [
            flight(run_workload(lab, bare(disk), workload, MeasureOptions(seed=depth), repeat=repeat).figures, interval)
            for repeat in range(runs)
        ]
    return found


def test_as_many_are_in_flight_in_runs_of_every_length(lab: Lab) -> None:
    with ThreadPoolExecutor(len(DISKS)) as pool:
        futures = {depth: pool.submit(flights, lab, disk, depth) for depth, disk in zip(DEPTHS, lab.disks, strict=True)}
    for depth, future in futures.items():
        for seconds, found in future.result().items():
            sentence = f"depth {depth}, {seconds} s: {found}"
            # fio sends the next request a moment after the last was answered.
            assert all(count >= depth for each in found for count in each.at_edges), sentence
            by_law = statistics.median(each.by_law for each in found)
            late = statistics.median(each.late_fraction for each in found)
            assert by_law == pytest.approx(depth, rel=BIAS + late), sentence
