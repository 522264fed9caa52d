"""Tests of the oracle itself: bugs that are planted in it, and must be found.

Each is a change of the program that plays histories (oracle_bugs.toml). An accusing one shows as a finding of a
campaign on a kernel that has no bug; a blind one lets known damage pass (oracle_controls.py).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from lab.errors import LabError
from lab.faults.program import CONTROLS
from lab.gates.numbers import FormatVersion
from lab.machine.guest_program import Change, program_files
from lab.tomlfile import read_toml, unknown_word


class OracleBug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of them: ``find`` is replaced by ``replace``."""

    name: str
    title: str
    found_by: Literal["campaign", "controls"]
    find: str
    replace: str

    @property
    def change(self) -> Change:
        """Makes the program with the bug. Raises LabError unless the text is in the program once."""
        count = sum(text.count(self.find) for text in program_files(CONTROLS).texts.values())
        if count != 1:
            raise LabError(
                f"the text of oracle bug '{self.name}' is {count} times in the program",
                hint="correct it in oracle_bugs.toml: the program has changed",
            )
        return lambda text: text.replace(self.find, self.replace)


class _OracleBugs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    bug: tuple[OracleBug, ...]


@cache
def oracle_bugs() -> tuple[OracleBug, ...]:
    """All of them."""
    return read_toml(Path(__file__).with_name("oracle_bugs.toml"), _OracleBugs).bug


def find_oracle_bug(name: str) -> OracleBug:
    """One by its name. Raises SpecError with the nearest."""
    known = {bug.name: bug for bug in oracle_bugs()}
    if name not in known:
        raise unknown_word("bug of the oracle", name, known)
    return known[name]
