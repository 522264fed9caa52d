"""Plays scenarios on machines that can be thrown away, and judges what was seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from lab.errors import DeviceRefused, LabError, MachineLost
from lab.fault_lab.place import FaultPlace
from lab.fault_lab.played import PlayedVariant, judged_step
from lab.fault_lab.program import CRASH, run_program
from lab.fault_lab.scenario import NEEDS, ReadyVariant, Scenario
from lab.fault_lab.verdict import FaultVerdict, ScenarioOutcome, StepOutcome, VariantOutcome, verdict_of
from lab.host.clock import HostClock
from lab.machine import Machine
from lab.plans import Plan, Step

SCENARIO = (*CRASH, "scenario_layers", "scenario_watch", "scenario_points", "scenario")
"""The program on the machine: files that are joined to one."""
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
        try:
            for outcome in self._variants(scenario):
                done.append(outcome)
        except KeyboardInterrupt:
            # In the middle of a scenario there is nothing to be closed in good order.
            with suppress(LabError):
                self.place.lab.machine.close()
            raise
        except MachineLost as error:
            verdict, reason = FaultVerdict.MACHINE_LOST, error.message
        except DeviceRefused:
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

    def _variants(self, scenario: Scenario) -> Iterator[VariantOutcome]:
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
        histories = [each.history(self.place) for each in played.values()]
        with heard(machine, self.longest_silence) as note:
            documents = self._documents(histories, note)
            for variant in wanted:
                self.hooks.on_variant(variant)
                if lacks := missing[variant.name]:
                    yield VariantOutcome(name=variant.name, array=variant.array.told, missing=lacks)
                else:
                    steps = self._judged(played[variant.name], documents, kept)
                    yield VariantOutcome(name=variant.name, array=variant.array.told, steps=tuple(steps))

    def _documents(self, histories: list[dict[str, Any]], note: Callable[[], None]) -> Documents:
        if not histories:
            return
        for document in run_program(self.place.lab.machine, SCENARIO, {"histories": histories}):
            note()
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


@contextmanager
def heard(machine: Machine, seconds: float) -> Iterator[Callable[[], None]]:
    """Closes the machine when it has not been heard for so long: whoever waits for it gets MachineLost.

    Yields what is called when it is heard.
    """
    clock, is_over = HostClock(), threading.Event()
    last = [clock.monotonic_seconds()]

    def note() -> None:
        last[0] = clock.monotonic_seconds()

    def watch() -> None:
        while not is_over.wait(max(0.05, last[0] + seconds - clock.monotonic_seconds())):
            if clock.monotonic_seconds() - last[0] >= seconds:
                with suppress(LabError):
                    machine.close()
                return

    watching = threading.Thread(target=watch, name="raidlab-fault-silence", daemon=True)
    watching.start()
    try:
        yield note
    finally:
        is_over.set()
        watching.join()
