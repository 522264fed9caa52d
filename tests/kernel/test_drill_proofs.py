"""Drills are true on real arrays: right ways save, wrong ones are known by name, and every verdict is fair.

On the command line, in the app and its text mode, for two students; and the example of docs/drills.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.context import Options, use_options
from lab.cli.main import run
from lab.drills.proof import prove
from lab.drills.schema import catalogue, find_drill, read_drill, ready
from lab.errors import ExitCode
from lab.lessons.proof import PROOF_SEEDS
from lab.machine import Host, parse_target
from tests.kernel.drill_histories import SEED, histories, play_all, play_typed
from tests.kernel.place import kernel_target, real_time_target
from tests.unit.drills.test_drill_files import example

# Longer than the limit of one step's lines, so that a step that hangs is named.
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800), pytest.mark.wide]
PLACES = [(PROOF_SEEDS[0], "uml:"), pytest.param(PROOF_SEEDS[1], "uml:?time=virtual", marks=pytest.mark.virtual_time)]
"""One in each kind of time."""


@pytest.mark.parametrize(("seed", "target"), PLACES)
@pytest.mark.parametrize(("name", "path"), catalogue().items())
def test_a_drill_is_proved(name: str, path: Path, seed: str, target: str) -> None:
    drill = read_drill(path)
    proof = prove(ready(drill, path, seed), parse_target(target), Host.real("tests"))
    assert proof.failures == ()
    assert (proof.right, proof.wrong) == (len(drill.right), len(drill.wrong)), name


TYPED = ("1", "5", "10")
"""With few lines, with names of arrays, and with the longest lines; the other drills differ in what is typed alone."""


@pytest.mark.parametrize("path", catalogue().values(), ids=catalogue())
def test_every_verdict_is_fair(path: Path) -> None:
    problems = [problem for ended in play_all(ready(read_drill(path), path, SEED)) for problem in ended.problems]
    assert problems == []


@pytest.mark.parametrize("number", TYPED)
def test_the_text_mode_gives_the_same_outcome_for_typed_lines(number: str) -> None:
    path = find_drill(number)
    drill = ready(read_drill(path), path, SEED)
    right, unfinished = f"right: {drill.drill.right[0].id}", "half: tried and committed"
    typed = {ended.history.id: ended for ended in play_typed(drill, (right, unfinished))}
    assert set(typed) == {right, unfinished} <= {each.id for each in histories(drill)}
    assert [problem for ended in typed.values() for problem in ended.problems] == []


def test_the_example_of_the_page_is_true(tmp_path: Path) -> None:
    path = example(tmp_path)
    proof = prove(ready(read_drill(path), path, "page"), kernel_target(), Host.real("tests"))
    assert proof.failures == ()
    assert (proof.right, proof.wrong) == (2, 3)


def test_a_drill_that_cannot_be_made_is_reported_for_each_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    path = example(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("mdadm --create", "echo no such disk >&2; false", 1))
    try:
        words = ["drill", "verify", "--prove", str(path), "--seed", "one", "--seed", "two"]
        assert run(["--on", real_time_target().text, *words]) == ExitCode.FAILED
    finally:
        use_options(Options())
    printed = capfd.readouterr()
    for word in ("one", "two"):
        assert f"40-stale-mirror ('{word}'): not proved" in printed.out
        assert f"40-stale-mirror ('{word}'): drill 40-stale-mirror could not be created" in printed.err
