"""Checks of an experiment before it runs, as specified in its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.lint.fio_checks import lint_fio
from lab.lint.rules import Check, LintFinding, Seen, run_checks
from lab.units import SECTOR_BYTES, human_bytes, human_seconds

TRUSTWORTHY_REPEATS = 6
SHORTEST_IN_LATENCIES = 10
"""Minimum length of a run in mean latencies; a shorter run measures how its queue fills."""
WARMUP_IN_LATENCIES = 2
"""After this many mean latencies every request of the first burst has completed."""
SHORTEST_IN_QUEUES, WARMUP_IN_QUEUES = 3.0, 1.5
"""The same, in mean latencies times the requests per disk. Requests start evenly distributed, and queues drift apart
like a random walk: with q requests per disk the initial state is forgotten after about 0.8 q² service times, and until
then the array is too fast."""
ROOM_FRACTION = 0.97
"""The approximate fraction of an array that a file system leaves for files: ext4 without reserved blocks, xfs with its
log."""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """One array as planned."""

    id: str
    level: str
    members: int
    usable_bytes: int | None = None
    """None: unknown before it is built."""
    assume_clean: bool = False

    @property
    def has_parity(self) -> bool:
        return self.level.removeprefix("raid") in ("4", "5", "6")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One fio job as planned."""

    id: str
    arrays: tuple[str, ...]
    """The arrays that it runs on."""
    reads: bool
    writes: bool
    block_bytes: int
    queue_depth: int
    is_asynchronous: bool
    runtime_seconds: float
    warmup_seconds: float
    total_file_bytes: int | None
    """Sum over all its jobs; None: determined by the free space."""
    recipe: str = ""
    """A literal fio job file."""
    expected_latency_seconds: float | None = None
    """The predicted mean latency on the slowest of its arrays; None: no prediction."""
    queue_per_disk: float = 0.0
    """Requests in flight for each disk of that array; 0 for a single disk: there is no other queue to drift apart
    from."""
    has_own_seeds: bool = True
    """Whether each repeat has its own addresses."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """An experiment as written."""

    id: str
    repeats: int
    is_interleaved: bool
    is_cold: bool
    writes_files_first: bool
    disk_kind: str
    disks_start_blank: bool
    arrays: tuple[ArrayFacts, ...]
    jobs: tuple[JobFacts, ...]


def lint_plan(plan: PlanFacts) -> Iterator[LintFinding]:
    """All findings possible before the start."""
    yield from run_checks(CHECKS, plan)
    for job in plan.jobs:
        if job.recipe:
            yield from lint_fio(job.recipe)


def _too_few_repeats(plan: PlanFacts) -> Iterator[Seen]:
    if plan.repeats < TRUSTWORTHY_REPEATS:
        yield Seen(plan.id, f"{plan.repeats} repeats", f"{TRUSTWORTHY_REPEATS}, for an interval of 95 %")


def _ordered_runs(plan: PlanFacts) -> Iterator[Seen]:
    if not plan.is_interleaved and len(plan.arrays) * len(plan.jobs) > 1:
        yield Seen(plan.id, "each configuration is measured to its end before the next", "an interleaved, drawn order")


def _warm_cache(plan: PlanFacts) -> Iterator[Seen]:
    if not plan.is_cold:
        yield Seen(plan.id, "caches are left as they are", "cold caches before each measurement")


def _unequal_members(plan: PlanFacts) -> Iterator[Seen]:
    arrays = [array for array in plan.arrays if array.level not in ("single", "adapt5")]
    if len({array.members for array in arrays}) < 2:
        return
    for array in arrays:
        partners = [other for other in arrays if other.level != array.level and other.members == array.members]
        if not partners and len({other.level for other in arrays}) > 1:
            counts = ", ".join(f"{other.id} {other.members}" for other in arrays if other is not array)
            yield Seen(array.id, f"{array.members} members; others: {counts}", "another level on as many disks")


def _file_exceeds_fs(plan: PlanFacts) -> Iterator[Seen]:
    for job in plan.jobs:
        for array in plan.arrays:
            if array.id in job.arrays and job.total_file_bytes and array.usable_bytes is not None:
                room = int(array.usable_bytes * ROOM_FRACTION)
                if job.total_file_bytes > room:
                    wanted = human_bytes(job.total_file_bytes)
                    yield Seen(f"{job.id} on {array.id}", f"files of {wanted}", f"at most about {human_bytes(room)}")


def _parity_unverified(plan: PlanFacts) -> Iterator[Seen]:
    for array in plan.arrays:
        if array.assume_clean and array.has_parity and not plan.disks_start_blank:
            yield Seen(array.id, f"assume_clean on {plan.disk_kind} disks", "blank disks, or a first resync")


def _never_written(plan: PlanFacts) -> Iterator[Seen]:
    # An emulated drive takes the same time for unallocated space as for data.
    if plan.writes_files_first or plan.disk_kind == "spindle":
        return
    for job in plan.jobs:
        if job.reads and not job.recipe:
            yield Seen(job.id, "reads what was never written", "writes_files_first = true")


def _depth_without_async(plan: PlanFacts) -> Iterator[Seen]:
    for job in plan.jobs:
        if job.queue_depth > 1 and not job.is_asynchronous:
            yield Seen(job.id, f"depth {job.queue_depth} with an engine that waits", "libaio or io_uring")


def _runtime_short(plan: PlanFacts) -> Iterator[Seen]:
    for job in plan.jobs:
        if job.runtime_seconds < job.warmup_seconds:
            observed = f"{job.runtime_seconds:g} s measured after {job.warmup_seconds:g} s of warm-up"
            yield Seen(job.id, observed, "at least as long as the warm-up")


def _too_short_for_latency(plan: PlanFacts) -> Iterator[Seen]:
    for job in plan.jobs:
        expected = job.expected_latency_seconds
        if expected is None or job.recipe:
            continue
        least = expected * max(SHORTEST_IN_LATENCIES, SHORTEST_IN_QUEUES * job.queue_per_disk)
        warmup = expected * max(WARMUP_IN_LATENCIES, WARMUP_IN_QUEUES * job.queue_per_disk)
        if job.runtime_seconds < least:
            observed = f"{job.runtime_seconds:g} s, and an I/O should take {human_seconds(expected)}"
            yield Seen(job.id, observed, f"{human_seconds(least)} or more")
        elif job.warmup_seconds < warmup:
            observed = f"{job.warmup_seconds:g} s of warm-up, and an I/O should take {human_seconds(expected)}"
            yield Seen(job.id, observed, f"{human_seconds(warmup)} or more")


def _same_addresses(plan: PlanFacts) -> Iterator[Seen]:
    for job in plan.jobs:
        if plan.repeats > 1 and not job.has_own_seeds:
            yield Seen(job.id, f"{plan.repeats} repeats on one sequence of addresses", "another one for each")


def _misaligned(plan: PlanFacts) -> Iterator[Seen]:
    for job in plan.jobs:
        if job.block_bytes % SECTOR_BYTES:
            yield Seen(job.id, f"blocks of {job.block_bytes} bytes", f"a multiple of {SECTOR_BYTES}")


CHECKS: Mapping[str, Check[PlanFacts]] = {
    "too-few-repeats": _too_few_repeats,
    "ordered-runs": _ordered_runs,
    "warm-cache": _warm_cache,
    "unequal-members": _unequal_members,
    "file-exceeds-fs": _file_exceeds_fs,
    "parity-unverified": _parity_unverified,
    "never-written": _never_written,
    "depth-without-async": _depth_without_async,
    "runtime-short": _runtime_short,
    "too-short-for-latency": _too_short_for_latency,
    "same-addresses": _same_addresses,
    "misaligned": _misaligned,
}
