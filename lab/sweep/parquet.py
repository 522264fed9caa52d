"""A sweep's rows as a Parquet file, for whoever goes on with them in DuckDB, pandas or R. Needs duckdb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.errors import RequirementMissing, ResultError
from lab.gates.text import visible
from lab.host.files import make_folder, new_file, storage_error
from lab.sweep.rows import CellRow, SweepResult

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
"""Column -> its type in DuckDB, in the order of the file: the sweep's id, then the fields of ``CellRow``."""
NULLABLE = ("chunk_bytes", "mean_seconds", "p99_seconds", "predicted_iops")
"""Columns in which NULL has a meaning of its own. A figure that is none (NaN, infinite) is NULL in any column."""


def write_parquet(result: SweepResult, path: Path) -> None:
    """Every row, also those that a report leaves out. ``path`` is the whole file or, after an error, as it was.

    Raises RequirementMissing without duckdb, ResultError where the file cannot be written.
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
        hint = "see whether its folder can be written to, and has room"
        raise ResultError(f"'{path}' cannot be written: {error}", hint=hint) from None
    except OSError as error:
        raise storage_error(f"'{path}' cannot be written", error) from error


def _value(name: str) -> str:
    """A column of the file. As an expression, since of a plain column without NULL the file would say it has none."""
    kind = COLUMNS[name]
    if kind == _NUMBER or name in NULLABLE:
        return f"CAST(CASE WHEN isfinite({name}) THEN {name} END AS {kind}) AS {name}"
    return name


def _batch(result: SweepResult) -> dict[str, Any]:
    """Rows as columns: by the row, thousands of inserts would take a minute. What may be NULL is NaN meanwhile."""
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
