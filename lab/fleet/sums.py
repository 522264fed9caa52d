"""Losses of blocks of arrays as sums that can be added, and their causes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from lab.fleet.arrays import Columns, Floats


class Cause(IntEnum):
    """Causes of a loss of data."""

    FAILURES = 0
    """More members failed than the array tolerates: all of its data."""
    SECTORS = 1
    """A rebuild without redundancy met an unreadable sector: the data of that sector."""
    PEOPLE = 2
    """A wrong disk was pulled, and the stopped array was not restored: all of its data."""


class Moments(msgspec.Struct, frozen=True):
    """Sum, sum of squares and maximum of a figure over arrays. All 0: no event was seen."""

    total: float = 0.0
    squares: float = 0.0
    largest: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.total + other.total, self.squares + other.squares, max(self.largest, other.largest))

    @property
    def seen(self) -> float:
        """Effective number of events: that of equal weights with the same variance; without weights, the count."""
        return self.total**2 / self.squares if self.squares else 0.0


ByCause = tuple[Moments, Moments, Moments]
"""In the order of ``Cause``."""
_NEVER: ByCause = (Moments(), Moments(), Moments())


class BlockSums(msgspec.Struct, frozen=True):
    """The sums of one block, or of several in the order of their numbers."""

    trials: int = 0
    failures: int = 0
    """Drives that failed or were pulled on main paths."""
    losses: Moments = Moments()
    """Weighted losses of each array."""
    first: Moments = Moments()
    """Weighted probability of each array to lose any data."""
    lost_bytes: Moments = Moments()
    cause_losses: ByCause = _NEVER
    cause_first: ByCause = _NEVER
    cause_bytes: ByCause = _NEVER
    copies: int = 0
    copy_weights: float = 0.0
    """Sum of the final weights of copies; their mean is 1."""
    copy_squares: float = 0.0


def summed(parts: Iterable[BlockSums]) -> BlockSums:
    """The total of these sums, in the order of their blocks: floating-point sums depend on the order."""
    whole = BlockSums()
    for part in parts:
        whole = BlockSums(
            whole.trials + part.trials,
            whole.failures + part.failures,
            whole.losses + part.losses,
            whole.first + part.first,
            whole.lost_bytes + part.lost_bytes,
            _both(whole.cause_losses, part.cause_losses),
            _both(whole.cause_first, part.cause_first),
            _both(whole.cause_bytes, part.cause_bytes),
            whole.copies + part.copies,
            whole.copy_weights + part.copy_weights,
            whole.copy_squares + part.copy_squares,
        )
    return whole


def _both(ones: ByCause, others: ByCause) -> ByCause:
    return ones[0] + others[0], ones[1] + others[1], ones[2] + others[2]


class LossTally:
    """Collects the losses of a block during its simulation, by array and cause."""

    def __init__(self, trials: int) -> None:
        import numpy

        self._losses = numpy.zeros((len(Cause), trials))
        self._bytes = numpy.zeros((len(Cause), trials))
        self._first = numpy.zeros((len(Cause), trials))
        self._copies, self._weights, self._squares = 0, 0.0, 0.0

    def lose(self, cause: Cause, trials: Columns, weights: Floats, chance: Any, alive: Floats, lost_bytes: Any) -> None:
        """Record losses with probability ``chance``, which are the array's first with probability ``alive``."""
        import numpy

        numpy.add.at(self._losses[cause], trials, weights * chance)
        numpy.add.at(self._bytes[cause], trials, weights * lost_bytes)
        numpy.add.at(self._first[cause], trials, weights * alive * chance)

    def end_copies(self, weights: Floats) -> None:
        """Record the final weights of copies whose episode ended."""
        self._copies += len(weights)
        self._weights += float(weights.sum())
        self._squares += float((weights**2).sum())

    def sums(self, failures: int) -> BlockSums:
        """The sums of all recorded losses."""
        return BlockSums(
            self._first.shape[1],
            failures,
            _moments(self._losses.sum(axis=0)),
            _moments(self._first.sum(axis=0)),
            _moments(self._bytes.sum(axis=0)),
            _by_cause(self._losses),
            _by_cause(self._first),
            _by_cause(self._bytes),
            self._copies,
            self._weights,
            self._squares,
        )


def _by_cause(values: Floats) -> ByCause:
    return _moments(values[0]), _moments(values[1]), _moments(values[2])


def _moments(values: Floats) -> Moments:
    return Moments(float(values.sum()), float((values**2).sum()), float(values.max(initial=0.0)))
