from __future__ import annotations

import tracemalloc
from dataclasses import replace

from lab.arrays.status import SyncAction, SyncProgress
from lab.measure.samples import CpuTicks, DiskCounters
from lab.session.monitor import History, LoadMeasure, Measure
from lab.workloads.fio_output import LiveDirection, LiveInterval
from tests.unit.session.looks import NOTHING, captured, look


def counters(reads: int) -> DiskCounters:
    return replace(NOTHING, reads=reads, read_bytes=reads * 4096, busy_seconds=reads / 1000)


def test_rates_are_differences_of_two_looks() -> None:
    history = History()
    history.add(look(10.0, disks={"ubda": counters(0)}))
    history.add(look(10.5, disks={"ubda": counters(50)}))
    assert history.rates("ubda", Measure.READ_IOPS) == [(10.0, None), (10.5, 100.0)]
    assert history.rates("ubda", Measure.READ_BYTES_PER_SECOND)[-1] == (10.5, 409600.0)
    assert history.rates("ubda", Measure.UTILISATION)[-1] == (10.5, 0.1)


def test_a_device_that_comes_late_and_goes_has_gaps_on_the_same_axis() -> None:
    history = History()
    history.add(look(1.0))
    history.add(look(2.0, disks={"sdb": counters(0)}))
    history.add(look(3.0, disks={"sdb": counters(7)}))
    history.add(look(4.0))
    assert history.rates("sdb", Measure.READ_IOPS) == [(1.0, None), (2.0, None), (3.0, 7.0), (4.0, None)]
    assert history.now_rate("sdb", Measure.READ_IOPS) is None


def test_old_values_make_room_and_the_axis_keeps_step() -> None:
    history = History(seconds=2.0, hertz=2.0)
    for tick in range(10):
        history.add(look(float(tick), disks={"ubda": counters(tick * tick)}))
    assert history.rates("ubda", Measure.READ_IOPS) == [(6.0, 11.0), (7.0, 13.0), (8.0, 15.0), (9.0, 17.0)]
    assert history.rates("ubda", Measure.READ_IOPS, seconds=1.0) == [(8.0, 15.0), (9.0, 17.0)]


def test_a_device_that_is_gone_for_the_whole_axis_is_forgotten() -> None:
    history = History(seconds=2.0, hertz=2.0)
    history.add(look(0.0, disks={"sdb": counters(0)}))
    history.add(look(1.0, disks={"sdb": counters(5)}))
    assert "sdb" in history.devices
    for tick in range(2, 8):
        history.add(look(float(tick)))
    assert not history.devices


def test_the_clock_of_the_machine_does_not_go_back() -> None:
    history = History()
    history.add(look(5.0))
    history.add(look(5.0))
    history.add(look(4.0))
    assert history.newest is not None
    assert history.newest.time_seconds == 5.0


def test_md_threads_are_counted_in_cpus() -> None:
    history = History()
    history.add(look(0.0, md_ticks={"md0": 100}, cpu=CpuTicks(0, 0, 0)))
    history.add(look(0.5, md_ticks={"md0": 125, "md1": 10}, cpu=CpuTicks(30, 70, 0)))
    assert history.md_cpu("md0")[-1] == (0.5, 0.5)
    assert history.md_cpu("md1")[-1] == (0.5, 0.2)
    assert history.cpu()[-1] == (0.5, 0.3)


def test_a_sync_has_a_fraction_a_rate_and_a_time_left() -> None:
    history = History()
    for second in range(3):
        status = captured(
            "raid5-rebuilding", sync_action=SyncAction.RECOVER, sync_progress=SyncProgress(second * 2048, 20480)
        )
        history.add(look(float(second), status))
    assert [value for _, value in history.sync_fraction("md0")] == [0.0, 0.1, 0.2]
    assert history.sync_rate("md0")[-1] == (2.0, 1 << 20)
    pace = history.pace("md0")
    assert pace is not None
    assert pace.left_seconds == 8.0


def test_a_load_is_reads_and_writes_together_with_the_worse_percentile() -> None:
    history = History()
    history.add(look(100.0))
    reads = LiveDirection(70.0, 7000.0, 35, 0.001, 0.004)
    writes = LiveDirection(30.0, 3000.0, 15, 0.002, None)
    history.add_load(LiveInterval(1.7e9, 0.5, reads, writes, False), 100.1)
    assert history.load(LoadMeasure.IOPS) == [(100.1, 100.0)]
    assert history.load(LoadMeasure.BYTES_PER_SECOND) == [(100.1, 10000.0)]
    assert history.load(LoadMeasure.P50_SECONDS) == [(100.1, 0.002)]
    assert history.load(LoadMeasure.P99_SECONDS) == [(100.1, 0.004)]


def test_two_hours_take_no_more_memory_than_ten_minutes() -> None:
    """Nine disks and four arrays at 4 Hz."""
    names = [f"ubd{letter}" for letter in "abcdefghi"] + [f"md{number}" for number in range(4)]
    history = History(seconds=120.0)

    def run(first: int, count: int) -> None:
        for tick in range(first, first + count):
            history.add(look(tick / 4, disks={name: counters(tick) for name in names}, md_ticks={"md0": tick}))

    tracemalloc.start()
    try:
        run(0, 500)
        before = tracemalloc.get_traced_memory()[0]
        run(500, 5000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000
