"""The measured stretch: neither the ramp of a load nor the drain of its queue is in its figures."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import MeasurementDisturbed, WorkloadError
from lab.workloads.fio_output import JobFigures, LiveFeed, MeasuredWindow, WindowCut, window_for

RATE = 80
"""I/Os a second of the drive that is played."""
DEPTH = 32
LATENCY_NANOSECONDS = DEPTH * 1_000_000_000 // RATE
RAMP_NANOSECONDS = 12_500_000
RAMP_SECONDS = 0.8


def document(milliseconds: int, ios: int, bins: dict[int, int], **more: object) -> str:
    mean = sum(key * count for key, count in bins.items()) / max(1, sum(bins.values()))
    latency = {
        "max": max(bins, default=0),
        "mean": mean,
        "N": sum(bins.values()),
        "bins": {str(key): count for key, count in bins.items()},
        "percentile": {"50.000000": 1.0},
    }
    read = {"io_bytes": ios * 4096, "runtime": milliseconds, "total_ios": ios, "lat_ns": latency}
    read |= {"iops": ios / (milliseconds / 1000) if milliseconds else 0, "bw_bytes": 1.0}
    tree = {"fio version": "fio-3.33", "timestamp_ms": milliseconds, "jobs": [{"jobname": "x", "read": read, **more}]}
    return json.dumps(tree, indent=1) + "\n"


def told(window: MeasuredWindow, *, late_seconds: float = 0.0) -> Iterator[str]:
    """What fio prints of a drive with a queue: slower in the first second, and after the end ever fewer in flight."""
    issue = window.issue_seconds if window.seconds else 10.0
    clock = window.interval_seconds - late_seconds
    while clock <= issue:
        yield at(clock)
        clock += window.interval_seconds
    drain = DEPTH / RATE
    yield document(round((issue + drain) * 1000), round(ios(issue)), bins(issue) | {RAMP_NANOSECONDS: 1000})


def ios(seconds: float) -> float:
    return RATE * (max(0.0, seconds - RAMP_SECONDS) + 0.5 * min(RAMP_SECONDS, seconds))


def bins(seconds: float) -> dict[int, int]:
    quick = round(ios(min(RAMP_SECONDS, seconds)))
    return {RAMP_NANOSECONDS: quick, LATENCY_NANOSECONDS: round(ios(seconds)) - quick}


def at(seconds: float) -> str:
    return document(round(seconds * 1000), round(ios(seconds)), bins(seconds))


def figures(window: MeasuredWindow | None, texts: list[str], status: int = 0) -> JobFigures:
    feed = LiveFeed(WindowCut(window) if window else None, 4096)
    for text in texts:
        feed.feed(text)
    feed.finish()
    return feed.figures(exit_status=status, stderr_text="", accept_interrupted=bool(status))


@pytest.mark.parametrize("seconds", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("late_seconds", [0.0, 0.05, 0.2])
def test_a_stretch_has_the_rate_of_steady_flight(seconds: float, late_seconds: float) -> None:
    window = window_for(1.0, seconds)
    reads = figures(window, list(told(window, late_seconds=late_seconds))).reads
    assert reads is not None
    assert reads.iops == pytest.approx(RATE, rel=0.01)
    assert reads.runtime_seconds == pytest.approx(seconds, rel=0.06)
    assert reads.p50_seconds == reads.p99_seconds == reads.max_seconds == pytest.approx(DEPTH / RATE)
    assert reads.mean_seconds == pytest.approx(DEPTH / RATE)


def test_the_whole_run_would_be_too_slow_and_its_latencies_too_short() -> None:
    window = window_for(1.0, 1.0)
    reads = figures(None, list(told(window))).reads
    assert reads is not None
    assert reads.iops < 0.8 * RATE
    assert reads.mean_seconds < 0.5 * DEPTH / RATE


def test_both_documents_are_kept_so_that_the_figures_can_be_worked_out_again() -> None:
    window = window_for(1.0, 2.0)
    found = figures(window, list(told(window)))
    begin, end = json.loads(found.raw_json)
    more = end["jobs"][0]["read"]["total_ios"] - begin["jobs"][0]["read"]["total_ios"]
    milliseconds = end["jobs"][0]["read"]["runtime"] - begin["jobs"][0]["read"]["runtime"]
    assert found.reads is not None
    assert found.reads.iops == more / (milliseconds / 1000)
    assert found.window_begin_seconds == begin["jobs"][0]["read"]["runtime"] / 1000 >= 0.9


def test_a_load_without_an_end_is_cut_before_the_document_that_ends_it() -> None:
    window = MeasuredWindow(1.0, None, 0.5)
    texts = [at(0.5 * n) for n in range(1, 12)]
    drained = document(6_000, round(ios(5.5)), bins(5.5) | {RAMP_NANOSECONDS: 999})
    reads = figures(window, [*texts, drained], status=128).reads
    assert reads is not None
    assert reads.iops == pytest.approx(RATE)
    assert reads.runtime_seconds == 4.5


def test_a_load_stopped_before_its_stretch_keeps_the_figures_of_the_whole_run() -> None:
    found = figures(window_for(5.0, 5.0), [at(0.5), at(1.0)], status=128)
    assert found.window_begin_seconds is None
    assert found.reads is not None
    assert found.reads.total_ios == round(ios(1.0))


def test_a_load_of_some_seconds_that_is_stopped_is_cut_before_its_drain() -> None:
    texts = [at(1.0), at(2.0), at(3.0), document(3_400, round(ios(3.0)), bins(3.0) | {RAMP_NANOSECONDS: 999})]
    reads = figures(MeasuredWindow(0.9, 9.0, 1.0), texts, status=128).reads
    assert reads is not None
    assert reads.runtime_seconds == 2.0
    assert reads.iops == pytest.approx(RATE)


def test_a_run_without_documents_is_no_measurement() -> None:
    with pytest.raises(MeasurementDisturbed, match="reported nothing about the measured time"):
        figures(window_for(1.0, 2.0), [at(9.0)])
    with pytest.raises(WorkloadError, match="not one I/O"):
        figures(window_for(0.0, 2.0), [document(500 * n, 7, {9: 7}) for n in range(1, 8)])


@given(st.floats(0, 30), st.floats(0.2, 3600))
def test_documents_are_few_and_never_too_dense(warmup: float, seconds: float) -> None:
    window = window_for(warmup, seconds)
    assert 0.1 <= window.interval_seconds <= 2.0
    assert window.issue_seconds <= warmup + seconds * 1.5 + 0.2
    assert window.interval_seconds > 1.3 or seconds / window.interval_seconds < 4.2
