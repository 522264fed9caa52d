"""``raidlab report`` of a sweep: its page, its rows as Parquet or CSV, or its tables."""

from __future__ import annotations

from pathlib import Path

import msgspec

from lab.errors import ResultError, SpecError
from lab.host.files import write_file
from lab.machine import Host
from lab.report.table import as_csv
from lab.results.store import ResultStore
from lab.sweep.rows import CellRow, SweepResult
from lab.sweep.store import SweepFolder, SweepStore

PREFIX = "sweep:"
_KINDS = {".html": "html", ".htm": "html", ".parquet": "parquet", ".csv": "csv", ".md": "markdown", ".txt": "text"}


def report_sweep(name: str, kind: str, output: Path | None, title: str, host: Host) -> str | None:
    """Write what ``raidlab report`` asks for. What is to be printed; None: the name is no sweep's.

    ``kind``: of the document, empty as the file's ending says. Raises SpecError, ResultError.
    """
    folder = _found(name, host)
    if folder is None:
        return None
    ending = output.suffix.lower() if output else ""
    if not kind and ending and ending not in _KINDS:
        raise SpecError(f"'{output}': a sweep cannot be a {ending} file", hint=f"use {', '.join(_KINDS)}")
    kind = kind or _KINDS.get(ending, "text")
    result = folder.result()
    if title:
        result = msgspec.structs.replace(result, title=title)
    if kind in ("html", "parquet"):
        if output is None:
            raise SpecError(f"a sweep's {kind} is a file", hint=f"add --output sweep.{kind}")
        return _written(result, kind, output)
    text = _csv(result) if kind == "csv" else _tables(result, is_markdown=kind == "markdown")
    if output is None:
        return text.rstrip("\n")
    write_file(output, text.encode())
    return f"{output}: {_count(result)}"


def _found(name: str, host: Host) -> SweepFolder | None:
    store = SweepStore(host)
    if name.startswith(PREFIX):
        return store.find(name.removeprefix(PREFIX))
    ids = store.ids()
    if name in ids:
        return store.find(name)
    is_result = any(each.startswith(name) for each in ResultStore(host.state.results).ids())
    return store.find(name) if name and not is_result and any(each.startswith(name) for each in ids) else None


def _written(result: SweepResult, kind: str, output: Path) -> str:
    if not output.parent.is_dir():
        raise ResultError(f"there is no folder '{output.parent}'", hint="make it first")
    if kind == "parquet":
        from lab.sweep.parquet import write_parquet

        write_parquet(result, output)
    else:
        from lab.sweep.page import sweep_page

        write_file(output, sweep_page(result).encode())
    return f"{output}: {_count(result)}, {output.stat().st_size / 1e6:.1f} MB"


def _count(result: SweepResult) -> str:
    cells = len({row.cell for row in result.rows})
    return f"{cells:,} of {result.planned:,} cells"


def _csv(result: SweepResult) -> str:
    names = CellRow.__struct_fields__
    return as_csv(names, [[getattr(row, name) for name in names] for row in result.rows])


def _tables(result: SweepResult, *, is_markdown: bool) -> str:
    from lab.sweep.tables import summary_tables

    tables = summary_tables(result)
    return "\n\n".join(table.as_markdown() if is_markdown else table.as_text() for table in tables) + "\n"
