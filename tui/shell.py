"""Commands typed by hand, run on the machine beside everything else; their effects show up like any others."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lab.errors import LabError, MachineLost
from tui import messages as happened

if TYPE_CHECKING:
    from lab.machine.api import RunningCommand
    from lab.session.session import LabSession
    from tui.app import RaidlabApp

KEPT_CHARACTERS = 200_000
_FOLDER_FILE = "/run/raidlab/shell-folder"
# The folder of the line before is kept, as in a shell; the status is that of what was typed.
_WRAPPER = "; ".join(
    (
        "mkdir -p /run/raidlab",
        f'cd "$(cat {_FOLDER_FILE} 2>/dev/null || echo /)" 2>/dev/null',
        'eval "$1"',
        "status=$?",
        f"pwd >{_FOLDER_FILE}",
        "exit $status",
    )
)


class Shell:
    """At most one command at a time."""

    def __init__(self, app: RaidlabApp) -> None:
        self._app = app
        self._command: RunningCommand | None = None
        self.running_line = ""
        """What runs; empty: nothing."""
        self.output = ""
        """The end of what was printed so far, for a screen that is opened later."""

    def run(self, line: str) -> bool:
        """Start a command; False if another one still runs, or there is no machine."""
        session = self._app.client.session
        if self.running_line or session is None:
            return False
        self.running_line = line
        self._print(f"# {line}\n")
        threading.Thread(target=self._follow, args=(session, line), name="shell", daemon=True).start()
        return True

    def interrupt(self) -> None:
        """Ctrl-C to the command."""
        command = self._command
        if command:
            threading.Thread(target=_interrupt, args=(command,), name="shell interrupt", daemon=True).start()

    def hear(self, message: happened.LabMessage) -> None:
        """Messages that concern the shell."""
        if isinstance(message, happened.ShellPrinted):
            self._print(message.text)
        if isinstance(message, happened.ShellEnded):
            if message.error:
                self._print(f"{message.error}\n")
            elif message.status:
                self._print(f"(status {message.status})\n")
            self.running_line = ""
            self._command = None
            # mdadm typed by hand makes and removes arrays.
            client = self._app.client
            if client.session is not None:
                self._app.look_up(client.look_again, on_done=lambda _: None, on_error=lambda _: None)

    def _print(self, text: str) -> None:
        self.output = (self.output + text)[-KEPT_CHARACTERS:]
        for screen in self._app.screen_stack:
            show = getattr(screen, "shell_printed", None)
            if show and screen.is_mounted:
                show(text)

    def _follow(self, session: LabSession, line: str) -> None:
        client, post = self._app.client, self._app.post_message
        status: int | None = None
        failure: LabError | None = None
        try:
            client.log.typed(line)
            self._command = command = session.machine.stream(("sh", "-c", _WRAPPER, "sh", line))
            for chunk in command.chunks():
                post(happened.ShellPrinted(chunk))
            result = command.result()
            status = result.status
            if result.stderr:
                post(happened.ShellPrinted(result.stderr))
        except LabError as error:
            failure = error
        finally:
            post(happened.ShellEnded(status, failure))


def _interrupt(command: RunningCommand) -> None:
    try:
        command.stop()
    except (LabError, MachineLost):
        return
