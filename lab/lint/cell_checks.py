"""Checks of a machine immediately before measuring, and of one cell immediately after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lab.lint.rules import Check, LintFinding, Seen, run_checks
from lab.units import MIB, human_bytes

FEWEST_FOR_P99 = 1_000
IDLE_ACTIONS = frozenset({"", "idle", "frozen"})
MOST_STEAL_FRACTION = 0.02
MOST_CACHED_FRACTION = 0.05
MOST_WAITED_FRACTION = 0.10
"""A measurement was disturbed if the machine waited longer than this for a processor."""
_PHASES_WITH_SYNC = frozenset({"rebuilding"})


LEAST_SHARE_MEASURED = 0.8
"""Of the requested time; late documents of fio leave less time between them."""


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
    """For an array."""


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
    """I/O of fio while the members were monitored."""
    member_read_bytes: int | None = None
    member_written_bytes: int | None = None
    sync_actions: frozenset[str] = frozenset()
    steal_fraction: float | None = None
    waited_fraction: float | None = None
    share_measured: float = 1.0
    is_steady: bool | None = None
    steady_words: str = ""
    fewest_ios: int | None = None
    """Of the direction with the fewest I/Os; None if there are no percentiles."""
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


def _warm_cache(cell: CellFacts) -> Iterator[Seen]:
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
    "warm-cache": _warm_cache,
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
