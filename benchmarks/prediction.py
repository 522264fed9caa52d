"""How long it takes to predict every cell of an experiment, with nothing remembered from before."""

from __future__ import annotations

import statistics
import time

from benchmarks.support.report import finish, spread
from lab.experiments.schedule import cells
from lab.experiments.schema import Experiment, find_experiment
from lab.theory.demands import demand
from lab.theory.model import DiskRates, workload_iops
from lab.theory.queueing import play

EXPERIMENT = "louwrentius-quick"
DISK = DiskRates(75.0, 75.0, 100e6, 100e6)
ROUNDS = 9
BOUND_SECONDS = 0.1


def predict_all(experiment: Experiment) -> int:
    """Predict every cell; returns how many there are."""
    planned = cells(experiment)
    for cell in planned:
        array = experiment.array(cell.array)
        nodes = tuple(f"/dev/sd{letter}" for letter in "abcdefghij"[: array.members])
        workload_iops(array.spec(nodes, "md0").raid, [DISK] * array.members, cell.workload)
    return len(planned)


def main() -> None:
    """Predict the experiment over and over, and report the median time."""
    experiment, _ = find_experiment(EXPERIMENT)
    taken = []
    count = 0
    for _ in range(ROUNDS):
        play.cache_clear()
        demand.cache_clear()
        begin = time.process_time()
        count = predict_all(experiment)
        taken.append(time.process_time() - begin)
    finish(
        "prediction",
        f"CPU seconds to predict the {count} cells of {EXPERIMENT}, median of {ROUNDS}",
        statistics.median(taken),
        BOUND_SECONDS,
        at_most=True,
        details={"seconds": spread(taken), "cells": count},
    )


if __name__ == "__main__":
    main()
