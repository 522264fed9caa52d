"""What goes to standard output (data) and to standard error (narration)."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.gates.text import visible, visible_json

FEWEST_COLUMNS, MOST_COLUMNS = 40, 1000


def out(text: str = "") -> None:
    """Lines of data."""
    print(visible(text, lines=True), flush=True)


def err(text: str) -> None:
    """Lines of narration."""
    print(visible(text, lines=True), file=sys.stderr, flush=True)


def out_json(value: Any) -> None:
    """A value as JSON, laid out for people too."""
    import msgspec

    out(visible_json(msgspec.json.format(_encoded(value), indent=2).decode()))


def out_json_line(value: Any) -> None:
    """A value as one line of JSON."""
    out(visible_json(_encoded(value).decode()))


def _encoded(value: Any) -> bytes:
    """Names of files may hold bytes that are no UTF-8, which JSON cannot: they are written out as on a terminal."""
    import msgspec

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_written_out(msgspec.to_builtins(value)))


def _written_out(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else visible(value, lines=True)
    if isinstance(value, dict):
        return {_written_out(name): _written_out(each) for name, each in value.items()}
    return [_written_out(each) for each in value] if isinstance(value, list | tuple) else value


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


def use_width() -> None:
    """Leave what renders (rich) no width in which nothing can be written, or which takes gigabytes to fill.

    Fewer columns than that take rich minutes; a terminal that says 0 is one of which nobody knows the size.
    """
    for name in ("COLUMNS", "LINES"):
        typed = os.environ.pop(name, "")
        if re.fullmatch("[0-9]{1,4}", typed) and FEWEST_COLUMNS <= int(typed) <= MOST_COLUMNS:
            os.environ[name] = typed
    columns = shutil.get_terminal_size().columns
    if not FEWEST_COLUMNS <= columns <= MOST_COLUMNS:
        os.environ["COLUMNS"] = str(min(max(columns, FEWEST_COLUMNS), MOST_COLUMNS))
