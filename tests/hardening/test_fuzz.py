"""Hostile inputs, as many as ``--seconds`` allows, and whether a bug would be detected."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.conftest import LongRun
from tests.hardening import fuzzing
from tests.hardening.fuzzing import load_all, outcome, smaller
from tests.hardening.inputs import Case, case, read_case

COUNT = 120
MORE_SECONDS = 60.0
# What a failure prints, to be repeated.
FOUND = (
    # The program that measures a drive returns nothing.
    '[["disks", "calibrate", "disk01", "--name", "ad0"], {}]',
)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    load_all()


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
    return len(bytearray(fuzzing.MOST_BYTES + 2**26)) and 0


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
        monkeypatch.setattr(fuzzing, "MOST_SECONDS", 1.0)
    assert seen in outcome(Case(("workloads",), {})).problem
