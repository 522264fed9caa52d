"""The drill of docs/drills.md is taken at its word: it is made, and every way in it does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.context import Options, use_options
from lab.cli.main import run
from lab.drills.proof import prove
from lab.drills.schema import read_drill, ready
from lab.errors import ExitCode
from lab.machine import Host
from tests.kernel.place import kernel_target, real_time_target
from tests.unit.drills.test_drill_files import example

pytestmark = [pytest.mark.kernel, pytest.mark.wide]


def test_the_example_of_the_page_is_true(tmp_path: Path) -> None:
    path = example(tmp_path)
    proof = prove(ready(read_drill(path), path, "page"), kernel_target(), Host.real("tests"))
    assert proof.failures == ()
    assert (proof.right, proof.wrong) == (2, 3)


def test_a_drill_that_cannot_be_made_is_told_for_each_word(
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
    told = capfd.readouterr()
    for word in ("one", "two"):
        assert f"40-stale-mirror ('{word}'): not proved" in told.out
        assert f"40-stale-mirror ('{word}'): drill 40-stale-mirror could not be made" in told.err
