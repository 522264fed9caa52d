"""The services of a frontend outside its job queue: loads, known data, the clock, typed commands, background jobs.

Each runs at most one thing at a time, and receives the messages of the lab's threads.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lab.errors import LabError
from tui.state import (
    LabLooked,
    LabMessage,
    LoadEnded,
    LoadEntered,
    LoadTicked,
    LoadView,
    MarkView,
    SessionEnded,
    ShellEnded,
    ShellPrinted,
)

if TYPE_CHECKING:
    from lab.session.data_mark import DataMark, MarkVerdict
    from lab.session.load import Forecast, Load
    from lab.session.pace import Pacer
    from lab.session.session import LabSession
    from lab.session.shell import Shell
    from tui.frontend import Frontend

T = TypeVar("T")
Progress = Callable[[Any], None]
Cancelled = Callable[[], bool]
KEPT_CHARACTERS = 200_000
_END_SECONDS = 10.0
_ASKS_FOR_VERDICT = ("restored", "sync-finished")
# Escape sequences, such as colours, and control characters that would disturb the app's display.
_ORDERS = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]")


class Loads:
    """Starts and stops a load: one workload on one array."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._load: Load | None = None

    def start(self, array: str, workload: str, runtime_seconds: float | None = None) -> bool:
        """Start a load; without a runtime it runs until ``stop``. False if another one runs or it cannot start."""
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
                on_phase=lambda phase: post(LoadEntered(phase)),
                on_end=lambda outcome: post(LoadEnded(outcome)),
            )
        except LabError as error:
            frontend.show_error(error)
            return False
        frontend.lab.load = LoadView(workload, array, runtime_seconds)
        frontend.look_up(lambda session: predict(session, array, workload), on_done=self._keep, on_error=lambda _: None)
        self._load.start()
        frontend.show_soon()
        return True

    def stop(self) -> None:
        """Request that the load ends; ``LoadEnded`` brings its figures."""
        if self._load is not None:
            self._load.stop()

    def hear(self, message: LabMessage) -> None:
        """Forget the load when it or the session has ended, and show its error."""
        if isinstance(message, LoadEnded | SessionEnded):
            self._load = None
        if isinstance(message, LoadEnded) and isinstance(message.outcome, LabError):
            self._frontend.show_error(message.outcome)

    def _keep(self, forecast: Forecast) -> None:
        if self._frontend.lab.load:
            self._frontend.lab.load = replace(self._frontend.lab.load, forecast=forecast)


class Marks:
    """Writes known data on arrays and verifies them: on request, and when an array is complete again."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.is_quiet: Callable[[], bool] = lambda: False
        """Returns True to suppress automatic verification: in a lesson, verifying is a task of the student."""

    def write(self, array: str) -> None:
        """Write known data on an array."""

        def work(session: LabSession) -> DataMark:
            from lab.session.data_mark import write_mark

            return write_mark(session, array)

        def done(mark: DataMark) -> None:
            self._frontend.lab.marks[array] = MarkView(mark)
            self._frontend.say(
                f"Known data are on {array}. Whatever you do to it, v then shows whether they are intact."
            )

        self._frontend.job(f"Write known data on {array}", work, on_done=done)

    def verify(self, array: str) -> None:
        """Read the known data, bypassing the caches, and show the verdict."""

        def work(session: LabSession) -> tuple[DataMark, MarkVerdict]:
            from lab.session.data_mark import require_mark, verify_mark

            mark = require_mark(session, array)
            return mark, verify_mark(session, mark)

        self._frontend.job(f"Verify {array}", work, on_done=partial(self._keep, array))

    def hear(self, message: LabMessage) -> None:
        """Verify an array with known data automatically when it is complete again or its sync has finished."""
        if not isinstance(message, LabLooked):
            return
        lab = self._frontend.lab
        for name in dict.fromkeys(event.array for event in lab.new_events if event.kind.value in _ASKS_FOR_VERDICT):
            status = lab.array(name)
            is_whole = status and not status.is_degraded and not status.sync_action.is_busy
            if name in lab.marks and is_whole and not self.is_quiet():
                self.verify(name)

    def _keep(self, array: str, found: tuple[DataMark, MarkVerdict]) -> None:
        mark, verdict = found
        self._frontend.lab.marks[array] = MarkView(mark, verdict)
        self._frontend.say(verdict.sentence, title=f"{array}: data {verdict.verdict}", is_bad=not verdict.is_intact)


NO_PACE = (
    "This machine's clock goes like everybody's. One that can be paused and hurried: raidlab --on 'uml:?time=virtual'"
)


class Pacing:
    """Sets the pace of a machine in virtual time: from paused to as fast as possible."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._last_speed = 1.0
        """The speed after a pause."""

    def toggle(self) -> None:
        """Pause, or continue at the speed before the pause."""
        pacer = self._pacer()
        if pacer:
            self._go(pacer, self._last_speed if pacer.pace.is_paused else 0.0)

    def change(self, by: int) -> None:
        """Make the pace ``by`` places of ``SPEEDS`` faster, or slower if negative; the slowest is a pause."""
        from lab.session.pace import SPEEDS

        pacer = self._pacer()
        if pacer:
            places = (0.0, *SPEEDS)
            self._go(pacer, places[max(0, min(len(SPEEDS), places.index(pacer.pace.speed) + by))])

    def step(self) -> None:
        """Run as fast as possible to the next event, then pause."""
        from lab.session.pace import STEP

        pacer = self._pacer()
        if pacer:
            pacer.go(STEP)

    def obey(self, word: str) -> bool:
        """Apply a typed word; False if it is not a word about the pace."""
        from lab.session.pace import SPEEDS, Pace

        words: dict[str, Callable[[], object]] = {
            **dict.fromkeys((",", "pause"), self.toggle),
            **dict.fromkeys((".", "step"), self.step),
            **dict.fromkeys((">", "faster"), partial(self.change, 1)),
            **dict.fromkeys(("<", "slower"), partial(self.change, -1)),
            **{Pace(speed).words: partial(self._go_at, speed) for speed in SPEEDS},
        }
        if word in words:
            words[word]()
        return word in words

    def _go_at(self, speed: float) -> None:
        pacer = self._pacer()
        if pacer:
            self._go(pacer, speed)

    def _go(self, pacer: Pacer, speed: float) -> None:
        from lab.session.pace import Pace

        self._last_speed = speed or self._last_speed
        pacer.go(Pace(speed))

    def _pacer(self) -> Pacer | None:
        """The pacer; if there is none, show why and return None."""
        pacer = self._frontend.client.pacer
        if pacer is None:
            self._frontend.say(NO_PACE if self._frontend.lab.is_open else "There is no machine.")
        return pacer


class TypedShell:
    """Runs commands that the user typed, one at a time; the folder and the variables last as long as the session."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._session: LabSession | None = None
        self._shell: Shell | None = None
        self.running_line = ""
        """The running command line; empty: none."""
        self.output = ""
        """The last ``KEPT_CHARACTERS`` characters of the output."""
        self.count = 0
        """Number of characters printed so far. A screen that has shown fewer has not shown the end of ``output``."""

    @property
    def folder(self) -> str:
        """The working folder of the next command; empty before the first."""
        return self._shell.folder if self._shell else ""

    def run(self, line: str) -> bool:
        """Start a command; False if another one still runs, or there is no machine."""
        session = self._frontend.client.session
        if self.running_line or session is None:
            return False
        if self._session is not session or self._shell is None:
            from lab.session.shell import Shell

            # A new machine does not have the folder and the variables of the previous one.
            self._session, self._shell = session, Shell(session)
        self.running_line = line
        self._print(f"# {line}\n")
        threading.Thread(target=self._follow, args=(self._shell, line), name="shell", daemon=True).start()
        self._frontend.show_soon()
        return True

    def interrupt(self) -> None:
        """Send Ctrl-C to the command; the second call kills it."""
        if self._shell and self.running_line:
            threading.Thread(target=self._shell.interrupt, name="shell interrupt", daemon=True).start()

    def unseen(self, seen: int) -> str:
        """The output after the first ``seen`` characters, as far as it is still stored."""
        missing = min(self.count - seen, len(self.output))
        return self.output[-missing:] if missing else ""

    def clear(self) -> None:
        """Delete the stored output."""
        self.output = ""

    def hear(self, message: LabMessage) -> None:
        """Store the output of the command, and handle its end."""
        if isinstance(message, ShellPrinted):
            self._print(message.text)
        if isinstance(message, ShellEnded):
            self._end(message)

    def _end(self, message: ShellEnded) -> None:
        new_line = "" if self.output.endswith("\n") else "\n"
        status = f"(status {message.status})\n" if message.status else ""
        self._print(f"{new_line}{message.error}\n" if message.error else f"{new_line}{status}")
        self.running_line = ""
        # The command may have been an mdadm that creates or removes arrays.
        if self._frontend.client.session is not None:
            self._frontend.look_up(lambda session: session.rescan(), on_error=lambda _: None)

    def _print(self, text: str) -> None:
        clean = _ORDERS.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
        self.output = (self.output + clean)[-KEPT_CHARACTERS:]
        self.count += len(clean)

    def _follow(self, shell: Shell, line: str) -> None:
        """Run a command on a thread of its own and post its output and its end."""
        client, post = self._frontend.client, self._frontend.post_message
        status: int | None = None
        failure: LabError | None = None
        forget = client.on_end(shell.interrupt)
        try:
            client.log.typed(line)
            status = shell.run(line, on_output=lambda text: post(ShellPrinted(text))).status
        except LabError as error:
            failure = error
        finally:
            forget()
            post(ShellEnded(status, failure))


class Background:
    """Runs one long job on a thread of its own, such as an experiment, which opens a lab of its own."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._cancelled = threading.Event()
        self._is_over = threading.Event()
        self._is_over.set()

    def run(
        self,
        title: str,
        work: Callable[[Progress, Cancelled], T],
        *,
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[LabError], None] | None = None,
        on_progress: Progress | None = None,
    ) -> bool:
        """Start a job; False if another one runs. The callbacks run on the frontend's own thread.

        ``work`` gets two functions: one that reports progress, one that returns whether it should stop.
        """
        frontend = self._frontend
        if frontend.lab.background:
            return False
        cancelled, is_over = threading.Event(), threading.Event()
        self._cancelled, self._is_over = cancelled, is_over

        def report(progress: object) -> None:
            if on_progress:
                frontend.call(on_progress, progress)

        def run() -> T:
            try:
                return work(report, cancelled.is_set)
            finally:
                is_over.set()

        def then(callback: Callable[[Any], None] | None, outcome: object) -> None:
            frontend.lab.background = ""
            if callback:
                callback(outcome)

        frontend.lab.background = title
        failed = partial(then, on_error or frontend.show_error)
        frontend.beside(title, run, on_done=partial(then, on_done), on_error=failed)
        frontend.show_soon()
        return True

    def end(self) -> None:
        """Cancel the job when the app closes, and wait for it up to ``_END_SECONDS``."""
        self.cancel()
        self._is_over.wait(_END_SECONDS)

    def cancel(self) -> None:
        """Request that the job ends; what it has stored is kept."""
        self._cancelled.set()
