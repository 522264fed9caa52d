"""``raidlab report`` for a sweep: its page, its rows as Parquet or CSV, or its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import RequirementMissing, ResultError, SpecError
from lab.gates.text import visible, visible_json
from lab.host.files import make_folder, new_file, storage_error, write_file
from lab.machine import Host
from lab.results.store import ResultStore
from lab.store import LATEST
from lab.sweep.grid import CellRow, SweepResult
from lab.sweep.store import SweepFolder, SweepStore
from lab.tables import as_csv
from lab.units import counted

_TEXT, _NUMBER, _WHOLE, _TRUTH = "VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN"
COLUMNS = {
    "sweep": _TEXT,
    "cell": _TEXT,
    "digest": _TEXT,
    "level": _TEXT,
    "members": _WHOLE,
    "chunk_bytes": _WHOLE,
    "drive": _TEXT,
    "kernel": _TEXT,
    "workload": _TEXT,
    "direction": _TEXT,
    "block_bytes": _WHOLE,
    "queue_depth": _WHOLE,
    "jobs": _WHOLE,
    "repeats": _WHOLE,
    "iops": _NUMBER,
    "iops_low": _NUMBER,
    "iops_high": _NUMBER,
    "bytes_per_second": _NUMBER,
    "mean_seconds": _NUMBER,
    "p99_seconds": _NUMBER,
    "predicted_iops": _NUMBER,
    "is_virtual_time": _TRUTH,
    "computer": _TEXT,
    "measured_utc": _TEXT,
    "seconds": _NUMBER,
    "stamps": _TEXT,
}
"""Column -> DuckDB type, in the order of the file: the id of the sweep, then the fields of ``CellRow``."""
NULLABLE = ("chunk_bytes", "mean_seconds", "p99_seconds", "predicted_iops")
"""Columns with meaningful NULLs. In any column, a figure that is not finite becomes NULL."""


def write_parquet(result: SweepResult, path: Path) -> None:
    """Write all rows, including those that reports leave out, to a Parquet file; after an error, ``path`` is unchanged.

    Raises RequirementMissing without duckdb, ResultError if the file cannot be written.
    """
    try:
        import duckdb
    except ImportError:
        raise RequirementMissing(
            "a Parquet file needs duckdb", hint="install it: pip install 'raidlab[classroom]'"
        ) from None
    make_folder(path.parent)
    try:
        with new_file(path) as part, duckdb.connect() as database:
            columns = ", ".join(f"{name} {_NUMBER if name in NULLABLE else kind}" for name, kind in COLUMNS.items())
            database.execute(f"CREATE TABLE cells ({columns})")
            if result.rows:
                database.register("batch", _batch(result))
                database.execute(f"INSERT INTO cells SELECT {', '.join(COLUMNS)} FROM batch")
            quoted = str(part).replace("'", "''")
            values = ", ".join(map(_value, COLUMNS))
            options = "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false"
            database.execute(f"COPY (SELECT {values} FROM cells) TO '{quoted}' ({options})")
    except duckdb.Error as error:
        hint = "make sure that its folder is writable and has room"
        raise ResultError(f"'{path}' cannot be written: {error}", hint=hint) from None
    except OSError as error:
        raise storage_error(f"'{path}' cannot be written", error) from error


def _value(name: str) -> str:
    """The SQL expression of a column. For a bare column without NULL, DuckDB would declare it as not nullable."""
    kind = COLUMNS[name]
    if kind == _NUMBER or name in NULLABLE:
        return f"CAST(CASE WHEN isfinite({name}) THEN {name} END AS {kind}) AS {name}"
    return name


def _batch(result: SweepResult) -> dict[str, Any]:
    """The rows as arrays, one per column, with NaN for None; thousands of single inserts would take a minute."""
    import numpy as np

    kinds: dict[str, Any] = {_NUMBER: np.float64, _WHOLE: np.int64, _TRUTH: np.bool_, _TEXT: object}
    return {
        name: np.array(
            [_cell(result, row, name) for row in result.rows],
            dtype=np.float64 if name in NULLABLE else kinds[kind],
        )
        for name, kind in COLUMNS.items()
    }


def _cell(result: SweepResult, row: CellRow, name: str) -> object:
    found = result.id if name == "sweep" else getattr(row, name)
    if found is None:
        return float("nan")
    return visible(found, lines=True) if isinstance(found, str) else found


PREFIX = "sweep:"
_KINDS = {".html": "html", ".htm": "html", ".parquet": "parquet", ".csv": "csv", ".md": "markdown", ".txt": "text"}


def report_sweep(
    names: Sequence[str], kind: str, output: Path | None, title: str, host: Host, *, is_alone: bool = True
) -> str | None:
    """Write the report that ``raidlab report`` requests. Returns the text to print, or None if no name is a sweep.

    ``kind`` is the format, or empty to derive it from the suffix of ``output``; ``json`` is the complete SweepResult.
    Raises SpecError, ResultError.
    """
    folders = [found for name in names if (found := _found(name, host))]
    ending = output.suffix.lower() if output else ""
    if not folders:
        if ending == ".parquet" and not kind:
            raise _not_a_sweep(names, host)
        return None
    if len(names) > 1 or not is_alone:
        raise SpecError("a report covers one sweep and nothing else", hint=f"raidlab report {folders[0].id}")
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
            from lab.sweep.grid import summary_text

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
    """The error for .parquet output without a sweep; without a name, the report would be of the latest result."""
    name = names[0] if names else LATEST
    is_result = name == LATEST or _is_result(name, host)
    told = f"in a report '{name}' is a result, not a sweep" if is_result else f"there is no sweep '{name}'"
    return SpecError(
        f"{told}, and only a sweep can be a .parquet file",
        hint="'raidlab sweep' lists sweeps and their ids; a result can be a .csv file",
    )


def _written(result: SweepResult, kind: str, output: Path) -> str:
    if kind == "parquet":
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
