"""The verdict on one test of mdadm's suite, from the output of the suite, the test's log and the kernel's messages.

The patterns match the suite's messages: ``do_test``, ``die`` and ``skip`` in mdadm's ``test``, ``save_log`` in func.sh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

MOST_WHY_CHARACTERS = 300
_MOST_LINES = 15
_MOST_COMPLAINTS = 8


class SuiteOutcome(StrEnum):
    """The outcome of a test."""

    PASSED = "passed"
    KNOWN = "failed, as upstream knows"
    """The test has a ``.broken`` file: upstream knows the failure."""
    FAILED = "failed"
    SKIPPED = "skipped itself"
    HUNG = "did not end"
    """The test was stopped at a time limit, by the machine's or this computer's clock, or at the limit of its log."""
    LOST = "machine lost"
    """The kernel crashed or stopped responding."""
    UNSTARTED = "not started"
    """The suite exited before it started the test."""


GOOD = frozenset({SuiteOutcome.PASSED, SuiteOutcome.KNOWN, SuiteOutcome.SKIPPED})


class LimitReached(StrEnum):
    """The limit at which a test was stopped; the values are the ends of messages, after a number."""

    MACHINE = "s of the machine's time"
    COMPUTER = "s of this computer's time"
    LOG = "MiB of log"


@dataclass(frozen=True, slots=True)
class EndOfTest:
    """How the run of one test ended."""

    status: int | None = None
    """Exit status of the suite's script; None if it was stopped."""
    said: str = ""
    """The output of the script."""
    log: str = ""
    """The log of the test: the trace of bash (``set -x``) and the output of the commands."""
    limit: LimitReached | None = None
    limit_number: float = 0.0
    loss: str = ""
    """The reason why the machine was lost; else empty."""
    console: str = ""
    """Kernel messages during the test."""
    machine_seconds: float | None = None
    """Duration by the machine's clock; None if the machine was lost."""
    computer_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """An outcome, its reason in one line, and kernel complaints (first lines of WARNING, BUG, Oops and so on)."""

    outcome: SuiteOutcome
    why: str
    complaints: tuple[str, ...]
    last_lines: tuple[str, ...]


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SKIPS_REST = re.compile(r"^skipping\.\.\. ", re.MULTILINE)
"""Printed by tests that exit successfully because the kernel lacks a feature, such as linear arrays."""
_SKIP_REASON = re.compile(r"^\tSKIPPING, REASON: (.*?)\s*$", re.MULTILINE)
_TRACE = re.compile(r"^\++ ")
_ERROR = re.compile(r"^\s*(?:\*\*(?:Error|Fatal)\*\*\s*:?|(?:FATAL )?ERROR:)\s*(\S.*?)\s*$", re.MULTILINE)
_SAVING = re.compile(r"^\++ save_log( fail)?$", re.MULTILINE)
"""The trace line at which a failed test begins to save its log."""
_HOUSEKEEPING = re.compile(r"^\++ (?:trap|exit|return|rv=|case |(?:cat|rm -f) \S*/stderr$)")
"""Traced commands to ignore: the suite's function ``mdadm`` after the program has run, and the end of a test."""
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


def judged(test: str, end: EndOfTest, *, is_broken: bool) -> Judgement:
    """The verdict on ``test``; ``is_broken`` says whether upstream knows that it fails."""
    complaints = kernel_complaints(end.console)
    outcome, why = _outcome(test, end)
    lines = last_lines(end.log) if outcome not in (SuiteOutcome.PASSED, SuiteOutcome.SKIPPED) else ()
    if outcome in (SuiteOutcome.FAILED, SuiteOutcome.HUNG) and is_broken:
        outcome = SuiteOutcome.KNOWN
    return Judgement(outcome, why[:MOST_WHY_CHARACTERS], complaints, lines)


def _outcome(test: str, end: EndOfTest) -> tuple[SuiteOutcome, str]:
    if end.loss:
        return SuiteOutcome.LOST, end.loss
    if end.limit:
        at = next(_commands(end.log), "")
        place = f", at: {at}" if at else ""
        return SuiteOutcome.HUNG, f"not over after {end.limit_number:g} {end.limit}{place}"
    said = _COLOUR.sub("", end.said)
    _, has_begun, after = said.partition(f"/{test}... ")
    if not has_begun:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return SuiteOutcome.UNSTARTED, lines[-1] if lines else f"the suite ended with status {end.status}"
    if "FAILED" in after:
        return SuiteOutcome.FAILED, reason_of_failure(end.log)
    if "skipping" in after:
        found = _SKIP_REASON.search(end.log)
        return SuiteOutcome.SKIPPED, found[1] if found else ""
    if "succeeded" in after and end.status == 0:
        return _passed(end.log)
    return SuiteOutcome.FAILED, f"the suite ended with status {end.status}, and did not say what became of the test"


def _passed(log: str) -> tuple[SuiteOutcome, str]:
    rest = _SKIPS_REST.search(log)
    if rest is None:
        return SuiteOutcome.PASSED, ""
    if re.search(r"^\+ mdadm ", log[: rest.start()], re.MULTILINE):
        return SuiteOutcome.PASSED, "it left out a part of itself, which this kernel cannot do"
    return SuiteOutcome.SKIPPED, "this kernel cannot do it"


def reason_of_failure(log: str) -> str:
    """The reason of a failure: the test's own error message, else the last message in the log and the last command."""
    own = _without_saving(log)
    if errors := _ERROR.findall(own):
        return str(errors[-1])
    command = next(_commands(own), "")
    message = next((line.strip() for line in reversed(own.splitlines()) if _is_message(line)), "")
    if message and command:
        return f"{message} (after: {command})"
    return message or command


def last_lines(log: str) -> tuple[str, ...]:
    """The end of a test's log, without the commands with which the suite saves the log of a failed test."""
    lines = [line.rstrip() for line in _without_saving(log).splitlines() if line.strip()]
    return tuple(line[:MOST_WHY_CHARACTERS] for line in lines[-_MOST_LINES:])


def kernel_complaints(console: str) -> tuple[str, ...]:
    """The distinct first lines of the kernel's complaints (WARNING, BUG, Oops, panic, hung tasks)."""
    found = dict.fromkeys(match.strip()[:MOST_WHY_CHARACTERS] for match in _COMPLAINT.findall(console))
    return tuple(found)[:_MOST_COMPLAINTS]


def _without_saving(log: str) -> str:
    saving = _SAVING.search(log)
    return log[: saving.start()] if saving else log


def _is_message(line: str) -> bool:
    return bool(line.strip()) and not _TRACE.match(line) and not line.startswith("## ")


def _commands(log: str) -> Iterator[str]:
    """The traced commands except for the ignored ones, last first."""
    for line in reversed(log.splitlines()):
        if _TRACE.match(line) and not _HOUSEKEEPING.match(line):
            yield _OWN_MDADM.sub("mdadm ", line.lstrip("+").strip())
