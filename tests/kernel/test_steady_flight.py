"""Short runs measure what long ones do, at every depth: neither a ramp nor a drain is in them.

Told by Little's law: in steady flight I/Os per second × mean latency is the number in flight. That holds however fast
the drives are just now, so it needs no quiet computer; while a queue fills or drains, fewer are in flight. That runs of
one second and of a minute give the same pace is measured by benchmarks/steady_flight.py, where nothing can disturb.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from lab.arrays.filesystem import FileSystem
from lab.disks import DiskKind, DiskSpec, Lab, LabDisk
from lab.measure.job import MeasureOptions, Place, run_workload
from lab.units import MIB
from lab.workloads.catalogue import find_workload

pytestmark = pytest.mark.kernel
DISKS = tuple(
    DiskSpec(name=f"disk{number:02d}", kind=DiskKind.SPINDLE, size_bytes=64 * MIB, personality="hdd-7200")
    for number in range(1, 4)
)
SERVICE_SECONDS = 0.0133
DEPTHS = (1, 4, 32)
RUNS = {1.0: 11, 5.0: 3, 12.0: 1}
"""Seconds of a run -> how many."""
BIAS = 0.02
"""With the drain of 32 requests a second of this drive would show a quarter fewer."""


def in_flight(lab: Lab, disk: LabDisk, depth: int) -> dict[float, float]:
    """Requests in flight by length of run, in the median run of this length."""
    place = Place(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)
    found = {}
    for seconds, runs in RUNS.items():
        workload = msgspec.structs.replace(
            find_workload("rand-read-4k"),
            queue_depth=depth,
            jobs=1,
            runtime_seconds=seconds,
            warmup_seconds=min(seconds, max(0.2, 2 * depth * SERVICE_SECONDS)),
        )
        products = []
        for repeat in range(runs):
            reads = run_workload(lab, place, workload, MeasureOptions(seed=depth), repeat=repeat).figures.reads
            assert reads is not None
            products.append(reads.iops * reads.mean_seconds)
        # A computer that stands still at an edge of a run moves latencies across it.
        found[seconds] = statistics.median(products)
    return found


def test_as_many_are_in_flight_in_runs_of_every_length(lab: Lab) -> None:
    with ThreadPoolExecutor(len(DISKS)) as pool:
        futures = {
            depth: pool.submit(in_flight, lab, disk, depth) for depth, disk in zip(DEPTHS, lab.disks, strict=True)
        }
    for depth, future in futures.items():
        for seconds, found in future.result().items():
            # fio sends the next request a moment after the last was answered.
            assert found == pytest.approx(depth, rel=BIAS), f"depth {depth}, {seconds} s: {found}"
