"""How many array-years per second one processor simulates, for RAID 6 of 14 drives with all features of the model.

Only processor time counts. Rates are reported for plain counting and for importance sampling. For the latter, the
report also says how many plain array-years would give the same interval. A million disks over ten years are simulated
on all processors.
"""

from __future__ import annotations

import time

from benchmarks.support.report import asked_one, finish, spread
from lab.fleet.engine import BlockSums, simulate_block, summed
from lab.fleet.model import Block, FleetModel, Method, fleet_spec, fleet_tree, model_of
from lab.fleet.run import BLOCK_TRIALS, run_model, with_method
from lab.host.pool import processors

FLEET = "large-operator"
BLOCKS = 4
BOUND_ARRAY_YEARS = 1e6
BOUND_LARGE_SECONDS = 600.0


def rates(model: FleetModel, rounds: int) -> tuple[list[float], BlockSums]:
    """Return the array-years per second of processor time in each round, and the sums over all rounds."""
    found, parts = [], []
    for round_number in range(rounds):
        begin = time.process_time()
        parts += [simulate_block(model, Block(round_number * BLOCKS + n, BLOCK_TRIALS)) for n in range(BLOCKS)]
        found.append(BLOCKS * BLOCK_TRIALS * model.years / (time.process_time() - begin))
    return found, summed(parts)


def variance(sums: BlockSums) -> float:
    return sums.losses.squares / sums.trials


def main() -> None:
    rounds = asked_one("rounds", 5, "number of rounds for each method", smoke=1)
    spec = fleet_spec(fleet_tree(FLEET), FLEET)
    model = model_of(spec)
    simulate_block(model, Block(0, 1000))  # this loads numpy
    plain, counted = rates(with_method(model, Method.PLAIN), rounds)
    biased, weighted = rates(with_method(model, Method.BIASED), rounds)
    begin = time.monotonic()
    run_model(with_method(model, Method.BIASED), spec.arrays, processors())
    large_seconds = time.monotonic() - begin
    slowest = sorted(biased)[rounds // 2] if large_seconds <= BOUND_LARGE_SECONDS else 0.0
    finish(
        "array-years of RAID 6 of 14 drives per second of one processor, with importance sampling",
        slowest,
        ">=",
        BOUND_ARRAY_YEARS,
        biased_per_second=spread(biased),
        plain_per_second=spread(plain),
        a_biased_array_is_worth_plain_ones=round(variance(counted) / variance(weighted), 1),
        disks=spec.arrays * spec.members,
        large_fleet_seconds=round(large_seconds, 1),
        processors=processors(),
    )


if __name__ == "__main__":
    main()
