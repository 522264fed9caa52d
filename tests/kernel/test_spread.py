"""Campaigns and proofs on a cluster have the same results as on this computer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.kill import Place
from tests.window import REPOSITORY

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]
LESSON = REPOSITORY / "lab/lessons/course/01-what-a-disk-promises.toml"


def raidlab(root: Path, *words: str) -> Any:
    ended = Place(root, "uml:?time=virtual").run(("--json", *words))
    assert ended.status == 0, ended.stderr
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

    def without_seconds(document: Any) -> dict[str, Any]:
        return {each["configuration"]: {**each, "seconds": 0} for each in document}

    assert without_seconds(there) == without_seconds(here)
    assert len(without_seconds(here)) >= 3
    assert all(each["points"] == 8 for each in there)


def test_proofs_on_a_cluster(tmp_path: Path) -> None:
    words = ("lesson", "verify", str(LESSON), "--prove", "--seed", "anna")
    (here,) = raidlab(tmp_path / "here", *words)
    (there,) = raidlab(tmp_path / "there", *words, "--cluster", "local:2")
    assert {**there, "seconds": 0} == {**here, "seconds": 0}
    assert (here["kind"], here["name"], here["seed"], here["failures"]) == ("lesson", LESSON.stem, "anna", [])
    assert here["right"] == 1
    assert here["checks"] > 0
