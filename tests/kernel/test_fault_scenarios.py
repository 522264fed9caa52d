"""Fault scenarios on real arrays: the expected verdicts, and failing verdicts if something is not as expected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lab.cli.main import run
from lab.faults.place import FaultPlace, open_place
from lab.faults.scenario import Scenario, find_scenario
from lab.faults.scenario_run import FaultVerdict, ScenarioOutcome, ScenarioRunner, load_run
from lab.machine import Host, parse_target
from tests.kernel.place import kernel_target, quick_marks, quick_target

pytestmark = [pytest.mark.kernel, *quick_marks()]
TARGET = quick_target()


@pytest.fixture(scope="module")
def place() -> Iterator[FaultPlace]:
    with open_place(TARGET, Host.real("tests")) as opened:
        yield opened


def only(name: str, *variants: str) -> Scenario:
    scenario = find_scenario(name)
    kept = tuple(each for each in scenario.variants if each.name in variants)
    assert len(kept) == len(variants)
    return msgspec.structs.replace(scenario, variants=kept)


def without(scenario: Scenario, word: str) -> Scenario:
    """The scenario without the steps of this act."""
    left = tuple(tree for tree in scenario.steps if tree["act"] != word)
    assert len(left) < len(scenario.steps)
    return msgspec.structs.replace(scenario, steps=left)


def unmet(outcome: ScenarioOutcome) -> set[str]:
    return {check.what for check in outcome.checks if not check.is_met}


@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("3", ("RAID 6 of 4", "near, 4", "far, 5")),
        ("8", ("RAID 1, with a list", "RAID 5, without")),
        ("10", ()),
        ("12", ("data, located",)),
        ("15", ("RAID 5, crashed",)),
        ("26", ("joined by hand",)),
        ("28", ("dirty and degraded",)),
        ("30", ("hanging",)),
    ],
)
def test_a_scenario_ends_as_it_must(place: FaultPlace, name: str, variants: tuple[str, ...]) -> None:
    outcome = ScenarioRunner(place).play(only(name, *variants) if variants else find_scenario(name))
    assert (outcome.verdict, outcome.unmet) == (FaultVerdict.AS_EXPECTED, ())
    assert len(outcome.checks) > len(outcome.variants)


@pytest.mark.parametrize(
    ("scenario", "what"),
    [
        (without(find_scenario("10"), "corrupt"), {"data", "corrupt_at", "mismatch_cnt", "wrong_parity"}),
        pytest.param(
            without(only("7", "RAID 5, by a read"), "message"),
            {"errors_0"},
            # This needs the device mapper's dust target, which distributions do not build.
            marks=pytest.mark.uml,
        ),
        (without(only("14", "torn"), "age"), {"data", "lost_at", "mismatch_cnt"}),
        (without(only("30", "hanging"), "hang"), {"under_way"}),
    ],
    ids=["corrupt", "latent", "torn", "hang"],
)
def test_without_the_fault_it_is_not_as_expected(place: FaultPlace, scenario: Scenario, what: set[str]) -> None:
    outcome = ScenarioRunner(place).play(scenario)
    assert outcome.verdict is FaultVerdict.NOT_AS_EXPECTED
    assert unmet(outcome) == what


def test_wrong_arithmetic_is_noticed(place: FaultPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A RAID 10 with near copies is judged as if it had far copies."""
    scenario = only("3", "near, 4")
    (variant,) = scenario.ready(1)
    wrong = msgspec.structs.replace(variant, array=replace(variant.array, layout="f2"))
    monkeypatch.setattr(Scenario, "ready", lambda *_: iter([wrong]))
    outcome = ScenarioRunner(place).play(scenario)
    assert unmet(outcome) == {"differing"}


@pytest.mark.uml
def test_the_same_in_real_time() -> None:
    with open_place(parse_target("uml:?time=real"), Host.real("tests")) as place:
        outcome = ScenarioRunner(place).play(find_scenario("11"))
    assert (outcome.verdict, outcome.unmet) == (FaultVerdict.AS_EXPECTED, ())


def test_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    assert run(["--on", kernel_target().text, "fault", "run", "4", "--keep"]) == 0
    printed = capsys.readouterr()
    assert "as expected" in printed.out
    assert re.search(r"\$ mdadm --manage /dev/md0 --fail /dev/(drive|nbd)2\n", printed.err)
    assert "✓ unreadable_at: blocks 4-11" in printed.err
    assert run(["fault", "show", "latest", "4"]) == 0
    assert "every write to the array fails" in capsys.readouterr().out
    stored = load_run(Host.real("tests"))
    assert stored.is_expected
    assert (tmp_path / "state/faults/scenarios" / stored.run.id / "documents.jsonl").stat().st_size > 1000
