"""Output to standard output (data) and to standard error (narration)."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.gates.text import visible, visible_json
from lab.tables import Table

FEWEST_COLUMNS, MOST_COLUMNS = 40, 1000


def out(text: str = "") -> None:
    """Print lines of data."""
    print(visible(text, lines=True), flush=True)


def err(text: str) -> None:
    """Print lines of narration."""
    print(visible(text, lines=True), file=sys.stderr, flush=True)


def out_json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    out(visible_json(msgspec.json.format(_encoded(value), indent=2).decode()))


def out_json_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    out(visible_json(_encoded(value).decode()))


def _encoded(value: Any) -> bytes:
    """Encode a value as JSON.

    File names may contain bytes that are not valid UTF-8, which JSON cannot represent: they are escaped as on a
    terminal.
    """
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
    """A listing as text. ``right``: headings over numbers."""
    return Table.listing(headings, rows, right=right).as_text()


def fitted(shown: Table) -> str:
    """A table as text that fits the terminal; files and pipes have no width."""
    is_shown = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shown.as_text(shutil.get_terminal_size().columns if is_shown else None)


def pairs(values: Mapping[str, object]) -> str:
    """``name  value`` lines, aligned."""
    width = max((len(name) for name in values), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}".rstrip() for name, value in values.items())


def use_width() -> None:
    """Limit the width for rich to values at which it can print, and does not use gigabytes of memory.

    With fewer columns rich takes minutes; a terminal that reports 0 has an unknown size.
    """
    for name in ("COLUMNS", "LINES"):
        typed = os.environ.pop(name, "")
        if re.fullmatch("[0-9]{1,4}", typed) and FEWEST_COLUMNS <= int(typed) <= MOST_COLUMNS:
            os.environ[name] = typed
    columns = shutil.get_terminal_size().columns
    if not FEWEST_COLUMNS <= columns <= MOST_COLUMNS:
        os.environ["COLUMNS"] = str(min(max(columns, FEWEST_COLUMNS), MOST_COLUMNS))
