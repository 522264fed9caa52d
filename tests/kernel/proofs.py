"""What the proofs of lessons share: one lab for all, with as many disks as the largest lesson needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.lessons.course import LessonFiles, built_in_course
from lab.lessons.proof import open_proof_session, prove_in
from lab.machine import Host
from lab.session.session import LabSession
from tests.kernel.place import kernel_target

LESSONS = built_in_course().lessons
MEASURED = [files for files in LESSONS if files.lesson.measure]
PLAYED = [files for files in LESSONS if not files.lesson.measure and any(step.apart for step in files.ready().steps)]
"""With faults on machines of their own."""
NOT_MEASURED = [files for files in LESSONS if not files.lesson.measure and files not in PLAYED]


@pytest.fixture(scope="module")
def session() -> Iterator[LabSession]:
    most = max(files.lesson.disks for files in LESSONS)
    with open_proof_session(kernel_target(), Host.real("tests"), disks=most) as opened:
        yield opened


def name_of(files: LessonFiles) -> str:
    return files.lesson.id


def prove_for_another(files: LessonFiles, session: LabSession) -> None:
    """Its own solution passes all for a student with another word, too."""
    ready = files.ready("anna")
    assert ready.values != files.ready().values
    proof = prove_in(ready, session, with_wrong=False)
    assert proof.failures == (), proof.failures
    assert proof.right == 1
    assert proof.checks > 0


def prove(files: LessonFiles, session: LabSession) -> None:
    """Nothing passes on a blank lab, its own solution passes all, each recorded wrong one fails as recorded."""
    proof = prove_in(files.ready(), session)
    assert proof.failures == (), proof.failures
    assert (proof.passed_fresh, proof.right) == (0, 1)
    assert proof.wrong == len(files.lesson.wrong) > 0
