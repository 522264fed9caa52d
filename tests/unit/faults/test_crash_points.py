"""Exploring crash points: what was tried is told, whatever ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.fault import chosen_configurations, points_exit_code
from lab.errors import ExitCode, LabError, MachineLost, SpecError, ToolMissing
from lab.faults import crash_points
from lab.faults.crash_points import (
    Exploration,
    Explored,
    PointJudgement,
    PointVerdict,
    Tally,
    explore_all,
    find_configuration,
)
from lab.faults.guest.record import Cut
from lab.machine import Host, parse_target

CONFIGURATION = find_configuration("raid5/ppl/idle/mixed")
CUTS = [Cut(number, {}) for number in range(1, 9)]


@pytest.fixture
def exploration(monkeypatch: pytest.MonkeyPatch) -> Exploration:
    """On a machine that is lost at the fourth crash point."""

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[object]:
        yield object()

    def judged(_place: object, _recording: object, cuts: list[Cut]) -> Iterator[dict[str, Any]]:
        for number, cut in enumerate(cuts):
            if number == 3:
                raise MachineLost("the kernel crashed")
            yield {"cut": cut.word()}

    class KeepsAll:
        def __init__(self, _: object) -> None:
            pass

        def verdict(self, seen: dict[str, Any]) -> PointVerdict:
            return PointVerdict(seen["cut"], PointJudgement.KEPT, (), seen)

    recording = SimpleNamespace(cuts=lambda _: CUTS, fingerprint="f")
    monkeypatch.setattr(crash_points, "open_place", opened)
    monkeypatch.setattr(crash_points, "make_recording", lambda *_, **__: recording)
    monkeypatch.setattr(crash_points, "judge_points", judged)
    monkeypatch.setattr(crash_points, "Judge", KeepsAll)
    return Exploration(parse_target("uml:?time=virtual"), Host.real("tests"), points=8)


def test_a_lost_machine_is_told_with_the_point_at_which_it_died(exploration: Exploration) -> None:
    (found,) = explore_all(exploration, [(CONFIGURATION, "1")])
    assert (found.tally.points, found.last) == (3, "4")
    assert isinstance(found.error, MachineLost)
    assert points_exit_code([found]) == ExitCode.MACHINE_LOST


def test_what_was_under_way_is_told_to_whoever_ends_it(exploration: Exploration) -> None:
    rest: list[Explored] = []
    points: list[PointVerdict] = []
    is_closing = threading.Event()

    def on_point(verdict: PointVerdict) -> None:
        points.append(verdict)
        if len(points) > 3:
            # The first of the second configuration, until all is being ended.
            is_closing.wait(20)

    work = [(CONFIGURATION, str(seed)) for seed in range(9)]
    running = explore_all(replace(exploration, on_point=on_point), work, machines=1, on_rest=rest.append)
    assert next(running).tally.points == 3
    threading.Timer(0.3, is_closing.set).start()
    running.close()
    assert [(each.seed, each.tally.points) for each in rest] == [("1", 1)]


def test_the_exit_status_says_what_outweighs() -> None:
    def one(error: LabError | None, *, is_broken: bool = False) -> Explored:
        tally = Tally()
        if is_broken:
            tally.add(PointVerdict("1", PointJudgement.BROKEN, ("x",), {}))
        return Explored(CONFIGURATION, "1", "", tally, 1.0, error)

    good, broken, lost = one(None), one(None, is_broken=True), one(MachineLost("x"))
    missing = one(ToolMissing("make", hint="make uml-kernel"))
    assert points_exit_code([good]) == ExitCode.DONE
    assert points_exit_code([good, broken]) == ExitCode.FAILED
    assert points_exit_code([broken, lost, missing]) == ExitCode.MACHINE_LOST
    assert points_exit_code([good, missing]) == ExitCode.MISSING


def test_each_name_must_fit_something() -> None:
    assert chosen_configurations(["raid5/ppl/idle/mixed", "raid5/ppl/idle"])[0] == CONFIGURATION
    assert len(chosen_configurations([])) > 70
    with pytest.raises(SpecError):
        chosen_configurations(["raid5", "raid9"])
