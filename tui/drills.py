"""The open drill, which every screen shows, and the actions of its keys.

Work that needs the lab runs on the lab's thread, and the screens get plain values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lab.errors import DrillError, LabError
from lab.plans import Plan
from lab.session.session import LabSession, Leftovers, read_leftovers, store_leftovers
from lab.units import counted
from tui.state import LabMessage, SessionEnded, SessionOpened, SnapshotTaken

if TYPE_CHECKING:
    from lab.drills.case import DrillOutcome
    from lab.drills.desk import DrillDesk
    from lab.drills.schema import ReadyDrill
    from tui.frontend import Frontend

T = TypeVar("T")
AGAIN = "start the array first, or press d again to end the drill as it is"
BLANK_NOTE = "A drill needs blank disks: all data on the lab's disks will be lost."
_COUNT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DrillItem:
    """A drill in the list."""

    id: str
    title: str
    minutes: int
    tries: int
    best: str
    """The best verdict so far; empty if the drill has not been tried."""
    is_saved: bool
    is_open: bool
    symptom: str
    """As Markdown."""

    @property
    def number(self) -> str:
        """The drill's number, without leading zeros, such as ``5``."""
        return self.id[:2].lstrip("0")

    @property
    def status(self) -> str:
        return f"{self.best} ({counted(self.tries, 'attempt')})" if self.tries else "not tried yet"


@dataclass(frozen=True, slots=True)
class DrillView:
    """The state of the open drill, as the screens show it."""

    id: str
    title: str
    briefing: str
    """The briefing is Markdown, and so are the rules and the hints taken so far."""
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
        self.items: tuple[DrillItem, ...] = ()
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
        """Whether the user was warned, so that the next debriefing ends the drill even if no such array runs."""
        self.left: Leftovers | None = None
        """What an ended drill left on the disks; None if it left nothing."""

    def open(self, then: Callable[[], object] = lambda: None) -> None:
        """Read the list on a separate thread, then call ``then``."""
        host, open_id = self._frontend.client.host, self.view.id if self.view else ""

        def read() -> tuple[DrillItem, ...]:
            from lab.drills.case import DrillStore, best_of
            from lab.drills.schema import catalogue, read_drill, ready
            from lab.drills.verdict import DrillVerdict

            store, items = DrillStore(host), []
            for name, path in catalogue().items():
                drill = ready(read_drill(path), path).drill
                outcomes = store.all(name)
                best = best_of(outcomes)
                result = f"{best.verdict}, {best.saved_percent:g} %" if best else ""
                is_saved = best is not None and best.verdict == DrillVerdict.SAVED
                counts = (drill.minutes, len(outcomes))
                items.append(DrillItem(name, drill.title, *counts, result, is_saved, name == open_id, drill.symptom))
            return tuple(items)

        def listed(items: tuple[DrillItem, ...]) -> None:
            self.items = items
            then()

        self._frontend.beside("drills", read, on_done=listed)

    def receive(self, message: LabMessage) -> None:
        """Find an open drill when the lab opens, and count the bytes written every ``_COUNT_SECONDS`` of a drill."""
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
            from lab.drills.verdict import answer_one

            desk.update()
            return answer_one(desk)

        def counted(is_over: object) -> None:
            self._is_counting = False
            if is_over is True:
                self._set_desk(None)
                self._read_left()
                self.open()
            self.refresh()

        self._frontend.look_up(count, on_done=counted, on_error=counted)

    def refresh(self) -> None:
        self.view = self._make_view(self._desk) if self._desk else None
        open_id = self.view.id if self.view else ""
        self.items = tuple(replace(item, is_open=item.id == open_id) for item in self.items)
        self._frontend.show_soon()

    def _make_view(self, desk: DrillDesk) -> DrillView:
        from lab.drills.verdict import briefing, drill_words, hint_words, progress_lines

        case = desk.case
        drill, record = case.drill.drill, case.record
        lines = progress_lines(case, desk.minutes, desk.now_utc)
        if self.hides_time:
            lines.pop("time")
        return DrillView(
            id=drill.id,
            title=drill.title,
            briefing=briefing(case.drill),
            rules=drill_words().rules.strip(),
            hints=tuple(hint_words(case.drill, number) for number in range(1, record.hints + 1)),
            status=tuple(lines.items()),
            is_committed=case.is_committed,
            touched_bytes=record.touched_bytes,
            has_more_hints=record.exam is None and record.hints < len(drill.hints),
            seed=record.seed,
            is_exam=record.exam is not None,
        )

    def hint_line(self) -> str | None:
        """Return one line of markup about the open drill, for every screen; None if no drill is open."""
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

    def begin(self, drill_id: str, seed: str | None = None) -> None:
        """Prepare a drill on blank disks. Other contents of the disks are erased, after a confirmation."""

        def check(session: LabSession) -> Plan | None:
            from lab.drills.desk import needs_clearing

            return (
                session.reset_all(ends_drill=True) if needs_clearing(session, _ready(session, drill_id, seed)) else None
            )

        def make() -> None:
            before = self._desk

            def work(session: LabSession) -> DrillDesk | None:
                from lab.drills.desk import DrillDesk, open_desk

                if before is not None:
                    # Its last count may still be queued, and would be stored for the new drill.
                    before.is_over = True
                DrillDesk.begin(session, _ready(session, drill_id, seed))
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
        if self._desk is not None and self.view and self.view.has_more_hints:
            self._frontend.attempt(self._desk.case.hint)
            self.refresh()

    def commit(self, then: Callable[[int], object] = lambda _: None) -> None:
        """Commit the drill, after which the disks may be written. ``then`` gets the number of bytes written before."""
        if self._desk is not None:
            self._work("Commit", self._desk.commit, then)

    def reset(self, then: Callable[[None], object] = lambda _: None) -> None:
        if self._desk is not None:
            self._work("Restore the disks", self._desk.reset, then)

    def debrief(
        self, then: Callable[[DrillOutcome], object], *, array: str = "", as_it_is: bool = False, again: str = AGAIN
    ) -> None:
        """End the drill, and call ``then`` when ``page`` holds the debriefing. ``array`` names the array with the data.

        If no array with the data is running although one could, the drill ends only with ``as_it_is`` or at the second
        call. ``again`` is the hint that says how to end it.
        """
        desk = self._desk
        if desk is None:
            return
        is_final, self._may_end = as_it_is or self._may_end, False

        def work(session: LabSession) -> tuple[DrillOutcome, str]:
            from lab.drills.verdict import debriefing, end_drill

            outcome = end_drill(desk, array, is_final=is_final)
            return outcome, debriefing(outcome, desk.case.drill, can_clear=True)

        def done(found: tuple[DrillOutcome, str]) -> None:
            self.page = found[1]
            self._set_desk(None)
            self._read_left()
            self.open()
            then(found[0])

        def failed(error: LabError) -> None:
            from lab.drills.verdict import NothingRuns

            if isinstance(error, NothingRuns):
                self._may_end = True
                error = DrillError(error.message, hint=again)
            self._frontend.show_error(error)

        self._frontend.job("Check the data", work, on_done=done, on_error=failed)

    def clear(self, then: Callable[[], object] = lambda: None) -> None:
        """Erase the disks that the last drill used, after a confirmation."""
        left = self.left
        if left is None:
            return

        def done() -> None:
            if session := self._frontend.client.session:
                store_leftovers(session.folder, None)
            self.left = None
            self._frontend.show_soon()
            then()

        note = f"The data that the drill '{left.title}' left on its disks will be lost."
        self._frontend.ask(lambda session: session.reset_all(only=left.disks), note=note, on_done=done)

    def _read_left(self) -> None:
        """Read what the last drill left. Raises nothing, since leftovers that cannot be read are simply not offered."""
        session = self._frontend.client.session
        self.left = read_leftovers(session.folder) if session is not None else None

    def leave(self, then: Callable[[], object] = lambda: None) -> None:
        desk = self._desk
        if desk is None:
            return

        def left(_: None) -> None:
            self._set_desk(None)
            self._read_left()
            then()

        self._frontend.look_up(lambda _: desk.leave(), on_done=left)

    def toggle_time(self) -> None:
        self.hides_time = not self.hides_time
        self.refresh()

    def _work(self, title: str, work: Callable[[], T], then: Callable[[T], object]) -> None:
        def done(result: T) -> None:
            self.refresh()
            then(result)

        self._frontend.job(title, lambda _: work(), on_done=done)


def _ready(session: LabSession, drill_id: str, seed: str | None) -> ReadyDrill:
    from lab.drills.schema import find_playable, read_drill, ready
    from lab.lessons.student import Student

    path = find_playable(drill_id, session.target)
    return ready(read_drill(path), path, Student(session.host).state.seed if seed is None else seed)
