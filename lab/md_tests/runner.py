"""Runs tests of mdadm's suite one after another, and starts a new machine after each test that did not simply pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.errors import LabError, SpecError
from lab.machine import Host, Machine, Target, TargetKind
from lab.machine.kernel_image import quickest
from lab.md_tests.judging import EndOfTest, SuiteOutcome, judged
from lab.md_tests.record import SuiteJournal, SuiteResult
from lab.md_tests.suite import Suite
from lab.md_tests.suite_machine import SuiteLimits, SuiteLogs, SuiteMachine, open_suite_machine

VIRTUAL_LIMITS = SuiteLimits(machine_seconds=4 * 3600.0, computer_seconds=900.0)
REAL_LIMITS = SuiteLimits(machine_seconds=3600.0, computer_seconds=3900.0)
"""In real time, the machine's limit is reached first, while the machine can still be queried for its logs."""
_REUSABLE = (SuiteOutcome.PASSED, SuiteOutcome.SKIPPED)


@dataclass(frozen=True, slots=True)
class SuiteHooks:
    """Callbacks of a run."""

    on_notice: Callable[[str], None]
    on_machine: Callable[[Machine], None]
    on_start: Callable[[str, int, int], None]
    """Called with the test, the number of tests with a result, and the number of all tests."""
    on_result: Callable[[SuiteResult], None]


def suite_target(target: Target, host: Host, *, is_chosen: bool) -> Target:
    """The machine for the tests: the embedded kernel, by default in virtual time if such a kernel was built.

    Raises SpecError if the user chose a machine of another kind.
    """
    if target.kind is not TargetKind.UML:
        if is_chosen:
            raise SpecError(
                f"mdadm's tests do not run on {target}: they take every array and loop device of a machine",
                hint="run them in the embedded kernel: --on uml:",
            )
        target = Target(TargetKind.UML, text="uml:")
    return quickest(target, host.processes, host.files)


def run_tests(
    journal: SuiteJournal,
    suite: Suite,
    target: Target,
    host: Host,
    udev_daemon: str,
    limits: SuiteLimits,
    hooks: SuiteHooks,
    *,
    keeps_going: bool,
) -> None:
    """Run the tests without a result; without ``keeps_going``, stop at the first result that is not good.

    Raises LabError if no machine can be started, or if the suite does not start on a new one.
    """
    while journal.left:
        with open_suite_machine(
            *(target, host, journal.copy, suite.file_kib, udev_daemon),
            on_notice=hooks.on_notice,
            on_machine=hooks.on_machine,
        ) as machine:
            journal.note_machine(machine.mdadm, machine.kernel)
            is_fresh = True
            for test in journal.left:
                hooks.on_start(test, len(journal.results), len(journal.run.tests))
                end, logs = machine.run(test, limits)
                result, files = _result(test, suite, end, logs)
                if is_fresh and not journal.results and result.outcome is SuiteOutcome.UNSTARTED:
                    raise LabError(
                        f"mdadm's suite ends before its first test: {result.why}",
                        hint="run it in a machine of another kernel (--on 'uml:?time=real'), or take a whole checkout",
                    )
                is_fresh = False
                hooks.on_result(journal.add(result, files))
                if not keeps_going and not result.is_good:
                    return
                if not _is_reusable(machine, result):
                    break
    journal.forget_copy()


def _result(test: str, suite: Suite, end: EndOfTest, logs: SuiteLogs) -> tuple[SuiteResult, dict[str, str]]:
    told = suite.broken.get(test, "")
    judgement = judged(test, end, is_broken=test in suite.broken)
    result = SuiteResult(
        test=test,
        outcome=judgement.outcome,
        why=judgement.why,
        upstream=told.partition("\n")[0].strip() or ("no reason given" if test in suite.broken else ""),
        kernel=judgement.complaints,
        machine_seconds=end.machine_seconds,
        computer_seconds=end.computer_seconds,
        last_lines=judgement.last_lines,
    )
    keeps = result.outcome is not SuiteOutcome.PASSED or bool(result.kernel)
    return result, logs.by_ending() if keeps else {}


def _is_reusable(machine: SuiteMachine, result: SuiteResult) -> bool:
    """After any other outcome, the state of the machine is unknown."""
    return result.outcome in _REUSABLE and not result.kernel and not machine.has_arrays()
