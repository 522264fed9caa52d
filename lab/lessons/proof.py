"""Proves a lesson by working through it as a student would, and opens the labs for the proof."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from lab.actions.action import Action
from lab.checks.proof import Proof, Prover, Way, WayEnd
from lab.checks.readings import NOT_COMPARED, Reading
from lab.disks import DiskKind, open_lab, specs
from lab.experiments.run import RunRequest
from lab.host.clock import utc_text
from lab.lessons import engine
from lab.lessons.actions import ApartAction
from lab.lessons.course import ReadyLesson, ReadyStep, Wrong
from lab.lessons.engine import StepView
from lab.lessons.student import LessonSession, Watch, carry_out, do_apart, evaluate_step
from lab.machine import Host, Target, parse_target
from lab.plans import Plan
from lab.session.session import Client, LabSession
from lab.units import MIB

T = TypeVar("T")
DISK_BYTES = 64 * MIB
"""Small disks, so that syncs are short."""
PROOF_SEEDS = ("", "anna")
"""The seeds with which a lesson is proved: the empty one and a word."""
WORKERS = 2
WRONG_BY = 1.5
"""The factor that makes a number wrong; no reading has so large a tolerance."""


class LessonProver(Prover):
    """Works through one lesson in an open lab, whose disks may be made blank.

    Results of measurements are used as they are, because disturbances are recognised during the measurement
    (lab.experiments.run), independently of what the lesson expects.
    """

    kind = "lesson"

    def __init__(self, lesson: ReadyLesson, session: LabSession) -> None:
        self._wrong_ways = {Way(f"{each.step}: {each.mistake}", each.mistake): (each, do) for each, do in lesson.wrong}
        super().__init__(lesson.id, lesson.seed, lesson.check_count, [Way("solution"), *self._wrong_ways])
        self._lesson = lesson
        self._session = session
        self._done_apart: set[str] = set()
        """Measurements and scenarios that were run. They also count for wrong solutions of later steps."""
        self._began_utc = utc_text(session.host.clock)

    def take(self, way: Way) -> WayEnd:
        opened = self._opened()
        return self._take_wrong(opened, *self._wrong_ways[way]) if way.mistake else self._solve(opened)

    def _opened(self) -> LessonSession:
        """Begin the lesson as a new student with a blank lab, but keep the measurements of this proof."""
        self._blank()
        progress = engine.begin(self._lesson, target=str(self._session.target), now_utc=self._began_utc)
        opened = LessonSession(self._lesson, progress, store=lambda _: None, host=self._session.host)
        opened.find_results()
        return opened

    def _blank(self) -> None:
        """Stop all arrays, and blank all disks that were members of an array; the other disks are blank already."""
        session = self._session
        used = {f"/dev/{status.name}" for status in session.statuses()}
        used.update(member.device for status in session.statuses() for member in status.members)
        for array in session.found.all:
            used.update((*array.devices, *array.former_devices))
        plan = session.reset_all()
        session.run(
            Plan(
                plan.title,
                tuple(step for step in plan.steps if not step.writes_devices or used & {*step.writes_devices}),
            )
        )

    def count_fresh(self) -> int:
        lab = Watch(self._opened(), self._session).checked_state()
        passed = 0
        for step in self._lesson.steps:
            for check in step.checks:
                if check.evaluate(lab).is_passed:
                    passed += 1
                    self.fail(f"step {step.id}: {check.name} holds on a blank lab")
        return passed

    def _solve(self, opened: LessonSession) -> WayEnd:
        for step in self._lesson.steps:
            before = len(self.failures)
            view = self._do_step(opened, step, is_first_time=True)
            if view is None or not view.is_done:
                return WayEnd(False, details=f"step {step.id}{self._missing(opened, view)}")
            if len(self.failures) > before:
                return WayEnd(False, details=f"step {step.id}")
        return WayEnd(True)

    def _do_step(self, opened: LessonSession, step: ReadyStep, *, is_first_time: bool) -> StepView | None:
        """Answer the question of a step, and do the step.

        The first time, the step's measurements do not exist yet, so the step must not pass before it is done.
        """
        before = self._evaluate(opened) if is_first_time else None
        if before is not None and before.is_done:
            self._fail(step, "the step counts as done before anything was done", opened, before)
        if step.ask is not None:
            opened.answer(step.ask.answer or next(iter(step.ask.options)))
            asked = self._evaluate(opened) if is_first_time else None
            if asked is not None and asked.is_done:
                self._fail(step, "an answer alone passes it", opened, asked)
                return asked
        view = self._carry_out(opened, step.do)
        return view if step.read is None else self._read_off(opened, step, step.read)

    def _read_off(self, opened: LessonSession, step: ReadyStep, read: Reading) -> StepView | None:
        """Enter a wrong number, which must be rejected as wrong, and then the correct one."""
        expected = read.expected(Watch(opened, self._session).checked_state())
        if expected is None:
            self._fail(step, "there is nothing to read when the step is done", opened, None)
            return None
        opened.answer(f"{expected * WRONG_BY + 1:.10g}")
        view = self._evaluate(opened)
        outcome = view.checks[-1].outcome if view else None
        if view is None or view.is_done or outcome is None or outcome.key in NOT_COMPARED:
            self._fail(step, "a wrong number passes, or fails for a different reason", opened, view)
            return None
        opened.answer(f"{expected:.10g}")
        return self._evaluate(opened)

    def _take_wrong(self, opened: LessonSession, wrong: Wrong, do: Sequence[Action]) -> WayEnd:
        for step in takewhile(lambda each: each.id != wrong.step, self._lesson.steps):
            self._do_step(opened, step, is_first_time=False)
        step = self._lesson.step(wrong.step)
        if opened.step is not step:
            return WayEnd(False, details="it could not be tried, because an earlier step failed")
        if step.ask is not None:
            opened.answer(next(iter(step.ask.options)))
        view = self._carry_out(opened, do or step.do)
        typed = next((each.typed for each in step.mistakes if each.id == wrong.mistake), None)
        if typed is not None:
            number = typed.expected(Watch(opened, self._session).checked_state())
            if number is not None:
                opened.answer(f"{number:.10g}")
            view = self._evaluate(opened)
        mistakes = (view.mistake.id,) if view and view.mistake else ()
        return WayEnd(view is None or view.is_done, mistakes, self._missing(opened, view).lstrip("; "))

    def _carry_out(self, opened: LessonSession, actions: Sequence[Action]) -> StepView | None:
        def run_apart(action: ApartAction) -> None:
            word = action.by_hand()
            if word not in self._done_apart:
                do_apart(self._lesson, action, RunRequest(self._session.target, self._session.host))
                self._done_apart.add(word)

        return carry_out(actions, opened, opener=self._opener, run_apart=run_apart)

    def _evaluate(self, opened: LessonSession) -> StepView | None:
        return evaluate_step(opened, self._opener)

    def _opener(self) -> AbstractContextManager[LabSession]:
        return nullcontext(self._session)

    def _fail(self, step: ReadyStep, what: str, opened: LessonSession, view: StepView | None) -> None:
        self.fail(f"step {step.id}: {what}{self._missing(opened, view)}")

    def _missing(self, opened: LessonSession, view: StepView | None) -> str:
        words = opened.words
        open_checks = [
            f"{words.requirement(each.name, each.facts)} ({words.find(each.outcome.key, each.outcome.facts)})"
            for each in (view.checks if view else ())
            if not each.is_passed and each.outcome
        ]
        return f"; missing: {', '.join(open_checks)}" if open_checks else ""


def side_by_side(
    proofs: Iterable[Callable[[], T]], workers: int = 0, *, on_wait: Callable[[int], object] = lambda _: None
) -> Iterator[T]:
    """Yield the results of the calls in order; ``workers`` calls run in parallel (``WORKERS`` if 0).

    After an error or an interruption no further call begins. ``on_wait`` then gets the number of calls that are still
    running, before they are awaited.
    """
    with ThreadPoolExecutor(workers or WORKERS, thread_name_prefix="raidlab-proof") as pool:
        begun = [pool.submit(prove_one) for prove_one in proofs]
        try:
            for each in begun:
                yield each.result()
        finally:
            if running := sum(not each.cancel() and not each.done() for each in begun):
                on_wait(running)


def prove_apart(lesson: ReadyLesson, target: Target, host: Host) -> Proof:
    """Prove a lesson in its own lab and state folder, so that other lessons can be proved in parallel."""
    with tempfile.TemporaryDirectory(prefix="raidlab-proof-") as folder:
        own = replace(host, state=host.state.elsewhere(Path(folder)))
        with open_proof_session(target, own, disks=lesson.disks) as session:
            return LessonProver(lesson, session).prove()


@contextmanager
def open_proof_session(target: Target, host: Host, *, disks: int) -> Iterator[LabSession]:
    """Open a lab with this number of small disks, for proofs."""
    disk_specs = specs(disks, DiskKind.FILE, size_bytes=DISK_BYTES)
    with open_lab(target, host, wanted=disk_specs) as lab:
        # Records about these disks must not mix with those about the disks of the permanent lab.
        is_named = target.is_embedded
        yield LabSession(Client(parse_target("uml:?name=lesson-proof") if is_named else target, host), lab)
