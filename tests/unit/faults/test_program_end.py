"""A program on the machine that is closed before its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.errors import MachineLost
from lab.faults import place


class LostStream:
    """Prints a document; its machine is lost by the time it is stopped."""

    stops = 0

    def chunks(self) -> Iterator[str]:
        yield '{"step": 1}\n'
        yield '{"step": 2}\n'

    def stop(self, signal_number: int) -> None:
        assert signal_number == 9
        self.stops += 1
        raise MachineLost("the machine was closed")


def test_closing_after_the_machine_was_lost_raises_nothing() -> None:
    stream = LostStream()

    class Machine:
        def install(self, *_: Any) -> str:
            return "/run/raidlab/program"

        def stream(self, *_: Any, **__: Any) -> LostStream:
            return stream

    documents = place.run_program(Machine(), place.PLAYER, {})  # type: ignore[arg-type]
    assert next(documents) == {"step": 1}
    documents.close()  # type: ignore[attr-defined]
    assert stream.stops == 1
