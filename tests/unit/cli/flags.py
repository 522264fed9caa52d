"""What a process that is started by another is asked."""

from __future__ import annotations

import sys


def flags(_: int) -> tuple[bool, bool, bool]:
    """Whether it is isolated, ignores the environment, and has no site of the user's."""
    return bool(sys.flags.isolated), bool(sys.flags.ignore_environment), bool(sys.flags.no_user_site)
