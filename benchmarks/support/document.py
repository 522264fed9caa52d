"""Tables that benchmarks keep in the project's documents, between two comments."""

from __future__ import annotations

import sys
from pathlib import Path


def rewrite(path: Path, mark: str, table: str) -> None:
    """Put the table between the two comments ``MARK: begin`` and ``MARK: end`` of a document; ends if it has none."""
    first, last = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    text = path.read_text(encoding="utf-8")
    head, begin, rest = text.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        sys.exit(f"{path} has no '{first}' and '{last}'")
    path.write_text(f"{head}{first}\n{table}\n{last}{tail}", encoding="utf-8")
