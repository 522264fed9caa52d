"""Simulate blocks of arrays (failures, rebuilds and losses) by discrete events, and derive figures from the sums.

All arrays of a block process their next event together, each at its own time, so that numpy handles thousands in one
step. Some quantities are not drawn. At any time, the number of latent defects on a drive follows a Poisson
distribution (Elerath and Pecht's "usage dependent data corruptions"). Its mean is the rate of defects times the hours
since each place was last read, so probabilities are added instead of counts. Whether people lose the data
of a stopped array is not drawn either.

Rare losses are estimated by importance sampling. An *episode* begins when a member fails in an array without failed
members, and ends when all members are rebuilt. The main path of an array has the true distribution. At the beginning of
each episode, a copy of the array is made. In the copy, the hazards of groups with failed members are multiplied until
the episode ends, and losses are weighted with the likelihood ratio (failure biasing: Lewis and Böhm, Nuclear
Engineering and Design 77, 1984; Heidelberger, ACM TOMACS 5, 1995). Only the losses of copies are counted. The sum of
the weighted losses over an array's episodes has the same mean as a count on the main path, because each copy starts in
the state of the main path. A weight covers only one episode, so weights remain bounded over any number of years.

Each block yields sums of its losses, and the sums of several blocks can be added. Each figure has a 95 % confidence
interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy

from lab.fleet.model import HOURS_PER_YEAR, MOST_YEARS, TB, Block, FleetModel, Scrubbing, ScrubKind, Spread
from lab.theory.extension import Interval, LossFigures

if TYPE_CHECKING:
    from numpy.random import Generator

    from lab.fleet.model import Columns, Floats

    Episodes = tuple["Arrays", Columns, Floats]
    """Arrays before a failure, the member that fails, and the time."""

UP, WAITING, REBUILDING = 0, 1, 2
"""States of a member. WAITING means that its rebuild has not begun, and is used only if rebuilds share a rate."""


@dataclass(slots=True)
class Arrays:
    """The state of a block of arrays. The last axis of every field is the array.

    Times are hours since the array was new.
    """

    trial: Columns
    """(arrays,) Number of the array in the block. Copies of one array have the same number."""
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
    """(arrays,) Time since the last scrub began, at the moment when the array was new."""
    alive: Floats
    """(arrays,) Probability that no data have been lost yet, for losses that are not drawn."""
    ready: Floats
    """(spares, arrays) Time at which each spare is available."""
    factor: Floats | None = None
    """(members, arrays) Factor for the hazard of the drive, or None if it is 1 for all."""
    pulled: Any = None
    """(members, arrays) bool: whether this good drive is pulled by mistake at its next event, or None without
    errors.
    """
    work: Floats | None = None
    """(members, arrays) Remaining hours of rebuild at full rate, or None if rebuilds do not share the rate."""
    seen: Floats | None = None
    """(groups, arrays) Time at which ``work`` was up to date."""
    before: Floats | None = None
    """(members, arrays) Cumulative hazard of the drive that ``log_weight`` already includes."""
    log_weight: Floats | None = None
    """(arrays,) Logarithm of the likelihood ratio, up to the cumulative hazards in ``before``."""
    bias: Floats | None = None
    """(arrays,) Factor for the hazards of all members in groups with a failed member."""

    def take(self, columns: Any) -> Arrays:
        # Use take(), because an index would make the array axis outermost in memory, and sums over members slower.
        values = (getattr(self, each.name) for each in fields(self))
        taken: Iterable[Any] = (None if value is None else value.take(columns, axis=-1) for value in values)
        return Arrays(*taken)

    @property
    def count(self) -> int:
        return len(self.trial)

    def next_events(self) -> tuple[Floats, Columns]:
        """Return the time and member of each array's next event. Of simultaneous events, the first member's counts."""
        due = self.due
        when: Floats = due.min(axis=0)
        # This gives the same result as argmin on this axis, in a tenth of the time.
        ranks = numpy.arange(len(due), 0, -1, dtype=numpy.int16)[:, None]
        return when, len(due) - ((due == when) * ranks).max(axis=0).astype(numpy.intp)


def joined(parts: list[Arrays]) -> Arrays:
    """Concatenate the arrays."""
    values = ([getattr(part, each.name) for part in parts] for each in fields(Arrays))
    whole: Iterable[Any] = (None if found[0] is None else numpy.concatenate(found, axis=-1) for found in values)
    return Arrays(*whole)


def new_arrays(model: FleetModel, rng: Generator, count: int) -> Arrays:
    """Create arrays in which all members are new."""
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
    """Compute the cumulative hazard of drives that were new at ``born``, for their Weibull lifetimes."""
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
    """Compute the age at which a drive's cumulative hazard has this value, as the inverse of ``cumulative_hazard``."""
    own = hazard if factor is None else hazard / factor
    # Powers are slow, and shape 1 needs none.
    found: Floats = model.life.scale_hours * (own if model.life.shape == 1 else own ** (1 / model.life.shape))
    return found


def _is_hurried(model: FleetModel, arrays: Arrays) -> Any:
    """Return a bool array (members, arrays): true for members whose hazard is multiplied (up, in a degraded group)."""
    is_up = arrays.state == UP
    if model.groups == 1:
        return is_up
    return is_up & numpy.repeat(arrays.failed > 0, model.group_members, axis=0)


def settle_weights(model: FleetModel, arrays: Arrays, now: Floats) -> None:
    """Update the weights for the time since the last call, in which members with multiplied hazards did not fail."""
    if arrays.before is None or arrays.bias is None or arrays.log_weight is None:
        return
    lived = cumulative_hazard(model, now, arrays.born, arrays.factor)
    since = lived - arrays.before
    since *= _is_hurried(model, arrays)
    arrays.log_weight += (arrays.bias - 1) * since.sum(axis=0)
    arrays.before = lived


def choose_bias(model: FleetModel, rng: Generator, arrays: Arrays, now: Floats, aim: float) -> None:
    """Multiply the hazards of degraded groups so that ``aim`` failures are expected before the next rebuild ends.

    Other groups of the array keep their hazards, because a failure there loses no data and only adds work and variance.
    The end of the rebuild is already drawn, so no weight grows by more than a factor of e to the power of ``aim``
    in one such window, even in a long rebuild. The multiplier of the hazards depends on the past only, which keeps the
    weights exact. The weights must have been settled. Failures after the end of the window are not drawn, because this
    function is called again then.
    """
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
        # A member that is to be pulled is still pulled, unless it fails before.
        sooner = drawn < numpy.where(arrays.pulled[members, columns], arrays.due[members, columns], numpy.inf)
        members, columns, drawn = members[sooner], columns[sooner], drawn[sooner]
        arrays.pulled[members, columns] = False
    arrays.due[members, columns] = drawn


_AT_ONCE = 1e-6
"""A scrub with a shorter duration, relative to its interval, is the same as an instantaneous one in 53 bits."""


def waiting_hours(model: FleetModel, hours_clean: Floats, scrub_phase_hours: Floats) -> Floats:
    """Average, over all places on a drive, the hours in which a defect could have occurred and remained undetected.

    ``hours_clean`` is the time since the drive was new or was last read from end to end, as an array of any
    shape. The time since the last periodic scrub began, ``scrub_phase_hours``, has that shape or one that broadcasts
    to it.
    """
    match model.scrub.kind:
        case ScrubKind.PERIODIC:
            return _since_scrub(model.scrub, hours_clean, scrub_phase_hours)
        case ScrubKind.DELAY:
            return _undetected(model.scrub.delay, hours_clean)
    return hours_clean


def _since_scrub(scrub: Scrubbing, clean: Floats, phase: Floats) -> Floats:
    """Average the hours since each place was last read by a periodic scrub, or since the drive was new.

    The scrub that began ``phase`` hours ago reads a place x (0 to 1) at x times its duration. Places already read were
    last read between max(phase - duration, 0) and phase hours ago, and the others between phase + interval - duration
    and interval hours ago, uniformly distributed. The age of the drive limits both, so min(age, U) is integrated over
    both ranges, as sums of nonnegative terms, which avoids cancellation.
    """
    lasting, interval = scrub.duration_hours, scrub.interval_hours
    if lasting <= _AT_ONCE * interval:
        at_most: Floats = numpy.minimum(clean, phase)
        return at_most

    def mean(age: Any, phase: Floats) -> Floats:
        ends = (
            (numpy.maximum(phase - lasting, 0), phase),
            (numpy.minimum(phase + interval - lasting, interval), interval),
        )
        found = numpy.zeros_like(phase)
        for low, high in ends:
            middle = numpy.clip(age, low, high)
            found = found + (middle - low) * (middle + low) / 2 + age * (high - middle)
        return found / lasting

    # Most drives are older than an interval, and the result does not depend on their age.
    found = numpy.broadcast_to(mean(interval, phase), clean.shape).copy()
    young = numpy.nonzero(clean < interval)
    found[young] = mean(clean[young], numpy.broadcast_to(phase, clean.shape)[young])
    return found


def _undetected(delay: Spread, ages: Floats) -> Floats:
    """Integrate over a defect's age, from 0 to each of ``ages``, the probability that it is still undetected.

    The probability is 1 up to ``location_hours``. The integral of exp(-(t / scale)^shape) is an incomplete gamma
    function.
    """
    from scipy.special import gammainc

    later = numpy.maximum(ages - delay.location_hours, 0) / delay.scale_hours
    whole = delay.scale_hours * math.gamma(1 + 1 / delay.shape)
    found: Floats = numpy.minimum(ages, delay.location_hours) + whole * gammainc(1 / delay.shape, later**delay.shape)
    return found


AIM = 1.5
"""Expected number of failures in copies from one event to the end of the next rebuild."""
BIASED_WRONG_DISK = 0.25
"""Probability in copies that a wrong disk is pulled, unless the true probability is higher."""
_LEAST_SHARE = 0.75
"""Finished arrays are removed when less than this share of the arrays is still simulated."""
_MOST_HELD = 1 << 17
"""Maximum number of members in arrays that wait for their copies. Each takes about a hundred bytes."""


def simulate_block(model: FleetModel, block: Block) -> BlockSums:
    """Simulate the losses of one block of arrays. The same model and block give bitwise equal sums in any process."""
    seeds = numpy.random.SeedSequence(model.seed, spawn_key=(block.number,)).spawn(2)
    main_rng, copy_rng = (numpy.random.Generator(numpy.random.PCG64DXSM(each)) for each in seeds)
    tally = LossTally(block.trials)
    send = partial(_run_copies, model, copy_rng, tally) if model.is_biased and model.tolerance else None
    main = _Walk(model, main_rng, new_arrays(model, main_rng, block.trials), tally, send)
    main.run()
    main.send_copies()
    return tally.sums(main.failures)


def _run_copies(model: FleetModel, rng: Generator, tally: LossTally, episodes: Sequence[Episodes]) -> None:
    """Simulate one copy of each episode of the main path, with multiplied hazards."""
    starts = joined([arrays for arrays, _, _ in episodes])
    slots = numpy.concatenate([slots for _, slots, _ in episodes])
    now = numpy.concatenate([now for _, _, now in episodes])
    # From here on, hazards may differ from the true ones.
    starts.before = cumulative_hazard(model, now, starts.born, starts.factor)
    starts.bias = numpy.ones(starts.count)
    starts.log_weight = numpy.zeros(starts.count)
    _Walk(model, rng, starts, tally, is_copy=True).run_copies(slots, now)


class _Walk:
    """Arrays during their simulation."""

    def __init__(
        self,
        model: FleetModel,
        rng: Generator,
        arrays: Arrays,
        tally: LossTally,
        send: Callable[[Sequence[Episodes]], None] | None = None,
        *,
        is_copy: bool = False,
    ) -> None:
        """With ``send``, episodes are passed to it when they begin, and losses are not counted here."""
        self._model, self._rng, self._arrays, self._tally = model, rng, arrays, tally
        self._send, self._is_copy = send, is_copy
        self._over = numpy.zeros(arrays.count, bool)
        self._inside = numpy.arange(model.group_members)[:, None]
        self._episodes: list[Episodes] = []
        self._held = 0
        self.failures = 0

    def send_copies(self) -> None:
        if self._send is not None and self._episodes:
            self._send(self._episodes)
        self._episodes, self._held = [], 0

    def run(self) -> None:
        while True:
            arrays = self._arrays
            now, slots = arrays.next_events()
            going = numpy.flatnonzero(now < self._model.mission_hours)
            if not len(going):
                return
            now, slots = now[going], slots[going]
            if len(going) < _LEAST_SHARE * arrays.count:
                self._arrays, going = arrays.take(going), numpy.arange(len(going))
            self._step(going, slots, now)

    def run_copies(self, slots: Columns, now: Floats) -> None:
        """Simulate each array from the failure of one member to the end of its episode or of the mission."""
        self._fail(numpy.arange(self._arrays.count), slots, now)
        while not self._over.all():
            if self._over.any():
                going = numpy.flatnonzero(~self._over)
                self._arrays, now = self._arrays.take(going), now[going]
                self._over = numpy.zeros(len(going), bool)
            choose_bias(self._model, self._rng, self._arrays, now, AIM)
            now, slots = self._arrays.next_events()
            now = numpy.minimum(now, self._model.mission_hours)
            settle_weights(self._model, self._arrays, now)
            self._over = now >= self._model.mission_hours
            self._tally.end_copies(self._weights(self._over))
            going = numpy.flatnonzero(~self._over)
            self._step(going, slots[going], now[going])

    def _step(self, going: Columns, slots: Columns, now: Floats) -> None:
        states = self._arrays.state[slots, going]
        for state, act in ((UP, self._fail), (REBUILDING, self._rebuilt), (WAITING, self._start_rebuild)):
            if (which := numpy.flatnonzero(states == state)).size:
                act(going[which], slots[which], now[which])

    def _of_group(self, values: Any, columns: Columns, groups: Columns) -> Any:
        if self._model.groups == 1:
            return values.take(columns, axis=-1)
        return values[groups * self._model.group_members + self._inside, columns]

    def _weights(self, columns: Any) -> Floats:
        """Return the likelihood ratio of the past (true distribution over sampled one). Weights must be settled."""
        if self._arrays.log_weight is None:
            return numpy.ones(len(self._arrays.trial[columns]))
        found: Floats = numpy.exp(self._arrays.log_weight[columns])
        return found

    def _lose(self, cause: Cause, columns: Columns, chance: Any, lost_bytes: Any) -> None:
        """Record a loss that occurs with probability ``chance``, which the mean ``lost_bytes`` already includes."""
        arrays = self._arrays
        if self._send is None:
            weights = self._weights(columns)
            self._tally.lose(cause, arrays.trial[columns], weights, chance, arrays.alive[columns], lost_bytes)
        arrays.alive[columns] *= 1 - chance

    def _fail(self, columns: Columns, slots: Columns, now: Floats) -> None:
        """Process members that fail, and good members that are pulled."""
        model, arrays = self._model, self._arrays
        if not self._is_copy:
            self.failures += len(columns)
            whole = arrays.failed[:, columns].sum(axis=0) == 0
            if self._send is not None and whole.any():
                self._episodes.append((arrays.take(columns[whole]), slots[whole], now[whole]))
                self._held += int(whole.sum()) * model.members
                if self._held > _MOST_HELD:
                    self.send_copies()
        groups = slots // model.group_members
        pulled = numpy.zeros(len(columns), bool) if arrays.pulled is None else arrays.pulled[slots, columns]
        if arrays.log_weight is not None and arrays.bias is not None:
            # The first failure of a group has the true hazard, as has a drive that is pulled.
            is_drawn = ~pulled & (arrays.failed[groups, columns] > 0)
            arrays.log_weight[columns] -= numpy.where(is_drawn, numpy.log(arrays.bias[columns]), 0)
        arrays.state[slots, columns] = WAITING if model.shares_rate else REBUILDING
        arrays.failed[groups, columns] += 1
        too_many = arrays.failed[groups, columns] > model.tolerance
        if too_many.any():
            self._stop(columns[too_many], slots[too_many], now[too_many], pulled[too_many])
        lives = ~too_many
        if lives.any():
            columns, slots, groups, now = columns[lives], slots[lives], groups[lives], now[lives]
            self._schedule(columns, slots, now, pulled[lives])
            bare = arrays.failed[groups, columns] == model.tolerance
            if bare.any() and (model.defects_per_hour or model.read_errors_per_byte):
                self._meet_defects(columns[bare], groups[bare], now[bare])

    def _stop(self, columns: Columns, slots: Columns, now: Floats, pulled: Any) -> None:
        """Process the failure of more members than the group tolerates."""
        model, arrays = self._model, self._arrays
        if (own := numpy.flatnonzero(pulled)).size:
            self._lose(Cause.PEOPLE, columns[own], model.loses_data, model.loses_data * model.usable_bytes)
            # Whether or not data were lost, the drive that was pulled is inserted again, and is up to date.
            arrays.failed[slots[own] // model.group_members, columns[own]] -= 1
            self._go_on(columns[own], slots[own], now[own])
        if (own := numpy.flatnonzero(~pulled)).size:
            lost = columns[own]
            self._lose(Cause.FAILURES, lost, 1.0, model.usable_bytes)
            if self._is_copy:
                self._tally.end_copies(self._weights(lost))
                self._over[lost] = True
            else:
                # The lost array is created anew, with new drives for the failed ones and data from the backup.
                slots, which = numpy.nonzero(arrays.state[:, lost] != UP)
                arrays.failed[:, lost] = 0
                self._renew(lost[which], slots, now[own][which])

    def _renew(self, columns: Columns, slots: Columns, now: Floats) -> None:
        model, arrays = self._model, self._arrays
        arrays.born[slots, columns] = now
        if arrays.factor is not None:
            bad = self._rng.random(len(columns)) < model.bad_share
            arrays.factor[slots, columns] = numpy.where(bad, model.bad_factor, 1.0)
        self._go_on(columns, slots, now)

    def _go_on(self, columns: Columns, slots: Columns, now: Floats) -> None:
        """Mark members as up, and draw their remaining lifetimes."""
        arrays = self._arrays
        arrays.state[slots, columns] = UP
        if arrays.pulled is not None:
            arrays.pulled[slots, columns] = False
        factor = None if arrays.factor is None else arrays.factor[slots, columns]
        lived = cumulative_hazard(self._model, now, arrays.born[slots, columns], factor)
        more = self._rng.standard_exponential(len(columns))
        if arrays.before is not None and arrays.bias is not None:
            arrays.before[slots, columns] = lived
            more /= arrays.bias[columns]
        arrays.due[slots, columns] = arrays.born[slots, columns] + age_at(self._model, lived + more, factor)

    def _schedule(self, columns: Columns, slots: Columns, now: Floats, pulled: Any) -> None:
        """Set the start and end of the rebuild of failed members."""
        model, arrays = self._model, self._arrays
        begins = now + model.replenish_hours
        if model.spares:
            first = arrays.ready[:, columns].argmin(axis=0)
            at = numpy.maximum(now, arrays.ready[first, columns])
            begins = numpy.where(pulled, now, at)
            arrays.ready[first, columns] = numpy.where(pulled, arrays.ready[first, columns], at + model.replenish_hours)
        begins = numpy.where(pulled, now, begins) + model.detection_hours
        lasts = model.rebuild.draw(self._rng, len(columns))
        if arrays.work is None:
            arrays.due[slots, columns] = begins + lasts
        else:
            arrays.due[slots, columns], arrays.work[slots, columns] = begins, lasts
        if not model.spares:
            self._err(columns[~pulled], slots[~pulled] // model.group_members, begins[~pulled])

    def _err(self, columns: Columns, groups: Columns, when: Floats) -> None:
        """Draw whether, at a replacement, a good drive of the same group is pulled by mistake."""
        model, arrays = self._model, self._arrays
        if not model.wrong_disk:
            return
        drawn = max(model.wrong_disk, BIASED_WRONG_DISK) if self._is_copy else model.wrong_disk
        errs = self._rng.random(len(columns)) < drawn
        if arrays.log_weight is not None:
            ratio = numpy.where(errs, model.wrong_disk / drawn, (1 - model.wrong_disk) / max(1 - drawn, 1e-300))
            arrays.log_weight[columns] += numpy.log(ratio)
        columns, when = columns[errs], when[errs]
        slots = groups[errs] * model.group_members + self._inside
        is_up = arrays.state[slots, columns] == UP
        chosen = numpy.where(is_up, self._rng.random(is_up.shape), -1.0).argmax(axis=0)
        which = numpy.arange(len(columns))
        slots = slots[chosen, which]
        sooner = is_up.any(axis=0) & (when < arrays.due[slots, columns])
        columns, slots = columns[sooner], slots[sooner]
        arrays.due[slots, columns] = when[sooner]
        arrays.pulled[slots, columns] = True

    def _meet_defects(self, columns: Columns, groups: Columns, now: Floats) -> None:
        """Record the loss of sectors that are unreadable on the remaining members and cannot be reconstructed."""
        model, arrays = self._model, self._arrays
        state, due, born = (self._of_group(each, columns, groups) for each in (arrays.state, arrays.due, arrays.born))
        is_up = state == UP
        clean = numpy.maximum(now - numpy.maximum(born, arrays.clean[groups, columns]), 0)
        phase = numpy.zeros_like(now)
        if model.scrub.interval_hours:
            phase = (now + arrays.phase[columns]) % model.scrub.interval_hours
        hours = waiting_hours(model, clean, phase)
        if model.counts_new_defects:
            left = due - now
            if arrays.work is not None:
                work = self._of_group(arrays.work, columns, groups)
                left = numpy.where(state == WAITING, left, 0) + work * model.tolerance
            # On average, a rebuild reads a place when half of the rebuild's time has passed.
            hours = hours + numpy.maximum(numpy.where(is_up, numpy.inf, left).min(axis=0), 0) / 2
        mean = numpy.where(is_up, model.defects_per_hour * hours + model.read_errors_per_byte * model.disk_bytes, 0)
        mean = mean.sum(axis=0)
        lost_bytes = numpy.minimum(mean * model.defect_bytes, model.usable_bytes)
        self._lose(Cause.SECTORS, columns, -numpy.expm1(-mean), lost_bytes)

    def _start_rebuild(self, columns: Columns, slots: Columns, now: Floats) -> None:
        groups = slots // self._model.group_members
        self._settle(columns, groups, now)
        self._arrays.state[slots, columns] = REBUILDING
        self._retime(columns, groups, now)

    def _rebuilt(self, columns: Columns, slots: Columns, now: Floats) -> None:
        model, arrays = self._model, self._arrays
        groups = slots // model.group_members
        self._settle(columns, groups, now)
        own = numpy.zeros(len(columns), bool) if arrays.pulled is None else arrays.pulled[slots, columns]
        if own.any():
            self._go_on(columns[own], slots[own], now[own])
        self._renew(columns[~own], slots[~own], now[~own])
        arrays.failed[groups, columns] -= 1
        if model.rebuild_clears:
            arrays.clean[groups, columns] = now
        self._retime(columns, groups, now)
        replaced = ~own
        if self._is_copy:
            whole = arrays.failed[:, columns].sum(axis=0) == 0
            self._tally.end_copies(self._weights(columns[whole]))
            self._over[columns[whole]] = True
            replaced &= ~whole
        if model.spares:
            self._err(columns[replaced], groups[replaced], now[replaced])

    def _settle(self, columns: Columns, groups: Columns, now: Floats) -> None:
        """Subtract the work that the rebuilds of these groups have done, if rebuilds share a rate."""
        arrays = self._arrays
        if arrays.work is None or arrays.seen is None:
            return
        slots = groups * self._model.group_members + self._inside
        runs = arrays.state[slots, columns] == REBUILDING
        done = (now - arrays.seen[groups, columns]) / numpy.maximum(runs.sum(axis=0), 1)
        arrays.work[slots, columns] -= numpy.where(runs, done, 0)
        arrays.seen[groups, columns] = now

    def _retime(self, columns: Columns, groups: Columns, now: Floats) -> None:
        """Set the ends of the running rebuilds of these groups, if rebuilds share a rate."""
        arrays = self._arrays
        if arrays.work is None:
            return
        slots = groups * self._model.group_members + self._inside
        runs = arrays.state[slots, columns] == REBUILDING
        ends = now + numpy.maximum(arrays.work[slots, columns], 0) * runs.sum(axis=0)
        arrays.due[slots, columns] = numpy.where(runs, ends, arrays.due[slots, columns])


def hours_to_loss(failure_rates: Sequence[float], repair_rates: Sequence[float]) -> float:
    """Compute the mean time from no failures to a loss, using the Markov chain of one group of an array.

    The states of the chain are the numbers of failed members from 0 to the tolerance, followed by the loss. The
    time from state i to i + 1 is h(i) = 1 / f(i) + r(i) / f(i) × h(i - 1), which includes all returns to lower states.
    ``failure_rates`` are per hour from state i to i + 1, from 0 to the tolerance, and ``repair_rates`` from state i to
    i - 1, from 1 on.
    """
    total = step = 0.0
    for rate, back in zip(failure_rates, (0.0, *repair_rates), strict=True):
        step = (1 + back * step) / rate
        total += step
    return total


class Cause(IntEnum):
    """Causes of a loss of data."""

    FAILURES = 0
    """More members failed than the array tolerates, so all of its data are lost."""
    SECTORS = 1
    """A rebuild without redundancy met an unreadable sector, so the data of that sector are lost."""
    PEOPLE = 2
    """A wrong disk was pulled, and the stopped array was not restored, so all of its data are lost."""


class Moments(msgspec.Struct, frozen=True):
    """The sum, sum of squares and maximum of a figure over arrays. All are 0 if no event was seen."""

    total: float = 0.0
    squares: float = 0.0
    largest: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.total + other.total, self.squares + other.squares, max(self.largest, other.largest))

    @property
    def seen(self) -> float:
        """The number of events of equal weight that would give this sum and variance (without weights, the count)."""
        return self.total**2 / self.squares if self.squares else 0.0


ByCause = tuple[Moments, ...]
"""One value per cause, in the order of ``Cause``."""
_NEVER: ByCause = (Moments(),) * len(Cause)


class BlockSums(msgspec.Struct, frozen=True):
    """The sums of one block, or of several in the order of their numbers."""

    trials: int = 0
    failures: int = 0
    """Drives that failed or were pulled on main paths."""
    losses: Moments = Moments()
    """Weighted losses of each array."""
    first: Moments = Moments()
    """Weighted probability that each array loses any data."""
    lost_bytes: Moments = Moments()
    cause_losses: ByCause = _NEVER
    cause_first: ByCause = _NEVER
    cause_bytes: ByCause = _NEVER
    copies: int = 0
    copy_weights: float = 0.0
    """Sum of the final weights of copies, whose mean is 1."""
    copy_squares: float = 0.0


def summed(parts: Iterable[BlockSums]) -> BlockSums:
    """Add these sums in the order of their blocks, because floating-point sums depend on the order."""
    whole = BlockSums()
    for part in parts:
        whole = BlockSums(*map(_plus, msgspec.structs.astuple(whole), msgspec.structs.astuple(part)))
    return whole


def _plus(one: Any, other: Any) -> Any:
    return tuple(map(_plus, one, other)) if isinstance(one, tuple) else one + other


class LossTally:
    """Collects the losses of a block during its simulation, by array and cause."""

    def __init__(self, trials: int) -> None:
        self._losses = numpy.zeros((len(Cause), trials))
        self._bytes = numpy.zeros((len(Cause), trials))
        self._first = numpy.zeros((len(Cause), trials))
        self._copies, self._weights, self._squares = 0, 0.0, 0.0

    def lose(self, cause: Cause, trials: Columns, weights: Floats, chance: Any, alive: Floats, lost_bytes: Any) -> None:
        """Record losses that have probability ``chance``. Each is its array's first with probability ``alive``."""
        numpy.add.at(self._losses[cause], trials, weights * chance)
        numpy.add.at(self._bytes[cause], trials, weights * lost_bytes)
        numpy.add.at(self._first[cause], trials, weights * alive * chance)

    def end_copies(self, weights: Floats) -> None:
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
            tuple(map(_moments, self._losses)),
            tuple(map(_moments, self._first)),
            tuple(map(_moments, self._bytes)),
            self._copies,
            self._weights,
            self._squares,
        )


def _moments(values: Floats) -> Moments:
    return Moments(float(values.sum()), float((values**2).sum()), float(values.max(initial=0.0)))


PB = 10**15
_Z = 1.959963984540054
_DENSE = 0.05
"""Events are not rare if the square of their sum, divided by the trials, is at least this share of the squares."""
_SELDOM = 10.0
"""If a cause is seen less often than this, its interval spans more than a factor of two in both directions."""
_LEAST = 1e-100
"""A smaller mean is shown as a bound, because the squares of such weights are below the range of floating point."""
MOST_NINES = 300.0
"""Shown in place of an infinite number of nines."""


def rare_sum(moments: Moments, one: float = 1.0) -> Interval:
    """Return the confidence interval of the expected total weight of rare events, even if few or none were seen.

    This is the gamma interval of Fay and Feuer (Statistics in Medicine 16, 1997, 791-801), which is exact for counts
    and conservative for weighted events. ``one`` is the weight assumed for an event if none was seen.
    """
    from scipy.special import gammaincinv

    total, squares, largest = moments.total, moments.squares, moments.largest or max(one, _LEAST)
    if 0 < total < _LEAST:
        return Interval(0.0, 0.0, _LEAST)
    low = squares / total * float(gammaincinv(total**2 / squares, 0.025)) if total else 0.0
    more, wider = total + largest, squares + largest**2
    return Interval(total, low, wider / more * float(gammaincinv(more**2 / wider, 0.975)))


def mean_of(moments: Moments, trials: int, one: float = 1.0) -> Interval:
    """Return the interval of the mean over independent arrays: a normal one, or one by ``rare_sum`` for rare events.

    ``one`` is the maximum weight of one event, used if none was seen.
    """
    mean = moments.total / trials
    if moments.total < _LEAST or moments.total * mean < _DENSE * moments.squares:
        return rare_sum(moments, one).times(1 / trials)
    variance = max(moments.squares / trials - mean**2, 0.0)
    half = _Z * math.sqrt(variance / trials) + _Z**2 / 2 / trials * moments.largest
    return Interval(mean, max(mean - half, 0.0), mean + half)


def most_lost(model: FleetModel) -> dict[Cause, float]:
    """Return the possible causes, each with the maximum share of the array's data that is lost in one event.

    With a spare, a drive is replaced only when the group is complete again, so pulling a wrong disk loses no data.
    """
    most = {Cause.FAILURES: 1.0}
    if model.tolerance and (model.defects_per_hour or model.read_errors_per_byte):
        most[Cause.SECTORS] = 1.0
    if model.tolerance and not model.spares and model.wrong_disk and model.loses_data:
        most[Cause.PEOPLE] = model.loses_data
    return most


def mean_of_causes(whole: Moments, causes: ByCause, trials: int, most: Mapping[Cause, float]) -> Interval:
    """Return the interval of a mean to which causes with very different sizes and frequencies contribute.

    The variance of the sum says nothing about a cause that was rarely seen. Therefore each cause that was seen has its
    own interval, all causes that were never seen share one, and the distances from the estimates to the limits are
    added in quadrature (MOVER: Zou and Donner, Statistics in Medicine 27, 2008, 1693-1702). If the interval of the sum
    is wider, it is used. ``most`` maps the possible causes to the maximum of one event.
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
    """Compute, from the simulated sums, the figures of a fleet with this number of arrays."""
    years = model.years
    chances = most_lost(model)
    amounts = {cause: chance * model.usable_bytes for cause, chance in chances.items()}
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
    """Compute the mean time to data loss of one array, for constant rates of failure and repair and no other errors.

    The failure rate includes the share of drives from bad lots. Failed drives are repaired in parallel.
    """
    life, repair = _means(model)
    hours = hours_to_loss(
        [(model.group_members - failed) / life for failed in range(model.tolerance + 1)],
        [failed / repair for failed in range(1, model.tolerance + 1)],
    )
    return min(hours / model.groups / HOURS_PER_YEAR, MOST_YEARS)


def _means(model: FleetModel) -> tuple[float, float]:
    return model.life.mean_hours / model.hazard_scale, max(model.repair_hours, 1e-9)


def mttdl_by_hand(model: FleetModel) -> str:
    """Write the chain's leading term, such as ``(553,949 h)² ÷ (6 × 5 × 72 h) = 16,206 years``, and what remains."""
    life, repair = _means(model)
    lost = model.tolerance + 1
    factors = [str(model.group_members - failed) for failed in range(lost)]
    factors += [str(model.groups)] if model.groups > 1 else []
    if model.tolerance:
        hours = f"{repair:.5g} h"
        factors.append(hours if model.tolerance == 1 else f"({hours})^{model.tolerance}")
    # Failed drives are repaired in parallel.
    ways = math.factorial(model.tolerance)
    hours_of = math.log(ways) + lost * math.log(life) - model.tolerance * math.log(repair) - math.log(model.groups)
    hours_of -= math.fsum(math.log(model.group_members - failed) for failed in range(lost))
    years = math.exp(min(hours_of - math.log(HOURS_PER_YEAR), 690.0))
    power = {1: f"{life:,.0f} h", 2: f"({life:,.0f} h)²", 3: f"({life:,.0f} h)³"}
    top = f"{ways} × " if ways > 1 else ""
    bottom = " × ".join(factors)
    rounded = f"{years:,.0f}" if years < 1e6 else f"{years:.3g}"
    top += power.get(lost, f"({life:,.0f} h)^{lost}")
    formula = f"{top} ÷ {f'({bottom})' if len(factors) > 1 else bottom} = {rounded} years"
    rest = mttdl_years(model) - years
    return formula if not 0.5 <= rest < 1e6 else f"{formula}, and {rest:,.0f} until the first failures"


def counted_words(model: FleetModel) -> str:
    """Return a sentence about what the figures count. Fleets can be compared only if their sentences are equal."""
    rebuilt = f"rebuilt in {model.rebuild.mean_hours:.3g} h"
    noticed = f"noticed after {model.detection_hours:g} h, " if model.detection_hours else ""
    if model.spares:
        spares = "a spare" if model.spares == 1 else f"{model.spares} spares"
        steps = f"{noticed}{rebuilt} on {spares}; a used spare is replaced after {model.replenish_hours:g} h"
    else:
        steps = f"{noticed}replaced after {model.replenish_hours:g} h, {rebuilt}"
    clauses = [f"a failed drive is {steps}"]
    errs = f"a wrong drive is pulled at {100 * model.wrong_disk:g} % of the replacements"
    clauses.append(errs if model.wrong_disk else "nobody errs")
    if model.life.shape != 1:
        clauses.append(f"drives age (Weibull, shape {model.life.shape:g})")
    if model.bad_share:
        clauses.append(f"{100 * model.bad_share:g} % of the lots are bad")
    return "; ".join(clauses)


def at_least_once(chance: float, of: int) -> float:
    """Return the probability that an event with probability ``chance`` occurs in at least one of ``of`` trials."""
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
