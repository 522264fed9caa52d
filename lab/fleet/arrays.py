"""A block of arrays as numpy columns: one row per member, one column per array, and the lives of their drives."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lab.fleet.model import FleetModel

if TYPE_CHECKING:
    import numpy
    from numpy.random import Generator

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]
    Columns = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.intp]]

UP, WAITING, REBUILDING = 0, 1, 2
"""States of a member. WAITING: its rebuild has not begun; used only if rebuilds share a rate."""


@dataclass(slots=True)
class Arrays:
    """The state of a block of arrays; the last axis of every field is the array.

    Times are hours since the array was new.
    """

    trial: Columns
    """(arrays,) Number of the array in the block; copies of one array have the same number."""
    due: Floats
    """(members, arrays) Time of the next event of a member: its failure, or the start or end of its rebuild."""
    born: Floats
    """(members, arrays) Time at which the drive was new."""
    state: Any
    """(members, arrays) int8."""
    failed: Any
    """(groups, arrays) int64: number of members that are not up."""
    clean: Floats
    """(groups, arrays) Time at which a rebuild last read all members from end to end."""
    phase: Floats
    """(arrays,) Time since the last scrub began, when the array was new."""
    alive: Floats
    """(arrays,) Probability that no data have been lost yet, for losses that are not drawn."""
    ready: Floats
    """(spares, arrays) Time at which each spare is available."""
    factor: Floats | None = None
    """(members, arrays) Factor for the hazard of the drive; None: 1 for all."""
    pulled: Any = None
    """(members, arrays) bool: this good drive is pulled by mistake at its next event; None: no human errors."""
    work: Floats | None = None
    """(members, arrays) Remaining hours of rebuild at full rate; None if rebuilds do not share the rate."""
    seen: Floats | None = None
    """(groups, arrays) Time at which ``work`` was up to date."""
    before: Floats | None = None
    """(members, arrays) Cumulative hazard up to which the life of the drive is in ``log_weight``."""
    log_weight: Floats | None = None
    """(arrays,) Logarithm of the likelihood ratio, up to the cumulative hazards in ``before``."""
    bias: Floats | None = None
    """(arrays,) Factor for the hazards of all members in groups with a failed member."""

    def take(self, columns: Any) -> Arrays:
        """A copy of some arrays."""
        # take() and not an index, which would make the array axis outermost in memory and sums over members slower.
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        taken: dict[str, Any] = {
            name: None if value is None else value.take(columns, axis=-1) for name, value in values.items()
        }
        return Arrays(**taken)

    @property
    def count(self) -> int:
        """Number of arrays."""
        return len(self.trial)

    def next_events(self) -> tuple[Floats, Columns]:
        """Time and member of the next event of each array; of several members, the first."""
        import numpy

        due = self.due
        when: Floats = due.min(axis=0)
        # The same result as argmin on this axis, in a tenth of the time.
        ranks = numpy.arange(len(due), 0, -1, dtype=numpy.int16)[:, None]
        return when, len(due) - ((due == when) * ranks).max(axis=0).astype(numpy.intp)


def joined(parts: list[Arrays]) -> Arrays:
    """All arrays, in sequence."""
    import numpy

    values = {each.name: [getattr(part, each.name) for part in parts] for each in fields(Arrays)}
    whole: dict[str, Any] = {
        name: None if found[0] is None else numpy.concatenate(found, axis=-1) for name, found in values.items()
    }
    return Arrays(**whole)


def new_arrays(model: FleetModel, rng: Generator, count: int) -> Arrays:
    """New arrays, with all members new."""
    import numpy

    members, shape = model.members, (model.members, count)
    factor = None
    if model.bad_share:
        lots = numpy.where(rng.random((model.lots, count)) < model.bad_share, model.bad_factor, 1.0)
        factor = lots[numpy.arange(members) % model.lots]
    phase = rng.random(count) * model.scrub.interval_hours
    hazard = rng.standard_exponential(shape)
    if factor is not None:
        hazard /= factor
    due = numpy.full(shape, numpy.inf)
    # Most drives outlive the mission, so the power is computed only for the others.
    early = hazard < (model.mission_hours / model.life.scale_hours) ** model.life.shape
    due[early] = model.life.scale_hours * hazard[early] ** (1 / model.life.shape)
    return Arrays(
        trial=numpy.arange(count),
        due=due,
        born=numpy.zeros(shape),
        state=numpy.zeros(shape, numpy.int8),
        failed=numpy.zeros((model.groups, count), numpy.int64),
        clean=numpy.zeros((model.groups, count)),
        phase=phase,
        alive=numpy.ones(count),
        ready=numpy.zeros((model.spares, count)),
        factor=factor,
        pulled=numpy.zeros(shape, bool) if model.wrong_disk else None,
        work=numpy.zeros(shape) if model.shares_rate else None,
        seen=numpy.zeros((model.groups, count)) if model.shares_rate else None,
    )


def cumulative_hazard(model: FleetModel, now: Floats, born: Floats, factor: Floats | None) -> Floats:
    """Cumulative hazard of drives that were new at ``born``, for the Weibull distribution of their life."""
    import numpy

    lived: Floats = now - born
    # Equal times may differ by rounding, and a power of a negative number is nan.
    numpy.maximum(lived, 0, out=lived)
    lived /= model.life.scale_hours
    if model.life.shape != 1:
        lived **= model.life.shape
    if factor is not None:
        lived *= factor
    return lived


def age_at(model: FleetModel, hazard: Floats, factor: Floats | None) -> Floats:
    """The age at which the cumulative hazard of a drive has this value: the inverse of ``cumulative_hazard``."""
    own = hazard if factor is None else hazard / factor
    # Powers are slow, and shape 1 needs none.
    found: Floats = model.life.scale_hours * (own if model.life.shape == 1 else own ** (1 / model.life.shape))
    return found


def start_weights(model: FleetModel, arrays: Arrays, now: Floats) -> None:
    """Begin to record weights: from here on, hazards may differ from the true ones."""
    import numpy

    arrays.before = cumulative_hazard(model, now, arrays.born, arrays.factor)
    arrays.bias = numpy.ones(arrays.count)
    arrays.log_weight = numpy.zeros(arrays.count)


def _is_hurried(model: FleetModel, arrays: Arrays) -> Any:
    """(members, arrays) bool: members that are up in a group with failed ones, whose hazard is therefore multiplied."""
    import numpy

    is_up = arrays.state == UP
    if model.groups == 1:
        return is_up
    return is_up & numpy.repeat(arrays.failed > 0, model.group_members, axis=0)


def settle_weights(model: FleetModel, arrays: Arrays, now: Floats) -> None:
    """Add to the weights the hazard of members that are up since the last call, where it is multiplied."""
    if arrays.before is None or arrays.bias is None or arrays.log_weight is None:
        return
    lived = cumulative_hazard(model, now, arrays.born, arrays.factor)
    since = lived - arrays.before
    since *= _is_hurried(model, arrays)
    arrays.log_weight += (arrays.bias - 1) * since.sum(axis=0)
    arrays.before = lived


def choose_bias(model: FleetModel, rng: Generator, arrays: Arrays, now: Floats, aim: float) -> None:
    """Multiply the hazards of degraded groups so that ``aim`` failures are expected before the next rebuild ends.

    Other groups of the array keep their hazards: a failure there loses no data, and would only add work and variance.

    The end of the rebuild is already drawn. So no weight grows by more than e to the power of ``aim`` in one such
    window, even in a long rebuild. The factor depends on the past only, which keeps the weights exact. The weights must
    be settled. Failures after the end of the window are not drawn: this function is called again at that time.
    """
    import numpy

    if arrays.before is None:
        return
    is_up = arrays.state == UP
    numpy.copyto(arrays.due, numpy.inf, where=is_up if arrays.pulled is None else is_up & ~arrays.pulled)
    ends = arrays.due if arrays.work is None else arrays.due + arrays.work * (arrays.state == WAITING)
    end = ends.min(axis=0)
    if arrays.pulled is not None and (pulled := numpy.flatnonzero(arrays.pulled.any(axis=0))).size:
        end[pulled] = numpy.where(is_up[:, pulled], numpy.inf, ends[:, pulled]).min(axis=0)
    expected = cumulative_hazard(model, end, arrays.born, arrays.factor)
    expected -= arrays.before
    expected *= is_up
    # With one group, all members that are up have the multiplied hazard, which saves one pass over the columns.
    is_hurried = None if model.groups == 1 else _is_hurried(model, arrays)
    hurried = expected if is_hurried is None else expected * is_hurried
    arrays.bias = numpy.maximum(1.0, aim / numpy.maximum(hurried.sum(axis=0), 1e-300))
    hazard = rng.standard_exponential(is_up.shape)
    hazard /= arrays.bias if is_hurried is None else numpy.where(is_hurried, arrays.bias, 1.0)
    members, columns = numpy.divmod(numpy.flatnonzero(hazard < expected), arrays.count)
    factor = None if arrays.factor is None else arrays.factor[members, columns]
    drawn = age_at(model, arrays.before[members, columns] + hazard[members, columns], factor)
    drawn += arrays.born[members, columns]
    if arrays.pulled is not None:
        # A member that is to be pulled still is, unless it fails before.
        sooner = drawn < numpy.where(arrays.pulled[members, columns], arrays.due[members, columns], numpy.inf)
        members, columns, drawn = members[sooner], columns[sooner], drawn[sooner]
        arrays.pulled[members, columns] = False
    arrays.due[members, columns] = drawn
