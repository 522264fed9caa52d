"""The app's terminal on the machine: it goes on whatever screen is shown, and ends with the lab."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.errors import LabError
from tui import messages as happened

if TYPE_CHECKING:
    from lab.machine import Terminal, TypedCommand
    from lab.session.session import LabSession
    from tui.frontend import Frontend
    from tui.widgets.terminal_screen import TerminalScreen


class TerminalSession:
    """At most one terminal. ``open`` it at a size, ``type``; what it shows is ``screen``."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._terminal: Terminal | None = None
        self._session: LabSession | None = None
        self.screen: TerminalScreen | None = None
        """The last one stays to be read after its end."""
        self.ended = ""
        """Why there is no shell any more; empty: it runs, or there has been none."""
        self.on_change: Callable[[], object] = lambda: None
        """Called on any thread when there is something new to show."""

    @property
    def is_open(self) -> bool:
        return self._terminal is not None

    @property
    def is_wanted(self) -> bool:
        """Whether there is a machine on which no terminal has been opened yet."""
        session = self._frontend.client.session
        return self._terminal is None and session is not None and session is not self._session

    def open(self, columns: int, rows: int) -> None:
        """Open one, unless one is, or there is no machine."""
        session = self._frontend.client.session
        if self._terminal is not None or session is None:
            return
        self._session = session
        from tui.widgets.terminal_screen import TerminalScreen

        try:
            terminal = session.machine.terminal(columns, rows, on_command=self._tell_command)
        except LabError as error:
            self.ended = error.message
            return
        self._terminal, self.ended = terminal, ""
        self.screen = screen = TerminalScreen(columns, rows, terminal.type)
        arguments = (session, terminal, screen)
        threading.Thread(target=self._follow, args=arguments, name="terminal", daemon=True).start()

    def type(self, data: bytes) -> None:
        """What was typed or pasted."""
        if self._terminal:
            self._terminal.type(data)

    def resize(self, columns: int, rows: int) -> None:
        """The place where it is shown has another size."""
        if self.screen and (self.screen.columns, self.screen.lines) != (columns, rows):
            with self.screen.lock:
                self.screen.resize(rows, columns)
            if self._terminal:
                self._terminal.resize(columns, rows)

    def hear(self, message: happened.LabMessage) -> None:
        """A command typed in it, or the shell itself, has ended."""
        match message:
            case happened.TerminalCommandEnded():
                # mdadm typed by hand makes and removes arrays.
                if self._frontend.client.session is not None:
                    self._frontend.look_up(lambda session: session.rescan(), on_error=lambda _: None)
            case happened.TerminalEnded(terminal=terminal) if terminal is self._terminal:
                self._terminal = None
                lost = f"The machine is gone: {message.error.message}" if message.error else ""
                self.ended = lost or f"The shell has ended with status {terminal.status}."
                self.on_change()
            case _:
                pass

    def _tell_command(self, command: TypedCommand) -> None:
        if self._session is not None:
            self._session.on_typed(command.line)
        self._frontend.client.log.ended_in_terminal(command)
        self._frontend.post_message(happened.TerminalCommandEnded())

    def _follow(self, session: LabSession, terminal: Terminal, screen: TerminalScreen) -> None:
        """On a thread of its own. Whoever prints faster than this reads waits."""
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
            self._frontend.post_message(happened.TerminalEnded(terminal, failure))
