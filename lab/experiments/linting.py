"""Input of the methodology lint: the plan of an experiment, the machine before a run, each measured cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import msgspec

from lab.arrays.levels import LevelName, level_with_layout
from lab.disks.kinds import DiskKind, find_drive_model
from lab.errors import ExperimentError, SpecError
from lab.experiments.schema import ArrayPlan, Cache, DiskPlan, Experiment, Order
from lab.gates.decoding import decode_json
from lab.lint.experiment_checks import (
    ArrayFacts,
    CellFacts,
    JobFacts,
    PlanFacts,
    lint_cell,
    lint_conditions,
    lint_plan,
    stamped,
    steady_words,
    summarised,
)
from lab.lint.rules import LintFinding, PublicationLint, distinct, find_rule
from lab.measure.job import Measured
from lab.plugins import extension
from lab.results.record import CellRecord, Conditions
from lab.theory.model import nominal_rates, random_read_iops, random_write_iops
from lab.workloads.workload import SYNCHRONOUS_ENGINES, AccessPattern, Direction, Workload

_BLANK_AT_START = frozenset({DiskKind.FILE, DiskKind.SPINDLE, DiskKind.RAM, DiskKind.LOOP})


def lint_experiment(experiment: Experiment) -> tuple[LintFinding, ...]:
    """All findings available before a run starts: those of the plan and of the publication that it repeats.

    Raises SpecError for an unknown publication.
    """
    found = list(lint_plan(plan_facts(experiment)))
    publications = extension(PublicationLint)
    if experiment.publication and publications:
        found += publications.lint(experiment.publication)
    return distinct(found)


def require_sound(findings: Collection[LintFinding], experiment: Experiment, allowed: Collection[str] = ()) -> None:
    """Raises ExperimentError for rules that refuse the run, unless allowed by name or the experiment ``keeps_going``.

    Raises SpecError for an unknown rule in ``allowed``.
    """
    for name in allowed:
        find_rule(name)
    refusing = [finding for finding in findings if finding.refuses and finding.rule_id not in allowed]
    if not refusing or experiment.keeps_going:
        return
    lines = "".join(f"\n  - {finding.stamp}" for finding in refusing)
    rules = " ".join(f"--allow {name}" for name in dict.fromkeys(finding.rule_id for finding in refusing))
    raise ExperimentError(
        f"experiment '{experiment.id}' would measure something other than it says:{lines}",
        hint=f"{refusing[0].rule.remedy}; to run it all the same: {rules}",
    )


def plan_facts(experiment: Experiment) -> PlanFacts:
    """The facts of an experiment for the plan checks."""
    kind = experiment.disks.kind
    under = experiment.rebuild.under if experiment.rebuild else None
    jobs = [_job_facts(experiment, job.build(), job.arrays) for job in experiment.jobs]
    if experiment.rebuild and under:
        jobs.append(_job_facts(experiment, under.build(), experiment.rebuild.arrays))
    return PlanFacts(
        id=experiment.id,
        repeats=experiment.repeats,
        is_interleaved=experiment.order is Order.INTERLEAVED
        and not 1 < experiment.repeats <= experiment.rounds_per_build,
        is_cold=experiment.cache is Cache.COLD,
        writes_files_first=experiment.writes_files_first,
        disk_kind=kind.value,
        disks_start_blank=kind in _BLANK_AT_START,
        arrays=tuple(_array_facts(experiment, array) for array in experiment.arrays),
        jobs=tuple(jobs),
    )


def _array_facts(experiment: Experiment, array: ArrayPlan) -> ArrayFacts:
    usable = None
    # The size of existing disks is not known in advance.
    if experiment.disks.kind in _BLANK_AT_START:
        with suppress(SpecError):
            usable = _usable_bytes(msgspec.json.encode((array, experiment.disks)))
    return ArrayFacts(array.id, array.level, array.disk_count, usable, array.assume_clean)


@lru_cache(maxsize=4096)
def _usable_bytes(shape: bytes) -> int:
    """Usable bytes of an array and its disks, given as JSON. A sweep has thousands of loads on few arrays."""
    array, plan = decode_json(shape, tuple[ArrayPlan, DiskPlan])
    disks = array.stand_ins(plan)
    return array.spec(disks).expected_bytes(disks)


def _job_facts(experiment: Experiment, workload: Workload, arrays: Sequence[str]) -> JobFacts:
    expected = _expected(experiment, workload, arrays)
    return JobFacts(
        id=workload.id,
        arrays=tuple(arrays) or tuple(array.id for array in experiment.arrays),
        reads=workload.reads,
        writes=workload.writes,
        block_bytes=workload.block_bytes,
        queue_depth=workload.queue_depth,
        is_asynchronous=workload.engine not in SYNCHRONOUS_ENGINES,
        runtime_seconds=workload.runtime_seconds,
        warmup_seconds=workload.warmup_seconds,
        total_file_bytes=workload.file_bytes * workload.region_count if workload.file_bytes else None,
        recipe=workload.recipe,
        expected_latency_seconds=expected.seconds if expected else None,
        queue_per_disk=expected.queue_per_disk if expected else 0.0,
        # A recipe may have its own seeds or none: this is checked on the measured cells.
        has_own_seeds=workload.vary_seed or workload.pattern is not AccessPattern.RANDOM or bool(workload.recipe),
    )


class _Expected(NamedTuple):
    """Theory's prediction for a load on one array."""

    seconds: float
    """Mean latency."""
    queue_per_disk: float


def _expected(experiment: Experiment, workload: Workload, arrays: Sequence[str]) -> _Expected | None:
    """Closed-form prediction for the array that settles last; None without modelled drives, or for a stream."""
    plain = workload.pattern is AccessPattern.RANDOM and not workload.recipe and not workload.trace
    if not experiment.disks.model or experiment.disks.pools or not plain:
        return None
    found = [
        _settled(
            experiment.disks.model, plan.level, plan.layout, plan.disk_count, workload.depth_total, workload.writes
        )
        for plan in experiment.arrays
        if not plan.is_volume and (not arrays or plan.id in arrays)
    ]
    known = [each for each in found if each]
    return max(known, key=lambda each: each.seconds * max(1.0, each.queue_per_disk), default=None)


@lru_cache(maxsize=4096)
def _settled(model: str, word: str, layout: str | None, members: int, depth: int, writes: bool) -> _Expected | None:
    """Prediction for one array; None without one. Cached: it is the same for each chunk and block size of a sweep."""
    disk = nominal_rates(find_drive_model(model))
    form = random_write_iops if writes else random_read_iops
    with suppress(SpecError):
        level = level_with_layout(word, layout)
        iops = form(level, [disk] * members, depth).value
        # A mirror of all disks writes to each of them, so all queues are equal.
        is_even = members == 1 or (writes and level.name is LevelName.RAID1)
        queue = 0.0 if is_even else depth / members
        return _Expected(depth / iops, queue / disk.concurrent_requests)
    return None


def lint_measured(
    name: str, phase: str, workload: Workload, measured: Measured, *, declared_cold: bool, is_cold: bool
) -> tuple[LintFinding, ...]:
    """Findings on one cell, immediately after its measurement."""
    figures = measured.figures
    sections = [section for section in (figures.reads, figures.writes) if section]
    percentiles = [section.total_ios for section in sections if section.p99_seconds is not None]
    steady, members = measured.steady, measured.members
    share = members.share if members else 0.0
    facts = CellFacts(
        name=name,
        phase=phase,
        is_mix=workload.direction in (Direction.MIX, Direction.VERIFY) and not workload.recipe,
        read_bytes=round(figures.reads.io_bytes * share) if figures.reads else 0,
        written_bytes=round(figures.writes.io_bytes * share) if figures.writes else 0,
        member_read_bytes=members.read_bytes if members else None,
        member_written_bytes=members.written_bytes if members else None,
        sync_actions=measured.sync_actions,
        steal_fraction=measured.cpu.steal_fraction if measured.cpu else None,
        waited_fraction=measured.waited_fraction,
        share_measured=measured.share_measured,
        is_steady=steady.is_steady if steady else None,
        steady_words=steady_words(steady.range_fraction, steady.slope_fraction) if steady else "",
        fewest_ios=min(percentiles, default=None),
        is_cold=is_cold,
        declared_cold=declared_cold,
    )
    return tuple(lint_cell(facts))


def stamps_of(
    experiment: Experiment, conditions: Conditions, bench: Iterable[LintFinding] = (), cells: Iterable[CellRecord] = ()
) -> tuple[str, ...]:
    """Stamps that lower trust in a result, each as ``rule: sentence``; they are shown with it in every table.

    They come from its plan, the machine's conditions, its arrays before the run and its cells.
    """
    found = [*lint_conditions(conditions), *lint_plan(plan_facts(experiment)), *bench]
    planned = {finding.rule_id for finding in found}
    cell_stamps = (finding for cell in cells for finding in stamped(cell.stamps))
    return (
        *(finding.stamp for finding in distinct(found)),
        *summarised(cell_stamps),
        # A defect of the publication's text is not a defect of this run of its recipe.
        *(f"recipe: {each.stamp}" for each in lint_experiment(experiment) if each.rule_id not in planned),
        *(f"recipe: {defect}" for defect in experiment.defects),
    )
