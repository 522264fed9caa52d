"""From a seed to a history: each act is one that makes sense, by a model of the array that knows the level arithmetic.

What keeps damage bounded, as ztest does it (damage that nobody could repair would excuse everything): no fault while an
earlier one could still be hidden, at most one corruption between scrubs, no more members gone than the level survives,
but where that is what is tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from lab.faults.array_model import CampaignArrayModel, new_model
from lab.faults.block_map import BLOCK_BYTES
from lab.faults.guest.record import ALL, EVERYTHING, FLUSHED, PREFIX, SUBSET, TORN_WRITE
from lab.faults.history import (
    LAYOUTS,
    LEVELS,
    Act,
    ActKind,
    ArrayShape,
    Bounds,
    FaultHistory,
    HistoryPolicy,
    Write,
)

MEMBERS = {"1": (2, 3), "4": (3, 4), "5": (3, 4, 5), "6": (4, 5, 6), "10": (2, 3, 4, 5)}
FEWEST_ACTS, MOST_ACTS = 4, 12
MOST_CUTS = 2
CHANCES = 1 << 16
"""Of what one power cut leaves."""
CUT_KINDS = (ALL, FLUSHED, EVERYTHING, PREFIX, SUBSET, SUBSET, TORN_WRITE)
DEAD_CHANCE = 0.15
"""How often a failure that the level does not survive is chosen where it could be."""


def generated(seed: int, bounds: Bounds | None = None) -> FaultHistory:
    """The history of a seed."""
    bounds = bounds or Bounds()
    chance = random.Random(f"history:{seed}:{bounds.words()}")
    shape = _shape(chance, bounds)
    return FaultHistory(seed, shape, tuple(_acts(chance, shape)))


def _shape(chance: random.Random, bounds: Bounds) -> ArrayShape:
    fitting = [level for level in LEVELS if not bounds.policy or HistoryPolicy(bounds.policy).fits(level)]
    level = bounds.level or chance.choice(fitting)
    policies = [policy for policy in HistoryPolicy if policy.fits(level)]
    policy = HistoryPolicy(bounds.policy) if bounds.policy else chance.choice(policies)
    members = chance.choice(MEMBERS[level])
    return ArrayShape(
        level=level,
        members=members,
        policy=policy,
        layout=chance.choice(LAYOUTS if members > 2 else ("n2",)) if level == "10" else "",
        chunk_kib=chance.choice((16, 16, 32, 64)),
        depth=chance.choice((1, 4, 4, 8, 16)),
        has_junk=chance.random() < 0.2 and not policy.has_journal and policy is not HistoryPolicy.PPL,
        sync_kib=chance.choice((0, 200, 400)),
    )


def _acts(chance: random.Random, shape: ArrayShape) -> list[Act]:
    model = new_model(shape)
    chooser = Chooser(chance, model)
    acts: list[Act] = [chooser.load()]
    wanted = chance.randint(FEWEST_ACTS, MOST_ACTS)
    while len(acts) < wanted:
        acts.append(chooser.next())
    if model.is_dead:
        acts += [chooser.check(), chooser.force()]
    return acts


class Chooser:
    """Chooses acts, and tells the model of each."""

    def __init__(self, chance: random.Random, model: CampaignArrayModel) -> None:
        self.chance, self.model = chance, model

    def next(self) -> Act:
        """One of those that can be, some more often than others."""
        if self.model.is_dead:
            return self.chance.choice((self.check, self.load, self.force))()
        if self.model.is_broken:
            return self.restart()
        kinds = [(weight, make) for weight, make, is_possible in self._choices() if is_possible]
        return self.chance.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()

    def _choices(self) -> list[tuple[int, Callable[[], Act], bool]]:
        m = self.model
        is_calm = not m.is_reshaping and not m.is_hasty
        ready = m.in_sync - m.pulled
        has_log = m.shape.policy.has_journal or m.shape.policy is HistoryPolicy.PPL
        can_add = m.blank | m.stale - m.pulled
        return [
            (30, self.load, True),
            (10, self.fail, is_calm and bool(self._bearable() or (ready and not m.pulled))),
            (10, self.remove, bool(m.faulty)),
            (10, self.add, bool(can_add) and (None in m.slots or len(m.spares) < 1) and not m.is_reshaping),
            (12, self.readd, bool(m.stale - m.pulled) and None in m.slots and is_calm),
            (4, self.replace, m.is_whole and bool(m.spares)),
            (4, self.grow, m.is_whole and bool(m.blank) and not m.grown and not has_log and self._can_grow()),
            (3, self.enlarge, m.is_whole and not m.size_kib and not has_log and not m.grown),
            (5, self.scrub, m.is_whole),
            (5, self.corrupt, m.is_whole and not m.may_have_bad_blocks),
            (3, self.slow, True),
            (6, self.pull, is_calm and bool(self._bearable())),
            (12, self.plug, bool(m.pulled)),
            (14, self.cut, m.cuts < MOST_CUTS and not m.is_hasty and not m.pulled),
            (8, self.restart, not m.pulled),
            (6, self.pause, True),
            (10, self.idle, True),
        ]

    def _can_grow(self) -> bool:
        shape = self.model.shape
        return shape.level in ("1", "4", "5", "6") or (shape.layout == "n2" and shape.members > 2)

    def load(self) -> Act:
        """Writes: anywhere, in a small place again and again, or at the end."""
        blocks = self.model.map.blocks
        first, count = 0, self.writable
        place = self.chance.random()
        if place < 0.4:
            count = min(48, count)
            first = self.chance.randrange(self.writable - count + 1)
        elif place < 0.55 and not self.model.shape.has_junk:
            first, count = blocks - blocks // 8, blocks // 8
        writes = [self._write(first, count) for _ in range(self.chance.choice((2, 4, 8, 16, 24)))]
        return Act(ActKind.LOAD, writes=tuple(writes))

    @property
    def writable(self) -> int:
        """Blocks that the oracle writes: where a first sync is under way, the last quarter is left as it was."""
        blocks = self.model.map.blocks
        return blocks * 3 // 4 if self.model.shape.has_junk else blocks

    def _write(self, first: int, count: int) -> Write:
        if self.chance.random() < 0.12:
            return (0, 0, 0)
        stripe = self.model.map.stripe_blocks
        if stripe and count >= 2 * stripe and self.chance.random() < 0.1:
            start = -(-first // stripe)
            return (self.chance.randrange(start, (first + count) // stripe) * stripe, stripe, 0)
        length = self.chance.choice((1, 1, 1, 2, 3, 8))
        length = min(length, count)
        is_through = int(self.chance.random() < 0.08)
        return (first + self.chance.randrange(count - length + 1), length, is_through)

    def _bearable(self) -> list[int]:
        """Members that the level can do without."""
        m = self.model
        return [drive for drive in sorted(m.in_sync - m.pulled) if m.survives(drive)]

    def fail(self) -> Act:
        """A member that the level can do without; now and then one that it cannot."""
        m = self.model
        drives = sorted(m.in_sync - m.pulled)
        bearable = self._bearable()
        unbearable = [drive for drive in drives if not m.survives(drive)]
        if unbearable and not m.pulled and (not bearable or self.chance.random() < DEAD_CHANCE):
            drive = self.chance.choice(unbearable)
            if m.map.has_parity:
                m.is_dead = True
                m.leave(drive)
                m.faulty.add(drive)
            else:
                m.is_broken = True
            return Act(ActKind.FAIL, drive)
        drive = self.chance.choice(bearable)
        m.leave(drive)
        m.faulty.add(drive)
        m.take_spares()
        return Act(ActKind.FAIL, drive)

    def remove(self) -> Act:
        drive = self.chance.choice(sorted(self.model.faulty))
        self.model.faulty.discard(drive)
        self.model.stale.add(drive)
        return Act(ActKind.REMOVE, drive)

    def add(self) -> Act:
        m = self.model
        drive = self.chance.choice(sorted((m.blank | m.stale) - m.pulled))
        m.blank.discard(drive)
        m.stale.discard(drive)
        m.spares.add(drive)
        m.take_spares()
        return Act(ActKind.ADD, drive)

    def readd(self) -> Act:
        m = self.model
        drive = self.chance.choice(sorted(m.stale - m.pulled))
        if m.shape.policy is HistoryPolicy.BITMAP:
            m.stale.discard(drive)
            m.spares.add(drive)
            m.take_spares()
        return Act(ActKind.READD, drive)

    def replace(self) -> Act:
        m = self.model
        drive = self.chance.choice(sorted(m.in_sync))
        spare = min(m.spares)
        m.slots = [spare if each == drive else each for each in m.slots]
        m.spares.discard(spare)
        m.in_sync.discard(drive)
        m.in_sync.add(spare)
        m.faulty.add(drive)
        return Act(ActKind.REPLACE, drive)

    def grow(self) -> Act:
        m = self.model
        drive = min(m.blank)
        m.blank.discard(drive)
        m.slots.append(drive)
        m.grown, m.is_reshaping = 1, True
        return Act(ActKind.GROW, drive)

    def enlarge(self) -> Act:
        self.model.size_kib = self.model.shape.size_kib + self.chance.choice((256, 512))
        return Act(ActKind.ENLARGE, number=self.model.size_kib)

    def scrub(self) -> Act:
        return Act(ActKind.SCRUB, word=self.chance.choice(("check", "check", "repair")))

    def corrupt(self) -> Act:
        """A few bytes within one page of one member: no other member of that strip is touched."""
        drive = self.chance.choice(sorted(self.model.in_sync))
        page = self.chance.randrange(self.model.shape.size_kib // 4)
        length = self.chance.choice((1, 16, 512))
        return Act(
            ActKind.CORRUPT, drive, number=length, at=page * BLOCK_BYTES + self.chance.randrange(BLOCK_BYTES - length)
        )

    def slow(self) -> Act:
        m = self.model
        drive = self.chance.choice(sorted({drive for drive in m.slots if drive is not None} | m.slow))
        milliseconds = 0 if drive in m.slow else self.chance.choice((2, 20, 100))
        m.slow ^= {drive}
        return Act(ActKind.SLOW, drive, number=milliseconds)

    def pull(self) -> Act:
        """Md notices with the next request, or never: what it had under way on it fails."""
        m = self.model
        drive = self.chance.choice(self._bearable())
        m.pulled.add(drive)
        m.may_have_bad_blocks = True
        return Act(ActKind.PULL, drive)

    def plug(self) -> Act:
        m = self.model
        drive = self.chance.choice(sorted(m.pulled))
        m.pulled.discard(drive)
        if drive in m.in_sync:
            m.leave(drive)
            m.faulty.add(drive)
        return Act(ActKind.PLUG, drive)

    def cut(self) -> Act:
        m = self.model
        m.cuts += 1
        kind = self.chance.choice(CUT_KINDS)
        ready = [drive for drive in sorted(m.in_sync) if m.survives(drive)]
        is_degraded = bool(m.missing())
        lost = -1
        if ready and not m.is_reshaping and self.chance.random() < 0.3:
            lost = self.chance.choice(ready)
            m.leave(lost)
            m.stale.add(lost)
        is_hasty = lost < 0 and not is_degraded and self.chance.random() < 0.3
        self._after_start()
        m.is_hasty = is_hasty
        if not is_hasty:
            m.rest()
        return Act(ActKind.CUT, lost, word=kind, number=self.chance.randrange(CHANCES), is_hasty=is_hasty)

    def restart(self) -> Act:
        self._after_start()
        self.model.is_broken = False
        return Act(ActKind.RESTART)

    def _after_start(self) -> None:
        """Failed members are left out of an array that is assembled."""
        self.model.stale |= self.model.faulty
        self.model.faulty.clear()

    def force(self) -> Act:
        m = self.model
        m.is_dead = False
        m.pulled.clear()
        # Of the members that failed the last one comes back, the others are too old: as many as parity makes up for.
        m.in_sync |= {drive for drive in m.slots if drive is not None}
        for slot, drive in enumerate(m.slots):
            if drive is None and len(m.missing()) > m.level.parity_members and m.faulty:
                m.slots[slot] = min(m.faulty)
                m.in_sync.add(min(m.faulty))
                m.faulty.discard(min(m.faulty))
        self._after_start()
        m.rest()
        return Act(ActKind.FORCE)

    def pause(self) -> Act:
        return Act(ActKind.PAUSE, number=self.chance.choice((1, 10, 100, 300, 700, 1500)))

    def idle(self) -> Act:
        self.model.rest()
        return Act(ActKind.IDLE)

    def check(self) -> Act:
        return Act(ActKind.CHECK)
