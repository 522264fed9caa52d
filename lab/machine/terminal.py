"""The client's end of a terminal on a machine: its output, typed input and finished commands."""

from __future__ import annotations

import base64
import contextlib
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from lab.errors import LabError, MachineLost
from lab.gates.text import visible
from lab.machine.agent import RUN_FOLDER
from lab.machine.channel import Channel, Message, Pending

BASHRC = Path(__file__).resolve().parent / "terminal.bashrc"
WINDOW_BYTES = 32 * 1024
"""Limit of output that is not yet shown. The answer to another request may have to wait behind that much output."""
_TAKEN_BYTES = WINDOW_BYTES // 4
# Even in base64, a request fits on an embedded kernel's serial line along with others (lab/machine/channel.py).
_TYPED_BYTES = 1200
_SIGHUP = 1
# The lab's own escape sequence, which terminal.bashrc prints. No terminal uses the number 7777.
_MARK_START = b"\x1b]7777;"
_MARK = re.compile(rb"\x1b\]7777;([^\x07\x1b]*)\x07")
_MOST_OF_A_MARK = 128 * 1024


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A finished command that was typed at the prompt of a terminal's shell."""

    line: str
    status: int
    """The exit status as bash reports it, which is 128 + N if signal N ended the command."""
    seconds: float
    """The duration on the machine's clock."""
    folder: str
    """The shell's working folder after the command."""


class TerminalMachine(Protocol):
    """The part of a machine's interface that a terminal uses."""

    def next_message(self, pending: Pending) -> Message: ...
    def write(self, path: str, text: str) -> None: ...
    def stop_request(self, pending: Pending, signal_number: int) -> None: ...


class MarkFilter:
    """Removes the shell's marks from a terminal's output. Marks contain ``word``, which only the shell knows."""

    def __init__(self, word: str, on_command: Callable[[TypedCommand], None]) -> None:
        self._word = word
        self._on_command = on_command
        self._rest = b""

    def clean(self, data: bytes) -> bytes:
        """Return the output to show. The start of a mark is held back until its end has arrived."""
        data = self._rest + data
        self._rest = b""
        shown = _MARK.sub(self._read_mark, data)
        start = shown.rfind(_MARK_START)
        if start < 0:
            tail = shown[-len(_MARK_START) + 1 :]
            at = tail.rfind(b"\x1b")
            start = len(shown) - len(tail) + at if at >= 0 and _MARK_START.startswith(tail[at:]) else -1
        if start >= 0 and len(shown) - start < _MOST_OF_A_MARK:
            shown, self._rest = shown[:start], shown[start:]
        return shown

    def _read_mark(self, mark: re.Match[bytes]) -> bytes:
        word, *fields = mark.group(1).decode("utf-8", "replace").split(";")
        if word == self._word and len(fields) == 4:
            status, micros, folder, line = fields
            if status.isdecimal() and micros.isdecimal():
                seconds = min(int(micros[:18]) / 1e6, 1e12)
                typed = visible(unquote(line), lines=True)
                self._on_command(TypedCommand(typed, int(status[:3]), seconds, visible(unquote(folder))))
        # Always remove the lab's escape sequence, because no terminal should see it.
        return b""


class Terminal:
    """A terminal on a machine, with a root shell.

    Iterate over ``chunks`` on one thread. The other methods may be called on any thread.
    """

    def __init__(
        self,
        machine: TerminalMachine,
        channel: Channel,
        columns: int,
        rows: int,
        on_command: Callable[[TypedCommand], None],
    ) -> None:
        word = secrets.token_hex(8)
        self._machine = machine
        self._channel = channel
        self._filter = MarkFilter(word, on_command)
        environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "SHELL": "/bin/bash"}
        bashrc = f"{RUN_FOLDER}/{BASHRC.name}"
        machine.write(bashrc, BASHRC.read_text(encoding="utf-8"))
        self._pending = channel.request(
            "terminal",
            columns=columns,
            rows=rows,
            argv=["bash", "--noprofile", "--rcfile", bashrc, "-i"],
            environ={**environ, "RAIDLAB_WORD": word, "RAIDLAB_RUN": RUN_FOLDER},
            window=WINDOW_BYTES,
        )
        self.status: int | None = None
        """The shell's exit status (128 + N if signal N ended it), or None while the shell runs."""
        self._changed = threading.Condition()
        self._typed = bytearray()
        self._size: tuple[int, int] | None = None
        self._is_over = False
        self._sender = threading.Thread(target=self._send, name="terminal input", daemon=True)
        self._sender.start()

    def chunks(self) -> Iterator[bytes]:
        """Yield output in pieces, for an xterm-256color terminal, until the shell ends.

        Asking for the next piece acknowledges that the previous one was shown. A program that prints faster than its
        output is shown has to wait. Raises LabError if no shell can be started, and MachineLost if the machine is lost.
        """
        shown = 0
        try:
            while not (message := self._machine.next_message(self._pending)).get("done"):
                try:
                    data = base64.b64decode(message.get("base64", ""), validate=True)
                except ValueError:
                    what = "raidlab cannot interpret the agent's answer: the terminal's output is not base64"
                    raise MachineLost(what) from None
                if clean := self._filter.clean(data):
                    yield clean
                shown += len(data)
                if shown >= _TAKEN_BYTES:
                    self._channel.request("taken", target=self._pending.request_id, bytes=shown)
                    shown = 0
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
        if "error" in message:
            raise LabError(
                f"the machine could not open a terminal: {message['text']}",
                hint="install bash there, or run commands without a terminal: raidlab exec -- COMMAND",
            )
        status = message["status"]
        self.status = status if status >= 0 else 128 - status

    def type(self, data: bytes) -> None:
        with self._changed:
            self._typed += data
            self._changed.notify_all()

    def resize(self, columns: int, rows: int) -> None:
        with self._changed:
            self._size = columns, rows
            self._changed.notify_all()

    def stop(self) -> None:
        """Hang up, as when a window is closed. The session gets SIGHUP, and SIGKILL two seconds later."""
        with contextlib.suppress(MachineLost):
            self._machine.stop_request(self._pending, _SIGHUP)

    def _send(self) -> None:
        target = self._pending.request_id
        # If the machine is lost, the reader of the output gets the error.
        with contextlib.suppress(LabError):
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_over or self._typed or self._size)
                    if self._is_over:
                        return
                    size, self._size = self._size, None
                    piece = bytes(self._typed[:_TYPED_BYTES])
                    del self._typed[:_TYPED_BYTES]
                if size:
                    self._channel.request("resize", target=target, columns=size[0], rows=size[1])
                if piece:
                    text = base64.b64encode(piece).decode("ascii")
                    # The answer comes once the terminal has accepted all of the input. This may take a long time, and
                    # later input waits here.
                    self._machine.next_message(self._channel.request("type", target=target, base64=text))
