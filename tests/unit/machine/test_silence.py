"""Limit for the silence of a machine in QEMU: up to a limit, time spent waiting for a processor does not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lab.machine.channel import MOST_PATIENCE
from lab.machine.qemu import Silence
from lab.machine.stand_still import SILENT_SECONDS


def seconds_until_lost(waited_seconds: Callable[[], float | None], silences: Sequence[int]) -> int:
    silence = Silence(waited_seconds)
    return next((number for number, each in enumerate(silences) if silence.on_silence(each, ["run"])), -1)


@pytest.mark.parametrize(
    ("waited_each_second", "lost_after"),
    [(0.0, SILENT_SECONDS), (0.5, 2 * SILENT_SECONDS - 1), (2.0, MOST_PATIENCE * SILENT_SECONDS)],
)
def test_waiting_for_a_processor_does_not_count(waited_each_second: float, lost_after: int) -> None:
    waited = 1000.0

    def waited_seconds() -> float:
        nonlocal waited
        waited += waited_each_second
        return waited

    assert seconds_until_lost(waited_seconds, range(1, 10_000)) + 1 == lost_after


def test_a_computer_that_does_not_count_waiting_has_the_usual_limit() -> None:
    assert seconds_until_lost(lambda: None, range(1, 10_000)) + 1 == SILENT_SECONDS


def test_each_silence_is_judged_by_itself() -> None:
    assert seconds_until_lost(lambda: None, [*range(1, SILENT_SECONDS)] * 3) == -1
