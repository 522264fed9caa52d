"""Every lesson with a measurement holds on real arrays of emulated drives."""

from __future__ import annotations

import pytest

from lab.lessons.course import LessonFiles
from lab.session.session import LabSession
from tests.kernel.test_lessons import LESSONS, name_of, prove, session

__all__ = ["session"]
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800), pytest.mark.wide]


@pytest.mark.parametrize("files", [files for files in LESSONS if files.lesson.measure], ids=name_of)
def test_a_lesson_is_proved(files: LessonFiles, session: LabSession) -> None:
    prove(files, session)
