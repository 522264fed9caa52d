"""Computes the figures of a fleet from its file: blocks are distributed to processes, and added in their order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from lab.drills.extension import DrillLosses
from lab.fleet.engine import simulate_block
from lab.fleet.estimate import BlockSums, figures_of, most_lost, summed
from lab.fleet.model import Block, FleetModel
from lab.fleet.schema import FleetSpec, Measured, Method, model_of
from lab.host.pool import spread
from lab.plugins import extension
from lab.theory.extension import LossFigures

if TYPE_CHECKING:
    from lab.cli.extension import ClusterCalls

BLOCK_TRIALS = 16_384
"""Some megabytes of columns: larger ones exceed the processor's caches, smaller ones have more call overhead."""
_ENOUGH_LOSSES = 400
"""With this number of losses by each cause in a first block, plain sampling has an error of 5 % and is sufficient."""

Work = Callable[[Block], BlockSums]
Spreader = Callable[[Work, Sequence[Block]], Iterable[BlockSums]]
"""Runs picklable work for each block in any process, and yields the sums in the order of the blocks."""
Progress = Callable[[float], None]


def blocks_of(trials: int) -> tuple[Block, ...]:
    """Blocks with this number of arrays in total."""
    whole, rest = divmod(trials, BLOCK_TRIALS)
    sizes = [BLOCK_TRIALS] * whole + ([rest] if rest else [])
    return tuple(Block(number, size) for number, size in enumerate(sizes))


def local_spreader(workers: int) -> Spreader:
    """A spreader over processes of this computer."""

    def here(work: Work, blocks: Sequence[Block]) -> Iterator[BlockSums]:
        with spread(partial(_numbered, work), blocks, min(workers, len(blocks))) as answers:
            waiting: dict[int, BlockSums] = {}
            wanted = [block.number for block in blocks]
            for number, sums in answers:
                waiting[number] = sums
                # Floating-point sums depend on their order.
                while wanted and wanted[0] in waiting:
                    yield waiting.pop(wanted.pop(0))

    return here


def _numbered(work: Work, block: Block) -> tuple[int, BlockSums]:
    return block.number, work(block)


def cluster_spreader(calls: ClusterCalls) -> Spreader:
    """Workers of a cluster, which have this very program."""

    def there(work: Work, blocks: Sequence[Block]) -> Iterator[BlockSums]:
        def one(block: Block) -> BlockSums:
            found: BlockSums = pickle.loads(calls(work_asked, pickle.dumps((work, block))))
            return found

        with ThreadPoolExecutor(calls.workers) as threads:
            yield from threads.map(one, blocks)

    return there


def work_asked(payload: bytes) -> bytes:
    """Run one block on a worker of a cluster."""
    work, block = pickle.loads(payload)
    return pickle.dumps(work(block))


def run_model(model: FleetModel, trials: int, spreader: Spreader, on_progress: Progress | None = None) -> BlockSums:
    """The losses of this number of arrays. The sums depend only on model and trials, not on the processes."""

    def watched() -> Iterator[BlockSums]:
        done = 0
        for part in spreader(partial(simulate_block, model), blocks_of(trials)):
            done += part.trials
            if on_progress:
                on_progress(done / trials)
            yield part

    return summed(watched())


def with_method(model: FleetModel, method: Method, trials: int = BLOCK_TRIALS) -> FleetModel:
    """Choose importance sampling: by default, if a first block without it has too few losses by any possible cause.

    The total of all causes is not sufficient: many lost sectors say nothing about a double failure that no array had,
    and which loses more data.

    ``trials``: number of arrays to simulate; if it is less than a block, the first block has this number.
    """
    if method is not Method.AUTO:
        return msgspec.structs.replace(model, is_biased=method is Method.BIASED)
    seen = simulate_block(msgspec.structs.replace(model, is_biased=False), blocks_of(trials)[0])
    told = [seen.losses, seen.first, seen.lost_bytes]
    told += [
        each[cause] for cause in most_lost(model) for each in (seen.cause_losses, seen.cause_first, seen.cause_bytes)
    ]
    return msgspec.structs.replace(model, is_biased=any(each.seen <= _ENOUGH_LOSSES for each in told))


def run_spec(
    spec: FleetSpec, measured: Measured, spreader: Spreader, on_progress: Progress | None = None
) -> tuple[FleetModel, LossFigures]:
    """The model and figures of a fleet. Raises the errors of reading results and class folders."""
    model = with_method(model_of(spec, measured, lost_in_drills), spec.run.method, spec.run.trials)
    return model, figures_of(model, run_model(model, spec.run.trials, spreader, on_progress), spec.arrays)


def lost_in_drills(folder: str) -> float:
    """The share of first attempts at drills, in the bundles of a class, after which data were lost.

    Raises SpecError if no part of raidlab reads bundles, or no student of the class ended a drill.
    """
    from lab.errors import SpecError

    found = extension(DrillLosses)
    if found is None:
        raise SpecError("people.class_folder needs raidlab's classroom plugin", hint="write people.loses_data instead")
    return found.share(folder)
