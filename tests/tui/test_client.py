"""The client of the app on a fake lab, without the app."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.disks import Lab
from lab.host.clock import HostClock, wait_for
from tests.tui.fake_lab import FakeLab
from tui import messages
from tui.client.client import LabClient
from tui.client.jobs import Job


class HeldQueue:
    """A queue into which a job gets when it may."""

    def __init__(self) -> None:
        self.inner: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.is_at_it, self.may_go_on = threading.Event(), threading.Event()
        self.get, self.get_nowait = self.inner.get, self.inner.get_nowait

    def put(self, item: object) -> None:
        if isinstance(item, Job):
            self.is_at_it.set()
            assert self.may_go_on.wait(10)
        self.inner.put(item)


def test_a_job_that_comes_while_the_machine_is_lost_fails_and_does_not_wait_for_the_next(fake_lab: FakeLab) -> None:
    posted: list[Any] = []

    def told(kind: type) -> list[Any]:
        return [each for each in posted if isinstance(each, kind)]

    def until(kind: type, count: int) -> None:
        wait_for(
            lambda: len(told(kind)),
            lambda seen: seen >= count,
            what=f"{count} {kind.__name__}",
            timeout_seconds=15,
            clock=HostClock(),
        )

    client = LabClient("uml:", posted.append, make_host=lambda: fake_lab.host, opener=fake_lab.open)
    held = client._queue = HeldQueue()  # type: ignore[assignment]
    late, next_one = Job("late", lambda _: None), Job("next", lambda _: None)
    client.start()
    try:
        until(messages.SessionOpened, 1)
        wait_for(
            lambda: fake_lab.machine.stream_of_samples is not None,
            bool,
            what="samples",
            timeout_seconds=15,
            clock=HostClock(),
        )
        asking = threading.Thread(target=client.submit, args=[late])
        asking.start()
        assert held.is_at_it.wait(10)
        fake_lab.lose()
        # Long enough for the session to end, if nothing kept it.
        time.sleep(0.3)
        held.may_go_on.set()
        asking.join(10)
        until(messages.SessionEnded, 1)
        client.restart()
        until(messages.SessionOpened, 2)
        client.submit(next_one)
        until(messages.JobFinished, 1)
    finally:
        held.may_go_on.set()
        client.close()
    assert [each.job for each in told(messages.JobFailed)] == [late]
    assert [each.job for each in told(messages.JobStarted)] == [next_one]


def test_work_that_opens_the_machine_itself_waits_for_one_that_starts(fake_lab: FakeLab) -> None:
    may_open, is_opening, has_closed = threading.Event(), threading.Event(), threading.Event()

    @contextmanager
    def open_slowly(*given: Any, **more: Any) -> Iterator[Lab]:
        is_opening.set()
        assert may_open.wait(10)
        with fake_lab.open(*given, **more) as lab:
            yield lab
        has_closed.set()

    seen: list[bool] = []

    def work() -> None:
        for _ in range(2):
            with client.released():
                seen.append(has_closed.is_set())
                has_closed.clear()

    client = LabClient("uml:", lambda _: None, make_host=lambda: fake_lab.host, opener=open_slowly)
    working = threading.Thread(target=work)
    client.start()
    try:
        assert is_opening.wait(10)
        working.start()
        # Long enough to be done, if nothing kept it.
        working.join(0.3)
        assert seen == []
        may_open.set()
        working.join(20)
    finally:
        may_open.set()
        client.close()
    # The second time the machine is about to open anew.
    assert seen == [True, True]
