"""Exact results for comparison with simulated losses: the Markov chain of an array with constant rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.fleet.engine import hours_to_loss


@dataclass(frozen=True, slots=True)
class Chain:
    """A birth-death chain with an absorbing last state; the rates are those of ``hours_to_loss``."""

    failure_rates: Sequence[float]
    repair_rates: Sequence[float]

    def mean_hours(self) -> float:
        return hours_to_loss(self.failure_rates, self.repair_rates)

    def loss_chance(self, hours: float) -> float:
        """Computed by uniformisation (Jensen 1953). All terms are positive, so small results keep their precision."""
        states = len(self.failure_rates)
        back = (0.0, *self.repair_rates)
        pace = max(self.failure_rates[state] + back[state] for state in range(states))
        chances, lost, found = [1.0] + [0.0] * (states - 1), 0.0, 0.0
        mean = pace * hours
        steps = int(mean + 12 * math.sqrt(mean) + 40)
        for step in range(steps + 1):
            found += math.exp(step * math.log(mean) - mean - math.lgamma(step + 1)) * lost
            lost += chances[-1] * self.failure_rates[-1] / pace
            chances = [
                chances[state] * (1 - (self.failure_rates[state] + back[state]) / pace)
                + (chances[state - 1] * self.failure_rates[state - 1] / pace if state else 0)
                + (chances[state + 1] * back[state + 1] / pace if state + 1 < states else 0)
                for state in range(states)
            ]
        return found


def array_chain(
    members: int, tolerance: int, life_hours: float, repair_hours: float, *, repairs_at_once: int | None = None
) -> Chain:
    """The chain of an array with these mean lives and repair times. None: all failed drives are repaired at once.

    One repair at a time is the model of Chen and others (1994), simultaneous repairs that of Angus (1988). They agree
    for a tolerance of one failure and differ for more, as Resch and Volvovski show (arXiv 1310.4702).
    """
    at_once = tolerance if repairs_at_once is None else repairs_at_once
    return Chain(
        [(members - failed) / life_hours for failed in range(tolerance + 1)],
        [min(failed, at_once) / repair_hours for failed in range(1, tolerance + 1)],
    )
