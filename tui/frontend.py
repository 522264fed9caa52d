"""The common part of the app and the text mode, and the methods that each of them implements.

No method blocks: results are passed to callbacks on the frontend's own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lab.actions.action import Choice
from lab.arrays.kinds import names_array
from lab.errors import LabError, MachineLost
from tui.client import LabClient, run_safely
from tui.services import Background, Loads, Marks, Pacing, TypedShell
from tui.state import (
    CallRequested,
    LabLooked,
    LabMessage,
    LabState,
    NoticeGiven,
    OperationChanged,
    PaceChosen,
    RunningOperation,
    SessionOpened,
    update,
)
from tui.terminal import TerminalSession

if TYPE_CHECKING:
    from textual.message import Message

    from lab.plans import Plan, Step
    from lab.session.session import LabSession

T = TypeVar("T")
ClientMaker = Callable[[Callable[["Message"], Any]], LabClient]
MakePlan = Callable[["LabSession"], "Plan | None"]


class Service(Protocol):
    """A part of a frontend that receives its messages."""

    def hear(self, message: LabMessage) -> None:
        """Handle a message; ``Frontend.lab`` is already updated."""


class Frontend:
    """The state of the lab, and all operations on it."""

    changes = 0
    """Counts the changes of ``lab`` that are to be shown. In the app it is a reactive, which the screens watch."""

    def connect(self, target: str | None, make_client: ClientMaker | None) -> None:
        """Set up the client and the services; ``client.start`` opens the lab. ``make_client`` is for tests."""
        self.lab = LabState(target=target or "")
        self.client = make_client(self.post_message) if make_client else LabClient(target, self.post_message)
        self.loads, self.marks = Loads(self), Marks(self)
        self.shell, self.background, self.pacing = TypedShell(self), Background(self), Pacing(self)
        self.terminal = TerminalSession(self)
        self.services: tuple[Service, ...] = (self.marks, self.shell, self.terminal, self.loads)
        self.plan_runs: set[PlanRun] = set()

    def on_lab_message(self, message: LabMessage) -> None:
        """Handle a message of the lab's threads. Textual finds this method by its name."""
        update(self.lab, message)
        match message:
            case CallRequested():
                message.function()
            case NoticeGiven():
                self.say(message.text)
            case PaceChosen() if message.note:
                self.say(message.note)
            case SessionOpened():
                self.settle()
            case _:
                pass
        for service in self.services:
            service.hear(message)
        if not isinstance(message, LabLooked):
            self.show_soon()
        elif not self.lab.is_dull:
            self.changes += 1

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the frontend's own thread, after the messages before it. Any thread may call this."""
        self.post_message(CallRequested(partial(function, *arguments)))

    def look_up(
        self,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], object] | None = None,
        on_error: Callable[[LabError], object] | None = None,
    ) -> None:
        """Run work that only reads or computes on the open session, after the work before it."""

        def hand_over(future: Future[T]) -> None:
            if error := future.exception():
                self.call(on_error or self.show_error, error)
            elif on_done:
                self.call(on_done, future.result())

        self.client.submit(work).add_done_callback(hand_over)

    def job(
        self,
        title: str,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], object] | None = None,
        on_error: Callable[[LabError], object] | None = None,
    ) -> None:
        """As ``look_up``, for work that the screens show as the current operation."""

        def operation(session: LabSession) -> T:
            self.post_message(OperationChanged(RunningOperation(title)))
            try:
                return work(session)
            finally:
                self.post_message(OperationChanged(None))

        self.look_up(operation, on_done=on_done, on_error=on_error)

    def beside(
        self,
        title: str,
        work: Callable[[], T],
        *,
        on_done: Callable[[T], object] | None = None,
        on_error: Callable[[LabError], object] | None = None,
    ) -> None:
        """Run work without a session on a thread of its own.

        Textual's thread workers would not do: asyncio waits for their threads at the end, and the app must end at once.
        """

        def run() -> None:
            try:
                result = run_safely(work)
            except LabError as error:
                self.call(on_error or self.show_error, error)
            else:
                if on_done:
                    self.call(on_done, result)

        threading.Thread(target=run, name=title, daemon=True).start()

    def make_and_run(self, make: Callable[[LabSession], Plan]) -> None:
        """Make a plan that needs no confirmation, and run it."""
        self.look_up(lambda session: session.named(make(session)), on_done=lambda plan: PlanRun(self, plan).go_on())

    def leave_volume(self, volume: str) -> None:
        """Abandon all plans that wait for this array."""
        for run in tuple(self.plan_runs):
            if run.volume == volume:
                run.leave()

    # Methods that the app and the text mode implement.

    def ask(self, make: MakePlan, *, note: str = "", on_done: Callable[[], object] | None = None) -> None:
        """Make a plan, show it, and run the same plan if the user agrees. An error of ``make`` is shown with its hint.

        If ``make`` returns None, no confirmation is needed and ``on_done`` is called at once.
        """
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


def named(make: MakePlan, session: LabSession) -> Plan | None:
    """The plan that ``make`` returns, with both names of each disk in its words; None if ``make`` returns None."""
    plan = make(session)
    return session.named(plan) if plan else None


class PlanRun:
    """One run of a plan, started by ``PlanRun(frontend, plan).go_on()``.

    A plan that waits for md between steps runs in parts: the waiting steps run on a thread of their own, so that other
    work can use the lab meanwhile. All of ``on_done`` are called after the first part, and ``on_error`` for an
    error in it; the other parts follow without the caller.
    """

    def __init__(
        self,
        frontend: Frontend,
        plan: Plan,
        *,
        on_done: Sequence[Callable[[], object] | None] = (),
        on_error: Callable[[LabError], None] | None = None,
    ) -> None:
        self.plan = plan
        words = (word.strip(":,") for word in plan.title.split())
        self.volume = next((word for word in words if names_array(word)), "")
        """The array that the plan's title names; empty if it names none."""
        self._frontend = frontend
        self._on_done, self._on_error = on_done, on_error
        self._is_left = False
        self.is_over = False
        """The plan has run, failed or been left."""
        self.steps_begun = 0
        """Number of steps of the current part that have begun."""
        frontend.plan_runs.add(self)

    def leave(self) -> None:
        """Stop after the current step; md continues its current operation."""
        self._is_left = True
        self._end()

    def _end(self) -> None:
        """Remove this run from the plans in progress."""
        self.is_over = True
        session = self._frontend.client.session
        if session:
            session.going_on.discard(self.volume)
        self._frontend.plan_runs.discard(self)

    def go_on(self, rest: Plan | None = None) -> None:
        """Queue the next part of ``rest``; None: of the whole plan."""
        acting, wait, after = (rest or self.plan).until_wait
        client = self._frontend.client
        if wait and client.session:
            client.session.going_on.add(self.volume)
        self.steps_begun = 0

        def begin(step: Step) -> None:
            self.steps_begun += 1
            operation = RunningOperation(self.plan.title, step.shell_line(), self.steps_begun, len(acting.steps))
            self._frontend.post_message(OperationChanged(operation))

        self._frontend.job(
            self.plan.title,
            lambda session: session.run(acting, before_step=begin),
            on_done=partial(self._acted, wait, after),
            on_error=self._failed,
        )

    def _acted(self, wait: Step | None, after: Plan, _: None) -> None:
        on_done, self._on_done = self._on_done, ()
        # After the first part no caller waits for the result.
        self._on_error = None
        session = self._frontend.client.session
        if wait is None or session is None or self._is_left:
            self._end()
        else:
            self._frontend.beside(
                self.plan.title,
                partial(self._wait, session, wait),
                on_done=partial(self._waited, after),
                on_error=self._wait_failed,
            )
        for each in filter(None, on_done):
            each()

    def _wait(self, session: LabSession, step: Step) -> int:
        """Run the waiting step on a thread of its own; returns its exit status."""
        session.lab.guard.check(step)
        command = session.machine.stream(step.argv, keeps_output=False)
        forget = self._frontend.client.on_end(command.stop)
        try:
            for _ in command.chunks():
                pass
            return command.result().status
        finally:
            forget()

    def _waited(self, after: Plan, status: int) -> None:
        if self._is_left or self._frontend.client.session is None:
            self._end()
        elif status != 0:
            self._frontend.look_up(self._is_running, on_done=self._stopped_early, on_error=self._wait_failed)
        elif after.steps:
            self.go_on(after)
        else:
            self._end()

    def _is_running(self, session: LabSession) -> bool:
        return any(status.name == self.volume for status in session.statuses())

    def _stopped_early(self, is_running: bool) -> None:
        """Report that the wait failed, unless the array was stopped meanwhile."""
        if is_running and not self._is_left:
            hint = f"look at {self.volume}; adding the disk again continues where it stopped"
            self._frontend.show_error(LabError(f"{self.plan.title}: md stopped before it was done", hint=hint))
        self._end()

    def _wait_failed(self, error: LabError) -> None:
        self._end()
        if not (self._is_left or isinstance(error, MachineLost)):
            self._frontend.show_error(error)

    def _failed(self, error: LabError) -> None:
        self._end()
        (self._on_error or self._frontend.show_error)(error)
