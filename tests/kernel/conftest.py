"""One lab for each module on an embedded kernel of its own, and blank disks for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.disks import Lab, open_lab
from lab.machine import Host, parse_target
from tests.kernel.rig import Rig, file_disks


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Boots once for a module, with the disks that its DISKS names."""
    wanted = getattr(request.module, "DISKS", file_disks(8, 48))
    with open_lab(parse_target("uml:"), Host.real("tests"), wanted=wanted) as opened:
        yield opened


@pytest.fixture(scope="module")
def standing_rig(lab: Lab) -> Rig:
    """For modules whose tests share an array."""
    return Rig(lab)


@pytest.fixture
def rig(standing_rig: Rig) -> Rig:
    """Blank disks and no array."""
    standing_rig.blank()
    return standing_rig
