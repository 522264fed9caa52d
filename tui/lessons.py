"""The open lesson. Its current step is checked at each sample, and shown in a panel on every screen.

The panel names the screens and keys of the app instead of the commands in the lesson.

Everything runs on the app's own thread, except for work in the lab and for reading the course, which is slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.markup import escape
from textual.message import Message
from textual.reactive import var
from textual.widgets import Markdown, OptionList, Static
from textual.widgets.option_list import Option

from lab.actions.action import Action
from lab.actions.arrays import Create, Grow, Replace, Scrub, ScrubAction, Wait
from lab.actions.shell import ShellLine
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import kind_of_level, kinds
from lab.arrays.levels import parse_level
from lab.arrays.spec import ConsistencyPolicy
from lab.checks.catalogue import FaultFigure, FaultRatio, PointsFigure
from lab.checks.readings import RatioWithin, Source
from lab.checks.state import CheckedState, DeepState
from lab.errors import LabError, LessonError
from lab.gates.decoding import parse_bytes
from lab.lessons.actions import ApartAction, PlayScenario, RunMeasurement, TryPoints
from lab.machine import Target, parse_target
from lab.machine.target import target_words
from lab.plans import Plan
from lab.session.monitor import Event, Snapshot
from lab.session.session import LabSession
from lab.units import human_bytes
from tui.actions import KEY_ACTIONS, title_of
from tui.frontend import Cancelled, Frontend, Progress
from tui.keys import SCREENS
from tui.look import Glyphs, glyphs_of
from tui.runs import request_of
from tui.state import LabMessage, SnapshotTaken
from tui.widgets import entitle

if TYPE_CHECKING:
    from lab.experiments.schedule import RunProgress
    from lab.lessons.course import LessonWords, ReadyLesson, ReadyStep
    from lab.lessons.engine import DisplayedStep, StepView
    from lab.lessons.student import CourseLine, LessonSession, Student

FRESH_SECONDS = 2.0
"""Maximum age of the disks' contents as last read, since reading them takes several commands on the machine."""

PLACES = {"results": "[b]4[/b] shows your result", "faults": "[b]7[/b] shows the outcome"}
"""For each mode that shows a number to read, the hint with its key, as markup."""
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
        """How many explanations the student has read."""
        self._watched = ""
        """The id of the step whose events are collected."""
        self._since: Snapshot | None = None
        self._events: list[Event] = []
        self.course: tuple[CourseLine, ...] = ()
        self.view: LessonView | None = None
        self._activity, self._fraction = "", 0.0
        self._languages: tuple[str, ...] = ()
        """The languages of the open lesson."""
        self._shown_error = ""
        """The error message of the last check, which was shown; empty if there was no error."""
        self._was_asked = False
        self._deep: tuple[float, DeepState] | None = None
        """(machine time, contents of the disks), as last read in this step."""
        self._is_reading_disks = False

    @property
    def is_following(self) -> bool:
        return self._attempt is not None and self._attempt.step is not None

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
            student.lines()  # This reads the course, which is slow, and caches it.
            return student

        self._frontend.beside("course", read, on_done=self._opened)

    def _opened(self, student: Student | None) -> None:
        if student is not None and self._student is None:
            self._student = student
            self._set_attempt(self._frontend.attempt(student.open_lesson))

    def _set_attempt(self, attempt: LessonSession | None) -> None:
        """Make this the open lesson. The explanations of completed steps count as read."""
        self._attempt, self._step_view, self._watched = attempt, None, ""
        self._read_count = attempt.done_count if attempt else 0
        self._languages = ()
        if (student := self._student) and attempt:
            # A student's own file may have changed since it was read.
            self._languages = self._frontend.attempt(lambda: student.find(attempt.name).languages) or ()
        self.refresh()

    def receive(self, message: LabMessage) -> None:
        if isinstance(message, SnapshotTaken):
            self.check()

    def check(self) -> None:
        """Collect the events since the last sample, and check the step."""
        if not self._was_asked:
            self.open(only_if_begun=True)
        attempt, state = self._attempt, self._frontend.lab
        step = attempt.step if attempt else None
        if attempt is None or step is None or state.snapshot is None or self._is_elsewhere:
            return
        if self._is_suspended():
            self._watched = ""
            return
        if step.id != self._watched or self._since is None or state.snapshot.time_seconds < self._since.time_seconds:
            self._watched, self._since, self._events = step.id, state.snapshot, []
            self._deep = None
        else:
            self._events += state.new_events
        from lab.lessons.student import marks_of

        session = self._frontend.client.session
        marks = marks_of(session, state.snapshot.arrays) if session else {}
        scene = attempt.checked_state(state.snapshot, state.disks, marks=marks, events=self._events, since=self._since)
        self._evaluate(attempt, replace(scene, deep=self._disk_contents(attempt, self._since, state.snapshot)))

    def _evaluate(self, attempt: LessonSession, found: CheckedState) -> None:
        """Evaluate the step. This happens at each sample, but a repeated error is shown only once."""
        try:
            step_view = attempt.evaluate(found)
        except LabError as error:
            if error.message != self._shown_error:
                self._shown_error = error.message
                self._frontend.show_error(error)
            return
        self._shown_error = ""
        self._checked(step_view)

    def _disk_contents(self, attempt: LessonSession, since: Snapshot, sample: Snapshot) -> DeepState:
        """Return the contents as last read. If they are old and the lesson needs them, they will be read again."""
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
        if self._student is None:
            return
        self.course = self._student.lines()
        self.view = self._make_view(self._attempt) if self._attempt else None
        self._frontend.show_soon()

    def _make_view(self, attempt: LessonSession) -> LessonView:
        from lab.lessons import engine

        step, done = attempt.step, attempt.done_count
        step_view = self._step_view
        # Another program may have completed the step that was checked last.
        if step_view is None or step is None or step_view.step.id != step.id:
            step_view = engine.evaluate(attempt.lesson, attempt.progress, attempt.state_apart)
        if step_view is not None:
            # An answer or a hint may be newer than the last check.
            step_view = replace(step_view, progress=attempt.progress.in_step(step_view.step.id))
        return LessonView(
            lesson=attempt.lesson,
            done_count=done,
            languages=self._languages or (attempt.lesson.language,),
            words=attempt.words,
            explanation=explanation_of(attempt, self._read_count) if self._read_count < done else None,
            step=engine.displayed(attempt.words, step_view) if step_view else None,
            activity=self._activity,
            progress=self._fraction,
            elsewhere=target_words(attempt.progress.target, in_sentence=True) if self._is_elsewhere else "",
        )

    @property
    def _target(self) -> Target | None:
        """The target of the lab, or None until it is known."""
        return parse_target(self._frontend.lab.target) if self._frontend.lab.target else None

    @property
    def _is_elsewhere(self) -> bool:
        return bool(self._attempt and self._target and not self._attempt.is_in_lab_of(self._target))

    def _is_refused(self, attempt: LessonSession) -> bool:
        """Show an error if the lesson was started on another machine. Return whether it was."""
        if self._is_elsewhere and self._target:
            try:
                attempt.require_lab_of(self._target)
            except LessonError as error:
                hint = "restart the lesson, to begin it on this machine"
                self._frontend.show_error(LessonError(error.message, hint=hint))
        return self._is_elsewhere

    def hint_line(self) -> str | None:
        """Return one line of markup about the open lesson, for every screen, or None if no lesson is open."""
        view = self.view
        if view is None:
            return None
        where = f"Lesson {view.lesson.number}"
        step = f"{where}, step {view.done_count + 1}"
        if view.elsewhere:
            return f"{where} was started on {view.elsewhere}. [b]6[/b] restarts it here."
        if view.explanation:
            return f"{where}: step {view.explanation.number + 1} is done. [b]F6[/b] explains it, [b]F8[/b] continues."
        if view.step is None:
            return f"{where} is done. [b]6[/b] shows the next one."
        if view.step.must_answer:
            return f"{step}: predict first. [b]F6[/b] shows the question."
        if view.activity:
            return f"{step}: measuring, {view.progress:.0%}."
        if view.step.must_measure:
            return f"{step}: [b]F6[/b], then [b]r[/b] to measure."
        if view.step.must_read_off:
            there = PLACES.get(read_at(view.step.ready), "")
            place = f"{there}; " if there else ""
            return f"{step}: {place}[b]F6[/b], then [b]t[/b] to type the number."
        open_checks = [check.required for check in view.step.checks if not check.is_passed]
        count = len(view.step.checks)
        return f"{step}, {count - len(open_checks)}/{count}; next: {escape(next(iter(open_checks), ''))}"

    @property
    def fault_to_read(self) -> FaultToRead | None:
        """Return the fault outcome from which the student must now read a number, or None."""
        step = self._step_to_read
        return _read_fault(step.reading.source) if step and step.reading else None

    @property
    def result_to_read(self) -> str:
        """Return the id of the result from which the student must now read a number, or an empty string."""
        step = self._step_to_read
        measure = getattr(step.reading.source, "measure", "") if step and step.reading else ""
        record = self._attempt.results.get(measure) if self._attempt else None
        return record.id if record else ""

    @property
    def _step_to_read(self) -> DisplayedStep | None:
        """Return the current step if only the number to read is missing, else None."""
        view = self.view
        if view is None or view.step is None or view.explanation or view.elsewhere:
            return None
        return view.step if view.step.must_read_off else None

    def reading_line(self, mode: str) -> str | None:
        """Return the question about a number that this mode's screen shows, or None."""
        view, step = self.view, self._step_to_read
        if view is None or step is None or step.reading is None or read_at(step.ready) != mode:
            return None
        question = escape(in_app(step.reading.question_words))
        return f"[b]F6[/b], then [b]t[/b] to type the number. Lesson {view.lesson.number}: {question}"

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
        ready = self._frontend.attempt(partial(student.ready, lesson_id, seed=seed))
        if ready is None:
            return

        def start() -> None:
            target = parse_target(self._frontend.lab.target)
            self._frontend.attempt(
                lambda: self._set_attempt(student.start(lesson_id, target, seed=seed, language=ready.language))
            )

        def check(session: LabSession) -> Plan | None:
            from lab.lessons.student import clearing_plan

            return clearing_plan(session, ready)

        self._frontend.ask(check, note=BLANK_NOTE, on_done=start)

    def again(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if self._is_elsewhere:
            self.begin(attempt.lesson.id)
            return

        def restart() -> None:
            attempt.restart()
            self._set_attempt(attempt)

        self._frontend.ask(attempt.clearing, note=BLANK_NOTE, on_done=lambda: self._frontend.attempt(restart))

    def answer(self, text: str) -> str:
        """Answer the step with a prediction or a number.

        Show an error about a prediction. Return an error about a number as a sentence, and otherwise an empty string.
        """
        attempt = self._attempt
        if attempt is None or attempt.step is None or self._is_unread:
            return ""
        is_prediction = attempt.predicts(text)
        try:
            attempt.answer(text, self._target)
        except LabError as error:
            self.refresh()
            if is_prediction:
                self._frontend.show_error(error)
                return ""
            return f"{error.message}: {error.hint}" if error.hint else error.message
        self._check_without_lab(attempt)
        self.check()
        return ""

    def _check_without_lab(self, attempt: LessonSession) -> None:
        """Check a step that needs only results. An answer can complete such a step even if the lab is not open."""
        from lab.lessons.student import needs_lab

        if attempt.step is not None and not needs_lab(attempt.step):
            self._evaluate(attempt, attempt.state_apart)
        self.refresh()

    def hint(self) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.step is not None and not self._is_unread:
            self._frontend.attempt(attempt.hint)
            self.refresh()

    @property
    def _is_unread(self) -> bool:
        return bool(self._attempt and self._read_count < self._attempt.done_count)

    def read_on(self) -> None:
        if self._is_unread:
            self._read_count += 1
            self.refresh()

    def leave(self) -> None:
        if self._student is not None:
            self._frontend.attempt(self._student.leave)
            self._set_attempt(None)

    def change_language(self, language: str) -> None:
        student, attempt = self._student, self._attempt
        if student is None or attempt is None:
            return

        def change() -> None:
            read = self._read_count
            self._set_attempt(student.translate(attempt, language))
            self._read_count = read
            self.check()
            self.refresh()

        self._frontend.attempt(change)

    def do_step(self) -> None:
        attempt = self._attempt
        step = attempt.step if attempt else None
        if attempt is None or step is None or self._is_refused(attempt):
            return

        def work(session: LabSession) -> None:
            from lab.lessons.student import perform_actions

            perform_actions(step.do, attempt, session)
            # Known data are not written by a plan, so the lab must reread the marks.
            session.rescan()

        try:
            attempt.note_help()
        except LabError as error:
            self.refresh()
            self._frontend.show_error(error)
            return
        lines = "\n".join(action.by_hand() for action in step.do)
        self._frontend.show_message(lines, title="Running")
        self._frontend.job(f"Lesson {attempt.lesson.number}: do the step", work)

    def measure(self) -> bool:
        """Run the step's measurement or fault test in a separate lab. Return False if another job is running."""
        attempt = self._attempt
        action = next(iter(attempt.step.apart), None) if attempt and attempt.step else None
        if attempt is None or action is None:
            return False
        if self._is_refused(attempt):
            return True
        name = action.description

        def work(progress: Progress, cancelled: Cancelled) -> None:
            from lab.lessons.student import do_apart

            request, released = request_of(self._frontend, progress, cancelled)
            with released:
                do_apart(attempt.lesson, action, request)

        def done(_: None) -> None:
            self._show_activity("")
            attempt.find_results()
            self._check_without_lab(attempt)

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


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a completed step."""

    number: int
    outcome: str
    """The prediction and the outcome; empty if no question was asked."""
    is_right: bool | None
    """None if the question has no right answer, or if none was asked."""
    text: str
    """As Markdown."""
    figures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultToRead:
    """The fault outcome that contains the number that a step asks for."""

    item: str
    """Its id in the list on the Faults screen."""
    parts: tuple[str, ...]
    """The titles of the variants that contain the number. There may be none."""


@dataclass(frozen=True, slots=True)
class LessonView:
    """The state of the open lesson, as the screens show it."""

    lesson: ReadyLesson
    done_count: int
    languages: tuple[str, ...]
    words: LessonWords
    explanation: Explanation | None = None
    """An explanation that the student has not read yet, which is shown before the next step."""
    step: DisplayedStep | None = None
    """The current step; None if all steps are completed."""
    activity: str = ""
    """The name of the running measurement; empty if there is none."""
    progress: float = 0.0
    elsewhere: str = ""
    """The machine on which the lesson was started if it is a different one, in which case nothing is checked."""


def explanation_of(attempt: LessonSession, number: int) -> Explanation:
    """Return the explanation of a step. ``number`` counts from 0."""
    step, words = attempt.lesson.steps[number], attempt.words
    ask, chosen = step.ask, attempt.progress.in_step(step.id).answer
    outcome = words.predicted(ask, chosen) if ask else ""
    is_right = chosen == ask.answer if outcome and ask and ask.answer else None
    return Explanation(number, outcome, is_right, in_app(step.explain.strip()), _figures(attempt, step))


def _figures(attempt: LessonSession, step: ReadyStep) -> tuple[str, ...]:
    """Return the figures of the step's measurements, from the stored results."""
    scene = CheckedState(results=attempt.results)
    outcomes = [check.evaluate(scene) for check in step.checks if isinstance(check, RatioWithin)]
    return tuple(attempt.words.find(each.key, each.facts) for each in outcomes if each.key == "ratio-is")


def hints_in_app(step: DisplayedStep) -> tuple[str, ...]:
    """Return the hints taken so far, as Markdown."""
    from lab.lessons.course import BY_HAND

    solution = "".join(f"\n1. {step_in_app(action)}" for action in step.ready.do)
    return tuple(in_app(hint.replace(BY_HAND, solution)) for hint in step.ready.hints[: step.progress.hints])


def _read_fault(source: Source) -> FaultToRead | None:
    match source:
        case FaultFigure():
            return FaultToRead(f"scenario-{source.scenario}", (source.variant,))
        case FaultRatio():
            return FaultToRead(f"scenario-{source.scenario}", (source.of, source.to))
        case PointsFigure():
            return FaultToRead(f"points-{source.configuration}", ())
    return None


def read_at(step: ReadyStep) -> str:
    """Return the mode that shows the number to read, or an empty string if the step's text says where it is."""
    places = {RunMeasurement: "results", PlayScenario: "faults", TryPoints: "faults"}
    return next((places[type(action)] for action in step.apart if type(action) in places), "")


_COMMAND = re.compile(r"(?P<open>\()?[`'](?P<command>raidlab [^`'\n]+)[`'](?P<close>\))?")
_DISKS = re.compile(r"\bdisk\d\d(?:,disk\d\d)+")
_TITLES = {entry.mode: f"{entry.key} {entry.title}" for entry in SCREENS}
_LAB, _BUILD, _RUN, _RESULTS = (_TITLES[mode] for mode in ("lab", "build", "run", "results"))
_COMMANDS, _LESSONS, _FAULTS, _STRIPE = (_TITLES[mode] for mode in ("commands", "lessons", "faults", "stripe"))
_KEYS = {each.words: each for each in reversed(KEY_ACTIONS)}
_ELSEWHERE = {
    "array create": (_BUILD, ""),
    "array wait": (_LAB, ""),
    "array show": (_LAB, ""),
    "array grow": (_COMMANDS, ""),
    "exec": (_COMMANDS, ""),
    "disks": (_LAB, ""),
    "lesson reset": (_LESSONS, "z"),
    "lesson measure": (_LESSONS, "r"),
    "lesson answer": (_LESSONS, ""),
    "lesson hint": (_LESSONS, "h"),
    "results show": (_RESULTS, ""),
    "run": (_RUN, ""),
    "array map": (_STRIPE, "g"),
    "array inspect": (_STRIPE, "g"),
    # The Lessons screen uses the seed of the lesson, whereas screen 7 uses its own.
    "fault run": (_LESSONS, "r"),
    "fault points": (_LESSONS, "r"),
    "fault show": (_FAULTS, ""),
    "fault list": (_FAULTS, "a"),
}


def in_app(text: str) -> str:
    """Replace each quoted ``raidlab`` command in a lesson's text with the app's screen and key.

    The replacements contain only names of screens and keys, so they fit every language.
    """
    shown = _COMMAND.sub(_instead, text)
    return _DISKS.sub(lambda match: match[0].replace(",", ", "), shown)


def _instead(match: re.Match[str]) -> str:
    screen, key = key_for(match["command"])
    if not screen:
        return match[0]
    if (typed := match["command"].removeprefix("raidlab exec -- ")) != match["command"]:
        line = typed.strip('"')
        return f"{match['open'] or ''}`{line}` ({screen}){match['close'] or ''}"
    if match["open"] and match["close"]:
        return f"(**{key}**, {screen})" if key else f"({screen})"
    shown = f"**{key}** ({screen})" if key else f"**{screen}**"
    return f"{match['open'] or ''}{shown}{match['close'] or ''}"


def key_for(command: str) -> tuple[str, str]:
    """Return (screen, key) of the app's equivalent of a command. Both are empty if there is none."""
    words = command.split()[1:]
    for known in (" ".join(words[:2]), words[0] if words else ""):
        if known in _ELSEWHERE:
            return _ELSEWHERE[known]
        if known in _KEYS:
            return _LAB, f"{_key(known)}, Repair" if "repair" in words else _key(known)
    return "", ""


def step_in_app(action: Action) -> str:
    """Say how to perform an action of a solution in the app."""
    match action:
        case Create() if action.disks and kind_of_level(action.level) is kinds()[0]:
            return _create(action)
        case Wait():
            return f"{_LAB}: → 100 %"
        case Scrub() if action.action is not ScrubAction.STOP:
            which = "Repair" if action.action is ScrubAction.REPAIR else "Check"
            return f"{_LAB}: {_pressed(action)} → {which} → 100 %"
        case Replace():
            return f"{_LAB}: {_disks(action.disk)} → {_pressed(action)} → {action.new}"
        case Grow() if action.members and not action.members.isdecimal() and not action.level:
            return _grow(action)
        case ShellLine():
            return f"{_COMMANDS}:\n```\n{action.line}\n```"
        case ApartAction():
            return f"{_LESSONS}: **r** Measure"
        case _ if any(action.option_words()) and not getattr(action, action.asks or "-", False):
            # The keys do not support these options.
            return f"`{action.by_hand()}`"
        case _ if action.key and not action.picks and (disk := getattr(action, "disk", "")):
            return f"{_LAB}: {_disks(disk)} → {_pressed(action)}"
        case _ if action.key and not action.picks:
            return f"{_LAB}: {_pressed(action)}"
        case _:
            return f"`{action.by_hand()}`"


def _pressed(action: Action) -> str:
    return f"**{_key(action.words)}** {action.label}"


def _key(cli: str) -> str:
    key = _KEYS[cli].key
    return {"delete": "Del"}.get(key, key)


def _create(action: Create) -> str:
    parts = [title_of(parse_level(action.level).name), _disks(action.disks)]
    if action.chunk:
        parts.append(f"chunk {human_bytes(parse_bytes(action.chunk))}")
    if action.layout == "n2":
        parts.append("near 2")
    if action.bitmap_chunk:
        parts.append(f"bitmap {human_bytes(parse_bytes(action.bitmap_chunk))}")
    if action.policy not in (None, ConsistencyPolicy.RESYNC):
        parts.append(f"policy {action.policy}")
    if action.file_system is not FileSystem.RAW:
        parts.append(action.file_system.value)
    if action.spares:
        parts.append(f"spares {_disks(action.spares)}")
    return f"{_BUILD}: {'; '.join(parts)} → **b**"


def _grow(action: Grow) -> str:
    disks = action.members.split(",")
    add = f"mdadm /dev/{action.array} --add {' '.join(f'/dev/lab/{disk}' for disk in disks)}"
    count = f"$(($(cat /sys/block/{action.array}/md/raid_disks) + {len(disks)}))"
    return f"{_COMMANDS}: `{add}; mdadm --grow /dev/{action.array} --raid-devices={count}`"


def _disks(words: str) -> str:
    return words.replace(",", ", ")


LETTERS = "abcdef"
_BAR_CELLS = 20


class LessonPanel(VerticalScroll):
    """Shows a ``LessonView``, and repaints only what has changed.

    Args:
        continue_key: the name of the key that continues after an explanation.
        keys: the other keys, as markup.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page_up", "Up", show=False, id="lesson.up", tooltip="Scroll the lesson up"),
        Binding("pagedown", "page_down", "Down", show=False, id="lesson.down", tooltip="Scroll the lesson down"),
    ]

    view: var[LessonView | None] = var(None)

    @dataclass
    class Answered(Message):
        key: str

    def __init__(
        self,
        *,
        continue_key: str = "n",
        keys: str = "",
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        super().__init__(id=id, can_focus=False)
        self._continue_key = continue_key
        self._keys = keys
        self._is_ready = False
        self._question: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="lesson-why"):
            yield Static(id="lesson-outcome", classes="heading")
            yield Markdown(id="lesson-explain", open_links=False)
            yield Static(id="lesson-next")
        with Vertical(id="lesson-step"):
            yield Markdown(id="lesson-say", open_links=False)
            with Vertical(id="lesson-ask"):
                yield Static(id="lesson-question", classes="heading")
                yield OptionList(id="lesson-options", markup=False)
            yield Static(id="lesson-activity")
            yield Static(id="lesson-reading", classes="heading")
            yield Static(id="lesson-checks")
            yield Markdown(id="lesson-mistake", open_links=False)
            yield Markdown(id="lesson-hints", open_links=False)
            yield Static(id="lesson-keys")

    def on_mount(self) -> None:
        self._is_ready = True
        self.watch_view(None, self.view)

    def watch_view(self, before: LessonView | None, view: LessonView | None) -> None:
        if view is None or not self._is_ready:
            return
        glyphs = glyphs_of(self)
        entitle(self, f"{view.lesson.number}. {view.lesson.title}", _dots(view, glyphs))
        self.query_one("#lesson-why").display = view.explanation is not None or view.step is None
        self.query_one("#lesson-step").display = view.explanation is None and view.step is not None
        if view.explanation:
            if before is None or before.explanation != view.explanation:
                self._explain(view, view.explanation, glyphs)
        elif view.step is None:
            self._end(view, glyphs)
        else:
            old = before.step if before and before.explanation is None else None
            self._show_step(view, view.step, old, glyphs)
        place = (view.lesson.id, view.done_count, view.explanation)
        if before is None or place != (before.lesson.id, before.done_count, before.explanation):
            self.scroll_home(animate=False)
        elif bool(view.activity) != bool(before.activity):
            # On a small terminal, the progress bar and the checks are below the visible part.
            shown = "#lesson-activity" if view.activity else "#lesson-checks"
            self.call_after_refresh(self.query_one(shown).scroll_visible, animate=False)

    def _explain(self, view: LessonView, why: Explanation, glyphs: Glyphs) -> None:
        done = view.words.label("step-of", number=why.number + 1, count=len(view.lesson.steps))
        parts = [(f"{glyphs.good} {done}. ", "$text-success")]
        if why.outcome:
            sign = "" if why.is_right is None else f"{glyphs.good if why.is_right else glyphs.notice} "
            parts.append((f"\n{sign}{why.outcome}", "$text-success" if why.is_right else "$text-warning"))
        parts += [(f"\n{glyphs.arrow} {figures}", "not bold $foreground") for figures in why.figures]
        self.query_one("#lesson-outcome", Static).update(Content.assemble(*parts))
        self.query_one("#lesson-explain", Markdown).update(f"**{view.words.label('why')}**\n\n{why.text}")
        self.query_one("#lesson-next", Static).update(
            Content.from_markup(f"[$accent]{glyphs.arrow}[/] [b]{self._continue_key}[/b] continues")
        )
        self.query_one("#lesson-why").set_class(why.is_right is False, "-wrong")

    def _end(self, view: LessonView, glyphs: Glyphs) -> None:
        done = Content.styled(
            f"{glyphs.good} {view.words.label('lesson-done', title=view.lesson.title)}", "$text-success"
        )
        self.query_one("#lesson-outcome", Static).update(done)
        self.query_one("#lesson-explain", Markdown).update(view.lesson.goal)
        self.query_one("#lesson-next", Static).update(
            Content.from_markup(f"[$accent]{glyphs.arrow}[/] [b]6[/b], [b]Esc[/b]: back to the course")
        )
        self.query_one("#lesson-why").remove_class("-wrong")

    def _show_step(self, view: LessonView, step: DisplayedStep, old: DisplayedStep | None, glyphs: Glyphs) -> None:
        if old is None or old.ready is not step.ready:
            head = view.words.label("step-of", number=view.done_count + 1, count=len(view.lesson.steps))
            goal = f"*{view.words.label('goal')}: {view.lesson.goal}*\n\n" if view.done_count == 0 else ""
            self.query_one("#lesson-say", Markdown).update(f"{goal}**{head}**\n\n{in_app(step.ready.text.strip())}")
        self._show_question(view, step, glyphs)
        self._show_activity(view, glyphs)
        self._show_reading(view, step, glyphs)
        self.query_one("#lesson-checks", Static).update(self._checks(view, step, glyphs))
        mistake = in_app(step.mistake.hint.strip()) if step.mistake else ""
        self._show_markdown("#lesson-mistake", f"**{view.words.label('mistake')}:** {mistake}" if mistake else "")
        total = len(step.ready.hints)
        numbered = enumerate(hints_in_app(step), start=1)
        hints = [f"**{view.words.label('hint-of', number=number, count=total)}** {hint}" for number, hint in numbered]
        self._show_markdown("#lesson-hints", "\n\n".join(hints))
        self.query_one("#lesson-keys", Static).update(Content.from_markup(self._keys))

    def _show_markdown(self, where: str, text: str) -> None:
        widget = self.query_one(where, Markdown)
        widget.display = bool(text)
        if text and widget.source != text:
            is_more = bool(widget.source)
            self.run_worker(self._replace(widget, text, shows=is_more or where == "#lesson-hints"), group=where)

    async def _replace(self, widget: Markdown, text: str, *, shows: bool) -> None:
        await widget.update(text)
        if shows:
            # The hints come last, and the newest hint is at their end.
            is_last = widget.id == "lesson-hints"
            self.call_after_refresh(self.scroll_end if is_last else widget.scroll_visible, animate=False)

    def _show_question(self, view: LessonView, step: DisplayedStep, glyphs: Glyphs) -> None:
        ask, answer = step.ready.ask, step.progress.answer
        self.query_one("#lesson-ask").display = ask is not None
        shown = (view.done_count, ask, answer)
        if ask is None or shown == self._question:
            return
        self._question = shown
        self.query_one("#lesson-question", Static).update(
            Content(f"{glyphs.cursor} {view.words.label('predict')}: {ask.question}")
        )
        options = self.query_one("#lesson-options", OptionList)
        options.clear_options()
        for letter, (key, text) in zip(LETTERS, ask.options.items(), strict=False):
            is_chosen = key == answer
            sign = glyphs.chosen if is_chosen else glyphs.not_chosen
            style = "bold $text-primary" if is_chosen else ""
            prompt = Content.assemble((f"{letter} ", "bold $footer-key-foreground"), (f"{sign} {text}", style))
            options.add_option(Option(prompt, id=key))
        options.highlighted = list(ask.options).index(answer) if answer in ask.options else None

    def _show_activity(self, view: LessonView, glyphs: Glyphs) -> None:
        widget = self.query_one("#lesson-activity", Static)
        widget.display = bool(view.activity)
        full = round(view.progress * _BAR_CELLS)
        bar = glyphs.bar_full * full + glyphs.bar_empty * (_BAR_CELLS - full)
        text = f"{glyphs.busy} {view.activity} {bar} {view.progress:.0%}"
        widget.update(Content.styled(text, "$text-primary"))

    def _show_reading(self, view: LessonView, step: DisplayedStep, glyphs: Glyphs) -> None:
        widget = self.query_one("#lesson-reading", Static)
        reading, given = step.reading, step.progress.reading
        widget.display = reading is not None
        if reading is None:
            return
        widget.update(
            Content.assemble(
                f"{glyphs.cursor} {view.words.label('read-off')}: {in_app(reading.question_words)}",
                ("\nt ", "bold $footer-key-foreground"),
                (given or "…", "bold $text-primary" if given else "not bold $foreground-muted"),
            )
        )

    def _checks(self, view: LessonView, step: DisplayedStep, glyphs: Glyphs) -> Content:
        parts: list[tuple[str, str]] = [(view.words.label("checks"), "bold $primary")]
        if view.elsewhere:
            parts.append((f"\n{glyphs.notice} not checked here: started on {view.elsewhere}", "$text-warning"))
        shown = ""
        for check in step.checks:
            sign = glyphs.good if check.is_passed else glyphs.pending
            parts.append((f"\n{sign} {check.required}", "$text-success" if check.is_passed else ""))
            # Show a text such as "no array runs" once, even if several checks have it.
            if check.found and check.found != shown:
                shown = check.found
                found = check.found if check.is_passed else view.words.label("missing", found=check.found)
                parts.append((f"\n    {found}", "$foreground-muted"))
        return Content.assemble(*parts)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        # The screens with this panel have lists of their own, which handle this message.
        event.stop()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id:
            self.post_message(self.Answered(event.option_id))


def _dots(view: LessonView, glyphs: Glyphs) -> str:
    done = glyphs.light_on * view.done_count + glyphs.light_off * (len(view.lesson.steps) - view.done_count)
    return f"{done} {view.done_count}/{len(view.lesson.steps)}"
