"""The results of a run of mdadm's suite, stored after each test, so that a run can be resumed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import FormatVersion
from lab.gates.text import Name, shortened
from lab.host.clock import utc_second_text
from lab.host.files import write_file
from lab.machine import Host
from lab.md_tests.judging import GOOD, SuiteOutcome
from lab.md_tests.suite import Suite, copy_suite, digest_of
from lab.store.runs import Journal, RunFolders
from lab.tables import Column, Table, as_csv
from lab.units import human_seconds

FOLDER = "md-tests"
FORMAT_VERSION = 1
_SUITE, _LOGS = "suite", "logs"


class SuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one test."""

    test: Name
    outcome: SuiteOutcome
    why: str = ""
    upstream: str = ""
    """The first line of its ``.broken`` file; empty without such a file."""
    kernel: tuple[str, ...] = ()
    """First lines of kernel complaints during the test: WARNING, BUG, Oops, panic, hung tasks."""
    machine_seconds: float | None = None
    """Duration by the machine's clock; None if the machine was lost."""
    computer_seconds: float = 0.0
    last_lines: tuple[str, ...] = ()
    """The end of the log, if the test did not pass."""
    logs: tuple[str, ...] = ()
    """File names in the run's folder ``logs``."""

    @property
    def is_good(self) -> bool:
        """Whether the test passed, was skipped or failed as upstream knows, without a kernel complaint."""
        return self.outcome in GOOD and not self.kernel


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a run: the suite, the machine and the tests."""

    id: Name
    created_utc: str
    checkout: str
    digest: str
    """SHA-256 of all files of the checkout that the run uses."""
    target: str
    tests: tuple[Name, ...]
    mdadm: str = ""
    """The version that the tested mdadm prints; empty before the first start of the machine."""
    kernel: str = ""
    """The kernel release of the machine; empty before its first start."""
    format_version: FormatVersion = FORMAT_VERSION


class SuiteJournal:
    """One run: its header, its results so far, and its folder."""

    def __init__(self, runs: RunFolders, run: SuiteRun) -> None:
        self.folder = runs.path(run.id)
        self.run = run
        self._runs = runs
        self._journal = Journal[SuiteResult](
            self.folder / "results.jsonl", SuiteResult, hint="begin anew: the same without --resume"
        )
        self._journal.repair()
        self.results = self._journal.read()

    @property
    def left(self) -> tuple[str, ...]:
        """The tests without a result, in the order of the suite."""
        done = {result.test for result in self.results}
        return tuple(test for test in self.run.tests if test not in done)

    @property
    def copy(self) -> Path:
        """The folder with the copy of the suite that is run."""
        return self.folder / _SUITE

    @property
    def logs(self) -> Path:
        """The folder of the logs."""
        return self.folder / _LOGS

    def note_machine(self, mdadm: str, kernel: str) -> None:
        """Store the versions of mdadm and the kernel. Raises SpecError if earlier results have others."""
        if self.results and (mdadm, kernel) != (self.run.mdadm, self.run.kernel):
            raise SpecError(
                f"the results so far are of '{self.run.mdadm}' on Linux {self.run.kernel}, and this is '{mdadm}' on "
                f"{kernel}",
                hint="begin anew: the same without --resume",
            )
        self.run = msgspec.structs.replace(self.run, mdadm=mdadm, kernel=kernel)
        self.save()

    def save(self) -> None:
        """Write the header. Raises ResultError."""
        self._runs.write_header(self.run, self.run.id)

    def add(self, result: SuiteResult, logs: Mapping[str, str]) -> SuiteResult:
        """Store a result durably, with its logs; returns it with the names of the logs. Raises ResultError."""
        names = tuple(f"{result.test}.{ending}" for ending, text in logs.items() if text)
        for ending, text in logs.items():
            if text:
                write_file(self.logs / f"{result.test}.{ending}", text.encode("utf-8", "replace"))
        result = msgspec.structs.replace(result, logs=names)
        self._journal.append(result)
        self.results.append(result)
        return result

    def forget_copy(self) -> None:
        """Remove the copy of the suite."""
        shutil.rmtree(self.copy, ignore_errors=True)


def suite_runs(host: Host) -> RunFolders:
    """The runs of mdadm's tests in a state folder."""
    return RunFolders(
        host.state.root / FOLDER,
        "run of mdadm's tests",
        ("run.json",),
        begin_hint="begin one: the same without --resume",
        list_hint="begin one: the same without --resume",
        state_root=host.state.root,
    )


@contextmanager
def new_run(host: Host, suite: Suite, tests: Sequence[str], target: str) -> Iterator[SuiteJournal]:
    """Create a run and hold its lock inside the context. A run without results is removed."""
    runs, created = suite_runs(host), utc_second_text(host.clock)
    folder = runs.create(host.clock)
    with runs.held(folder.name):
        journal: SuiteJournal | None = None
        try:
            (folder / _LOGS).mkdir(mode=0o700)
            digest = copy_suite(suite, folder / _SUITE)
            run = SuiteRun(
                id=folder.name,
                created_utc=created,
                checkout=str(suite.folder.resolve()),
                digest=digest,
                target=target,
                tests=tuple(tests),
            )
            journal = SuiteJournal(runs, run)
            journal.save()
            yield journal
        finally:
            if journal is None or not journal.results:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def resumed_run(host: Host, suite: Suite) -> Iterator[SuiteJournal]:
    """The latest run of this checkout. Raises SpecError if there is none, or if the checkout has changed since."""
    checkout, runs = str(suite.folder.resolve()), suite_runs(host)
    found = runs.headers(SuiteRun, lambda run_id, run: _is_good(run_id, run) and run.checkout == checkout)
    if not found:
        raise SpecError(f"no run of '{suite.folder}' is stored", hint="begin one: the same without --resume")
    run = found[max(found)]
    with runs.held(run.id):
        journal = SuiteJournal(runs, run)
        if journal.left:
            if digest_of(suite) != run.digest:
                raise SpecError(
                    f"'{suite.folder}' has changed since the run of {run.created_utc} began",
                    hint="begin anew: the same without --resume",
                )
            journal.forget_copy()
            copy_suite(suite, journal.copy)
        yield journal


def _is_good(run_id: str, run: SuiteRun) -> bool:
    return run.format_version == FORMAT_VERSION and run.id == run_id


_MOST_WHY = 120
_HEAD = ("test", "outcome", "machine_seconds", "computer_seconds", "kernel", "why", "upstream")


def result_table(journal: SuiteJournal) -> Table:
    """One row per test; the notes count the outcomes."""
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
    """The number of tests by outcome, the tests not run, and the folder of the logs."""
    notes = [", ".join(f"{count} {name}" for name, count in counts(journal).items())]
    if surprises := [result.test for result in journal.results if is_surprise(result)]:
        notes.append(f"passed, though upstream has seen them fail: {', '.join(surprises)}")
    if journal.left:
        notes.append(f"not run yet: {len(journal.left)} tests")
    if any(result.logs for result in journal.results):
        notes.append(f"logs: {journal.logs}")
    return tuple(notes)


def counts(journal: SuiteJournal) -> dict[str, int]:
    """Outcome -> number of tests, and the number of tests with kernel complaints if there are any."""
    found = Counter(result.outcome for result in journal.results)
    counted = {outcome.value: found[outcome] for outcome in SuiteOutcome if found[outcome]}
    complaints = sum(bool(result.kernel) for result in journal.results)
    return {**counted, **({"with complaints of the kernel": complaints} if complaints else {})}


def is_surprise(result: SuiteResult) -> bool:
    """Whether the test passed although it has a ``.broken`` file."""
    return result.outcome is SuiteOutcome.PASSED and bool(result.upstream)


def told_why(result: SuiteResult) -> str:
    """The kernel complaint, the reason of the outcome, and upstream's note, in one line."""
    parts = [f"kernel: {result.kernel[0]}"] if result.kernel else []
    parts += [result.why] if result.why else []
    parts += [f"upstream: {result.upstream}"] if result.upstream else []
    return "; ".join(parts)


def result_line(result: SuiteResult) -> str:
    """The result as one line for the progress output."""
    why = told_why(result)
    return f"{result.test}: {result.outcome}{f' ({shortened(why, _MOST_WHY)})' if why else ''}"


def as_value(journal: SuiteJournal) -> dict[str, Any]:
    """The run and its results as a JSON value."""
    return {
        **msgspec.to_builtins(journal.run),
        "left": list(journal.left),
        "counts": counts(journal),
        "logs": str(journal.logs),
        "results": [{**msgspec.to_builtins(result), "is_good": result.is_good} for result in journal.results],
    }


def csv_text(journal: SuiteJournal) -> str:
    """The results as CSV, one line per test."""
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
    """The tests, with upstream's notes on known failures."""
    rows = tuple((test, suite.broken.get(test, "").partition("\n")[0].strip()) for test in tests)
    columns = (Column("test", is_number=False), Column("upstream has seen it fail", is_number=False))
    return Table(f"{len(tests)} of {len(suite.tests)} tests in {suite.folder}", columns, rows)
