"""Checks of an experiment as its file specifies it, of a machine right before measuring, and of each cell after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lab.lint.fio_checks import lint_fio
from lab.lint.rules import Check, LintFinding, Seen, run_checks
from lab.units import MIB, SECTOR_BYTES, human_bytes, human_seconds

TRUSTWORTHY_REPEATS = 6
SHORTEST_IN_LATENCIES = 10
"""Minimum length of a run in mean latencies; a shorter run measures how its queue fills."""
WARMUP_IN_LATENCIES = 2
"""After this many mean latencies every request of the first burst has completed."""
SHORTEST_IN_QUEUES, WARMUP_IN_QUEUES = 3.0, 1.5
"""The same limits, in mean latencies times the requests per disk. Requests start evenly distributed, and queues drift
apart like a random walk: with q requests per disk the initial state is forgotten after about 0.8 q² service times, and
until then the array is too fast."""
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


FEWEST_FOR_P99 = 1_000
IDLE_ACTIONS = frozenset({"", "idle", "frozen"})
MOST_STEAL_FRACTION = 0.02
MOST_CACHED_FRACTION = 0.05
MOST_WAITED_FRACTION = 0.10
"""A measurement was disturbed if the machine waited longer than this for a processor."""
_PHASES_WITH_SYNC = frozenset({"rebuilding"})


LEAST_SHARE_MEASURED = 0.8
"""Minimum share of the requested time; if fio's documents are late, there is less time between them."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The state of one member, or array, on the machine."""

    name: str
    size_bytes: int
    is_counted: bool = True
    """queue/iostats."""
    loop_direct: bool | None = None
    """loop/dio; None if it is not a loop device."""
    holders: tuple[str, ...] = ()
    sync_action: str = ""
    """md's sync_action, for an array."""


@dataclass(frozen=True, slots=True)
class LintedMachine:
    """State of the machine, read immediately before measuring."""

    devices: tuple[DeviceFacts, ...]
    debug_options: tuple[str, ...] = ()
    """Kernel options that enable run-time checks in the running kernel."""
    expected_holders: dict[str, str] = field(default_factory=dict)
    """Device -> its expected array."""


@dataclass(frozen=True, slots=True)
class CellFacts:
    """One measured cell, with the samples taken during the measurement."""

    name: str
    phase: str
    is_mix: bool
    read_bytes: int = 0
    written_bytes: int = 0
    """fio's I/O while the members were monitored."""
    member_read_bytes: int | None = None
    member_written_bytes: int | None = None
    sync_actions: frozenset[str] = frozenset()
    steal_fraction: float | None = None
    waited_fraction: float | None = None
    share_measured: float = 1.0
    is_steady: bool | None = None
    steady_words: str = ""
    fewest_ios: int | None = None
    """I/Os of the direction with the fewest; None if there are no percentiles."""
    is_cold: bool = True
    declared_cold: bool = True


def lint_cell(cell: CellFacts) -> Iterator[LintFinding]:
    """All findings for the cell."""
    yield from run_checks(CELL_CHECKS, cell)


def _resync_running(cell: CellFacts) -> Iterator[Seen]:
    busy = sorted(cell.sync_actions - IDLE_ACTIONS)
    if busy and cell.phase not in _PHASES_WITH_SYNC:
        yield Seen(cell.name, f"sync_action was {', '.join(busy)}", "idle in every sample")


def _mixed_directions(cell: CellFacts) -> Iterator[Seen]:
    if cell.read_bytes and cell.written_bytes and not cell.is_mix:
        yield Seen(cell.name, "reads and writes in one job", "one direction, or a declared mix")


def _io_not_on_members(cell: CellFacts) -> Iterator[Seen]:
    pairs = (
        ("read", cell.read_bytes, cell.member_read_bytes),
        # Every level writes each byte to at least one member.
        ("wrote", cell.written_bytes, cell.member_written_bytes),
    )
    for word, job_bytes, member_bytes in pairs:
        if member_bytes is None or job_bytes < MIB:
            continue
        if job_bytes > (1 + MOST_CACHED_FRACTION) * member_bytes:
            observed = f"fio {word} {human_bytes(job_bytes)}, the members {human_bytes(member_bytes)}"
            yield Seen(cell.name, observed, "as much on the members")


def _unsteady(cell: CellFacts) -> Iterator[Seen]:
    if cell.is_steady is False:
        yield Seen(cell.name, cell.steady_words, "range 20 % and slope 10 % at most")


def _too_few_samples(cell: CellFacts) -> Iterator[Seen]:
    if cell.fewest_ios is not None and cell.fewest_ios < FEWEST_FOR_P99:
        yield Seen(cell.name, f"p99 of {cell.fewest_ios} I/Os", f"{FEWEST_FOR_P99}")


def _noisy_neighbour(cell: CellFacts) -> Iterator[Seen]:
    if cell.steal_fraction is not None and cell.steal_fraction > MOST_STEAL_FRACTION:
        yield Seen(cell.name, f"{cell.steal_fraction:.0%} of CPU time was stolen", f"{MOST_STEAL_FRACTION:.0%} at most")


def _disturbed(cell: CellFacts) -> Iterator[Seen]:
    if cell.share_measured < LEAST_SHARE_MEASURED:
        observed = f"fio was held up: {cell.share_measured:.0%} of the time that was asked for was measured"
        yield Seen(cell.name, observed, f"{LEAST_SHARE_MEASURED:.0%} or more")
    if cell.waited_fraction is not None and cell.waited_fraction > MOST_WAITED_FRACTION:
        observed = f"the machine waited for a processor in {cell.waited_fraction:.0%} of the time"
        yield Seen(cell.name, observed, f"{MOST_WAITED_FRACTION:.0%} at most")


def _cell_warm_cache(cell: CellFacts) -> Iterator[Seen]:
    if cell.declared_cold and not cell.is_cold:
        yield Seen(cell.name, "no cache was emptied before it", "unmount, drop_caches, mount")


CELL_CHECKS: Mapping[str, Check[CellFacts]] = {
    "resync-running": _resync_running,
    "mixed-directions": _mixed_directions,
    "io-not-on-members": _io_not_on_members,
    "unsteady": _unsteady,
    "too-few-samples": _too_few_samples,
    "noisy-neighbour": _noisy_neighbour,
    "disturbed": _disturbed,
    "warm-cache": _cell_warm_cache,
}


def lint_machine(machine: LintedMachine) -> Iterator[LintFinding]:
    """All findings for the machine."""
    yield from run_checks(MACHINE_CHECKS, machine)


def _member_reused(machine: LintedMachine) -> Iterator[Seen]:
    for device in machine.devices:
        wanted = machine.expected_holders.get(device.name)
        strangers = [holder for holder in device.holders if holder != wanted]
        if device.name in machine.expected_holders and strangers:
            yield Seen(device.name, f"is used by {', '.join(strangers)}", f"no user beside {wanted or 'none'}")


def _loop_buffered(machine: LintedMachine) -> Iterator[Seen]:
    for device in machine.devices:
        if device.loop_direct is False:
            yield Seen(device.name, "loop/dio is 0", "1")


def _device_missing(machine: LintedMachine) -> Iterator[Seen]:
    for device in machine.devices:
        if device.size_bytes <= 0:
            yield Seen(device.name, "is not there, or has no size", "a block device with a size")


def _array_syncs(machine: LintedMachine) -> Iterator[Seen]:
    for device in machine.devices:
        if device.sync_action not in IDLE_ACTIONS:
            yield Seen(device.name, f"sync_action is {device.sync_action}", "idle")


def _stats_off(machine: LintedMachine) -> Iterator[Seen]:
    for device in machine.devices:
        if not device.is_counted:
            yield Seen(device.name, "queue/iostats is 0", "1")


def _debug_kernel(machine: LintedMachine) -> Iterator[Seen]:
    if machine.debug_options:
        yield Seen("kernel", f"has {', '.join(machine.debug_options)}", "a kernel without them")


MACHINE_CHECKS: Mapping[str, Check[LintedMachine]] = {
    "device-missing": _device_missing,
    "member-reused": _member_reused,
    "loop-buffered": _loop_buffered,
    "resync-running": _array_syncs,
    "stats-off": _stats_off,
    "debug-kernel": _debug_kernel,
}
