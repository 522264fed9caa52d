"""What a run of mdadm's suite has found, kept test by test: whatever ends the run, it goes on after the last result.

::

    STATE/md-tests/<id>/run.json        which suite, which tests, which machine
    STATE/md-tests/<id>/results.jsonl   one result a line
    STATE/md-tests/<id>/logs/           the suite's logs and the kernel's words, of tests that did not simply pass
    STATE/md-tests/<id>/suite/          the copy of the checkout that is run, until all tests are done
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from lab.errors import ResultError, SpecError
from lab.gates.decoding import decode_json
from lab.gates.files import read_plain
from lab.gates.names import Name
from lab.gates.own import read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import storage_error, write_all, write_file
from lab.machine import Host
from lab.md_tests.judging import GOOD, SuiteOutcome
from lab.md_tests.suite import Suite, copy_suite, digest_of
from lab.results.leftovers import held_alone
from lab.units import MIB

FOLDER = "md-tests"
FORMAT_VERSION = 1
_RUN, _RESULTS, _SUITE, _LOGS, _LOCK = "run.json", "results.jsonl", "suite", "logs", "lock"
_MOST_RESULTS_BYTES = 16 * MIB


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
    format_version: int = FORMAT_VERSION


class SuiteJournal:
    """One run: its header, its results so far, and the place where the next one goes."""

    def __init__(self, folder: Path, run: SuiteRun, results: Sequence[SuiteResult] = ()) -> None:
        self.folder = folder
        self.run = run
        self.results = list(results)

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
        write_file(self.folder / _RUN, msgspec.json.format(msgspec.json.encode(self.run), indent=1))

    def add(self, result: SuiteResult, logs: Mapping[str, str]) -> SuiteResult:
        """Keep a result, durably, with its logs, and return it as it is kept. Raises ResultError."""
        names = tuple(f"{result.test}.{ending}" for ending, text in logs.items() if text)
        for ending, text in logs.items():
            if text:
                write_file(self.logs / f"{result.test}.{ending}", text.encode("utf-8", "replace"))
        result = msgspec.structs.replace(result, logs=names)
        path = self.folder / _RESULTS
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                write_all(descriptor, msgspec.json.encode(result) + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(f"the result of {result.test} cannot be kept in '{self.folder}'", error) from None
        self.results.append(result)
        return result

    def forget_copy(self) -> None:
        """The suite's copy goes when it is not needed any more."""
        shutil.rmtree(self.copy, ignore_errors=True)


@contextmanager
def new_run(host: Host, suite: Suite, tests: Sequence[str], target: str) -> Iterator[SuiteJournal]:
    """Begin a run, held against others as long as this lasts. One without any result leaves nothing behind."""
    root = host.state.make(host.state.root / FOLDER, what="the folder for runs of mdadm's tests")
    created = utc_second_text(host.clock)
    folder = _new_folder(root, created.replace("-", "").replace(":", ""))
    with _held(folder):
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
            journal = SuiteJournal(folder, run)
            journal.save()
            yield journal
        finally:
            if journal is None or not journal.results:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def resumed_run(host: Host, suite: Suite) -> Iterator[SuiteJournal]:
    """The latest run of this checkout. Raises SpecError if there is none, or the checkout is another one by now."""
    checkout = str(suite.folder.resolve())
    runs = [run for run in _runs(host.state.root / FOLDER) if run.checkout == checkout]
    if not runs:
        raise SpecError(f"no run of '{suite.folder}' is kept", hint="begin one: the same without --resume")
    run = max(runs, key=lambda each: each.id)
    folder = host.state.root / FOLDER / run.id
    with _held(folder):
        journal = SuiteJournal(folder, run, _read_results(folder / _RESULTS))
        if journal.left:
            if digest_of(suite) != run.digest:
                raise SpecError(
                    f"'{suite.folder}' has changed since the run of {run.created_utc} began",
                    hint="begin anew: the same without --resume",
                )
            journal.forget_copy()
            copy_suite(suite, journal.copy)
        yield journal


def _new_folder(root: Path, name: str) -> Path:
    number = 1
    while True:
        folder = root / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder
        number += 1


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    with held_alone(folder / _LOCK, f"the run {folder.name} of mdadm's tests is under way"):
        yield


def _runs(root: Path) -> Iterator[SuiteRun]:
    for path in sorted(root.glob(f"*/{_RUN}")):
        with suppress(ResultError, OSError):
            run = read_own_json(path, SuiteRun)
            if run.format_version == FORMAT_VERSION and run.id == path.parent.name:
                yield run


def _read_results(path: Path) -> list[SuiteResult]:
    """All whole lines; what is behind the last, which a power failure may have torn, is cut off."""
    try:
        data = read_plain(path, _MOST_RESULTS_BYTES, is_own=True)
    except FileNotFoundError:
        return []
    whole = data[: data.rfind(b"\n") + 1]
    try:
        found = [decode_json(line, SuiteResult) for line in whole.splitlines()]
    except msgspec.MsgspecError as error:
        raise ResultError(f"'{path}' is damaged: {error}", hint="begin anew: the same without --resume") from None
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return found
