"""The lint on real arrays: it finds what falsifies a measurement, and reports nothing about a clean one."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from lab.arrays import operations
from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import ArraySpec
from lab.arrays.status import wait_until_idle
from lab.experiments.linting import lint_measured
from lab.experiments.run import BuiltArray, lint_bench, lint_kernel
from lab.experiments.schema import ArrayPlan
from lab.measure.job import LoadTarget, Measured, MeasureOptions, make_cold, run_workload
from lab.measure.samples import parse_diskstats
from lab.units import KIB, MIB
from lab.workloads.workload import Workload, find_workload
from tests.kernel.rig import DEVICE, NAME, Rig, file_disks
from tests.unit.results.records import cell

pytestmark = pytest.mark.kernel
DISKS = file_disks(4, 48)
SPEED_LIMIT = "/proc/sys/dev/raid/speed_limit_max"
"""Applies to arrays without a limit of their own (md(4))."""
READS = msgspec.structs.replace(
    find_workload("rand-read-4k"), queue_depth=4, jobs=1, runtime_seconds=2.0, warmup_seconds=0.0, file_bytes=16 * MIB
)
# By default fio empties the cache before each pass over its file.
CACHED = """
[read]
ioengine=psync
filename={filename}
size={size}
rw=randread
bs=4k
direct=0
invalidate=0
time_based
runtime={runtime}
group_reporting
"""


def built(rig: Rig, spec: ArraySpec) -> BuiltArray:
    disks = rig.lab.disks[: len(spec.members)]
    place = LoadTarget(NAME, spec.device, tuple(disk.kernel_name for disk in disks), FileSystem.RAW, 40 * MIB)
    return BuiltArray(ArrayPlan(id="a", level=spec.level, members=len(disks)), spec, disks, place)


def rules(rig: Rig, array: BuiltArray) -> set[str]:
    return {finding.rule_id for finding in lint_bench(rig.lab, array)}


def measure(rig: Rig, array: BuiltArray, workload: Workload, file_bytes: int = 16 * MIB) -> tuple[set[str], Measured]:
    measured = run_workload(rig.lab, array.target, workload, MeasureOptions(file_bytes=file_bytes, hertz=10.0))
    found = lint_measured(cell("a", workload.id, 0, figures=measured.figures), workload, measured)
    return {finding.rule_id for finding in found}, measured


def test_a_clean_array_raises_nothing_and_counters_that_are_off_do(rig: Rig) -> None:
    array = built(rig, rig.create("raid1", 2))
    assert rules(rig, array) == set()
    assert lint_kernel(rig.lab) == ()
    found, measured = measure(rig, array, READS)
    assert not found & {"io-not-on-members", "resync-running", "mixed-directions"}
    assert measured.members is not None
    assert measured.members.read_bytes > 0
    iostats = f"/sys/block/{rig.lab.disks[0].kernel_name}/queue/iostats"
    rig.lab.machine.write(iostats, "0")
    try:
        assert rules(rig, array) == {"stats-off"}
    finally:
        rig.lab.machine.write(iostats, "1")


def test_a_resync_is_seen_before_and_while_measuring(rig: Rig) -> None:
    spec = ArraySpec("raid1", rig.nodes[:2])
    # The limit is the lowest one that md applies under load, and is set before the resync starts: on any computer the
    # resync then takes longer than the job.
    before = (rig.lab.machine.read([SPEED_LIMIT])[SPEED_LIMIT] or "").strip()
    rig.lab.machine.write(SPEED_LIMIT, "1000")
    try:
        rig.lab.execute(spec.creation())
        rig.lab.execute(operations.set_sync_speed(NAME, minimum_kib_per_second=1000, maximum_kib_per_second=1000))
    finally:
        rig.lab.machine.write(SPEED_LIMIT, before)
    array = built(rig, spec)
    assert rules(rig, array) == {"resync-running"}
    assert "resync-running" in measure(rig, array, READS)[0]
    rig.lab.execute(operations.set_sync_speed(NAME, minimum_kib_per_second=200_000, maximum_kib_per_second=200_000))
    wait_until_idle(rig.lab.machine, NAME)
    assert rules(rig, array) == set()


def test_reads_from_the_page_cache_are_seen(rig: Rig) -> None:
    array = built(rig, rig.create("raid1", 2))
    buffered = msgspec.structs.replace(READS, direct=False, engine="psync", queue_depth=1, recipe=CACHED)
    # The last close of a block device empties its page cache, so the job itself must read each block several times.
    assert "io-not-on-members" in measure(rig, array, buffered, MIB)[0]


def test_a_member_of_two_arrays_is_seen(rig: Rig) -> None:
    array = built(rig, rig.create("raid1", 2))
    stranger = ArraySpec("raid1", rig.nodes[:2], name="md9")
    assert rules(rig, replace(array, spec=stranger)) >= {"member-reused", "device-missing"}


def test_a_cold_start_forgets_the_stripes_that_md_keeps(rig: Rig) -> None:
    rig.create("raid5", 4, chunk_bytes=64 * KIB)
    size = f"/sys/block/{NAME}/md/stripe_cache_size"
    rig.lab.machine.write(size, "300")
    first, again = member_reads(rig), member_reads(rig)
    dropped = make_cold(rig.lab, FileSystem.RAW, DEVICE, rig.lab.disks[:4], (NAME,))
    assert "md's stripe caches emptied" in dropped
    assert first > 0
    assert again == 0
    assert member_reads(rig) > 0
    assert (rig.lab.machine.read([size])[size] or "").strip() == "300"


def member_reads(rig: Rig) -> int:
    """Reads on the members during 64 small writes to the same stripes; md always keeps 17 stripes in its cache."""

    def count() -> int:
        disks = parse_diskstats(rig.lab.machine.read(["/proc/diskstats"])["/proc/diskstats"] or "")
        return sum(disks[node.removeprefix("/dev/")].reads for node in rig.nodes[:4])

    before = count()
    options = ("bs=4k", "count=64", "oflag=direct", "conv=notrunc", "status=none")
    rig.lab.machine.run(("dd", "if=/dev/urandom", f"of={DEVICE}", *options))
    return count() - before
