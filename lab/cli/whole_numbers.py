"""Whole numbers as words of the command line."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import Token


def whole_number(_: object, tokens: Sequence[Token]) -> int:
    """The number that is meant; 1.5 is none, where cyclopts by itself would round it.

    Raises ValueError, which cyclopts turns into an error that names the option.
    """
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None
