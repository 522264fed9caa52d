"""Names from outside that become part of a path, of a command or of a device's name.

The promise: a name never leads out of its folder, hides in it, is taken for an option, or is too long for a file
system.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from lab.errors import LabError, SpecError
from lab.gates.text import shortened

MOST_CHARACTERS = 128
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")

Name = Annotated[str, msgspec.Meta(pattern=rf"^{_NAME.pattern}\Z", max_length=MOST_CHARACTERS)]
"""Of fields that are read from a file."""
NameOrNone = Annotated[str, msgspec.Meta(pattern=rf"^({_NAME.pattern})?\Z", max_length=MOST_CHARACTERS)]
"""Empty for none."""
Names = Annotated[str, msgspec.Meta(pattern=rf"^({_NAME.pattern}(,{_NAME.pattern})*)?\Z", max_length=1000)]
"""With commas between them, such as ``disk01,disk02``."""


def is_name(text: str, most: int = MOST_CHARACTERS) -> bool:
    """Letters, digits, '-', '_' and '.', the first a letter, a digit or '_', ``most`` at most."""
    return len(text) <= most and _NAME.fullmatch(text) is not None


def checked_name(
    text: str, what: str, *, most: int = MOST_CHARACTERS, error: type[LabError] = SpecError, hint: str = ""
) -> str:
    """``text``, if it can be a name. Raises ``error``; ``what`` says whose name it is, such as ``disk``."""
    if is_name(text, most):
        return text
    rule = f"use at most {most} letters, digits, '-', '_' and '.', and begin with a letter or a digit"
    raise error(f"'{shortened(text)}' cannot be the name of a {what}", hint=hint or rule)
