"""The lab's side of the app. It opens the lab on a separate thread, and runs work on the lab, one piece at a time.

The threads post messages instead of using widgets. After the machine is lost, ``start`` reopens it, while the state and
the measurements of the app remain.
"""

from __future__ import annotations

import shlex
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lab.disks import Opener, open_lab
from lab.errors import LabError, MachineLost
from lab.host.files import bug_words
from lab.machine import CommandResult, Host, TypedCommand, default_target, parse_target
from lab.plans import Plan
from lab.session.pace import Pacer
from lab.session.session import Client, LabSession, open_session
from tui.state import (
    CommandEntry,
    CommandRan,
    DisksChanged,
    MachineOpening,
    MarksRead,
    NoticeGiven,
    Origin,
    PaceChosen,
    SessionEnded,
    SessionOpened,
    SnapshotTaken,
)

if TYPE_CHECKING:
    from textual.message import Message

    from lab.session.monitor import Monitor

T = TypeVar("T")
_ANNOUNCED_PLANS = 50
HERTZ = 4.0


class CommandLog:
    """Records every command from any thread, with its origin (a plan, the user or the lab)."""

    def __init__(self, on_entry: Callable[[CommandEntry], None], now: Callable[[], datetime]) -> None:
        self._on_entry = on_entry
        self._now = now
        self._plans: deque[dict[tuple[str, ...], str]] = deque(maxlen=_ANNOUNCED_PLANS)
        self._typed = threading.local()

    def announce(self, plan: Plan) -> None:
        self._plans.append({step.argv: step.why for step in plan.steps})

    def typed(self, line: str) -> None:
        """Record that the user typed the next command of this thread."""
        self._typed.line = line

    def ended_in_terminal(self, command: TypedCommand) -> None:
        """Record a command that has ended in the terminal."""
        self._on_entry(CommandEntry(command.line, command.status, command.seconds, Origin.SHELL, "", self._now()))

    def on_command(self, result: CommandResult) -> None:
        typed = self._typed.__dict__.pop("line", None)
        # Another thread may announce a plan at the same time, and a deque must not change while it is iterated.
        plans = tuple(self._plans)
        why = next((plan[result.argv] for plan in reversed(plans) if result.argv in plan), None)
        origin = Origin.SHELL if typed is not None else Origin.PLAN if why is not None else Origin.LAB
        self._on_entry(
            CommandEntry(
                line=typed if typed is not None else shlex.join(result.argv),
                status=result.status,
                seconds=result.duration_seconds,
                origin=origin,
                why=why or "",
                ended=self._now(),
            )
        )


def run_into(future: Future[T], work: Callable[[], T]) -> None:
    """Run work. The future raises only LabError, even for an unexpected exception, because the app must not end."""
    try:
        future.set_result(work())
    except LabError as error:
        future.set_exception(error)
    except Exception as error:
        hint = "try something else; Ctrl+R restarts a lost machine"
        future.set_exception(LabError(bug_words(error), hint=hint))


class LabClient:
    """Opens a lab and runs work on it.

    Args:
        target: the machine, or None for this computer's default machine.
        post: receives the messages, and may be called from any thread.
        host: this computer's services that the lab uses; None stands for the real ones.
        opener: a different way to open a lab, for tests.
        hertz: samples of the monitor per second.
    """

    def __init__(
        self,
        target: str | None,
        post: Callable[[Message], Any],
        *,
        host: Host | None = None,
        opener: Opener | None = None,
        hertz: float = HERTZ,
    ) -> None:
        self.target = target
        self.session: LabSession | None = None
        self.pacer: Pacer | None = None
        """Advances the machine's clock; None if the machine runs in real time."""
        self.host = host or Host.real("raidlab")
        self.log = CommandLog(lambda entry: self._post(CommandRan(entry)), self.host.clock.utc_now)
        self._post = post
        self._opener = opener
        self._hertz = hertz
        self._monitor: Monitor | None = None
        self._lane: ThreadPoolExecutor | None = None
        """Runs the work on the open session, one piece at a time, in the order of ``submit``."""
        self._lock = threading.Lock()
        """Held when a session begins or ends, and in ``submit``, so that no work runs on the next session."""
        self._is_over = threading.Event()
        """Set when the open session is to be closed, because of ``_loss`` or on request."""
        self._loss: LabError | None = None
        self._thread: threading.Thread | None = None
        """Opens and closes a session; None while no session is open or being opened."""
        self._is_settled = threading.Event()
        """Set except while a session is being opened."""
        self._is_settled.set()
        self._is_closing = False
        self._helpers: list[Callable[[], None]] = []

    def start(self) -> None:
        """Open the lab, even after it was lost or could not be opened. Does nothing while the lab is open."""
        with self._lock:
            if self._thread is None and not self._is_closing:
                self._is_settled.clear()
                self._is_over.clear()
                self._loss = None
                self._thread = threading.Thread(target=self._live, name="lab")
                self._thread.start()

    def submit(self, work: Callable[[LabSession], T]) -> Future[T]:
        """Run work on the open session, after all work that was submitted earlier.

        The future raises only LabError. The error is MachineLost if no session is open, or the reason for the loss if
        the machine is lost before the work begins. The future cannot be cancelled, so a plan to which the user has
        agreed runs even if the app ends.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def run(session: LabSession) -> T:
            if self._loss:
                raise self._loss
            try:
                return work(session)
            except MachineLost as error:
                self._end(session, error)
                raise

        with self._lock:
            if self.session is not None and self._lane is not None:
                self._lane.submit(run_into, future, partial(run, self.session))
                return future
        hint = "wait until it has started" if self._thread else "start it again with Ctrl+R"
        future.set_exception(MachineLost("the machine is not running", hint=hint))
        return future

    @contextmanager
    def released(self) -> Iterator[None]:
        """Close the session while other work opens the same machine. This must not run on the app's own thread.

        If a session is being opened, wait for it first, because that session already holds the lab's lock. Raises
        MachineLost if the app is closing.
        """
        self._is_settled.wait()
        with self._lock:
            if self._is_closing:
                raise MachineLost("the lab is being closed", hint="start raidlab again")
            session, thread = self.session, self._thread
        if session is None or thread is None:
            yield
            return
        self._end(session, None)
        thread.join()
        try:
            yield
        finally:
            self.start()

    def close(self) -> None:
        """Close the lab and wait until it is closed. If a machine is still starting, it finishes starting first."""
        with self._lock:
            self._is_closing, thread = True, self._thread
            self._is_settled.set()
        self._is_over.set()
        self._stop_helpers()
        if thread:
            thread.join()

    @contextmanager
    def on_end(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call ``stop`` before the session closes, if it closes inside this context."""
        self._helpers.append(stop)
        try:
            yield
        finally:
            self._helpers.remove(stop)

    def machine_seconds(self) -> float:
        """Return the time of the machine's clock now, on the time axis of the samples, or 0 before the first sample."""
        monitor = self._monitor
        return (monitor.machine_seconds() if monitor else None) or 0.0

    def _end(self, session: LabSession, loss: LabError | None) -> None:
        """Close this session if it is still the open one. Any thread may call this."""
        with self._lock:
            if session is self.session:
                self._loss = self._loss or loss
                self._is_over.set()

    def _post_disks(self, session: LabSession) -> None:
        with suppress(MachineLost):
            self._post(DisksChanged(session.disks, session.found))
            self._post_marks(session)

    def _post_marks(self, session: LabSession) -> None:
        from lab.session.data_mark import read_marks

        marks, names = read_marks(session), {status.uuid: status.name for status in session.statuses()}
        self._post(MarksRead({names[uuid]: mark for uuid, mark in marks.items() if uuid in names}))

    def _live(self) -> None:
        opening: Future[None] = Future()
        try:
            with ExitStack() as stack:
                run_into(opening, partial(self._open, stack))
                opening.result()
                self._is_over.wait()
            error = self._loss
        except LabError as failure:
            error = failure
        with self._lock:
            was_open, self.session, self._thread = self.session is not None, None, None
            self._is_settled.set()
            # Hold the lock, so that no message of the next session precedes this one.
            self._post(SessionEnded(error, was_open=was_open))

    def _open(self, stack: ExitStack) -> None:
        # Import this only here, so that the text mode starts without waiting for it.
        from lab.session.monitor import Monitor

        target = self.target = self.target or default_target(self.host)
        self._post(MachineOpening(target))
        session = stack.enter_context(
            open_session(
                Client(
                    parse_target(target),
                    self.host,
                    on_notice=lambda text: self._post(NoticeGiven(text)),
                    on_machine=lambda machine: machine.on_command(self.log.on_command),
                    on_plan=self.log.announce,
                    on_found=self._post_disks,
                    opener=self._opener or open_lab,
                )
            )
        )
        self._monitor = monitor = Monitor(
            session,
            hertz=self._hertz,
            on_snapshot=lambda snapshot: self._post(SnapshotTaken(snapshot)),
            on_end=lambda error: self._end(session, error) if error else None,
        )
        stack.callback(self._stop_helpers)
        with self._lock:
            self.session, self._lane = session, ThreadPoolExecutor(1, "lab work")
            self._is_settled.set()
        stack.callback(self._finish_work)
        self._post(SessionOpened(session.lab.machine.facts, session.lab.disks, session.found))
        self._post_marks(session)
        monitor.start()
        stack.callback(monitor.stop)
        if session.machine.facts.is_virtual_time:
            self._let_time_pass(session, stack)
        # Work that still runs needs the monitor and the clock.
        stack.callback(self._finish_work)

    def _finish_work(self) -> None:
        """Accept no more work, and wait until the accepted work has run, or has failed because the machine was lost."""
        with self._lock:
            lane, self._lane = self._lane, None
        if lane:
            lane.shutdown()

    def _let_time_pass(self, session: LabSession, stack: ExitStack) -> None:
        self.pacer = pacer = Pacer(
            session,
            on_pace=lambda pace, note: self._post(PaceChosen(pace, note)),
            on_end=lambda error: self._end(session, error),
        )
        pacer.start()

        @stack.callback
        def stop() -> None:
            self.pacer = None
            pacer.stop()

    def _stop_helpers(self) -> None:
        for stop in list(self._helpers):
            with suppress(LabError):
                stop()
