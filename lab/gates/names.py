"""Names from outside that become part of a path, of a command or of a device's name.

The promise: a name never leads out of its folder, hides in it, is taken for an option, or is too long for a file
system.
"""

from __future__ import annotations

import re

from lab.errors import LabError, SpecError
from lab.gates.text import shortened

MOST_CHARACTERS = 128
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def is_name(text: str) -> bool:
    """Letters, digits, '-', '_' and '.', the first a letter, a digit or '_', 128 at most."""
    return len(text) <= MOST_CHARACTERS and _NAME.fullmatch(text) is not None


def checked_name(text: str, what: str, *, error: type[LabError] = SpecError, hint: str = "") -> str:
    """``text``, if it can be a name. Raises ``error``; ``what`` says whose name it is, such as ``disk``."""
    if is_name(text):
        return text
    rule = f"use at most {MOST_CHARACTERS} letters, digits, '-', '_' and '.', and begin with a letter or a digit"
    raise error(f"'{shortened(text)}' cannot be the name of a {what}", hint=hint or rule)
