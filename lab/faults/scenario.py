"""Scenarios: one TOML file each, read strictly.

A file has an array, steps (steps.py), and variants: the same steps on other arrays, with other ``values``. ``{name}``
in a text is a value of the variant, or one of ``built_in_values``. Its number and what must hold are those of the
catalogue of faults.

``code`` names a function here for scenarios whose steps no table can list. ``random_histories``: long random runs from
a seed, with a model of what each operation may do (as ztest of ZFS). Damage is bounded, so that the arithmetic of the
level says that nothing may be lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lab.errors import LabError, SpecError
from lab.faults import steps
from lab.faults.stage import SceneArray, Stage, built_in_values, is_fact
from lab.faults.steps import LayerStep, SceneStep
from lab.gates.names import Name
from lab.gates.numbers import FormatVersion
from lab.tomlfile import convert_tree, fill_tree, kinds_by_tag, make_tagged, nearest, read_toml, unknown_word

FORMAT_VERSION = 1
FOLDER = Path(__file__).with_name("scenarios")
DRIVES = 8
"""Of the machine that scenarios are played on."""
NEEDS = {
    "record": "drives that can be recorded: those of the lab's own kernel (make uml-kernel)",
    "lab-drives": "the lab's own drives, which can be pulled and slowed down (make uml-kernel)",
}
"""What a machine may lack, beside targets of the device mapper (``dm:dust``)."""
_NEEDED_BY = {
    **dict.fromkeys(("record", "power-cut", "crash-points"), "record"),
    **dict.fromkeys(("pull", "plug", "slow"), "lab-drives"),
}


class SceneVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The steps on another array, or with other values."""

    name: str
    array: dict[str, Any] = {}
    """What is different from the scenario's array."""
    values: dict[str, int | float | str | list[int | str]] = {}


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, how it is made, and what must hold."""

    format_version: FormatVersion
    number: Annotated[int, msgspec.Meta(ge=1, le=99)]
    id: Name
    title: str
    model: str
    """The fault model: what is lost, and what not."""
    is_first: bool = False
    """One of those that the catalogue wants first."""
    must: tuple[str, ...]
    """What must hold, in sentences."""
    sources: tuple[str, ...]
    """Who says so: manual pages, the kernel's documents, its functions."""
    notes: tuple[str, ...] = ()
    """Where md does otherwise than the catalogue expected, and why; what this shows of it and what not."""
    code: str = ""
    """The function of scenario_code.py that makes its variants, where a table does not do."""
    array: dict[str, Any] = {}
    variants: tuple[SceneVariant, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}; this raidlab reads {FORMAT_VERSION}")

    def ready(self, seed: int) -> Iterator[ReadyVariant]:
        """Its variants with all filled in. Raises SpecError for what makes no sense."""
        if self.code:
            yield from _function(self.code)(self, seed)
            return
        for variant in self.variants or (SceneVariant(name=""),):
            array = self._array(variant)
            built_in = built_in_values(array, seed)
            values = {**built_in, **fill_tree(variant.values, built_in)}
            listed = tuple(
                step_of(fill_tree(tree, values), f"{self.id}: step {number}")
                for number, tree in enumerate(self.steps, 1)
                if not tree.get("only") or variant.name in tree["only"]
            )
            # Whatever else is looked at: the kernel itself must not complain.
            last = () if listed and listed[-1].word == "log" else (steps.LogStep(expect={"complaints": 0}),)
            yield ReadyVariant(name=variant.name, array=array, steps=(*listed, *last), seed=f"{seed}:{self.id}")

    def _array(self, variant: SceneVariant) -> SceneArray:
        where = f"{self.id}: the array of {variant.name or 'the scenario'}"
        return convert_tree({**self.array, **variant.array}, SceneArray, source=where)


class ReadyVariant(msgspec.Struct, frozen=True, kw_only=True):
    """What is played: an array and steps without any placeholder."""

    name: str
    array: SceneArray
    steps: tuple[SceneStep, ...]
    seed: str
    is_apart: bool = False
    """In a machine that nothing else was done in, where there can be one: to compare two to the last write."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What the machine must have, as words of NEEDS."""
        layers = {target for step in self.steps if isinstance(step, LayerStep) for target in step.targets}
        return tuple(sorted(layers | {_NEEDED_BY[step.word] for step in self.steps if step.word in _NEEDED_BY}))

    def stage(self) -> Stage:
        """To compile the steps on."""
        return Stage(self.array, self.seed, DRIVES)


@cache
def words() -> Mapping[str, type[SceneStep]]:
    """Word -> its kind of step."""
    return kinds_by_tag("do", (steps,))


def step_of(tree: Mapping[str, Any], source: str) -> SceneStep:
    """A step from its table. Raises SpecError for an unknown word, argument or fact, with the nearest."""
    step = make_tagged(tree, words(), what="step", key="do", where=source)
    for name in step.expect:
        if not is_fact(name):
            near = nearest(name, _facts())
            hint = f"did you mean '{near}'?" if near else "lab/faults/stage.py lists them"
            raise SpecError(f"{source} ({step.word}): there is no fact '{name}'", hint=hint)
    return step


def _facts() -> tuple[str, ...]:
    from lab.faults.stage import KNOWN, MEMBER_FACTS

    return (*KNOWN, *(f"{name}_0" for name in (*MEMBER_FACTS, "events", "copy")))


def _function(name: str) -> Callable[[Scenario, int], Iterator[ReadyVariant]]:

    if name not in FUNCTIONS:
        raise unknown_word("function of scenario_code.py", name, FUNCTIONS)
    return FUNCTIONS[name]


def read_scenario(path: Path) -> Scenario:
    """One file. Raises SpecError for what is wrong with it, steps included."""
    scenario = read_toml(path, Scenario)
    if scenario.id != path.stem.partition("-")[2] or f"{scenario.number:02d}" != path.stem.partition("-")[0]:
        raise SpecError(
            f"'{path.name}' is called otherwise than its number and id",
            hint=f"{scenario.number:02d}-{scenario.id}.toml",
        )
    for variant in scenario.ready(1):
        stage = variant.stage()
        for step in variant.steps:
            try:
                step.guest_steps(stage)
            except (LabError, ValueError, KeyError) as error:
                raise SpecError(f"{path.name}: {variant.name}: {step.word}: {error}", hint="fix that step") from None
    return scenario


@cache
def all_scenarios() -> tuple[Scenario, ...]:
    """The catalogue, in the order of its numbers."""
    return tuple(sorted((read_scenario(path) for path in FOLDER.glob("*.toml")), key=lambda each: each.number))


def find_scenario(word: str) -> Scenario:
    """One by its number or id. Raises SpecError with the nearest."""
    known = {each.id: each for each in all_scenarios()} | {str(each.number): each for each in all_scenarios()}
    key = word.lstrip("0") if word.isdigit() else word
    if key not in known:
        raise unknown_word("scenario", word, [name for name in known if not name.isdigit()])
    return known[key]


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
            steps.RecordStep(),
            steps.WriteStep(operations=self.chance.randint(5, 30), waits=False),
            steps.PowerCutStep(kind="ended", seed=self.chance.randrange(1 << 30)),
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
            *(steps.StopStep(), steps.CorruptStep(block=block), steps.AssembleStep(members=self.drives)),
            *(steps.CheckStep(expect=bad), steps.CulpritsStep(mends=True)),
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
        done.append(steps.FingerprintStep(keep=keep, expect=expect, is_timed=is_again))
        done.append(steps.LogStep(expect={"complaints": 0}))
        name = f"{array.told}{', again' if is_again else ''}"
        is_apart = is_again or not number
        yield ReadyVariant(name=name, array=array, steps=tuple(done), seed=word, is_apart=is_apart)


FUNCTIONS: dict[str, Callable[[Scenario, int], Iterator[ReadyVariant]]] = {"random_histories": random_histories}
