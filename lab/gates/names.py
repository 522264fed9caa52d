"""Names from outside that become part of a path, of a command or of a device's name.

The guarantee: a name never leads outside its folder, is hidden in it, is parsed as an option, or is too long for a file
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
"""For fields of files."""
NameOrNone = Annotated[str, msgspec.Meta(pattern=rf"^({_NAME.pattern})?\Z", max_length=MOST_CHARACTERS)]
"""Empty for none."""
Names = Annotated[str, msgspec.Meta(pattern=rf"^({_NAME.pattern}(,{_NAME.pattern})*)?\Z", max_length=1000)]
"""Names separated by commas, such as ``disk01,disk02``."""


def is_name(text: str, most: int = MOST_CHARACTERS) -> bool:
    """Letters, digits, '-', '_' and '.', the first one a letter, a digit or '_'; at most ``most`` characters."""
    return len(text) <= most and _NAME.fullmatch(text) is not None


def checked_name(
    text: str, what: str, *, most: int = MOST_CHARACTERS, error: type[LabError] = SpecError, hint: str = ""
) -> str:
    """``text``, if it is a valid name. Raises ``error``; ``what`` is the named object in messages, such as ``disk``."""
    if is_name(text, most):
        return text
    rule = f"use at most {most} letters, digits, '-', '_' and '.', and begin with a letter or a digit"
    raise error(f"'{shortened(text)}' cannot be the name of a {what}", hint=hint or rule)
