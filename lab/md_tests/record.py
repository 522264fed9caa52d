"""Find the tests of mdadm's own suite in a source folder, judge their outcomes, and record runs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import LabError, RequirementMissing, SpecError, ToolMissing
from lab.gates.decoding import FormatVersion, Name
from lab.gates.files import read_plain
from lab.gates.text import is_name, shortened
from lab.host.clock import utc_second_text
from lab.host.files import HostFiles, write_file
from lab.host.processes import Processes
from lab.machine import Host
from lab.md_tests.prepare_program import BIN
from lab.store import Journal, RunFolders, stem
from lab.tables import Table, as_csv
from lab.tomlfile import unknown_word
from lab.units import KIB, MIB, human_seconds

MOST_WHY_CHARACTERS = 300
_MOST_LINES = 15
_MOST_COMPLAINTS = 8


class SuiteOutcome(StrEnum):
    """The outcome of a test."""

    PASSED = "passed"
    KNOWN = "failed, as upstream knows"
    """The test is marked as broken upstream, which means that it has a ``.broken`` file."""
    FAILED = "failed"
    SKIPPED = "skipped itself"
    HUNG = "did not end"
    """The test reached its time limit (by the machine's or this computer's clock) or its log's size limit."""
    LOST = "machine lost"
    """The kernel crashed or stopped responding."""
    UNSTARTED = "not started"
    """The suite exited before it started the test."""


GOOD = frozenset({SuiteOutcome.PASSED, SuiteOutcome.KNOWN, SuiteOutcome.SKIPPED})


class LimitReached(StrEnum):
    """The limit at which a test was stopped. In messages, a value of this enumeration follows a number."""

    MACHINE = "s of the machine's time"
    COMPUTER = "s of this computer's time"
    LOG = "MiB of log"


@dataclass(frozen=True, slots=True)
class EndOfTest:
    """How the run of one test ended."""

    status: int | None = None
    """The exit status of the suite's script, or None if the script was stopped."""
    output: str = ""
    """The output of the script."""
    log: str = ""
    """The log of the test: the trace of bash (``set -x``) and the output of the commands."""
    limit: LimitReached | None = None
    limit_number: float = 0.0
    loss: str = ""
    """The reason why the machine was lost, or an empty string if it was not."""
    console: str = ""
    """Kernel messages during the test."""
    machine_seconds: float | None = None
    """Duration by the machine's clock, or None if the machine was lost."""
    computer_seconds: float = 0.0


class SuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one test."""

    test: Name
    outcome: SuiteOutcome
    why: str = ""
    """The reason for the outcome, in one line."""
    upstream: str = ""
    """The first line of the test's ``.broken`` file, or an empty string if it has none."""
    kernel: tuple[str, ...] = ()
    """The first lines of the kernel's complaints during the test (WARNING, BUG, Oops, panic, hung tasks)."""
    machine_seconds: float | None = None
    """Duration by the machine's clock, or None if the machine was lost."""
    computer_seconds: float = 0.0
    last_lines: tuple[str, ...] = ()
    """The end of the log, if the test did not pass."""
    logs: tuple[str, ...] = ()
    """The names of the test's log files in the run's folder ``logs``."""

    @property
    def is_good(self) -> bool:
        """Whether the test passed, was skipped or failed as expected, and the kernel did not complain."""
        return self.outcome in GOOD and not self.kernel


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SKIPS_REST = re.compile(r"^skipping\.\.\. ", re.MULTILINE)
"""What a test prints before it exits successfully because the kernel lacks a feature, such as linear arrays."""
_SKIP_REASON = re.compile(r"^\tSKIPPING, REASON: (.*?)\s*$", re.MULTILINE)
_TRACE = re.compile(r"^\++ ")
_ERROR = re.compile(r"^\s*(?:\*\*(?:Error|Fatal)\*\*\s*:?|(?:FATAL )?ERROR:)\s*(\S.*?)\s*$", re.MULTILINE)
_SAVING = re.compile(r"^\++ save_log( fail)?$", re.MULTILINE)
"""The trace line at which a failed test begins to save its log."""
_HOUSEKEEPING = re.compile(r"^\++ (?:trap|exit|return|rv=|case |(?:cat|rm -f) \S*/stderr$)")
"""Traced commands that are ignored, because the suite's function ``mdadm`` runs them after mdadm or they end a test."""
_OWN_MDADM = re.compile(r"^/\S+/mdadm ")
_COMPLAINT = re.compile(
    r"^(?:\[[ 0-9.]+\] )?("
    r"WARNING: .*|BUG: .*|kernel BUG at .*|Kernel panic .*|Oops\b.*|Internal error: .*|general protection fault.*"
    r"|Unable to handle kernel .*|INFO: task .* blocked for more than .*|INFO: possible recursive locking .*"
    r"|INFO: rcu\w* .*(?:stall|detected).*|UBSAN: .*|refcount_t: .*|list_(?:add|del) corruption.*"
    r"|watchdog: BUG: .*"
    r")$",
    re.MULTILINE,
)


def judged(test: str, end: EndOfTest, broken: str | None = None) -> SuiteResult:
    """Return the result of ``test``. ``broken`` is the content of its ``.broken`` file, or None if it has none."""
    outcome, why = _outcome(test, end)
    lines = last_lines(end.log) if outcome not in (SuiteOutcome.PASSED, SuiteOutcome.SKIPPED) else ()
    if outcome in (SuiteOutcome.FAILED, SuiteOutcome.HUNG) and broken is not None:
        outcome = SuiteOutcome.KNOWN
    return SuiteResult(
        test=test,
        outcome=outcome,
        why=why[:MOST_WHY_CHARACTERS],
        upstream="" if broken is None else broken.partition("\n")[0].strip() or "no reason given",
        kernel=kernel_complaints(end.console),
        machine_seconds=end.machine_seconds,
        computer_seconds=end.computer_seconds,
        last_lines=lines,
    )


def _outcome(test: str, end: EndOfTest) -> tuple[SuiteOutcome, str]:
    if end.loss:
        return SuiteOutcome.LOST, end.loss
    if end.limit:
        at = next(_commands(end.log), "")
        place = f", at: {at}" if at else ""
        return SuiteOutcome.HUNG, f"not finished after {end.limit_number:g} {end.limit}{place}"
    output = _COLOUR.sub("", end.output)
    _, has_begun, after = output.partition(f"/{test}... ")
    if not has_begun:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        return SuiteOutcome.UNSTARTED, lines[-1] if lines else f"the suite exited with status {end.status}"
    if "FAILED" in after:
        return SuiteOutcome.FAILED, reason_of_failure(end.log)
    if "skipping" in after:
        found = _SKIP_REASON.search(end.log)
        return SuiteOutcome.SKIPPED, found[1] if found else ""
    if "succeeded" in after and end.status == 0:
        return _passed(end.log)
    return SuiteOutcome.FAILED, f"the suite exited with status {end.status} without reporting a result"


def _passed(log: str) -> tuple[SuiteOutcome, str]:
    before, *rest = _SKIPS_REST.split(log, maxsplit=1)
    if not rest:
        return SuiteOutcome.PASSED, ""
    if re.search(r"^\+ mdadm ", before, re.MULTILINE):
        return SuiteOutcome.PASSED, "one part was skipped: not supported by this kernel"
    return SuiteOutcome.SKIPPED, "not supported by this kernel"


def reason_of_failure(log: str) -> str:
    """Say why a test failed, with its own error message or else the last message and command in its log."""
    own = _SAVING.split(log, maxsplit=1)[0]
    if errors := _ERROR.findall(own):
        return str(errors[-1])
    command = next(_commands(own), "")
    lines = (line.strip() for line in reversed(own.splitlines()) if not _TRACE.match(line) and line[:3] != "## ")
    message = next(filter(None, lines), "")
    if message and command:
        return f"{message} (after: {command})"
    return message or command


def last_lines(log: str) -> tuple[str, ...]:
    """Return the end of a test's log, without the commands with which the suite saves the log of a failed test."""
    lines = [line.rstrip() for line in _SAVING.split(log, maxsplit=1)[0].splitlines() if line.strip()]
    return tuple(line[:MOST_WHY_CHARACTERS] for line in lines[-_MOST_LINES:])


def kernel_complaints(console: str) -> tuple[str, ...]:
    """Return the first line of each kernel complaint (WARNING, BUG, Oops, panic, hung task), without duplicates."""
    found = dict.fromkeys(match.strip()[:MOST_WHY_CHARACTERS] for match in _COMPLAINT.findall(console))
    return tuple(found)[:_MOST_COMPLAINTS]


def _commands(log: str) -> Iterator[str]:
    for line in reversed(log.splitlines()):
        if _TRACE.match(line) and not _HOUSEKEEPING.match(line):
            yield _OWN_MDADM.sub("mdadm ", line.lstrip("+").strip())


SCRIPT = "test"
FUNCTIONS = "tests/func.sh"
RULES_FOLDER = "udev-rules"
"""The folder for udev rules in a copy of the suite. The rules have the names that mdadm's Makefile gives them."""
PROGRAMS = ("mdadm", "mdmon")
MORE_PROGRAMS = ("raid6check", "test_stripe", "swap_super")
"""Programs that only some tests need. If these are missing, such tests skip themselves or fail."""
_RULES = {
    "01-md-raid-creating.rules": "udev-md-raid-creating.rules",
    "63-md-raid-arrays.rules": "udev-md-raid-arrays.rules",
    "64-md-raid-assembly.rules": "udev-md-raid-assembly.rules",
}
"""Names of udev rules in /lib/udev/rules.d, with their names in mdadm's sources (install-udev in its Makefile)."""
_TEST = re.compile(r"[0-9][0-9].+")
_NO_TESTS = (".broken", ".inject_error", "~")
"""Suffixes of files in the tests' folder that are not tests but notes on failures, fault injection, and backups."""
_PATTERN = re.compile(r"[*?\[]")
_SIZE = re.compile(r"^(size|ddfsize)=([0-9]{1,9})$", re.MULTILINE)
_MOST_FILE_BYTES = 32 * MIB
_MOST_NOTE_BYTES = 64 * KIB
_TOOLS = {
    "bash": "bash",
    "lsblk": "util-linux",
    "df": "coreutils",
    "udevadm": "udev",
    "losetup": "mount",
    "mkfs.ext3": "e2fsprogs",
    "mkfs.ext4": "e2fsprogs",
    "fsck": "util-linux",
    "blockdev": "util-linux",
    "dmesg": "util-linux",
    "which": "debianutils",
    "awk": "mawk",
    "pgrep": "procps",
    "hostname": "hostname",
    "modprobe": "kmod",
}
"""Programs that the suite checks for (check_env in func.sh) or needs, with their packages in Debian and Ubuntu."""
_UDEVD = ("/lib/systemd/systemd-udevd", "/usr/lib/systemd/systemd-udevd", "/sbin/udevd")


@dataclass(frozen=True, slots=True)
class Suite:
    """A folder with mdadm's sources."""

    folder: Path
    tests: tuple[str, ...]
    broken: Mapping[str, str]
    """The content of the ``.broken`` file of each test that has one because it fails sometimes or always."""
    file_kib: tuple[int, int] | None
    """Sizes in KiB of the files for the first eight loop devices and for the others, or None if func.sh sets no
    sizes.
    """


def find_suite(folder: Path) -> Suite:
    """Find the suite in a source folder, built or not. Raises SpecError if the folder does not contain the suite."""
    quoted = f"'{folder}'"
    if not folder.is_dir():
        raise SpecError(
            f"{quoted} is not a folder", hint="give a folder with mdadm's sources, such as a clone of its repository"
        )
    lacking = [name for name in (SCRIPT, FUNCTIONS, "mdadm.h") if not (folder / name).is_file()]
    if lacking:
        raise SpecError(
            f"{quoted} does not contain mdadm's sources: {lacking[0]} is missing",
            hint="give the top-level folder of a git clone of mdadm (github.com/md-raid-utilities/mdadm)",
        )
    # The suite's own loop is over [0-9][0-9]*.
    tests = tuple(
        path.name
        for path in sorted((folder / "tests").iterdir())
        if is_name(path.name) and _TEST.fullmatch(path.name) and not path.name.endswith(_NO_TESTS) and path.is_file()
    )
    if not tests:
        raise SpecError(f"{quoted} has no tests in 'tests'", hint="use a complete checkout of mdadm")
    notes = {name: folder / "tests" / f"{name}.broken" for name in tests}
    broken = {name: _text(path, _MOST_NOTE_BYTES) for name, path in notes.items() if path.is_file()}
    return Suite(folder, tests, broken, _file_sizes(_text(folder / FUNCTIONS, _MOST_FILE_BYTES)))


def chosen_tests(suite: Suite, words: Sequence[str]) -> tuple[str, ...]:
    """Return the tests that match ``words`` (names, or patterns such as ``'00*'``), or all tests if it is empty.

    The tests are in the order of the suite. Raises SpecError, which suggests the nearest name, if a word matches no
    test.
    """
    found: set[str] = set()
    for word in words:
        name = word.removeprefix("tests/")
        hits = [test for test in suite.tests if fnmatchcase(test, name)] if _PATTERN.search(name) else [name]
        if not hits or not set(hits) <= set(suite.tests):
            raise unknown_word("test", word, suite.tests)
        found.update(hits)
    return tuple(test for test in suite.tests if not words or test in found)


def require_built(suite: Suite) -> None:
    """Raise RequirementMissing unless mdadm and mdmon have been built."""
    if missing := [name for name in PROGRAMS if not _is_program(suite.folder / name)]:
        raise RequirementMissing(
            f"{' and '.join(missing)} must first be built in '{suite.folder}'",
            hint=f"make -C {suite.folder} {' '.join((*PROGRAMS, *MORE_PROGRAMS[:2]))}   "
            "(needs the packages gcc, make, pkg-config and libudev-dev)",
        )


def is_stale(suite: Suite) -> bool:
    """Whether a source file is newer than the built mdadm."""
    built = (suite.folder / "mdadm").stat().st_mtime
    return any(path.stat().st_mtime > built for path in suite.folder.glob("*.[ch]"))


def require_tools(processes: Processes, files: HostFiles) -> str:
    """Return the path of udev's daemon. Raises ToolMissing if a program that the suite needs is not installed."""
    for tool, package in _TOOLS.items():
        if processes.find(tool) is None:
            raise ToolMissing(f"mdadm's tests call {tool}, which is not installed", hint=f"apt install {package}")
    for path in _UDEVD:
        if os.access(files.path(path), os.X_OK):
            return path
    raise ToolMissing(
        "mdadm's tests need udev's daemon (systemd-udevd), which is not installed",
        hint="apt install udev",
    )


def copy_suite(suite: Suite, destination: Path) -> str:
    """Copy the files that the tests need to a new folder, and return one SHA-256 digest of them all.

    Later changes to the checkout do not affect the run. Raises SpecError if one of them is not a regular file.
    """
    files = list(_needed_files(suite.folder))
    for name, data, is_program in files:
        path = destination / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, data, mode=0o700 if is_program else 0o600)
    return _digest(files)


def digest_of(suite: Suite) -> str:
    """Return the digest that ``copy_suite`` returns for this suite."""
    return _digest(_needed_files(suite.folder))


def _digest(files: Iterable[tuple[str, bytes, bool]]) -> str:
    sums = (f"{hashlib.sha256(data).hexdigest()} {name}\n" for name, data, _ in files)
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def _needed_files(folder: Path) -> Iterator[tuple[str, bytes, bool]]:
    """Yield the name and content of each file that the tests need, and whether it is executable, in a fixed order."""
    yield SCRIPT, _data(folder / SCRIPT), True
    for path in sorted((folder / "tests").rglob("*")):
        # An editor's lock file, for example, is a dangling symbolic link.
        if path.is_file():
            yield path.relative_to(folder).as_posix(), _data(path), False
    for name in (*PROGRAMS, *MORE_PROGRAMS):
        if _is_program(folder / name):
            yield name, _data(folder / name), True
    for name, source in _RULES.items():
        if (folder / source).is_file():
            rules = _data(folder / source).replace(b"BINDIR", BIN.encode())
            yield f"{RULES_FOLDER}/{name}", rules, False


def _data(path: Path) -> bytes:
    return read_plain(path, _MOST_FILE_BYTES, error=SpecError, hint="use a checkout of mdadm's sources")


def _text(path: Path, most_bytes: int) -> str:
    return read_plain(path, most_bytes, error=SpecError).decode("utf-8", "replace").strip()


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _file_sizes(functions: str) -> tuple[int, int] | None:
    """Return the first values of ``size`` and ``ddfsize`` in func.sh, in KiB, or None if either is missing."""
    sizes = dict(reversed(_SIZE.findall(functions)))
    return (int(sizes["size"]), int(sizes["ddfsize"])) if len(sizes) == 2 else None


FOLDER = "md-tests"
FORMAT_VERSION = 1
_SUITE, _LOGS = "suite", "logs"
_NEW_RUN = "start a new run: omit --resume"


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a run, which describes the suite, the machine and the tests."""

    id: Name
    created_utc: str
    checkout: str
    digest: str
    """SHA-256 digest of all files in the checkout that the run uses."""
    target: str
    tests: tuple[Name, ...]
    mdadm: str = ""
    """The version that the tested mdadm prints, or an empty string until a machine has been started."""
    kernel: str = ""
    """The machine's kernel release, or an empty string until a machine has been started."""
    format_version: FormatVersion = FORMAT_VERSION


class SuiteJournal:
    """One run, with its header, its results so far, and the folders for its copy of the suite and for its logs."""

    def __init__(self, runs: RunFolders, run: SuiteRun) -> None:
        folder = runs.path(run.id)
        self.copy, self.logs = folder / _SUITE, folder / _LOGS
        self.run = run
        self._runs = runs
        self._journal = Journal[SuiteResult](folder / "results.jsonl", SuiteResult, hint=_NEW_RUN)
        self._journal.repair()
        self.results = self._journal.read()

    @property
    def left(self) -> tuple[str, ...]:
        done = {result.test for result in self.results}
        return tuple(test for test in self.run.tests if test not in done)

    def note_machine(self, mdadm: str, kernel: str) -> None:
        """Store the versions of mdadm and the kernel. Raises SpecError if earlier results are from other versions."""
        if self.results and (mdadm, kernel) != (self.run.mdadm, self.run.kernel):
            raise SpecError(
                f"the results so far are from '{self.run.mdadm}' on Linux {self.run.kernel}, but this is '{mdadm}' on "
                f"Linux {kernel}",
                hint=_NEW_RUN,
            )
        self.run = msgspec.structs.replace(self.run, mdadm=mdadm, kernel=kernel)
        self.save()

    def save(self) -> None:
        self._runs.write_header(self.run, self.run.id)

    def add(self, result: SuiteResult, logs: Mapping[str, str]) -> SuiteResult:
        """Store a result and its logs durably, and return the result with the logs' names. Raises ResultError."""
        texts = {f"{result.test}.{ending}": text for ending, text in logs.items() if text}
        for name, text in texts.items():
            write_file(self.logs / name, text.encode("utf-8", "replace"))
        result = msgspec.structs.replace(result, logs=tuple(texts))
        self._journal.append(result)
        self.results.append(result)
        return result

    def forget_copy(self) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)


def suite_runs(host: Host) -> RunFolders:
    """Return the runs of mdadm's tests that are stored in the state folder."""
    return RunFolders(
        host.state.root / FOLDER,
        "run of mdadm's tests",
        ("run.json",),
        begin_hint=_NEW_RUN,
        list_hint=_NEW_RUN,
        state_root=host.state.root,
    )


@contextmanager
def new_run(host: Host, suite: Suite, tests: Sequence[str], target: str) -> Iterator[SuiteJournal]:
    """Create a run, and hold its lock inside the context. A run without results is removed at the end."""
    runs, created = suite_runs(host), utc_second_text(host.clock)
    with runs.begin(stem(host.clock.utc_now())) as folder:
        journal: SuiteJournal | None = None
        try:
            (folder / _LOGS).mkdir(mode=0o700)
            run = SuiteRun(
                id=folder.name,
                created_utc=created,
                checkout=str(suite.folder.resolve()),
                digest=copy_suite(suite, folder / _SUITE),
                target=target,
                tests=tuple(tests),
            )
            journal = SuiteJournal(runs, run)
            journal.save()
            yield journal
        finally:
            if journal is None or not journal.results:
                with suppress(LabError):
                    runs.delete(folder.name, is_held=True)


@contextmanager
def resumed_run(host: Host, suite: Suite) -> Iterator[SuiteJournal]:
    """Resume the latest run of this checkout.

    Raises SpecError if there is none, or if the checkout has changed since.
    """
    checkout, runs = str(suite.folder.resolve()), suite_runs(host)
    newest_first = runs.headers(SuiteRun, FORMAT_VERSION).values()
    run = next((each for each in newest_first if each.checkout == checkout), None)
    if run is None:
        raise SpecError(f"no run of '{suite.folder}' is stored", hint=_NEW_RUN)
    with runs.held(run.id):
        journal = SuiteJournal(runs, run)
        if journal.left:
            if digest_of(suite) != run.digest:
                message = f"'{suite.folder}' has changed since the run of {run.created_utc} started"
                raise SpecError(message, hint=_NEW_RUN)
            journal.forget_copy()
            copy_suite(suite, journal.copy)
        yield journal


_MOST_WHY = 120
_HEAD = ("test", "outcome", "machine_seconds", "computer_seconds", "kernel", "why", "upstream")


def result_table(journal: SuiteJournal) -> Table:
    """Return a table with one row per test, and with notes that count the outcomes."""
    run = journal.run
    virtual = " in virtual time" if "time=virtual" in run.target else ""
    rows = [
        (
            result.test,
            result.outcome,
            "–" if result.machine_seconds is None else human_seconds(result.machine_seconds),
            human_seconds(result.computer_seconds),
            shortened(explanation(result), _MOST_WHY),
        )
        for result in journal.results
    ]
    times = ("machine's time", "computer's time")
    table = Table.listing(("test", "outcome", *times, "reason"), rows, right=times)
    title = f"Tests of mdadm's suite: {run.mdadm} on Linux {run.kernel}{virtual}"
    return replace(table, title=title, notes=notes_of(journal))


def notes_of(journal: SuiteJournal) -> tuple[str, ...]:
    """Return notes on how many tests had each outcome, how many have not run yet, and where the logs are."""
    notes = [", ".join(f"{count} {name}" for name, count in counts(journal).items())]
    passed = [result for result in journal.results if result.outcome is SuiteOutcome.PASSED]
    if surprises := [result.test for result in passed if result.upstream]:
        notes.append(f"passed, although marked as broken upstream: {', '.join(surprises)}")
    if journal.left:
        notes.append(f"not run yet: {len(journal.left)} tests")
    if any(result.logs for result in journal.results):
        notes.append(f"logs: {journal.logs}")
    return tuple(notes)


def counts(journal: SuiteJournal) -> dict[str, int]:
    """Count the tests by outcome, and those with kernel complaints if there are any."""
    found = Counter(result.outcome for result in journal.results)
    counted = {outcome.value: found[outcome] for outcome in SuiteOutcome}
    counted["with kernel complaints"] = sum(bool(result.kernel) for result in journal.results)
    return {name: count for name, count in counted.items() if count}


def explanation(result: SuiteResult) -> str:
    """Return the kernel's first complaint, the reason for the outcome, and upstream's note, on one line."""
    kernel = f"kernel: {result.kernel[0]}" if result.kernel else ""
    upstream = f"upstream: {result.upstream}" if result.upstream else ""
    return "; ".join(filter(None, (kernel, result.why, upstream)))


def result_line(result: SuiteResult) -> str:
    """Return the result as one line for the progress output."""
    why = explanation(result)
    return f"{result.test}: {result.outcome}{f' ({shortened(why, _MOST_WHY)})' if why else ''}"


def as_value(journal: SuiteJournal) -> dict[str, Any]:
    """Return the run and its results as a JSON value."""
    return {
        **msgspec.to_builtins(journal.run),
        "left": list(journal.left),
        "counts": counts(journal),
        "logs": str(journal.logs),
        "results": [{**msgspec.to_builtins(result), "is_good": result.is_good} for result in journal.results],
    }


def csv_text(journal: SuiteJournal) -> str:
    """Return the results as CSV, one line per test."""
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
    """Return a table of the tests with the first lines of their ``.broken`` files."""
    rows = [(test, suite.broken.get(test, "").partition("\n")[0].strip()) for test in tests]
    title = f"{len(tests)} of {len(suite.tests)} tests in {suite.folder}"
    return replace(Table.listing(("test", "known failure"), rows), title=title)
