"""What needs a newer mdadm, or an older kernel, says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lab.errors import UnfitVersion
from lab.machine import Machine
from lab.session.session import NeededKernel, NeededMdadm, require_kernel, require_mdadm

OLDER = NeededKernel(before="7.0", why="the rebuild never ends")
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
    with pytest.raises(UnfitVersion, match=r"drill 8 needs mdadm 4\.5 or later on Linux 6\.8 and later") as caught:
        require_mdadm(machine(kernel, mdadm), NEEDED, "drill 8")
    assert mdadm in caught.value.message


def test_without_a_need_nothing_is_asked() -> None:
    require_mdadm(machine("7.2", "3.0"), None, "drill 1")
    require_kernel(machine("7.2", "3.0"), None, "drill 1")


@pytest.mark.parametrize("kernel", ["6.1.176", "6.12.95-raidlab-vt", "6.19.0"])
def test_an_older_kernel_passes(kernel: str) -> None:
    require_kernel(machine(kernel, "4.2"), OLDER, "drill 11")


@pytest.mark.parametrize("kernel", ["7.0.0", "7.2.13-raidlab-vt", "10.1"])
def test_a_kernel_that_is_too_new_is_named_with_what_goes_wrong(kernel: str) -> None:
    with pytest.raises(UnfitVersion, match=r"drill 11 needs a kernel before Linux 7\.0, .*never ends") as caught:
        require_kernel(machine(kernel, "4.6"), OLDER, "drill 11")
    assert kernel in caught.value.message
