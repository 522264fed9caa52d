"""Which mdadm something needs, where it cannot be done with every one that raidlab works with."""

from __future__ import annotations

import re

import msgspec

from lab.errors import VersionTooOld
from lab.machine import Machine
from lab.machine.target import target_words


class NeededMdadm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The oldest mdadm with which it can be done, on kernels from ``from_kernel`` on (empty: on all)."""

    mdadm: str
    from_kernel: str = ""
    why: str
    """One sentence: what goes wrong with an older one."""

    @property
    def sentence(self) -> str:
        """``mdadm 4.5 or later on Linux 6.8 and later``."""
        return f"mdadm {self.mdadm} or later{f' on Linux {self.from_kernel} and later' if self.from_kernel else ''}"


def require_mdadm(machine: Machine, needed: NeededMdadm | None, what: str) -> None:
    """Raises VersionTooOld if the machine's mdadm cannot do ``what`` on its kernel."""
    if needed is None or _numbers(machine.facts.kernel_release) < _numbers(needed.from_kernel):
        return
    told = machine.run(("mdadm", "--version"), check=False)
    there = _numbers(told.stdout or told.stderr)
    if there < _numbers(needed.mdadm):
        raise VersionTooOld(
            f"{what} needs {needed.sentence}, and {target_words(machine.facts.target)} has mdadm "
            f"{there[0]}.{there[1]} on Linux {machine.facts.kernel_release}: {needed.why}",
            hint="choose another machine with --on: 'raidlab doctor --machine' tells what it has",
        )


def _numbers(text: str) -> tuple[int, int]:
    found = re.search(r"([0-9]{1,4})\.([0-9]{1,4})", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
