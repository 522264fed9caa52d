"""Samples as a timeline: interval values, gaps between recordings, and never more points than a plot can show."""

from __future__ import annotations

import msgspec
import pytest

from lab.arrays.status import SyncProgress
from lab.measure.rebuild import MOST_POINTS, Recording, timeline_of
from lab.measure.samples import Sample
from tests.unit.measure.samples_of import counters, sample


def busy_disk(number: int, start: float = 0.0, *, rebuilt: float | None = None) -> Sample:
    """After ``number`` tenths of a second, with 100 reads and 4 MB read in each second so far."""
    disk = counters(reads=10 * number, read_bytes=400_000 * number, read_wait_seconds=0.02 * number)
    progress = None if rebuilt is None else SyncProgress(int(1000 * rebuilt), 1000)
    action = "idle" if rebuilt is None else "recover"
    return sample(start + number / 10, disk=disk, busy=10 * number, idle=10 * number, action=action, progress=progress)


def test_values_are_those_of_the_interval_before() -> None:
    found = timeline_of([Recording("healthy", (busy_disk(0, 7.0), busy_disk(1, 7.0), busy_disk(3, 7.0)))], "ubda", [])
    assert found is not None
    assert found.seconds == pytest.approx((0.0, 0.1, 0.3))
    assert found.read_iops[0] is None
    assert found.read_iops[1:] == pytest.approx((100.0, 100.0))
    assert found.wait_seconds[1:] == pytest.approx((0.002, 0.002))
    assert found.busy_fraction[1:] == pytest.approx((0.5, 0.5))


def test_recordings_are_stretches_of_one_axis_with_a_gap_between_them() -> None:
    rebuilding = (busy_disk(0, 9.0), *(busy_disk(n, 9.0, rebuilt=n / 4) for n in (1, 2, 3)), busy_disk(4, 9.0))
    found = timeline_of(
        [Recording("healthy", (busy_disk(0), busy_disk(1))), Recording("rebuilding", rebuilding)], "ubda", ["ubda"]
    )
    assert found is not None
    assert found.read_iops[2] is None, "the time between two recordings is no interval"
    assert [stretch.name for stretch in found.stretches] == ["healthy", "rebuilding"]
    assert (found.stretches[1].start_seconds, found.stretches[1].end_seconds) == pytest.approx((9.1, 9.3))
    assert found.rebuilt_fraction == (None, None, None, 0.25, 0.5, 0.75, None)
    assert found.members[0].read_bytes_per_second[1] == pytest.approx(4e6)


def test_a_long_rebuild_is_thinned_and_keeps_its_mean() -> None:
    samples = tuple(busy_disk(number) for number in range(10 * MOST_POINTS + 1))
    found = timeline_of([Recording("rebuilding", samples)], "ubda", [])
    assert found is not None
    assert len(found.seconds) <= MOST_POINTS + 1
    assert found.seconds[-1] == pytest.approx(MOST_POINTS)
    assert set(map(round, filter(None, found.read_iops))) == {100}


def test_one_sample_makes_no_timeline() -> None:
    assert timeline_of([Recording("rebuilding", (busy_disk(0),)), Recording("restored", ())], "ubda", []) is None


def test_columns_of_different_lengths_are_refused() -> None:
    found = timeline_of([Recording("healthy", (busy_disk(0), busy_disk(1)))], "ubda", [])
    assert found is not None
    with pytest.raises(ValueError, match="different lengths"):
        msgspec.structs.replace(found, read_iops=(1.0,))
