"""The doctor's report: printed by the command line, and published as JSON (docs/doctor.schema.json)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from lab.errors import ExitCode

SCHEMA_VERSION = 2


class Outcome(StrEnum):
    """How a check ended."""

    OK = "ok"
    MISSING = "missing"
    LIMITED = "limited"
    """Present, but slow, scarce or unknown in part."""


class Subject(StrEnum):
    """What was looked at."""

    COMPUTER = "computer"
    MACHINE = "machine"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked for."""

    name: str
    """Stable name for programs, such as ``program-mdadm`` or ``kvm``."""
    title: str
    """Title for users, such as ``mdadm`` or ``hardware virtualisation (KVM)``."""
    outcome: Outcome
    detail: str
    """Result of the check as text."""
    fix: str = ""
    """The command or action that fixes it; empty if nothing is missing."""
    packages: tuple[str, ...] = ()
    """Missing packages of this distribution."""
    required_for: tuple[str, ...] = ()
    """Targets that do not work without it."""
    useful_for: tuple[str, ...] = ()
    """Other functions that are limited without it, as text."""

    def blocks(self, target: str) -> bool:
        """Whether its absence keeps this target from working."""
        return self.outcome is Outcome.MISSING and target in self.required_for


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """All checks of one computer or machine, with the verdict for one target."""

    schema_version: int = SCHEMA_VERSION
    subject: Subject
    name: str
    """``this computer``, or the machine's target."""
    target: str
    """The target that the verdict is about: ``uml:``, ``local:``, ``ssh:`` or ``vagrant:``."""
    is_ready: bool
    """No requirement of the target is missing."""
    install_command: str
    """One command for all missing packages; empty if none is missing."""
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> ExitCode:
        """0, or 3 if a requirement of the target is missing."""
        return ExitCode.DONE if self.is_ready else ExitCode.MISSING

    @property
    def missing(self) -> tuple[Check, ...]:
        """Failed checks: first those that the target requires, then the rest."""
        found = [check for check in self.checks if check.outcome is Outcome.MISSING]
        return tuple(sorted(found, key=lambda check: not check.blocks(self.target)))

    def ready_targets(self) -> tuple[str, ...]:
        """The targets for which nothing is missing, in the order of the checks."""
        named = dict.fromkeys(target for check in self.checks for target in check.required_for)
        return tuple(target for target in named if not any(check.blocks(target) for check in self.checks))


def report_schema() -> dict[str, Any]:
    """The JSON schema of a report (draft 2020-12), as published in docs/doctor.schema.json."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "raidlab doctor --json",
        **msgspec.json.schema(DoctorReport),
    }
    # The form that the file decodes to: defaults of fields are lists, not tuples.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
    return plain
