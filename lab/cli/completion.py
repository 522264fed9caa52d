"""``raidlab completion``: a completion script for a shell."""

from __future__ import annotations

from typing import Literal

from lab.cli.app import make_app
from lab.cli.output import out


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a completion script, such as for ``source <(raidlab completion bash)``."""
    out(make_app().generate_completion(shell=shell).rstrip())
