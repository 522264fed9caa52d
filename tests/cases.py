"""Test cases in files: texts, each after a line that begins with ``==``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# Comments stand before the first such line or directly before another; elsewhere "## " belongs to a text.
BEGIN = re.compile(r"(?:^\n*(?:## .*\n+)+)?^== ?", re.MULTILINE)


def lines_of(path: Path, comment: str) -> list[str]:
    """The lines of a file, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(comment)]


def cases(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each text of a file, without its final newline, and the rest of the line that introduces it."""
    head, *found = BEGIN.split(path.read_text(encoding="utf-8"))
    assert found, path
    assert not head, path
    for case in found:
        says, _, body = case.partition("\n")
        yield body.removesuffix("\n"), says
