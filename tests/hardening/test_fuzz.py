"""Hostile inputs for the command line, each in a fork of this process with bounded memory and time.

A fork costs a hundredth of a start. Labs are opened on a machine without a world behind it, and time passes only when
something sleeps; everything else is the real command, from its arguments to its exit status.
"""

from __future__ import annotations

import gc
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.cli import context as cli_context
from lab.cli.main import run
from lab.host import clock, streams
from tests.conftest import LongRun
from tests.hardening.inputs import Case, case, commands, read_case
from tests.hardening.workbench import MOST_BYTES, MOST_CPU_SECONDS, MOST_SECONDS
from tests.unit.disks.machines import Device, lab_disks, machine_of, opener_of

COUNT = 120
MORE_SECONDS = 60.0
# Inputs that once failed, in the form in which a failure prints them.
FOUND = (
    # The program that measures a drive returns nothing.
    '[["disks", "calibrate", "disk01", "--name", "ad0"], {}]',
)
# The doctor's report contains the fixes as fields.
_NEXT = re.compile(r'^  next: |"fix": "[^"]', re.MULTILINE)
_BUG = re.compile("Traceback|this should not happen|not enough memory|Exception ignored")
_TOLD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an input ended; ``problem`` is empty if the command handled it."""

    status: int | None
    said: str
    problem: str = ""


def outcome(case: Case) -> Outcome:
    """Run the command with one input, in its own folders."""
    folder = Path(tempfile.mkdtemp(prefix="raidlab-fuzz-"))
    try:
        (folder / "state").mkdir(mode=0o700)
        for name, data in case.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        os.mkfifo(folder / "pipe")
        (folder / "link").symlink_to("link")
        return _forked(case, folder)
    finally:
        shutil.rmtree(folder)


def _forked(case: Case, folder: Path) -> Outcome:
    reading, writing = os.pipe()
    begin = time.monotonic()
    with warnings.catch_warnings():
        # The test runner has another thread, which the child does not need.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reading)
        _carry_out(case, folder, writing)
    os.close(writing)
    said, is_late = _read(reading, begin + MOST_SECONDS)
    os.close(reading)
    if is_late:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return _judged(case, None if is_late else status, said.decode("utf-8", "replace"))


def _read(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    """Return the output until its end, shortened in the middle, and whether it took too long."""
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            continue
        more = os.read(descriptor, 1 << 20)
        if not more:
            return said, False
        said += more
        if len(said) > 1 << 24:
            said = said[:_TOLD_BYTES] + said[-_TOLD_BYTES:]
    return said, True


def _judged(case: Case, status: int | None, said: str) -> Outcome:
    problem = ""
    passes_status_on = "exec" in case.words
    if status is None:
        problem = f"no end within {MOST_SECONDS:g} s"
    elif status not in range(5) and not (passes_status_on and 0 <= status < 256):
        problem = f"status {status}"
    elif found := _BUG.search(said):
        problem = f"'{found[0]}'"
    elif status in (2, 3, 4) and not _NEXT.search(said):
        problem = "no next step"
    return Outcome(status, said, problem)


def _carry_out(case: Case, folder: Path, output: int) -> None:
    status = 255
    try:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.environ.update(
            RAIDLAB_STATE=str(folder / "state"), RAIDLAB_CONFIG=str(folder), TMPDIR=str(folder), HOME=str(folder)
        )
        tempfile.tempdir = None
        own = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        # Do not count the memory that the fork inherited.
        resource.setrlimit(resource.RLIMIT_AS, (own + MOST_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS,) * 2)
        streams.prepare()
        _without_a_world()
        status = int(run(list(case.words)))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _without_a_world() -> None:
    slept = 0.0

    def sleep(_: object, seconds: float) -> None:
        nonlocal slept
        slept += seconds

    clock.HostClock.sleep = sleep  # type: ignore[method-assign,assignment]
    clock.HostClock.monotonic_seconds = lambda _: time.monotonic() + slept  # type: ignore[method-assign,assignment]
    disks = lab_disks("abcde")
    machine = machine_of(*(Device(disk.kernel_name, number=f"98:{number}") for number, disk in enumerate(disks)))
    cli_context.OPENER.set(opener_of(machine, disks))


def smaller(found: Case, problem: str) -> Case:
    """Return a case with the same problem and fewer words and files, by leaving out one at a time."""

    def still(candidate: Case) -> bool:
        return outcome(candidate).problem == problem

    place = 0
    while place < len(found.words):
        fewer = replace(found, words=found.words[:place] + found.words[place + 1 :])
        if fewer.words and fewer.words[0] not in ("run", "watch") and still(fewer):
            found = fewer
        else:
            place += 1
    for name in found.files:
        without = {other: data for other, data in found.files.items() if other != name}
        if still(fewer := replace(found, files=without)):
            found = fewer
    return found


@pytest.fixture(scope="module", autouse=True)
def load_all() -> None:
    """Load the modules that commands load on demand, before the first fork: a fork has no other threads."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    commands()
    gc.freeze()


@pytest.mark.parametrize("part", range(4))
def test_every_input_gets_an_answer(part: int) -> None:
    for number in range(part, COUNT, 4):
        kind, made = case(2026, number)
        seen = outcome(made)
        assert not seen.problem, f"{kind} {number}: {made.words}: {seen}"


@pytest.mark.wide
def test_every_input_of_a_minute_gets_an_answer(long_run: LongRun) -> None:
    begun, number = time.monotonic(), 0
    while time.monotonic() - begun < (long_run.seconds or MORE_SECONDS):
        kind, made = case(long_run.seed, number)
        seen = outcome(made)
        assert not seen.problem, f"{kind} {number}: {smaller(made, seen.problem).written()}: {seen}"
        number += 1


@pytest.mark.parametrize("text", FOUND)
def test_what_broke_it_gets_an_answer(text: str) -> None:
    seen = outcome(read_case(text))
    assert not seen.problem, seen


def _raise(_: object) -> int:
    raise ZeroDivisionError("a bug")


def _grow(_: object) -> int:
    # A little more than the limit, since the heap has free space.
    return len(bytearray(MOST_BYTES + 2**26)) and 0


def _hang(_: object) -> int:
    while True:
        pass


def _strange_status(_: object) -> int:
    return 7


@pytest.mark.parametrize(
    ("bug", "seen"),
    [(_raise, "should not happen"), (_grow, "memory"), (_hang, "no end"), (_strange_status, "status 7")],
)
def test_a_bug_is_seen(bug: Callable[[object], int], seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cli.load.workloads", lambda: bug(None))
    if bug is _hang:
        monkeypatch.setitem(globals(), "MOST_SECONDS", 1.0)
    assert seen in outcome(Case(("workloads",), {})).problem
