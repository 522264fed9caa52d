"""Scenarios: one TOML file each, read strictly.

A file has an array, steps (steps.py), and variants: the same steps on other arrays or with other ``values``. ``{name}``
in a text stands for a value of the variant or one of ``built_in_values``. The number of a scenario and its required
results are those of the catalogue of faults.

``code`` names a function in this module, for scenarios whose steps are generated. ``random_histories``: long random
runs from a seed, with a model of what each operation may do (as ztest of ZFS). Damage is bounded, so that by the
arithmetic of the level no data may be lost.
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
from lab.gates.decoding import FormatVersion
from lab.gates.text import Name
from lab.tomlfile import convert_tree, fill_tree, kinds_by_tag, make_tagged, nearest, read_toml, unknown_word

FORMAT_VERSION = 1
FOLDER = Path(__file__).with_name("scenarios")
DRIVES = 8
"""Number of drives of the machine on which scenarios run."""
NEEDS = {
    "record": "drives that can be recorded: those of the lab's own kernel (make uml-kernel)",
    "lab-drives": "the lab's own drives, which can be pulled and slowed down (make uml-kernel)",
}
"""Optional property of a machine -> description, in addition to targets of device mapper (``dm:dust``)."""
_NEEDED_BY = {
    **dict.fromkeys(("record", "power-cut", "crash-points"), "record"),
    **dict.fromkeys(("pull", "plug", "slow"), "lab-drives"),
}


class SceneVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs the steps on another array, or with other values."""

    name: str
    array: dict[str, Any] = {}
    """Changes to the scenario's array."""
    values: dict[str, int | float | str | list[int | str]] = {}


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault, how it is injected, and what must hold."""

    format_version: FormatVersion
    number: Annotated[int, msgspec.Meta(ge=1, le=99)]
    id: Name
    title: str
    model: str
    """The fault model: what is lost, and what is not."""
    is_first: bool = False
    """Whether the catalogue gives it priority."""
    must: tuple[str, ...]
    """The required results, as sentences."""
    sources: tuple[str, ...]
    """Manual pages, kernel documents or functions from which the requirements follow."""
    notes: tuple[str, ...] = ()
    """Where and why md differs from what the catalogue expected; what the scenario demonstrates of it, and what not."""
    code: str = ""
    """Key of ``FUNCTIONS``: generates the variants of a scenario that a table cannot express."""
    array: dict[str, Any] = {}
    variants: tuple[SceneVariant, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.format_version != FORMAT_VERSION:
            raise ValueError(f"format_version is {self.format_version}; this raidlab reads {FORMAT_VERSION}")

    def ready(self, seed: int) -> Iterator[ReadyVariant]:
        """The variants with all placeholders replaced. Raises SpecError for invalid values."""
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
            # In every scenario, the kernel must not log any complaint.
            last = () if listed and listed[-1].word == "log" else (steps.LogStep(expect={"complaints": 0}),)
            yield ReadyVariant(name=variant.name, array=array, steps=(*listed, *last), seed=f"{seed}:{self.id}")

    def _array(self, variant: SceneVariant) -> SceneArray:
        where = f"{self.id}: the array of {variant.name or 'the scenario'}"
        return convert_tree({**self.array, **variant.array}, SceneArray, source=where)


class ReadyVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant ready to run: an array, and steps without placeholders."""

    name: str
    array: SceneArray
    steps: tuple[SceneStep, ...]
    seed: str
    is_apart: bool = False
    """Whether to run it on a machine of its own if possible, so that two runs can be compared write by write."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What the machine must provide, as keys of NEEDS."""
        layers = {target for step in self.steps if isinstance(step, LayerStep) for target in step.targets}
        return tuple(sorted(layers | {_NEEDED_BY[step.word] for step in self.steps if step.word in _NEEDED_BY}))

    def stage(self) -> Stage:
        """A stage on which to compile the steps."""
        return Stage(self.array, self.seed, DRIVES)


@cache
def words() -> Mapping[str, type[SceneStep]]:
    """Name of a step in files -> its class."""
    return kinds_by_tag("do", (steps,))


def step_of(tree: Mapping[str, Any], source: str) -> SceneStep:
    """The step of a table. Raises SpecError for an unknown name, argument or fact, with the nearest name as hint."""
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
        raise unknown_word("function of lab/faults/scenario.py", name, FUNCTIONS)
    return FUNCTIONS[name]


def read_scenario(path: Path) -> Scenario:
    """The scenario of a file. Raises SpecError if the file or one of its steps is invalid."""
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
    """The catalogue, sorted by number."""
    return tuple(sorted((read_scenario(path) for path in FOLDER.glob("*.toml")), key=lambda each: each.number))


def find_scenario(word: str) -> Scenario:
    """The scenario with this number or id. Raises SpecError, with the nearest id as hint."""
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
"""Operations of one history; each is followed by a check."""


@dataclass
class ArrayModel:
    """The expected state of the array: the drive in each slot (None: vacant), and the drives outside the array."""

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
        """Slots that may also fail, by the level's arithmetic."""
        return [
            slot
            for slot, drive in self.slots.items()
            if drive is not None and self.array.raid.survives(self.missing | {slot}, self.array.members)
        ]

    def seen(self, *, settles: bool = False) -> SceneStep:
        """The check after each operation."""
        return steps.CheckStep(settles=settles, expect={"data": "intact", "degraded": len(self.missing)})

    def write(self) -> list[SceneStep]:
        return [
            steps.WriteStep(operations=self.chance.randint(5, 40), depth=self.chance.choice((1, 4, 16))),
            self.seen(),
        ]

    def fail(self) -> list[SceneStep]:
        """Fail a member whose loss the level survives, during writes."""
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
        """Remove the failed members and rebuild to new drives, during writes."""
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
        """Copy a member to a new drive while it remains in the array."""
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
        """Stop the array cleanly and start it from the remaining members."""
        self._forget_gone()
        return [steps.StopStep(), steps.AssembleStep(members=self.drives, options=("--run",)), self.seen()]

    def crash(self) -> list[SceneStep]:
        """Crash the kernel during writes; a degraded parity array is restarted instead, because of the write hole."""
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
        """Corrupt a block, of a complete RAID 6 only, because no other level can locate the wrong chunk.

        The block is repaired at once, before any later operation depends on it.
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
        """After a start md no longer lists the failed drives; they keep stale superblocks."""
        self.gone = []


def random_histories(scenario: Scenario, seed: int) -> Iterator[ReadyVariant]:
    """One history per array, and the first one again on another machine, which must be identical down to each write."""
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
