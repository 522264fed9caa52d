"""The operations of a student: open lessons and do their steps. The command line and the app use this module.

The actions of a step run in order, in one open lab if they need one. Measurements, fault scenarios and power cuts of a
lesson use a separate lab. The state that is stored between commands consists of the open lesson, the student's seed
and language, and the progress in every lesson.
"""

from __future__ import annotations

import shlex
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import msgspec

from lab.actions.action import Action
from lab.arrays.discovery import MD_HEAD_BYTES, superblocks_in
from lab.arrays.levels import kernel_name
from lab.arrays.status import ArrayStatus
from lab.checks.catalogue import FileSays, FileSystemFills, played_since, points_since
from lab.checks.state import CheckedState, DeepState, PlayedFault
from lab.disks import DiskKind, LabDisk
from lab.disks.inventory import read_ends
from lab.errors import LabError, LessonError, ResultError, RunCancelled, SpecError
from lab.experiments.run import RunRequest, run_experiment
from lab.experiments.schedule import RunProgress
from lab.faults.crash_points import Exploration, StoredPoints, find_configuration
from lab.faults.scenario import find_scenario
from lab.faults.scenario_run import ScenarioHooks, play_and_store
from lab.gates.decoding import digits
from lab.gates.text import checked_name
from lab.host.clock import moment, utc_text
from lab.host.files import write_file
from lab.lessons import engine
from lab.lessons.actions import ApartAction, PlayScenario, RunMeasurement, TryPoints
from lab.lessons.course import (
    HINTS,
    SOURCE_LANGUAGE,
    Lesson,
    LessonFiles,
    LessonWords,
    ReadyLesson,
    ReadyStep,
    built_in_course,
    check_file,
    experiment_id,
    is_path,
    lab_disks,
    number_of,
    word_languages,
    words_in,
)
from lab.lessons.engine import FORMAT_VERSION, Progress, StepView
from lab.machine import Host, Target, parse_target
from lab.machine.state_folder import StateFolder
from lab.machine.target import target_words
from lab.measure.samples import DiskCounters
from lab.plans import Plan
from lab.results.record import ResultRecord, RunStatus
from lab.results.store import ResultStore
from lab.session.data_mark import LastVerdict, last_verdicts, read_marks
from lab.session.monitor import Event, Snapshot, events_between, take_snapshot
from lab.session.session import LabSession, read_arrival, require_mdadm
from lab.store import RecordFile
from lab.tomlfile import ANSWERS, STEPS, as_meant, unknown_word


class StudentState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a student's state that is common to all lessons."""

    lesson: str = ""
    """Id of the open lesson, or the path of its file; empty if none is open."""
    seed: str = ""
    language: str = ""
    """Empty if none was chosen."""


class LessonStore:
    """Reads and writes files below ``<state>/lessons``, each replaced atomically."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._folder = state.root / "lessons"

    def desk(self) -> StudentState:
        """Return the state common to all lessons, or the default if no readable file exists."""
        return RecordFile(self._path("desk.json"), StudentState).read_or(StudentState())

    def store_desk(self, desk: StudentState) -> None:
        self._write("desk.json", msgspec.json.encode(desk))

    def progress(self, lesson_id: str) -> Progress | None:
        """Return the progress in a lesson, or None if it was never begun. Raises LessonError if the file is damaged."""
        try:
            found = RecordFile(self._path(f"{lesson_id}.json"), Progress, LessonError).read()
        except LessonError as error:
            again = "or start the lesson again: raidlab lesson start NAME --again"
            raise LessonError(error.message, hint=f"{error.hint}, {again}") from None
        if found and found.format_version > FORMAT_VERSION:
            raise LessonError(
                f"the progress in {lesson_id} was written by a newer raidlab",
                hint=f"use that version, or start again: raidlab lesson start {lesson_id} --again",
            )
        if found and found.format_version == 1:
            names, answers = STEPS.get(lesson_id, {}), ANSWERS.get(lesson_id, {})
            steps = {
                names.get(step, step): msgspec.structs.replace(done, answer=answers.get(done.answer, done.answer))
                for step, done in found.steps.items()
            }
            found = msgspec.structs.replace(found, format_version=FORMAT_VERSION, steps=steps)
        return found

    def store_progress(self, progress: Progress) -> None:
        self._write(f"{progress.lesson}.json", msgspec.json.format(msgspec.json.encode(progress), indent=1))

    def store_experiment(self, name: str, text: str) -> None:
        self._write(f"{name}.toml", text.encode())

    def _write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        self._state.make(self._folder, what="the folder for lessons")
        try:
            write_file(path, data)
        except ResultError as error:
            hint = "free some space, or choose another state folder with RAIDLAB_STATE=FOLDER"
            raise LessonError(error.message, hint=hint) from error

    def _path(self, name: str) -> Path:
        return self._folder / checked_name(name, "file of a lesson", error=LessonError)


def do_apart(lesson: ReadyLesson, action: ApartAction, request: RunRequest) -> None:
    """Run the action on a separate lab, and store its result.

    Raises SpecError, which suggests the nearest name, if the lesson does not have the measurement, RunCancelled if the
    action was cancelled, and any error that stops the action.
    """
    match action:
        case RunMeasurement():
            if action.measure not in lesson.measures:
                raise unknown_word(f"measurement of lesson {lesson.id}", action.measure, lesson.measures)
            run_experiment(*lesson.measures[action.measure], request)
        case PlayScenario():
            _play(action, request)
        case TryPoints():
            _try_points(action, request)


def _play(action: PlayScenario, request: RunRequest) -> None:
    scenario = find_scenario(str(action.scenario))
    advance = _meter(request, sum(1 for _ in scenario.ready(action.seed)))
    hooks = ScenarioHooks(
        on_variant=lambda variant: advance(variant.name), on_step=lambda _: _stop_if_cancelled(request)
    )
    play_and_store(
        scenario,
        request.target,
        request.host,
        seed=action.seed,
        hooks=hooks,
        on_notice=request.on_notice,
        on_machine=request.on_machine,
    )


def _try_points(action: TryPoints, request: RunRequest) -> None:
    advance = _meter(request, action.count)
    exploration = Exploration(
        request.target,
        request.host,
        action.count,
        on_point=lambda _: advance(action.description),
        is_stopped=request.is_cancelled,
        on_notice=request.on_notice,
        on_machine=request.on_machine,
    )
    exploration.store_one(find_configuration(action.configuration), str(action.seed))


def _stop_if_cancelled(request: RunRequest) -> None:
    if request.is_cancelled():
        raise RunCancelled("cancelled")


def _meter(request: RunRequest, count: int) -> Callable[[str], None]:
    done = 0

    def advance(doing: str) -> None:
        nonlocal done
        fraction = min(1.0, done / max(1, count))
        request.on_progress(RunProgress(label=doing, fraction=fraction, left_seconds=None))
        done += 1

    return advance


@dataclass(frozen=True, slots=True)
class CourseLine:
    """One lesson in the list of the course."""

    files: LessonFiles
    done_steps: int
    missing_needs: tuple[str, ...]
    """Required earlier lessons that are not done."""

    @property
    def lesson(self) -> Lesson:
        return self.files.lesson

    @property
    def number(self) -> str:
        return number_of(self.lesson.id)

    @property
    def step_count(self) -> int:
        return len(self.lesson.steps)

    @property
    def is_done(self) -> bool:
        return self.done_steps == self.step_count


class LessonSession:
    """A lesson in progress. Every change is stored immediately."""

    def __init__(
        self,
        lesson: ReadyLesson,
        progress: Progress,
        *,
        store: Callable[[Progress], None],
        read: Callable[[], Progress | None] = lambda: None,
        name: str = "",
        host: Host,
    ) -> None:
        """``store`` and ``read`` access the stored progress; ``read`` returns None if nothing is stored.

        ``name`` is the path of the lesson's file if it is not in the course.
        """
        self.lesson = lesson
        self.name = name or lesson.id
        self.progress = progress
        self._store_progress, self._read_progress = store, read
        self._host = host
        self._results = ResultStore(host.state.results)
        self._found: dict[str, ResultRecord] = {}
        self._played: Mapping[str, PlayedFault] = {}
        self._points: Mapping[str, StoredPoints] = {}

    @property
    def step(self) -> ReadyStep | None:
        return engine.current_step(self.lesson, self.progress)

    @property
    def done_count(self) -> int:
        return engine.done_count(self.lesson, self.progress)

    @property
    def words(self) -> LessonWords:
        return words_in(self.lesson.language)

    @property
    def hints_shown(self) -> tuple[str, ...]:
        step = self.step
        return step.hints_by_hand[: self.progress.in_step(step.id).hints] if step else ()

    @property
    def results(self) -> dict[str, ResultRecord]:
        return dict(self._found)

    def is_in_lab_of(self, target: Target) -> bool:
        """Whether the lesson was started in the lab of this target."""
        try:
            return parse_target(self.progress.target).is_same_lab(target)
        except SpecError:
            # A target that this version does not know.
            return self.progress.target == str(target)

    def require_lab_of(self, target: Target) -> None:
        """Raises LessonError if the lesson was started on a different machine or in a different lab."""
        if not self.is_in_lab_of(target):
            began = self.progress.target
            raise LessonError(
                f"lesson {self.lesson.id} was started on {target_words(began, in_sentence=True)} ('{began}'), not on "
                f"'{target}'",
                hint=f"add --on {shlex.quote(began)}, or begin it here: raidlab lesson start {self.lesson.id} --again",
            )

    @property
    def state_apart(self) -> CheckedState:
        """The state for those checks that need no open lab: measurements, scenarios and crash points of this lesson."""
        return CheckedState(results=self.results, played=self._played, points=self._points)

    def predicts(self, text: str) -> bool:
        """Whether ``text`` is one of the predictions that the current step offers."""
        return bool(self.step and self.step.ask and text in self.step.ask.options)

    def answer(self, text: str, target: Target | None = None) -> None:
        """Answer the question of the current step, or enter its reading, which may depend on the lab of ``target``.

        Raises the errors of ``engine.answer``, and LessonError if the lesson was started elsewhere, or if another
        program has completed the step.
        """
        if target and self.step and needs_lab(self.step) and not self.predicts(text):
            self.require_lab_of(target)
        self._change_step(lambda progress: engine.answer(self.lesson, progress, text))

    def hint(self) -> str:
        """Take and return the next hint.

        Raises LessonError if the lesson is done, or if another program has completed the step.
        """
        self._change_step(lambda progress: engine.take_hint(self.lesson, progress))
        return self.hints_shown[-1]

    def take_all_hints(self) -> None:
        """Take all hints, because the complete answer is about to be shown. Raises the errors of ``hint``."""
        for _ in range(HINTS):
            self.hint()

    def note_help(self) -> None:
        """Record that the lab does the current step. Raises the errors of ``hint``."""
        self._change_step(lambda progress: engine.note_help(self.lesson, progress))

    def set_language(self, language: str) -> None:
        """Store the language of this attempt. Raises LessonError if another program has started the lesson again."""
        self._change(lambda progress: msgspec.structs.replace(progress, language=language))

    def evaluate(self, lab: CheckedState) -> StepView | None:
        view = engine.evaluate(self.lesson, self.progress, lab)
        if view is not None:
            step, now_utc = view.step, self._now()

            def note(progress: Progress) -> Progress:
                if progress.is_done(step.id):
                    return progress
                return engine.note(self.lesson, progress, view, now_utc=now_utc)

            self._change(note)
        return view

    def clearing(self, session: LabSession) -> Plan:
        """Return the plan that blanks the disks before ``restart``.

        Raises the errors of ``restart``, and DrillError.
        """
        self._newest()
        return session.reset_all()

    def restart(self) -> None:
        """Begin the lesson again. Raises LessonError if another program has started the lesson again."""
        self._newest()
        fresh = engine.begin(self.lesson, target=self.progress.target, now_utc=self._now())
        self._found.clear()
        self._store_progress(fresh)
        self.progress = fresh

    def checked_state(
        self,
        snapshot: Snapshot,
        disks: Iterable[LabDisk],
        *,
        marks: Mapping[str, LastVerdict | None],
        events: Iterable[Event] = (),
        since: Snapshot | None = None,
    ) -> CheckedState:
        """Return the state that the checks evaluate.

        ``events`` are those of the current step, and ``since`` is the snapshot at its beginning.
        """
        names = {disk.node: disk.name for disk in disks}
        step = self.step
        return replace(
            self.state_apart,
            arrays={status.name: status for status in snapshot.arrays},
            nodes={name: node for node, name in names.items()},
            marks=marks,
            written_bytes=_moved_since(names, since, snapshot, lambda disk: disk.written_bytes),
            events=frozenset((event.kind.value, event.array, names.get(event.device, "")) for event in events),
            step_began_utc=self.progress.in_step(step.id).began_utc if step else "",
        )

    def find_results(self) -> None:
        """Find what was run since the lesson began: complete measurements with its seed, scenarios, crash points."""
        # Results and runs have times in whole seconds.
        began = moment(self.progress.began_utc).replace(microsecond=0)
        if any(isinstance(each, PlayScenario | TryPoints) for step in self.lesson.steps for each in step.apart):
            self._played, self._points = played_since(self._host, began), points_since(self._host, began)
        for name, (_, text) in self.lesson.measures.items():
            word = experiment_id(self.lesson.id, name)
            # An id consists of the time, the experiment, and possibly a number: see new_id in lab/results/store.py.
            for result_id in (each for each in self._results.ids() if word in each):
                if name in self._found and self._found[name].id == result_id:
                    # No newer result matches, and an older result must not replace this one.
                    break
                with suppress(ResultError):
                    record = self._results.load(result_id)
                    is_same = as_meant(record.experiment_toml) == as_meant(text)
                    if record.status is RunStatus.COMPLETE and is_same and moment(record.created_utc) >= began:
                        self._found[name] = record
                        break

    def _change(self, make: Callable[[Progress], Progress]) -> None:
        """Change the newest stored progress, because another program may have stored an answer or a hint.

        Raises LessonError if another program has started the lesson again.
        """
        if make(self.progress) is self.progress:
            return
        newest = self._newest()
        changed = make(newest)
        if changed is not newest:
            self._store_progress(changed)
        self.progress = changed

    def _change_step(self, make: Callable[[Progress], Progress]) -> None:
        """Change the progress in the current step.

        Raises LessonError if another program has completed the step. This session then has the stored progress.
        """

        def change(progress: Progress) -> Progress:
            if engine.current_step(self.lesson, progress) is not self.step:
                self.progress = progress
                raise LessonError(
                    f"this step of lesson {self.lesson.id} was completed by another program",
                    hint="read what comes next; on the command line, 'raidlab lesson show' shows it",
                )
            return make(progress)

        self._change(change)

    def _newest(self) -> Progress:
        """Return the stored progress. Raises LessonError if another program has started the lesson again."""
        newest = self._read_progress() or self.progress
        if newest.began_utc != self.progress.began_utc:
            raise LessonError(
                f"lesson {self.lesson.id} was started again by another program",
                hint="open it again from the list of lessons; on the command line, 'raidlab lesson show' shows it",
            )
        return newest

    def _now(self) -> str:
        return utc_text(self._host.clock)


class Student:
    """All lessons of one student."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._store = LessonStore(host.state)

    @property
    def state(self) -> StudentState:
        return self._store.desk()

    def lines(self) -> tuple[CourseLine, ...]:
        """Return the course with the student's progress; unreadable progress counts as no progress."""
        lines: list[CourseLine] = []
        # Lessons come after those that they need.
        for files in built_in_course().lessons:
            done = 0
            with suppress(LessonError):
                progress = self._store.progress(files.lesson.id)
                done = engine.done_count(files.lesson, progress) if progress else 0
            finished = {line.lesson.id for line in lines if line.is_done}
            missing = tuple(need for need in files.lesson.needs if need not in finished)
            lines.append(CourseLine(files, done, missing))
        return tuple(lines)

    def find(self, word: str) -> LessonFiles:
        """Return a lesson of the course, or the lesson in a file. Raises SpecError if it is unknown or invalid."""
        return check_file(Path(word)) if is_path(word) else built_in_course().find(word)

    def language_for(self, files: LessonFiles, requested: str | None, fallback: str = SOURCE_LANGUAGE) -> str:
        """Return the language to use. Raises SpecError if the lesson is not available in the requested one."""
        if requested:
            if requested not in files.languages:
                raise unknown_word(f"language of lesson {files.lesson.id}", requested, files.languages)
            return requested
        stored = self.state.language or fallback
        return stored if stored in files.languages and stored in word_languages() else SOURCE_LANGUAGE

    def ready(
        self, word: str, *, seed: str | None = None, language: str | None = None, fallback: str = SOURCE_LANGUAGE
    ) -> ReadyLesson:
        """Return a lesson, by default with the previous seed and language. Raises the errors of ``language_for``."""
        files = self.find(word)
        return files.ready(self.state.seed if seed is None else seed, self.language_for(files, language, fallback))

    def start(
        self, word: str, target: Target, *, seed: str | None = None, language: str | None = None
    ) -> LessonSession:
        """Open a lesson at its beginning, by default with the previous seed and language."""
        lesson = self.ready(word, seed=seed, language=language)
        progress = engine.begin(lesson, target=str(target), now_utc=utc_text(self._host.clock))
        name = _stored_name(word, lesson.id)
        self._store.store_progress(progress)
        self._store.store_desk(StudentState(lesson=name, seed=lesson.seed, language=lesson.language))
        opened = self._opened(lesson, progress, name)
        for name, (_, text) in lesson.measures.items():
            self._store.store_experiment(f"{lesson.id}-{name}", text)
        return opened

    def resume(self, word: str) -> LessonSession | None:
        files = self.find(word)
        progress = self._store.progress(files.lesson.id)
        if progress is None:
            return None
        name = _stored_name(word, files.lesson.id)
        self._store.store_desk(msgspec.structs.replace(self.state, lesson=name))
        return self._opened(files.ready(progress.seed, progress.language), progress, name)

    def translate(self, opened: LessonSession, language: str) -> LessonSession:
        """Return the same lesson and progress in another language.

        Raises SpecError if there is no such translation, and the errors of ``LessonSession.set_language``.
        """
        files = self.find(opened.name)
        chosen = self.language_for(files, language)
        opened.set_language(chosen)
        self._store.store_desk(msgspec.structs.replace(self.state, language=chosen))
        return self._opened(files.ready(opened.progress.seed, chosen), opened.progress, opened.name)

    def open_lesson(self) -> LessonSession | None:
        word = self.state.lesson
        if not word:
            return None
        files = self.find(word)
        progress = self._store.progress(files.lesson.id)
        return self._opened(files.ready(progress.seed, progress.language), progress, word) if progress else None

    def require_lesson(self) -> LessonSession:
        opened = self.open_lesson()
        if opened is None:
            raise LessonError(
                "no lesson is open",
                hint="'raidlab lesson list' shows the course, and 'raidlab lesson start 1' begins it",
            )
        return opened

    def leave(self) -> None:
        self._store.store_desk(msgspec.structs.replace(self.state, lesson=""))

    def _opened(self, lesson: ReadyLesson, progress: Progress, name: str) -> LessonSession:
        opened = LessonSession(
            lesson,
            progress,
            store=self._store.store_progress,
            read=partial(self._store.progress, progress.lesson),
            name=name,
            host=self._host,
        )
        opened.find_results()
        return opened


def _stored_name(word: str, lesson_id: str) -> str:
    """Return the stored name of an open lesson: its id if it is in the course, otherwise its path."""
    return str(Path(word).absolute()) if is_path(word) else lesson_id


def require_no_drill(session: LabSession, lesson: ReadyLesson) -> None:
    """Raises LessonError while a drill is open on the lab's disks, because a lesson would act on the drill's arrays."""
    if drill := read_arrival(session.folder):
        raise LessonError(
            f"lesson {lesson.id} cannot use these disks while the drill '{drill.title}' is open on them",
            hint="'raidlab drill debrief' ends the drill with a verdict, and 'raidlab drill leave' ends it without one",
        )


def require_disks(session: LabSession, lesson: ReadyLesson) -> None:
    """Raises LessonError unless the lab has the lesson's disks, all of them are free, and no array is running."""
    if used := _use_of(session, lesson):
        hint = "repeat the command with --reset, which makes all disks blank and deletes their data"
        raise LessonError(f"lesson {lesson.id} starts with a blank lab, but {used}", hint=hint)


def named_disks(
    session: LabSession, names: Sequence[str], what: str, error: type[LabError] = LessonError
) -> tuple[LabDisk, ...]:
    """Return the lab's disks with these names, free or not. Raises ``error`` about ``what`` if any are missing."""
    there = {disk.name: disk for disk in session.disks}
    if missing := [name for name in names if name not in there]:
        kind = DiskKind.FILE if session.is_embedded else DiskKind.LOOP
        hint = f"add some: raidlab disks add --kind {kind} --count {len(missing)}"
        if missing[0] < max(there, default=""):
            # New disks get numbers after the existing ones.
            hint = "use a new lab, which has them all: --on 'uml:?name=NEW' or 'qemu:?name=NEW'"
        raise error(f"{what} uses {names[0]} to {names[-1]}, but the lab has no {', '.join(missing)}", hint=hint)
    return tuple(there[name] for name in names)


def use_words(session: LabSession, names: Sequence[str]) -> str:
    """Return why these disks are not free, such as ``disk01 is in use``; an empty string if they are free."""
    free = {disk.name for disk in session.free_disks()}
    if busy := [name for name in names if name not in free]:
        return f"{', '.join(busy)} {'is' if len(busy) == 1 else 'are'} in use"
    return "arrays are running" if session.statuses() else ""


def clearing_plan(session: LabSession, lesson: ReadyLesson) -> Plan | None:
    """Return a plan that blanks the lab, or None if it is blank. Raises LessonError if disks are missing."""
    return session.reset_all() if _use_of(session, lesson) else None


def _use_of(session: LabSession, lesson: ReadyLesson) -> str:
    """Return ``use_words`` for the lesson's disks. Raises LessonError if a drill is open or disks are missing."""
    require_no_drill(session, lesson)
    names = lab_disks(lesson.disks)
    named_disks(session, names, f"lesson {lesson.id}")
    return use_words(session, names)


def marks_of(session: LabSession, arrays: Iterable[ArrayStatus]) -> dict[str, LastVerdict | None]:
    """Return the last verdict on each array that holds known data, by name; None if it has not been verified."""
    marks, verdicts = read_marks(session), last_verdicts(session)
    # Not every kernel shows the UUID of an array.
    by_name = {mark.array: mark.uuid for mark in reversed(marks.values())}
    uuids = {status.name: status.uuid or by_name.get(status.name, "") for status in arrays}
    return {name: verdicts.get(uuid) for name, uuid in uuids.items() if uuid in marks}


def _moved_since(
    names: Mapping[str, str], before: Snapshot | None, after: Snapshot, moved: Callable[[DiskCounters], int]
) -> dict[str, int]:
    """Return the growth of each disk's counter since ``before``, by disk name; ``names`` maps nodes to disk names."""
    if before is None:
        return {}
    kernel_names = {name: kernel_name(node) for node, name in names.items()}
    return {
        name: moved(after.disks[kernel]) - (moved(before.disks[kernel]) if kernel in before.disks else 0)
        for name, kernel in kernel_names.items()
        if kernel in after.disks
    }


_EXT_SUPERBLOCK = 1024
_EXT_MAGIC = 0xEF53


def asks_for_disks(lesson: ReadyLesson) -> bool:
    """Whether a check or reading of the lesson needs to read the disks themselves."""
    return any(each.needs_disks for step in lesson.steps for each in step.checks_and_sources)


def deep_state(lesson: ReadyLesson, session: LabSession, before: Snapshot, after: Snapshot) -> DeepState:
    """Return what the disks contain, and what was counted since ``before``; an empty state if the lesson needs none."""
    if not asks_for_disks(lesson):
        return DeepState()
    checks = [check for step in lesson.steps for check in step.checks_and_sources]
    names = {disk.node: disk.name for disk in session.disks}
    ends = read_ends(session.machine, list(names), MD_HEAD_BYTES)
    running = {status.name for status in after.arrays}
    paths = {check.path for check in checks if isinstance(check, FileSays)}
    numbers = {name: f"/sys/class/block/{kernel_name(node)}/dev" for node, name in names.items()}
    read = session.machine.read([*paths, *numbers.values()])
    texts = {path: text for path in paths if (text := read[path]) is not None}
    # A read from an array with hanging members would block, so only lessons about file systems read arrays.
    has_systems = any(isinstance(check, FileSystemFills) for check in checks)
    nodes = [f"/dev/{name}" for name in sorted(running) if has_systems]
    array_ends = read_ends(session.machine, nodes, 2 * _EXT_SUPERBLOCK)
    sizes = {node.removeprefix("/dev/"): _ext_bytes(found.first) for node, found in array_ends.items()}
    superblocks = {names[node]: found for node, found in superblocks_in(ends).items()}
    written = _written_since(session, texts, (found.created_seconds for found in superblocks.values()))
    return DeepState(
        superblocks=superblocks,
        resting=frozenset(array.name for array in session.found.all if array.name not in running),
        marked_before=frozenset(mark.array for mark in read_marks(session).values()),
        read_bytes=_moved_since(names, before, after, lambda disk: disk.read_bytes),
        waited_seconds={name: _waited(after, name) - _waited(before, name) for name in running},
        file_system_bytes={name: size for name, size in sizes.items() if size is not None},
        minors={
            name: minor
            for name, path in numbers.items()
            if (minor := digits((read[path] or "").strip().partition(":")[2])) is not None
        },
        texts={path: texts[path] for path in written},
    )


def _written_since(session: LabSession, paths: Iterable[str], created_seconds: Iterable[int]) -> list[str]:
    """Return the files that were written since the newest array was created, or none if there is no array.

    An older file remains from an earlier attempt at the lesson.
    """
    newest = max(created_seconds, default=None)
    if newest is None or not (listed := sorted(paths)):
        return []
    times = session.machine.run(("stat", "-c", "%Y %n", "--", *listed), check=False).stdout
    found = (line.partition(" ") for line in times.splitlines())
    return [path for seconds, _, path in found if (digits(seconds) or 0) >= newest]


def _waited(snapshot: Snapshot, array: str) -> float:
    counters = snapshot.disks.get(array)
    return counters.read_wait_seconds + counters.write_wait_seconds if counters else 0.0


def _ext_bytes(head: bytes) -> int | None:
    """Return the size in bytes of an ext2, ext3 or ext4 file system, or None if there is none.

    Source: Documentation/filesystems/ext4/super.rst.
    """
    if len(head) < 2 * _EXT_SUPERBLOCK:
        return None
    (blocks,) = struct.unpack_from("<I", head, _EXT_SUPERBLOCK + 4)
    (block_shift,) = struct.unpack_from("<I", head, _EXT_SUPERBLOCK + 24)
    (magic,) = struct.unpack_from("<H", head, _EXT_SUPERBLOCK + 56)
    return blocks << (10 + block_shift) if magic == _EXT_MAGIC and block_shift <= 6 else None


class Watch:
    """Records the events that occur while a lab is open, for the checks of the current step."""

    def __init__(self, opened: LessonSession, session: LabSession) -> None:
        self._opened = opened
        self._session = session
        self._before: Snapshot = take_snapshot(session)

    def checked_state(self) -> CheckedState:
        session, after = self._session, take_snapshot(self._session)
        events = events_between(self._before, after)
        state = self._opened.checked_state(
            after, session.disks, marks=marks_of(session, after.arrays), events=events, since=self._before
        )
        return replace(state, deep=deep_state(self._opened.lesson, session, self._before, after))

    def evaluate(self) -> StepView | None:
        return self._opened.evaluate(self.checked_state())


def carry_out(
    actions: Sequence[Action],
    opened: LessonSession,
    *,
    opener: Callable[[], AbstractContextManager[LabSession]],
    run_apart: Callable[[ApartAction], None],
    before_action: Callable[[Action], None] = lambda _: None,
) -> StepView | None:
    """Run all actions, then evaluate the step. If the last action needed a lab, the step is evaluated in the same lab.

    Some actions need a separate lab, which some machines provide only while this lab is closed.
    """
    view = None
    for is_apart, group in groupby(actions, key=lambda action: isinstance(action, ApartAction)):
        if is_apart:
            for action in group:
                if isinstance(action, ApartAction):
                    before_action(action)
                    run_apart(action)
            opened.find_results()
            view = None
            continue
        with opener() as session:
            watch = Watch(opened, session)
            perform_actions(group, opened, session, before_action)
            view = watch.evaluate()
    return view or evaluate_step(opened, opener)


def perform_actions(
    actions: Iterable[Action],
    opened: LessonSession,
    session: LabSession,
    before_action: Callable[[Action], None] = lambda _: None,
) -> None:
    """Run actions of the lesson in an open lab. Raises LabError, for example while a drill is open."""
    require_no_drill(session, opened.lesson)
    require_mdadm(session.machine, opened.lesson.needs_mdadm, f"lesson {opened.lesson.id}")
    for action in actions:
        before_action(action)
        action.perform(session)


def evaluate_step(opened: LessonSession, opener: Callable[[], AbstractContextManager[LabSession]]) -> StepView | None:
    """Evaluate the current step; the lab is opened only if a check needs it."""
    step = opened.step
    if step is None:
        return None
    if not needs_lab(step):
        return opened.evaluate(opened.state_apart)
    with opener() as session:
        require_no_drill(session, opened.lesson)
        return Watch(opened, session).evaluate()


def needs_lab(step: ReadyStep) -> bool:
    """Whether a check of the step, or its reading, needs arrays, disks or data."""
    return any(each.needs_lab for each in step.checks_and_sources)
