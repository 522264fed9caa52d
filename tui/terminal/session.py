"""The app's terminal on the machine. It runs on every screen of the app, and ends with the lab's session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.errors import LabError
from tui.state import LabMessage, TerminalCommandEnded, TerminalEnded

if TYPE_CHECKING:
    from lab.machine import Terminal, TypedCommand
    from lab.session.session import LabSession
    from tui.frontend import Frontend
    from tui.terminal.emulator import TerminalScreen


class TerminalSession:
    """At most one terminal: ``open`` starts it, ``type`` sends input, ``screen`` has its contents."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._terminal: Terminal | None = None
        self._session: LabSession | None = None
        self._lock = threading.Lock()
        self._is_opening = False
        self._early = b""
        """Input that was typed before the shell started."""
        self.screen: TerminalScreen | None = None
        """The contents of the terminal, which remain after its end; None before the first."""
        self.ended = ""
        """Why the shell ended; empty: it runs, or none was started."""
        self.on_change: Callable[[], object] = lambda: None
        """Called on any thread when the contents have changed."""

    @property
    def is_open(self) -> bool:
        return self._terminal is not None

    @property
    def takes_keys(self) -> bool:
        """Whether a shell receives input, now or once it has started."""
        return self._is_opening or self.is_open

    @property
    def is_wanted(self) -> bool:
        """Whether there is a session in which no terminal has been opened yet."""
        session = self._frontend.client.session
        return not self.takes_keys and session is not None and session is not self._session

    def open(self, columns: int, rows: int) -> None:
        """Open a terminal, unless one is open or there is no session. Input until the shell starts is buffered.

        The call does not wait for the machine, which may be busy or far away.
        """
        session = self._frontend.client.session
        if self.takes_keys or session is None:
            return
        from tui.terminal.emulator import TerminalScreen

        self._session, self._is_opening, self._early, self.ended = session, True, b"", ""
        self.screen = TerminalScreen(columns, rows, self.type)
        arguments = (session, self.screen)
        threading.Thread(target=self._follow, args=arguments, name="terminal", daemon=True).start()

    def type(self, data: bytes) -> None:
        with self._lock:
            if self._terminal:
                self._terminal.type(data)
            elif self._is_opening:
                self._early += data

    def resize(self, columns: int, rows: int) -> None:
        if self.screen and (self.screen.columns, self.screen.lines) != (columns, rows):
            with self.screen.lock:
                self.screen.resize(rows, columns)
            if self._terminal:
                self._terminal.resize(columns, rows)

    def hear(self, message: LabMessage) -> None:
        match message:
            case TerminalCommandEnded():
                # The command may have been an mdadm that creates or removes arrays.
                if self._frontend.client.session is not None:
                    self._frontend.look_up(lambda session: session.rescan(), on_error=lambda _: None)
            case TerminalEnded(terminal=terminal) if terminal is self._terminal:
                self._terminal = None
                lost = f"The machine is lost: {message.error.message}" if message.error else ""
                self.ended = lost or f"The shell exited with status {terminal.status}."
                self.on_change()
            case _:
                pass

    def _tell_command(self, command: TypedCommand) -> None:
        if self._session is not None:
            self._session.on_typed(command.line)
        self._frontend.client.log.ended_in_terminal(command)
        self._frontend.post_message(TerminalCommandEnded())

    def _follow(self, session: LabSession, screen: TerminalScreen) -> None:
        """Open the terminal and read its output, on a thread of its own. A program that prints faster must wait."""
        columns, rows = screen.columns, screen.lines
        try:
            terminal = session.machine.terminal(columns, rows, on_command=self._tell_command)
        except LabError as error:
            self._is_opening, self.ended = False, error.message
            self.on_change()
            return
        with self._lock:
            self._terminal, self._is_opening = terminal, False
            if (screen.columns, screen.lines) != (columns, rows):
                terminal.resize(screen.columns, screen.lines)
            if self._early:
                terminal.type(self._early)
        self._read(terminal, screen)

    def _read(self, terminal: Terminal, screen: TerminalScreen) -> None:
        client, failure = self._frontend.client, None
        forget = client.on_end(terminal.stop)
        try:
            for chunk in terminal.chunks():
                with screen.lock:
                    screen.feed(chunk)
                self.on_change()
        except LabError as error:
            failure = error
        finally:
            forget()
            self._frontend.post_message(TerminalEnded(terminal, failure))
