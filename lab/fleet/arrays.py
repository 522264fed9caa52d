"""A block of arrays as columns: one row for each member, one column for each array, and the lives of their drives."""

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
"""States of a member. WAITING: its rebuild has not begun; used where rebuilds share a rate."""


@dataclass(slots=True)
class Arrays:
    """The last axis of everything is the array. Hours count from the array's first."""

    trial: Columns
    """(arrays,) Which array of the block this is; copies of one array have the same."""
    due: Floats
    """(members, arrays) When the next thing happens to a member: it fails, its rebuild begins or ends."""
    born: Floats
    """(members, arrays) When the drive was new."""
    state: Any
    """(members, arrays) int8."""
    failed: Any
    """(groups, arrays) int64: members that are not up."""
    clean: Floats
    """(groups, arrays) When a rebuild last read all members from end to end."""
    phase: Floats
    """(arrays,) Hours since the last scrub began, at the array's first hour."""
    alive: Floats
    """(arrays,) Chance that no data were lost yet, as far as that was not drawn."""
    ready: Floats
    """(spares, arrays) When each spare is on the shelf."""
    factor: Floats | None = None
    """(members, arrays) What the drive's hazard is multiplied by; None: 1 for all."""
    pulled: Any = None
    """(members, arrays) bool: somebody pulls this good drive when it is due; None: nobody errs."""
    work: Floats | None = None
    """(members, arrays) Hours of rebuilding that are left at full rate; None where rebuilds do not share it."""
    seen: Floats | None = None
    """(groups, arrays) When ``work`` was right."""
    before: Floats | None = None
    """(members, arrays) Cumulative hazard at which a drive's biased life began."""
    log_weight: Floats | None = None
    """(arrays,) Logarithm of the likelihood ratio, without that of drives that are up."""
    bias: Floats | None = None
    """(arrays,) What the hazards of all members of groups with a failed one are multiplied by."""

    def take(self, columns: Any) -> Arrays:
        """A copy of some of them."""
        # Not by an index, which leaves its axis outermost in memory: whatever adds up members would take longer.
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        taken: dict[str, Any] = {
            name: None if value is None else value.take(columns, axis=-1) for name, value in values.items()
        }
        return Arrays(**taken)

    @property
    def count(self) -> int:
        """How many arrays."""
        return len(self.trial)

    def next_events(self) -> tuple[Floats, Columns]:
        """When the next thing happens to each array, and to which member; of several, the first."""
        import numpy

        due = self.due
        when: Floats = due.min(axis=0)
        # What argmin finds along this axis too, in ten times the time.
        ranks = numpy.arange(len(due), 0, -1, dtype=numpy.int16)[:, None]
        return when, len(due) - ((due == when) * ranks).max(axis=0).astype(numpy.intp)


def joined(parts: list[Arrays]) -> Arrays:
    """All of them, one after the other."""
    import numpy

    values = {each.name: [getattr(part, each.name) for part in parts] for each in fields(Arrays)}
    whole: dict[str, Any] = {
        name: None if found[0] is None else numpy.concatenate(found, axis=-1) for name, found in values.items()
    }
    return Arrays(**whole)


def new_arrays(model: FleetModel, rng: Generator, count: int) -> Arrays:
    """Arrays in their first hour, all members new."""
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
    # Most drives outlive the mission: the power is taken of the others only.
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
    """Of drives that were new at ``born``, by the Weibull law of their life."""
    import numpy

    lived: Floats = now - born
    # Two sums of hours that should be the same may differ by their rounding, and powers of less than 0 are nan.
    numpy.maximum(lived, 0, out=lived)
    lived /= model.life.scale_hours
    if model.life.shape != 1:
        lived **= model.life.shape
    if factor is not None:
        lived *= factor
    return lived


def age_at(model: FleetModel, hazard: Floats, factor: Floats | None) -> Floats:
    """The inverse: at which age a drive's cumulative hazard reaches this."""
    own = hazard if factor is None else hazard / factor
    # Powers take long, and lives without ageing need none.
    found: Floats = model.life.scale_hours * (own if model.life.shape == 1 else own ** (1 / model.life.shape))
    return found


def start_weights(model: FleetModel, arrays: Arrays, now: Floats) -> None:
    """From here on, hazards may differ from the true ones."""
    import numpy

    arrays.before = cumulative_hazard(model, now, arrays.born, arrays.factor)
    arrays.bias = numpy.ones(arrays.count)
    arrays.log_weight = numpy.zeros(arrays.count)


def _is_hurried(model: FleetModel, arrays: Arrays) -> Any:
    """(members, arrays) bool: which are up in a group with failed ones, and so under the multiplied hazard."""
    import numpy

    is_up = arrays.state == UP
    if model.groups == 1:
        return is_up
    return is_up & numpy.repeat(arrays.failed > 0, model.group_members, axis=0)


def settle_weights(model: FleetModel, arrays: Arrays, now: Floats) -> None:
    """Into the weights: what members that are up have lived through since the last look, under multiplied hazards."""
    if arrays.before is None or arrays.bias is None or arrays.log_weight is None:
        return
    lived = cumulative_hazard(model, now, arrays.born, arrays.factor)
    since = lived - arrays.before
    since *= _is_hurried(model, arrays)
    arrays.log_weight += (arrays.bias - 1) * since.sum(axis=0)
    arrays.before = lived


def choose_bias(model: FleetModel, rng: Generator, arrays: Arrays, now: Floats, aim: float) -> None:
    """Multiply the hazards of degraded groups so that ``aim`` failures come before the next rebuild ends.

    Other groups of the array keep theirs: a failure there loses nothing, and would be work and spread for nothing.

    When that is, is drawn already; so no weight grows beyond e to the power of ``aim`` in one such window, however long
    a rebuild may take. The factor depends on the past alone, which keeps the weights exact. Weights are settled.
    Failures after the window's end are not drawn: at its end this is done again.
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
    # Where there is one group, all that are up are hurried, and the columns are gone through once less.
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
        # Who is about to be pulled is so still, unless it fails before.
        sooner = drawn < numpy.where(arrays.pulled[members, columns], arrays.due[members, columns], numpy.inf)
        members, columns, drawn = members[sooner], columns[sooner], drawn[sooner]
        arrays.pulled[members, columns] = False
    arrays.due[members, columns] = drawn
