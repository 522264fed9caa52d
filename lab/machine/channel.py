"""The client's end of the agent's channel, which sends requests and matches answers to them by id.

A reader thread passes each answer to its request, so a long stream never delays a short read, and a consumer that stops
reading does not block any other.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, TypedDict

import msgspec

from lab.errors import RUN_AGAIN, LabError, MachineLost
from lab.gates.decoding import convert
from lab.machine.agent import MESSAGE_LIMIT_BYTES, PROTOCOL_VERSION

# The embedded kernel's serial line holds 4095 bytes of input and, as measured, never reads again after an overrun. So
# at most this much is in flight. The agent acknowledges every 1024 bytes, so the next piece always fits eventually.
WINDOW_BYTES = 3500
PIECE_BYTES = 2000
SLICE_SECONDS = 1.0
PING_SLICES = 2
"""Silent slices between pings. A ping is an empty request, which the agent answers immediately, whatever is running."""
MOST_PATIENCE = 5
"""Multiple of a time limit after which a machine counts as lost even if it got no processor time."""
Message = dict[str, Any]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class _Sample(TypedDict):
    t: _Moment
    files: dict[str, str | None]
    threads: dict[str, int]


class _Answer(TypedDict, total=False):
    """The fields of an agent's answers (lab/machine/agent.py). The client checks the fields before it uses them."""

    done: bool
    out: str
    err: str
    status: Annotated[int, msgspec.Meta(ge=-64, le=255)]
    timed_out: bool
    seconds: _Moment
    started: _Moment
    files: dict[str, str | None]
    names: dict[str, list[str]]
    sample: _Sample
    failed: str
    base64: str
    error: str
    text: str


_REQUIRED_FIELDS = {
    "run": ("status", "seconds", "started"),
    "read": ("files",),
    "list": ("names",),
    "terminal": ("status",),
}
"""Fields that the last answer to a request must have, unless it is an error."""


def counted_seconds(passed: float, waited: float | None) -> float:
    """Return how much of a time counts towards a limit. Most of the time spent waiting for a processor does not."""
    return max(passed - (waited or 0.0), passed / MOST_PATIENCE)


def is_understood(verb: str, message: Message) -> bool:
    """Whether a message is a valid answer to a request with this verb."""
    try:
        convert(message, _Answer)
    except msgspec.ValidationError:
        return False
    if "error" in message:
        return "text" in message
    return not message.get("done") or all(key in message for key in _REQUIRED_FIELDS.get(verb, ()))


class Pending:
    """The answers to one request, in order; the last has ``done``."""

    def __init__(self, request_id: int, verb: str) -> None:
        self.request_id = request_id
        self.verb = verb
        self._messages: queue.SimpleQueue[Message | LabError] = queue.SimpleQueue()

    def put(self, message: Message | LabError) -> None:
        self._messages.put(message)

    def next(self, timeout_seconds: float | None = None) -> Message:
        """Return the next answer. Raises MachineLost if there will be none, and queue.Empty after the time-out."""
        message = self._messages.get(timeout=timeout_seconds)
        if isinstance(message, LabError):
            self._messages.put(message)
            raise message
        return message


class Channel:
    """JSON lines over two file descriptors, which the channel owns.

    ``explain_loss`` is called when the remote end is gone, and returns the error that every waiting request gets.
    ``life_fd`` reaches end of file when the machine ends, even if a leftover process holds the answers' pipe open. At
    most ``window_bytes`` are sent but not yet acknowledged by the agent.

    ``on_silence`` is called every second while answers are outstanding, with the seconds of silence so far and the
    verbs of the outstanding requests. Time in which this process itself was stopped does not count. If ``on_silence``
    returns an error, the machine is lost.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        explain_loss: Callable[[], LabError],
        *,
        life_fd: int | None = None,
        window_bytes: float = WINDOW_BYTES,
        on_silence: Callable[[int, Collection[str]], LabError | None] | None = None,
    ) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._life_fd = life_fd
        self._explain_loss = explain_loss
        self._window_bytes = window_bytes
        self._on_silence = on_silence
        self._has_greeted = False
        self._ids = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._state = threading.Condition()
        self._send_lock = threading.Lock()
        self._loss: LabError | None = None
        self._is_closing = False
        self._under_way_bytes = 0
        self._is_line_torn = False
        self._hello = Pending(0, "hello")
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._reader = threading.Thread(target=self._read_all, name="raidlab-channel", daemon=True)
        self._reader.start()

    def wait_hello(
        self, timeout_seconds: float, *, waited_seconds: Callable[[], float | None] = lambda: None
    ) -> Mapping[str, Any]:
        """Return the agent's greeting. Raises MachineLost after the time-out, or if the protocol version differs.

        Of the time that the machine waited for a processor, only a part counts (see ``counted_seconds``).
        """
        begun = time.monotonic()
        hello: Message | None = None
        while hello is None:
            left = timeout_seconds - counted_seconds(time.monotonic() - begun, waited_seconds())
            if left <= 0:
                raise MachineLost(
                    f"the machine did not answer within {time.monotonic() - begun:.3g} s",
                    hint="try again when this computer is less busy; 'raidlab doctor' names what is missing",
                )
            with contextlib.suppress(queue.Empty):
                hello = self._hello.next(left)
        if hello.get("protocol") != PROTOCOL_VERSION:
            raise MachineLost(f"the agent speaks protocol {hello.get('protocol')}, not {PROTOCOL_VERSION}")
        return hello

    def request(self, verb: str, **fields: object) -> Pending:
        """Send a request and return the queue of its answers. Raises MachineLost if the machine is gone."""
        pending = Pending(next(self._ids), verb)
        with self._state:
            if self._loss or self._is_closing:
                raise self._loss or MachineLost("the machine was closed")
            self._pending[pending.request_id] = pending
        line = json.dumps({"id": pending.request_id, "verb": verb, **fields}, separators=(",", ":")).encode("ascii")
        try:
            with self._send_lock:
                line = b"\n" * self._is_line_torn + line + b"\n"
                # This stays true if Ctrl-C interrupts the write, so that the next line does not begin with a fragment.
                self._is_line_torn = True
                for start in range(0, len(line), PIECE_BYTES):
                    piece = line[start : start + PIECE_BYTES]
                    self._wait_for_room(len(piece))
                    while piece:
                        piece = piece[os.write(self._write_fd, piece) :]
                self._is_line_torn = False
        except BaseException as error:
            with self._state:
                self._pending.pop(pending.request_id, None)
            if not isinstance(error, OSError):
                raise
            self._lose()
            raise self._loss or MachineLost("the machine was lost") from None
        return pending

    def _wait_for_room(self, size: int) -> None:
        """Wait until the agent has acknowledged enough input. Raises MachineLost once nothing more can be sent."""
        with self._state:
            self._state.wait_for(
                lambda: self._loss or self._is_closing or self._under_way_bytes + size <= self._window_bytes
            )
            if self._loss or self._is_closing:
                raise self._loss or MachineLost("the machine was closed")
            self._under_way_bytes += size

    def hang_up(self) -> None:
        """Close the sending end, so that the agent sees end of file; answers may still arrive."""
        with self._state:
            self._is_closing = True
            self._state.notify_all()
        with self._send_lock:
            if self._write_fd >= 0:
                os.close(self._write_fd)
                self._write_fd = -1

    def close(self) -> None:
        """Close both ends; outstanding requests fail with MachineLost."""
        self.hang_up()
        with self._state:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _read_all(self) -> None:
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        poll.register(self._wake_fd, select.POLLIN)
        if self._life_fd is not None:
            poll.register(self._life_fd, select.POLLIN)
        rest = b""
        try:
            while data := self._read_some(poll):
                rest += data
                if b"\n" in data:
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        self._dispatch(line)
                if len(rest) > MESSAGE_LIMIT_BYTES:
                    with self._state:
                        self._loss = self._loss or _not_understood("it sends a line that does not end")
                    break
        finally:
            self._lose()
            with self._state:
                os.close(self._wake_fd)
                self._wake_fd = -1
            os.close(self._read_fd)
            if self._life_fd is not None:
                os.close(self._life_fd)

    def _read_some(self, poll: select.poll) -> bytes:
        """Return the next bytes; none at the end of the channel, or once this side has closed it or given up."""
        silent = 0
        while not (events := poll.poll(SLICE_SECONDS * 1000 if self._on_silence else None)):
            awaited = self._awaited()
            silent = silent + 1 if awaited else 0
            if awaited and self._on_silence and (loss := self._on_silence(silent, awaited)):
                with self._state:
                    self._loss = self._loss or loss
                return b""
            if awaited and silent % PING_SLICES == 0:
                self._ping()
        ready = {fd for fd, _ in events}
        if self._wake_fd in ready or self._read_fd not in ready:
            return b""
        with contextlib.suppress(OSError):
            return os.read(self._read_fd, 65536)
        return b""

    def _awaited(self) -> tuple[str, ...]:
        """Return the verbs of all outstanding requests; the greeting counts as one."""
        with self._state:
            outstanding = [*self._pending.values(), *(() if self._has_greeted else (self._hello,))]
            return () if self._is_closing else tuple(pending.verb for pending in outstanding)

    def _ping(self) -> None:
        """Send a read request that names no files, if the line has room. No caller waits for the answer."""
        line = b'{"id":0,"verb":"read","paths":[]}\n'
        if not self._send_lock.acquire(blocking=False):
            # Another thread is sending a request, whose answer is outstanding as well.
            return
        try:
            with self._state:
                if self._under_way_bytes + len(line) > self._window_bytes or self._is_line_torn or self._write_fd < 0:
                    return
                self._under_way_bytes += len(line)
            with contextlib.suppress(OSError):
                os.write(self._write_fd, line)
        finally:
            self._send_lock.release()

    def _dispatch(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            # Ignore a login banner or a kernel message that strayed into the channel.
            return
        if not isinstance(message, dict):
            return
        match message.get("event"):
            case "hello":
                self._has_greeted = True
                self._hello.put(message)
            case "received":
                size = message.get("bytes")
                with self._state:
                    # The agent cannot have received more than was sent.
                    received = min(size, self._under_way_bytes) if isinstance(size, int) else 0
                    self._under_way_bytes -= max(0, received)
                    self._state.notify_all()
            case _:
                self._hand_over(message)

    def _hand_over(self, message: Message) -> None:
        request_id = message.get("id")
        if not isinstance(request_id, int):
            return
        with self._state:
            pending = self._pending.get(request_id)
            is_good = pending is None or is_understood(pending.verb, message)
            if pending and (message.get("done") or not is_good):
                del self._pending[request_id]
        if pending:
            pending.put(message if is_good else _not_understood(f"its answer to '{pending.verb}' is invalid"))

    def _lose(self) -> None:
        """Fail all outstanding requests with the reason for the loss.

        Finding the reason may take seconds, so no lock is held meanwhile.
        """
        with self._state:
            is_closing, loss = self._is_closing, self._loss
        if loss is None and is_closing:
            loss = MachineLost("the machine was closed")
        elif loss is None:
            try:
                loss = self._explain_loss()
            except Exception as error:  # a failed explanation must not leave a caller waiting
                loss = MachineLost(
                    f"the machine was lost for an unknown reason (finding the reason failed: {error!r})", hint=RUN_AGAIN
                )
        with self._state:
            self._loss = loss = self._loss or loss
            waiting = list(self._pending.values())
            self._pending.clear()
            self._state.notify_all()
        for pending in [*waiting, self._hello]:
            pending.put(loss)


def _not_understood(why: str) -> MachineLost:
    return MachineLost(
        f"raidlab cannot interpret the agent's answer: {why}",
        hint="make sure that nothing else writes to the agent's connection, then try again",
    )
