"""The common part of the app and the text mode, its services, and the methods that each of the two implements.

No method blocks, because results are passed to callbacks on the frontend's own thread. Each service runs at most one
task at a time, and receives the messages of the lab's threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lab.actions.action import Choice
from lab.arrays.kinds import names_array
from lab.disks.kinds import with_full_names
from lab.errors import LabError, MachineLost
from lab.plans import Plan, Step
from lab.session.pace import SPEEDS, STEP, Pace, Pacer
from lab.session.session import LabSession
from tui.client import LabClient, run_into
from tui.state import (
    CallRequested,
    CommandRan,
    DisksChanged,
    LabMessage,
    LabState,
    LoadEnded,
    LoadTicked,
    LoadView,
    MachineOpening,
    MachinePhase,
    MarksRead,
    MarkView,
    NoticeGiven,
    OperationChanged,
    PaceChosen,
    RunningOperation,
    SessionEnded,
    SessionOpened,
    SnapshotTaken,
    with_first_syncs,
)

if TYPE_CHECKING:
    from textual.message import Message

    from lab.session.data_mark import DataMark, MarkVerdict
    from lab.session.load import Load

T = TypeVar("T")
Progress = Callable[[Any], None]
Cancelled = Callable[[], bool]
_END_SECONDS = 10.0
_ASKS_FOR_VERDICT = ("restored", "sync-finished")


class Loads:
    """Starts and stops a load, which is one workload on one array."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._load: Load | None = None

    def start(self, array: str, workload: str, runtime_seconds: float | None = None) -> bool:
        """Start a load. Without a runtime, it runs until ``stop``. Return False if it cannot be started."""
        from lab.session.load import Load, predict

        frontend, client = self._frontend, self._frontend.client
        if client.session is None or self._load is not None:
            return False
        post = frontend.post_message
        try:
            self._load = Load(
                client.session,
                array,
                workload,
                runtime_seconds=runtime_seconds,
                is_aside=True,
                on_live=lambda interval: post(LoadTicked(interval, client.machine_seconds())),
                on_phase=lambda phase: frontend.call(self._change, phase=phase.value),
                on_end=lambda outcome: post(LoadEnded(outcome)),
            )
        except LabError as error:
            frontend.show_error(error)
            return False
        frontend.lab.load = LoadView(workload, array, runtime_seconds)
        frontend.look_up(
            lambda session: predict(session, array, workload),
            on_done=lambda forecast: self._change(forecast=forecast),
            on_error=lambda _: None,
        )
        self._load.start()
        frontend.show_soon()
        return True

    def stop(self) -> None:
        """Ask the load to end. ``LoadEnded`` contains its figures."""
        if self._load is not None:
            self._load.stop()

    def receive(self, message: LabMessage) -> None:
        if isinstance(message, LoadEnded | SessionEnded):
            self._load = None
        if isinstance(message, LoadEnded) and isinstance(message.outcome, LabError):
            self._frontend.show_error(message.outcome)

    def _change(self, **changes: Any) -> None:
        if self._frontend.lab.load:
            self._frontend.lab.load = replace(self._frontend.lab.load, **changes)


class Marks:
    """Writes known data to arrays, and verifies them on request and when an array is complete again."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.is_quiet: Callable[[], bool] = lambda: False
        """Returns True to suppress automatic verification, since in a lesson verifying is the student's task."""

    def write(self, array: str) -> None:

        def work(session: LabSession) -> DataMark:
            from lab.session.data_mark import write_mark

            return write_mark(session, array)

        def done(mark: DataMark) -> None:
            self._frontend.lab.marks[array] = MarkView(mark)
            self._frontend.show_message(f"Known data were written to {array}; v verifies them later.")

        self._frontend.job(f"Write known data to {array}", work, on_done=done)

    def verify(self, array: str) -> None:
        """Read the known data, bypassing the caches, and show the verdict."""

        def work(session: LabSession) -> tuple[DataMark, MarkVerdict]:
            from lab.session.data_mark import require_mark, verify_mark

            mark = require_mark(session, array)
            return mark, verify_mark(session, mark)

        self._frontend.job(f"Verify {array}", work, on_done=partial(self._store_verdict, array))

    def receive(self, message: LabMessage) -> None:
        """Verify an array with known data automatically when it is complete again or its sync has finished."""
        if not isinstance(message, SnapshotTaken):
            return
        lab = self._frontend.lab
        for name in dict.fromkeys(event.array for event in lab.new_events if event.kind.value in _ASKS_FOR_VERDICT):
            status = lab.array(name)
            is_whole = status and not status.is_degraded and not status.sync_action.is_busy
            if name in lab.marks and is_whole and not self.is_quiet():
                self.verify(name)

    def _store_verdict(self, array: str, found: tuple[DataMark, MarkVerdict]) -> None:
        mark, verdict = found
        self._frontend.lab.marks[array] = MarkView(mark, verdict)
        self._frontend.show_message(
            verdict.sentence, title=f"{array}: data {verdict.verdict}", is_bad=not verdict.is_intact
        )


NO_PACE = (
    "This machine runs in real time. For a clock that you can pause and speed up: raidlab --on 'uml:?time=virtual'"
)


class Pacing:
    """Sets the pace of a machine in virtual time, from paused to as fast as possible."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._last_speed = 1.0

    def toggle(self) -> None:
        """Pause, or continue at the speed before the pause."""
        self._go(lambda now: self._last_speed if now.is_paused else 0.0)

    def change(self, by: int) -> None:
        """Change the pace by ``by`` steps of ``SPEEDS``. A negative number slows it down, eventually to a pause."""
        places = (0.0, *SPEEDS)
        self._go(lambda now: places[max(0, min(len(SPEEDS), places.index(now.speed) + by))])

    def step(self) -> None:
        """Run as fast as possible to the next event, then pause."""
        if pacer := self._pacer():
            pacer.go(STEP)

    def set_by_word(self, word: str) -> bool:
        """Carry out a typed command for the pace. Return False if the word is not one."""
        words: dict[str, Callable[[], object]] = {
            **dict.fromkeys((",", "pause"), self.toggle),
            **dict.fromkeys((".", "step"), self.step),
            **dict.fromkeys((">", "faster"), partial(self.change, 1)),
            **dict.fromkeys(("<", "slower"), partial(self.change, -1)),
        }
        speeds = {Pace(speed).words: speed for speed in SPEEDS}
        if word in words:
            words[word]()
        elif word in speeds:
            self._go(lambda _: speeds[word])
        return word in words or word in speeds

    def _go(self, speed_after: Callable[[Pace], float]) -> None:
        if pacer := self._pacer():
            speed = speed_after(pacer.pace)
            self._last_speed = speed or self._last_speed
            pacer.go(Pace(speed))

    def _pacer(self) -> Pacer | None:
        """Return the pacer. If there is none, show why and return None."""
        pacer = self._frontend.client.pacer
        if pacer is None:
            self._frontend.show_message(NO_PACE if self._frontend.lab.is_open else "There is no machine.")
        return pacer


class Background:
    """Runs one long job at a time, such as an experiment, on a separate thread and in a separate lab."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None

    def run(
        self,
        title: str,
        work: Callable[[Progress, Cancelled], T],
        *,
        on_done: Callable[[T], None],
        on_error: Callable[[LabError], None],
        on_progress: Progress,
    ) -> bool:
        """Start a job. Return False if another one is running. The callbacks run on the frontend's own thread.

        ``work`` gets a function that reports progress, and one that returns whether it should stop.
        """
        frontend = self._frontend
        if frontend.lab.background:
            return False
        self._cancelled = cancelled = threading.Event()

        def then(callback: Callable[[Any], None], outcome: object) -> None:
            frontend.lab.background = ""
            callback(outcome)

        frontend.lab.background = title
        job = partial(work, partial(frontend.call, on_progress), cancelled.is_set)
        self._thread = frontend.beside(title, job, on_done=partial(then, on_done), on_error=partial(then, on_error))
        frontend.show_soon()
        return True

    def end(self) -> None:
        """Cancel the job when the app closes, and wait up to ``_END_SECONDS`` for it."""
        self.cancel()
        if self._thread:
            self._thread.join(_END_SECONDS)

    def cancel(self) -> None:
        """Ask the job to end. What it has stored remains."""
        self._cancelled.set()


ClientMaker = Callable[[Callable[["Message"], Any]], LabClient]
MakePlan = Callable[["LabSession"], "Plan | None"]


class Frontend:
    """The state of the lab, and all operations on it."""

    def connect(self, target: str | None, make_client: ClientMaker | None) -> None:
        """Set up the client, whose ``start`` opens the lab, and the services. ``make_client`` is for tests."""
        self.lab = LabState(target=target or "")
        self.client = make_client(self.post_message) if make_client else LabClient(target, self.post_message)
        self.loads, self.marks = Loads(self), Marks(self)
        self.background, self.pacing = Background(self), Pacing(self)
        self.receivers: tuple[Callable[[LabMessage], None], ...] = (self.marks.receive, self.loads.receive)
        """Called with each message, after ``lab`` is updated."""
        self.plan_runs: set[PlanRun] = set()

    def on_lab_message(self, message: LabMessage) -> None:
        """Apply a message from the lab's threads to the state. Textual finds this method by its name."""
        lab = self.lab
        match message:
            case SnapshotTaken(snapshot=snapshot):
                from lab.session.monitor import events_between

                before, lab.snapshot = lab.snapshot, snapshot
                is_quiet = before is not None and before.arrays == snapshot.arrays and before.disks == snapshot.disks
                lab.quiet_snapshots = lab.quiet_snapshots + 1 if is_quiet else 0
                lab.has_ticked = before is None or int(before.time_seconds) != int(snapshot.time_seconds)
                found = events_between(before, snapshot, name_of=lab.full_disk_name) if before else ()
                lab.new_events = with_first_syncs(found, snapshot, lab.first_syncs)
                lab.events.extend(lab.new_events)
                for event in lab.new_events:
                    if (view := lab.marks.get(event.array)) and view.verdict:
                        lab.marks[event.array] = replace(view, is_stale=True)
                if lab.history:
                    lab.history.add(snapshot)
            case CallRequested():
                message.function()
            case NoticeGiven():
                self.show_message(message.text)
            case MachineOpening():
                lab.phase, lab.target, lab.problem = MachinePhase.OPENING, message.target, None
            case SessionOpened():
                lab.begin_session(message)
                self.settle()
            case SessionEnded():
                lab.end_session(message)
            case PaceChosen():
                lab.pace = message.pace
                if message.note:
                    self.show_message(message.note)
            case DisksChanged():
                lab.disks, lab.found = message.disks, message.found
            case CommandRan():
                lab.commands.append(message.entry)
                lab.command_count += 1
            case LoadTicked():
                if lab.load:
                    lab.load = replace(lab.load, newest=message.interval)
                if lab.history:
                    lab.history.add_load(message.interval, message.time_seconds)
            case LoadEnded():
                lab.end_load(message.outcome)
            case MarksRead():
                lab.store_marks(message.marks)
            case OperationChanged():
                lab.operation = message.operation
        for receive in self.receivers:
            receive(message)
        if not isinstance(message, SnapshotTaken):
            self.show_soon()
        elif not lab.is_dull:
            for view in self.views:
                view.changes += 1

    @property
    def views(self) -> Sequence[Any]:
        """The screens in front. Their widgets watch the reactive attribute ``changes``."""
        return ()

    def call(self, function: Callable[..., object], *arguments: object, **named: object) -> None:
        """Call a function on the frontend's own thread, after all messages posted earlier. Any thread may call this."""
        self.post_message(CallRequested(partial(function, *arguments, **named)))

    def look_up(
        self,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], object] | None = None,
        on_error: Callable[[LabError], object] | None = None,
    ) -> None:
        """Run work on the open session after all work that was submitted earlier. The work only reads or computes."""
        self.client.submit(work).add_done_callback(partial(self._hand_over, on_done, on_error))

    def job(
        self,
        title: str,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], object] | None = None,
        on_error: Callable[[LabError], object] | None = None,
    ) -> None:
        """Like ``look_up``, for work that the screens show as the current operation."""

        def operation(session: LabSession) -> T:
            self.post_message(OperationChanged(RunningOperation(title)))
            try:
                return work(session)
            finally:
                self.post_message(OperationChanged(None))

        self.look_up(operation, on_done=on_done, on_error=on_error)

    def _hand_over(
        self, on_done: Callable[[T], object] | None, on_error: Callable[[LabError], object] | None, future: Future[T]
    ) -> None:
        if error := future.exception():
            self.call(on_error or self.show_error, error)
        elif on_done:
            self.call(on_done, future.result())

    def beside(
        self,
        title: str,
        work: Callable[[], T],
        *,
        on_done: Callable[[T], object] | None = None,
        on_error: Callable[[LabError], object] | None = None,
    ) -> threading.Thread:
        """Run work without a session on a separate thread.

        Textual's thread workers are unsuitable, because asyncio waits for their threads at the end, but the app must
        end immediately.
        """
        future: Future[T] = Future()
        future.add_done_callback(partial(self._hand_over, on_done, on_error))
        thread = threading.Thread(target=run_into, args=(future, work), name=title, daemon=True)
        thread.start()
        return thread

    def make_and_run(self, make: Callable[[LabSession], Plan]) -> None:
        self.look_up(make, on_done=self.run_plan)

    def run_plan(self, plan: Plan, *, on_done: Callable[[], object] = lambda: None) -> None:
        """Run a plan, and call ``on_done`` when it (or its first part, if it waits for md) has run."""
        self.start(PlanRun(self, plan), on_done=on_done, on_error=self.show_error)

    def start(self, run: PlanRun, *, on_done: Callable[[], object], on_error: Callable[[LabError], object]) -> None:
        """Start a run of a plan after all work that was submitted earlier. ``run.leave`` can stop it from now on."""
        self.plan_runs.add(run)

        def failed(error: LabError) -> None:
            run.leave()
            on_error(error)

        self.look_up(run.run, on_done=lambda _: on_done(), on_error=failed)

    def attempt(self, work: Callable[[], T]) -> T | None:
        """Return the result of short work, or None after showing its error."""
        try:
            return work()
        except LabError as error:
            self.show_error(error)
            return None

    def rescan(self) -> None:
        """Reread the disks after a command that the user typed, since it may have created or removed arrays."""
        if self.client.session is not None:
            self.look_up(lambda session: session.rescan(), on_error=lambda _: None)

    def leave_volume(self, volume: str) -> None:
        for run in tuple(self.plan_runs):
            if run.volume == volume:
                run.leave()

    # Methods that the app and the text mode implement.

    def ask(self, make: MakePlan, *, note: str = "", on_done: Callable[[], object] | None = None) -> object:
        """Make a plan, show it, and run the same plan if the user agrees. An error of ``make`` is shown with its hint.

        If ``make`` returns None, no confirmation is needed. ``on_done`` is called when the plan (or its first part, if
        it waits for md) has run, or immediately without a plan.
        """
        raise NotImplementedError

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        """Let the user choose one of ``choices``. ``then`` gets its id, and is not called if the user chooses none."""
        raise NotImplementedError

    def show_error(self, error: LabError) -> None:
        raise NotImplementedError

    def show_message(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        raise NotImplementedError

    def show_soon(self) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Called when the lab is open and most modules are loaded. It does nothing by default."""

    def choose_freely(self) -> None:
        raise NotImplementedError

    def post_message(self, message: Message) -> Any:
        """Pass a message from any thread to ``on_lab_message`` on the frontend's own thread."""
        raise NotImplementedError


class PlanRun:
    """One run of a plan. ``run`` is work for the lab's executor.

    In the title and the reasons of the plan, a disk has both of its names, such as ``disk02 (/dev/ubdb)``.

    A plan that waits for md between steps runs in parts. The waiting steps run on a separate thread, so that other
    work can use the lab meanwhile. ``run`` runs the first part, and the other parts run without involving the caller.
    """

    def __init__(self, frontend: Frontend, plan: Plan) -> None:
        disks = frontend.lab.disks
        steps = (replace(step, why=with_full_names(step.why, disks)) for step in plan.steps)
        self.plan = Plan.of(with_full_names(plan.title, disks, most=2), steps)
        words = (word.strip(":,") for word in self.plan.title.split())
        self.volume = next((word for word in words if names_array(word)), "")
        """The array in the plan's title; empty if there is none."""
        self._frontend = frontend
        self._is_left = False
        self.steps_begun = 0
        """How many steps of the current part have begun."""

    @property
    def is_running(self) -> bool:
        """Whether the plan was started, and has neither ended nor been stopped by ``leave``."""
        return self in self._frontend.plan_runs

    def leave(self) -> None:
        """Stop after the current step. md continues its current operation."""
        self._is_left = True
        self._end()

    def _end(self) -> None:
        if session := self._frontend.client.session:
            session.going_on.discard(self.volume)
        self._frontend.plan_runs.discard(self)

    def run(self, session: LabSession, rest: Plan | None = None) -> None:
        """Run the plan, or the rest of it, up to the first step that waits. Raises the error of a failing step."""
        acting, wait, after = (rest or self.plan).until_wait
        post = self._frontend.post_message

        def begin(step: Step) -> None:
            self.steps_begun += 1
            post(OperationChanged(RunningOperation(self.plan.title, step.shell_line())))

        if rest and self._is_left:
            return
        if wait:
            session.going_on.add(self.volume)
        self.steps_begun = 0
        post(OperationChanged(RunningOperation(self.plan.title)))
        try:
            session.run(acting, before_step=begin)
        except Exception:
            self._end()
            raise
        finally:
            post(OperationChanged(None))
        if wait is None or self._is_left:
            self._end()
        else:
            waiting = partial(self._wait, session, wait, after)
            self._frontend.beside(self.plan.title, waiting, on_error=self._failed)

    def _wait(self, session: LabSession, step: Step, after: Plan) -> None:
        """Run the waiting step on a separate thread, then the rest of the plan on the lab's executor."""
        session.lab.guard.check(step)
        command = session.machine.stream(step.argv)
        client = self._frontend.client
        with client.on_end(command.stop):
            for _ in command.chunks():
                pass
            status = command.result().status
        if status == 0 and after.steps and not self._is_left:
            self._frontend.look_up(partial(self.run, rest=after), on_error=self._rest_failed)
            return
        if status != 0 and not self._is_left:
            statuses = client.submit(lambda session: session.statuses()).result()
            if any(status.name == self.volume for status in statuses):
                hint = f"look at {self.volume}; adding the disk again continues where it stopped"
                raise LabError(f"{self.plan.title}: md stopped before completing it", hint=hint)
        self._end()

    def _rest_failed(self, error: LabError) -> None:
        self._end()
        self._frontend.show_error(error)

    def _failed(self, error: LabError) -> None:
        if self._is_left or isinstance(error, MachineLost):
            self._end()
        else:
            self._rest_failed(error)
