"""Every lesson without a measurement is true on real arrays: for a student without a word of one's own, and another."""

from __future__ import annotations

import pytest

from lab.lessons.course import LessonFiles
from lab.session.session import LabSession
from tests.kernel.proofs import NOT_MEASURED, name_of, prove, prove_for_another, session

__all__ = ["session"]
pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("files", NOT_MEASURED, ids=name_of)
def test_a_lesson_is_proved(files: LessonFiles, session: LabSession) -> None:
    prove(files, session)


@pytest.mark.parametrize("files", NOT_MEASURED, ids=name_of)
def test_a_lesson_is_true_for_another_student(files: LessonFiles, session: LabSession) -> None:
    prove_for_another(files, session)
