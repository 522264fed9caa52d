"""Stamps: what lowers trust in a result, each as ``rule: sentence``. They travel with the result into every table."""

from __future__ import annotations

from collections.abc import Iterable

from lab.experiments.linting import lint_experiment, plan_facts
from lab.experiments.schema import Experiment
from lab.lint.findings import Finding, distinct
from lab.lint.plan_checks import lint_plan
from lab.lint.result_checks import lint_conditions, stamped, summarised
from lab.results.record import CellRecord, Conditions


def stamps_of(
    experiment: Experiment, conditions: Conditions, bench: Iterable[Finding] = (), cells: Iterable[CellRecord] = ()
) -> tuple[str, ...]:
    """All stamps of a run: its plan, the machine's conditions, its arrays before the run, its cells."""
    found = [*lint_conditions(conditions), *lint_plan(plan_facts(experiment)), *bench]
    planned = {finding.rule_id for finding in found}
    cell_stamps = (finding for cell in cells for finding in stamped(cell.stamps))
    return (
        *(finding.stamp for finding in distinct(found)),
        *summarised(cell_stamps),
        # What is wrong with a publication's text is not wrong with this run of its recipe.
        *(f"recipe: {each.stamp}" for each in lint_experiment(experiment) if each.rule_id not in planned),
        *(f"recipe: {defect}" for defect in experiment.defects),
    )
