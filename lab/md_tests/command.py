"""The command ``raidlab md-tests``, which runs mdadm's own test suite, one test after another, in embedded machines."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from lab.cli.arguments import number
from lab.cli.context import Context, ProgressBar, current, fitted, named_target
from lab.errors import ExitCode, SpecError
from lab.gates.decoding import Seconds
from lab.host.files import write_file
from lab.machine import Target, parse_target
from lab.md_tests.record import (
    Suite,
    SuiteJournal,
    as_value,
    chosen_tests,
    csv_text,
    find_suite,
    is_stale,
    list_table,
    new_run,
    require_built,
    require_tools,
    result_line,
    result_table,
    resumed_run,
)
from lab.md_tests.runner import (
    REAL_LIMITS,
    VIRTUAL_LIMITS,
    SuiteLimits,
    names_mdadm,
    run_tests,
    suite_target,
)


def md_tests(
    checkout: Annotated[
        Path, Parameter(help="Folder with mdadm's sources. mdadm must be built there, unless --on specifies one.")
    ],
    *tests: Annotated[str, Parameter(help="Tests, or patterns such as '00*'. The default is all tests.")],
    list_tests: Annotated[
        bool, Parameter(name="--list", negative="", help="List the tests and their known failures, and run none.")
    ] = False,
    keep_going: Annotated[
        bool, Parameter(negative="--stop-at-failure", help="Continue after an unexpected failure.")
    ] = True,
    resume: Annotated[
        bool, Parameter(negative="", help="Resume the latest run of this checkout, or print it if it is finished.")
    ] = False,
    machine_limit: Annotated[
        float | None, number(Seconds, help="Time limit of a test by the machine's clock, in seconds.")
    ] = None,
    computer_limit: Annotated[
        float | None, number(Seconds, help="Time limit of a test by this computer's clock, in seconds.")
    ] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Also write the table: .md, .csv, .json or .txt.")
    ] = None,
) -> int:
    """Run mdadm's own tests and report each outcome: passed, failed, or failed but marked as broken upstream.

    The tests run only in an embedded kernel: uml: (in virtual time if such a kernel was built) or qemu:. The checkout
    is not modified, and each result is stored immediately. The exit status is 0 if every test passed, was skipped, or
    failed but is marked as broken upstream, and if the kernel did not complain.
    """
    context = current()
    suite = find_suite(checkout)
    if resume and tests:
        raise SpecError("--resume runs the remaining tests, so it takes no tests", hint="omit the tests or --resume")
    if output is not None and not output.parent.is_dir():
        raise SpecError(f"there is no folder '{output.parent}' for the table", hint="create it first")
    chosen = chosen_tests(suite, tests)
    if list_tests:
        listed = [{"test": test, "upstream": suite.broken.get(test, "")} for test in chosen]
        context.out(listed, fitted(list_table(suite, chosen)))
        return ExitCode.DONE
    is_chosen = bool(named_target())
    target = suite_target(context.target, context.host, is_chosen=is_chosen)
    run: AbstractContextManager[SuiteJournal] = (
        resumed_run(context.host, suite) if resume else new_run(context.host, suite, chosen, str(target))
    )
    with run as journal:
        if resume and not is_chosen:
            target = parse_target(journal.run.target)
        limits = _limits(target, machine_limit, computer_limit)
        try:
            _run(context, suite, journal, target, limits, keeps_going=keep_going)
        finally:
            if journal.left and journal.results:
                done = f"{len(journal.results)} of {len(journal.run.tests)} tests have a result"
                context.narrator.notice(f"{done}; to continue: raidlab md-tests {checkout} --resume")
        _print_results(context, journal, output)
        return ExitCode.DONE if all(result.is_good for result in journal.results) else ExitCode.FAILED


def _run(
    context: Context,
    suite: Suite,
    journal: SuiteJournal,
    target: Target,
    limits: SuiteLimits,
    *,
    keeps_going: bool,
) -> None:
    if not journal.left:
        return
    if not names_mdadm(target):
        require_built(suite)
        if is_stale(suite):
            context.narrator.notice(f"sources in {suite.folder} are newer than the mdadm that was built there")
    udev_daemon = require_tools(context.host.processes, context.host.files)
    with ProgressBar(quiet=context.quiet) as bar:

        def show(test: str) -> None:
            done, tests = len(journal.results), len(journal.run.tests)
            bar.show(f"{test} ({done + 1} of {tests})", done / tests)

        notice, listen = context.narrator.notice, context.narrator.listen
        results = run_tests(
            *(journal, suite, target, context.host, udev_daemon, limits),
            on_notice=notice,
            on_machine=listen,
            on_start=show,
        )
        # Close the generator explicitly, because a finalizer would swallow a KeyboardInterrupt.
        with closing(results):
            for result in results:
                notice(result_line(result))
                if not keeps_going and not result.is_good:
                    return


def _print_results(context: Context, journal: SuiteJournal, output: Path | None) -> None:
    if output is not None:
        write_file(output, _as_file(journal, output.suffix.lower()).encode())
        context.narrator.notice(f"written to {output}")
    context.out(as_value(journal), fitted(result_table(journal)))


def _as_file(journal: SuiteJournal, suffix: str) -> str:
    if suffix == ".json":
        return msgspec.json.format(msgspec.json.encode(as_value(journal)), indent=2).decode() + "\n"
    if suffix == ".csv":
        return csv_text(journal)
    return f"{result_table(journal).as_document(suffix == '.md')}\n"


def _limits(target: Target, machine_seconds: float | None, computer_seconds: float | None) -> SuiteLimits:
    usual = VIRTUAL_LIMITS if target.is_virtual_time else REAL_LIMITS
    return SuiteLimits(machine_seconds or usual.machine_seconds, computer_seconds or usual.computer_seconds)
