"""The common part of the app and the text mode, and the methods that each of them implements.

No method blocks: results are passed to callbacks on the frontend's own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lab.actions.action import Choice
from tui import messages as happened
from tui.client.client import LabClient
from tui.client.doing import do
from tui.client.jobs import Job
from tui.plan_runs import PlanRun
from tui.services import Background, Loads, Marks, Pacing, TypedShell
from tui.state import LabState
from tui.terminal import TerminalSession
from tui.updates import update

if TYPE_CHECKING:
    from textual.message import Message

    from lab.errors import LabError
    from lab.plans import Plan
    from lab.session.session import LabSession

T = TypeVar("T")
ClientMaker = Callable[[Callable[["Message"], Any]], LabClient]


def named(make: Callable[[LabSession], Plan | None], session: LabSession) -> Plan | None:
    """The plan that ``make`` returns, with both names of each disk in its words; None if ``make`` returns None."""
    plan = make(session)
    return session.named(plan) if plan else None


class Service(Protocol):
    """A part of a frontend that receives its messages."""

    def hear(self, message: happened.LabMessage) -> None:
        """Handle a message; ``Frontend.lab`` is already updated."""


class Frontend:
    """The state of the lab, and all operations on it."""

    def connect(self, target: str | None, make_client: ClientMaker | None) -> None:
        """Set up the client and the services; ``client.start`` opens the lab. ``make_client`` is for tests."""
        self.lab = LabState(target=target or "")
        self.client = make_client(self.post_message) if make_client else LabClient(target, self.post_message)
        self.loads, self.marks = Loads(self), Marks(self)
        self.shell, self.background, self.pacing = TypedShell(self), Background(self), Pacing(self)
        self.terminal = TerminalSession(self)
        self.services: tuple[Service, ...] = (self.marks, self.background, self.shell, self.terminal, self.loads)
        self.plan_runs: set[PlanRun] = set()

    def on_lab_message(self, message: happened.LabMessage) -> None:
        """Handle a message of the lab's threads. Textual finds this method by its name."""
        update(self.lab, message)
        match message:
            case happened.JobFinished(job=job) if job.on_done:
                job.on_done(message.result)
            case happened.JobFailed(job=job):
                (job.on_error or self.show_error)(message.error)
            case happened.NoticeGiven():
                self.say(message.text)
            case happened.PaceChosen() if message.note:
                self.say(message.note)
            case happened.SessionOpened():
                self.settle()
            case _:
                pass
        for service in self.services:
            service.hear(message)
        if not (isinstance(message, happened.LabLooked) and self.lab.is_dull):
            self.show_soon()

    def job(
        self,
        title: str,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[LabError], None] | None = None,
    ) -> None:
        """Queue work on the open session; the screens show it as the current operation while it runs."""
        self.client.submit(Job(title, work, on_done, on_error))

    def look_up(
        self,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[LabError], None] | None = None,
    ) -> None:
        """As ``job``, for work that only reads or computes; it is not shown."""
        self.client.submit(Job("look", work, on_done, on_error, is_shown=False))

    def beside(
        self,
        title: str,
        work: Callable[[], T],
        *,
        on_done: Callable[[T], None],
        on_error: Callable[[LabError], None] | None = None,
    ) -> None:
        """Run work without a session on a thread of its own; it is not shown."""
        job = Job(title, lambda _: work(), on_done, on_error, is_shown=False)
        threading.Thread(target=do, args=(job, None, self.post_message), name=title, daemon=True).start()

    def ask(
        self, make: Callable[[LabSession], Plan | None], *, note: str = "", on_done: Callable[[], None] | None = None
    ) -> None:
        """Make a plan, show it, and run the same plan if the user agrees. An error of ``make`` is shown with its hint.

        If ``make`` returns None, no confirmation is needed and ``on_done`` is called at once.
        """

        def show(plan: Plan | None) -> None:
            if plan is not None:
                self.show_plan(plan, note=note, on_done=on_done)
            elif on_done:
                on_done()

        self.look_up(partial(named, make), on_done=show)

    def make_and_run(self, make: Callable[[LabSession], Plan]) -> None:
        """Make a plan that needs no confirmation, and run it."""
        self.look_up(lambda session: session.named(make(session)), on_done=lambda plan: PlanRun(self, plan).go_on())

    def leave_volume(self, volume: str) -> None:
        """Abandon all plans that wait for this array."""
        for run in tuple(self.plan_runs):
            if run.volume == volume:
                run.leave()

    # Methods that the app and the text mode implement.

    def show_plan(self, plan: Plan, *, note: str, on_done: Callable[[], None] | None) -> None:
        """Show a plan and run it if the user agrees."""
        raise NotImplementedError

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        """Let the user choose one of ``choices``; ``then`` gets its id and is not called if the user chooses none."""
        raise NotImplementedError

    def show_error(self, error: LabError) -> None:
        """Show an error with its hint."""
        raise NotImplementedError

    def say(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        """Show a message to the user."""
        raise NotImplementedError

    def show_soon(self) -> None:
        """Schedule an update of the display."""
        raise NotImplementedError

    def settle(self) -> None:
        """Called when the lab is open and most modules are loaded; does nothing by default."""

    def choose_freely(self) -> None:
        """Open the form in which the user composes an array."""
        raise NotImplementedError

    def post_message(self, message: Message) -> Any:
        """Pass a message, from any thread, to ``on_lab_message`` on the frontend's own thread."""
        raise NotImplementedError
