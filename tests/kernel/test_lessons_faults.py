"""Every lesson that plays faults is true, on machines of their own and on real arrays, for two students."""

from __future__ import annotations

import pytest

from lab.lessons.course import LessonFiles
from lab.session.session import LabSession
from tests.kernel.proofs import PLAYED, name_of, prove, prove_for_another, session

__all__ = ["session"]
pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("files", PLAYED, ids=name_of)
def test_a_lesson_is_proved(files: LessonFiles, session: LabSession) -> None:
    prove(files, session)


@pytest.mark.parametrize("files", PLAYED, ids=name_of)
def test_a_lesson_is_true_for_another_student(files: LessonFiles, session: LabSession) -> None:
    prove_for_another(files, session)
