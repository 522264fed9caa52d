"""The command for running mdadm's test suite, as a plugin of raidlab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.context import Command
from lab.plugins import Plugin

if TYPE_CHECKING:
    from lab.cli.context import Loaded


def _md_tests() -> Loaded:
    from lab.md_tests.command import md_tests

    return md_tests


PLUGIN = Plugin((Command("md-tests", _md_tests, "Run mdadm's own test suite without risk to this computer."),))
