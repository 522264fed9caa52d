"""The proof of a lesson on a real lab.

Nothing passes on a fresh lab, the lesson's own solution passes everything, and each recorded wrong solution fails in
the way that the lesson recognises. A measurement counts as it comes: what disturbs one is recognised where it is
measured (lab.experiments.runner), without a look at what the lesson would like to see.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from lab.actions.action import Action
from lab.checks.readings import NOT_COMPARED, Reading
from lab.disks import DiskKind, open_lab, specs
from lab.experiments.service import RunRequest
from lab.host.clock import utc_text
from lab.lessons import engine
from lab.lessons.actions import ApartAction
from lab.lessons.engine import StepView
from lab.lessons.executor import Watch, carry_out, look_once_more
from lab.lessons.ready import ReadyLesson, ReadyStep, ReadyWrong
from lab.lessons.student import LessonSession
from lab.machine import Host, Target, TargetKind, parse_target
from lab.plans import Plan
from lab.session.session import LabSession
from lab.units import MIB

T = TypeVar("T")
DISK_BYTES = 64 * MIB
"""Small disks, so that syncs take an instant."""
PROOF_SEEDS = ("", "anna")
"""A student without a word of one's own, and another."""
WORKERS = 2
WRONG_BY = 1.5
"""What a typed number is multiplied with to be wrong: no tolerance of a reading is that wide."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of it."""

    lesson: str
    seed: str
    checks: int
    passed_fresh: int
    """Of all checks, on a blank lab; must be 0."""
    passed_solved: int
    """Of all checks, each after its own step was carried out; must be all."""
    wrong_told_apart: int
    """Wrong solutions that failed in the recorded way."""
    failures: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """One line for people."""
        counts = f"fresh {self.passed_fresh}/{self.checks}, solved {self.passed_solved}/{self.checks}"
        name = f"{self.lesson} for '{self.seed}'" if self.seed else self.lesson
        return f"{name}: {counts}, wrong solutions told apart {self.wrong_told_apart}"


class _Prover:
    """Works at one lesson in an open lab, as a student would."""

    def __init__(self, lesson: ReadyLesson, session: LabSession, target: Target, host: Host) -> None:
        self._lesson = lesson
        self._session = session
        self._target = target
        self._host = host
        self.failures: list[str] = []
        self._done_apart: set[str] = set()
        """What was measured or played once counts for wrong solutions of later steps too."""
        self._began_utc = utc_text(host.clock)

    def run(self, *, with_wrong: bool) -> Proof:
        opened = self._opened()
        fresh = self._fresh(opened)
        solved = self._solve(opened)
        told = sum(self._wrong(wrong) for wrong in self._lesson.wrong) if with_wrong else 0
        return Proof(
            self._lesson.id, self._lesson.seed, self._lesson.check_count, fresh, solved, told, tuple(self.failures)
        )

    def _opened(self) -> LessonSession:
        """A new student at a blank lab; measurements of this proof are found again."""
        self._blank()
        progress = engine.begin(self._lesson, target=str(self._target), now_utc=self._began_utc)
        opened = LessonSession(self._lesson, progress, keep=lambda _: None, host=self._host)
        opened.find_results()
        return opened

    def _blank(self) -> None:
        """No array, and blank disks; those that no array has had are blank already."""
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

    def _fresh(self, opened: LessonSession) -> int:
        """How many checks hold on a blank lab."""
        lab = Watch(opened, self._session).checked_state()
        passed = 0
        for step in self._lesson.steps:
            for check in step.checks:
                if check.look(lab).is_passed:
                    passed += 1
                    self.failures.append(f"{self._lesson.id}, step {step.id}: {check.name} holds on a blank lab")
        return passed

    def _solve(self, opened: LessonSession) -> int:
        """How many checks hold when each step was carried out."""
        passed = 0
        for step in self._lesson.steps:
            view = self._do_step(opened, step, is_first_time=True)
            passed += view.passed_count if view else 0
            if view is None or not view.is_done:
                self._fail(step, "its own solution does not pass", opened, view)
                break
        return passed

    def _do_step(self, opened: LessonSession, step: ReadyStep, *, is_first_time: bool) -> StepView | None:
        """Answer and do a step. The first time its measurements are not there yet, so nothing may pass before."""
        before = self._look(opened) if is_first_time else None
        if before is not None and before.is_done:
            self._fail(step, "it is done before anything was done", opened, before)
        if step.ask is not None:
            opened.answer(step.ask.answer or next(iter(step.ask.options)))
            asked = self._look(opened) if is_first_time else None
            if asked is not None and asked.is_done:
                self._fail(step, "an answer alone passes it", opened, asked)
                return asked
        view = self._carry_out(opened, step.do)
        return view if step.read is None else self._read_off(opened, step, step.read)

    def _read_off(self, opened: LessonSession, step: ReadyStep, read: Reading) -> StepView | None:
        """Type a wrong number, which must fail as such, and then the right one."""
        with self._opener() as session:
            expected = read.expected(Watch(opened, session).checked_state())
        if expected is None:
            self._fail(step, "there is nothing to read when it is done", opened, None)
            return None
        opened.answer(f"{expected * WRONG_BY + 1:.10g}")
        view = self._look(opened)
        outcome = view.checks[-1].outcome if view else None
        if view is None or view.is_done or outcome is None or outcome.said in NOT_COMPARED:
            self._fail(step, "a wrong number passes, or fails for another reason", opened, view)
            return None
        opened.answer(f"{expected:.10g}")
        return self._look(opened)

    def _wrong(self, wrong: ReadyWrong) -> bool:
        """Whether a wrong solution fails as recorded."""
        opened = self._opened()
        for step in self._lesson.steps:
            if step.id == wrong.step:
                break
            self._do_step(opened, step, is_first_time=False)
        step = self._lesson.step(wrong.step)
        if opened.step is not step:
            self._fail(step, "the wrong solution could not be tried: a step before it failed", opened, None)
            return False
        if step.ask is not None:
            opened.answer(next(iter(step.ask.options)))
        view = self._carry_out(opened, wrong.do or step.do)
        typed = next((each.typed for each in step.mistakes if each.id == wrong.mistake), None)
        if typed is not None:
            view = self._type(opened, typed)
        if view is None or view.is_done:
            self._fail(step, "a wrong solution passes", opened, view)
            return False
        found = view.mistake.id if view.mistake else "none"
        if found != wrong.mistake:
            self._fail(step, f"the mistake {wrong.mistake} was to be recognised, and {found} was", opened, view)
        return found == wrong.mistake

    def _type(self, opened: LessonSession, typed: Reading) -> StepView | None:
        """The number of a mistake."""
        with self._opener() as session:
            number = typed.expected(Watch(opened, session).checked_state())
        if number is not None:
            opened.answer(f"{number:.10g}")
        return self._look(opened)

    def _carry_out(self, opened: LessonSession, actions: Sequence[Action]) -> StepView | None:
        def run_apart(action: ApartAction) -> None:
            word = action.by_hand()
            if word not in self._done_apart:
                opened.do_apart(action, RunRequest(self._target, self._host))
                self._done_apart.add(word)

        return carry_out(actions, opened, opener=self._opener, run_apart=run_apart)

    def _look(self, opened: LessonSession) -> StepView | None:
        return look_once_more(opened, self._opener)

    def _opener(self) -> AbstractContextManager[LabSession]:
        return nullcontext(self._session)

    def _fail(self, step: ReadyStep, what: str, opened: LessonSession, view: StepView | None) -> None:
        words = opened.words
        open_checks = [
            f"{words.want(each.name, each.facts)} ({words.find(each.outcome.said, each.outcome.facts)})"
            for each in (view.checks if view else ())
            if not each.is_passed and each.outcome
        ]
        missing = f"; missing: {', '.join(open_checks)}" if open_checks else ""
        self.failures.append(f"{self._lesson.id}, step {step.id}: {what}{missing}")


def prove_in(lesson: ReadyLesson, session: LabSession, *, with_wrong: bool = True) -> Proof:
    """Prove a lesson in an open lab whose disks may be made blank; its wrong solutions take half of the time."""
    return _Prover(lesson, session, session.target, session.host).run(with_wrong=with_wrong)


def side_by_side(proofs: Iterable[Callable[[], T]], workers: int = 0) -> Iterator[T]:
    """What each returns, in their order; as many at a time as there are workers (0: as this computer bears)."""
    with ThreadPoolExecutor(workers or WORKERS, thread_name_prefix="raidlab-proof") as pool:
        yield from pool.map(lambda prove_one: prove_one(), proofs)


def prove_apart(lesson: ReadyLesson, target: Target, host: Host) -> Proof:
    """In a state folder of its own that is gone afterwards, so that others can be proved beside it."""
    with tempfile.TemporaryDirectory(prefix="raidlab-proof-") as folder:
        return prove(lesson, target, replace(host, state=host.state.elsewhere(Path(folder))))


def prove(
    lesson: ReadyLesson, target: Target, host: Host, *, on_notice: Callable[[str], None] = lambda _: None
) -> Proof:
    """Prove a lesson in a lab of its own, with small disks that are gone afterwards."""
    with open_proof_session(target, host, disks=lesson.disks, on_notice=on_notice) as session:
        return prove_in(lesson, session)


@contextmanager
def open_proof_session(
    target: Target, host: Host, *, disks: int, on_notice: Callable[[str], None] = lambda _: None
) -> Iterator[LabSession]:
    """A lab with so many small disks, for proofs."""
    wanted = specs(disks, DiskKind.FILE, size_bytes=DISK_BYTES)
    with open_lab(target, host, wanted=wanted, on_notice=on_notice) as lab:
        # What is remembered of these disks must not mix with what the lab that lasts remembers of its own.
        is_named = target.kind is TargetKind.UML
        yield LabSession(parse_target("uml:?name=lesson-proof") if is_named else target, host, lab)
