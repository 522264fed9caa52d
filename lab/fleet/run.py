"""Compute the figures of a fleet in parallel blocks, for the command, for a screen (what_if) and for lessons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import CheckedState
from lab.errors import ResultError, SpecError
from lab.fleet.model import (
    HOURS_PER_YEAR,
    Block,
    Failures,
    FleetModel,
    FleetSpec,
    Measured,
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
from lab.results.store import ResultStore
from lab.theory.extension import LossFigures
from lab.tomlfile import unknown_word

if TYPE_CHECKING:
    from lab.fleet.engine import BlockSums

    Work = Callable[[Block], tuple[int, BlockSums]]
    Spreader = Callable[[Work, Sequence[Block]], Iterable[tuple[int, BlockSums]]]
    """A function that runs picklable work for each block in any process, and yields the results as they arrive."""

# lab.fleet.engine imports numpy, which takes a tenth of a second, so only the functions that simulate import it.


def measured_in(store: ResultStore) -> Measured:
    """Return a function that finds the rebuild rates of a stored result. It raises ResultError if there are none."""

    def rates(name: str, array: str | None) -> tuple[float, ...]:
        record = store.load(name)
        found = tuple(
            each.rebuilt_bytes / each.rebuild_seconds
            for each in record.rebuilds
            if array in (None, "", each.array) and each.rebuild_seconds > 0 and each.rebuilt_bytes > 0
        )
        if not found:
            arrays = sorted({each.array for each in record.rebuilds})
            hint = f"choose one of its arrays: {', '.join(arrays)}" if arrays else "run 'raidlab run antioquia-quick'"
            raise ResultError(f"result '{record.id}' has no rebuild" + (f" of '{array}'" if array else ""), hint=hint)
        return found

    return rates


BLOCK_TRIALS = 16_384
"""Such a block takes some megabytes. Larger blocks exceed the processor's caches, and smaller ones have more overhead.
"""
_ENOUGH_LOSSES = 400
"""If a first block has this number of losses from each cause, plain sampling has an error of 5 % and is sufficient."""

Progress = Callable[[float], None]


def blocks_of(trials: int) -> tuple[Block, ...]:
    """Return blocks that contain ``trials`` arrays in total."""
    starts = range(0, trials, BLOCK_TRIALS)
    return tuple(Block(number, min(BLOCK_TRIALS, trials - start)) for number, start in enumerate(starts))


def local_spreader(workers: int) -> Spreader:
    """Return a function that distributes blocks over processes on this computer."""

    def here(work: Work, blocks: Sequence[Block]) -> Iterator[tuple[int, BlockSums]]:
        with spread(work, blocks, min(workers, len(blocks))) as answers:
            yield from answers

    return here


def cluster_spreader(calls: ClusterCalls) -> Spreader:
    """Return a function that distributes blocks over a cluster's workers, which run the same code."""

    def there(work: Work, blocks: Sequence[Block]) -> Iterator[tuple[int, BlockSums]]:
        with ThreadPoolExecutor(calls.workers) as threads:
            yield from threads.map(lambda block: calls(work, block), blocks)

    return there


def run_model(model: FleetModel, trials: int, spreader: Spreader, on_progress: Progress = lambda _: None) -> BlockSums:
    """Simulate the losses of ``trials`` arrays. The sums depend only on ``model`` and ``trials``."""
    from lab.fleet.engine import summed

    def in_order() -> Iterator[BlockSums]:
        waiting: dict[int, BlockSums] = {}
        done = following = 0
        for number, sums in spreader(partial(_simulated, model), blocks_of(trials)):
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
    """Select the method. AUTO means importance sampling if a first block of ``trials`` has too few losses from a cause.

    The first block is simulated without importance sampling. A sufficient total of all causes is not enough, because
    many lost sectors say nothing about double failures, which lose more data and of which the block may contain none.
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
    spec: FleetSpec, measured: Measured, spreader: Spreader, on_progress: Progress = lambda _: None
) -> tuple[FleetModel, LossFigures]:
    """Return the model and figures of a fleet. Raises the same errors as reading results and class folders."""
    from lab.fleet.engine import figures_of

    model = with_method(model_of(spec, measured), spec.run.method, spec.run.trials)
    return model, figures_of(model, run_model(model, spec.run.trials, spreader, on_progress), spec.arrays)


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
    return run_spec(spec, lambda _name, _array: (), local_spreader(1))[1]


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
    spec = _spec(name, variant, msgspec.json.decode(changes))
    return run_spec(spec, _no_results, local_spreader(1))[1]


def _spec(name: str, variant: str, changes: Mapping[str, Any]) -> FleetSpec:
    tree = fleet_tree(name)
    spec = fleet_spec(tree, name, changes)
    known = dict(variants(tree, spec))
    if variant and variant not in known:
        raise unknown_word(f"variant of {name}", variant, known)
    return known[variant] if variant else spec


def _no_results(name: str, _array: str | None) -> tuple[float, ...]:
    raise SpecError(
        f"a lesson's fleet cannot take its rebuild time from a result ('{name}')", hint="write rebuild.hours instead"
    )
