"""Every drill is true on real arrays, for two students: right ways save, and wrong ones are known by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.drills.proof import prove
from lab.drills.schema import catalogue, read_drill, ready
from lab.lessons.proof import PROOF_SEEDS
from lab.machine import Host, parse_target

pytestmark = [pytest.mark.kernel, pytest.mark.wide]
PLACES = [(PROOF_SEEDS[0], "uml:"), pytest.param(PROOF_SEEDS[1], "uml:?time=virtual", marks=pytest.mark.virtual_time)]
"""One in each kind of time."""


@pytest.mark.parametrize(("seed", "target"), PLACES)
@pytest.mark.parametrize(("name", "path"), catalogue().items())
def test_a_drill_is_proved(name: str, path: Path, seed: str, target: str) -> None:
    drill = read_drill(path)
    proof = prove(ready(drill, path, seed), parse_target(target), Host.real("tests"))
    assert proof.failures == ()
    assert (proof.right, proof.wrong) == (len(drill.right), len(drill.wrong)), name
