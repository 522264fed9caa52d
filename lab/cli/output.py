"""What goes to standard output (data) and to standard error (narration)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.gates.text import visible, visible_json


def out(text: str = "") -> None:
    """Lines of data."""
    print(visible(text, lines=True), flush=True)


def err(text: str) -> None:
    """Lines of narration."""
    print(visible(text, lines=True), file=sys.stderr, flush=True)


def out_json(value: Any) -> None:
    """A value as JSON, laid out for people too."""
    import msgspec

    out(visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def out_json_line(value: Any) -> None:
    """A value as one line of JSON."""
    import msgspec

    out(visible_json(msgspec.json.encode(value).decode()))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> str:
    """Columns aligned by spaces: reads well on a terminal, and tools can cut it. Headings in ``right`` align right."""
    cells = [list(headings), *([visible(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    to_right = [heading in set(right) for heading in headings]
    lines = []
    for row in cells:
        padded = (
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, to_right, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def pairs(values: Mapping[str, object]) -> str:
    """``name  value`` lines, aligned."""
    width = max((len(name) for name in values), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}".rstrip() for name, value in values.items())


def close_broken_stdout() -> None:
    """The reader of standard output is gone: what is still buffered must not make noise at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
