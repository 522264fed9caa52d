"""Interval values from cumulative documents, checked against fio's own totals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError
from lab.workloads.fio_output import (
    FioDirection,
    FioDocument,
    FioJob,
    FioLatency,
    LiveFeed,
    LiveInterval,
    bin_percentile,
    difference,
    parse_figures,
)

DATA = Path(__file__).with_name("data")


def intervals(name: str, chunk_characters: int = 1000) -> list[LiveInterval]:
    text = (DATA / name).read_text()
    feed = LiveFeed()
    found: list[LiveInterval] = []
    for start in range(0, len(text), chunk_characters):
        found += feed.feed(text[start : start + chunk_characters])
    return found + feed.finish()


def test_warmup_is_marked_and_counters_start_anew() -> None:
    found = intervals("status-interval.stdout")
    assert [each.is_warmup for each in found] == [True, False, False, False, False]
    assert [each.interval_seconds for each in found] == [0.145, 0.25, 0.25, 0.25, 0.251]
    warmup, first, second = found[0], found[1], found[2]
    assert warmup.reads is not None
    assert warmup.reads.p50_seconds is None
    assert first.reads is not None
    # 18 277 I/Os in all are more than the 10 439 of the warm-up, and yet all of them are new.
    assert first.reads.ios == 18_277
    assert first.reads.iops == pytest.approx(73_108)
    assert second.reads is not None
    assert second.reads.ios == 35_305 - 18_277
    assert second.reads.bandwidth_bytes_per_second == pytest.approx((144_572_416 - 74_825_728) / 0.25)
    assert second.writes is None


@pytest.mark.parametrize("name", ["status-interval.stdout", "sigint.stdout"])
def test_intervals_add_up_to_the_final_total(name: str) -> None:
    measured = [each.reads.ios for each in intervals(name) if each.reads and not each.is_warmup]
    figures = parse_figures((DATA / name).read_text())
    assert figures.reads is not None
    assert sum(measured) == figures.reads.total_ios


def test_intervals_that_are_not_wanted_yet_are_part_of_the_next() -> None:
    whole = intervals("status-interval.stdout")
    wanted = iter((False, False, True, False, False))
    feed = LiveFeed(is_due=lambda: next(wanted, False))
    text = (DATA / "status-interval.stdout").read_text()
    found = feed.feed(text) + feed.finish()
    # Of the first run of counters, which the end of the warm-up cut off, nothing is left to be told.
    assert [each.interval_seconds for each in found] == [pytest.approx(0.5), pytest.approx(0.501)]
    ios = [each.reads.ios for each in whole if each.reads]
    assert [each.reads.ios for each in found if each.reads] == [sum(ios[1:3]), sum(ios[3:])]


def test_percentiles_of_a_whole_run_equal_fios() -> None:
    job = json.loads((DATA / "mix.stdout").read_text())["jobs"][0]
    for direction in ("read", "write"):
        latency = job[direction]["lat_ns"]
        bins = {int(key): count for key, count in latency["bins"].items()}
        for percent in (50, 95, 99, 99.9):
            found = bin_percentile(bins, percent)
            assert found == latency["percentile"][f"{percent:.6f}"] / 1e9


def test_interval_percentiles_come_from_new_samples_alone() -> None:
    before = document(10, {"100": 10})
    after = document(20, {"100": 10, "900": 10})
    found = difference(before, after)
    assert found is not None
    assert found.reads is not None
    assert (found.reads.p50_seconds, found.reads.p99_seconds) == (900e-9, 900e-9)


def test_no_time_no_interval() -> None:
    same = document(10, {"100": 10})
    assert difference(same, same) is None
    assert difference(None, document(0, {})) is None


def test_backwards_counters_start_anew() -> None:
    found = difference(document(90, {"100": 90}), document(5, {"100": 5}))
    assert found is not None
    assert found.reads is not None
    assert found.reads.ios == 5


@pytest.mark.parametrize("block_bytes", [4096, None])
def test_answers_after_the_last_count_of_requests_are_told(block_bytes: int | None) -> None:
    # As a busy computer gives it: the requests of the second document were counted when all of them had been answered.
    feed = LiveFeed(block_bytes=block_bytes)
    found = [
        interval
        for clock, requests, answers in ((1000, 90, 80), (2000, 200, 160), (2020, 200, 200))
        for interval in feed.feed(printed(clock, requests, answers))
    ]
    found += feed.finish()
    assert [each.interval_seconds for each in found] == pytest.approx([1, 1, 0.02])
    reads = [each.reads for each in found if each.reads]
    moved = [part.bandwidth_bytes_per_second * each.interval_seconds for part, each in zip(reads, found, strict=True)]
    assert sum(moved) == pytest.approx(200 * 4096)
    assert [part.ios for part in reads] == ([80, 80, 40] if block_bytes else [90, 110, 0])


def test_a_last_document_with_less_time_tells_nothing_twice() -> None:
    # fio 3.39: a document that was printed while threads ended has more time than the run took.
    feed = LiveFeed()
    found = [
        interval
        for clock, answers in ((1000, 90), (2040, 200), (2000, 200))
        for interval in feed.feed(printed(clock, answers, answers))
    ]
    found += feed.finish()
    assert [(each.interval_seconds, each.reads.ios) for each in found if each.reads] == [(1.0, 90), (1.04, 110)]


def test_a_warmup_without_an_answer_is_left_behind_by_its_clock() -> None:
    found = difference(document(0, {}, clock=145), document(40, {"100": 40}, clock=100))
    assert found is not None
    assert found.interval_seconds == pytest.approx(0.1)


def test_a_new_start_without_latencies_is_seen_by_its_clock() -> None:
    # With gtod_reduce there are no bins; the second document is from after the end of the warm-up.
    feed = LiveFeed(block_bytes=4096)
    found = [
        interval
        for clock, answers in ((250, 1000), (200, 1500), (450, 3000))
        for interval in feed.feed(printed(clock, answers, answers, has_latencies=False))
    ]
    assert [(each.interval_seconds, each.reads.ios) for each in found if each.reads] == [
        (0.25, 1000),
        (0.2, 1500),
        (0.25, 1500),
    ]


def printed(clock_milliseconds: int, requests: int, answers: int, *, has_latencies: bool = True) -> str:
    """A document in which all requests are of 4 KiB."""
    read = {"io_bytes": answers * 4096, "total_ios": requests, "runtime": clock_milliseconds}
    latency = {"lat_ns": {"N": requests, "bins": {"100": requests}}}
    job = {"jobname": "x", "read": read | (latency if has_latencies else {}), "job options": {"bs": "1048576"}}
    return json.dumps({"fio version": "fio-3.39", "timestamp_ms": 0, "jobs": [job]}, indent=1) + "\n"


def document(ios: int, bins: dict[str, int], clock: int | None = None) -> FioDocument:
    """After so many milliseconds; None: as many as I/Os."""
    latency = FioLatency(N=sum(bins.values()), bins=bins)
    runtime = ios if clock is None else clock
    return FioDocument(
        (FioJob("x", read=FioDirection(io_bytes=ios * 4096, total_ios=ios, runtime=runtime, lat_ns=latency)),), "", 0
    )


@given(st.dictionaries(st.integers(1, 10**9), st.integers(0, 1000)), st.floats(0.1, 100))
def test_a_percentile_is_one_of_the_bins(bins: dict[int, int], percent: float) -> None:
    found = bin_percentile(bins, percent)
    if found is None:
        assert not any(bins.values())
    else:
        assert bins[round(found * 1e9)] > 0


@given(st.lists(st.text(alphabet='{}"\n1:,ab', max_size=40)))
def test_garbage_gives_nothing_or_a_lab_error(chunks: list[str]) -> None:
    feed = LiveFeed()
    try:
        for chunk in chunks:
            feed.feed(chunk)
        feed.finish()
    except LabError:
        pass
