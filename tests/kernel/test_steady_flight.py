"""Short runs measure what long ones do, at every depth: neither a ramp nor a drain is in them.

Told in two ways that hold however fast the drives are just now. By counting: at both edges of the measured stretch no
fewer requests are sent and not answered than are to be in flight. And by Little's law: in steady flight I/Os a second
× mean latency is the number in flight; while a queue fills or drains, fewer are. A computer that stands still at an
edge moves the latencies of all in flight across it, and delays the document that is the edge by as much, which fio's
own clock tells: by so much more a product may be off. That runs of one second and of a minute give the same pace is
measured by benchmarks/steady_flight.py, where nothing can disturb.
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
"""Seconds of a run -> how many."""
BIAS = 0.02
"""With the drain of 32 requests a second of this drive would show a quarter fewer."""
BLOCK_BYTES = 4096


@dataclass(frozen=True)
class Flight:
    """What one run says of the requests in flight."""

    at_edges: tuple[int, ...]
    by_law: float
    late_fraction: float
    """By how much the documents at the two edges lie nearer or further apart than fio was told, of the stretch."""


def flight(figures: JobFigures, interval_seconds: float) -> Flight:
    reads = figures.reads
    assert reads is not None
    edges = msgspec.json.decode(figures.raw_json, type=tuple[FioDocument, FioDocument])
    # Requests are counted a little before they are sent, and their bytes a little after they were answered.
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
