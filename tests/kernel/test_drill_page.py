"""The drill of docs/drills.md is taken at its word: it is made, and every way in it does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.drills.proof import prove
from lab.drills.schema import read_drill, ready
from lab.machine import Host, parse_target
from tests.unit.drills.test_drill_reference import example

pytestmark = pytest.mark.kernel


def test_the_example_of_the_page_is_true(tmp_path: Path) -> None:
    path = example(tmp_path)
    proof = prove(ready(read_drill(path), path, "page"), parse_target("uml:"), Host.real("tests"))
    assert proof.failures == ()
    assert (proof.right, proof.wrong) == (2, 3)
