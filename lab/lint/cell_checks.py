"""Checks of one measured cell, with what was sampled meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.lint.facts import CellFacts
from lab.lint.findings import Check, Finding, Seen, run_checks
from lab.lint.machine_checks import IDLE_ACTIONS
from lab.units import MIB, human_bytes

FEWEST_FOR_P99 = 1_000
MOST_STEAL_FRACTION = 0.02
MOST_CACHED_FRACTION = 0.05
MOST_WAITED_FRACTION = 0.10
"""A measurement during which the machine waited longer than this for a processor was disturbed."""
_PHASES_WITH_SYNC = frozenset({"rebuilding"})


LEAST_SHARE_MEASURED = 0.8
"""Of the time that was asked for; documents of fio that are later leave less between them."""


def lint_cell(cell: CellFacts) -> Iterator[Finding]:
    """Everything that the cell shows."""
    yield from run_checks(CHECKS, cell)


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
        # Every level writes each byte at least once on a member.
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


CHECKS: Mapping[str, Check[CellFacts]] = {
    "resync-running": _resync_running,
    "mixed-directions": _mixed_directions,
    "io-not-on-members": _io_not_on_members,
    "unsteady": _unsteady,
    "too-few-samples": _too_few_samples,
    "noisy-neighbour": _noisy_neighbour,
    "disturbed": _disturbed,
    "warm-cache": _warm_cache,
}
