"""The recorder: keeps samples while something is measured, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from lab.errors import LabError
from lab.machine.api import Machine
from lab.measure.samples import DEFAULT_HERTZ, Sample, SampleReader, sample_request


class Recorder:
    """``with Recorder(machine, "md0", ["ubda", "ubdb"]) as recorder: …`` and then ``recorder.samples``.

    ``on_sample`` is called on the recorder's thread. A machine that is lost ends the recording; whoever else talks to
    the machine hears of it.
    """

    def __init__(
        self,
        machine: Machine,
        array: str | None,
        disks: Sequence[str],
        *,
        hertz: float = DEFAULT_HERTZ,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        self._machine = machine
        self._request = sample_request(array, disks, hertz=hertz)
        self._reader = SampleReader(array)
        self._on_sample = on_sample
        self._samples: list[Sample] = []
        self._thread = threading.Thread(target=self._collect, name="raidlab-recorder", daemon=True)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Everything so far, oldest first."""
        return tuple(self._samples)

    def between(self, start_seconds: float, end_seconds: float) -> tuple[Sample, ...]:
        """Samples of a stretch of the machine's time."""
        return tuple(sample for sample in self._samples if start_seconds <= sample.time_seconds <= end_seconds)

    def __enter__(self) -> Self:
        self._stream = self._machine.sample(self._request)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stream.stop()
        except LabError:
            if error is None:
                raise
        self._thread.join(timeout=5.0)

    def _collect(self) -> None:
        try:
            for raw in self._stream:
                sample = self._reader.read(raw)
                self._samples.append(sample)
                if self._on_sample:
                    self._on_sample(sample)
        except LabError:
            return
