"""``raidlab fault``: fault scenarios on real arrays, each with a verdict and its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.cli import fault_campaign, fault_points
from lab.cli.arguments import number
from lab.cli.context import Context, current
from lab.cli.output import out, out_json
from lab.errors import ExitCode, SpecError
from lab.faults.place import FaultPlace, open_place, with_own_kernel
from lab.faults.scenario import DRIVES, ReadyVariant, Scenario, all_scenarios, find_scenario
from lab.faults.scenario_run import (
    FaultVerdict,
    ScenarioHooks,
    ScenarioJournal,
    ScenarioOutcome,
    StepOutcome,
    StoredScenarios,
    begun_run,
    load_run,
    outcome_table,
    outcome_text,
    play_all,
    scenario_table,
    scenario_text,
    step_lines,
    variant_title,
)
from lab.gates.numbers import Seed
from lab.store.runs import LATEST

app = App(
    name="fault", help="Faults on real arrays, each ending in a verdict with its evidence.", help_format="plaintext"
)
fault_campaign.add_to(app)
fault_points.add_to(app)
_MOST_NARRATED = 3
"""With more scenarios than this, each is reported in one line, unless details are requested (--verbose)."""

Names = Annotated[str, Parameter(help="Scenarios, by number or id.")]


@app.command(name="list")
def list_scenarios(*names: Names) -> None:
    """List the scenarios, or show what some of them break and what must hold."""
    context = current()
    chosen = [find_scenario(name) for name in names] or list(all_scenarios())
    if context.json:
        keys = ("number", "id", "title", "model", "must", "sources", "notes", "is_first")
        out_json([{key: getattr(each, key) for key in keys} for each in chosen])
    elif names:
        out("\n\n".join(map(scenario_text, chosen)))
    else:
        out(scenario_table(chosen).as_text())


@app.command
def run(
    *names: Names,
    every: Annotated[bool, Parameter(name="--all", negative="", show_default=False, help="All of them.")] = False,
    seed: Annotated[int, number(Seed, help="Of the oracle's writes, of cuts and of random histories.")] = 1,
    keep: Annotated[
        bool, Parameter(negative="", show_default=False, help="Store all output of the machine, beside the outcomes.")
    ] = False,
) -> int:
    """Play scenarios on tiny arrays in a machine of their own, and check that what must hold does.

    In virtual time on the lab's own kernel; --on 'uml:?time=real' in real time. Every outcome is stored as soon as it
    is known. The exit status is 0 only if all are as expected.
    """
    context = current()
    if bool(names) == every:
        raise SpecError("name scenarios, or say --all", hint="'raidlab fault list' lists them")
    chosen = list(all_scenarios()) if every else [find_scenario(name) for name in dict.fromkeys(names)]
    target = with_own_kernel(context.target, context.host)
    journal = begun_run(context.host, str(target), seed, [each.id for each in chosen])
    narrator = _ScenarioNarrator(context, is_detailed=context.verbose or len(chosen) <= _MOST_NARRATED)

    def opened() -> AbstractContextManager[FaultPlace]:
        return open_place(target, context.host, drives=DRIVES, seed=seed, on_notice=context.narrator.notice)

    hooks = narrator.hooks(journal if keep else None)
    try:
        for outcome in play_all(chosen, opened, seed=seed, hooks=hooks, on_place=journal.note_place):
            journal.add(outcome)
            narrator.tell(outcome)
    finally:
        journal.forget_if_empty()
        if journal.outcomes and journal.stored.left:
            told = f"{len(journal.outcomes)} of {len(chosen)} scenarios have an outcome"
            context.narrator.notice(f"{told}; to see them again: raidlab fault show {journal.run.id}")
    return _shown(context, journal.stored)


@app.command
def show(
    name: Annotated[str, Parameter(help="A run: its id, the beginning of one, or 'latest'.")] = LATEST,
    *scenarios: Annotated[str, Parameter(help="Scenarios of the run whose evidence to show, by number or id.")],
) -> int:
    """Show stored outcomes again: the table of a run, or scenarios of it with all their evidence."""
    context = current()
    return _shown(context, load_run(context.host, name), [find_scenario(each).id for each in scenarios])


def _shown(context: Context, stored: StoredScenarios, detailed: Sequence[str] = ()) -> int:
    if context.json:
        out_json({**msgspec.to_builtins(stored), "left": stored.left, "is_expected": stored.is_expected})
    else:
        for outcome in stored.outcomes:
            if outcome.id in detailed:
                out(outcome_text(outcome) + "\n")
        out(outcome_table(stored).as_text())
    return exit_code(stored)


def exit_code(stored: StoredScenarios) -> ExitCode:
    """A lost machine takes precedence over a verdict, and a verdict over a scenario that could not be tried."""
    verdicts = {outcome.verdict for outcome in stored.outcomes}
    if FaultVerdict.MACHINE_LOST in verdicts:
        return ExitCode.MACHINE_LOST
    if FaultVerdict.NOT_AS_EXPECTED in verdicts or stored.left:
        return ExitCode.FAILED
    return ExitCode.DONE if stored.is_expected else ExitCode.MISSING


class _ScenarioNarrator:
    """Reports each step, its reason and its outcome on standard error."""

    def __init__(self, context: Context, *, is_detailed: bool) -> None:
        self._notice = context.narrator.notice
        self._is_detailed = is_detailed

    def hooks(self, journal: ScenarioJournal | None) -> ScenarioHooks:
        """``journal``: receives all output of the machine."""
        told = (self._on_scenario, self._on_variant, self._on_step)
        return ScenarioHooks(*told, journal.add_document) if journal else ScenarioHooks(*told)

    def tell(self, outcome: ScenarioOutcome) -> None:
        """One line, and any unexpected results."""
        self._notice(
            f"{outcome.number} {outcome.id}: {outcome.verdict}{f' ({outcome.reason})' if outcome.reason else ''}"
        )
        for line in outcome.unmet:
            self._notice(f"  {line}")

    def _on_scenario(self, scenario: Scenario) -> None:
        if self._is_detailed:
            self._notice(f"{scenario.number} {scenario.title}")

    def _on_variant(self, variant: ReadyVariant) -> None:
        if self._is_detailed:
            self._notice(f"  {variant_title(variant.name, variant.array.told)}")

    def _on_step(self, step: StepOutcome) -> None:
        if self._is_detailed:
            for line in step_lines(step):
                self._notice(f"    {line}")
