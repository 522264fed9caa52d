"""Commands typed by hand: ``lab.session.shell`` beside everything else; their effects show up like any others."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from lab.errors import LabError
from tui import messages as happened

if TYPE_CHECKING:
    from lab.session.session import LabSession
    from lab.session.shell import Shell as MachineShell
    from tui.desk import Desk

KEPT_CHARACTERS = 200_000
# Colours and other orders to a terminal, and characters that would disturb the app's own.
_ORDERS = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]")


class Shell:
    """At most one command at a time; folder and variables last as long as the machine."""

    def __init__(self, app: Desk) -> None:
        self._app = app
        self._session: LabSession | None = None
        self._shell: MachineShell | None = None
        self.running_line = ""
        """What runs; empty: nothing."""
        self.output = ""
        """The end of what was printed so far."""
        self.count = 0
        """All characters printed so far: a screen that has shown fewer lacks the end of ``output``."""

    @property
    def folder(self) -> str:
        """Where the next command begins; empty before the first."""
        return self._shell.folder if self._shell else ""

    def run(self, line: str) -> bool:
        """Start a command; False if another one still runs, or there is no machine."""
        session = self._app.client.session
        if self.running_line or session is None:
            return False
        if self._session is not session or self._shell is None:
            from lab.session.shell import Shell as MachineShell

            # Another machine knows nothing of the folder and the variables of the one before.
            self._session, self._shell = session, MachineShell(session)
        self.running_line = line
        self._print(f"# {line}\n")
        threading.Thread(target=self._follow, args=(self._shell, line), name="shell", daemon=True).start()
        self._app.show_soon()
        return True

    def interrupt(self) -> None:
        """Ctrl-C to the command; a second time kills it."""
        if self._shell and self.running_line:
            threading.Thread(target=self._shell.interrupt, name="shell interrupt", daemon=True).start()

    def clear(self) -> None:
        """Forget what was printed."""
        self.output = ""

    def hear(self, message: happened.LabMessage) -> None:
        """Messages that concern the shell."""
        if isinstance(message, happened.ShellPrinted):
            self._print(message.text)
        if isinstance(message, happened.ShellEnded):
            self._end(message)

    def _end(self, message: happened.ShellEnded) -> None:
        new_line = "" if self.output.endswith("\n") else "\n"
        if message.error:
            self._print(f"{new_line}{message.error}\n")
        elif message.status:
            self._print(f"{new_line}(status {message.status})\n")
        else:
            self._print(new_line)
        self.running_line = ""
        # mdadm typed by hand makes and removes arrays.
        client = self._app.client
        if client.session is not None:
            self._app.operations.look_up(client.look_again, on_done=lambda _: None, on_error=lambda _: None)

    def _print(self, text: str) -> None:
        clean = _ORDERS.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
        self.output = (self.output + clean)[-KEPT_CHARACTERS:]
        self.count += len(clean)

    def _follow(self, shell: MachineShell, line: str) -> None:
        client, post = self._app.client, self._app.post_message
        status: int | None = None
        failure: LabError | None = None

        def tell(text: str) -> None:
            post(happened.ShellPrinted(text))

        forget = client.on_end(shell.interrupt)
        try:
            client.log.typed(line)
            status = shell.run(line, on_output=tell).status
        except LabError as error:
            failure = error
        finally:
            forget()
            post(happened.ShellEnded(status, failure))
