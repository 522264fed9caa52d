"""Figures from sums, each with its 95 % confidence interval, and the shares of the causes of loss.

NOMDL, the normalised magnitude of data loss, was proposed by Greenan, Plank and Wylie instead of MTTDL ("Mean time to
meaningless", HotStorage 2010): the expected number of bytes lost in a number of years, per usable byte.

Losses of blocks of arrays are sums that can be added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

from lab.fleet.model import HOURS_PER_YEAR, FleetModel
from lab.theory.extension import Interval, LossFigures

if TYPE_CHECKING:
    from lab.fleet.model import Columns, Floats


def hours_to_loss(failure_rates: Sequence[float], repair_rates: Sequence[float]) -> float:
    """Mean time from no failures to the loss, by the Markov chain of one group of an array.

    Its states are the number of failed members, from 0 to the tolerance; the next one is the loss. The time from state
    i to i + 1 is h(i) = 1 / f(i) + r(i) / f(i) × h(i - 1), which includes all returns to lower states.

    Args:
        failure_rates: per hour from state i to i + 1, for i from 0 to the tolerance.
        repair_rates: per hour from state i to i - 1, for i from 1 to the tolerance.
    """
    total = step = 0.0
    for rate, back in zip(failure_rates, (0.0, *repair_rates), strict=True):
        step = (1 + back * step) / rate
        total += step
    return total


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
"""One value per cause, in the order of ``Cause``."""
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
        whole = BlockSums(*map(_plus, msgspec.structs.astuple(whole), msgspec.structs.astuple(part)))
    return whole


def _plus(one: Any, other: Any) -> Any:
    return tuple(map(_plus, one, other)) if isinstance(one, tuple) else one + other


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


PB = 10**15
TB = 10**12
_Z = 1.959963984540054
_DENSE = 0.05
"""Events are not rare if the square of their sum, divided by the trials, is this share of the sum of squares."""
_SELDOM = 10.0
"""The interval of a cause seen less often is wider than a factor of two in both directions."""
_LEAST = 1e-100
"""A smaller mean is shown as a bound: the squares of such weights are below the range of floating point."""
MOST_NINES = 300.0
"""Replaces infinity."""
MOST_YEARS = 1e300
"""Maximum MTTDL: that of 64 copies is beyond the range of floating point."""


def rare_sum(moments: Moments, one: float = 1.0) -> Interval:
    """Interval of the expected sum of weights of rare events; valid for few events and for none.

    The gamma interval of Fay and Feuer (Statistics in Medicine 16, 1997, 791-801): exact for counts, and conservative
    for weighted events. ``one`` is the weight of an event if none was seen.
    """
    from scipy.special import gammaincinv

    total, squares, largest = moments.total, moments.squares, moments.largest or max(one, _LEAST)
    if 0 < total < _LEAST:
        return Interval(0.0, 0.0, _LEAST)
    low = squares / total * float(gammaincinv(total**2 / squares, 0.025)) if total else 0.0
    more, wider = total + largest, squares + largest**2
    return Interval(total, low, wider / more * float(gammaincinv(more**2 / wider, 0.975)))


def mean_of(moments: Moments, trials: int, one: float = 1.0) -> Interval:
    """Interval of the mean over independent arrays: for rare events, or by the normal distribution.

    ``one``: maximum weight of one event, used if none was seen.
    """
    mean = moments.total / trials
    if moments.total < _LEAST or moments.total * mean < _DENSE * moments.squares:
        return rare_sum(moments, one).times(1 / trials)
    variance = max(moments.squares / trials - mean**2, 0.0)
    half = _Z * math.sqrt(variance / trials) + _Z**2 / 2 / trials * moments.largest
    return Interval(mean, max(mean - half, 0.0), mean + half)


def most_lost(model: FleetModel) -> dict[Cause, tuple[float, float]]:
    """Causes that are possible -> maximum of one loss by it, as probability and in bytes.

    With a spare, a drive is replaced when the group is complete again, so pulling a wrong disk loses no data.
    """
    most = {Cause.FAILURES: (1.0, model.usable_bytes)}
    if model.tolerance and (model.defects_per_hour or model.read_errors_per_byte):
        most[Cause.SECTORS] = 1.0, model.usable_bytes
    if model.tolerance and not model.spares and model.wrong_disk and model.loses_data:
        most[Cause.PEOPLE] = model.loses_data, model.loses_data * model.usable_bytes
    return most


def mean_of_causes(whole: Moments, causes: ByCause, trials: int, most: Mapping[Cause, float]) -> Interval:
    """Interval of a mean to which causes with very different sizes and frequencies contribute.

    The variance of the sum has no information on a cause that was rarely seen. So each cause has its own interval,
    causes never seen have a common one, and the distances from the estimates to the limits are added in quadrature
    (MOVER: Zou and Donner, Statistics in Medicine 27, 2008, 1693-1702). If the interval of the sum is wider, it is
    used.

    Args:
        whole: of all causes together.
        causes: of each cause.
        trials: number of independent arrays.
        most: possible causes, and the maximum of one event.
    """
    found = mean_of(whole, trials, max(most.values()))
    parts = [mean_of(causes[cause], trials) for cause in most if causes[cause].total]
    unseen = [one for cause, one in most.items() if not causes[cause].total]
    if unseen:
        parts.append(mean_of(Moments(), trials, max(unseen)))
    below = math.hypot(*(each.value - each.low for each in parts))
    above = math.hypot(*(each.high - each.value for each in parts))
    return Interval(found.value, min(found.low, max(found.value - below, 0.0)), max(found.high, found.value + above))


def figures_of(model: FleetModel, sums: BlockSums, arrays: int) -> LossFigures:
    """The figures of a fleet with this number of arrays, from the simulated sums."""
    years = model.years
    most = most_lost(model)
    chances = {cause: chance for cause, (chance, _) in most.items()}
    amounts = {cause: amount for cause, (_, amount) in most.items()}
    in_mission = mean_of_causes(sums.first, sums.cause_first, sums.trials, chances)
    in_mission = _each(in_mission, lambda value: min(max(value, 0.0), 1.0))
    per_year = _each(in_mission, lambda chance: -math.expm1(math.log1p(-min(chance, 1 - 1e-15)) / years))
    losses = mean_of_causes(sums.losses, sums.cause_losses, sums.trials, chances).times(1 / years)
    lost_bytes = mean_of_causes(sums.lost_bytes, sums.cause_bytes, sums.trials, amounts)
    of_pb_year = PB / model.usable_bytes / years
    mttdl = mttdl_years(model)
    mean = sums.copy_weights / sums.copies if sums.copies else 1.0
    spread = max(sums.copy_squares / sums.copies - mean**2, 0.0) / sums.copies if sums.copies else 0.0
    return LossFigures(
        trials=sums.trials,
        array_years=sums.trials * years,
        failures_per_array_year=sums.failures / sums.trials / years,
        losses_per_array_year=losses,
        loss_chance_per_array_year=per_year,
        fleet_loss_chance=_each(in_mission, lambda chance: at_least_once(chance, arrays)),
        nines_per_array_year=_nines(per_year),
        nines_per_fleet_year=_nines(_each(per_year, lambda chance: at_least_once(chance, arrays))),
        lost_bytes_per_pb_year=lost_bytes.times(of_pb_year),
        nomdl_bytes_per_tb=lost_bytes.times(TB / model.usable_bytes),
        cause_losses=_shares(sums.cause_losses),
        cause_bytes=_shares(sums.cause_bytes),
        seldom={
            cause.name.lower(): mean_of(sums.cause_bytes[cause], sums.trials, amount).times(of_pb_year)
            for cause, amount in amounts.items()
            if sums.cause_losses[cause].seen < _SELDOM
        },
        mttdl_years=mttdl,
        mttdl_by_hand=mttdl_by_hand(model),
        counted=counted_words(model),
        losses_to_mttdl=losses.value * mttdl,
        is_biased=sums.copies > 0,
        weight_mean=mean,
        weight_error=math.sqrt(spread),
    )


def mttdl_years(model: FleetModel) -> float:
    """Mean time to data loss of one array, for constant rates of failure and repair and no other errors.

    Drives of bad lots count with their share; all failed drives are repaired at the same time.
    """
    life = model.life.mean_hours / model.hazard_scale
    repair = max(model.repair_hours, 1e-9)
    hours = hours_to_loss(
        [(model.group_members - failed) / life for failed in range(model.tolerance + 1)],
        [failed / repair for failed in range(1, model.tolerance + 1)],
    )
    return min(hours / model.groups / HOURS_PER_YEAR, MOST_YEARS)


def mttdl_by_hand(model: FleetModel) -> str:
    """The leading term of the chain, ``(553,949 h)² ÷ (6 × 5 × 72 h) = 16,206 years``, and the remaining terms."""
    life, repair = model.life.mean_hours / model.hazard_scale, max(model.repair_hours, 1e-9)
    lost = model.tolerance + 1
    factors = [str(model.group_members - failed) for failed in range(lost)]
    factors += [str(model.groups)] if model.groups > 1 else []
    if model.tolerance:
        hours = f"{repair:.5g} h"
        factors.append(hours if model.tolerance == 1 else f"({hours})^{model.tolerance}")
    # Failed drives are repaired simultaneously.
    ways = math.factorial(model.tolerance)
    hours_of = math.log(ways) + lost * math.log(life) - model.tolerance * math.log(repair) - math.log(model.groups)
    hours_of -= math.fsum(math.log(model.group_members - failed) for failed in range(lost))
    years = math.exp(min(hours_of - math.log(HOURS_PER_YEAR), 690.0))
    power = {1: f"{life:,.0f} h", 2: f"({life:,.0f} h)²", 3: f"({life:,.0f} h)³"}
    top = f"{ways} × " if ways > 1 else ""
    bottom = " × ".join(factors)
    told = f"{years:,.0f}" if years < 1e6 else f"{years:.3g}"
    top += power.get(lost, f"({life:,.0f} h)^{lost}")
    formula = f"{top} ÷ {f'({bottom})' if len(factors) > 1 else bottom} = {told} years"
    rest = mttdl_years(model) - years
    return formula if not 0.5 <= rest < 1e6 else f"{formula}, and {rest:,.0f} until the first failures"


def counted_words(model: FleetModel) -> str:
    """A sentence about what the figures count: two fleets with different sentences have different figures."""
    rebuilt = f"rebuilt in {model.rebuild.mean_hours:.3g} h"
    noticed = f"noticed after {model.detection_hours:g} h, " if model.detection_hours else ""
    if model.spares:
        spares = "a spare" if model.spares == 1 else f"{model.spares} spares"
        steps = f"{noticed}{rebuilt} on {spares}; a used spare is replaced after {model.replenish_hours:g} h"
    else:
        steps = f"{noticed}replaced after {model.replenish_hours:g} h, {rebuilt}"
    said = [f"a failed drive is {steps}"]
    errs = f"a wrong drive is pulled at {100 * model.wrong_disk:g} % of the replacements"
    said.append(errs if model.wrong_disk else "nobody errs")
    if model.life.shape != 1:
        said.append(f"drives age (Weibull, shape {model.life.shape:g})")
    if model.bad_share:
        said.append(f"{100 * model.bad_share:g} % of the lots are bad")
    return "; ".join(said)


def at_least_once(chance: float, of: int) -> float:
    """The probability that an event occurs in at least one of ``of`` independent cases."""
    return 1.0 if chance >= 1 else -math.expm1(of * math.log1p(-chance))


def _each(interval: Interval, change: Callable[[float], float]) -> Interval:
    return Interval(change(interval.value), change(interval.low), change(interval.high))


def _nines(chance: Interval) -> Interval:
    def nines(value: float) -> float:
        return min(max(0.0, -math.log10(value)), MOST_NINES) if value > 0 else MOST_NINES

    return Interval(nines(chance.value or chance.high), nines(chance.high), nines(chance.low))


def _shares(causes: Sequence[Moments]) -> dict[str, float]:
    whole = math.fsum(each.total for each in causes)
    return {cause.name.lower(): causes[cause].total / whole if whole else 0.0 for cause in Cause}
