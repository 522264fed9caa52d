"""A fleet from its file to its figures: cut into blocks, shared among processes, added up in the blocks' order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from lab.drills.extension import DrillLosses
from lab.fleet.engine import simulate_block
from lab.fleet.estimate import figures_of, most_lost
from lab.fleet.model import Block, FleetModel
from lab.fleet.schema import FleetSpec, Measured, Method, model_of
from lab.fleet.sums import BlockSums, summed
from lab.host.pool import spread
from lab.plugins import extension
from lab.theory.losses import LossFigures

if TYPE_CHECKING:
    from lab.cli.extension import ClusterCalls

BLOCK_TRIALS = 16_384
"""Some megabytes of columns: larger ones leave the processor's caches, smaller ones spend their time on calls."""
_ENOUGH_LOSSES = 400
"""So many by each cause that a first block without importance sampling shows it to 5 %; then it is as good."""

Work = Callable[[Block], BlockSums]
Spreader = Callable[[Work, Sequence[Block]], Iterable[BlockSums]]
"""Carries out picklable work for each block, wherever it is, and gives the sums in the order of the blocks."""
Progress = Callable[[float], None]


def blocks_of(trials: int) -> tuple[Block, ...]:
    """The pieces of so many arrays."""
    whole, rest = divmod(trials, BLOCK_TRIALS)
    sizes = [BLOCK_TRIALS] * whole + ([rest] if rest else [])
    return tuple(Block(number, size) for number, size in enumerate(sizes))


def local_spreader(workers: int) -> Spreader:
    """Processes of this computer."""

    def here(work: Work, blocks: Sequence[Block]) -> Iterator[BlockSums]:
        with spread(partial(_numbered, work), blocks, min(workers, len(blocks))) as answers:
            waiting: dict[int, BlockSums] = {}
            wanted = [block.number for block in blocks]
            for number, sums in answers:
                waiting[number] = sums
                # Floating-point sums hang on their order.
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
    """On a worker of a cluster: one block."""
    work, block = pickle.loads(payload)
    return pickle.dumps(work(block))


def run_model(model: FleetModel, trials: int, spreader: Spreader, on_progress: Progress | None = None) -> BlockSums:
    """Everything that so many arrays lose. The sums follow from model and trials, whoever does the work."""

    def watched() -> Iterator[BlockSums]:
        done = 0
        for part in spreader(partial(simulate_block, model), blocks_of(trials)):
            done += part.trials
            if on_progress:
                on_progress(done / trials)
            yield part

    return summed(watched())


def with_method(model: FleetModel, method: Method, trials: int = BLOCK_TRIALS) -> FleetModel:
    """Decide on importance sampling: by default where a first block shows any cause of losses too seldom without.

    Losses and bytes of all causes together are not enough to go by: thousands of lost sectors say nothing of the double
    failure that none of the arrays had, and that one costs the more.

    ``trials``: how many will be simulated; where they are fewer than a block, so many are looked at.
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
    """A fleet's figures, and the model that they are of. Raises what the reading of results and classes raises."""
    model = with_method(model_of(spec, measured, lost_in_drills), spec.run.method, spec.run.trials)
    return model, figures_of(model, run_model(model, spec.run.trials, spreader, on_progress), spec.arrays)


def lost_in_drills(folder: str) -> float:
    """The share of first tries at drills after which data were gone, of a class's bundles.

    Raises SpecError where nothing reads bundles, or nobody of the class ended a drill.
    """
    from lab.errors import SpecError

    found = extension(DrillLosses)
    if found is None:
        raise SpecError("people.class_folder needs raidlab's classroom plugin", hint="write people.loses_data instead")
    return found.share(folder)
