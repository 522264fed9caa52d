"""Required versions of mdadm or the kernel, for features that not all supported versions have."""

from __future__ import annotations

import re

import msgspec

from lab.errors import UnfitVersion
from lab.machine import Machine
from lab.machine.target import target_words


class NeededMdadm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The oldest suitable mdadm, on kernels from ``from_kernel`` on (empty: on all)."""

    mdadm: str
    from_kernel: str = ""
    why: str
    """One sentence: the failure with an older mdadm."""

    @property
    def sentence(self) -> str:
        """The requirement as text: ``mdadm 4.5 or later on Linux 6.8 and later``."""
        return f"mdadm {self.mdadm} or later{f' on Linux {self.from_kernel} and later' if self.from_kernel else ''}"


class NeededKernel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kernel must be older than ``before``."""

    before: str
    why: str
    """One sentence: the failure from this kernel on."""


_HINT = "choose another machine with --on: 'raidlab doctor --machine' lists its versions"


def require_mdadm(machine: Machine, needed: NeededMdadm | None, what: str) -> None:
    """Raises UnfitVersion if the machine's mdadm cannot do ``what`` on its kernel."""
    if needed is None or _numbers(machine.facts.kernel_release) < _numbers(needed.from_kernel):
        return
    told = machine.run(("mdadm", "--version"), check=False)
    there = _numbers(told.stdout or told.stderr)
    if there < _numbers(needed.mdadm):
        raise UnfitVersion(
            f"{what} needs {needed.sentence}, and {_place(machine)} has mdadm "
            f"{there[0]}.{there[1]} on Linux {machine.facts.kernel_release}: {needed.why}",
            hint=_HINT,
        )


def require_kernel(machine: Machine, needed: NeededKernel | None, what: str) -> None:
    """Raises UnfitVersion if the machine's kernel is too new for ``what``."""
    if needed is not None and _numbers(machine.facts.kernel_release) >= _numbers(needed.before):
        raise UnfitVersion(
            f"{what} needs a kernel before Linux {needed.before}, and {_place(machine)} has "
            f"{machine.facts.kernel_release}: {needed.why}",
            hint=_HINT,
        )


def _place(machine: Machine) -> str:
    return target_words(machine.facts.target, in_sentence=True)


def _numbers(text: str) -> tuple[int, int]:
    found = re.search(r"([0-9]{1,4})\.([0-9]{1,4})", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
