"""fio's output as captured (data/README.md), cut and garbled; interval values, and the measured stretch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError, MeasurementDisturbed, WorkloadError
from lab.gates.decoding import decode_json
from lab.workloads.fio_output import (
    DirectionFigures,
    FioDocument,
    JobFigures,
    LiveFeed,
    LiveInterval,
    MeasuredWindow,
    bin_percentile,
    difference,
    window_for,
)

DATA = Path(__file__).with_name("data")


def captured(name: str) -> str:
    return (DATA / name).read_text()


def figures_of(text: str, **ended: Any) -> JobFigures:
    """The figures of a process that printed this text; ``ended``: see ``LiveFeed.figures``."""
    feed = LiveFeed()
    fed(feed, text)
    return feed.figures(**ended)


def reads_of(figures: JobFigures) -> DirectionFigures:
    assert figures.reads is not None
    return figures.reads


def test_a_mix_keeps_its_directions_apart() -> None:
    figures = figures_of(captured("mix.stdout"))
    reads = reads_of(figures)
    assert figures.writes is not None
    assert (figures.job_name, figures.fio_version) == ("rand-mix-4k", "fio-3.33")
    assert (reads.bandwidth_bytes_per_second, reads.total_ios, reads.runtime_seconds) == (214_258_593, 20_971, 0.401)
    assert (reads.p50_seconds, reads.p999_seconds) == (100_864e-9, 246_784e-9)
    assert (figures.writes.p99_seconds, reads.latency_kind) == (209_920e-9, "total")
    assert figures.fio_user_cpu_percent == 1.875
    assert json.loads(figures.raw_json)["jobs"][0]["jobname"] == "rand-mix-4k"


def test_the_last_of_many_documents_counts_and_a_direction_without_io_is_none() -> None:
    figures = figures_of(captured("status-interval.stdout"))
    assert reads_of(figures).total_ios == 71_499
    assert figures.writes is None


def test_completion_latency_replaces_a_missing_total_latency() -> None:
    figures = figures_of(captured("note-before-json.stdout"))
    assert reads_of(figures).latency_kind == "completion"
    assert reads_of(figures).p50_seconds is not None
    assert "queue depth will be capped at 1" in figures.notes[0]


def test_an_interrupted_job_counts_only_if_that_is_accepted() -> None:
    with pytest.raises(WorkloadError, match="status 128: fio: terminating on signal 2"):
        figures_of(captured("sigint.stdout"), exit_status=128)
    figures = figures_of(captured("sigint.stdout"), exit_status=128, accept_interrupted=True)
    assert figures.interrupted
    assert reads_of(figures).total_ios == 52_037


def test_verify_only_wrote_nothing() -> None:
    figures = figures_of(captured("verify-only.stdout"))
    assert figures.writes is None
    assert reads_of(figures).io_bytes == 16 * 2**20


def test_backlog_reads_are_rated_over_the_writes_time() -> None:
    assert reads_of(figures_of(captured("verify-backlog.stdout"))).iops == pytest.approx(14_336 / 0.4)


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("verify-corrupt", 1, "data differ from what was written.*verify failed at file"),
        ("no-space", 1, "No space left on device"),
        # An error in the JSON counts even with status 0.
        ("no-space", 0, "error 28"),
        ("no-directory", 1, "status 1: fio: /nonexistent is not a directory"),
    ],
)
def test_failures_are_raised_with_the_reason(name: str, status: int, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        figures_of(captured(f"{name}.stdout"), exit_status=status, stderr_text=captured(f"{name}.stderr"))


def test_entries_without_group_reporting_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"jobs-unsummed.*2 entries"):
        figures_of(captured("no-group-reporting.stdout"))


@pytest.mark.parametrize(
    "text", ["", "\n", "fio: hello\n", "[]", "{", "{\n", "{\n}\n", '{\n"jobs": []\n}\n', "}\n{}\n"]
)
def test_no_result_is_never_a_figure(text: str) -> None:
    with pytest.raises(WorkloadError):
        figures_of(text)


def test_a_truncated_document_is_reported_as_cut_off() -> None:
    text = captured("status-interval.stdout")
    with pytest.raises(WorkloadError, match="cut off"):
        figures_of(text[: len(text) - 500])


@given(st.data())
def test_cut_or_scribbled_output_is_figures_or_a_lab_error(data: st.DataObject) -> None:
    text = captured(data.draw(st.sampled_from(["mix.stdout", "no-space.stdout", "verify-only.stdout"])))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    scribble = data.draw(st.text(st.characters(exclude_categories=[]), max_size=20))
    with contextlib.suppress(LabError):
        figures_of(text[:start] + scribble + text[end:])


@given(st.lists(st.integers(1, 5000)))
def test_the_splitter_does_not_care_where_chunks_end(cuts: list[int]) -> None:
    text = captured("sigint.stdout")
    whole = LiveFeed()
    expected = list(whole.documents([text]))
    splitter = LiveFeed()
    edges = [0, *accumulate(cuts), len(text)]
    found = list(splitter.documents(text[begin:end] for begin, end in pairwise(edges)))
    assert found == expected
    assert len(found) == 5
    assert splitter.notes == ("fio: terminating on signal 2",)


def test_a_torn_document_does_not_take_the_next_with_it() -> None:
    text = captured("mix.stdout")
    assert len(list(LiveFeed().documents([text[:400] + "\n" + text]))) == 1


def test_serial_line_ends_are_understood() -> None:
    assert figures_of(captured("mix.stdout").replace("\n", "\r\n")).reads == figures_of(captured("mix.stdout")).reads


def fed(feed: LiveFeed, *texts: str) -> list[LiveInterval]:
    return list(feed.intervals(texts))


def intervals(name: str) -> list[LiveInterval]:
    text = captured(name)
    return fed(LiveFeed(), *(text[start : start + 1000] for start in range(0, len(text), 1000)))


def test_warmup_is_marked_and_counters_start_anew() -> None:
    found = intervals("status-interval.stdout")
    assert [each.is_warmup for each in found] == [True, False, False, False, False]
    assert [each.interval_seconds for each in found] == [0.145, 0.25, 0.25, 0.25, 0.251]
    warmup, first, second, *_ = (each.reads for each in found if each.reads)
    assert warmup.p50_seconds is None
    # 18 277 I/Os in all are more than the 10 439 of the warm-up, and yet all of them are new.
    assert (first.total_ios, second.total_ios) == (18_277, 35_305 - 18_277)
    assert first.iops == pytest.approx(73_108)
    assert second.bandwidth_bytes_per_second == pytest.approx((144_572_416 - 74_825_728) / 0.25)
    assert {each.writes for each in found} == {None}


@pytest.mark.parametrize("name", ["status-interval.stdout", "sigint.stdout"])
def test_intervals_add_up_to_the_final_total(name: str) -> None:
    measured = [each.reads.total_ios for each in intervals(name) if each.reads and not each.is_warmup]
    assert sum(measured) == reads_of(figures_of(captured(name))).total_ios


def test_intervals_that_are_not_wanted_yet_are_part_of_the_next() -> None:
    whole = intervals("status-interval.stdout")
    wanted = iter((False, False, True, False, False))
    found = fed(LiveFeed(is_due=lambda: next(wanted, False)), captured("status-interval.stdout"))
    # Nothing remains to be reported of the first run of counters, which the end of the warm-up cut off.
    assert [each.interval_seconds for each in found] == [pytest.approx(0.5), pytest.approx(0.501)]
    ios = [each.reads.total_ios for each in whole if each.reads]
    assert [each.reads.total_ios for each in found if each.reads] == [sum(ios[1:3]), sum(ios[3:])]


def test_percentiles_of_a_whole_run_equal_fios() -> None:
    job = json.loads((DATA / "mix.stdout").read_text())["jobs"][0]
    for direction in ("read", "write"):
        latency = job[direction]["lat_ns"]
        bins = {int(key): count for key, count in latency["bins"].items()}
        for percent in (50, 95, 99, 99.9):
            found = bin_percentile(bins, percent)
            assert found == latency["percentile"][f"{percent:.6f}"] / 1e9


def test_interval_percentiles_come_from_new_samples_alone() -> None:
    found = difference(document(10, {100: 10}), document(20, {100: 10, 900: 10}))
    assert found
    assert found.reads
    assert (found.reads.p50_seconds, found.reads.p99_seconds) == (900e-9, 900e-9)


def test_no_time_no_interval() -> None:
    same = document(10, {100: 10})
    assert difference(same, same) is None
    assert difference(None, document(0, {})) is None
    # Counters that go backwards start anew.
    found = difference(document(90, {100: 90}), document(5, {100: 5}))
    assert found is not None
    assert found.reads is not None
    assert found.reads.total_ios == 5


@pytest.mark.parametrize("block_bytes", [4096, None])
def test_completions_after_the_last_count_of_requests_are_included(block_bytes: int | None) -> None:
    # As a busy computer gives it: the requests of the second document were counted when all of them had been answered.
    documents = (printed(1000, 90, 80), printed(2000, 200, 160), printed(2020, 200, 200))
    found = fed(LiveFeed(block_bytes=block_bytes), *documents)
    assert [each.interval_seconds for each in found] == pytest.approx([1, 1, 0.02])
    reads = [each.reads for each in found if each.reads]
    moved = [part.bandwidth_bytes_per_second * each.interval_seconds for part, each in zip(reads, found, strict=True)]
    assert sum(moved) == pytest.approx(200 * 4096)
    assert [part.total_ios for part in reads] == ([80, 80, 40] if block_bytes else [90, 110, 0])


def test_a_last_document_with_less_time_counts_nothing_twice() -> None:
    # fio 3.39: a document that was printed while threads ended has more time than the run took.
    found = fed(LiveFeed(), *(printed(clock, ios, ios) for clock, ios in ((1000, 90), (2040, 200), (2000, 200))))
    assert [(each.interval_seconds, each.reads.total_ios) for each in found if each.reads] == [(1.0, 90), (1.04, 110)]


def test_a_warmup_without_an_answer_is_left_behind_by_its_clock() -> None:
    found = difference(document(0, {}, clock=145), document(40, {100: 40}, clock=100))
    assert found is not None
    assert found.interval_seconds == pytest.approx(0.1)


def test_a_new_start_without_latencies_is_seen_by_its_clock() -> None:
    # With gtod_reduce there are no bins; the second document is from after the end of the warm-up.
    counted = ((250, 1000), (200, 1500), (450, 3000))
    texts = [printed(clock, answers, answers, has_latencies=False) for clock, answers in counted]
    found = fed(LiveFeed(block_bytes=4096), *texts)
    assert [(each.interval_seconds, each.reads.total_ios) for each in found if each.reads] == [
        (0.25, 1000),
        (0.2, 1500),
        (0.25, 1500),
    ]


def printed(milliseconds: int, requests: int, answers: int, *, has_latencies: bool = True) -> str:
    """A document in which all requests have 4 KiB and ``answers`` of them have been answered."""
    return printed_after(milliseconds, requests, {100: requests} if has_latencies else {}, answers)


def document(ios: int, bins: dict[int, int], clock: int | None = None) -> FioDocument:
    """After ``clock`` milliseconds; None: as many as I/Os."""
    return decode_json(printed_after(ios if clock is None else clock, ios, bins), FioDocument)


RATE = 80
"""I/Os per second of the simulated drive."""
DEPTH = 32
LATENCY_NANOSECONDS = DEPTH * 1_000_000_000 // RATE
RAMP_NANOSECONDS = 12_500_000
RAMP_SECONDS = 0.8


def printed_after(milliseconds: int, ios: int, bins: dict[int, int], answers: int | None = None) -> str:
    mean = sum(key * count for key, count in bins.items()) / max(1, sum(bins.values()))
    latency = {
        "max": max(bins, default=0),
        "mean": mean,
        "N": sum(bins.values()),
        "bins": {str(key): count for key, count in bins.items()},
        "percentile": {"50.000000": 1.0},
    }
    moved = (ios if answers is None else answers) * 4096
    read = {"io_bytes": moved, "runtime": milliseconds, "total_ios": ios, "lat_ns": latency}
    read |= {"iops": ios / (milliseconds / 1000) if milliseconds else 0, "bw_bytes": 1.0}
    tree = {"fio version": "fio-3.33", "jobs": [{"jobname": "x", "read": read}]}
    return json.dumps(tree, indent=1) + "\n"


def fio_lines(window: MeasuredWindow, *, late_seconds: float = 0.0) -> Iterator[str]:
    """What fio prints for a drive with a queue: slower at first, and ever fewer requests in flight after the end."""
    issue = window.issue_seconds if window.seconds else 10.0
    clock = window.interval_seconds - late_seconds
    while clock <= issue:
        yield at(clock)
        clock += window.interval_seconds
    drain = DEPTH / RATE
    yield printed_after(round((issue + drain) * 1000), round(ios(issue)), bins(issue) | {RAMP_NANOSECONDS: 1000})


def ios(seconds: float) -> float:
    return RATE * (max(0.0, seconds - RAMP_SECONDS) + 0.5 * min(RAMP_SECONDS, seconds))


def bins(seconds: float) -> dict[int, int]:
    quick = round(ios(min(RAMP_SECONDS, seconds)))
    return {RAMP_NANOSECONDS: quick, LATENCY_NANOSECONDS: round(ios(seconds)) - quick}


def at(seconds: float) -> str:
    return printed_after(round(seconds * 1000), round(ios(seconds)), bins(seconds))


def figures(window: MeasuredWindow, texts: list[str], status: int = 0) -> JobFigures:
    feed = LiveFeed(window, 4096)
    fed(feed, *texts)
    return feed.figures(exit_status=status, accept_interrupted=bool(status))


@pytest.mark.parametrize("seconds", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("late_seconds", [0.0, 0.05, 0.2])
def test_a_stretch_has_the_rate_of_steady_flight(seconds: float, late_seconds: float) -> None:
    window = window_for(1.0, seconds)
    reads = reads_of(figures(window, list(fio_lines(window, late_seconds=late_seconds))))
    assert reads.iops == pytest.approx(RATE, rel=0.01)
    assert reads.runtime_seconds == pytest.approx(seconds, rel=0.06)
    assert reads.p50_seconds == reads.p99_seconds == reads.max_seconds == pytest.approx(DEPTH / RATE)
    assert reads.mean_seconds == pytest.approx(DEPTH / RATE)


def test_intervals_before_the_stretch_are_its_warm_up() -> None:
    window = window_for(1.0, 2.0)
    found = fed(LiveFeed(window, 4096), *fio_lines(window))
    ends = list(accumulate(each.interval_seconds for each in found))
    assert [each.is_warmup for each in found] == [end <= 1.001 for end in ends]
    assert ends[0] < 1 < ends[-1]


def test_both_documents_are_stored_so_that_the_figures_can_be_recomputed() -> None:
    window = window_for(1.0, 2.0)
    found = figures(window, list(fio_lines(window)))
    begin, end = json.loads(found.raw_json)
    more = end["jobs"][0]["read"]["total_ios"] - begin["jobs"][0]["read"]["total_ios"]
    milliseconds = end["jobs"][0]["read"]["runtime"] - begin["jobs"][0]["read"]["runtime"]
    assert reads_of(found).iops == more / (milliseconds / 1000)
    assert found.window_begin_seconds == begin["jobs"][0]["read"]["runtime"] / 1000 >= 0.9


def test_a_load_without_an_end_is_cut_before_the_document_that_ends_it() -> None:
    window = MeasuredWindow(1.0, None, 0.5)
    texts = [at(0.5 * n) for n in range(1, 12)]
    drained = printed_after(6_000, round(ios(5.5)), bins(5.5) | {RAMP_NANOSECONDS: 999})
    reads = reads_of(figures(window, [*texts, drained], status=128))
    assert reads.iops == pytest.approx(RATE)
    assert reads.runtime_seconds == 4.5


def test_a_load_stopped_before_its_stretch_keeps_the_figures_of_the_whole_run() -> None:
    found = figures(window_for(5.0, 5.0), [at(0.5), at(1.0)], status=128)
    assert found.window_begin_seconds is None
    assert reads_of(found).total_ios == round(ios(1.0))


def test_a_load_of_some_seconds_that_is_stopped_is_cut_before_its_drain() -> None:
    texts = [at(1.0), at(2.0), at(3.0), printed_after(3_400, round(ios(3.0)), bins(3.0) | {RAMP_NANOSECONDS: 999})]
    reads = reads_of(figures(MeasuredWindow(0.9, 9.0, 1.0), texts, status=128))
    assert reads.runtime_seconds == 2.0
    assert reads.iops == pytest.approx(RATE)


def test_a_run_without_documents_is_rejected() -> None:
    with pytest.raises(MeasurementDisturbed, match="reported nothing about the measured time"):
        figures(window_for(1.0, 2.0), [at(9.0)])
    with pytest.raises(WorkloadError, match="no I/O completed"):
        figures(window_for(0.0, 2.0), [printed_after(500 * n, 7, {9: 7}) for n in range(1, 8)])


@given(st.floats(0, 30), st.floats(0.2, 3600))
def test_documents_are_few_and_never_too_dense(warmup: float, seconds: float) -> None:
    window = window_for(warmup, seconds)
    assert 0.1 <= window.interval_seconds <= 2.0
    assert window.issue_seconds <= warmup + seconds * 1.5 + 0.2
    assert window.interval_seconds > 1.3 or seconds / window.interval_seconds < 4.2
