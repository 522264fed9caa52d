"""The course and the open lesson as plain values for the screens, in the app's own words; no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.actions.action import Action
from lab.actions.arrays import Create, Grow, Replace, Scrub, ScrubAction, Wait
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import kind_of_level, kinds
from lab.arrays.levels import parse_level
from lab.arrays.spec import ConsistencyPolicy
from lab.gates.decoding import parse_bytes
from lab.lessons.actions import ApartAction, ShellLine
from lab.units import human_bytes
from tui.arrays.actions import KEY_ACTIONS
from tui.arrays.drafts import title_of

if TYPE_CHECKING:
    from lab.checks.readings import Source
    from lab.lessons.course import ReadyStep
    from lab.lessons.engine import StepView, ToldCheck
    from lab.lessons.student import CourseLine, LessonSession


@dataclass(frozen=True, slots=True)
class CourseItem:
    """A lesson in the list of the course."""

    id: str
    title: str
    goal: str
    minutes: int
    done_steps: int
    step_count: int
    languages: tuple[str, ...]
    missing_needs: tuple[str, ...]
    """Titles of the prerequisite lessons that are not completed."""
    is_open: bool

    @property
    def number(self) -> str:
        """Its number in the course, without leading zeros, such as ``5``."""
        return self.id[:2].lstrip("0")

    @property
    def is_done(self) -> bool:
        return self.done_steps == self.step_count


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a completed step."""

    number: int
    outcome: str
    """The prediction and the outcome; empty: no question was asked."""
    is_right: bool | None
    """None: the question has no right answer, or none was asked."""
    text: str
    """As Markdown."""
    figures: tuple[str, ...] = ()
    """The measured figures."""


@dataclass(frozen=True, slots=True)
class ReadingCard:
    """A number that the step asks for."""

    question: str
    unit: str
    given: str
    """The number as typed; empty: not typed yet."""


@dataclass(frozen=True, slots=True)
class FaultToRead:
    """The outcome of a fault that contains the number that a step asks for."""

    item: str
    """Id in the list of the Faults screen."""
    parts: tuple[str, ...]
    """Titles of the variants with the number; may be empty."""


@dataclass(frozen=True, slots=True)
class StepCard:
    """The current step."""

    number: int
    text: str
    """The task, as Markdown."""
    question: str
    options: tuple[tuple[str, str], ...]
    """(key, text) of each possible answer."""
    answer: str
    """Key of the chosen option; empty: not answered yet."""
    checks: tuple[ToldCheck, ...]
    mistake: str
    """The hint for a recognised mistake, as Markdown; empty: none."""
    hints: tuple[str, ...]
    """The hints shown so far, as Markdown."""
    hint_count: int
    measures: tuple[str, ...]
    """Names of the measurements and faults that the step runs on a separate lab."""
    can_be_done: bool
    """Whether the lab can perform the step for the student."""
    reading: ReadingCard | None = None
    read_at: str = ""
    """Mode of the app that shows the number; empty: the text says where it is."""
    read_fault: FaultToRead | None = None
    read_result: str = ""
    """Id of the result with the number; empty: there is none."""

    @property
    def passed_count(self) -> int:
        return sum(check.is_passed for check in self.checks)

    @property
    def must_answer(self) -> bool:
        return bool(self.question) and not self.answer

    @property
    def must_measure(self) -> bool:
        """Whether a measurement must run, which precedes reading its number."""
        return bool(self.measures) and not (self.reading and self._is_all_but_reading)

    @property
    def must_read_off(self) -> bool:
        """Whether only the number is missing."""
        return self.reading is not None and self._is_all_but_reading

    @property
    def _is_all_but_reading(self) -> bool:
        # The reading is the last check.
        return all(check.is_passed for check in self.checks[:-1])


@dataclass(frozen=True, slots=True)
class LessonView:
    """The state of the open lesson, for the screens."""

    id: str
    title: str
    goal: str
    step_count: int
    done_count: int
    language: str
    languages: tuple[str, ...]
    seed: str
    labels: dict[str, str]
    """Headings in the student's language."""
    explanation: Explanation | None = None
    """An explanation that the student has not read; it is shown before the next step."""
    step: StepCard | None = None
    """The current step; None: all steps are completed."""
    activity: str = ""
    """Name of the running measurement; empty: none."""
    progress: float = 0.0
    """Progress of the measurement, 0 to 1."""
    elsewhere: str = ""
    """The machine on which the lesson was started, if it is another one; nothing is checked then."""

    @property
    def number(self) -> str:
        """Its number in the course, without leading zeros, such as ``5``."""
        return self.id[:2].lstrip("0")

    @property
    def next_line(self) -> str:
        """The first check that is not passed, in one line of plain text; empty: none, or an explanation is shown."""
        if self.explanation:
            return ""
        step = self.step
        if step is None:
            return ""
        return next((check.wanted for check in step.checks if not check.is_passed), "")


def labels_of(attempt: LessonSession) -> dict[str, str]:
    """The headings in the language of the lesson."""
    words = attempt.words
    labels = {name: words.say(name) for name in ("goal", "predict", "checks", "mistake", "read-off", "why")}
    framed = {name: words.frame[name] for name in ("step-of", "missing", "hint-of")}
    return labels | framed | {"lesson-done": words.say("lesson-done", title=attempt.lesson.title)}


def course_items(lines: tuple[CourseLine, ...], open_id: str) -> tuple[CourseItem, ...]:
    """The lessons of the course, for the list."""
    titles = {line.files.lesson.id: line.files.lesson.title for line in lines}
    return tuple(
        CourseItem(
            id=line.files.lesson.id,
            title=line.files.lesson.title,
            goal=line.files.lesson.goal,
            minutes=line.files.lesson.minutes,
            done_steps=line.done_steps,
            step_count=line.step_count,
            languages=line.files.languages,
            missing_needs=tuple(titles.get(need, need) for need in line.missing_needs),
            is_open=line.files.lesson.id == open_id,
        )
        for line in lines
    )


def explanation_of(attempt: LessonSession, number: int) -> Explanation:
    """The explanation of a step; ``number`` counts from 0."""
    step, words = attempt.lesson.steps[number], attempt.words
    explanation = Explanation(number, "", None, in_app(step.explain.strip()), _figures(attempt, step))
    chosen = attempt.progress.in_step(step.id).answer
    if step.ask is None or chosen not in step.ask.options:
        return explanation
    is_right = chosen == step.ask.answer if step.ask.answer else None
    return replace(explanation, outcome=words.predicted(step.ask, chosen), is_right=is_right)


def _figures(attempt: LessonSession, step: ReadyStep) -> tuple[str, ...]:
    """The figures of the step's measurements, from the stored results."""
    from lab.checks.readings import RatioWithin
    from lab.checks.state import CheckedState

    scene = CheckedState(results=attempt.results)
    outcomes = [check.look(scene) for check in step.checks if isinstance(check, RatioWithin)]
    return tuple(attempt.words.find(each.said, each.facts) for each in outcomes if each.said == "ratio-is")


def step_card(attempt: LessonSession, step: ReadyStep, number: int, view: StepView | None) -> StepCard:
    """The current step with the result of its last check."""
    from lab.lessons.engine import is_predicted, tell

    progress = attempt.progress.in_step(step.id)
    shown = tell(attempt.words, view) if view else None
    read = step.read if is_predicted(step, progress) else None
    solution = "".join(f"\n1. {line}" for line in steps_in_app(step.do))
    hints = tuple(in_app(hint.replace("{by_hand}", solution)) for hint in step.hints[: progress.hints])
    return StepCard(
        number=number,
        text=in_app(step.say.strip()),
        question=step.ask.question if step.ask else "",
        options=tuple(step.ask.options.items()) if step.ask else (),
        answer=progress.answer,
        checks=shown.checks if shown else (),
        mistake=in_app(shown.mistake.hint.strip()) if shown and shown.mistake else "",
        hints=hints,
        hint_count=len(step.hints),
        measures=tuple(action.told for action in step.apart),
        can_be_done=bool(step.do),
        reading=ReadingCard(in_app(read.question), read.unit, progress.reading) if read else None,
        read_at=_read_at(step) if read else "",
        read_fault=_read_fault(read.source) if read else None,
        read_result=_read_result(attempt, read.source) if read else "",
    )


def _read_result(attempt: LessonSession, source: Source) -> str:
    record = attempt.results.get(getattr(source, "measure", ""))
    return record.id if record else ""


def _read_fault(source: Source) -> FaultToRead | None:
    from lab.checks.catalogue import FaultFigure, FaultRatio, PointsFigure

    match source:
        case FaultFigure():
            return FaultToRead(f"scenario-{source.scenario}", (source.variant,))
        case FaultRatio():
            return FaultToRead(f"scenario-{source.scenario}", (source.of, source.to))
        case PointsFigure():
            return FaultToRead(f"points-{source.configuration}", ())
    return None


def _read_at(step: ReadyStep) -> str:
    from lab.lessons.actions import PlayScenario, RunMeasurement, TryPoints

    places = {RunMeasurement: "results", PlayScenario: "faults", TryPoints: "faults"}
    return next((places[type(action)] for action in step.apart if type(action) in places), "")


_COMMAND = re.compile(r"(?P<open>\()?[`'](?P<command>raidlab [^`'\n]+)[`'](?P<close>\))?")
_DISKS = re.compile(r"\bdisk\d\d(?:,disk\d\d)+")
_LAB, _BUILD, _RUN, _RESULTS, _LESSONS = "1 Lab", "2 Build", "3 Run", "4 Results", "6 Lessons"
_COMMANDS, _FAULTS, _STRIPE = "5 Commands", "7 Faults", "8 Stripe"
_KEYS = {each.words: each for each in reversed(KEY_ACTIONS)}
TYPED = ("fleet",)
"""Commands without an equivalent in the app; they need a terminal of their own."""
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
    # The Lessons screen uses the seed of the lesson; screen 7 uses its own.
    "fault run": (_LESSONS, "r"),
    "fault points": (_LESSONS, "r"),
    "fault show": (_FAULTS, ""),
    "fault list": (_FAULTS, "a"),
}


def in_app(text: str) -> str:
    """A text of a lesson with the screen and the key of the app in place of each quoted ``raidlab`` command.

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
    """(screen, key) of the app's equivalent of a command; both are empty if there is none."""
    words = command.split()[1:]
    for known in (" ".join(words[:2]), words[0] if words else ""):
        if known in _ELSEWHERE:
            return _ELSEWHERE[known]
        if known in _KEYS:
            return _LAB, f"{_key(known)}, Repair" if "repair" in words else _key(known)
    return "", ""


def steps_in_app(done: Iterable[Action]) -> tuple[str, ...]:
    """The solution of a step in the app, one line for each action."""
    return tuple(map(_in_app, done))


def _in_app(action: Action) -> str:
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
