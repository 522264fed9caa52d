"""Suggestions for an invalid command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.gates.text import shortened
from lab.tomlfile import nearest

if TYPE_CHECKING:
    from cyclopts.exceptions import CycloptsError

_LISTS = ("list", "ls", "all", "show")
"""Words that users type after a command that lists by default."""
_LONGEST_WORD = 64


def usage_words(error: CycloptsError) -> tuple[str, str]:
    """The error in a command line, and a suggestion."""
    from cyclopts.exceptions import UnknownCommandError, UnusedCliTokensError

    chain = " ".join(error.command_chain or ())
    command = f"raidlab {chain}".rstrip()
    see = f"'{command} --help' shows what can be written"
    if not (error.unused_tokens and isinstance(error, UnknownCommandError | UnusedCliTokensError)):
        return str(error).strip(), see
    word = shortened(error.unused_tokens[0], _LONGEST_WORD)
    known = _commands_of(error)
    near = nearest(word, known)
    if near:
        return f"there is no command '{command} {word}'", f"did you mean '{command} {near}'? {see}"
    if isinstance(error, UnknownCommandError):
        return f"there is no command '{command} {word}'", f"known: {', '.join(known)}; {see}"
    if word in _LISTS:
        return f"{chain} needs no {word}", f"write: {command}"
    words = ", ".join(f"'{shortened(each, _LONGEST_WORD)}'" for each in error.unused_tokens)
    return f"'{command}' takes no {words}", f"leave that out; {see}"


def _commands_of(error: CycloptsError) -> list[str]:
    """The sub-commands of the intended command."""
    names = error.app if error.app is not None else ()
    return sorted(name for name in names if not name.startswith("-"))
