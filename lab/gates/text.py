"""Text from outside that is shown: on a terminal, in Markdown, in a table for a spreadsheet.

The promise: text never does anything where it is shown. It moves no cursor, forges no line, runs no script, is no
formula.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable

from lab.errors import SpecError

_MARKDOWN = re.compile(r"([\\`*_|~]|\](?=[(\[:])|^[#+=-](?=[#+=-]*(?: |$)))")
"""Emphasis, code, borders of cells; the end of what a link is on; marks of headings, lists and rules."""
_FORMULA = "=+-@\t\r"
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?")
_UNSEEN_IN_JSON = re.compile("[^\x00-\x7e]|\x7f")


def visible(text: str, *, lines: bool = False) -> str:
    r"""``text`` with all that is not seen written out, such as ``\x1b``, in one line.

    That is control characters (C0, C1), marks that turn the direction of writing, and bytes that were no UTF-8.
    ``lines`` lets line ends and tabulators stand.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept or _is_seen(c) else _escape(c) for c in text)


def require_utf8(words: Iterable[str]) -> None:
    """Raises SpecError for a word of the command line that is no UTF-8: no message, no JSON and no machine takes it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            told = shortened(visible(word))
            raise SpecError(f"'{told}' is not UTF-8", hint="rename the file, or write it in UTF-8") from None


def shortened(text: str, most: int = 40) -> str:
    """So much of a text that somebody wrote as an error message can bear."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def visible_json(text: str) -> str:
    r"""JSON as it was, with what a terminal would act on as ``\uXXXX``: it means the same."""
    if text.isprintable():
        return text
    return _UNSEEN_IN_JSON.sub(lambda found: found[0] if _is_seen(found[0]) else json.dumps(found[0])[1:-1], text)


def markdown(text: str) -> str:
    """One line of ``text`` as Markdown that shows just that: no HTML, no link, no cell border."""
    return _MARKDOWN.sub(r"\\\1", html.escape(visible(text), quote=False))


def spreadsheet(text: str) -> str:
    """A cell of CSV that no spreadsheet takes for a formula: an apostrophe goes before one (OWASP, CSV injection)."""
    shown = visible(text)
    is_formula = shown[:1] in _FORMULA and shown != "" and not _NUMBER.fullmatch(shown)
    return f"'{shown}" if is_formula else shown


def _is_seen(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
