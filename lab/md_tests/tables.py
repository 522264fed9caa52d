"""What a run of mdadm's suite has found, as tables and as a value for JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from lab.gates.text import shortened
from lab.md_tests.judging import SuiteOutcome
from lab.md_tests.record import SuiteJournal, SuiteResult
from lab.md_tests.suite import Suite
from lab.tables import Column, Table, as_csv
from lab.units import human_seconds

_MOST_WHY = 120
_HEAD = ("test", "outcome", "machine_seconds", "computer_seconds", "kernel", "why", "upstream")


def result_table(journal: SuiteJournal) -> Table:
    """One row a test, the outcomes counted in the notes."""
    run = journal.run
    virtual = " in virtual time" if "time=virtual" in run.target else ""
    rows = tuple(
        (
            result.test,
            result.outcome.value,
            "–" if result.machine_seconds is None else human_seconds(result.machine_seconds),
            human_seconds(result.computer_seconds),
            shortened(told_why(result), _MOST_WHY),
        )
        for result in journal.results
    )
    columns = (
        Column("test", is_number=False),
        Column("outcome", is_number=False),
        Column("machine's time"),
        Column("computer's time"),
        Column("why", is_number=False),
    )
    return Table(f"{run.mdadm}, its own tests on Linux {run.kernel}{virtual}", columns, rows, notes_of(journal))


def notes_of(journal: SuiteJournal) -> tuple[str, ...]:
    """The outcomes counted, what is left, and where the logs are."""
    notes = [", ".join(f"{count} {name}" for name, count in counts(journal).items())]
    if surprises := [result.test for result in journal.results if is_surprise(result)]:
        notes.append(f"passed, though upstream has seen them fail: {', '.join(surprises)}")
    if journal.left:
        notes.append(f"not run yet: {len(journal.left)} tests")
    if any(result.logs for result in journal.results):
        notes.append(f"logs: {journal.logs}")
    return tuple(notes)


def counts(journal: SuiteJournal) -> dict[str, int]:
    """Outcome -> tests, those that were, and how many times the kernel complained."""
    found = Counter(result.outcome for result in journal.results)
    counted = {outcome.value: found[outcome] for outcome in SuiteOutcome if found[outcome]}
    complaints = sum(bool(result.kernel) for result in journal.results)
    return {**counted, **({"with complaints of the kernel": complaints} if complaints else {})}


def is_surprise(result: SuiteResult) -> bool:
    """It passed, and upstream has a ``.broken`` for it."""
    return result.outcome is SuiteOutcome.PASSED and bool(result.upstream)


def told_why(result: SuiteResult) -> str:
    """Kernel's complaint, the test's own reason, and upstream's word on it, in one line."""
    parts = [f"kernel: {result.kernel[0]}"] if result.kernel else []
    parts += [result.why] if result.why else []
    parts += [f"upstream: {result.upstream}"] if result.upstream else []
    return "; ".join(parts)


def result_line(result: SuiteResult) -> str:
    """For whoever watches."""
    why = told_why(result)
    return f"{result.test}: {result.outcome}{f' ({shortened(why, _MOST_WHY)})' if why else ''}"


def as_value(journal: SuiteJournal) -> dict[str, Any]:
    """All of it."""
    return {
        **msgspec.to_builtins(journal.run),
        "left": list(journal.left),
        "counts": counts(journal),
        "logs": str(journal.logs),
        "results": [{**msgspec.to_builtins(result), "is_good": result.is_good} for result in journal.results],
    }


def csv_text(journal: SuiteJournal) -> str:
    """One line a test."""
    rows = [
        (
            *(result.test, result.outcome.value),
            "" if result.machine_seconds is None else f"{result.machine_seconds:.3f}",
            *(f"{result.computer_seconds:.3f}", "; ".join(result.kernel), result.why, result.upstream),
        )
        for result in journal.results
    ]
    return as_csv(_HEAD, rows)


def list_table(suite: Suite, tests: tuple[str, ...]) -> Table:
    """The tests, and what upstream says of those that it has seen fail."""
    rows = tuple((test, suite.broken.get(test, "").partition("\n")[0].strip()) for test in tests)
    columns = (Column("test", is_number=False), Column("upstream has seen it fail", is_number=False))
    return Table(f"{len(tests)} of {len(suite.tests)} tests in {suite.folder}", columns, rows)
