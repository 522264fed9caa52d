"""Campaigns and proofs on a cluster: what they come to is what they come to here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.sweeps import REPOSITORY

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time]
LESSON = REPOSITORY / "lab/lessons/course/01-what-a-disk-promises.toml"


def raidlab(state: Path, *words: str) -> Any:
    start = [
        sys.executable,
        "-c",
        "import sys; from lab.cli.main import run; sys.exit(run())",
        "--on",
        "uml:?time=virtual",
        "--json",
    ]
    environment = {**os.environ, "RAIDLAB_STATE": str(state)}
    ended = subprocess.run(
        [*start, *words], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_campaign_finds_the_same_on_a_cluster(tmp_path: Path) -> None:
    here = raidlab(tmp_path / "here", "fault", "campaign", "--seeds", "6")
    there = raidlab(tmp_path / "there", "fault", "campaign", "--seeds", "6", "--cluster", "local:2")
    same = ("seeds", "explained", "said_no", "findings", "is_complete")
    assert {name: there[name] for name in same} == {name: here[name] for name in same}
    assert there["seeds"] == 6


def test_crash_points_are_judged_the_same_on_a_cluster(tmp_path: Path) -> None:
    words = ("fault", "points", "raid5/ppl/idle", "--count", "8")
    here = raidlab(tmp_path / "here", *words)
    there = raidlab(tmp_path / "there", *words, "--cluster", "local:2")

    def told(document: Any) -> dict[str, Any]:
        return {each["configuration"]: {**each, "seconds": 0} for each in document}

    assert told(there) == told(here)
    assert len(told(here)) >= 3
    assert all(each["points"] == 8 for each in there)


def test_proofs_on_a_cluster(tmp_path: Path) -> None:
    words = ("lesson", "verify", str(LESSON), "--prove", "--seed", "anna")
    (here,) = raidlab(tmp_path / "here", *words)
    (there,) = raidlab(tmp_path / "there", *words, "--cluster", "local:2")
    assert {**there, "seconds": 0} == {**here, "seconds": 0}
    assert (here["kind"], here["name"], here["seed"], here["failures"]) == ("lesson", LESSON.stem, "anna", [])
    assert here["right"] == 1
    assert here["checks"] > 0
