"""The open drill, which every screen shows, and the actions of its keys.

Work that needs the lab runs on the lab's thread, and the screens get plain values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from lab.drills.verbs import (
    ClearDisks,
    ClosedLabVerb,
    Debrief,
    DrillHint,
    OpenDrillVerb,
    Report,
    StartDrill,
    answer_one,
)
from lab.errors import DrillError, LabError
from lab.host.clock import utc_text
from lab.machine import parse_target
from lab.plans import Plan
from lab.session.session import LabSession, Leftovers, read_leftovers, store_leftovers
from tui.state import LabMessage, SessionEnded, SessionOpened, SnapshotTaken

if TYPE_CHECKING:
    from lab.drills.case import DrillLine
    from lab.drills.desk import DrillDesk
    from lab.drills.schema import ReadyDrill
    from tui.frontend import Frontend

_AGAIN = "start the array first; a second debriefing ends the drill as it is"
BLANK_NOTE = "A drill needs blank disks: all data on the lab's disks will be lost."
_COUNT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DrillView:
    """The state of the open drill, as the screens show it."""

    id: str
    title: str
    briefing: str
    """As Markdown, like the rules and the hints taken so far."""
    rules: str
    hints: tuple[str, ...]
    status: tuple[tuple[str, str], ...]
    """(label, text) of each line about its progress. The first line shows the time."""
    is_committed: bool
    touched_bytes: int
    has_more_hints: bool
    seed: str
    is_exam: bool

    @property
    def text(self) -> str:
        return "\n\n".join([self.briefing, f"**Rules.** {self.rules}", *self.hints])

    @property
    def number(self) -> str:
        return self.id[:2].lstrip("0")


class Drills:
    """The list of drills, the open drill, and the last drill's leftovers, for the app and the text mode."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._desk: DrillDesk | None = None
        self._counted, self._is_counting = 0.0, False
        self.items: tuple[DrillLine, ...] = ()
        self.view: DrillView | None = None
        self.page = ""
        """The last debriefing as Markdown; empty if there was none since the start."""
        self.hides_time = False
        self.to_select = ""
        """The id of the drill that the list selects next; empty for no change."""
        self.on_making: Callable[[bool], object] = lambda _: None
        """Called with True before a disaster is prepared, and with False afterwards, so that the work can be hidden."""
        self.on_open: Callable[[bool], object] = lambda _: None
        """Called when a drill has been opened, with True if it was just prepared, False if it was found in the lab."""
        self.is_finding = False
        """Whether a drill that was found in the lab is being read."""
        self._may_end = False
        """Whether the user was warned that no running array has the data. The next debriefing then ends the drill."""
        self.left: Leftovers | None = None
        """What the last drill left on the disks; None if it left nothing."""

    def open(self, then: Callable[[], object] = lambda: None) -> None:
        """Read the list on a separate thread, then call ``then``."""
        host, open_id = self._frontend.client.host, self.view.id if self.view else ""

        def read() -> tuple[DrillLine, ...]:
            from lab.drills.case import drill_lines

            return drill_lines(host, open_id)

        def listed(items: tuple[DrillLine, ...]) -> None:
            self.items = items
            then()

        self._frontend.beside("drills", read, on_done=listed)

    def receive(self, message: LabMessage) -> None:
        """Find an open drill when the lab opens. During a drill, count the written bytes every ``_COUNT_SECONDS``."""
        if isinstance(message, SessionOpened):
            self._find()
            self._read_left()
        elif isinstance(message, SessionEnded):
            self._desk, self._is_counting = None, False
        elif isinstance(message, SnapshotTaken):
            self._count()

    def _find(self) -> None:
        def find(session: LabSession) -> DrillDesk | None:
            from lab.drills.desk import open_desk

            return open_desk(session)

        session = self._frontend.client.session
        # Without a drill, skip the lookup and its imports.
        if session is not None and (session.folder / "drill" / "case.json").exists():
            self.is_finding = True
            self._frontend.look_up(find, on_done=self._found, on_error=self._not_found)

    def _not_found(self, error: LabError) -> None:
        self.is_finding = False
        self._frontend.show_error(error)

    def _found(self, desk: DrillDesk | None) -> None:
        self.is_finding = False
        self._set_desk(desk)
        if desk is not None:
            self.on_open(False)

    def _set_desk(self, desk: DrillDesk | None) -> None:
        self._desk = desk
        self.refresh()

    def _count(self) -> None:
        desk, now = self._desk, time.monotonic()
        if desk is None or self._is_counting or now - self._counted < _COUNT_SECONDS:
            return
        self._counted, self._is_counting = now, True

        def count(_: LabSession) -> bool:
            desk.update()
            return answer_one(desk)

        def counted(is_over: object) -> None:
            self._is_counting = False
            if is_over is True:
                self._ended()
            self.refresh()

        self._frontend.look_up(count, on_done=counted, on_error=counted)

    def refresh(self) -> None:
        self.view = self._make_view(self._desk) if self._desk else None
        open_id = self.view.id if self.view else ""
        self.items = tuple(replace(item, is_open=item.id == open_id) for item in self.items)
        self._frontend.show_soon()

    def _make_view(self, desk: DrillDesk) -> DrillView:
        from lab.drills.verdict import briefing, hint_words, progress_lines, rules

        case = desk.case
        drill, record = case.drill.drill, case.record
        lines = progress_lines(case, desk.minutes, desk.now_utc)
        if self.hides_time:
            lines.pop("time")
        return DrillView(
            id=drill.id,
            title=drill.title,
            briefing=briefing(case.drill),
            rules=rules(is_exam=record.exam is not None),
            hints=tuple(hint_words(case.drill, number) for number in range(1, record.hints + 1)),
            status=tuple(lines.items()),
            is_committed=case.is_committed,
            touched_bytes=record.touched_bytes,
            has_more_hints=record.exam is None and record.hints < len(drill.hints),
            seed=record.seed,
            is_exam=record.exam is not None,
        )

    def hint_line(self) -> str | None:
        """Return one line of markup about the open drill, for every screen, or None if no drill is open."""
        view = self.view
        if view is None:
            return None
        minutes = dict(view.status).get("time", "").partition(" (")[0]
        head = f"Drill {view.number}" + (f", {minutes}" if minutes else "")
        if view.touched_bytes and not view.is_committed:
            return f"{head}: disks written before commit. [b]F6[/b] shows the task."
        state = "committed" if view.is_committed else "not committed"
        return f"{head}: {state}. [b]F6[/b]: task, [b]F7[/b]: hint, [b]5[/b]: terminal."

    # The actions of the keys.

    def begin(self, verb: StartDrill) -> None:
        """Prepare a drill on blank disks. If the disks are not blank, they are erased after a confirmation."""
        chosen: list[ReadyDrill] = []

        def check(session: LabSession) -> Plan | None:
            from lab.drills.case import DrillCase

            nonlocal verb
            try:
                DrillCase.find(session.folder)
            except DrillError:
                # No screen shows a drill whose record cannot be read, so it could not be left first.
                verb = msgspec.structs.replace(verb, again=True)
            chosen.append(drill := verb.ready(session.host, session.target))
            return session.reset_all(ends_drill=True) if verb.use_of_disks(session, drill) else None

        def make() -> None:
            before = self._desk

            def work(session: LabSession) -> DrillDesk | None:
                from lab.drills.desk import open_desk

                if before is not None:
                    # Its last count may still be queued, and would be stored for the new drill.
                    before.is_over = True
                verb.begin(session, chosen[-1])
                return open_desk(session)

            def made(desk: DrillDesk | None) -> None:
                self._forget()
                self._set_desk(desk)
                self.on_open(True)

            def failed(error: LabError) -> None:
                self._forget()
                self._set_desk(None)
                self._frontend.show_error(error)

            self.on_making(True)
            self._frontend.job("Set up the drill", work, on_done=made, on_error=failed)

        self._frontend.ask(check, note=BLANK_NOTE, on_done=make)

    def _forget(self) -> None:
        """Clear the events and commands that would show how the disaster was prepared."""
        self._frontend.lab.forget_past()
        self._frontend.lab.commands.clear()
        self.on_making(False)

    def hint(self) -> None:
        # Without a running machine the drill's page would not show the hint.
        if self._desk is not None and self.view and self.view.has_more_hints:
            self.perform(DrillHint())

    def perform(self, verb: OpenDrillVerb, then: Callable[[Report], object] = lambda _: None) -> None:
        """Perform ``verb`` on the open drill, then call ``then``. An error is shown.

        If no array with the data is running, although one could be started, only a second debriefing ends the drill.
        """
        desk = self._desk
        if isinstance(verb, ClosedLabVerb):
            report = self._frontend.attempt(partial(self._perform_closed, verb))
            if desk:
                self.refresh()
            if report:
                then(report)
            return
        if isinstance(verb, Debrief):
            verb = msgspec.structs.replace(verb, as_it_is=verb.as_it_is or self._may_end)
            self._may_end = False

        def work(session: LabSession) -> tuple[Report, bool]:
            from lab.drills.case import DrillCase
            from lab.drills.desk import DrillDesk

            live = desk or DrillDesk(session, DrillCase.require(session.folder))
            return verb.perform(live), live.is_over

        def done(found: tuple[Report, bool]) -> None:
            report, is_over = found
            if isinstance(verb, Debrief):
                self.page = report.page
            if is_over:
                self._ended()
            self.refresh()
            then(report)

        def failed(error: LabError) -> None:
            from lab.drills.verdict import NothingRuns

            if isinstance(error, NothingRuns):
                self._may_end = True
                error = DrillError(error.message, hint=_AGAIN)
            self._frontend.show_error(error)

        self._frontend.job(verb.label, work, on_done=done, on_error=failed)

    def _perform_closed(self, verb: ClosedLabVerb) -> Report:
        """Perform ``verb`` even if the machine is lost. Raises DrillError if no drill is open."""
        from lab.drills.case import DrillCase

        host, target = self._frontend.client.host, parse_target(self._frontend.lab.target or "uml:")
        case = self._desk.case if self._desk else DrillCase.require(host.state.lab_folder(target.lab_name))
        return verb.perform_on(case, utc_text(host.clock))

    def _ended(self) -> None:
        self._set_desk(None)
        self._read_left()
        self.open()

    def clear(self, then: Callable[[], object] = lambda: None) -> None:
        """Erase the disks that the last drill used, after a confirmation."""

        def done() -> None:
            if session := self._frontend.client.session:
                store_leftovers(session.folder, None)
            self.left = None
            self._frontend.show_soon()
            then()

        title = f" that the drill '{self.left.title}' left" if self.left else ""
        self._frontend.ask(ClearDisks().plan, note=f"The data{title} on its disks will be lost.", on_done=done)

    def _read_left(self) -> None:
        """Read what the last drill left. Raises nothing, since leftovers that cannot be read are simply not offered."""
        session = self._frontend.client.session
        self.left = read_leftovers(session.folder) if session is not None else None

    def toggle_time(self) -> None:
        self.hides_time = not self.hides_time
        self.refresh()
