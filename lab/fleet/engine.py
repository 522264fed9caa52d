"""Discrete-event simulation of blocks of arrays: failures, rebuilds, and lost data.

All arrays of a block process their next event together, each at its own time, so that numpy handles thousands in one
step. Some quantities are not drawn: the number of latent defects is Poisson with a known mean, so probabilities are
added instead of counts; likewise the probability that people lose a stopped array.

Rare losses are found by importance sampling. An *episode* begins when a member fails in an array without failed
members, and ends when all members are rebuilt. The main path of an array has the true distribution. At the beginning of
each episode it creates a copy of itself, in which the hazards of groups with failed members are multiplied until the
episode ends, and whose losses are weighted with the likelihood ratio (failure biasing: Lewis and Böhm, Nuclear
Engineering and Design 77, 1984; Heidelberger, ACM TOMACS 5, 1995). Only losses of copies are then counted. The sum of
the weighted losses over an array's episodes has the same mean as a count on the main path, because each copy starts in
the state of the main path. A weight covers only one episode, so weights remain bounded over any number of years.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lab.fleet.arrays import (
    REBUILDING,
    UP,
    WAITING,
    Arrays,
    age_at,
    choose_bias,
    cumulative_hazard,
    joined,
    new_arrays,
    settle_weights,
    start_weights,
)
from lab.fleet.estimate import BlockSums, Cause, LossTally
from lab.fleet.exposure import waiting_hours
from lab.fleet.model import Block, FleetModel

if TYPE_CHECKING:
    from numpy.random import Generator

    from lab.fleet.arrays import Columns, Floats

    Episodes = tuple[Arrays, Columns, Floats]
    """Arrays before a failure, the member that fails, when."""

AIM = 1.5
"""Expected number of failures in copies from one event to the end of the next rebuild."""
BIASED_WRONG_DISK = 0.25
"""Probability in copies that a wrong disk is pulled; the true one if that is higher."""
_KEPT_SHARE = 0.75
"""Finished arrays are removed when less than this share of the arrays is still simulated."""
_MOST_HELD = 1 << 17
"""Maximum number of members of arrays that wait for their copies: some hundred bytes each."""


def simulate_block(model: FleetModel, block: Block) -> BlockSums:
    """The losses of one block of arrays. The same model and block give bitwise equal sums in any process."""
    import numpy

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
    import numpy

    starts = joined([arrays for arrays, _, _ in episodes])
    slots = numpy.concatenate([slots for _, slots, _ in episodes])
    now = numpy.concatenate([now for _, _, now in episodes])
    start_weights(model, starts, now)
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
        import numpy

        self._model = model
        self._rng = rng
        self._arrays = arrays
        self._tally = tally
        self._send = send
        self._is_copy = is_copy
        self._over = numpy.zeros(arrays.count, bool)
        self._inside = numpy.arange(model.group_members)[:, None]
        self._episodes: list[Episodes] = []
        self._held = 0
        self.failures = 0

    def send_copies(self) -> None:
        """Pass the pending episodes to ``send``."""
        if self._send is not None and self._episodes:
            self._send(self._episodes)
        self._episodes, self._held = [], 0

    def run(self) -> None:
        """Simulate to the end of the mission."""
        import numpy

        while True:
            arrays = self._arrays
            now, slots = arrays.next_events()
            going = numpy.flatnonzero(now < self._model.mission_hours)
            if not len(going):
                return
            now, slots = now[going], slots[going]
            if len(going) < _KEPT_SHARE * arrays.count:
                self._arrays, going = arrays.take(going), numpy.arange(len(going))
            self._step(going, slots, now)

    def run_copies(self, slots: Columns, now: Floats) -> None:
        """Simulate from the failure of one member of each array to the end of its episode, or of the mission."""
        import numpy

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
        """Process the next event of each of these arrays, one member each."""
        import numpy

        states = self._arrays.state[slots, going]
        for state, act in ((UP, self._fail), (REBUILDING, self._rebuilt), (WAITING, self._start_rebuild)):
            if (which := numpy.flatnonzero(states == state)).size:
                act(going[which], slots[which], now[which])

    def _of_group(self, values: Any, columns: Columns, groups: Columns) -> Any:
        """The rows of the members of these groups."""
        if self._model.groups == 1:
            return values.take(columns, axis=-1)
        return values[groups * self._model.group_members + self._inside, columns]

    def _weights(self, columns: Any) -> Floats:
        """Likelihood ratio of the past, true distribution over sampled distribution. Weights must be settled."""
        import numpy

        if self._arrays.log_weight is None:
            return numpy.ones(len(self._arrays.trial[columns]))
        found: Floats = numpy.exp(self._arrays.log_weight[columns])
        return found

    def _lose(self, cause: Cause, columns: Columns, chance: Any, lost_bytes: Any) -> None:
        """Record a loss of data with a probability; ``lost_bytes`` is the mean and includes the probability."""
        arrays = self._arrays
        if self._send is None:
            weights = self._weights(columns)
            self._tally.lose(cause, arrays.trial[columns], weights, chance, arrays.alive[columns], lost_bytes)
        arrays.alive[columns] *= 1 - chance

    def _fail(self, columns: Columns, slots: Columns, now: Floats) -> None:
        """Members fail, or good ones are pulled."""
        import numpy

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
        self._weigh_failure(columns, groups, pulled)
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

    def _weigh_failure(self, columns: Columns, groups: Columns, pulled: Any) -> None:
        """Update the weight for a drive failure with a multiplied hazard.

        The hazard is not multiplied for drives that are pulled.
        """
        import numpy

        arrays = self._arrays
        if arrays.log_weight is None or arrays.bias is None:
            return
        # The first failure of a group has the true hazard, and that of an episode is on the main path.
        is_drawn = ~pulled & (arrays.failed[groups, columns] > 0)
        arrays.log_weight[columns] -= numpy.where(is_drawn, numpy.log(arrays.bias[columns]), 0)

    def _stop(self, columns: Columns, slots: Columns, now: Floats, pulled: Any) -> None:
        """Process the failure of more members than the group tolerates."""
        import numpy

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
                self._make_anew(lost, now[own])

    def _make_anew(self, columns: Columns, now: Floats) -> None:
        """Create a lost array again, with new drives for the failed ones and data from the backup."""
        import numpy

        slots, which = numpy.nonzero(self._arrays.state[:, columns] != UP)
        self._arrays.failed[:, columns] = 0
        self._renew(columns[which], slots, now[which])

    def _renew(self, columns: Columns, slots: Columns, now: Floats) -> None:
        """Replace a member by a new drive."""
        import numpy

        model, arrays = self._model, self._arrays
        arrays.born[slots, columns] = now
        if arrays.factor is not None:
            bad = self._rng.random(len(columns)) < model.bad_share
            arrays.factor[slots, columns] = numpy.where(bad, model.bad_factor, 1.0)
        self._go_on(columns, slots, now)

    def _go_on(self, columns: Columns, slots: Columns, now: Floats) -> None:
        """Set members to up, and draw their remaining lives."""
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
        import numpy

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
        """Draw whether a good drive of the same group is pulled by mistake at a replacement."""
        import numpy

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
        """Record the loss of unreadable sectors on the remaining members, which nothing can reconstruct."""
        import numpy

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
            # The rebuild reads a place at half of its time on average.
            hours = hours + numpy.maximum(numpy.where(is_up, numpy.inf, left).min(axis=0), 0) / 2
        mean = numpy.where(is_up, model.defects_per_hour * hours + model.read_errors_per_byte * model.disk_bytes, 0)
        mean = mean.sum(axis=0)
        lost_bytes = numpy.minimum(mean * model.defect_bytes, model.usable_bytes)
        self._lose(Cause.SECTORS, columns, -numpy.expm1(-mean), lost_bytes)

    def _start_rebuild(self, columns: Columns, slots: Columns, now: Floats) -> None:
        """Begin a rebuild that shares the rate of its group."""
        groups = slots // self._model.group_members
        self._settle(columns, groups, now)
        self._arrays.state[slots, columns] = REBUILDING
        self._retime(columns, groups, now)

    def _rebuilt(self, columns: Columns, slots: Columns, now: Floats) -> None:
        """Process the end of a rebuild: the member is in sync."""
        import numpy

        model, arrays = self._model, self._arrays
        groups = slots // model.group_members
        if arrays.work is not None:
            self._settle(columns, groups, now)
        own = numpy.zeros(len(columns), bool) if arrays.pulled is None else arrays.pulled[slots, columns]
        if own.any():
            self._go_on(columns[own], slots[own], now[own])
        self._renew(columns[~own], slots[~own], now[~own])
        arrays.failed[groups, columns] -= 1
        if model.rebuild_clears:
            arrays.clean[groups, columns] = now
        if arrays.work is not None:
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
        """Subtract the work done since the rate last changed."""
        import numpy

        arrays = self._arrays
        if arrays.work is None or arrays.seen is None:
            return
        slots = groups * self._model.group_members + self._inside
        runs = arrays.state[slots, columns] == REBUILDING
        done = (now - arrays.seen[groups, columns]) / numpy.maximum(runs.sum(axis=0), 1)
        arrays.work[slots, columns] -= numpy.where(runs, done, 0)
        arrays.seen[groups, columns] = now

    def _retime(self, columns: Columns, groups: Columns, now: Floats) -> None:
        """Set the end of each running rebuild at its share of the rate."""
        import numpy

        arrays = self._arrays
        if arrays.work is None:
            return
        slots = groups * self._model.group_members + self._inside
        runs = arrays.state[slots, columns] == REBUILDING
        ends = now + numpy.maximum(arrays.work[slots, columns], 0) * runs.sum(axis=0)
        arrays.due[slots, columns] = numpy.where(runs, ends, arrays.due[slots, columns])
