"""Drills are true on real arrays: right ways save, wrong ones are known by name, and every verdict is fair.

On the command line, in the app and in text mode, for several students; and the example of docs/drills.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.context import Options, use_options
from lab.cli.main import run
from lab.drills.case import DrillStore
from lab.drills.proof import prove
from lab.drills.schema import catalogue, read_drill, ready
from lab.errors import ExitCode
from lab.lessons.proof import PROOF_SEEDS
from lab.machine import Host, parse_target
from tests.kernel.drill_histories import SEED, TextUser, names_line, own_lab, play_all
from tests.kernel.place import kernel_target, real_time_target
from tests.kernel.test_drills import DRILL, RIGHT
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


@pytest.mark.parametrize("path", catalogue().values(), ids=catalogue())
def test_every_verdict_is_fair(path: Path) -> None:
    problems = [problem for ended in play_all(ready(read_drill(path), path, SEED)) for problem in ended.problems]
    assert problems == []


def test_lines_that_are_typed_in_the_text_mode_save_the_data_too(tmp_path: Path) -> None:
    host = own_lab(tmp_path)
    with TextUser(host.state.root) as user:
        user.hear("is running.")
        user.enter(f"drill start 1 --seed {DRILL.seed}")
        user.hear("drill help lists all commands.")
        user.enter("debrief")
        user.hear("problem: no running array has the drill's files")
        user.enter("commit")
        user.hear("committed; nothing had been written")
        for line in (names_line(DRILL), *RIGHT.strip().splitlines()):
            user.run(line)
        user.enter("debrief")
        user.hear("The drill has ended: saved, 100 % of the data.")
    (outcome,) = DrillStore(host).all()
    assert outcome.mistakes == ()
    assert outcome.commands[-1].line.startswith(RIGHT.strip().splitlines()[-1])


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
