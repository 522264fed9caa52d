"""What the parts of a result are called in plain words: taken from its experiment as it was run, else their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.errors import LabError
from lab.experiments.schema import Experiment
from lab.report.series import Row
from lab.results.record import ResultRecord
from lab.tomlfile import decode_toml
from lab.units import human_bytes
from lab.workloads.workload import Direction, Workload

_WAYS = {Direction.READ: "reads", Direction.WRITE: "writes"}
_LARGE_BLOCK_BYTES = 128 * 1024
"""From here on MB/s says more than I/Os per second."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Names of one result's arrays and workloads."""

    title: str
    question: str = ""
    arrays: Mapping[str, str] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)

    def array(self, name: str) -> str:
        return self.arrays.get(name) or name

    def workload(self, name: str) -> str:
        """``Random reads, 4 KiB, queue depth 4 × 4 jobs``."""
        found = self.workloads.get(name)
        if found is None or found.recipe or found.trace:
            return found.title if found else name
        # Not the catalogue's title: an experiment may have given the workload another block size.
        what = _WAYS.get(found.direction)
        title = f"{found.pattern.capitalize()} {what}, {human_bytes(found.block_bytes)}" if what else found.title
        jobs = f" × {found.jobs} jobs" if found.jobs > 1 else ""
        return f"{title}, queue depth {found.queue_depth}{jobs}"

    def in_flight(self, name: str) -> int | None:
        """I/Os that the workload keeps in flight; None where that is not known."""
        found = self.workloads.get(name)
        return found.queue_depth * found.jobs if found and not found.recipe and not found.trace else None


def labels_of(record: ResultRecord) -> Labels:
    """From the experiment's text in the record; ids alone where another raidlab wrote keys that this one has not."""
    try:
        experiment = decode_toml(record.experiment_toml, Experiment, source=f"{record.id}/experiment")
        jobs = [job.build() for job in experiment.jobs]
        if experiment.rebuild and experiment.rebuild.under:
            jobs.append(experiment.rebuild.under.build())
    except LabError:
        return Labels(record.experiment)
    return Labels(
        experiment.title,
        experiment.question,
        {plan.id: plan.label for plan in experiment.arrays},
        {job.id: job for job in jobs},
    )


def is_large(row: Row) -> bool:
    """Whether the row's I/Os are so large that MB/s are the figure to look at."""
    section = row.section(row.cells[0])
    return section.total_ios > 0 and section.io_bytes / section.total_ios >= _LARGE_BLOCK_BYTES
