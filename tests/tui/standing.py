"""A fake lab on which time is virtual: looks are asked for, and its clock goes on only by ``sleep``."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab.machine import SampleRequest
from tests.tui.fake_lab import FakeLab, TickingMachine, TickStream
from tests.unit.fakes import FACTS


class StandingLab(FakeLab):
    """Its ``machine.may_pass`` lets time stand still while it is cleared, as if the machine were busy."""

    def __init__(self, state_folder: Path) -> None:
        super().__init__(state_folder)
        self.machine = StandingMachine(self)
        self.show(None)


class StandingMachine(TickingMachine):
    """Its samples show the lab as it is."""

    def __init__(self, lab: StandingLab) -> None:
        super().__init__(facts=replace(FACTS, is_virtual_time=True))
        self._lab = lab
        self.untils: list[tuple[str, ...]] = []
        self.may_pass = threading.Event()
        self.may_pass.set()

    def sleep(self, seconds: float, *, until: Sequence[str] = ()) -> float:
        self._require_alive()
        self.may_pass.wait(10.0)
        self.untils.append(tuple(until))
        self._lab.seconds += seconds
        return self._lab.seconds

    def sample(self, request: SampleRequest) -> TickStream:  # type: ignore[override] # another kind of stream
        stream = super().sample(request)
        assert request.interval_seconds == 0
        stream.put(self._lab.sample_now())
        stream.put(None)
        return stream
