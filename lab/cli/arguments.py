"""Read the arguments of a command line, check flags and numbers, and add hints to errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cyclopts import CycloptsError, Parameter, Token
from cyclopts.exceptions import UnknownCommandError, UnusedCliTokensError

from lab.errors import SpecError
from lab.gates.decoding import checked, real, whole
from lab.gates.text import shortened
from lab.tomlfile import nearest


def flag(help_text: str, *names: str) -> Parameter:
    """Return the parameter of an option that takes no value and is off by default."""
    return Parameter(name=names or None, negative="", show_default=False, help=help_text)


def number(kind: Any, **more: Any) -> Parameter:
    """Restrict a value to a type of ``lab.gates.decoding``, because cyclopts would round 1.5 to a whole number."""
    is_whole = kind.__origin__ is int

    def convert(_: object, tokens: Sequence[Token]) -> float:
        text = tokens[0].value
        try:
            return checked(whole(text) if is_whole else real(text), kind, "number")
        except SpecError as error:
            raise ValueError(f"{error.message}; {error.hint}") from None

    return Parameter(converter=convert, **more)


_LISTS = ("list", "ls", "all", "show")
"""Words that users type after a command that lists by default, although no word is needed."""
_LONGEST_WORD = 64


def usage_words(error: CycloptsError) -> tuple[str, str]:
    """Describe the error in a command line, and suggest a correction."""
    chain = " ".join(error.command_chain or ())
    command = f"raidlab {chain}".rstrip()
    see = f"'{command} --help' shows its arguments and options"
    if not (error.unused_tokens and isinstance(error, UnknownCommandError | UnusedCliTokensError)):
        return str(error).strip(), see
    word = shortened(error.unused_tokens[0], _LONGEST_WORD)
    known = sorted(name for name in error.app or () if not name.startswith("-"))
    near = nearest(word, known)
    if near:
        return f"there is no command '{command} {word}'", f"did you mean '{command} {near}'? {see}"
    if isinstance(error, UnknownCommandError):
        return f"there is no command '{command} {word}'", f"known: {', '.join(known)}; {see}"
    if word in _LISTS:
        return f"'{command}' lists by default, so '{word}' is not needed", f"write: {command}"
    words = ", ".join(f"'{shortened(each, _LONGEST_WORD)}'" for each in error.unused_tokens)
    return f"'{command}' does not accept {words}", f"leave that out; {see}"
