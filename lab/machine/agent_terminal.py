"""The agent's verbs for a terminal, loaded when a client first needs one. This file stands alone, like the agent.

    terminal  columns, rows, argv, environ, window -> {"base64": output} pieces, then {"status"}
    type      target, base64                       -> {} once the terminal has accepted all of it
    resize    target, columns, rows                -> {}; the terminal's programs get SIGWINCH
    taken     target, bytes                        -> {}; the client has shown that many bytes of output

At most ``window`` bytes of output are in flight. A program that prints more is blocked, as on any terminal. Therefore a
flood of output uses no extra memory, and other requests are answered between pieces. Pieces are in base64, because a
program may print any bytes, a piece may end within a character, and a control character would take six bytes in JSON.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import selectors
import signal
import struct
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from lab.machine.agent import Agent

PIECE_BYTES = 4096
# A program that is left behind may hold the terminal open, so the terminal ends this long after its shell.
DRAIN_SECONDS = 0.2
# How long the last output is kept for a client that is slow to show earlier output.
LAST_PIECES_SECONDS = 5.0
KILL_AFTER_SECONDS = 2.0
# The virtual time that passes for each piece and each key. Computing takes no virtual time, but disk I/O does, and a
# full-screen program may wait for more input after an Esc (vim's ttimeoutlen is a tenth of a second).
PIECE_SETTLES_SECONDS = 0.001
SHELL_SETTLES_SECONDS = 0.01
PROGRAM_SETTLES_SECONDS = 0.2
LOCAL_MODES = 3
SESSION = 3


class PseudoTerminal:
    """A pseudo-terminal with a shell that leads its own session."""

    def __init__(self, agent: Agent, request: dict[str, Any]) -> None:
        self.agent = agent
        self.id: int = request["id"]
        self.status: int | None = None
        self.room = int(request["window"])
        self.typed = b""
        self.typing: list[int] = []
        self.settled = self.last_seen = time.monotonic() + PROGRAM_SETTLES_SECONDS
        self.due: float | None = self.settled
        self.watched = 0
        self.master, slave = os.openpty()
        try:
            self.resize(request)
            os.set_blocking(self.master, False)
            name = os.ttyname(slave)
            # The first terminal that the leader of a new session opens becomes the controlling one (tty_ioctl(4)).
            self.pid = os.posix_spawnp(
                request["argv"][0],
                request["argv"],
                {**agent.child_environ, **request["environ"]},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, 0, 1),
                    (os.POSIX_SPAWN_DUP2, 0, 2),
                ],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT],
            )
        except BaseException:
            os.close(self.master)
            raise
        finally:
            os.close(slave)
        self.watch()
        agent.running[self.id] = self

    @property
    def passes_time(self) -> bool:
        """Whether virtual time passes. It does during a command, but not while a program waits for the next key.

        A program that waits for single keys, such as an editor or the shell itself, disables canonical mode.
        """
        if self.status is not None or time.monotonic() < self.settled:
            return True
        return self.room > 0 and self.takes_lines()

    def settle(self, seconds: float) -> None:
        self.settled = self.due = max(self.settled, time.monotonic() + seconds)

    def takes_lines(self) -> bool:
        with contextlib.suppress(termios.error):
            return bool(termios.tcgetattr(self.master)[LOCAL_MODES] & termios.ICANON)
        return True

    def watch(self) -> None:
        """Watch for output while the client has room, and for room to write while typed input is pending."""
        events = (selectors.EVENT_READ if self.room > 0 else 0) | (selectors.EVENT_WRITE if self.typed else 0)
        if events == self.watched or self.is_hung_up:
            return
        if self.watched:
            self.agent.selector.unregister(self.master)
        if events:
            self.agent.selector.register(self.master, events, self.on_ready)
        self.watched = events

    def on_ready(self, master: int) -> None:
        self.write()
        self.read()

    def read(self) -> bool:
        """Send one piece to the client if there is room. Return False if no data are available, or at the end."""
        if self.room <= 0:
            return False
        try:
            data = os.read(self.master, min(PIECE_BYTES, self.room))
        except BlockingIOError:
            return False
        except OSError:
            # EIO means that no process has the terminal open any more.
            data = b""
        if not data:
            self.hang_up()
            return False
        self.room -= len(data)
        if self.status is None:
            # The program may print more. A shell, for example, disables canonical mode before it prints its prompt.
            self.settle(PIECE_SETTLES_SECONDS)
        self.agent.send({"id": self.id, "base64": base64.b64encode(data).decode("ascii")})
        self.watch()
        return True

    def write(self) -> None:
        try:
            self.typed = self.typed[os.write(self.master, self.typed) :] if self.typed else b""
        except BlockingIOError:
            pass
        except OSError:
            self.typed = b""
        if not self.typed:
            self.answer_typing()
        self.watch()

    def answer_typing(self) -> None:
        for request_id in self.typing:
            self.agent.send({"id": request_id, "done": True})
        self.typing.clear()

    def type(self, request: dict[str, Any]) -> None:
        is_shell = False
        with contextlib.suppress(OSError):
            is_shell = os.tcgetpgrp(self.master) == self.pid
        if self.status is None:
            self.settle(SHELL_SETTLES_SECONDS if is_shell else PROGRAM_SETTLES_SECONDS)
        self.typed += base64.b64decode(request["base64"])
        self.write()
        if self.typed:
            self.typing.append(request["id"])

    def resize(self, request: dict[str, Any]) -> None:
        size = struct.pack("HHHH", int(request["rows"]), int(request["columns"]), 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def take(self, request: dict[str, Any]) -> None:
        self.room += int(request["bytes"])
        if self.status is None:
            # Output may be pending already.
            self.settle(PIECE_SETTLES_SECONDS)
        self.watch()

    def on_exit(self, wait_status: int) -> None:
        self.status = os.waitstatus_to_exitcode(wait_status)
        now = time.monotonic()
        self.due, self.last_seen = now + DRAIN_SECONDS, now + LAST_PIECES_SECONDS
        if self.master < 0:
            self.finish()

    def on_time(self, now: float) -> None:
        self.due = None
        if self.status is None:
            if self.is_hung_up:
                self.kill()
            return
        while self.read():
            pass
        if self.room <= 0 and now < self.last_seen:
            self.due = now + DRAIN_SECONDS
        else:
            self.hang_up()

    def stop(self, number: int) -> None:
        """Hang up, as when a terminal's window is closed. Processes that survive this are killed later."""
        if self.status is None and number == signal.SIGKILL:
            self.kill()
        elif self.status is None:
            self.hang_up()

    @property
    def is_hung_up(self) -> bool:
        return self.master < 0

    def hang_up(self) -> None:
        """Close the terminal, so that the kernel sends SIGHUP and SIGCONT to the session (tty_ioctl(4))."""
        if not self.is_hung_up:
            if self.watched:
                self.agent.selector.unregister(self.master)
            os.close(self.master)
            self.master, self.watched, self.typed = -1, 0, b""
            self.answer_typing()
            # A shell may ignore SIGHUP.
            self.settled = self.due = time.monotonic() + KILL_AFTER_SECONDS
        if self.status is not None:
            self.finish()

    def kill(self) -> None:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
                # This is field 6 of the line (proc(5)). The first two fields are cut off.
                if int(fields[SESSION]) == self.pid:
                    os.kill(int(pid), signal.SIGKILL)

    def finish(self) -> None:
        if self.agent.running.pop(self.id, None) is not None:
            self.agent.send({"id": self.id, "done": True, "status": self.status})


def about(act: Callable[[PseudoTerminal, dict[str, Any]], None]) -> Callable[[Agent, dict[str, Any]], None]:
    """Return a verb that acts on a terminal. It is not an error if the terminal has just ended."""

    def verb(agent: Agent, request: dict[str, Any]) -> None:
        terminal = agent.running.get(request["target"])
        if isinstance(terminal, PseudoTerminal) and not terminal.is_hung_up:
            act(terminal, request)
            if request["id"] in terminal.typing:
                # The request is answered once the terminal has accepted all of the input.
                return
        agent.send({"id": request["id"], "done": True})

    return verb


verbs = {
    "terminal": PseudoTerminal,
    "type": about(PseudoTerminal.type),
    "resize": about(PseudoTerminal.resize),
    "taken": about(PseudoTerminal.take),
}
