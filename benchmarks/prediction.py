"""How long it takes to predict every cell of each built-in experiment, with empty caches."""

from __future__ import annotations

import statistics
import time

from benchmarks.support.report import asked_one, finish, spread
from lab.arrays.levels import level_with_layout
from lab.experiments.schedule import cells
from lab.experiments.schema import Experiment, built_in_names, find_experiment
from lab.theory.model import DiskRates, demand, predict_load
from lab.theory.simulation import play

DISK = DiskRates(75.0, 75.0, 100e6, 100e6)
BOUND_SECONDS = 0.1


def predict_all(experiment: Experiment) -> int:
    # Volumes of unequal disks have no prediction.
    planned = [] if experiment.disks.pools else cells(experiment)
    for cell in planned:
        array = experiment.array(cell.array)
        predict_load(level_with_layout(array.level, array.layout), [DISK] * array.members, cell.workload)
    return len(planned)


def seconds(experiment: Experiment, rounds: int) -> tuple[list[float], int]:
    taken, count = [], 0
    for _ in range(rounds):
        play.cache_clear()
        demand.cache_clear()
        begin = time.process_time()
        count = predict_all(experiment)
        taken.append(time.process_time() - begin)
    return taken, count


def main() -> None:
    rounds = asked_one("rounds", 9, "number of rounds, of which the median counts", smoke=1)
    medians, details = {}, {}
    for name in built_in_names():
        experiment, _ = find_experiment(name)
        taken, count = seconds(experiment, rounds)
        medians[name] = statistics.median(taken)
        details[name] = {"seconds": spread(taken), "cells": count}
    slowest = max(medians, key=lambda name: medians[name])
    finish(
        f"CPU seconds to predict all cells of an experiment, the slowest of the built-in ones ({slowest}), "
        f"median of {rounds}",
        medians[slowest],
        "<=",
        BOUND_SECONDS,
        experiments=details,
    )


if __name__ == "__main__":
    main()
