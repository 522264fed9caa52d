"""Every lesson is true, on real arrays; what is measured, on emulated drives.

Nothing passes on a blank lab, its own solution passes everything, each recorded wrong solution fails as recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.lessons.course import LessonFiles, built_in_course
from lab.lessons.proof import open_proof_session, prove_in
from lab.machine import Host, parse_target
from lab.session.session import LabSession

pytestmark = pytest.mark.kernel
LESSONS = built_in_course().lessons
WITHOUT_MEASUREMENT = [files for files in LESSONS if not files.lesson.measure]


@pytest.fixture(scope="module")
def session() -> Iterator[LabSession]:
    """One lab for all lessons, with as many disks as the largest needs."""
    most = max(files.lesson.disks for files in LESSONS)
    with open_proof_session(parse_target("uml:"), Host.real("tests"), disks=most) as opened:
        yield opened


def name_of(files: LessonFiles) -> str:
    return files.lesson.id


@pytest.mark.parametrize("files", LESSONS, ids=name_of)
def test_a_lesson_is_proved(files: LessonFiles, session: LabSession) -> None:
    proof = prove_in(files.ready(), session)
    assert proof.failures == ()
    assert (proof.passed_fresh, proof.passed_solved) == (0, proof.checks)
    assert proof.wrong_told_apart == len(files.lesson.wrong) > 0


@pytest.mark.parametrize("files", WITHOUT_MEASUREMENT, ids=name_of)
def test_a_lesson_is_true_for_another_student(files: LessonFiles, session: LabSession) -> None:
    ready = files.ready("anna")
    assert ready.values != files.ready().values
    proof = prove_in(ready, session, with_wrong=False)
    assert proof.failures == ()
    assert proof.passed_solved == proof.checks
