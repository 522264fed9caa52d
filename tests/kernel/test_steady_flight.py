"""Short runs measure what long ones do, at every depth: neither a ramp nor a drain is in them.

Six emulated drives of 13.3 ms, each with a load of its own at the same time, since they mostly wait: three long runs
and, beside them, many short ones of the same loads.
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
    for number in range(1, 7)
)
SERVICE_SECONDS = 0.0133
DEPTHS = (1, 4, 32)
SHORT_RUNS, MIDDLE_RUNS, LONG_SECONDS = 20, 4, 60.0
BIAS = 0.02


def measured(lab: Lab, disk: LabDisk, depth: int, seconds: float, runs: int) -> list[tuple[float, float]]:
    """IOPS and mean latency of each run, on addresses of its own."""
    place = Place(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)
    workload = msgspec.structs.replace(
        find_workload("rand-read-4k"),
        queue_depth=depth,
        jobs=1,
        runtime_seconds=seconds,
        warmup_seconds=min(seconds, max(0.2, 2 * depth * SERVICE_SECONDS)),
    )
    found = []
    for repeat in range(runs):
        reads = run_workload(lab, place, workload, MeasureOptions(seed=depth), repeat=repeat).figures.reads
        assert reads is not None
        found.append((reads.iops, reads.mean_seconds))
    return found


def test_runs_of_one_five_and_sixty_seconds_agree_at_every_depth(lab: Lab) -> None:
    def short(disk: LabDisk, depth: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        return measured(lab, disk, depth, 1.0, SHORT_RUNS), measured(lab, disk, depth, 5.0, MIDDLE_RUNS)

    with ThreadPoolExecutor(len(DISKS)) as pool:
        long_runs = {
            depth: pool.submit(measured, lab, disk, depth, LONG_SECONDS, 1)
            for depth, disk in zip(DEPTHS, lab.disks[:3], strict=True)
        }
        short_runs = {depth: pool.submit(short, disk, depth) for depth, disk in zip(DEPTHS, lab.disks[3:], strict=True)}
    for depth in DEPTHS:
        ((long_iops, long_mean),) = long_runs[depth].result()
        for runs in short_runs[depth].result():
            iops, latencies = zip(*runs, strict=True)
            assert statistics.fmean(iops) == pytest.approx(long_iops, rel=BIAS), f"depth {depth}: {iops}"
            # By Little's law, what is in flight is the same as well.
            assert statistics.fmean(latencies) == pytest.approx(long_mean, rel=2 * BIAS), f"depth {depth}"
