"""Check text from outside that is displayed, and names that become part of a path, a command or a device's name.

The gate guarantees that displayed text has no side effects, which means that it does not move the cursor, forge lines,
run scripts or act as a formula. A name never leads outside its folder, never denotes a hidden file there, and is
neither parsed as an option nor too long for a file system.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable

from lab.errors import LabError, SpecError

_MARKDOWN = re.compile(r"([\\`*_|~]|\](?=[(\[:])|^[#+=-](?=[#+=-]*(?: |$)))")
"""Matches emphasis, code, borders of cells, the end of link text, and markers of headings, lists and rules."""
_FORMULA = "=+-@\t\r"
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?")
_UNSEEN_IN_JSON = re.compile("[^\x00-\x7e]|\x7f")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return ``text`` on one line, with all invisible characters escaped, such as ``\x1b``.

    These are control characters (C0, C1), characters that change the text direction, and bytes that are not valid
    UTF-8. With ``lines``, line ends and tabs are kept.
    """
    if text.isprintable():
        return text
    allowed = "\n\t" if lines else ""
    return "".join(c if c in allowed or _is_seen(c) else _escape(c) for c in text)


def visible_name(name: str) -> str:
    r"""Return a file's name with invisible characters escaped and ``\`` doubled, so that no two names look the same."""
    return visible(name.replace("\\", "\\\\"))


def require_utf8(words: Iterable[str]) -> None:
    """Raise SpecError if an argument is not valid UTF-8, which messages, JSON and machines do not accept."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            text = shortened(visible(word))
            raise SpecError(f"'{text}' is not UTF-8", hint="rename the file, or type the argument in UTF-8") from None


def shortened(text: str, most: int = 40) -> str:
    """Shorten user-supplied text to a length suitable for an error message."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def visible_json(text: str) -> str:
    r"""Return the same JSON value with terminal control characters escaped as ``\uXXXX``."""
    if text.isprintable():
        return text
    return _UNSEEN_IN_JSON.sub(lambda found: found[0] if _is_seen(found[0]) else json.dumps(found[0])[1:-1], text)


def markdown(text: str) -> str:
    """Return ``text`` on one line, escaped so that Markdown shows it literally, without HTML, links or cell borders."""
    return _MARKDOWN.sub(r"\\\1", html.escape(visible(text), quote=False))


def spreadsheet(text: str) -> str:
    """Return a CSV cell. A formula gets a leading apostrophe, so that no spreadsheet evaluates it (OWASP)."""
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


MOST_NAME_CHARACTERS = 128
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def is_name(text: str, most: int = MOST_NAME_CHARACTERS) -> bool:
    """Whether ``text`` is 1 to ``most`` letters, digits, '-', '_' and '.', and does not begin with '-' or '.'."""
    return len(text) <= most and NAME.fullmatch(text) is not None


def checked_name(text: str, what: str, *, most: int = MOST_NAME_CHARACTERS, error: type[LabError] = SpecError) -> str:
    """Return ``text`` if it is a valid name for ``what`` (such as ``disk``), or raise ``error``."""
    if is_name(text, most):
        return text
    rule = f"use at most {most} letters, digits, '-', '_' and '.', and begin with a letter or a digit"
    raise error(f"'{shortened(text)}' cannot be the name of a {what}", hint=rule)
