"""Follows the open lesson on every screen: it checks the current step at each sample, and implements the keys.

All of it runs on the app's own thread, except reading the course, which is slow, and work in the lab.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from textual.markup import escape

from lab.errors import LabError
from lab.machine.target import target_words
from tui.run.runs import request_of
from tui.state import LabLooked, LabMessage

if TYPE_CHECKING:
    from lab.checks.state import DeepState
    from lab.experiments.schedule import RunProgress
    from lab.lessons.engine import StepView
    from lab.lessons.student import LessonSession, Student
    from lab.plans import Plan
    from lab.session.monitor import Event, Snapshot
    from lab.session.session import LabSession
    from tui.frontend import Cancelled, Frontend, Progress
    from tui.lessons.view import CourseItem, FaultToRead, LessonView, StepCard

FRESH_SECONDS = 2.0
"""Maximum age of the contents of the disks; reading them takes several commands on the machine."""


T = TypeVar("T")
LESSONS_MODE = "lessons"
PLACES = {"results": "[b]4[/b] shows your result", "faults": "[b]7[/b] shows the outcome"}
"""Mode that shows a number to read -> hint with its key, as markup."""
BLANK_NOTE = "A lesson starts with blank disks: all data on the lab's disks will be lost."


class Guide:
    """The course and the open lesson in the app.

    Args:
        on_passed: called when a step is done.
        is_suspended: returns whether checks are suspended, because the lab's arrays belong to an open drill.
    """

    def __init__(
        self, frontend: Frontend, *, on_passed: Callable[[], object], is_suspended: Callable[[], bool] = lambda: False
    ) -> None:
        self._is_suspended = is_suspended
        self._frontend = frontend
        self._on_passed = on_passed
        self._student: Student | None = None
        self._attempt: LessonSession | None = None
        self._step_view: StepView | None = None
        self._read_count = 0
        """Number of explanations that the student has read."""
        self._watched = ""
        """Id of the step whose events are collected."""
        self._since: Snapshot | None = None
        self._events: list[Event] = []
        self.course: tuple[CourseItem, ...] = ()
        self.view: LessonView | None = None
        self._activity, self._fraction = "", 0.0
        self._came_from = "lab"
        self._was_asked = False
        self._deep: tuple[float, DeepState] | None = None
        """(time of the machine, contents of the disks), as last read in this step."""
        self._is_reading_disks = False

    @property
    def is_following(self) -> bool:
        """Whether a lesson is open and not completed."""
        return self._attempt is not None and self._attempt.step is not None

    @property
    def is_ready(self) -> bool:
        """Whether the course has been read."""
        return self._student is not None

    def open(self, *, only_if_begun: bool = False) -> None:
        """Read the course and the open lesson on a separate thread."""
        self._was_asked = True
        if self._student is not None:
            self.refresh()
            return

        def read() -> Student | None:
            host = self._frontend.client.host
            # A user who has never started a lesson does not wait for the import.
            if only_if_begun and not (host.state.root / "lessons" / "desk.json").exists():
                return None
            from lab.lessons.student import Student

            student = Student(host)
            student.lines()  # reads the course, which is slow, and caches it
            return student

        self._frontend.beside("course", read, on_done=self._opened)

    def _opened(self, student: Student | None) -> None:
        if student is not None and self._student is None:
            self._student = student
            self._set_attempt(self._try(student.open_lesson))

    def _set_attempt(self, attempt: LessonSession | None) -> None:
        """Make this the open lesson; the explanations of completed steps count as read."""
        self._attempt, self._step_view, self._watched = attempt, None, ""
        self._read_count = attempt.done_count if attempt else 0
        self.refresh()

    def hear(self, message: LabMessage) -> None:
        if isinstance(message, LabLooked):
            self.check()

    def check(self) -> None:
        """Collect the events since the last sample, and check the step."""
        if not self._was_asked:
            self.open(only_if_begun=True)
        attempt, state = self._attempt, self._frontend.lab
        step = attempt.step if attempt else None
        if attempt is None or step is None or state.look is None or self._is_elsewhere:
            return
        if self._is_suspended():
            self._watched = ""
            return
        if step.id != self._watched or self._since is None or state.look.time_seconds < self._since.time_seconds:
            self._watched, self._since, self._events = step.id, state.look, []
            self._deep = None
        else:
            self._events += state.new_events
        from lab.lessons.student import marks_of

        session = self._frontend.client.session
        marks = marks_of(session, state.look.arrays) if session else {}
        scene = attempt.checked_state(state.look, state.disks, marks=marks, events=self._events, since=self._since)
        self._checked(attempt.look(replace(scene, deep=self._disk_contents(attempt, self._since, state.look))))

    def _disk_contents(self, attempt: LessonSession, since: Snapshot, sample: Snapshot) -> DeepState:
        """The contents that were read last; if they are old and the lesson needs them, they are read again."""
        from lab.checks.state import DeepState
        from lab.lessons.student import asks_for_disks, deep_state

        def done(found: DeepState | None) -> None:
            self._is_reading_disks = False
            if found is not None:
                # Contents that were requested in an earlier step are discarded.
                self._deep = (sample.time_seconds, found) if since is self._since else self._deep
                self.check()

        is_fresh = self._deep and 0 <= sample.time_seconds - self._deep[0] < FRESH_SECONDS
        if not self._is_reading_disks and not is_fresh and asks_for_disks(attempt.lesson):
            self._is_reading_disks = True
            self._frontend.look_up(
                lambda session: deep_state(attempt.lesson, session, since, sample),
                on_done=done,
                on_error=lambda _: done(None),
            )
        return self._deep[1] if self._deep else DeepState()

    def _checked(self, step_view: StepView | None) -> None:
        if step_view is not None and step_view.is_done:
            self._step_view = None
            self.refresh()
            self._on_passed()
        elif step_view != self._step_view:
            self._step_view = step_view
            self.refresh()

    def refresh(self) -> None:
        from tui.lessons.view import course_items

        if self._student is None:
            return
        state = self._student.state
        self.course = course_items(self._student.lines(), state.lesson)
        self.view = self._make_view(self._attempt) if self._attempt else None
        self._frontend.show_soon()

    def _make_view(self, attempt: LessonSession) -> LessonView:
        from lab.lessons import engine
        from tui.lessons.view import LessonView, explanation_of, labels_of, step_card

        step, done = attempt.step, attempt.done_count
        step_view = self._step_view or engine.look(attempt.lesson, attempt.progress, attempt.state_apart)
        files = self._student.find(self._student.state.lesson) if self._student and self._student.state.lesson else None
        return LessonView(
            id=attempt.lesson.id,
            title=attempt.lesson.title,
            goal=attempt.lesson.goal,
            step_count=len(attempt.lesson.steps),
            done_count=done,
            language=attempt.lesson.language,
            languages=files.languages if files else (attempt.lesson.language,),
            seed=attempt.lesson.seed,
            labels=labels_of(attempt),
            explanation=explanation_of(attempt, self._read_count) if self._read_count < done else None,
            step=step_card(attempt, step, done, step_view) if step else None,
            activity=self._activity,
            progress=self._fraction,
            elsewhere=target_words(attempt.progress.target, in_sentence=True) if self._is_elsewhere else "",
        )

    @property
    def _is_elsewhere(self) -> bool:
        """Whether the lesson was started on another machine."""
        from lab.machine import parse_target

        target = self._frontend.lab.target
        return bool(self._attempt and target and self._attempt.progress.target != str(parse_target(target)))

    def hint_line(self) -> str | None:
        """One line of markup about the open lesson, for every screen; None: no lesson is open."""
        view = self.view
        if view is None:
            return None
        where = f"Lesson {view.number}"
        if view.elsewhere:
            return f"{where} was started on {view.elsewhere}. [b]6[/b] restarts it here."
        if view.explanation:
            return f"{where}: step {view.explanation.number + 1} is done. [b]F6[/b] explains it, [b]F8[/b] continues."
        if view.step is None:
            return f"{where} is done. [b]6[/b] shows the next one."
        if view.step.must_answer:
            return f"{where}, step {view.done_count + 1}: predict first. [b]F6[/b] shows the question."
        if view.activity:
            return f"{where}, step {view.done_count + 1}: measuring, {view.progress:.0%}."
        if view.step.must_measure:
            return f"{where}, step {view.done_count + 1}: [b]F6[/b], then [b]r[/b] to measure."
        if view.step.must_read_off:
            there = PLACES.get(view.step.read_at, "")
            place = f"{there}; " if there else ""
            return f"{where}, step {view.done_count + 1}: {place}[b]F6[/b], then [b]t[/b] to type the number."
        count = f"{view.step.passed_count}/{len(view.step.checks)}"
        return f"{where}, step {view.done_count + 1}, {count}; next: {escape(view.next_line)}"

    @property
    def fault_to_read(self) -> FaultToRead | None:
        """The fault outcome from which the student must read a number now; None: there is none."""
        step = self._step_to_read
        return step.read_fault if step else None

    @property
    def result_to_read(self) -> str:
        """Id of the result from which the student must read a number now; empty: there is none."""
        step = self._step_to_read
        return step.read_result if step else ""

    @property
    def _step_to_read(self) -> StepCard | None:
        """The current step if only its number is missing, else None."""
        view = self.view
        if view is None or view.step is None or view.explanation or view.elsewhere:
            return None
        return view.step if view.step.must_read_off else None

    def reading_line(self, mode: str) -> str | None:
        """The question about a number that this mode's screen shows; None: there is none."""
        view, step = self.view, self._step_to_read
        if view is None or step is None or step.reading is None or step.read_at != mode:
            return None
        unit = f" ({step.reading.unit})" if step.reading.unit else ""
        question = escape(f"{step.reading.question}{unit}")
        return f"[b]F6[/b], then [b]t[/b] to type the number. Lesson {view.number}: {question}"

    def other_mode(self, mode: str) -> str:
        """The mode to switch to: from ``mode`` to the lesson, or back."""
        if mode == LESSONS_MODE:
            return self._came_from
        self._came_from = mode
        return LESSONS_MODE

    # The actions of the keys.

    def start(self, lesson_id: str) -> None:
        """Resume a lesson, or start it on blank disks."""
        student = self._student
        if student is None:
            return
        try:
            before = student.resume(lesson_id)
        except LabError as error:
            self._frontend.show_error(error)
            return
        if before is not None and before.step is not None:
            self._set_attempt(before)
        else:
            self.begin(lesson_id)

    def begin(self, lesson_id: str, seed: str | None = None) -> None:
        """Start a lesson at its first step, on blank disks, after a confirmation."""
        student = self._student
        if student is None:
            return
        try:
            files = student.find(lesson_id)
            language = student.language_for(files, None)
            ready = files.ready(student.state.seed if seed is None else seed, language)
        except LabError as error:
            self._frontend.show_error(error)
            return

        def start() -> None:
            from lab.machine import parse_target

            target = parse_target(self._frontend.lab.target)
            self._try(lambda: self._set_attempt(student.start(lesson_id, target, seed=seed, language=language)))

        def check(session: LabSession) -> Plan | None:
            from lab.lessons.student import clearing_plan

            return clearing_plan(session, ready)

        self._frontend.ask(check, note=BLANK_NOTE, on_done=start)

    def again(self) -> None:
        """Restart the open lesson on blank disks, with the same seed; on another machine, start it there."""
        attempt = self._attempt
        if attempt is None:
            return
        if self._is_elsewhere:
            self.begin(attempt.lesson.id)
            return

        def restart() -> None:
            self._try(attempt.restart)
            self._set_attempt(attempt)

        self._frontend.ask(lambda session: session.reset_all(), note=BLANK_NOTE, on_done=restart)

    def answer(self, text: str) -> str:
        """Answer the step with a prediction or a number; returns the error as a sentence, or an empty string."""
        attempt = self._attempt
        if attempt is None or attempt.step is None or self._is_unread:
            return ""
        try:
            attempt.answer(text)
        except LabError as error:
            return f"{error.message}: {error.hint}" if error.hint else error.message
        self._look_without_lab(attempt)
        self.check()
        return ""

    def _look_without_lab(self, attempt: LessonSession) -> None:
        """Check a step that needs only results, which the answer can complete even if the lab is not open."""
        from lab.lessons.student import needs_lab

        if attempt.step is not None and not needs_lab(attempt.step):
            self._checked(attempt.look(attempt.state_apart))
        self.refresh()

    def hint(self) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.step is not None and not self._is_unread:
            self._try(attempt.hint)
            self.refresh()

    @property
    def _is_unread(self) -> bool:
        return bool(self._attempt and self._read_count < self._attempt.done_count)

    def read_on(self) -> None:
        """Mark the explanation as read and show the next step."""
        if self._is_unread:
            self._read_count += 1
            self.refresh()

    def leave(self) -> None:
        if self._student is not None:
            self._try(self._student.leave)
            self._set_attempt(None)

    def speak(self, language: str) -> None:
        """Continue the lesson in another language."""
        student, attempt = self._student, self._attempt
        if student is None or attempt is None:
            return

        def change() -> None:
            read = self._read_count
            self._set_attempt(student.translate(attempt, language))
            self._read_count = read
            self.check()
            self.refresh()

        self._try(change)

    def do_step(self) -> None:
        """Perform the actions of the step in the lab, except its measurements."""
        attempt = self._attempt
        step = attempt.step if attempt else None
        if attempt is None or step is None:
            return

        def work(session: LabSession) -> None:
            for action in step.do:
                action.perform(session)
            # No plan writes known data, so the lab must read the marks again.
            session.rescan()

        self._try(attempt.note_help)
        lines = "\n".join(action.by_hand() for action in step.do)
        self._frontend.say(lines, title="Running")
        self._frontend.job(f"Lesson {attempt.lesson.id[:2].lstrip('0')}: do the step", work)

    def measure(self) -> bool:
        """Perform the step's measurement or fault on a separate lab; False if another background job runs."""
        attempt = self._attempt
        action = next(iter(attempt.step.apart), None) if attempt and attempt.step else None
        if attempt is None or action is None:
            return False
        name = action.told

        def work(progress: Progress, cancelled: Cancelled) -> None:
            from lab.lessons.student import do_apart

            request, released = request_of(self._frontend, progress, cancelled)
            with released:
                do_apart(attempt.lesson, action, request)

        def done(_: None) -> None:
            self._show_activity("")
            attempt.find_results()
            self._look_without_lab(attempt)

        def failed(error: LabError) -> None:
            self._show_activity("")
            self._frontend.show_error(error)

        def advanced(progress: RunProgress) -> None:
            self._show_activity(name, progress.fraction)

        has_started = self._frontend.background.run(
            f"Measuring {name}", work, on_done=done, on_error=failed, on_progress=advanced
        )
        if has_started:
            self._show_activity(name)
        return has_started

    def _show_activity(self, name: str, fraction: float = 0.0) -> None:
        self._activity, self._fraction = name, fraction
        if self.view is not None:
            self.view = replace(self.view, activity=name, progress=fraction)
            self._frontend.show_soon()

    def _try(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except LabError as error:
            self._frontend.show_error(error)
            return None
