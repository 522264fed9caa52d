"""Whether twenty runs of one second, and four of five seconds, give the same pace as a run of a minute.

The queue depths are 1, 4 and 32 on one emulated drive, and 1 and 4 on a RAID 0 of two drives. Each run is measured the
way raidlab measures, and has different addresses. On the kernel with virtual time (the default), no other work on the
computer can disturb the runs. On an array, the figures also depend a little on the addresses of a run, so three
standard errors of the mean are subtracted there.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Annotated

from benchmarks.support.report import asked, finish, notice
from benchmarks.support.rig import drives
from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, Lab, specs
from lab.measure.job import LoadTarget, MeasureOptions, run_workload
from lab.units import MIB
from lab.workloads.workload import Workload, changed, find_workload
from tests.kernel.rig import bare

DEPTHS, SHALLOW = (1, 4, 32), (1, 4)
LONG_SECONDS, MIDDLE_SECONDS, SHORT_SECONDS = 60.0, 5.0, 1.0
BOUND = 0.02
SERVICE_SECONDS = 0.0133


@dataclass(frozen=True, slots=True)
class Options:
    on: str = "uml:?time=virtual"
    runs: Annotated[int, "number of runs of one second; a fifth as many take five"] = 20
    depths: tuple[int, ...] = DEPTHS


SMOKE = Options(runs=2, depths=(1,))


@dataclass(frozen=True, slots=True)
class Pace:
    device: str
    depth: int
    seconds: float
    iops: float
    error: float
    """Standard error of the mean, as a share of the mean."""


def places(lab: Lab) -> list[LoadTarget]:
    alone, *members = lab.disks
    spec = ArraySpec("raid0", tuple(disk.node for disk in members))
    lab.execute(spec.creation())
    size = sum(disk.size_bytes for disk in members) - 8 * MIB
    names = tuple(disk.kernel_name for disk in members)
    return [
        bare(alone),
        LoadTarget("md0", spec.device, names, FileSystem.RAW, size),
    ]


def short_reads(depth: int, seconds: float) -> Workload:
    """Return a workload of random reads for this time, after a warm-up in which the queue of a drive becomes steady."""
    return changed(
        find_workload("rand-read-4k"),
        queue_depth=depth,
        jobs=1,
        runtime_seconds=seconds,
        warmup_seconds=min(seconds, max(0.2, 2 * depth * SERVICE_SECONDS)),
    )


def pace(lab: Lab, place: LoadTarget, depth: int, seconds: float, runs: int) -> Pace:
    found = []
    for repeat in range(runs):
        options = MeasureOptions(seed=depth)
        reads = run_workload(lab, place, short_reads(depth, seconds), options, repeat=repeat).figures.reads
        assert reads is not None
        found.append(reads.iops)
    mean = statistics.fmean(found)
    error = statistics.stdev(found) / len(found) ** 0.5 / mean if runs > 1 else 0.0
    return Pace(place.array or "disk", depth, seconds, mean, error)


def main() -> None:
    options = asked(SMOKE)
    runs_of = {LONG_SECONDS: 1, MIDDLE_SECONDS: -(-options.runs // 5), SHORT_SECONDS: options.runs}
    wanted = specs(3, DiskKind.SPINDLE, size_bytes=64 * MIB, model="hdd-7200")
    worst, found = 0.0, []
    with drives(options.on, wanted) as lab:
        for place in places(lab):
            # Deeper queues of an array need more than a second to settle.
            for depth in [each for each in options.depths if place.array is None or each in SHALLOW]:
                paces = [pace(lab, place, depth, seconds, runs) for seconds, runs in runs_of.items()]
                for each in paces:
                    notice(str(each))
                # The addresses of a minute have about the same influence as those of twenty seconds.
                errors = 3 * max(each.error for each in paces) if place.array else 0.0
                worst = max(worst, *(abs(each.iops / paces[0].iops - 1) - errors for each in paces[1:]))
                found += paces
    finish(
        "largest deviation of short runs' mean from a run of a minute, beyond the influence of the addresses",
        worst,
        "<=",
        BOUND,
        paces=[asdict(each) for each in found],
        on=options.on,
    )


if __name__ == "__main__":
    main()
