"""Fixtures: one lab for each module, on an embedded kernel of its own, with blank disks for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.disks import Lab, open_lab, with_fitting_time
from lab.machine import Host
from tests.kernel.place import kernel_target
from tests.kernel.rig import Rig, file_disks


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Boot once for a module, with its DISKS on its TARGET; if it MEASURES_DRIVES, in virtual time where possible."""
    wanted, host = getattr(request.module, "DISKS", file_disks(8, 48)), Host.real("tests")
    target = getattr(request.module, "TARGET", None) or kernel_target()
    if getattr(request.module, "MEASURES_DRIVES", False):
        target = with_fitting_time(target, host, wanted, lambda _: None)
    with open_lab(target, host, wanted=wanted) as opened:
        yield opened


@pytest.fixture(scope="module")
def module_rig(lab: Lab) -> Rig:
    """A rig for modules whose tests share an array."""
    return Rig(lab)


@pytest.fixture
def rig(module_rig: Rig) -> Rig:
    """A rig with blank disks and without an array."""
    module_rig.blank()
    return module_rig
