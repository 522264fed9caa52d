"""Plays scenarios on machines that can be thrown away, and judges what was seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from lab.errors import DeviceRefused, LabError, MachineLost, ResultError, RunCancelled
from lab.faults.place import FaultPlace, open_place
from lab.faults.played import PlayedVariant, judged_step
from lab.faults.program import SCENARIO, run_program
from lab.faults.scenario import NEEDS, ReadyVariant, Scenario
from lab.faults.verdict import FaultVerdict, ScenarioOutcome, StepOutcome, VariantOutcome, verdict_of
from lab.host.clock import HostClock
from lab.host.signals import Interrupted
from lab.machine import Machine, parse_target
from lab.plans import Plan, Step

LONGEST_SILENCE = 300.0
"""Seconds of this computer without a word from the machine.

In virtual time a program that computes without end leaves the machine's clock where it is, and nothing in the machine
can end it.
"""
Documents = Iterator[dict[str, Any]]


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True)
class ScenarioHooks:
    """Who is told what happens."""

    on_scenario: Callable[[Scenario], None] = _nothing
    on_variant: Callable[[ReadyVariant], None] = _nothing
    on_step: Callable[[StepOutcome], None] = _nothing
    on_document: Callable[[dict[str, Any]], None] = _nothing


def play_all(
    scenarios: Sequence[Scenario],
    open_one: Callable[[], AbstractContextManager[FaultPlace]],
    *,
    seed: int = 1,
    hooks: ScenarioHooks | None = None,
    on_place: Callable[[FaultPlace], None] = _nothing,
) -> Iterator[ScenarioOutcome]:
    """One scenario after the other, in one machine as long as that lives.

    A lost one is an outcome, and another takes its place.

    Raises MachineLost if no machine can be opened at all.
    """
    left = list(scenarios)
    while left:
        outcome: ScenarioOutcome | None = None
        try:
            with open_one() as place:
                on_place(place)
                runner = ScenarioRunner(place, seed, hooks or ScenarioHooks())
                while left and not (outcome and outcome.verdict is FaultVerdict.MACHINE_LOST):
                    outcome = runner.play(left.pop(0))
                    yield outcome
        except MachineLost:
            # A machine that is gone cannot be closed in good order either.
            if outcome is None or outcome.verdict is not FaultVerdict.MACHINE_LOST:
                raise


@dataclass
class ScenarioRunner:
    """Plays scenarios in one machine; between them its drives are blank again."""

    place: FaultPlace
    seed: int = 1
    hooks: ScenarioHooks = field(default_factory=ScenarioHooks)
    longest_silence: float = LONGEST_SILENCE

    def play(self, scenario: Scenario) -> ScenarioOutcome:
        """One scenario. A machine that is lost meanwhile is a verdict of its own."""
        self.hooks.on_scenario(scenario)
        clock, done = HostClock(), list[VariantOutcome]()
        began = clock.monotonic_seconds()
        verdict: FaultVerdict | None = None
        reason = ""
        ear = Heard(self.place.lab.machine, self.longest_silence)
        try:
            with ear:
                for outcome in self._variants(scenario, ear):
                    done.append(outcome)
        except (KeyboardInterrupt, Interrupted):
            # In the middle of a scenario there is nothing to be closed in good order.
            with suppress(LabError):
                self.place.lab.machine.close()
            raise
        except MachineLost as error:
            silent = f"nothing was heard of it for {self.longest_silence:g} s: it waits, or computes, without end"
            verdict, reason = FaultVerdict.MACHINE_LOST, silent if ear.is_silent else error.message
        except (DeviceRefused, RunCancelled, ResultError):
            # Nothing that md has done: there is no outcome.
            raise
        except LabError as error:
            verdict, reason = FaultVerdict.NOT_AS_EXPECTED, error.message
        missing = sorted({each for variant in done for each in variant.missing})
        return ScenarioOutcome(
            number=scenario.number,
            id=scenario.id,
            title=scenario.title,
            model=scenario.model,
            must=scenario.must,
            sources=scenario.sources,
            notes=scenario.notes,
            verdict=verdict or verdict_of(tuple(done)),
            reason=reason or (f"it needs {'; '.join(missing)}" if missing else ""),
            variants=tuple(done),
            computer_seconds=clock.monotonic_seconds() - began,
        )

    def _variants(self, scenario: Scenario, ear: Heard) -> Iterator[VariantOutcome]:
        self._require_drives(scenario)
        machine = self.place.lab.machine
        wanted = [*scenario.ready(self.seed)]
        missing = {variant.name: self._missing(variant) for variant in wanted}
        played = {
            each.name: PlayedVariant(each, is_virtual=machine.facts.is_virtual_time)
            for each in wanted
            if not missing[each.name]
        }
        kept: dict[str, dict[str, Any]] = {}
        apart = {name for name, each in played.items() if each.variant.is_apart and machine.facts.is_embedded}
        histories = [each.history(self.place) for name, each in played.items() if name not in apart]
        documents = self._documents(self.place, histories, ear)
        for variant in wanted:
            self.hooks.on_variant(variant)
            if lacks := missing[variant.name]:
                yield VariantOutcome(name=variant.name, array=variant.array.told, missing=lacks)
                continue
            one = played[variant.name]
            steps = self._apart(one, kept) if variant.name in apart else tuple(self._judged(one, documents, kept))
            ear.note()
            yield VariantOutcome(name=variant.name, array=variant.array.told, steps=steps)

    def _apart(self, played: PlayedVariant, kept: dict[str, dict[str, Any]]) -> tuple[StepOutcome, ...]:
        """Played in a machine like this one, in which nothing was done before."""
        lab = self.place.lab
        target = parse_target(lab.machine.facts.target)
        with (
            open_place(target, lab.host, drives=len(self.place.nodes), seed=self.seed) as place,
            Heard(place.lab.machine, self.longest_silence) as ear,
        ):
            documents = self._documents(place, [played.history(place)], ear)
            return tuple(self._judged(played, documents, kept))

    def _documents(self, place: FaultPlace, histories: list[dict[str, Any]], ear: Heard) -> Documents:
        if not histories:
            return
        for document in run_program(place.lab.machine, SCENARIO, {"histories": histories}):
            ear.note()
            self.hooks.on_document(document)
            yield document

    def _require_drives(self, scenario: Scenario) -> None:
        """Past the guard: the drives are the lab's, and nobody else uses them; and no other array is near."""
        lab = self.place.lab
        why = f"Scenario {scenario.number} builds its arrays on these drives, again and again."
        lab.execute(Plan.of(scenario.title, [Step(("true",), why, writes_devices=self.place.nodes)]))
        if not lab.machine.facts.is_embedded:
            arrays = [name for name in lab.machine.list_dirs(["/sys/block"])["/sys/block"] if name.startswith("md")]
            if arrays:
                raise DeviceRefused(
                    f"{lab.machine.facts.target} has arrays already: {', '.join(arrays)}",
                    hint="play scenarios where nothing can be lost: --on uml:",
                )

    def _missing(self, variant: ReadyVariant) -> tuple[str, ...]:
        """What this machine lacks for a variant, in words."""
        if self.place.has_record:
            return ()
        machine, lacks = self.place.lab.machine, [need for need in variant.needs if need in NEEDS]
        targets = [need.partition(":")[2] for need in variant.needs if need.startswith("dm:")]
        if targets:
            tried = " ".join(f"dm-{target}" for target in targets)
            said = machine.run(("sh", "-c", f"modprobe -qa {tried}; dmsetup targets"), check=False).stdout
            known = {line.split()[0] for line in said.splitlines() if line.split()}
            lacks += [f"dm:{target}" for target in targets if target not in known]
        return tuple(NEEDS.get(need, f"the device mapper's target {need.partition(':')[2]}") for need in lacks)

    def _judged(
        self, played: PlayedVariant, documents: Documents, kept: dict[str, dict[str, Any]]
    ) -> Iterator[StepOutcome]:
        for step, evidence, lines in played.evidence(documents):
            outcome, facts = judged_step(step, evidence, lines, played, kept)
            if step.keep:
                kept[step.keep] = facts
            self.hooks.on_step(outcome)
            yield outcome
            if outcome.problem:
                # What comes after it says nothing.
                played.drain(documents)
                return


class Heard:
    """Closes a machine that has not been heard for so long: whoever waits for it gets MachineLost."""

    def __init__(self, machine: Machine, seconds: float) -> None:
        self.is_silent = False
        self._machine, self._seconds = machine, seconds
        self._clock = HostClock()
        self._last = self._clock.monotonic_seconds()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="raidlab-fault-silence", daemon=True)

    def __enter__(self) -> Heard:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def note(self) -> None:
        """It was heard just now."""
        self._last = self._clock.monotonic_seconds()

    def _watch(self) -> None:
        while not self._is_over.wait(max(0.05, self._last + self._seconds - self._clock.monotonic_seconds())):
            if self._clock.monotonic_seconds() - self._last >= self._seconds:
                self.is_silent = True
                with suppress(LabError):
                    self._machine.close()
                return
