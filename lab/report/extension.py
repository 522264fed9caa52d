"""The extension points of reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from lab.plugins import extensions

if TYPE_CHECKING:
    from lab.experiments.published import Published
    from lab.report.page.blocks import PageGroup
    from lab.results.record import ResultRecord
    from lab.tables import Table


class StudyReport(NamedTuple):
    """The tables and plots of a study's results, which replace the general ones."""

    study: str
    tables: Callable[[ResultRecord, Published | None], tuple[Table, ...]]
    plots: Callable[[ResultRecord], PageGroup]


def study_report(study: str) -> StudyReport | None:
    """Return the report that a plugin adds for this study, or None."""
    return next((each for each in extensions(StudyReport) if each.study == study), None)
