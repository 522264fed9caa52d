"""What needs a newer mdadm says so, on the kernels where it does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lab.errors import VersionTooOld
from lab.machine import Machine
from lab.session.versions import NeededMdadm, require_mdadm

NEEDED = NeededMdadm(mdadm="4.5", from_kernel="6.8", why="the disk is refused")


def machine(kernel: str, mdadm: str) -> Machine:
    told = SimpleNamespace(stdout="", stderr=f"mdadm - v{mdadm} - 2024-11-07\n")
    facts = SimpleNamespace(kernel_release=kernel, target="uml:")
    return cast("Machine", SimpleNamespace(facts=facts, run=lambda *_, **__: told))


@pytest.mark.parametrize(("kernel", "mdadm"), [("6.1.176", "4.2"), ("6.12.95-raidlab", "4.5"), ("7.2.12", "4.10")])
def test_what_is_new_enough_passes(kernel: str, mdadm: str) -> None:
    require_mdadm(machine(kernel, mdadm), NEEDED, "drill 8")


@pytest.mark.parametrize(("kernel", "mdadm"), [("6.12.95", "4.4"), ("7.2.12", "4.2"), ("6.8.0", "4.4")])
def test_what_is_too_old_is_named_with_what_it_needs(kernel: str, mdadm: str) -> None:
    with pytest.raises(VersionTooOld, match=r"drill 8 needs mdadm 4\.5 or later on Linux 6\.8 and later") as caught:
        require_mdadm(machine(kernel, mdadm), NEEDED, "drill 8")
    assert mdadm in caught.value.message


def test_without_a_need_nothing_is_asked() -> None:
    require_mdadm(machine("7.2", "3.0"), None, "drill 1")
