"""The methodology lint of an experiment, which checks its plan and prepares the checks of its measured cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    CELL_CHECKS,
    CONDITION_CHECKS,
    MEASURED_CHECKS,
    TRUSTWORTHY_REPEATS,
    CellFacts,
    stamped,
    summarised,
)
from lab.lint.fio_checks import lint_fio
from lab.lint.rules import Check, LintFinding, PublicationLint, Seen, distinct, find_rule, run_checks
from lab.measure.job import Measured
from lab.plugins import extension
from lab.results.record import CellRecord, Conditions
from lab.theory.model import nominal_rates, random_iops
from lab.units import human_bytes, human_seconds
from lab.workloads.workload import AccessPattern, Direction, Workload

_BLANK_AT_START = frozenset({DiskKind.FILE, DiskKind.SPINDLE, DiskKind.RAM, DiskKind.LOOP})


def lint_experiment(experiment: Experiment) -> tuple[LintFinding, ...]:
    """Return the findings on the plan and on its publication. Raises SpecError if the publication is unknown."""
    return distinct([*lint_plan(experiment), *_lint_publication(experiment)])


def _lint_publication(experiment: Experiment) -> Sequence[LintFinding]:
    publications = extension(PublicationLint)
    return publications.lint(experiment.publication) if experiment.publication and publications else ()


def require_sound(findings: Collection[LintFinding], experiment: Experiment, allowed: Collection[str] = ()) -> None:
    """Raise ExperimentError if a rule outside ``allowed`` refuses the run, unless the experiment ``keeps_going``.

    Raises SpecError if a rule in ``allowed`` is unknown.
    """
    for name in allowed:
        find_rule(name)
    refusing = [finding for finding in findings if finding.refuses and finding.rule_id not in allowed]
    if not refusing or experiment.keeps_going:
        return
    lines = "".join(f"\n  - {finding.stamp}" for finding in refusing)
    rules = " ".join(f"--allow {name}" for name in dict.fromkeys(finding.rule_id for finding in refusing))
    raise ExperimentError(
        f"experiment '{experiment.id}' would not measure what it claims to measure:{lines}",
        hint=f"{refusing[0].rule.remedy}; to run it anyway: {rules}",
    )


SHORTEST_IN_LATENCIES = 10
"""Minimum length of a run in mean latencies; a shorter run measures how its queue fills."""
WARMUP_IN_LATENCIES = 2
"""After this many mean latencies every request of the first burst has completed."""
SHORTEST_IN_QUEUES, WARMUP_IN_QUEUES = 3.0, 1.5
"""The same limits, in mean latencies times the requests per disk. Requests start evenly distributed, and queues drift
apart like a random walk: with q requests per disk the initial state is forgotten after about 0.8 q² service times, and
until then the array is too fast."""
ROOM_FRACTION = 0.97
"""Approximate share of an array that is left for files on ext4 without reserved blocks, or on xfs with its log."""


class Expected(NamedTuple):
    """Theory's prediction for a load on the array that is slowest to settle."""

    seconds: float
    """Mean latency."""
    queue_per_disk: float
    """Requests in flight for each disk; 0 where no queue can drift apart from another."""


class PlannedLoad(NamedTuple):
    """One load of an experiment, with the ids of the arrays on which it runs."""

    workload: Workload
    arrays: tuple[str, ...]
    expected: Expected | None


class LintedPlan(NamedTuple):
    """An experiment as written, and its loads, including the one during its rebuilds."""

    experiment: Experiment
    loads: tuple[PlannedLoad, ...]

    @classmethod
    def of(cls, experiment: Experiment) -> LintedPlan:
        rebuild = experiment.rebuild
        loads = [(job.build(), job.arrays) for job in experiment.jobs]
        if rebuild and rebuild.under:
            loads.append((rebuild.under.build(), rebuild.arrays))
        every = tuple(array.id for array in experiment.arrays)
        return cls(
            experiment,
            tuple(PlannedLoad(load, arrays or every, _expected(experiment, load, arrays)) for load, arrays in loads),
        )


def lint_plan(experiment: Experiment) -> Iterator[LintFinding]:
    """Yield all findings on the plan itself, including its literal recipes."""
    plan = LintedPlan.of(experiment)
    yield from run_checks(PLAN_CHECKS, plan)
    for load in plan.loads:
        if load.workload.recipe:
            yield from lint_fio(load.workload.recipe)


def _too_few_repeats(plan: LintedPlan) -> Iterator[Seen]:
    it = plan.experiment
    if it.repeats < TRUSTWORTHY_REPEATS:
        yield Seen(it.id, f"{it.repeats} repeats", f"{TRUSTWORTHY_REPEATS}, for an interval of 95 %")


def _ordered_runs(plan: LintedPlan) -> Iterator[Seen]:
    it = plan.experiment
    is_interleaved = it.order is Order.INTERLEAVED and not 1 < it.repeats <= it.rounds_per_build
    if not is_interleaved and len(it.arrays) * len(plan.loads) > 1:
        yield Seen(it.id, "all repeats of a configuration precede the next one", "an interleaved, random order")


def _warm_cache(plan: LintedPlan) -> Iterator[Seen]:
    if plan.experiment.cache is not Cache.COLD:
        yield Seen(plan.experiment.id, "caches are left as they are", "cold caches before each measurement")


def _unequal_members(plan: LintedPlan) -> Iterator[Seen]:
    arrays = [array for array in plan.experiment.arrays if array.level not in ("single", "adapt5")]
    if len({array.disk_count for array in arrays}) < 2:
        return
    for array in arrays:
        partners = [other for other in arrays if other.level != array.level and other.disk_count == array.disk_count]
        if not partners and len({other.level for other in arrays}) > 1:
            counts = ", ".join(f"{other.id} {other.disk_count}" for other in arrays if other is not array)
            yield Seen(array.id, f"{array.disk_count} members; others: {counts}", "another level on as many disks")


def _file_exceeds_fs(plan: LintedPlan) -> Iterator[Seen]:
    for load in plan.loads:
        file_bytes = (load.workload.file_bytes or 0) * load.workload.region_count
        for array in plan.experiment.arrays:
            usable = _usable_bytes(plan.experiment, array) if file_bytes and array.id in load.arrays else None
            if usable is not None and file_bytes > int(usable * ROOM_FRACTION):
                least = human_bytes(int(usable * ROOM_FRACTION))
                subject = f"{load.workload.id} on {array.id}"
                yield Seen(subject, f"files of {human_bytes(file_bytes)}", f"at most about {least}")


def _usable_bytes(experiment: Experiment, array: ArrayPlan) -> int | None:
    """Return the usable bytes of an array; None if they are unknown before it is built, as with existing disks."""
    if experiment.disks.kind not in _BLANK_AT_START:
        return None
    with suppress(SpecError):
        return _bytes_of_shape(msgspec.json.encode((array, experiment.disks)))
    return None


@lru_cache(maxsize=4096)
def _bytes_of_shape(shape: bytes) -> int:
    """Return the usable bytes of an array, given as JSON with its disks. Cached, because sweeps have few arrays."""
    array, plan = decode_json(shape, tuple[ArrayPlan, DiskPlan])
    disks = array.stand_ins(plan)
    return array.spec(disks).expected_bytes(disks)


def _parity_unverified(plan: LintedPlan) -> Iterator[Seen]:
    kind = plan.experiment.disks.kind
    for array in plan.experiment.arrays:
        has_parity = array.level.removeprefix("raid") in ("4", "5", "6")
        if array.assume_clean and has_parity and kind not in _BLANK_AT_START:
            yield Seen(array.id, f"assume_clean on {kind.value} disks", "blank disks, or a first resync")


def _never_written(plan: LintedPlan) -> Iterator[Seen]:
    # An emulated drive takes the same time for unallocated space as for data.
    if plan.experiment.writes_files_first or plan.experiment.disks.kind is DiskKind.SPINDLE:
        return
    for it, *_ in plan.loads:
        if it.reads and not it.recipe:
            yield Seen(it.id, "reads what was never written", "writes_files_first = true")


def _too_short_for_latency(plan: LintedPlan) -> Iterator[Seen]:
    for it, _, expected in plan.loads:
        if expected is None or it.recipe:
            continue
        least = expected.seconds * max(SHORTEST_IN_LATENCIES, SHORTEST_IN_QUEUES * expected.queue_per_disk)
        warmup = expected.seconds * max(WARMUP_IN_LATENCIES, WARMUP_IN_QUEUES * expected.queue_per_disk)
        takes = f"and an I/O should take {human_seconds(expected.seconds)}"
        if it.runtime_seconds < least:
            yield Seen(it.id, f"{it.runtime_seconds:g} s, {takes}", f"{human_seconds(least)} or more")
        elif it.warmup_seconds < warmup:
            yield Seen(it.id, f"{it.warmup_seconds:g} s of warm-up, {takes}", f"{human_seconds(warmup)} or more")


def _same_addresses(plan: LintedPlan) -> Iterator[Seen]:
    for it, *_ in plan.loads:
        # A recipe's addresses are checked on its measured cells.
        if plan.experiment.repeats > 1 and not it.vary_seed and it.pattern is AccessPattern.RANDOM and not it.recipe:
            observed = f"{plan.experiment.repeats} repeats on one sequence of addresses"
            yield Seen(it.id, observed, "a different one for each")


PLAN_CHECKS: Mapping[str, Check[LintedPlan]] = {
    "too-few-repeats": _too_few_repeats,
    "ordered-runs": _ordered_runs,
    "warm-cache": _warm_cache,
    "unequal-members": _unequal_members,
    "file-exceeds-fs": _file_exceeds_fs,
    "parity-unverified": _parity_unverified,
    "never-written": _never_written,
    "too-short-for-latency": _too_short_for_latency,
    "same-addresses": _same_addresses,
}


def _expected(experiment: Experiment, workload: Workload, arrays: Sequence[str]) -> Expected | None:
    """Predict the load on the array that is slowest to settle; None without modelled drives or for a stream."""
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
def _settled(model: str, word: str, layout: str | None, members: int, depth: int, writes: bool) -> Expected | None:
    """Predict the load on one array, or return None. The result is cached, as it is the same for all chunks."""
    disk = nominal_rates(find_drive_model(model))
    with suppress(SpecError):
        level = level_with_layout(word, layout)
        iops = random_iops(level, [disk] * members, depth, is_write=writes)
        # A mirror of all disks writes to each of them, so all queues are equal.
        is_even = members == 1 or (writes and level.name is LevelName.RAID1)
        queue = 0.0 if is_even else depth / members
        return Expected(depth / iops, queue / disk.concurrent_requests)
    return None


def lint_measured(cell: CellRecord, workload: Workload, measured: Measured) -> tuple[LintFinding, ...]:
    """Return the findings on one cell immediately after its measurement."""
    figures, members = measured.figures, measured.members
    share = members.share if members else 0.0
    facts = CellFacts(
        cell,
        is_mix=workload.direction in (Direction.MIX, Direction.VERIFY) and not workload.recipe,
        read_bytes=round(figures.reads.io_bytes * share) if figures.reads else 0,
        written_bytes=round(figures.writes.io_bytes * share) if figures.writes else 0,
        member_read_bytes=members.read_bytes if members else None,
        member_written_bytes=members.written_bytes if members else None,
        sync_actions=measured.sync_actions,
        share_measured=measured.share_measured,
    )
    return (*run_checks(MEASURED_CHECKS, facts), *run_checks(CELL_CHECKS, cell))


def stamps_of(
    experiment: Experiment, conditions: Conditions, bench: Iterable[LintFinding] = (), cells: Iterable[CellRecord] = ()
) -> tuple[str, ...]:
    """Return the stamps that lower the trust in a result, each as ``rule: sentence``. Every table shows them.

    They come from the experiment's plan, the machine's conditions, the arrays before the run, and the cells.
    """
    found = [*run_checks(CONDITION_CHECKS, conditions), *lint_plan(experiment), *bench]
    planned = {finding.rule_id for finding in found}
    cell_stamps = (finding for cell in cells for finding in stamped(cell.stamps))
    return (
        *(finding.stamp for finding in distinct(found)),
        *summarised(cell_stamps),
        # A defect of the publication's text is not a defect of this run of its recipe.
        *(f"recipe: {each.stamp}" for each in distinct(_lint_publication(experiment)) if each.rule_id not in planned),
        *(f"recipe: {defect}" for defect in experiment.defects),
    )
