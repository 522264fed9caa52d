"""File systems on a real array, and every workload of the catalogue with figures that other counters confirm."""

from __future__ import annotations

import itertools

import pytest

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem, free_bytes, mount_point
from lab.arrays.spec import ArraySpec
from lab.arrays.status import read_arrays
from lab.errors import WorkloadError
from lab.measure.job import BackgroundLoad, FioRun, LoadTarget, Measured, MeasureOptions, run_workload
from lab.measure.samples import FEWEST_TICKS, TICKS_PER_SECOND, Recorder
from lab.units import MIB
from lab.workloads.fio_output import LiveInterval
from lab.workloads.jobs import LEAST_SPACE_BYTES, fio_invocations
from lab.workloads.workload import Direction, LoadProgram, Verify, Workload, all_workloads, find_workload
from tests.kernel.rig import DEVICE, NAME, Rig, file_disks

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

DISKS = file_disks(4, 128)
SHORT = MeasureOptions(runtime_seconds=2.0, warmup_seconds=0.0, file_bytes=4 * MIB)
CHECKS = {FileSystem.EXT4: ("e2fsck", "-f", "-n", DEVICE), FileSystem.XFS: ("xfs_repair", "-n", DEVICE)}


@pytest.fixture
def spec(module_rig: Rig) -> ArraySpec:
    """A RAID 5 of 4 members, kept from the previous test if it is still intact. XFS needs its 378 MiB."""
    arrays = read_arrays(module_rig.lab.machine)
    if [(array.level, array.in_sync_count) for array in arrays] == [("raid5", 4)]:
        return module_rig.spec("raid5", 4)
    module_rig.blank()
    return module_rig.create("raid5", 4)


@pytest.fixture
def raw(module_rig: Rig, spec: ArraySpec) -> LoadTarget:
    return module_rig.place(spec)


def expect_directions(measured: Measured, workload: Workload) -> None:
    figures = measured.figures
    assert figures.job_name == workload.id or workload.recipe
    for part, other in ((figures.reads, Direction.WRITE), (figures.writes, Direction.READ)):
        assert (part is not None) is (workload.direction is not other)
        if part:
            assert part.iops > 0
            # Requests of a trace have different sizes.
            assert workload.trace or part.io_bytes == part.total_ios * workload.block_bytes
            if workload.program is LoadProgram.FIO:
                assert part.p50_seconds
                assert part.max_seconds
                assert part.p50_seconds <= part.max_seconds


@pytest.mark.parametrize("workload", all_workloads().values(), ids=list(all_workloads()))
def test_every_workload_gives_its_directions_and_an_account(
    module_rig: Rig, raw: LoadTarget, workload: Workload
) -> None:
    # Two seconds of a trace may contain no burst, and a check under load only reads after something was written.
    seconds = 5.0 if workload.trace else 3.0 if workload.verify is Verify.UNDER_LOAD else SHORT.runtime_seconds
    # A high sampling rate leaves enough samples on a busy computer.
    options = MeasureOptions(seconds, 0.0, file_bytes(workload), hertz=20.0)
    measured = run_workload(module_rig.lab, raw, workload, options)
    expect_directions(measured, workload)
    if workload.program is LoadProgram.DD:
        # dd ends when it has copied everything, perhaps between two samples: then there is nothing to count.
        return
    assert measured.cpu
    # The machine has one processor, which cannot have worked for longer than the time between the samples.
    assert 0 < measured.cpu.cpu_seconds_total <= measured.samples[-1].time_seconds - measured.samples[0].time_seconds
    # The few requests of a trace, or of a busy computer, cost too few ticks to say anything.
    is_accounted = round(measured.cpu.cpu_seconds_total * TICKS_PER_SECOND) >= FEWEST_TICKS
    assert bool(measured.cpu.cpu_microseconds_per_io) is is_accounted
    if is_accounted and not workload.trace:
        assert (measured.cpu.md_thread_cpu_seconds > 0) is workload.writes


def file_bytes(workload: Workload) -> int:
    """Enough for two seconds: a timed job starts over, while a job that re-reads ends once everything is read."""
    if workload.verify is Verify.REREAD:
        return 48 * MIB
    least = LEAST_SPACE_BYTES if workload.trace else 4 * MIB
    return max(least, 16 * workload.block_bytes)


@pytest.mark.parametrize("kind", list(FileSystem))
def test_file_systems_carry_verified_data(module_rig: Rig, spec: ArraySpec, kind: FileSystem) -> None:
    lab, size = module_rig.lab, module_rig.size_bytes()
    stripe = spec.raid.full_stripe_bytes(4)
    chunk = spec.effective_chunk_bytes
    lab.execute(filesystem.make(kind, DEVICE, size_bytes=size, chunk_bytes=chunk, full_stripe_bytes=stripe))
    lab.execute(filesystem.mount(kind, DEVICE))
    place_of = mount_point(DEVICE)
    room = size if kind is FileSystem.RAW else free_bytes(lab.machine, place_of)
    assert size * 0.7 < room <= size
    mounts = lab.machine.read(["/proc/mounts"])["/proc/mounts"] or ""
    assert (f"{DEVICE} {place_of} {kind} " in mounts) is (kind is not FileSystem.RAW)
    workload = find_workload("verify-4k")
    measured = run_workload(lab, module_rig.place(spec, kind, room), workload, SHORT)
    expect_directions(measured, workload)
    if kind is not FileSystem.RAW:
        sizes = lab.machine.run(("sh", "-c", f"stat -c %s {place_of}/raidlab.*")).stdout.split()
        assert sizes == [str(SHORT.file_bytes)] * workload.jobs
    lab.execute(filesystem.unmount(kind, DEVICE))
    if kind in CHECKS:
        lab.machine.run(CHECKS[kind])


def test_verify_under_load_notices_damage_behind_mds_back(rig: Rig) -> None:
    # On RAID 0 a read returns damage on a member as it is.
    spec = rig.create("raid0", 2)
    place, workload = rig.place(spec), find_workload("verify-load-4k")
    offset = (rig.status.members[0].data_offset_sectors or 0) * 512
    damage = (
        f"while :; do dd if=/dev/urandom of={spec.members[0]} bs=1M seek={offset // MIB} count=4 oflag=direct; done"
    )
    written = rig.written_bytes(DEVICE)
    with Recorder(rig.lab.machine, NAME, place.members) as recorder:
        load = BackgroundLoad(rig.lab, place, workload, SHORT, longest_run_seconds=600)
        rig.wait(lambda _: rig.written_bytes(DEVICE) > written, "the load to write")
        damaging = rig.lab.machine.stream(("sh", "-c", damage), is_aside=True)
        # fio ends with the first block that differs.
        try:
            rig.wait(lambda _: load._outcome.done(), "the load to end")
        finally:
            damaging.stop()
        with pytest.raises(WorkloadError, match="data differ from what was written"):
            load.stop(recorder.between)


@pytest.mark.parametrize("name", ["rand-read-4k", "rand-write-4k", "seq-read-1m", "seq-write-1m"])
def test_fio_live_values_and_the_arrays_counters_agree(rig: Rig, name: str) -> None:
    # RAID 10 with the largest possible file: every I/O of fio is one I/O of the array, and there are no parity reads.
    spec = rig.create("raid10", 4)
    place, workload = rig.place(spec), find_workload(name)
    # So long that even a very busy computer prints enough documents. The run is not stopped early, since the figures
    # must also end where their window ends.
    invocations = fio_invocations(
        workload,
        place.job_target(file_bytes=16 * MIB),
        runtime_seconds=15.0,
        warmup_seconds=0.5,
        status_interval_seconds=0.25,
    )
    intervals: list[LiveInterval] = []
    column = 2 if workload.direction is Direction.READ else 6
    before = sectors(rig, column)
    (measured,) = FioRun(rig.lab, workload, intervals.append).run(invocations)
    counted = (sectors(rig, column) - before) * 512
    assert len(intervals) >= 8
    # Including ramp and drain, the live values add up to everything that the array did.
    assert sum(map(live_bytes, intervals)) == pytest.approx(counted, rel=0.02)
    # The figures cover the time between two documents, and so whole intervals.
    part = measured.figures.reads or measured.figures.writes
    assert part
    clocks = list(itertools.accumulate(interval.interval_seconds for interval in intervals))
    begin = measured.figures.window_begin_seconds
    assert begin is not None
    inside = [
        interval
        for interval, clock in zip(intervals, clocks, strict=True)
        if begin + 0.001 < clock < begin + part.runtime_seconds + 0.001
    ]
    assert sum(interval.interval_seconds for interval in inside) == pytest.approx(part.runtime_seconds)
    assert sum(map(live_bytes, inside)) == pytest.approx(part.io_bytes)
    assert part.total_ios == part.io_bytes // workload.block_bytes
    # The window begins with the first document that is not too early for the end of the warm-up.
    assert begin == pytest.approx(min(clock for clock in clocks if clock >= 0.5 - 0.2 * 0.25))


def live_bytes(interval: LiveInterval) -> float:
    side = interval.reads or interval.writes
    return side.bandwidth_bytes_per_second * interval.interval_seconds if side else 0.0


def sectors(rig: Rig, column: int) -> int:
    path = f"/sys/block/{NAME}/stat"
    return int((rig.lab.machine.read([path])[path] or "").split()[column])
