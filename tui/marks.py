"""Known data on arrays, and the verdict on them: asked for by the user, and by itself when an array is whole again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tui.state import MarkView

if TYPE_CHECKING:
    from lab.session.data_mark import DataMark, MarkVerdict
    from lab.session.events import Event
    from lab.session.session import LabSession
    from tui.desk import Desk

_ASKS_FOR_VERDICT = ("restored", "sync-finished")


class Marks:
    """Writes and verifies marks through the app's queue."""

    def __init__(self, app: Desk, *, is_quiet: Callable[[], bool] = lambda: False) -> None:
        """While ``is_quiet`` nothing is verified unasked: looking for oneself is part of a lesson."""
        self._app = app
        self.is_quiet = is_quiet

    def write(self, array: str) -> None:
        """Write known data on an array, and read them back at once."""

        def work(session: LabSession) -> DataMark:
            from lab.session.data_mark import write_mark

            return write_mark(session, array)

        def done(mark: DataMark) -> None:
            self._app.lab.marks[array] = MarkView(mark)
            self._app.say(f"Known data are on {array}. After whatever you do to it, v tells whether they are intact.")

        self._app.operations.job(f"Write known data on {array}", work, on_done=done)

    def verify(self, array: str) -> None:
        """Read the known data past the caches and say what became of them."""

        def work(session: LabSession) -> tuple[DataMark, MarkVerdict]:
            from lab.session.data_mark import require_mark, verify_mark

            mark = require_mark(session, array)
            return mark, verify_mark(session, mark)

        self._app.operations.job(f"Verify {array}", work, on_done=partial(self._keep, array))

    def hear(self, events: tuple[Event, ...]) -> None:
        """An array that has become whole, or whose sync is over, is verified without being asked."""
        if self.is_quiet():
            return
        lab = self._app.lab
        names = dict.fromkeys(event.array for event in events if event.kind.value in _ASKS_FOR_VERDICT)
        for name in names:
            status = lab.array(name)
            if name in lab.marks and status and not status.is_degraded and not status.sync_action.is_busy:
                self.verify(name)

    def _keep(self, array: str, found: tuple[DataMark, MarkVerdict]) -> None:
        mark, verdict = found
        view = self._app.lab.marks.get(array)
        self._app.lab.marks[array] = replace(view or MarkView(mark), mark=mark, verdict=verdict, is_stale=False)
        title = f"{array}: data {verdict.verdict}"
        if verdict.is_intact:
            self._app.say(verdict.sentence, title=title)
        else:
            self._app.say(verdict.sentence, title=title, is_bad=True)
