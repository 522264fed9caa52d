"""Numbers as command line arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cyclopts import Parameter, Token

from lab.errors import SpecError
from lab.gates.decoding import checked, real, whole


def number(kind: Any, **more: Any) -> Parameter:
    """Restrict an option's value to one of the types of ``lab.gates.decoding``.

    1.5 is not a whole number, but cyclopts by itself would round it.
    """
    is_whole = kind.__origin__ is int

    def convert(_: object, tokens: Sequence[Token]) -> float:
        text = tokens[0].value
        try:
            return checked(whole(text) if is_whole else real(text), kind, "number")
        except SpecError as error:
            raise ValueError(f"{error.message}; {error.hint}") from None

    return Parameter(converter=convert, **more)
