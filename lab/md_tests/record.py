"""What a run of mdadm's suite has found, kept test by test: whatever ends the run, it goes on after the last result.

::

    STATE/md-tests/<id>/run.json        which suite, which tests, which machine
    STATE/md-tests/<id>/results.jsonl   one result a line
    STATE/md-tests/<id>/logs/           the suite's logs and the kernel's words, of tests that did not simply pass
    STATE/md-tests/<id>/suite/          the copy of the checkout that is run, until all tests are done
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lab.errors import SpecError
from lab.gates.names import Name
from lab.gates.numbers import FormatVersion
from lab.host.clock import utc_second_text
from lab.host.files import write_file
from lab.machine import Host
from lab.md_tests.judging import GOOD, SuiteOutcome
from lab.md_tests.suite import Suite, copy_suite, digest_of
from lab.store.journal import Journal
from lab.store.runs import RunFolders

FOLDER = "md-tests"
FORMAT_VERSION = 1
_SUITE, _LOGS = "suite", "logs"


class SuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one test."""

    test: Name
    outcome: SuiteOutcome
    why: str = ""
    upstream: str = ""
    """The first line of its ``.broken``; empty if upstream knows of no failure."""
    kernel: tuple[str, ...] = ()
    """First lines of the kernel's complaints meanwhile: WARNING, BUG, Oops, panic, tasks that hang."""
    machine_seconds: float | None = None
    """On the machine's clock; None where it could not be asked any more."""
    computer_seconds: float = 0.0
    last_lines: tuple[str, ...] = ()
    """The end of the log of a test that did not pass."""
    logs: tuple[str, ...] = ()
    """Names in the run's ``logs``."""

    @property
    def is_good(self) -> bool:
        """Passed, skipped, or failed as upstream knows, and the kernel did not complain."""
        return self.outcome in GOOD and not self.kernel


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is run, and where."""

    id: Name
    created_utc: str
    checkout: str
    digest: str
    """SHA-256 of all that the run uses of the checkout."""
    target: str
    tests: tuple[Name, ...]
    mdadm: str = ""
    """What the mdadm that is tested says of its version."""
    kernel: str = ""
    """The machine's release; like the version, not known before its first start."""
    format_version: FormatVersion = FORMAT_VERSION


class SuiteJournal:
    """One run: its header, its results so far, and the place where the next one goes."""

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
        """Tests without a result, in the suite's order."""
        done = {result.test for result in self.results}
        return tuple(test for test in self.run.tests if test not in done)

    @property
    def copy(self) -> Path:
        """The suite that is run."""
        return self.folder / _SUITE

    @property
    def logs(self) -> Path:
        """Where logs go."""
        return self.folder / _LOGS

    def note_machine(self, mdadm: str, kernel: str) -> None:
        """What is tested, and on which kernel. Raises SpecError if earlier results are of others."""
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
        """Keep a result, durably, with its logs, and return it as it is kept. Raises ResultError."""
        names = tuple(f"{result.test}.{ending}" for ending, text in logs.items() if text)
        for ending, text in logs.items():
            if text:
                write_file(self.logs / f"{result.test}.{ending}", text.encode("utf-8", "replace"))
        result = msgspec.structs.replace(result, logs=names)
        self._journal.append(result)
        self.results.append(result)
        return result

    def forget_copy(self) -> None:
        """The suite's copy goes when it is not needed any more."""
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
    """Begin a run, held against others as long as this lasts. One without any result leaves nothing behind."""
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
    """The latest run of this checkout. Raises SpecError if there is none, or the checkout is another one by now."""
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
