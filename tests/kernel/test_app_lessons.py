"""A student measures for a lesson in the real app, on the embedded kernel.

tests/tui/test_lessons.py tests what else the app does with lessons; test_lessons.py tests lessons on real arrays.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.disks import DiskKind, specs
from lab.machine import Host
from lab.results.store import ResultStore
from lab.units import MIB
from tests.kernel.student import Student, own_state, student_at
from tui.lessons import LessonView

__all__ = ["own_state"]
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800), pytest.mark.wide]


class Learner(Student):
    def view(self) -> LessonView:
        assert self.app.guide.view is not None
        return self.app.guide.view


async def test_a_measurement_decides_a_prediction(tmp_path: Path) -> None:
    async with student_at(tmp_path, Learner, disks=specs(7, DiskKind.FILE, size_bytes=64 * MIB)) as student:
        app = student.app
        await student.until(lambda: student.lab.snapshot is not None, "the lab is open")
        await student.press("6")
        await student.until(lambda: bool(app.guide.course), "the course is read")
        app.guide.begin("01-what-a-disk-promises")
        await student.until(lambda: app.guide.view is not None, "the lesson is open")
        app.show_now()
        await student.pilot.press("a", "r")
        await student.until(lambda: student.view().activity, "it is measured")
        await student.until(lambda: not student.view().activity, "it is over")
        # The prediction was wrong. Before the app says so, the student must read a figure from the result.
        assert student.view().explanation is None
        store = ResultStore(Host.real("tests").state.results)
        (record,) = (store.load(each.id) for each in store.list())
        reads = [cell.figures.reads for cell in record.cells if cell.workload == "many-at-a-time"]
        assert reads[0] is not None
        assert reads[0].p50_seconds is not None
        await student.press("t")
        await student.press(*f"{reads[0].p50_seconds * 1000:.1f}", "enter")
        await student.until(lambda: student.view().explanation is not None, "the explanation")
        why = student.view().explanation
        assert why is not None
        assert why.is_right is False
        assert len(why.figures) == 2
        assert "ratio" in why.figures[0]
