"""Checks of a machine before measuring, of each cell, and of a result. For plans, see lab.experiments.linting.

The checks of a stored result cover its machine, the contents of its cells, and how its figures compare with theory. A
figure that differs from theory is reported with the causes for which the record contains evidence. If there is no
prediction because no disk has a known service time, the check reports what limited the figure instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from lab.disks.kinds import find_drive_model
from lab.errors import LabError
from lab.lint.rules import Check, LintFinding, Seen, all_rules, distinct, run_checks
from lab.results.record import REBUILDING, CellRecord, Conditions, RebuildRecord, ResultRecord, RunStatus
from lab.results.rows import grouped
from lab.results.statistics import Estimate, estimate, looks_of
from lab.units import MIB, human_bytes
from lab.workloads.fio_output import JobFigures
from lab.workloads.jobs import deaf_jobs, fingerprint

TRUSTWORTHY_REPEATS = 6
FEWEST_FOR_P99 = 1_000
IDLE_ACTIONS = frozenset({"", "idle", "frozen"})
MOST_STEAL_FRACTION = 0.02
MOST_CACHED_FRACTION = 0.05
MOST_WAITED_FRACTION = 0.10
"""A measurement was disturbed if the machine waited longer than this for a processor."""
LEAST_SHARE_MEASURED = 0.8
"""At least this share of the requested time must be measured. Less is measured if fio's status documents come late."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The state of one member or array on the machine."""

    name: str
    size_bytes: int
    is_counted: bool = True
    """queue/iostats."""
    loop_direct: bool | None = None
    """Whether loop/dio is set, or None if this is not a loop device."""
    holders: tuple[str, ...] = ()
    sync_action: str = ""


@dataclass(frozen=True, slots=True)
class LintedMachine:
    """The state of the machine, read immediately before measuring."""

    devices: tuple[DeviceFacts, ...]
    debug_options: tuple[str, ...] = ()
    expected_holders: dict[str, str] = field(default_factory=dict)
    """The array that each device is expected to belong to."""


@dataclass(frozen=True, slots=True)
class CellFacts:
    """One measured cell, with facts that are known only during its measurement."""

    cell: CellRecord
    is_mix: bool
    read_bytes: int = 0
    written_bytes: int = 0
    """fio's I/O while the members were monitored."""
    member_read_bytes: int | None = None
    member_written_bytes: int | None = None
    sync_actions: frozenset[str] = frozenset()
    share_measured: float = 1.0


def _resync_running(facts: CellFacts) -> Iterator[Seen]:
    busy = sorted(facts.sync_actions - IDLE_ACTIONS)
    if busy and facts.cell.phase != REBUILDING:
        yield Seen(facts.cell.key, f"sync_action was {', '.join(busy)}", "idle in every sample")


def _mixed_directions(facts: CellFacts) -> Iterator[Seen]:
    if facts.read_bytes and facts.written_bytes and not facts.is_mix:
        yield Seen(facts.cell.key, "reads and writes in one job", "one direction, or a declared mix")


def _io_not_on_members(facts: CellFacts) -> Iterator[Seen]:
    pairs = (
        ("read", facts.read_bytes, facts.member_read_bytes),
        # Every level writes each byte to at least one member.
        ("wrote", facts.written_bytes, facts.member_written_bytes),
    )
    for word, job_bytes, member_bytes in pairs:
        if member_bytes is None or job_bytes < MIB:
            continue
        if job_bytes > (1 + MOST_CACHED_FRACTION) * member_bytes:
            observed = f"fio {word} {human_bytes(job_bytes)}, the members {human_bytes(member_bytes)}"
            yield Seen(facts.cell.key, observed, "as much on the members")


def _delayed(facts: CellFacts) -> Iterator[Seen]:
    if facts.share_measured < LEAST_SHARE_MEASURED:
        observed = f"fio was delayed: {facts.share_measured:.0%} of the requested time was measured"
        yield Seen(facts.cell.key, observed, f"{LEAST_SHARE_MEASURED:.0%} or more")


MEASURED_CHECKS: Mapping[str, Check[CellFacts]] = {
    "resync-running": _resync_running,
    "mixed-directions": _mixed_directions,
    "io-not-on-members": _io_not_on_members,
    "disturbed": _delayed,
}


def _unsteady(cell: CellRecord) -> Iterator[Seen]:
    if (found := cell.steady) and not found.is_steady:
        both = f"a range of {found.range_fraction:.0%} and a slope of {found.slope_fraction:.0%}"
        yield Seen(cell.key, f"five slices with {both} of their mean", "range 20 % and slope 10 % at most")


def _too_few_samples(cell: CellRecord) -> Iterator[Seen]:
    fewest = fewest_ios(cell.figures)
    if fewest is not None and fewest < FEWEST_FOR_P99:
        yield Seen(cell.key, f"p99 of {fewest} I/Os", f"{FEWEST_FOR_P99}")


def _noisy_neighbour(cell: CellRecord) -> Iterator[Seen]:
    stolen = cell.cpu.steal_fraction if cell.cpu else None
    if stolen is not None and stolen > MOST_STEAL_FRACTION:
        yield Seen(cell.key, f"{stolen:.0%} of CPU time was stolen", f"{MOST_STEAL_FRACTION:.0%} at most")


def _disturbed(cell: CellRecord) -> Iterator[Seen]:
    if cell.waited_fraction is not None and cell.waited_fraction > MOST_WAITED_FRACTION:
        observed = f"the machine waited for a processor for {cell.waited_fraction:.0%} of the time"
        yield Seen(cell.key, observed, f"{MOST_WAITED_FRACTION:.0%} at most")


CELL_CHECKS: Mapping[str, Check[CellRecord]] = {
    "unsteady": _unsteady,
    "too-few-samples": _too_few_samples,
    "noisy-neighbour": _noisy_neighbour,
    "disturbed": _disturbed,
}


def _member_reused(machine: LintedMachine) -> Iterator[Seen]:
    for device in machine.devices:
        expected = machine.expected_holders.get(device.name)
        strangers = [holder for holder in device.holders if holder != expected]
        if device.name in machine.expected_holders and strangers:
            needed = f"no user other than {expected}" if expected else "no user"
            yield Seen(device.name, f"is used by {', '.join(strangers)}", needed)


def _if_any(is_wrong: Callable[[DeviceFacts], bool], observed: str, needed: str) -> Check[LintedMachine]:
    """Return a check that examines each device, and reports every violation with the same text, ``observed``."""

    def check(machine: LintedMachine) -> Iterator[Seen]:
        for device in machine.devices:
            if is_wrong(device):
                yield Seen(device.name, observed, needed)

    return check


def _array_syncs(machine: LintedMachine) -> Iterator[Seen]:
    for device in machine.devices:
        if device.sync_action not in IDLE_ACTIONS:
            yield Seen(device.name, f"sync_action is {device.sync_action}", "idle")


def _debug_kernel(machine: LintedMachine) -> Iterator[Seen]:
    if machine.debug_options:
        yield Seen("kernel", f"has {', '.join(machine.debug_options)}", "a kernel without them")


MACHINE_CHECKS: Mapping[str, Check[LintedMachine]] = {
    "device-missing": _if_any(
        lambda it: it.size_bytes <= 0, "does not exist, or has no size", "a block device with a size"
    ),
    "member-reused": _member_reused,
    "loop-buffered": _if_any(lambda it: it.loop_direct is False, "loop/dio is 0", "1"),
    "resync-running": _array_syncs,
    "stats-off": _if_any(lambda it: not it.is_counted, "queue/iostats is 0", "1"),
    "debug-kernel": _debug_kernel,
}


AGREEMENT_FRACTION = 0.05
"""An interval that comes within this fraction of theory agrees with it."""
BUSY_FRACTION = 0.85
"""A processor counts as the limit if at least this fraction of it is busy. The fraction is below 1 because /proc/stat
counts whole ticks, and because a machine that waits for its own interrupts is idle."""
DRAIN_FRACTION = 0.02
"""The drain of a queue is not reported if it takes at most this fraction of the measured time."""
REBUILD = "rebuild"
"""The name of a rebuild's figure contains this word in place of a workload."""
PROBE_REQUEST_BYTES = MIB
"""Request size of the workload seq-read-1m, which measures a drive's speed. A rebuild's prediction uses this speed."""
IDLE = "idle"
_DISTURBED = ("disturbed", "noisy-neighbour", "resync-running", "unsteady")
_CACHED = "io-not-on-members"
_TOO_SHORT = "too-short-for-latency"
_RUNTIME = re.compile(r"^runtime=([0-9]{1,12})(ms|s)?\s*$", re.MULTILINE)
_RAMP = re.compile(r"^ramp_time=", re.MULTILINE)
_SHARES = (1e-6, 1e6)
"""Limits of measured ÷ predicted. A record from an unknown source may contain unrealistic values outside them."""
_WITHOUT_SERVICE_TIME = frozenset({"file", "loop", "ram"})


@dataclass(frozen=True, slots=True)
class BesideTheory:
    """All repeats of one array, workload and phase, with the prediction. A mix has one figure for both directions."""

    array: str
    workload: str
    phase: str
    share: Estimate
    """Measured ÷ predicted."""
    limiters: tuple[str, ...] = ()
    """The possible causes, with the best supported ones first, or none if the figure agrees with theory."""

    @property
    def is_off(self) -> bool:
        """Whether the whole interval differs from theory. False for a single repeat, which has no interval."""
        return self.share.n > 1 and not (
            self.share.low <= 1 + AGREEMENT_FRACTION and self.share.high >= 1 - AGREEMENT_FRACTION
        )

    @property
    def name(self) -> str:
        """The figure's name, for example ``raid5/rand-read-4k/healthy``."""
        return f"{self.array}/{self.workload}/{self.phase}"

    @property
    def words(self) -> str:
        """The figure as text, such as ``0.80 [0.78–0.83] of theory; likely: …``."""
        return f"{self.share.text()} of theory; likely: {'; or '.join(self.limiters)}"


def beside_theory(record: ResultRecord) -> tuple[BesideTheory, ...]:
    """Return all figures that were both measured and predicted, in the order of the record."""
    predicted = [
        cell
        for cell in record.cells
        if cell.predicted_iops and _SHARES[0] < _total_iops(cell) / cell.predicted_iops < _SHARES[1]
    ]
    looks = looks_of(record.experiment_toml)
    beside = []
    for key, cells in _by_load(predicted).items():
        share = estimate([_total_iops(cell) / (cell.predicted_iops or 1.0) for cell in cells], looks)
        limiters = _limiters(cells, record.conditions, is_above=share.median > 1)
        beside.append(_explained(BesideTheory(*key, share), limiters))
    return tuple(beside)


def _by_load(cells: Iterable[CellRecord]) -> dict[tuple[str, str, str], list[CellRecord]]:
    return grouped(cells, lambda cell: (cell.array, cell.workload, cell.phase))


def _explained(found: BesideTheory, limiters: Iterable[str]) -> BesideTheory:
    if not found.is_off:
        return found
    return replace(found, limiters=tuple(limiters) or ("something that the model leaves out",))


def rebuilds_beside_theory(record: ResultRecord) -> tuple[BesideTheory, ...]:
    """Return the speed of every rebuild for which there is a prediction, in the order of the record."""
    predicted = [
        each
        for each in record.rebuilds
        if each.predicted_seconds
        and each.rebuild_seconds
        and _SHARES[0] < each.predicted_seconds / each.rebuild_seconds < _SHARES[1]
    ]
    beside = []
    for key, group in grouped(predicted, lambda each: (each.array, REBUILD, each.under_workload or IDLE)).items():
        share = estimate([(each.predicted_seconds or 0.0) / each.rebuild_seconds for each in group])
        limiters = _rebuild_limiters(group, is_above=share.median > 1)
        beside.append(_explained(BesideTheory(*key, share), limiters))
    return tuple(beside)


def _rebuild_limiters(group: Sequence[RebuildRecord], *, is_above: bool) -> Iterator[str]:
    if is_above:
        yield "a cache below the machine"
        return
    if group[0].under_workload:
        yield "the load during the rebuild, to which md yields (sync_speed_min)"
    sizes = [each.request_bytes for each in group if each.request_bytes is not None]
    if sizes and median(sizes) < PROBE_REQUEST_BYTES:
        asked, probed = human_bytes(median(sizes)), human_bytes(PROBE_REQUEST_BYTES)
        yield f"md requests {asked} at a time on average, but the drives' speed was measured with requests of {probed}"


def _total_iops(cell: CellRecord) -> float:
    """Return the sum of the IOPS of reads and writes, because a prediction covers both."""
    return sum(section.iops for section in cell.figures.sections.values())


def _limiters(cells: Sequence[CellRecord], conditions: Conditions, *, is_above: bool) -> Iterator[str]:
    stamps = [_rule_of(stamp) for cell in cells for stamp in cell.stamps]
    if cells[0].is_sequential:
        yield "how requests are merged on the way to the drives"
    if _CACHED in stamps or (is_above and conditions.host_cache_notes):
        yield "a cache: fio moved more than the members did" if _CACHED in stamps else "a cache below the machine"
    elif is_above:
        yield "requests that were merged, or answered without a drive (md's stripe cache)"
    if not is_above:
        yield from _slowed(cells, conditions)
    disturbed = [name for name in _DISTURBED if name in stamps]
    if disturbed:
        yield f"disturbed runs ({', '.join(disturbed)})"
    if _has_mechanics(conditions):
        yield "the drives' mechanics: how far the arm moves, and in which order a drive answers"


def _slowed(cells: Sequence[CellRecord], conditions: Conditions) -> Iterator[str]:
    busy = [found for cell in cells if (found := busy_fraction(cell, conditions)) is not None]
    if busy and median(busy) >= BUSY_FRACTION:
        yield f"the machine's processor, busy {median(busy):.0%} of the time"
    elif (threads := [used for cell in cells if (used := _md_threads(cell)) is not None]) and (
        median(threads) >= BUSY_FRACTION
    ):
        yield f"md's kernel thread, which kept a processor busy {median(threads):.0%} of the time"
    drains = [drain for cell in cells if (drain := _drain_seconds(cell)) is not None]
    if drains:
        asked, counted = median(asked for asked, _ in drains), median(counted for _, counted in drains)
        if counted > asked * (1 + DRAIN_FRACTION):
            # Without ramp_time, the I/Os of the drain are counted too, so this ratio is not the loss.
            has_ramp = all(_RAMP.search(cell.job_text) for cell in cells)
            by_itself = f", which by itself gives {asked / counted:.2f}" if has_ramp else ""
            yield f"the drain of the queue: {asked:.2f} s of load are counted over {counted:.2f} s{by_itself}"
    if any(stamp.startswith(_TOO_SHORT) for cell in cells for stamp in cell.stamps):
        yield "a run too short for the latency of its queue"


def busy_fraction(cell: CellRecord, conditions: Conditions) -> float | None:
    """Return the busy fraction of the machine's processors in the measured time, or None without CPU accounting.

    The fraction is computed from the CPU cost of one I/O, because the samples do not cover the measured time exactly.
    """
    cpu = cell.cpu
    if cpu is None or not cpu.cpu_microseconds_per_io or not conditions.cpu_count:
        return None
    used = cpu.cpu_microseconds_per_io / 1e6 * _total_iops(cell) / conditions.cpu_count
    return min(1.0, used + cpu.idle_baseline_fraction)


def _md_threads(cell: CellRecord) -> float | None:
    """Return how many processors the array's kernel threads kept busy."""
    cpu = cell.cpu
    if cpu is None or not cpu.cpu_microseconds_per_io or not cpu.cpu_seconds_total:
        return None
    return cpu.md_thread_cpu_seconds / cpu.cpu_seconds_total * cpu.cpu_microseconds_per_io / 1e6 * _total_iops(cell)


def _drain_seconds(cell: CellRecord) -> tuple[float, float] | None:
    """Return for how long I/Os were issued, and for how long fio counted them, including those still in flight."""
    found = _RUNTIME.search(cell.job_text)
    if found is None or not int(found[1]):
        return None
    asked = int(found[1]) / (1000 if found[2] == "ms" else 1)
    counted = max(section.runtime_seconds for section in cell.figures.sections.values())
    return asked, counted


def _has_mechanics(conditions: Conditions) -> bool:
    for name in {disk.model for disk in conditions.disks if disk.model}:
        # The record may come from another user's computer and name a drive model that does not exist here.
        with suppress(LabError):
            if find_drive_model(name).mechanics:
                return True
    return False


def _off_theory(record: ResultRecord) -> Iterator[Seen]:
    for each in (*beside_theory(record), *rebuilds_beside_theory(record)):
        if each.is_off:
            yield Seen(each.name, each.words, f"an interval that comes within {AGREEMENT_FRACTION:.0%} of theory")


def is_without_service_time(conditions: Conditions) -> bool:
    """Whether the embedded kernel runs in real time on disks that respond as fast as it can issue requests."""
    return (
        conditions.is_embedded
        and not conditions.is_virtual_time
        and bool(conditions.disks)
        and all(disk.kind in _WITHOUT_SERVICE_TIME and not disk.model for disk in conditions.disks)
    )


def processor_bound(record: ResultRecord) -> Iterator[Seen]:
    """Find figures of the embedded kernel that measure only its processor, because its disks have no service time."""
    if not is_without_service_time(record.conditions):
        return
    busy: dict[str, list[float]] = {}
    for cell in record.cells:
        if (found := busy_fraction(cell, record.conditions)) is not None:
            busy.setdefault(f"{cell.array}/{cell.workload}", []).append(found)
    cells = [each for values in busy.values() for each in values]
    if not cells or median(cells) < BUSY_FRACTION:
        return
    observed = f"busy {median(cells):.0%} of the time in the median of {len(cells)} cells"
    less = [f"{name} {median(values):.0%}" for name, values in busy.items() if median(values) < BUSY_FRACTION]
    if less:
        observed += f" (less while waiting for the host: {', '.join(less)})"
    yield Seen("processor of the embedded kernel", observed, "disks that are slower than the processor")


IDLE_ENOUGH_FRACTION = 0.10
_MOST_SHOWN = 3
_ORIGIN = "simulated-origin"
_NETWORK_NODES = ("/dev/nbd", "/dev/rbd", "/dev/drbd")


def lint_result(record: ResultRecord) -> tuple[LintFinding, ...]:
    """Return all findings for a stored result, including those that its stamps record."""
    found = [*run_checks(SHOWN_CHECKS, record), *run_checks(CONDITION_CHECKS, record.conditions)]
    found += run_checks(RESULT_CHECKS, record)
    for cell in record.cells:
        found += stamped(cell.stamps)
        found += run_checks(CELL_CHECKS, cell)
    found += stamped(record.stamps)
    return distinct(found)


def worked_out_stamps(record: ResultRecord) -> tuple[str, ...]:
    """Return the stamps that the current rules give to a result's figures, whatever stamps the result already has."""
    return summarised(run_checks(SHOWN_CHECKS, record), shown=_MOST_SHOWN)


def shown_stamps(record: ResultRecord) -> tuple[str, ...]:
    """Return the stamps to display: the result's own and, if the result is older, those of the current rules.

    Every display of a result uses these stamps. Those computed from the record come first, in the current wording.
    Stamps that limit the whole result precede all others.
    """
    origin = tuple(finding.stamp for finding in run_checks({_ORIGIN: _simulated_origin}, record.conditions))
    stamps = (*worked_out_stamps(record), *origin)
    rules = {_rule_of(stamp) for stamp in stamps}
    return (*stamps, *(stamp for stamp in record.stamps if _rule_of(stamp) not in rules))


def _rule_of(stamp: str) -> str:
    return stamp.partition(": ")[0]


def as_shown(record: ResultRecord) -> ResultRecord:
    """Return the record with the stamps to display."""
    stamps = shown_stamps(record)
    return record if stamps == record.stamps else msgspec.structs.replace(record, stamps=stamps)


def stamped(stamps: Iterable[str]) -> Iterator[LintFinding]:
    """Yield the stamps of known rules as findings."""
    for stamp in stamps:
        rule_id, _, sentence = stamp.partition(": ")
        if rule_id in all_rules():
            subject, _, rest = sentence.partition(": ")
            observed, _, required = rest.partition("; needed: ")
            yield LintFinding(
                rule_id, subject if rest else "result", observed or sentence, required or "see its remedy"
            )


def summarised(findings: Iterable[LintFinding], *, shown: int = 1) -> tuple[str, ...]:
    """Return stamps that list, for each rule, the first ``shown`` violations and the number of the others."""
    stamps = []
    for group in grouped(findings, lambda finding: finding.rule_id).values():
        stamps += [finding.stamp for finding in group[:shown]]
        if len(group) > shown:
            stamps[-1] += f" (and {len(group) - shown} more)"
    return tuple(stamps)


def fewest_ios(figures: JobFigures) -> int | None:
    """Return the smallest number of I/Os among the directions with percentiles, or None if there are none."""
    counts = (section.total_ios for section in figures.sections.values() if section.p99_seconds is not None)
    return min(counts, default=None)


def _simulated_origin(conditions: Conditions) -> Iterator[Seen]:
    machine = "a kernel in QEMU" if conditions.is_stock else "an embedded kernel"
    if is_without_service_time(conditions):
        yield Seen("machine", f"{machine}, its disks without a service time", "drives that limit the speed")
    elif conditions.is_embedded:
        clock = ", in virtual time" if conditions.is_virtual_time else ""
        yield Seen("machine", f"{machine}{clock}", "compare ratios, never absolute IOPS or CPU")
    if any(disk.kind == "spindle" for disk in conditions.disks):
        yield Seen("disks", "emulated drives", "compare ratios")


def _host_cache_on(conditions: Conditions) -> Iterator[Seen]:
    if conditions.host_cache_notes:
        yield Seen("disks", "; ".join(conditions.host_cache_notes), "no cache below the machine")


def _shared_backing(conditions: Conditions) -> Iterator[Seen]:
    if (
        not conditions.is_virtual_time
        and len(conditions.disks) > 1
        and {disk.kind for disk in conditions.disks} & {"file", "loop"}
    ):
        yield Seen("disks", "all are on one disk of the computer", "a disk for each member")


def _write_cache_unknown(conditions: Conditions) -> Iterator[Seen]:
    unknown = [disk.name for disk in conditions.disks if not disk.write_cache]
    if unknown:
        yield Seen("disks", f"write cache not known: {', '.join(unknown)}", "queue/write_cache of every disk")


def _network_backed(conditions: Conditions) -> Iterator[Seen]:
    remote = [
        disk.path for disk in conditions.disks if disk.kind == "physical" and disk.path.startswith(_NETWORK_NODES)
    ]
    if remote:
        yield Seen("disks", f"on a network: {', '.join(remote)}", "local disks")


CONDITION_CHECKS: Mapping[str, Check[Conditions]] = {
    _ORIGIN: _simulated_origin,
    "host-cache-on": _host_cache_on,
    "shared-backing-disk": _shared_backing,
    "write-cache-unknown": _write_cache_unknown,
    "network-backed": _network_backed,
}


def _too_few_repeats(record: ResultRecord) -> Iterator[Seen]:
    for key, cells in _by_load(record.cells).items():
        if len(cells) < TRUSTWORTHY_REPEATS:
            yield Seen("/".join(key), f"{len(cells)} repeats kept", f"{TRUSTWORTHY_REPEATS}")


def _no_dispersion(record: ResultRecord) -> Iterator[Seen]:
    for key, cells in _by_load(record.cells).items():
        if len(cells) == 1:
            yield Seen("/".join(key), "one value, no interval", "six repeats")


def _no_percentiles(record: ResultRecord) -> Iterator[Seen]:
    for cell in record.cells:
        for section in cell.figures.sections.values():
            if section.p99_seconds is None:
                yield Seen(cell.key, "no p99", "lat_percentiles=1 in the job")


def _file_fits_cache(record: ResultRecord) -> Iterator[Seen]:
    largest = max((cell.file_bytes or 0 for cell in record.cells), default=0)
    if record.conditions.host_cache_notes and 0 < largest <= record.conditions.memory_bytes:
        yield Seen("files", f"{human_bytes(largest)} a job, behind a cache", "more than the memory")


def _integrity_unchecked(record: ResultRecord) -> Iterator[Seen]:
    for rebuild in record.rebuilds:
        if rebuild.data_unchanged is None:
            yield Seen(rebuild.key, "no checksum of the data", "one before, one while degraded, one after")


def _promised_metric_missing(record: ResultRecord) -> Iterator[Seen]:
    if record.status is RunStatus.COMPLETE:
        for key in record.missing_keys:
            yield Seen(key, "planned, not measured", "a value, or why there is none")


def _busy_before(record: ResultRecord) -> Iterator[Seen]:
    busy = max((cell.cpu.idle_baseline_fraction for cell in record.cells if cell.cpu), default=0.0)
    if busy > IDLE_ENOUGH_FRACTION:
        yield Seen("machine", f"{busy:.0%} busy before anything was measured", f"{IDLE_ENOUGH_FRACTION:.0%} at most")


def same_addresses(record: ResultRecord) -> Iterator[Seen]:
    """Find loads whose repeats all used the same addresses. For older records, these are derived from the jobs."""
    for key, cells in _by_load(record.cells).items():
        if len(cells) < 2:
            continue
        name, expected = "/".join(key), "a different one for each"
        addresses = {each.addresses or fingerprint(each.job_text, (), each.figures.fio_version) for each in cells}
        deaf, jobs = deaf_jobs(cells[0].job_text, cells[0].figures.fio_version)
        if len(addresses) == 1 and addresses != {""}:
            yield Seen(name, f"{len(cells)} repeats on one sequence of addresses", expected)
        elif deaf and not cells[0].addresses:
            yield Seen(
                name, f"{deaf} of {jobs} jobs on one sequence of addresses in all {len(cells)} repeats", expected
            )


def _resumed(record: ResultRecord) -> Iterator[Seen]:
    """Find resumed runs in virtual time. Their figures differ from those of an uninterrupted run on one machine."""
    if record.conditions.is_virtual_time and record.resumed_after:
        done = ", ".join(map(str, record.resumed_after))
        yield Seen("result", f"interrupted after {done} of {len(record.planned_cells)} cells", "an uninterrupted run")


SHOWN_CHECKS: Mapping[str, Check[ResultRecord]] = {
    "processor-bound": processor_bound,
    "same-addresses": same_addresses,
    "off-theory": _off_theory,
    "resumed": _resumed,
}
"""The rules whose findings are computed from a record whenever it is displayed."""
RESULT_CHECKS: Mapping[str, Check[ResultRecord]] = {
    "too-few-repeats": _too_few_repeats,
    "no-dispersion": _no_dispersion,
    "no-percentiles": _no_percentiles,
    "file-fits-cache": _file_fits_cache,
    "integrity-unchecked": _integrity_unchecked,
    "promised-metric-missing": _promised_metric_missing,
    "noisy-neighbour": _busy_before,
}
