from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lab.errors import MachineLost
from lab.machine.api import RawSample, SampleRequest, SampleStream
from lab.measure.samples import Recorder, Sample
from tests.unit.fakes import FakeMachine, FakeSampleStream
from tests.unit.measure.samples_of import raw


class LiveStream:
    """Gives samples until it is stopped, as the agent does."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def __iter__(self) -> Iterator[RawSample]:
        yield raw(1.0)
        self.stopped.wait(timeout=10)
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
    def __init__(self, stream: SampleStream) -> None:
        super().__init__()
        self.stream_given = stream

    def sample(self, request: SampleRequest) -> FakeSampleStream:
        super().sample(request)
        return self.stream_given  # type: ignore[return-value]


def test_samples_are_kept_in_order_and_told() -> None:
    machine = FakeMachine(samples=[raw(1.0), raw(2.0), raw(3.0)])
    told: list[Sample] = []
    with Recorder(machine, "md0", ("ubda",), hertz=5, on_sample=told.append) as recorder:
        pass
    assert [each.time_seconds for each in recorder.samples] == [1.0, 2.0, 3.0]
    assert told == list(recorder.samples)
    assert machine.sample_requests[0].interval_seconds == pytest.approx(0.2)
    assert machine.sample_requests[0].block_devices == ("md0", "ubda")


def test_a_stretch_of_time_has_both_its_ends() -> None:
    with Recorder(FakeMachine(samples=[raw(float(time)) for time in range(6)]), None, ()) as recorder:
        pass
    assert [each.time_seconds for each in recorder.between(2.0, 4.0)] == [2.0, 3.0, 4.0]


def test_leaving_stops_the_stream_and_waits_for_what_was_under_way() -> None:
    stream = LiveStream()
    with Recorder(StreamingMachine(stream), None, ()) as recorder:
        assert not stream.stopped.is_set()
    assert stream.stopped.is_set()
    assert [each.time_seconds for each in recorder.samples] == [1.0, 2.0]


def test_a_lost_machine_is_told_at_the_end() -> None:
    recorder = Recorder(StreamingMachine(BrokenStream()), None, ())
    with pytest.raises(MachineLost), recorder:
        pass


def test_a_lost_machine_does_not_hide_the_error_that_is_on_its_way() -> None:
    recorder = Recorder(StreamingMachine(BrokenStream()), None, ())
    with pytest.raises(KeyError, match="the first"), recorder:
        raise KeyError("the first")


def test_a_machine_that_was_lost_before_refuses_to_record() -> None:
    with pytest.raises(MachineLost), Recorder(FakeMachine(is_lost=True), None, ()):
        pass
