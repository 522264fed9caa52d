from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import ArrayError
from lab.measure.rebuild import DataSum, DataVerdict, Integrity, mean_request_bytes, sync_seconds
from lab.measure.samples import Sample
from tests.unit.measure.samples_of import counters, sample


def idle(time_seconds: float) -> Sample:
    return sample(time_seconds, degraded=0)


def rebuilding(time_seconds: float) -> Sample:
    return sample(time_seconds, action="recover", degraded=1)


def test_each_end_lies_halfway_between_two_samples() -> None:
    # Begun between 1 and 2, ended between 7 and 8.5.
    samples = [idle(0), idle(1), rebuilding(2), rebuilding(5), rebuilding(7), idle(8.5), idle(9)]
    assert sync_seconds(samples) == pytest.approx(7.75 - 1.5)


def test_a_rebuild_that_runs_from_the_first_sample_on_begins_with_it() -> None:
    assert sync_seconds([rebuilding(2), rebuilding(4), idle(6)]) == pytest.approx(3.0)


def test_one_sample_is_enough() -> None:
    assert sync_seconds([idle(0), rebuilding(1), idle(2)]) == pytest.approx(1.0)


def test_a_gap_in_a_rebuild_does_not_end_it() -> None:
    assert sync_seconds([idle(0), rebuilding(1), idle(2), rebuilding(3), idle(4)]) == pytest.approx(3.0)


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [idle(0), idle(1)],
        # A check of a healthy array, and the word of an array that has lost nothing.
        [idle(0), sample(1, action="check", degraded=0), idle(2)],
        [idle(0), sample(1, action="recover", degraded=0), idle(2)],
        [idle(0), sample(1, action="recover", degraded=None), idle(2)],
    ],
)
def test_a_rebuild_that_was_never_seen(samples: list[Sample]) -> None:
    with pytest.raises(ArrayError, match="no sample shows the rebuild"):
        sync_seconds(samples)


def test_a_rebuild_that_has_not_ended() -> None:
    with pytest.raises(ArrayError, match="had not ended"):
        sync_seconds([idle(0), rebuilding(1), rebuilding(2)])


@pytest.mark.slow
@given(start=st.floats(10, 1000), length=st.floats(1, 1000), interval=st.floats(0.05, 0.5), phase=st.floats(0, 1))
def test_it_is_wrong_by_an_interval_at_most(start: float, length: float, interval: float, phase: float) -> None:
    count = int((start + length) / interval) + 4
    times = [(number + phase) * interval for number in range(count)]
    samples = [rebuilding(time) if start <= time < start + length else idle(time) for time in times]
    assert abs(sync_seconds(samples) - length) <= interval * 1.001


SUM, OTHER, LOST = DataSum("sha256:aa"), DataSum("sha256:bb"), DataSum("", "dd: Input/output error")


@pytest.mark.parametrize(
    ("degraded", "after", "expected"),
    [
        (SUM, SUM, DataVerdict.INTACT),
        (SUM, OTHER, DataVerdict.CHANGED),
        (OTHER, SUM, DataVerdict.CHANGED),
        (LOST, SUM, DataVerdict.UNREADABLE),
        (SUM, LOST, DataVerdict.UNREADABLE),
        (LOST, OTHER, DataVerdict.CHANGED),
        (OTHER, LOST, DataVerdict.CHANGED),
    ],
)
def test_the_worst_comparison_counts(degraded: DataSum, after: DataSum, expected: DataVerdict) -> None:
    assert Integrity(SUM, degraded, after).verdict is expected


def test_the_size_of_requests_is_that_of_the_stretch_alone() -> None:
    before = counters(reads=100, read_bytes=10**9, writes=7, written_bytes=70)
    after = counters(reads=103, read_bytes=10**9 + 3000, writes=8, written_bytes=1070)
    samples = [sample(0, disk=before), sample(1, disk=before), sample(2, disk=after)]
    assert mean_request_bytes(samples, ["ubda", "not sampled"]) == 1000
    assert mean_request_bytes(samples[:2], ["ubda"]) is None
