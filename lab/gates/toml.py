"""TOML from outside, parsed by tomllib, which itself sets no bounds.

The guarantee: any file is read or rejected in a fraction of a second. tomllib takes quadratic time in the dots of a
key, raises RecursionError for nested brackets, and int() raises a ValueError of its own from 4,300 digits on. The
number of entries in the file is bounded too, so that its consumers can process them all.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from lab.errors import SpecError
from lab.gates.files import MOST_TOML_BYTES
from lab.gates.text import shortened
from lab.units import human_bytes

MOST_DEPTH = 32
MOST_ENTRIES = 1000
"""Of one table or list."""
_LONGEST_WORD = 256
# Strings and comments, as TOML 1.0 delimits them; an unterminated one extends to the end of its line, or of the text:
# every alternative matches once it has begun, so no text is scanned twice.
_UNSTRUCTURED = re.compile(
    r'"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*(?:"{3,5}|\\?\Z)'
    r"|'{3}(?:[^']|'{1,2}(?!'))*(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*(?:"|\\?(?=\n)|\\?\Z)'
    r"|'[^'\n]*(?:'|(?=\n)|\Z)"
    r"|\#[^\n]*",
    re.DOTALL,
)
_BETWEEN_WORDS = re.compile(r"[=,\[\]{}\n]")


def parse_toml(text: str, *, source: str = "TOML text") -> dict[str, Any]:
    """The tables and values of ``text``; ``source`` names it in errors.

    Raises SpecError for invalid TOML (with the line), and for any value beyond the bounds above.
    """
    if len(text) > MOST_TOML_BYTES:
        raise _refused(source, f"is larger than {human_bytes(MOST_TOML_BYTES)}", "check that it is this file")
    _require_shallow(_UNSTRUCTURED.sub('""', text), source)
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(source, f"is not TOML: {shortened(str(error), 200)}", "fix the line named above") from None
    _require_few(tree, source)
    return tree


def _require_shallow(structure: str, source: str) -> None:
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", structure):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_DEPTH:
            raise _too_deep(source)
    for word in _BETWEEN_WORDS.split(structure):
        if word.count(".") > MOST_DEPTH:
            raise _too_deep(source)
        if len(word.strip()) > _LONGEST_WORD:
            told = f"has a word of {len(word.strip()):,} characters: {shortened(word.strip())}"
            raise _refused(source, told, f"write numbers and keys of at most {_LONGEST_WORD} characters")


def _require_few(tree: dict[str, Any], source: str) -> None:
    level: list[Any] = [tree]
    for _ in range(MOST_DEPTH + 1):
        below: list[Any] = []
        for node in level:
            if len(node) > MOST_ENTRIES:
                some = ", ".join(shortened(str(each)) for each in list(node)[:3])
                told = f"has a table or list of {len(node):,} entries: {some} and so on"
                raise _refused(source, told, f"write at most {MOST_ENTRIES:,}")
            inner = node.values() if isinstance(node, dict) else node
            below += [each for each in inner if isinstance(each, dict | list)]
        level = below
    if level:
        raise _too_deep(source)


def _too_deep(source: str) -> SpecError:
    return _refused(
        source, f"nests tables or lists more than {MOST_DEPTH} deep", "write fewer brackets, or dots in keys"
    )


def _refused(source: str, told: str, hint: str) -> SpecError:
    return SpecError(f"'{shortened(source, 200)}' {told}", hint=hint)
