"""Lessons without a measurement hold on real arrays, for a student without a seed and for one with a seed.

Lessons that run faults also open machines of their own. test_lessons_measured.py tests lessons with a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.lessons.course import LessonFiles, built_in_course, draw
from lab.lessons.proof import LessonProver, open_proof_session
from lab.machine import Host
from lab.session.session import LabSession
from tests.kernel.place import kernel_target

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800), pytest.mark.wide]
LESSONS = built_in_course().lessons
NOT_MEASURED = [files for files in LESSONS if not files.lesson.measure]


@pytest.fixture(scope="module")
def session() -> Iterator[LabSession]:
    """A lab with as many disks as the largest lesson needs."""
    most = max(files.lesson.disks for files in LESSONS)
    with open_proof_session(kernel_target(), Host.real("tests"), disks=most) as opened:
        yield opened


def name_of(files: LessonFiles) -> str:
    return files.lesson.id


def prove(files: LessonFiles, session: LabSession) -> None:
    """No check passes on a blank lab, the solution passes all of them, and each recorded mistake fails as recorded."""
    proof = LessonProver(files.ready(), session).prove()
    assert proof.failures == (), proof.failures
    assert (proof.passed_fresh, proof.right) == (0, 1)
    assert proof.wrong == len(files.lesson.wrong) > 0


@pytest.mark.parametrize("files", NOT_MEASURED, ids=name_of)
def test_a_lesson_is_proved(files: LessonFiles, session: LabSession) -> None:
    prove(files, session)


@pytest.mark.parametrize("files", NOT_MEASURED, ids=name_of)
def test_a_lesson_is_true_for_another_student(files: LessonFiles, session: LabSession) -> None:
    assert draw(files.lesson, "anna") != draw(files.lesson, "")
    prover = LessonProver(files.ready("anna"), session)
    # Skip the wrong solutions, which take about half of the time.
    prover.ways = prover.ways[:1]
    proof = prover.prove()
    assert proof.failures == (), proof.failures
    assert proof.right == 1
    assert proof.checks > 0
