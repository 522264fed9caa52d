"""Scenarios: one TOML file each, read strictly.

Its number and what must hold are those of the catalogue of faults; its steps are words (scenario_steps.py).

A file has an array, steps, and variants: the same steps on other arrays, with other ``values``. ``{name}`` in a text
is a value of the variant, or one of ``built_in_values``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lab.errors import LabError, SpecError
from lab.faults import scenario_injections, scenario_measures, scenario_steps
from lab.faults.facts import is_fact
from lab.faults.scenario_injections import LayerStep
from lab.faults.scenario_steps import SceneStep
from lab.faults.stage import SceneArray, Stage, built_in_values
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
            steps = tuple(
                step_of(fill_tree(tree, values), f"{self.id}: step {number}")
                for number, tree in enumerate(self.steps, 1)
                if not tree.get("only") or variant.name in tree["only"]
            )
            # Whatever else is looked at: the kernel itself must not complain.
            last = () if steps and steps[-1].word == "log" else (scenario_measures.LogStep(expect={"complaints": 0}),)
            yield ReadyVariant(name=variant.name, array=array, steps=(*steps, *last), seed=f"{seed}:{self.id}")

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
    return kinds_by_tag("do", (scenario_steps, scenario_injections, scenario_measures))


def step_of(tree: Mapping[str, Any], source: str) -> SceneStep:
    """A step from its table. Raises SpecError for an unknown word, argument or fact, with the nearest."""
    step = make_tagged(tree, words(), what="step", key="do", where=source)
    for name in step.expect:
        if not is_fact(name):
            near = nearest(name, _facts())
            hint = f"did you mean '{near}'?" if near else "lab/faults/facts.py lists them"
            raise SpecError(f"{source} ({step.word}): there is no fact '{name}'", hint=hint)
    return step


def _facts() -> tuple[str, ...]:
    from lab.faults.facts import KNOWN, MEMBER_FACTS

    return (*KNOWN, *(f"{name}_0" for name in (*MEMBER_FACTS, "events", "copy")))


def _function(name: str) -> Callable[[Scenario, int], Iterator[ReadyVariant]]:
    from lab.faults.scenario_code import FUNCTIONS

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
