"""The planted bugs of md: defects that campaigns must find, in a kernel of their own, each switched on while it runs.

What they are stands in planted.toml, the defects themselves in provision/kernel/planted; with none switched on that
kernel does what the one with virtual time does.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from lab.errors import ToolMissing
from lab.gates.numbers import FormatVersion
from lab.machine import Host, Target
from lab.machine.kernel_image import built_part, find_kernel
from lab.plans import Step, write_file_step
from lab.tomlfile import read_toml, unknown_word

PLANTED_FLAVOUR = "planted"
PLANTED_SWITCH = "/sys/module/md_mod/parameters/planted"
_FILE = Path(__file__).with_name("planted.toml")


class PlantedEffect(StrEnum):
    """How the oracle sees one of them: its verdicts on blocks, and the look at parity and copies on the members."""

    CORRUPT = "silently corrupt"
    LOST = "lost after acknowledgement"
    DIFFERENT = "parity or copies differ"


class PlantedNeed(StrEnum):
    """What a history must have, besides writes, to show one."""

    CRASH = "power cut"
    CACHE = "write cache that loses what it holds"
    DEGRADED = "a member less"
    DOUBLY_DEGRADED = "two members less"
    RE_ADD = "re-add of a member"
    SPARE = "another disk in place of a member"
    RESTART = "restart of the array"
    RESHAPE = "reshape"
    ABSENCE = "a drive that is gone for an instant"


class PlantedBug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of them. ``levels``, ``policies`` and ``moments`` are words of promises.toml."""

    number: Annotated[int, msgspec.Meta(ge=1, le=99)]
    """What the switch takes."""
    name: str
    title: str
    broken: str
    """What md does instead of what it should."""
    where: str
    """File of drivers/md and function."""
    promise: str
    source: str
    """Where that is promised."""
    levels: tuple[str, ...]
    policies: tuple[str, ...]
    moments: tuple[str, ...]
    needs: tuple[PlantedNeed, ...] = ()
    history: tuple[str, ...]
    """The shortest that shows it; the bug is on from the first step on, behind creating and filling the array."""
    effects: tuple[PlantedEffect, ...]

    @property
    def patch(self) -> str:
        """The name of its file in provision/kernel/planted."""
        return f"{self.number:02d}-{self.name}.patch"


class _PlantedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    bug: tuple[PlantedBug, ...]


@cache
def planted_bugs() -> tuple[PlantedBug, ...]:
    """All of them, by their numbers."""
    return tuple(sorted(read_toml(_FILE, _PlantedFile).bug, key=lambda bug: bug.number))


def find_planted_bug(word: str) -> PlantedBug:
    """One by its name or number. Raises SpecError with the nearest name."""
    for bug in planted_bugs():
        if word in (bug.name, str(bug.number)):
            return bug
    raise unknown_word("planted bug", word, [bug.name for bug in planted_bugs()])


def planting(bug: PlantedBug | None) -> Step:
    """Switch this one on, and any other off; None: all off."""
    why = f"From now on md has planted bug {bug.number}: {bug.title}." if bug else "From now on md has no planted bug."
    return write_file_step(PLANTED_SWITCH, str(bug.number if bug else 0), why)


def planted_kernel(host: Host) -> Path:
    """The kernel that has them. Raises ToolMissing with the command that builds it."""
    path = built_part(PLANTED_FLAVOUR) / "linux"
    try:
        return find_kernel(host.processes, host.files, virtual_time=True, chosen=str(path)).path
    except ToolMissing as error:
        reason = "the embedded kernel with planted bugs is not built, or not wholly"
        raise ToolMissing(reason, hint=f"remove {path.parent} if it is there, then: make planted-kernel") from error


def on_planted_kernel(target: Target, host: Host) -> Target:
    """The same machine on the kernel that has them, in virtual time. Raises ToolMissing where it is not built."""
    for key, value in (("time", "virtual"), ("kernel", str(planted_kernel(host)))):
        if target.options.get(key) != value:
            target = target.with_option(key, value)
    return target
