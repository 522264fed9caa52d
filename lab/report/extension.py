"""What plugins can add to reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.experiments.published import Published
    from lab.report.page.build import PageGroup
    from lab.report.table import Table
    from lab.results.record import ResultRecord


class StudyReport(NamedTuple):
    """The tables and plots of a study's results, in place of the general ones."""

    study: str
    tables: Callable[[ResultRecord, Published | None], tuple[Table, ...]]
    plots: Callable[[ResultRecord], PageGroup]
