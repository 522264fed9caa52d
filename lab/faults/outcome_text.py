"""Outcomes of scenarios as tables and as text: for the command line and for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lab.faults.fault_store import StoredScenarios
from lab.faults.scenario import Scenario
from lab.faults.verdict import FaultVerdict, ScenarioOutcome, StepOutcome
from lab.machine.target import target_words
from lab.report.table import Column, Table
from lab.units import human_seconds


def outcome_table(stored: StoredScenarios) -> Table:
    """One row a scenario; what was not as expected, and where it was played, in the notes."""
    run = stored.run
    rows = tuple(
        (
            str(outcome.number),
            outcome.title,
            _verdict_words(outcome),
            f"{sum(check.is_met for check in outcome.checks)} of {len(outcome.checks)}",
            human_seconds(outcome.machine_seconds),
            human_seconds(outcome.computer_seconds),
        )
        for outcome in stored.outcomes
    )
    columns = (
        Column("number"),
        *(Column(word, is_number=False) for word in ("scenario", "verdict")),
        *(Column(word) for word in ("checks met", "machine's time", "computer's time")),
    )
    return Table(f"Faults: run {run.id}", columns, rows, tuple(_notes(stored)))


def _verdict_words(outcome: ScenarioOutcome) -> str:
    is_part = outcome.left_out and outcome.verdict is FaultVerdict.AS_EXPECTED
    return f"{outcome.verdict}, in part" if is_part else outcome.verdict.value


def _notes(stored: StoredScenarios) -> Iterator[str]:
    run = stored.run
    yield f"Linux {run.kernel}, {run.mdadm}, {target_words(run.target)}, seed {run.seed}, raidlab {run.raidlab}"
    counts = Counter(outcome.verdict.value for outcome in stored.outcomes)
    yield ", ".join(f"{count} {word}" for word, count in counts.items()) or "nothing was judged"
    for outcome in stored.outcomes:
        if outcome.reason:
            yield f"{outcome.number} {outcome.verdict}: {outcome.reason}"
        for line in outcome.unmet:
            yield f"{outcome.number} {line}"
    if stored.left:
        yield f"not played: {', '.join(stored.left)}"


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """The catalogue."""
    rows = tuple(
        (str(each.number), each.id, "yes" if each.is_first else "", each.title, each.model) for each in scenarios
    )
    words = ("id", "first", "title", "fault model")
    return Table("Scenarios", (Column("number"), *(Column(word, is_number=False) for word in words)), rows)


def scenario_text(scenario: Scenario) -> str:
    """One scenario: what is broken, what must hold, and who says so."""
    lines = [f"{scenario.number}  {scenario.id}: {scenario.title}", f"fault model: {scenario.model}", "must hold:"]
    lines += [f"  - {each}" for each in scenario.must]
    lines += ["sources:", *(f"  - {each}" for each in scenario.sources)]
    if scenario.notes:
        lines += ["notes:", *(f"  - {each}" for each in scenario.notes)]
    if names := [each.name for each in scenario.variants if each.name]:
        lines.append(f"variants: {'; '.join(names)}")
    return "\n".join(lines)


def outcome_text(outcome: ScenarioOutcome) -> str:
    """One outcome with its evidence: every step that is checked, every check, the blocks that are bad."""
    lines = [f"{outcome.number}  {outcome.title}", f"fault model: {outcome.model}", "must hold:"]
    lines += [f"  - {each}" for each in outcome.must]
    lines += ["sources:", *(f"  - {each}" for each in outcome.sources)]
    for variant in outcome.variants:
        lines += ["", variant_title(variant.name, variant.array)]
        lines += [f"  not possible here: it needs {each}" for each in variant.missing]
        for step in variant.steps:
            lines += [f"  {line}" for line in step_lines(step)]
    if outcome.notes:
        lines += ["", "notes:", *(f"  - {each}" for each in outcome.notes)]
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return "\n".join([*lines, "", f"verdict: {outcome.verdict}{reason}"])


def variant_title(name: str, array: str) -> str:
    """``RAID 5 (raid5 of 4, …)``."""
    return f"{name} ({array})" if name and name != array else array


def step_lines(step: StepOutcome) -> list[str]:
    """What was done and why, what was seen, and what was wanted."""
    lines = [f"{step.do}: {step.why}" if step.why else step.do]
    lines += [f"  $ {line}" for command in step.lines for line in command.splitlines()]
    if step.problem:
        lines.append(f"  ✗ {step.problem}")
    if told := md_words(step):
        lines.append(f"  {told}")
    lines += [f"  {block}" for block in step.blocks]
    for check in step.checks:
        sign, more = ("✓", "") if check.is_met else ("✗", f", and must be {check.wanted}")
        lines.append(f"  {sign} {check.what}: {check.found}{more}")
    return lines


def md_words(step: StepOutcome) -> str:
    """The oracle's counts and md's own words, of a step that was checked."""
    parts = []
    if verdicts := step.evidence.get("verdicts"):
        parts.append("oracle: " + ", ".join(f"{count} {word}" for word, count in verdicts.items()))
    if state := step.evidence.get("state"):
        words = [
            f"{name} {state[name]}"
            for name in ("array_state", "degraded", "sync_action", "mismatch_cnt")
            if name in state
        ]
        parts.append("md: " + ", ".join(words))
    members = step.evidence.get("members") or {}
    told = [
        f"drive {number} {words['state']}"
        for number, words in sorted(members.items())
        if words.get("state") != "in_sync"
    ]
    if told:
        parts.append(", ".join(told))
    for name in ("right_after", "settled"):
        if counts := step.evidence.get(name):
            parts.append(f"{name.replace('_', ' ')}: " + ", ".join(f"{word} {count}" for word, count in counts.items()))
    if lost := step.evidence.get("untouched_at"):
        parts.append("lost with member " + ", ".join(f"{gone or 'none'}: blocks {at}" for gone, at in lost.items()))
    return "; ".join(parts)
