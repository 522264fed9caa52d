"""Scenarios whose steps no table can list: functions that a scenario's file names under ``code``.

``random_histories``: long random runs from a seed, as ztest does them, with a model of what each operation may do.
Damage is bounded, so that the arithmetic of the level says that nothing may be lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lab.faults import scenario_injections as injections
from lab.faults import scenario_measures as measures
from lab.faults import scenario_steps as steps
from lab.faults.scenario import DRIVES, ReadyVariant, Scenario
from lab.faults.scenario_steps import SceneStep
from lab.faults.stage import SceneArray

ARRAYS = (
    SceneArray(level="raid5", members=4),
    SceneArray(level="raid6", members=5),
    SceneArray(level="raid1", members=3),
    SceneArray(level="raid10", members=4),
    SceneArray(level="raid5", members=4, policy="bitmap"),
    SceneArray(level="raid5", members=4, policy="ppl"),
)
OPERATIONS = 14
"""Of one history, each with what is to be seen after it."""


@dataclass
class ArrayModel:
    """What the array must be like.

    Which drive is in which slot, which slots are without one, which drives lie about.
    """

    array: SceneArray
    chance: random.Random
    slots: dict[int, int | None] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    """Drives that md lists as faulty."""
    free: list[int] = field(default_factory=list)
    has_moved: bool = False

    def __post_init__(self) -> None:
        self.slots = {slot: slot for slot in range(self.array.members)}
        self.free = list(range(self.array.members, DRIVES))

    @property
    def missing(self) -> frozenset[int]:
        return frozenset(slot for slot, drive in self.slots.items() if drive is None)

    @property
    def drives(self) -> tuple[int, ...]:
        return tuple(drive for drive in self.slots.values() if drive is not None)

    def can_lose(self) -> list[int]:
        """Slots that may fail as well, by the level's arithmetic."""
        return [
            slot
            for slot, drive in self.slots.items()
            if drive is not None and self.array.raid.survives(self.missing | {slot}, self.array.members)
        ]

    def seen(self, *, settles: bool = False) -> SceneStep:
        """What must be seen after each operation."""
        return steps.CheckStep(settles=settles, expect={"data": "intact", "degraded": len(self.missing)})

    def write(self) -> list[SceneStep]:
        return [
            steps.WriteStep(operations=self.chance.randint(5, 40), depth=self.chance.choice((1, 4, 16))),
            self.seen(),
        ]

    def fail(self) -> list[SceneStep]:
        """One that the level can do without, in the middle of writes."""
        if not (possible := self.can_lose()):
            return self.write()
        slot = self.chance.choice(possible)
        drive = self.slots[slot]
        assert drive is not None
        self.slots[slot] = None
        self.gone.append(drive)
        before = steps.WriteStep(operations=self.chance.randint(4, 12), waits=False)
        return [before, steps.FailStep(members=(drive,)), steps.WriteStep(operations=8), self.seen()]

    def rebuild(self) -> list[SceneStep]:
        """All that failed make room for new ones, while somebody writes."""
        if not self.missing or len(self.free) < len(self.missing):
            return self.write()
        done: list[SceneStep] = []
        if self.gone:
            done.append(steps.RemoveStep(members=tuple(self.gone)))
            names = " ".join(f"@{drive}" for drive in self.gone)
            done.append(steps.CommandStep(command=f"mdadm --zero-superblock {names}"))
        new = [self.free.pop(0) for _ in self.missing]
        for slot, drive in zip(sorted(self.missing), new, strict=True):
            self.slots[slot] = drive
        self.free += self.gone
        self.gone, self.has_moved = [], True
        load = steps.WriteStep(operations=10)
        return [*done, steps.AddStep(members=tuple(new)), load, steps.IdleStep(), self.seen()]

    def replace(self) -> list[SceneStep]:
        """A member is copied to a new drive while it stays."""
        if self.missing or self.gone or not self.free:
            return self.write()
        slot = self.chance.choice(sorted(self.slots))
        old, new = self.slots[slot], self.free.pop(0)
        assert old is not None
        self.slots[slot], self.has_moved = new, True
        self.gone.append(old)
        copied = [steps.AddStep(members=(new,)), steps.ReplaceStep(member=old, by=new)]
        return [*copied, steps.WriteStep(operations=10), steps.IdleStep(), self.seen()]

    def scrub(self) -> list[SceneStep]:
        return [steps.ScrubStep(action="check", expect={"mismatch_cnt": 0}), self.seen()]

    def restart(self) -> list[SceneStep]:
        """In good order, from the members that are left."""
        self._forget_gone()
        return [steps.StopStep(), steps.AssembleStep(members=self.drives, options=("--run",)), self.seen()]

    def crash(self) -> list[SceneStep]:
        """The kernel is gone in the middle of writes.

        Not of a parity array that is degraded: that would be the write hole.
        """
        if self.missing and self.array.raid.parity_members:
            return self.restart()
        self._forget_gone()
        cut = [
            injections.RecordStep(),
            steps.WriteStep(operations=self.chance.randint(5, 30), waits=False),
            injections.PowerCutStep(kind="ended", seed=self.chance.randrange(1 << 30)),
        ]
        back = [steps.AssembleStep(members=self.drives, options=("--run",)), steps.IdleStep(), self.seen(settles=True)]
        return [*cut, *back]

    def corrupt(self) -> list[SceneStep]:
        """Of a whole RAID 6 alone, which can tell what is wrong.

        Then it is mended at once, before anything builds on it.
        """
        if self.missing or self.has_moved or self.array.level != "raid6":
            return self.write()
        block = self.chance.randrange(self.array.places.blocks)
        self._forget_gone()
        bad: dict[str, steps.Expectation] = {"data": "corrupt", "corrupt_at": f"= blocks {block}"}
        return [
            *(steps.StopStep(), injections.CorruptStep(block=block), steps.AssembleStep(members=self.drives)),
            *(steps.CheckStep(expect=bad), injections.CulpritsStep(mends=True)),
            *(steps.RestartStep(members=self.drives), self.seen()),
        ]

    def _forget_gone(self) -> None:
        """After a start md does not list them any more; they stay out, with superblocks that are stale."""
        self.gone = []


def random_histories(scenario: Scenario, seed: int) -> Iterator[ReadyVariant]:
    """One history for each array, and the first once more, in another machine: the same to the last write."""
    for number, array in enumerate((*ARRAYS, ARRAYS[0])):
        is_again = number == len(ARRAYS)
        word = f"{seed}:{scenario.id}:{0 if is_again else number}"
        model = ArrayModel(array, random.Random(word))
        done: list[SceneStep] = [steps.CreateStep(), steps.FillStep()]
        operations = (
            *(model.write, model.fail, model.fail, model.rebuild, model.rebuild, model.replace),
            *(model.scrub, model.restart, model.crash, model.corrupt),
        )
        for _ in range(OPERATIONS):
            done += model.chance.choice(operations)()
        done += [*model.rebuild(), steps.ScrubStep(action="check", expect={"mismatch_cnt": 0}), steps.FlushStep()]
        expect: dict[str, steps.Expectation] = {"fingerprint": "= first.fingerprint"} if is_again else {}
        keep = "first" if not number else ""
        done.append(measures.FingerprintStep(keep=keep, expect=expect, is_timed=is_again))
        done.append(measures.LogStep(expect={"complaints": 0}))
        name = f"{array.told}{', again' if is_again else ''}"
        is_apart = is_again or not number
        yield ReadyVariant(name=name, array=array, steps=tuple(done), seed=word, is_apart=is_apart)


FUNCTIONS: dict[str, Callable[[Scenario, int], Iterator[ReadyVariant]]] = {"random_histories": random_histories}
