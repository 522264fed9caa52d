"""Compute the figures of a fleet in parallel blocks, for the command, for a screen (what_if) and for lessons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import CheckedState
from lab.fleet.model import (
    HOURS_PER_YEAR,
    Block,
    Failures,
    FleetModel,
    FleetSpec,
    Method,
    Rebuild,
    Repair,
    Run,
    Scrubs,
    Sectors,
    fleet_spec,
    fleet_tree,
    model_of,
    variants,
)
from lab.host.pool import ClusterCalls, spread
from lab.theory.extension import LossFigures
from lab.tomlfile import unknown_word

if TYPE_CHECKING:
    from lab.fleet.engine import BlockSums
    from lab.results.store import ResultStore

# lab.fleet.engine imports numpy, which takes a tenth of a second, so only the functions that simulate import it.


BLOCK_TRIALS = 16_384
"""Such a block takes some megabytes. Larger blocks exceed the processor's caches, and smaller ones have more overhead.
"""
_ENOUGH_LOSSES = 400
"""If a first block has this number of losses from each cause, plain sampling has an error of 5 % and is sufficient."""

Workers = ClusterCalls | int
"""The workers of a cluster, which run the same code, or a number of processes on this computer."""
Progress = Callable[[float], None]


def blocks_of(trials: int) -> tuple[Block, ...]:
    """Return blocks that contain ``trials`` arrays in total."""
    starts = range(0, trials, BLOCK_TRIALS)
    return tuple(Block(number, min(BLOCK_TRIALS, trials - start)) for number, start in enumerate(starts))


def _spread(model: FleetModel, blocks: Sequence[Block], workers: Workers) -> Iterator[tuple[int, BlockSums]]:
    """Simulate the blocks, and yield their numbers and sums as they arrive."""
    work = partial(_simulated, model)
    if isinstance(workers, int):
        with spread(work, blocks, min(workers, len(blocks))) as answers:
            yield from answers
    else:
        with ThreadPoolExecutor(workers.workers) as threads:
            yield from threads.map(lambda block: workers(work, block), blocks)


def run_model(
    model: FleetModel, trials: int, workers: Workers = 1, on_progress: Progress = lambda _: None
) -> BlockSums:
    """Simulate the losses of ``trials`` arrays. The sums depend only on ``model`` and ``trials``."""
    from lab.fleet.engine import summed

    def in_order() -> Iterator[BlockSums]:
        waiting: dict[int, BlockSums] = {}
        done = following = 0
        for number, sums in _spread(model, blocks_of(trials), workers):
            waiting[number] = sums
            done += sums.trials
            on_progress(done / trials)
            # Floating-point sums depend on their order.
            while following in waiting:
                yield waiting.pop(following)
                following += 1

    return summed(in_order())


def _simulated(model: FleetModel, block: Block) -> tuple[int, BlockSums]:
    from lab.fleet.engine import simulate_block

    return block.number, simulate_block(model, block)


def with_method(model: FleetModel, method: Method, trials: int = BLOCK_TRIALS) -> FleetModel:
    """Select the method.

    AUTO means importance sampling if a first block of ``trials``, simulated without it, has too few losses from at
    least one cause. A sufficient total of all causes is not enough, because many lost sectors say nothing about double
    failures, which lose more data and of which the block may contain none.
    """
    from lab.fleet.engine import most_lost, simulate_block

    if method is not Method.AUTO:
        return msgspec.structs.replace(model, is_biased=method is Method.BIASED)
    seen = simulate_block(msgspec.structs.replace(model, is_biased=False), blocks_of(trials)[0])
    estimates = [seen.losses, seen.first, seen.lost_bytes]
    estimates += [
        each[cause] for cause in most_lost(model) for each in (seen.cause_losses, seen.cause_first, seen.cause_bytes)
    ]
    return msgspec.structs.replace(model, is_biased=any(each.seen <= _ENOUGH_LOSSES for each in estimates))


def run_spec(
    spec: FleetSpec,
    store: ResultStore | None = None,
    workers: Workers = 1,
    on_progress: Progress = lambda _: None,
) -> tuple[FleetModel, LossFigures]:
    """Return the model and figures of a fleet. Raises the errors of ``model_of``."""
    from lab.fleet.engine import figures_of

    model = with_method(model_of(spec, store), spec.run.method, spec.run.trials)
    return model, figures_of(model, run_model(model, spec.run.trials, workers, on_progress), spec.arrays)


MOST_TRIALS = 16_384
_FAILURES = 30_000
"""Number of drive failures in all simulated arrays, chosen so that a run takes less than half a second."""
DEFECTS_PER_HOUR = 1.5e-6
"""Rate of latent defects of one drive. 3.45 % of drives had one within 32 months (docs/fleet.md, Parameters)."""


def what_if(
    *,
    arrays: int,
    level: str,
    members: int,
    disk_tb: float,
    afr_percent: float,
    rebuild_hours: float,
    scrub_interval_hours: float | None,
    spares: int = 0,
    replenish_hours: float = 24.0,
    years: float = 5.0,
    defects_per_hour: float = DEFECTS_PER_HOUR,
    seed: int = 1,
) -> LossFigures:
    """Return the losses of a fleet with these properties. Equal arguments give equal figures.

    ``disk_tb`` is in 10^12 bytes. Raises SpecError if the array is invalid.
    """
    failures = -math.log1p(-afr_percent / 100) * members * years
    spec = FleetSpec(
        format_version=2,
        id="what-if",
        title="what if",
        arrays=arrays,
        years=years,
        level=level,
        members=members,
        disk_tb=disk_tb,
        failures=Failures(afr_percent=afr_percent),
        rebuild=Rebuild(constant_hours=rebuild_hours),
        repair=Repair(spares=spares, replenish_hours=replenish_hours),
        sectors=Sectors(defects_per_hour=defects_per_hour),
        scrub=Scrubs(interval_hours=scrub_interval_hours),
        run=Run(trials=max(100, min(MOST_TRIALS, int(_FAILURES / failures))), seed=seed),
    )
    return run_spec(spec)[1]


class FleetFigure(StrEnum):
    """A figure that ``raidlab fleet`` prints."""

    FLEET_LOSS = "fleet-loss"
    """Probability that any array loses data within the years."""
    ARRAY_YEAR_LOSS = "array-year-loss"
    NINES = "nines"
    MTTDL = "mttdl"
    TO_MTTDL = "to-mttdl"
    """Number of losses, divided by the number that the MTTDL predicts."""
    FAILURES = "failures"
    """Share of the losses in which more drives failed than the level tolerates."""
    SECTORS = "sectors"
    PEOPLE = "people"


class FleetReading(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fleet.figure"):
    """A figure of ``raidlab fleet``, for a variant of the fleet or for the fleet with the changes in ``set``."""

    fleet: str
    figure: FleetFigure
    variant: str = ""
    set: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        _spec(self.fleet, self.variant, self.set)

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        for figure in FleetFigure:
            if figure is not self.figure:
                other = msgspec.structs.replace(self, figure=figure).value(lab)
                yield LikelyMistake(other, "reading-other-column", {})

    def value(self, lab: CheckedState) -> float | None:
        found = _figures(self.fleet, self.variant, msgspec.json.encode(self.set))
        values: dict[str, float] = {
            **found.cause_losses,
            FleetFigure.FLEET_LOSS: found.fleet_loss_chance.value,
            FleetFigure.ARRAY_YEAR_LOSS: found.loss_chance_per_array_year.value,
            FleetFigure.NINES: found.nines_per_array_year.value,
            FleetFigure.MTTDL: found.mttdl_years * HOURS_PER_YEAR * 3600,
            FleetFigure.TO_MTTDL: found.losses_to_mttdl,
        }
        return values[self.figure]


@lru_cache(maxsize=16)
def _figures(name: str, variant: str, changes: bytes) -> LossFigures:
    return run_spec(_spec(name, variant, msgspec.json.decode(changes)))[1]


def _spec(name: str, variant: str, changes: Mapping[str, Any]) -> FleetSpec:
    tree = fleet_tree(name)
    spec = fleet_spec(tree, name, changes)
    known = dict(variants(tree, spec))
    if variant and variant not in known:
        raise unknown_word(f"variant of {name}", variant, known)
    return known[variant] if variant else spec
