"""The client's end of the channel, with an agent that misbehaves."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lab.errors import LabError, MachineLost
from lab.machine import qemu
from lab.machine.agent import PROTOCOL_VERSION
from lab.machine.channel import WINDOW_BYTES, Channel
from tests.waiting import PATIENCE_SECONDS, wait_until


@dataclass
class FarEnd:
    """The agent's two descriptors, and the channel under test."""

    requests_fd: int
    answers_fd: int
    channel: Channel

    def send(self, *messages: object) -> None:
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            os.write(self.answers_fd, data)

    def heard(self) -> dict[str, Any]:
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.requests_fd, 1)
        request: dict[str, Any] = json.loads(line)
        return request

    def is_blocked(self) -> Callable[[], bool]:
        """Watch the channel: the result says whether a sender has found no room, so that it waits for a receipt."""
        found_none = threading.Event()
        state = self.channel._state
        wait_for = state.wait_for

        def noted(has_room: Callable[[], object], timeout: float | None = None) -> object:
            if not has_room():
                found_none.set()
            return wait_for(has_room, timeout)

        state.wait_for = noted  # type: ignore[method-assign,assignment]
        return found_none.is_set

    def hang_up(self) -> None:
        os.close(self.answers_fd)
        self.answers_fd = -1


@pytest.fixture
def far() -> Iterator[FarEnd]:
    yield from far_end()


def far_end(
    on_silence: Callable[[int, Collection[str]], LabError | None] | None = None,
    explain: Callable[[], LabError] = lambda: MachineLost("it died", hint="again"),
) -> Iterator[FarEnd]:
    requests_read, requests_write = os.pipe()
    answers_read, answers_write = os.pipe()
    channel = Channel(answers_read, requests_write, explain, on_silence=on_silence)
    end = FarEnd(requests_read, answers_write, channel)
    yield end
    channel.close()
    for fd in (end.requests_fd, end.answers_fd):
        if fd >= 0:
            os.close(fd)


def test_garbage_between_the_messages_is_passed_over(far: FarEnd) -> None:
    pending = far.channel.request("write")
    far.send(
        b"Welcome to lab1!\n", b"\n", b"[1,2]\n", b'{"id":{}}\n', b'{"id":999,"done":true}\n', b"\xff\xfe{\n", b"7\n"
    )
    far.send(b'{"id":1,', b'"done":true}\n')
    assert pending.next(PATIENCE_SECONDS) == {"id": 1, "done": True}


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("run", {"out": 5}),
        ("run", {"out": None}),
        ("run", {"done": True}),
        ("run", {"done": True, "status": "a", "seconds": 0.1, "started": 1.0}),
        ("run", {"done": True, "status": 2**70, "seconds": 0.1, "started": 1.0}),
        ("run", {"done": True, "status": 0, "seconds": float("nan"), "started": 1.0}),
        ("run", {"done": 1, "error": "os"}),
        ("read", {"done": True, "files": ["a"]}),
        ("read", {"done": True, "files": {"a": 5}}),
        ("list", {"done": True, "names": {"a": None}}),
        ("sample", {"sample": {"t": 1.0}}),
        ("sample", {"sample": {"t": 1.0, "files": {}, "threads": {"x": "y"}}}),
        ("write", {"done": True, "error": "os"}),
        ("call", {"done": True, "failed": {}}),
    ],
)
def test_an_answer_that_no_agent_gives_ends_its_request_alone(far: FarEnd, verb: str, answer: dict[str, Any]) -> None:
    asked, other = far.channel.request(verb), far.channel.request("write")
    far.send({"id": asked.request_id, **answer}, {"id": other.request_id, "done": True})
    with pytest.raises(MachineLost, match=f"its answer to '{verb}' is invalid"):
        asked.next(PATIENCE_SECONDS)
    assert other.next(PATIENCE_SECONDS)["done"]


@pytest.mark.parametrize("size", ["x", 1e999, -(10**30), 10**30])
def test_a_forged_receipt_does_not_enlarge_the_window(far: FarEnd, size: object) -> None:
    far.send({"event": "received", "bytes": size})
    request = far.channel.request("write")
    assert far.heard()["id"] == request.request_id
    far.send({"id": request.request_id, "done": True})
    assert request.next(PATIENCE_SECONDS)["done"]

    def send() -> None:
        with contextlib.suppress(MachineLost):
            far.channel.request("write", text="x" * 10_000)

    sender = threading.Thread(target=send)
    is_blocked = far.is_blocked()
    sender.start()
    wait_until(lambda: is_blocked() or not sender.is_alive())
    assert len(os.read(far.requests_fd, 65536)) <= WINDOW_BYTES
    far.channel.close()
    sender.join(PATIENCE_SECONDS)
    assert not sender.is_alive()


def test_a_line_without_end_is_a_loss_before_it_fills_the_memory(far: FarEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.machine.channel.MESSAGE_LIMIT_BYTES", 10_000)
    pending = far.channel.request("read")
    far.send(b"x" * 20_000)
    with pytest.raises(MachineLost, match="a line that does not end"):
        pending.next(PATIENCE_SECONDS)


def test_an_end_in_the_middle_of_a_message_is_a_loss_for_all(far: FarEnd) -> None:
    waiting = [far.channel.request("run"), far.channel.request("sample")]
    far.send(b'{"id":1,"out":"ha')
    far.hang_up()
    for pending in waiting:
        for _ in range(2):
            with pytest.raises(MachineLost, match="it died"):
                pending.next(PATIENCE_SECONDS)
    with pytest.raises(MachineLost, match="it died"):
        far.channel.request("read")
    with pytest.raises(MachineLost, match="it died"):
        far.channel.wait_hello(PATIENCE_SECONDS)


def test_a_loss_that_cannot_be_explained_is_still_a_loss() -> None:
    def explain() -> LabError:
        raise RuntimeError("no idea")

    for far in far_end(explain=explain):
        far.hang_up()
        with pytest.raises(MachineLost, match="unknown reason"):
            far.channel.wait_hello(PATIENCE_SECONDS)


def test_a_request_to_an_end_that_no_longer_reads_is_a_loss(far: FarEnd) -> None:
    os.close(far.requests_fd)
    far.requests_fd = -1
    with pytest.raises(MachineLost, match="it died"):
        far.channel.request("read")


def test_a_long_request_waits_for_receipts(far: FarEnd) -> None:
    sender = threading.Thread(target=far.channel.request, args=("write",), kwargs={"text": "x" * 10_000})
    sender.start()
    received = 0
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(far.requests_fd, 65536)
        assert len(data) <= WINDOW_BYTES
        line += data
        received += len(data)
        if received >= 1024:
            far.send({"event": "received", "bytes": received})
            received = 0
    sender.join(PATIENCE_SECONDS)
    assert json.loads(line)["text"] == "x" * 10_000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_many_small_requests_never_overrun_the_line(far: FarEnd) -> None:
    requests = [threading.Thread(target=far.channel.request, args=("read" * 100,)) for _ in range(40)]
    is_blocked = far.is_blocked()
    for request in requests:
        request.start()
    wait_until(lambda: is_blocked() or not any(request.is_alive() for request in requests))
    assert len(os.read(far.requests_fd, 65536)) <= WINDOW_BYTES
    far.channel.hang_up()
    for request in requests:
        request.join(PATIENCE_SECONDS)
        assert not request.is_alive()


def test_closing_wakes_waiting_requests_although_the_far_end_stays(far: FarEnd) -> None:
    pending = far.channel.request("run")
    far.channel.close()
    with pytest.raises(MachineLost, match="was closed"):
        pending.next(PATIENCE_SECONDS)
    with pytest.raises(MachineLost, match="was closed"):
        far.channel.request("read")


def test_a_machine_without_a_processor_gets_more_time_to_start(far: FarEnd) -> None:
    begun, asked = time.monotonic(), []

    def starved() -> float:
        asked.append(time.monotonic() - begun)
        return asked[-1]

    with pytest.raises(MachineLost, match="did not answer within"):
        far.channel.wait_hello(0.05, waited_seconds=starved)
    assert time.monotonic() - begun >= 0.25
    assert len(asked) > 1


def test_another_protocol_is_refused(far: FarEnd) -> None:
    far.send({"event": "hello", "protocol": 99})
    with pytest.raises(MachineLost, match="protocol 99"):
        far.channel.wait_hello(PATIENCE_SECONDS)


def test_a_consumer_that_does_not_read_blocks_no_other(far: FarEnd) -> None:
    ignored, wanted = far.channel.request("run"), far.channel.request("write")
    for _ in range(500):
        far.send({"id": ignored.request_id, "out": "x" * 1000})
    far.send({"id": wanted.request_id, "done": True})
    assert wanted.next(PATIENCE_SECONDS)["done"]
    assert ignored.next(PATIENCE_SECONDS)["out"] == "x" * 1000
    with pytest.raises(queue.Empty):
        far.channel.request("read").next(0.01)


@dataclass
class Listener:
    """Records the calls of ``on_silence``, and gives the machine up at the given second."""

    ends_at: int
    calls: list[tuple[int, tuple[str, ...]]]

    def on_silence(self, seconds: int, awaited: Collection[str]) -> LabError | None:
        self.calls.append((seconds, tuple(awaited)))
        return MachineLost("the kernel hangs") if seconds == self.ends_at else None


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    monkeypatch.setattr("lab.machine.channel.SLICE_SECONDS", 0.05)
    return Listener(8, [])


@pytest.fixture
def heard_far(listener: Listener) -> Iterator[FarEnd]:
    yield from far_end(listener.on_silence)


def test_silence_ends_every_wait_once_it_is_judged(heard_far: FarEnd, listener: Listener) -> None:
    heard_far.send({"event": "hello", "protocol": PROTOCOL_VERSION})
    heard_far.channel.wait_hello(PATIENCE_SECONDS)
    waiting = [heard_far.channel.request("run"), heard_far.channel.request("write")]
    for pending in waiting:
        with pytest.raises(MachineLost, match="the kernel hangs"):
            pending.next(PATIENCE_SECONDS)
    assert listener.calls[-1] == (8, ("run", "write"))
    assert [seconds for seconds, _ in listener.calls[-8:]] == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(MachineLost, match="the kernel hangs"):
        heard_far.channel.request("read")


def test_silence_ends_a_request_of_which_nothing_more_is_read(heard_far: FarEnd) -> None:
    heard_far.send({"event": "hello", "protocol": PROTOCOL_VERSION})
    with pytest.raises(MachineLost, match="the kernel hangs"):
        heard_far.channel.request("write", text="x" * 500_000)


def test_all_that_may_be_under_way_to_a_qemu_machine_fits_into_its_socket() -> None:
    """Otherwise write(2) would block once the machine hangs, and neither its silence nor a close could end that."""
    ping = b'{"id":0,"verb":"read","paths":[]}\n'
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        assert [near.send(ping) for _ in range(-(-qemu.WINDOW_BYTES // len(ping)))] == [len(ping)] * 241


def test_a_long_request_lives_as_long_as_the_agent_answers_what_it_is_asked_meanwhile(
    heard_far: FarEnd, listener: Listener
) -> None:
    heard_far.send({"event": "hello", "protocol": PROTOCOL_VERSION})
    heard_far.channel.wait_hello(PATIENCE_SECONDS)
    pending = heard_far.channel.request("call")
    assert heard_far.heard()["verb"] == "call"
    # So large that no delay of this test counts as silence.
    listener.ends_at = 1000
    for _ in range(10):
        # A ping is sent after two slices, long before the limit.
        asked = heard_far.heard()
        assert (asked["verb"], asked["paths"]) == ("read", [])
        listener.calls.clear()
        heard_far.send({"id": asked["id"], "done": True, "files": {}})
        wait_until(lambda: (1, ("call",)) in listener.calls, failure=lambda: f"silence goes on: {listener.calls[-9:]}")
    heard_far.send({"id": pending.request_id, "done": True})
    assert pending.next(PATIENCE_SECONDS)["done"]


def test_the_listener_is_not_polled_without_pending_requests(heard_far: FarEnd, listener: Listener) -> None:
    heard_far.send({"event": "hello", "protocol": PROTOCOL_VERSION})
    heard_far.channel.wait_hello(PATIENCE_SECONDS)
    listener.calls.clear()
    time.sleep(12 * 0.05)
    assert listener.calls == []


def test_a_greeting_is_awaited_too(heard_far: FarEnd) -> None:
    with pytest.raises(MachineLost, match="the kernel hangs"):
        heard_far.channel.wait_hello(PATIENCE_SECONDS)
