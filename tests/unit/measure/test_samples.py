"""Samples of a machine, their recording, the account of the processor, and what is measured of a drive."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.arrays.status import SyncProgress
from lab.disks import DiskKind, LabDisk
from lab.errors import MachineLost
from lab.machine.api import RawSample, SampleRequest
from lab.measure import job as measuring
from lab.measure.job import Measured, account, probe_disk
from lab.measure.samples import (
    CpuTicks,
    DiskCounters,
    Recorder,
    Sample,
    ThreadTicks,
    busy_fraction,
    parse_cpu,
    parse_diskstats,
    rates_between,
    read_sample,
    sample_request,
)
from lab.results.record import CpuFigures
from lab.units import GIB, MIB
from lab.workloads.fio_output import JobFigures
from lab.workloads.workload import Workload, find_workload
from tests.unit.fakes import FakeMachine, FakeSampleStream
from tests.unit.measure.samples_of import counters, raw, sample
from tests.unit.results.records import cell, direction
from tests.waiting import PATIENCE_SECONDS

# Linux 6.18 (x86_64), 2026-11-21: a disk, and a device that was never used; the first lines of /proc/stat.
DISKSTATS = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 2916939 33454 57708530 521941 920997 376868 120866912 644722 3 148544 1194138 358242 21 32653192 27304
"""
STAT = """\
cpu  220522 68906 165606 765945 3216 7 1639 714 11 13
cpu0 126665 32074 79738 373228 1248 0 76 355 0 0
ctxt 5170542
"""


def test_diskstats() -> None:
    assert parse_diskstats(DISKSTATS) == {
        "loop0": DiskCounters(0, 0, 0.0, 0, 0, 0.0, 0, 0.0),
        "vda": DiskCounters(
            reads=2916939,
            read_bytes=57708530 * 512,
            read_wait_seconds=521.941,
            writes=920997,
            written_bytes=120866912 * 512,
            write_wait_seconds=644.722,
            in_flight=3,
            busy_seconds=148.544,
        ),
    }
    # A torn line is left out.
    assert parse_diskstats(" 254 0 vda 1 2 3\n") == {}


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        # Guests are counted once, and waiting as idle.
        (STAT, CpuTicks(busy=220522 + 68906 + 165606 + 7 + 1639, idle=765945 + 3216, steal=714)),
        # An old kernel has fewer columns.
        ("cpu  1 2 4 8\n", CpuTicks(busy=7, idle=8, steal=0)),
        *((text, None) for text in ("", "cpu0 1 2 3 4\n", "cpu  1 2\n", "intr 5 6 7 8\n")),
    ],
)
def test_proc_stat(text: str, ticks: CpuTicks | None) -> None:
    assert parse_cpu(text) == ticks


def test_a_request_for_an_array_and_for_a_bare_disk() -> None:
    request = sample_request("md0", ("ubda", "ubdb"), hertz=10)
    assert request.interval_seconds == pytest.approx(0.1)
    assert request.block_devices == ("md0", "ubda", "ubdb")
    assert request.thread_prefixes == ("md0_",)
    md = [f"/sys/block/md0/md/{name}" for name in ("sync_action", "sync_completed", "degraded")]
    assert request.files == ("/proc/stat", "/proc/diskstats", *md)
    bare = sample_request(None, ("ubda",), hertz=20)
    assert (bare.block_devices, bare.thread_prefixes, bare.interval_seconds) == (("ubda",), (), 0.05)
    assert bare.files == ("/proc/stat", "/proc/diskstats")


def test_a_sample_of_an_array() -> None:
    files: dict[str, str | None] = {
        "/proc/stat": STAT,
        "/proc/diskstats": DISKSTATS,
        "/sys/block/md0/md/sync_action": "recover\n",
        "/sys/block/md0/md/sync_completed": "1024 / 1019904\n",
        "/sys/block/md0/md/degraded": "1\n",
    }
    read = read_sample(raw(5.0, {"md0_raid5/81": 7}, files), "md0", ThreadTicks())
    assert (read.time_seconds, read.md_thread_ticks, read.sync_action) == (5.0, 7, "recover")
    assert (read.sync_progress, read.degraded_count) == (SyncProgress(1024, 1019904), 1)
    assert read.cpu == parse_cpu(STAT)
    assert set(read.disks) == {"loop0", "vda"}


def test_missing_files_give_empty_values() -> None:
    read = read_sample(raw(1.0, files={"/proc/stat": None}), "md0", ThreadTicks())
    assert read == Sample(1.0, {}, None, 0, "", None, None)


@given(st.lists(st.dictionaries(st.sampled_from(["md0_raid5/81", "md0_resync/90"]), st.integers(0, 1000))))
def test_cpu_time_of_threads_never_falls(spent: list[dict[str, int]]) -> None:
    threads = ThreadTicks()
    counted: dict[str, int] = {}
    sums = []
    for more in spent:
        counted |= {name: counted.get(name, 0) + ticks for name, ticks in more.items()}
        # A thread that did nothing, or has ended, need not be there.
        sums.append(read_sample(raw(0.0, {name: counted[name] for name in more}), "md0", threads).md_thread_ticks)
        assert sums[-1] == sum(counted.values())
    assert sums == sorted(sums)


def test_rates_of_one_interval() -> None:
    before = sample(1.0, disk=counters(reads=10, writes=5, read_bytes=4096, written_bytes=512))
    after = sample(
        3.0,
        disk=counters(
            reads=30,
            writes=15,
            read_bytes=4096 + 81920,
            written_bytes=1024,
            read_wait_seconds=0.2,
            write_wait_seconds=0.1,
            busy_seconds=0.5,
        ),
    )
    rates = rates_between(before, after, "ubda")
    assert rates
    assert (rates.read_iops, rates.write_iops, rates.read_bytes_per_second) == (10, 5, 40960)
    assert (rates.write_bytes_per_second, rates.utilisation) == (256, 0.25)
    assert rates.mean_wait_seconds == pytest.approx(0.01)


def test_no_rates_without_time_or_device() -> None:
    here, there = sample(1.0, disk=counters()), sample(2.0)
    assert rates_between(here, there, "ubda") is None
    assert rates_between(there, here, "ubda") is None
    assert rates_between(here, here, "ubda") is None
    # Busy for longer than the interval: the kernel's clock is coarse.
    found = rates_between(here, sample(2.0, disk=counters(busy_seconds=1.01)), "ubda")
    assert found
    assert (found.mean_wait_seconds, found.utilisation) == (None, 1.0)


def test_busy_fraction() -> None:
    assert busy_fraction(sample(busy=100, idle=100), sample(busy=130, idle=170)) == pytest.approx(0.3)
    assert busy_fraction(sample(busy=100, idle=100), sample(busy=100, idle=100)) is None
    assert busy_fraction(sample(), sample(busy=1)) is None


def job(ios: int, *, seconds: float = 9.0, total_bytes: int = GIB) -> JobFigures:
    reads = replace(direction(1.0, seconds=seconds), total_ios=ios, io_bytes=total_bytes)
    return replace(cell("", "", 0).figures, reads=reads)


def figures_of(busy: int, idle: int, baseline: float, ios: int = 1000) -> CpuFigures:
    samples = (sample(0, busy=50, idle=50), sample(9, busy=50 + busy, idle=50 + idle))
    found = account(samples, job(ios, total_bytes=GIB if ios else 0), baseline)
    assert found
    return found


def test_the_idle_machines_share_is_taken_off() -> None:
    found = figures_of(300, 700, 0.1)
    assert found.cpu_seconds_total == pytest.approx(3.0 - 0.1 * 10.0)
    assert found.cpu_microseconds_per_io == pytest.approx(2000.0)
    assert found.cpu_seconds_per_gib == pytest.approx(2.0)
    assert found.idle_baseline_fraction == 0.1
    # The idle share may exceed what was used.
    assert figures_of(50, 950, 0.1).cpu_seconds_total == 0


def test_without_ios_there_is_no_cost_per_io() -> None:
    found = figures_of(300, 700, 0.0, ios=0)
    assert (found.cpu_microseconds_per_io, found.cpu_seconds_per_gib) == (None, None)
    # A few ticks of the clock are no cost either.
    found = figures_of(9, 991, 0.0)
    assert (found.cpu_microseconds_per_io, found.cpu_seconds_per_gib) == (None, None)
    assert figures_of(10, 990, 0.0).cpu_microseconds_per_io == pytest.approx(100.0)


def test_threads_of_md_and_stolen_time() -> None:
    samples = (sample(busy=0, idle=0, md_ticks=10), sample(busy=60, idle=20, steal=20, md_ticks=35))
    found = account(samples, job(1), 0.0)
    assert found
    assert found.md_thread_cpu_seconds == pytest.approx(0.25)
    assert found.steal_fraction == pytest.approx(0.2)


@pytest.mark.parametrize("samples", [(), (sample(busy=1),), (sample(), sample(busy=1)), (sample(busy=1), sample())])
def test_no_account_without_two_samples_with_counters(samples: tuple[Sample, ...]) -> None:
    assert account(samples, job(1), 0.0) is None


WINDOW = (sample(100.0, busy=0, idle=0), sample(104.0, busy=400, idle=0), sample(108.0, busy=800, idle=0))


def test_ios_are_scaled_to_what_lies_between_the_samples() -> None:
    # Ten seconds of fio, of which the samples cover eight: 8 s of CPU for 80 % of the 1000 reads and 500 writes.
    mix = replace(job(1000, seconds=10.0), writes=job(500, seconds=9.0).reads)
    found = account(WINDOW, mix, 0.0)
    assert found
    assert found.cpu_seconds_total == pytest.approx(8.0)
    assert found.cpu_microseconds_per_io == pytest.approx(8e6 / 1200)
    assert found.cpu_seconds_per_gib == pytest.approx(8.0 / 1.6)
    # A window longer than the job does not multiply its I/Os.
    found = account(WINDOW, job(1000, seconds=5.0), 0.0)
    assert found
    assert found.cpu_microseconds_per_io == pytest.approx(8e6 / 1000)


class LiveStream(FakeSampleStream):
    """Gives samples until it is stopped, as the agent does."""

    def __init__(self) -> None:
        super().__init__(())
        self.stopped = threading.Event()

    def __iter__(self) -> Iterator[RawSample]:
        yield raw(1.0)
        self.stopped.wait(PATIENCE_SECONDS)
        yield raw(2.0)

    def stop(self) -> None:
        self.stopped.set()


class BrokenStream(LiveStream):
    """The machine vanishes after the first sample."""

    def __iter__(self) -> Iterator[RawSample]:
        yield raw(1.0)
        raise MachineLost("gone")

    def stop(self) -> None:
        raise MachineLost("gone")


class StreamingMachine(FakeMachine):
    def __init__(self, stream: LiveStream) -> None:
        super().__init__()
        self.stream_given = stream

    def sample(self, request: SampleRequest) -> FakeSampleStream:
        super().sample(request)
        return self.stream_given


def test_samples_are_stored_in_order_and_passed_on() -> None:
    machine = FakeMachine(samples=[raw(1.0), raw(2.0), raw(3.0)])
    reported: list[Sample] = []
    with Recorder(machine, "md0", ("ubda",), hertz=5, on_sample=reported.append) as recorder:
        pass
    assert [each.time_seconds for each in recorder.samples] == [1.0, 2.0, 3.0]
    assert reported == list(recorder.samples)
    assert recorder.between(2.0, 3.0) == recorder.samples[1:]
    assert recorder.between(1.0, 2.0) == recorder.samples[:2]
    assert machine.sample_requests[0].interval_seconds == pytest.approx(0.2)
    assert machine.sample_requests[0].block_devices == ("md0", "ubda")


def test_leaving_stops_the_stream_and_waits_for_pending_samples() -> None:
    stream = LiveStream()
    with Recorder(StreamingMachine(stream), None, ()) as recorder:
        assert not stream.stopped.is_set()
    assert stream.stopped.is_set()
    assert [each.time_seconds for each in recorder.samples] == [1.0, 2.0]


def test_a_lost_machine_is_raised_and_hides_no_other_error() -> None:
    with pytest.raises(MachineLost), Recorder(StreamingMachine(BrokenStream()), None, ()):
        pass
    with pytest.raises(KeyError, match="the first"), Recorder(StreamingMachine(BrokenStream()), None, ()):
        raise KeyError("the first")


IOPS = {("read", 1): 73.4, ("write", 1): 71.8}
READS, WRITES, STREAM = find_workload("rand-read-4k"), find_workload("rand-write-4k"), find_workload("seq-write-1m")
DRIVE = LabDisk(name="disk01", kind=DiskKind.SPINDLE, node="/dev/nbd0", size_bytes=64 * MIB, model="hdd-7200")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Workload]:
    """Every load that a probe measures. The probe finds the values of IOPS, or 1000 for other loads."""
    asked: list[Workload] = []

    def run(_lab: object, _target: object, workload: Workload, _options: object) -> Measured:
        asked.append(workload)
        way = workload.direction.value
        found = direction(IOPS.get((way, workload.queue_depth), 1000.0), block_bytes=workload.block_bytes)
        reads, writes = (found, None) if way == "read" else (None, found)
        figures = replace(cell("", "", 0).figures, reads=reads, writes=writes)
        return Measured(figures=figures, cpu=None, samples=(), job_text="", file_bytes=None)

    monkeypatch.setattr(measuring, "run_workload", run)
    return asked


def test_reads_and_writes_of_an_emulated_drive_are_measured_apart(asked: list[Workload]) -> None:
    """In real time a write takes longer than a read, so theory for one must not use the rate of the other."""
    rates = probe_disk(None, DRIVE, [WRITES], rebuilds=False)  # type: ignore[arg-type]
    assert (rates.random_read_iops, rates.random_write_iops) == (73.4, 71.8)
    assert {(each.direction.value, each.queue_depth, each.jobs) for each in asked} == {("read", 1, 1), ("write", 1, 1)}


@pytest.mark.parametrize(
    ("workloads", "rebuilds", "measured"),
    [
        ([READS], False, {"rand-read-4k"}),
        ([STREAM], False, {"seq-read-1m", "seq-write-1m"}),
        ([], True, {"seq-read-1m", "seq-write-1m"}),
        ([READS, STREAM], False, {"seq-read-1m", "seq-write-1m", "rand-read-4k", "rand-write-4k"}),
    ],
)
def test_what_no_theory_asks_for_is_not_measured(
    asked: list[Workload], workloads: list[Workload], rebuilds: bool, measured: set[str]
) -> None:
    rates = probe_disk(None, DRIVE, workloads, rebuilds=rebuilds)  # type: ignore[arg-type]
    assert {each.id for each in asked} == measured
    assert min(rates.random_read_iops, rates.sequential_read_bytes_per_second) > 0
