"""``raidlab report`` of a sweep: its page, its rows as Parquet or CSV, or its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from lab.errors import ResultError, SpecError
from lab.gates.text import visible_json
from lab.host.files import write_file
from lab.machine import Host
from lab.results.store import ResultStore
from lab.store.runs import LATEST
from lab.sweep.rows import CellRow, SweepResult
from lab.sweep.store import SweepFolder, SweepStore
from lab.tables import as_csv
from lab.units import counted

PREFIX = "sweep:"
_KINDS = {".html": "html", ".htm": "html", ".parquet": "parquet", ".csv": "csv", ".md": "markdown", ".txt": "text"}


def report_sweep(
    names: Sequence[str], kind: str, output: Path | None, title: str, host: Host, *, is_alone: bool = True
) -> str | None:
    """Write what ``raidlab report`` asks for. What is to be printed; None: no name is a sweep's.

    ``kind``: of the document, empty as the file's ending says; ``json`` is all that is known of the sweep, with its
    rows. Raises SpecError, ResultError.
    """
    folders = [found for name in names if (found := _found(name, host))]
    ending = output.suffix.lower() if output else ""
    if not folders:
        if ending == ".parquet" and not kind:
            raise _not_a_sweep(names, host)
        return None
    if len(names) > 1 or not is_alone:
        raise SpecError("a report is of one sweep, with nothing beside it", hint=f"raidlab report {folders[0].id}")
    if output and not output.parent.is_dir():
        raise ResultError(f"there is no folder '{output.parent}'", hint="make it first")
    if not kind and ending and ending not in _KINDS:
        raise SpecError(f"'{output}': a sweep cannot be a {ending} file", hint=f"use {', '.join(_KINDS)}")
    kind = kind or _KINDS.get(ending, "text")
    result = folders[0].result()
    if title:
        result = msgspec.structs.replace(result, title=title)
    if kind in ("html", "parquet"):
        if output is None:
            raise SpecError(f"a sweep's {kind} is a file", hint=f"add --output sweep.{kind}")
        return _written(result, kind, output)
    match kind:
        case "csv":
            text = _csv(result)
        case "json":
            text = visible_json(msgspec.json.format(msgspec.json.encode(result), indent=2).decode())
        case _:
            from lab.sweep.tables import summary_text

            is_running = folders[0].is_running
            text = f"{summary_text(result, is_markdown=kind == 'markdown', is_running=is_running)}\n"
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
    is_sweep = name and not _is_result(name, host) and any(each.startswith(name) for each in ids)
    return store.find(name) if is_sweep else None


def _is_result(name: str, host: Host) -> bool:
    return any(each.startswith(name) for each in ResultStore(host.state.results).ids())


def _not_a_sweep(names: Sequence[str], host: Host) -> SpecError:
    """Of what is to be a .parquet file; without a name the report would be of the latest result."""
    name = names[0] if names else LATEST
    is_result = name == LATEST or _is_result(name, host)
    told = f"in a report '{name}' is a result, not a sweep" if is_result else f"there is no sweep '{name}'"
    return SpecError(
        f"{told}, and only a sweep can be a .parquet file",
        hint="'raidlab sweep' lists sweeps and their ids; a result can be a .csv file",
    )


def _written(result: SweepResult, kind: str, output: Path) -> str:
    if kind == "parquet":
        from lab.sweep.parquet import write_parquet

        write_parquet(result, output)
    else:
        from lab.sweep.page import sweep_page

        write_file(output, sweep_page(result).encode())
    return f"{output}: {_count(result)}, {output.stat().st_size / 1e6:.1f} MB"


def _count(result: SweepResult) -> str:
    cells = len({row.cell for row in result.rows})
    return f"{cells:,} of {counted(result.planned, 'cell')}"


def _csv(result: SweepResult) -> str:
    names = CellRow.__struct_fields__
    return as_csv(names, [[getattr(row, name) for name in names] for row in result.rows])
