"""Checks of a stored result: its machine, and the contents and gaps of its cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from lab.lint.cell_checks import CellFacts, lint_cell
from lab.lint.plan_checks import TRUSTWORTHY_REPEATS
from lab.lint.rules import Check, LintFinding, Seen, all_rules, distinct, run_checks
from lab.lint.theory_checks import is_without_service_time, off_theory, processor_bound
from lab.results.record import CellRecord, Conditions, ResultRecord, RunStatus
from lab.units import human_bytes
from lab.workloads.fio_job import deaf_jobs, fingerprint

IDLE_ENOUGH_FRACTION = 0.10
_MOST_SHOWN = 3
_NETWORK_NODES = ("/dev/nbd", "/dev/rbd", "/dev/drbd")


def lint_conditions(conditions: Conditions) -> Iterator[LintFinding]:
    """Findings on the trustworthiness of figures that follow from the machine alone."""
    yield from run_checks(CONDITION_CHECKS, conditions)


def lint_result(record: ResultRecord) -> tuple[LintFinding, ...]:
    """All findings for a stored result, including its stamps."""
    found = [*run_checks(SHOWN_CHECKS, record), *lint_conditions(record.conditions), *run_checks(RESULT_CHECKS, record)]
    for cell in record.cells:
        found += stamped(cell.stamps)
        found += lint_cell(facts_of_cell(cell))
    found += stamped(record.stamps)
    return distinct(found)


def worked_out_stamps(record: ResultRecord) -> tuple[str, ...]:
    """Findings of the current rules for the figures of a result, regardless of its stamps at measurement time."""
    return summarised(run_checks(SHOWN_CHECKS, record), shown=_MOST_SHOWN)


def shown_stamps(record: ResultRecord) -> tuple[str, ...]:
    """The stamps to display for a result: its own, and findings of the current rules for an older result.

    Stamps computed from the record come first, in the current wording; every display of a result uses these. Stamps
    that limit the whole result precede all others.
    """
    origin = tuple(finding.stamp for finding in run_checks(SHOWN_CONDITION_CHECKS, record.conditions))
    said = (*worked_out_stamps(record), *origin)
    rules = {_rule_of(stamp) for stamp in said}
    return (*said, *(stamp for stamp in record.stamps if _rule_of(stamp) not in rules))


def _rule_of(stamp: str) -> str:
    return stamp.partition(": ")[0]


def as_shown(record: ResultRecord) -> ResultRecord:
    """The record with the stamps to display."""
    stamps = shown_stamps(record)
    return record if stamps == record.stamps else msgspec.structs.replace(record, stamps=stamps)


def stamped(stamps: Iterable[str]) -> Iterator[LintFinding]:
    """Stamps of known rules as findings."""
    for stamp in stamps:
        rule_id, _, sentence = stamp.partition(": ")
        if rule_id in all_rules():
            subject, _, rest = sentence.partition(": ")
            observed, _, required = rest.partition("; needed: ")
            yield LintFinding(
                rule_id, subject if rest else "result", observed or sentence, required or "see its remedy"
            )


def summarised(findings: Iterable[LintFinding], *, shown: int = 1) -> tuple[str, ...]:
    """Stamps for a result: of a rule with many violations, the first ``shown`` and the number of the others."""
    by_rule: dict[str, list[LintFinding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule_id, []).append(finding)
    stamps = []
    for group in by_rule.values():
        stamps += [finding.stamp for finding in group[:shown]]
        if len(group) > shown:
            stamps[-1] += f" (and {len(group) - shown} more)"
    return tuple(stamps)


def facts_of_cell(cell: CellRecord) -> CellFacts:
    """The facts on its measurement that a stored cell still contains."""
    sections = [section for section in (cell.figures.reads, cell.figures.writes) if section]
    percentiles = [section.total_ios for section in sections if section.p99_seconds is not None]
    steady = cell.steady
    return CellFacts(
        name=cell.key,
        phase=cell.phase,
        # Only the plan stated whether both directions were intended: runs are checked for it when they are measured.
        is_mix=True,
        steal_fraction=cell.cpu.steal_fraction if cell.cpu else None,
        waited_fraction=cell.waited_fraction,
        is_steady=steady.is_steady if steady else None,
        steady_words=steady_words(steady.range_fraction, steady.slope_fraction) if steady else "",
        fewest_ios=min(percentiles, default=None),
        declared_cold=False,
    )


def steady_words(range_fraction: float, slope_fraction: float) -> str:
    """The variation of five rounds."""
    return f"five rounds with a range of {range_fraction:.0%} and a slope of {slope_fraction:.0%} of their mean"


def _simulated_origin(conditions: Conditions) -> Iterator[Seen]:
    if is_without_service_time(conditions):
        yield Seen("machine", "an embedded kernel, its disks without a service time", "drives that set the pace")
    elif conditions.is_embedded:
        clock = ", in virtual time" if conditions.is_virtual_time else ""
        yield Seen("machine", f"an embedded kernel{clock}", "compare ratios, never absolute IOPS or CPU")
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
        yield Seen("disks", "all lie on one disk of the computer", "a disk for each member")


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
    "simulated-origin": _simulated_origin,
    "host-cache-on": _host_cache_on,
    "shared-backing-disk": _shared_backing,
    "write-cache-unknown": _write_cache_unknown,
    "network-backed": _network_backed,
}


def _repeats(record: ResultRecord) -> dict[str, int]:
    counts: dict[str, int] = {}
    for cell in record.cells:
        name = f"{cell.array}/{cell.workload}/{cell.phase}"
        counts[name] = counts.get(name, 0) + 1
    return counts


def _too_few_repeats(record: ResultRecord) -> Iterator[Seen]:
    for name, count in _repeats(record).items():
        if count < TRUSTWORTHY_REPEATS:
            yield Seen(name, f"{count} repeats kept", f"{TRUSTWORTHY_REPEATS}")


def _no_dispersion(record: ResultRecord) -> Iterator[Seen]:
    for name, count in _repeats(record).items():
        if count == 1:
            yield Seen(name, "one value, no interval", "six repeats")


def _no_percentiles(record: ResultRecord) -> Iterator[Seen]:
    for cell in record.cells:
        for section in (cell.figures.reads, cell.figures.writes):
            if section and section.p99_seconds is None:
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


def _noisy_neighbour(record: ResultRecord) -> Iterator[Seen]:
    busy = max((cell.cpu.idle_baseline_fraction for cell in record.cells if cell.cpu), default=0.0)
    if busy > IDLE_ENOUGH_FRACTION:
        yield Seen("machine", f"{busy:.0%} busy before anything was measured", f"{IDLE_ENOUGH_FRACTION:.0%} at most")


def same_addresses(record: ResultRecord) -> Iterator[Seen]:
    """One finding for each load whose repeats all used the same addresses.

    For older records this is derived from their jobs.
    """
    groups: dict[tuple[str, str, str], list[CellRecord]] = {}
    for cell in record.cells:
        groups.setdefault((cell.array, cell.workload, cell.phase), []).append(cell)
    for key, cells in groups.items():
        if len(cells) < 2:
            continue
        name, wanted = "/".join(key), "another one for each"
        addresses = {each.addresses or fingerprint(each.job_text, (), each.figures.fio_version) for each in cells}
        deaf, jobs = deaf_jobs(cells[0].job_text, cells[0].figures.fio_version)
        if len(addresses) == 1 and addresses != {""}:
            yield Seen(name, f"{len(cells)} repeats on one sequence of addresses", wanted)
        elif deaf and not cells[0].addresses:
            yield Seen(name, f"{deaf} of {jobs} jobs on one sequence of addresses in all {len(cells)} repeats", wanted)


def _resumed(record: ResultRecord) -> Iterator[Seen]:
    """In virtual time, a run resumed on a new machine differs from an uninterrupted run on one machine."""
    if record.conditions.is_virtual_time and record.resumed_after:
        done = ", ".join(map(str, record.resumed_after))
        yield Seen("result", f"interrupted after {done} of {len(record.planned_cells)} cells", "a run in one go")


SHOWN_CHECKS: Mapping[str, Check[ResultRecord]] = {
    "processor-bound": processor_bound,
    "same-addresses": same_addresses,
    "off-theory": off_theory,
    "resumed": _resumed,
}
"""Computed from a record whenever it is displayed."""
SHOWN_CONDITION_CHECKS: Mapping[str, Check[Conditions]] = {"simulated-origin": _simulated_origin}


RESULT_CHECKS: Mapping[str, Check[ResultRecord]] = {
    **SHOWN_CHECKS,
    "too-few-repeats": _too_few_repeats,
    "no-dispersion": _no_dispersion,
    "no-percentiles": _no_percentiles,
    "file-fits-cache": _file_fits_cache,
    "integrity-unchecked": _integrity_unchecked,
    "promised-metric-missing": _promised_metric_missing,
    "noisy-neighbour": _noisy_neighbour,
}
