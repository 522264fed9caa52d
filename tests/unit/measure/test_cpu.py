from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.measure.job import account
from lab.measure.samples import cpu_figures, idle_fraction
from lab.results.record import CpuFigures
from lab.units import GIB
from lab.workloads.fio_output import DirectionFigures, JobFigures
from tests.unit.measure.samples_of import sample


def figures_of(busy: int, idle: int, baseline: float, *, ios: int = 1000, total_bytes: int = GIB) -> CpuFigures:
    found = cpu_figures(
        (sample(0, busy=50, idle=50), sample(9, busy=50 + busy, idle=50 + idle)),
        idle_baseline=baseline,
        total_ios=ios,
        total_bytes=total_bytes,
    )
    assert found
    return found


def test_the_idle_machines_share_is_taken_off() -> None:
    found = figures_of(300, 700, 0.1)
    assert found.cpu_seconds_total == pytest.approx(3.0 - 0.1 * 10.0)
    assert found.cpu_microseconds_per_io == pytest.approx(2000.0)
    assert found.cpu_seconds_per_gib == pytest.approx(2.0)
    assert found.idle_baseline_fraction == 0.1


@given(busy=st.integers(0, 10**6), idle=st.integers(0, 10**6), baseline=st.floats(0, 1))
def test_the_cost_is_never_negative_nor_more_than_what_was_used(busy: int, idle: int, baseline: float) -> None:
    assert 0 <= figures_of(busy, idle, baseline).cpu_seconds_total <= busy / 100


def test_without_ios_there_is_no_cost_per_io() -> None:
    found = figures_of(300, 700, 0.0, ios=0, total_bytes=0)
    assert (found.cpu_microseconds_per_io, found.cpu_seconds_per_gib) == (None, None)


def test_a_few_ticks_of_the_clock_are_no_cost() -> None:
    assert figures_of(9, 991, 0.0).cpu_microseconds_per_io is None
    assert figures_of(9, 991, 0.0).cpu_seconds_per_gib is None
    assert figures_of(10, 990, 0.0).cpu_microseconds_per_io == pytest.approx(100.0)


def test_threads_of_md_and_stolen_time() -> None:
    samples = (sample(busy=0, idle=0, md_ticks=10), sample(busy=60, idle=20, steal=20, md_ticks=35))
    found = cpu_figures(samples, idle_baseline=0.0, total_ios=1, total_bytes=1)
    assert found
    assert found.md_thread_cpu_seconds == pytest.approx(0.25)
    assert found.steal_fraction == pytest.approx(0.2)


@pytest.mark.parametrize("samples", [(), (sample(busy=1),), (sample(), sample(busy=1)), (sample(busy=1), sample())])
def test_no_account_without_two_samples_with_counters(samples: tuple[object, ...]) -> None:
    assert cpu_figures(samples, idle_baseline=0.0, total_ios=1, total_bytes=1) is None  # type: ignore[arg-type]


def test_idle_fraction() -> None:
    assert idle_fraction((sample(busy=0, idle=0), sample(busy=9, idle=1), sample(busy=5, idle=95))) == 0.05
    assert idle_fraction((sample(busy=0),)) == 0.0
    assert idle_fraction((sample(), sample())) == 0.0


def section(total_ios: int, io_bytes: int, runtime_seconds: float) -> DirectionFigures:
    return DirectionFigures(
        iops=1.0,
        bandwidth_bytes_per_second=1.0,
        total_ios=total_ios,
        io_bytes=io_bytes,
        runtime_seconds=runtime_seconds,
        mean_seconds=0.0,
        max_seconds=0.0,
    )


def job(reads: DirectionFigures | None, writes: DirectionFigures | None = None) -> JobFigures:
    return JobFigures(job_name="x", reads=reads, writes=writes, fio_user_cpu_percent=0, fio_system_cpu_percent=0)


WINDOW = (sample(100.0, busy=0, idle=0), sample(104.0, busy=400, idle=0), sample(108.0, busy=800, idle=0))


def test_ios_are_scaled_to_what_lies_between_the_samples() -> None:
    # Ten seconds of fio, of which the samples cover eight: 8 s of CPU for 80 % of the 1000 reads and 500 writes.
    found = account(WINDOW, job(section(1000, GIB, 10.0), section(500, GIB, 9.0)), 0.0)
    assert found
    assert found.cpu_seconds_total == pytest.approx(8.0)
    assert found.cpu_microseconds_per_io == pytest.approx(8e6 / 1200)
    assert found.cpu_seconds_per_gib == pytest.approx(8.0 / 1.6)


def test_a_window_longer_than_the_job_does_not_multiply_its_ios() -> None:
    found = account(WINDOW, job(section(1000, GIB, 5.0)), 0.0)
    assert found
    assert found.cpu_microseconds_per_io == pytest.approx(8e6 / 1000)


def test_no_account_of_one_sample() -> None:
    assert account(WINDOW[:1], job(section(1000, GIB, 10.0)), 0.0) is None


def test_a_job_without_ios_has_no_cost_per_io() -> None:
    found = account(WINDOW, job(None), 0.0)
    assert found
    assert found.cpu_microseconds_per_io is None
