"""The command that runs the scripts of findings, as a plugin of raidlab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.context import Command
from lab.plugins import Plugin

if TYPE_CHECKING:
    from lab.cli.context import Loaded


def _findings() -> Loaded:
    from lab.findings.command import app

    return app


PLUGIN = Plugin((Command("findings", _findings, "Reproduce findings on several kernels and versions of mdadm."),))
