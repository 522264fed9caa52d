from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.arrays.status import SyncProgress
from lab.measure.samples import (
    CpuTicks,
    DiskCounters,
    SampleReader,
    ThreadTicks,
    busy_fraction,
    parse_cpu,
    parse_diskstats,
    rates_between,
    sample_request,
)
from tests.unit.measure.samples_of import counters, raw, sample

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


def test_a_torn_line_of_diskstats_is_left_out() -> None:
    assert parse_diskstats(" 254 0 vda 1 2 3\n") == {}


def test_cpu_counts_guests_once_and_waiting_as_idle() -> None:
    assert parse_cpu(STAT) == CpuTicks(busy=220522 + 68906 + 165606 + 7 + 1639, idle=765945 + 3216, steal=714)


@pytest.mark.parametrize("text", ["", "cpu0 1 2 3 4\n", "cpu  1 2\n", "intr 5 6 7 8\n"])
def test_what_is_no_proc_stat(text: str) -> None:
    assert parse_cpu(text) is None


def test_an_old_kernel_has_fewer_columns() -> None:
    assert parse_cpu("cpu  1 2 4 8\n") == CpuTicks(busy=7, idle=8, steal=0)


def test_a_request_for_an_array_and_for_a_bare_disk() -> None:
    request = sample_request("md0", ("ubda", "ubdb"), hertz=10)
    assert request.interval_seconds == pytest.approx(0.1)
    assert request.block_devices == ("md0", "ubda", "ubdb")
    assert request.thread_prefixes == ("md0_",)
    md = [f"/sys/block/md0/md/{name}" for name in ("sync_action", "sync_completed", "degraded")]
    assert request.files == ("/proc/stat", "/proc/diskstats", *md)
    bare = sample_request(None, ("ubda",), hertz=1000)
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
    read = SampleReader("md0").read(raw(5.0, {"md0_raid5/81": 7}, files))
    assert (read.time_seconds, read.md_thread_ticks, read.sync_action) == (5.0, 7, "recover")
    assert (read.sync_progress, read.degraded_count) == (SyncProgress(1024, 1019904), 1)
    assert read.cpu == parse_cpu(STAT)
    assert set(read.disks) == {"loop0", "vda"}


def test_files_that_are_gone_give_empty_values() -> None:
    read = SampleReader("md0").read(raw(1.0, files={"/proc/stat": None}))
    assert (read.cpu, read.disks, read.sync_action, read.sync_progress, read.degraded_count) == (
        None,
        {},
        "",
        None,
        None,
    )


def test_an_ended_thread_keeps_its_ticks() -> None:
    reader = SampleReader("md0")
    seen = [{"md0_raid5/81": 5, "md0_resync/90": 3}, {"md0_raid5/81": 6}, {"md0_raid5/81": 8, "md0_reshape/97": 2}]
    assert [reader.read(raw(0.0, ticks)).md_thread_ticks for ticks in seen] == [8, 9, 13]


def test_each_resync_has_a_thread_of_its_own() -> None:
    reader = SampleReader("md0")
    seen = [{"md0_resync/90": 30}, {}, {"md0_resync/95": 1}, {"md0_resync/95": 4}]
    assert [reader.read(raw(0.0, ticks)).md_thread_ticks for ticks in seen] == [30, 30, 31, 34]


def test_threads_are_summed_by_their_array() -> None:
    threads = ThreadTicks()
    assert threads.add({"md0_raid5/81": 5, "md127_raid1/82": 3}) == {"md0": 5, "md127": 3}
    assert threads.add({"md127_resync/90": 4}) == {"md0": 5, "md127": 7}


@given(st.lists(st.dictionaries(st.sampled_from(["md0_raid5/81", "md0_resync/90"]), st.integers(0, 1000))))
def test_cpu_time_of_threads_never_falls(spent: list[dict[str, int]]) -> None:
    reader = SampleReader("md0")
    counted: dict[str, int] = {}
    sums = []
    for more in spent:
        counted |= {name: counted.get(name, 0) + ticks for name, ticks in more.items()}
        # A thread that did nothing, or has ended, need not be there.
        sums.append(reader.read(raw(0.0, {name: counted[name] for name in more})).md_thread_ticks)
        assert sums[-1] == sum(counted.values())
    assert sums == sorted(sums)


amounts = st.integers(0, 10**9)
counted = st.builds(
    counters,
    reads=amounts,
    writes=amounts,
    read_bytes=amounts,
    written_bytes=amounts,
    read_wait_seconds=st.floats(0, 1e6),
    write_wait_seconds=st.floats(0, 1e6),
    busy_seconds=st.floats(0, 1e6),
)


def sum_of(a: DiskCounters, b: DiskCounters) -> DiskCounters:
    return counters(
        a.reads + b.reads,
        a.writes + b.writes,
        a.read_bytes + b.read_bytes,
        a.written_bytes + b.written_bytes,
        a.read_wait_seconds + b.read_wait_seconds,
        a.write_wait_seconds + b.write_wait_seconds,
        a.busy_seconds + b.busy_seconds,
    )


@given(start=counted, first=counted, second=counted, lengths=st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)))
def test_rates_weighted_by_time_add_up(
    start: DiskCounters, first: DiskCounters, second: DiskCounters, lengths: tuple[float, float]
) -> None:
    middle = sum_of(start, first)
    times = (10.0, 10.0 + lengths[0], 10.0 + lengths[0] + lengths[1])
    a, b, c = (
        sample(time, disk=disk) for time, disk in zip(times, (start, middle, sum_of(middle, second)), strict=True)
    )
    whole, left, right = rates_between(a, c, "ubda"), rates_between(a, b, "ubda"), rates_between(b, c, "ubda")
    assert whole
    assert left
    assert right
    spans = (b.time_seconds - a.time_seconds, c.time_seconds - b.time_seconds)
    for name in ("read_iops", "write_iops", "read_bytes_per_second", "write_bytes_per_second"):
        parts = getattr(left, name) * spans[0] + getattr(right, name) * spans[1]
        assert math.isclose(getattr(whole, name) * sum(spans), parts, rel_tol=1e-9, abs_tol=1e-6)
        assert getattr(whole, name) >= 0
    assert 0 <= whole.utilisation <= 1


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
    idle = rates_between(here, sample(2.0, disk=counters()), "ubda")
    assert idle
    assert idle.mean_wait_seconds is None


def test_busy_fraction() -> None:
    assert busy_fraction(sample(busy=100, idle=100), sample(busy=130, idle=170)) == pytest.approx(0.3)
    assert busy_fraction(sample(busy=100, idle=100), sample(busy=100, idle=100)) is None
    assert busy_fraction(sample(), sample(busy=1)) is None
