"""Shell command lines, which lessons and fault scenarios use for operations that no other action performs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from lab.actions.action import Action
from lab.errors import LabError

if TYPE_CHECKING:
    from lab.session.session import LabSession

_SHOWN_CHARACTERS = 400
"""The number of characters shown from the end of a failed line's output."""


class ShellLine(Action, frozen=True, kw_only=True, tag="shell"):
    """Run a shell command line as root on the machine; the disks are /dev/lab/disk01 and so on.

    In a fault scenario, ``@2`` is drive 2 as md sees it, and ``#2`` is the bare drive.
    """

    line: str

    def by_hand(self) -> str:
        return f"raidlab exec {shlex.quote(self.line)}"

    def perform(self, session: LabSession) -> None:
        """Run the line. Raises LabError if it fails.

        Only an embedded kernel runs it, because a lesson may come from an unknown author. Elsewhere LabError is raised.
        """
        from lab.session.session import Shell, link_disks

        if not session.is_embedded:
            raise LabError(
                f"the lab does not run a lesson's shell lines on {session.target}, where they could write to any disk",
                hint=f"read this line, and then type it yourself: {self.line}",
            )
        link_disks(session)
        shell = Shell(session)
        try:
            result = shell.run(self.line)
        finally:
            shell.close()
        session.rescan()
        if result.status:
            raise LabError(
                f"the shell line ended with exit status {result.status}: {self.line}",
                hint=f"it printed: {result.output.strip()[-_SHOWN_CHARACTERS:] or 'nothing'}",
            )
