"""One lab for each module on an embedded kernel of its own, and blank disks for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.disks import Lab, open_lab, with_fitting_time
from lab.machine import Host
from tests.kernel.place import kernel_target
from tests.kernel.rig import Rig, file_disks


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Boots once for a module, its DISKS on its TARGET; where it MEASURES_DRIVES, in virtual time if that can be."""
    wanted, host = getattr(request.module, "DISKS", file_disks(8, 48)), Host.real("tests")
    target = getattr(request.module, "TARGET", None) or kernel_target()
    if getattr(request.module, "MEASURES_DRIVES", False):
        target = with_fitting_time(target, host, wanted, lambda _: None)
    with open_lab(target, host, wanted=wanted) as opened:
        yield opened


@pytest.fixture(scope="module")
def module_rig(lab: Lab) -> Rig:
    """For modules whose tests share an array."""
    return Rig(lab)


@pytest.fixture
def rig(module_rig: Rig) -> Rig:
    """Blank disks and no array."""
    module_rig.blank()
    return module_rig
