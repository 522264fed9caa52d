"""Exact results: the Markov chain of an array with constant rates of failure and repair.

The states are the number of failed members of one group, from 0 to its tolerance; the next one is the loss. The mean
time to it (MTTDL) is a sum of fractions. The probability of a loss within some years follows by uniformisation (Jensen
1953), whose terms are all positive, so that small probabilities keep their precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chain:
    """A birth-death chain with an absorbing last state."""

    failure_rates: Sequence[float]
    """From state i to i + 1, for i from 0 to the tolerance; per hour."""
    repair_rates: Sequence[float]
    """From state i to i - 1, for i from 1 to the tolerance; per hour."""

    def mean_hours(self) -> float:
        """Mean time from no failures to the loss.

        The time from state i to i + 1 is h(i) = 1 / f(i) + r(i) / f(i) × h(i - 1), which includes all returns to lower
        states.
        """
        total = step = 0.0
        for state, rate in enumerate(self.failure_rates):
            back = self.repair_rates[state - 1] if state else 0.0
            step = (1 + back * step) / rate
            total += step
        return total

    def loss_chance(self, hours: float) -> float:
        """The probability of a loss within this number of hours."""
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
    """The chain of an array of drives with these mean lives and repair times; None: all failed drives at the same time.

    One repair at a time is the model of Chen and others (1994), simultaneous repairs that of Angus (1988). They agree
    for a tolerance of one failure and differ for more, as Resch and Volvovski show (arXiv 1310.4702).
    """
    at_once = tolerance if repairs_at_once is None else repairs_at_once
    return Chain(
        [(members - failed) / life_hours for failed in range(tolerance + 1)],
        [min(failed, at_once) / repair_hours for failed in range(1, tolerance + 1)],
    )
