"""Scripts and jobs with the rules that they break, from files in ``data``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).with_name("data")


def lines_of(name: str, comment: str) -> list[str]:
    """The lines of a file, without its comments."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(comment)]


def cases(name: str) -> Iterator[tuple[str, set[str]]]:
    """Each text of a file, and the names in the line of ``==`` before it."""
    text = "\n".join(lines_of(name, "## "))
    for case in re.split("^==", text, flags=re.MULTILINE)[1:]:
        names, _, body = case.partition("\n")
        yield body, set(names.split())
