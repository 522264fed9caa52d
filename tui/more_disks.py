"""Two disks of twice the size for the lab, so that its disks are unequal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.session.more_disks import LARGER_COUNT, add_to_list, larger_bytes, larger_line, new_specs
from lab.units import human_bytes
from tui import messages as happened
from tui.choice import Choice
from tui.client.jobs import Job

if TYPE_CHECKING:
    from lab.session.session import LabSession
    from tui.desk import Desk

Done = Callable[[tuple[str, ...]], None]


class MoreDisks:
    """Asks, and adds. In an embedded lab the machine is started anew for it; arrays come back as they were."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def _is_embedded(self) -> bool:
        facts = self._desk.lab.facts
        return facts is not None and facts.is_embedded

    @property
    def line(self) -> str:
        """The same on the command line."""
        return larger_line(self._desk.lab.disks, is_embedded=self._is_embedded)

    def ask(self, on_done: Done = lambda _: None) -> None:
        """Say what it means; ``on_done`` gets the names, perhaps before the disks are there."""
        size = human_bytes(larger_bytes(self._desk.lab.disks))
        anew = (
            "The machine is started anew for it; arrays and their data come back, a load ends."
            if (self._is_embedded)
            else "They are loop devices, and there at once."
        )
        choices = [
            Choice("add", "Add them", self.line, "a"),
            Choice("leave", "Leave it", "nothing is changed", "l"),
        ]

        def then(chosen: str) -> None:
            if chosen == "add":
                self._add(on_done)

        self._desk.pick(f"Two disks of {size}", choices, then, intro=f"The lab gets two larger disks. {anew}")

    def _add(self, on_done: Done) -> None:
        size, desk = larger_bytes(self._desk.lab.disks), self._desk

        def told(names: tuple[str, ...]) -> None:
            desk.say(f"{' and '.join(names)} of {human_bytes(size)} join the lab.")
            on_done(names)

        if not self._is_embedded:
            self._desk.operations.job("Two larger disks", lambda session: self._attach(session, size), on_done=told)
            return
        job: Job[tuple[str, ...]] = Job("Two larger disks", lambda _: (), told, None, is_shown=False)
        threading.Thread(target=self._add_to_list, args=(job, size), name="more disks", daemon=True).start()

    def _attach(self, session: LabSession, size_bytes: int) -> tuple[str, ...]:
        from lab.disks import DiskKind

        taken = [disk.name for disk in session.disks]
        made = session.lab.attach(new_specs(taken, DiskKind.LOOP, LARGER_COUNT, size_bytes))
        self._desk.client.look_again(session)
        return tuple(disk.name for disk in made)

    def _add_to_list(self, job: Job[tuple[str, ...]], size_bytes: int) -> None:
        """On a thread of its own: the lab is closed meanwhile."""
        from lab.disks import DiskKind
        from lab.disks.lab_files import lab_folder
        from lab.machine import parse_target

        client, post = self._desk.client, self._desk.post_message
        name = parse_target(client.target or "uml:").options.get("name", "default")
        try:
            with client.released(), lab_folder(client.host.state, name) as folder:
                names = add_to_list(folder, DiskKind.FILE, LARGER_COUNT, size_bytes)
        except LabError as error:
            post(happened.JobFailed(job, error))
        else:
            post(happened.JobFinished(job, names))
