"""The client's end of the agent's channel: requests out, answers matched to them by id.

A reader thread hands each answer to the request that it belongs to, so a long stream never holds up a short read.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.errors import LabError, MachineLost

PROTOCOL_VERSION = 1
# The embedded kernel's serial line holds 4095 bytes of input and, once overrun, was measured never to read again.
PART_CHARACTERS = 2000
Message = dict[str, Any]


class Pending:
    """The answers to one request, in order; the last has ``done``."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self._messages: queue.SimpleQueue[Message | LabError] = queue.SimpleQueue()

    def put(self, message: Message | LabError) -> None:
        """Called by the reader thread."""
        self._messages.put(message)

    def __iter__(self) -> Iterator[Message]:
        while True:
            message = self.next()
            yield message
            if message.get("done"):
                return

    def next(self, timeout_seconds: float | None = None) -> Message:
        """The next answer. Raises MachineLost if none will come, queue.Empty after the time-out."""
        message = self._messages.get(timeout=timeout_seconds)
        if isinstance(message, LabError):
            self._messages.put(message)
            raise message
        return message


class Channel:
    """JSON lines over two file descriptors, which the channel owns from here on.

    Args:
        read_fd: where answers come from.
        write_fd: where requests go.
        explain_loss: called when the far end is gone; returns the error that every waiting request gets.
    """

    def __init__(self, read_fd: int, write_fd: int, explain_loss: Callable[[], LabError]) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._explain_loss = explain_loss
        self._ids = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._parts_lock = threading.Lock()
        self._loss: LabError | None = None
        self._is_closing = False
        self._hello = Pending(0)
        self._reader = threading.Thread(target=self._read_all, name="raidlab-channel", daemon=True)
        self._reader.start()

    def wait_hello(self, timeout_seconds: float) -> Mapping[str, Any]:
        """The agent's greeting. Raises MachineLost if it does not come or speaks another protocol."""
        try:
            hello = self._hello.next(timeout_seconds)
        except queue.Empty:
            raise MachineLost(
                f"the machine did not answer within {timeout_seconds:g} s", hint="try again; 'raidlab doctor' names the cause"
            ) from None
        if hello.get("protocol") != PROTOCOL_VERSION:
            raise MachineLost(f"the agent speaks protocol {hello.get('protocol')}, not {PROTOCOL_VERSION}")
        return hello

    def request(self, verb: str, **fields: object) -> Pending:
        """Send a request and return where its answers arrive. Raises MachineLost if the machine is gone."""
        pending = self._expect_answer()
        text = json.dumps({"id": pending.request_id, "verb": verb, **fields}, separators=(",", ":"))
        if len(text) <= PART_CHARACTERS:
            self._send(text)
            return pending
        with self._parts_lock:
            for start in range(0, len(text), PART_CHARACTERS):
                part = text[start : start + PART_CHARACTERS]
                received = self._expect_answer()
                is_last = start + PART_CHARACTERS >= len(text)
                message = {"id": received.request_id, "verb": "part", "text": part, "last": is_last}
                self._send(json.dumps(message, separators=(",", ":")))
                received.next()
        return pending

    def _expect_answer(self) -> Pending:
        pending = Pending(next(self._ids))
        with self._lock:
            if self._loss:
                raise self._loss
            self._pending[pending.request_id] = pending
        return pending

    def _send(self, text: str) -> None:
        data = text.encode() + b"\n"
        try:
            with self._send_lock:
                while data:
                    data = data[os.write(self._write_fd, data) :]
        except OSError:
            self._lose()
            raise self._loss or MachineLost("the machine is gone") from None

    def close(self) -> None:
        """Close both ends; whoever still waits gets MachineLost."""
        self._is_closing = True
        with self._send_lock, contextlib.suppress(OSError):
            os.close(self._write_fd)
        self._reader.join(timeout=2.0)
        if not self._reader.is_alive():
            with contextlib.suppress(OSError):
                os.close(self._read_fd)

    def _read_all(self) -> None:
        buffered = bytearray()
        while True:
            try:
                data = os.read(self._read_fd, 65536)
            except OSError:
                data = b""
            if not data:
                self._lose()
                return
            buffered += data
            *lines, rest = buffered.split(b"\n")
            buffered = bytearray(rest)
            for line in lines:
                if line.strip():
                    self._dispatch(bytes(line))

    def _dispatch(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            # A login banner or a kernel message that strayed into the channel is no answer.
            return
        if not isinstance(message, dict):
            return
        if message.get("event") == "hello":
            self._hello.put(message)
            return
        with self._lock:
            request_id = message.get("id", -1)
            pending = self._pending.get(request_id)
            if pending and message.get("done"):
                del self._pending[request_id]
        if pending:
            pending.put(message)

    def _lose(self) -> None:
        with self._lock:
            if self._loss is None:
                self._loss = MachineLost("the machine was closed") if self._is_closing else self._explain_loss()
            waiting = list(self._pending.values())
            self._pending.clear()
            loss = self._loss
        for pending in [*waiting, self._hello]:
            pending.put(loss)
