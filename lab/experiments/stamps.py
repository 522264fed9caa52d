"""Stamps: what lowers trust in a result, each as ``rule: sentence``. They travel with the result into every table."""

from __future__ import annotations

from collections.abc import Iterator

from lab.disks.kinds import DiskKind
from lab.experiments.schema import Cache, Experiment, Order
from lab.results.record import Conditions

TRUSTWORTHY_REPEATS = 6


def stamps_of(experiment: Experiment, conditions: Conditions) -> tuple[str, ...]:
    """All stamps that follow from the plan and the conditions."""
    return tuple(_stamps(experiment, conditions))


def _stamps(experiment: Experiment, conditions: Conditions) -> Iterator[str]:
    if conditions.is_embedded:
        clock = ", in virtual time" if conditions.is_virtual_time else ""
        yield f"simulated-origin: measured on an embedded kernel{clock}: compare ratios, never absolute IOPS or CPU"
    if any(disk.kind == DiskKind.SPINDLE for disk in conditions.disks):
        yield "simulated-origin: the disks are emulated drives with a constant service time"
    if conditions.host_cache_notes:
        yield f"host-cache-on: {'; '.join(conditions.host_cache_notes)}"
    if experiment.repeats < TRUSTWORTHY_REPEATS:
        yield f"too-few-repeats: {experiment.repeats} repeats; six are needed for an interval of 95 %"
    if experiment.order is Order.LISTED and experiment.repeats > 1:
        yield "ordered-runs: repeats were not interleaved, so drift looks like a difference between levels"
    if experiment.cache is Cache.WARM:
        yield "warm-cache: caches were not emptied before each job"
    if len({disk.kind for disk in conditions.disks} & {"file", "loop"}) and len(conditions.disks) > 1:
        yield "shared-backing-disk: all members lie on one disk of the computer"
    for defect in experiment.defects:
        yield f"recipe: {defect}"
