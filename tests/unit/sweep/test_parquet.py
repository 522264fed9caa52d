"""The Parquet file: read back by DuckDB, as documented, whole or not there."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest

from lab.errors import RequirementMissing, ResultError
from lab.sweep.grid import CellRow, SweepResult
from lab.sweep.report import COLUMNS, NULLABLE, write_parquet
from tests.unit.sweep.made_sweeps import row, sweep

PAGE = Path(__file__).parents[3] / "docs" / "sweeps.md"


def read_back(result: SweepResult, folder: Path) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Columns with their types, and the rows."""
    import duckdb

    path = folder / "it's.parquet"
    write_parquet(result, path)
    assert list(folder.iterdir()) == [path]
    with duckdb.connect() as database:
        found = database.execute("SELECT * FROM read_parquet($file)", {"file": str(path)})
        types = {name: str(kind) for name, kind, *_ in found.description}
        return types, [dict(zip(types, values, strict=True)) for values in found.fetchall()]


def test_every_field_of_a_row_is_a_column() -> None:
    assert tuple(COLUMNS) == ("sweep", *CellRow.__struct_fields__)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rows = [
        row("raid1", 123.456, chunk_bytes=None, stamps="a\nb", predicted_iops=100.0),
        row("raid5", 1e6, computer="ünïcode", is_virtual_time=False, p99_seconds=0.25),
    ]
    types, found = read_back(sweep(rows), tmp_path)
    assert types == COLUMNS
    wanted = [{"sweep": "s1"} | {name: getattr(each, name) for name in CellRow.__struct_fields__} for each in rows]
    assert found == wanted


def test_a_sweep_without_rows_is_a_file_with_all_columns(tmp_path: Path) -> None:
    assert read_back(sweep([]), tmp_path) == (COLUMNS, [])


def test_which_columns_may_be_null_does_not_depend_on_the_rows(tmp_path: Path) -> None:
    """Otherwise files of two sweeps have two schemas, and readers refuse to join them."""
    import duckdb

    some_without = [row("raid1", chunk_bytes=None, mean_seconds=None), row(p99_seconds=1.0, predicted_iops=1.0)]
    all_with = [row(p99_seconds=1.0, predicted_iops=1.0)]
    found = []
    for place, rows in enumerate((some_without, all_with, [])):
        path = tmp_path / f"{place}.parquet"
        write_parquet(sweep(rows), path)
        with duckdb.connect() as database:
            schema = "SELECT name, type, repetition_type FROM parquet_schema($file)"
            found.append(database.execute(schema, {"file": str(path)}).fetchall())
    assert found[0] == found[1] == found[2]
    may_be_null = {name for name, _, repetition in found[0] if repetition == "OPTIONAL"}
    assert may_be_null == {name for name, kind in COLUMNS.items() if kind == "DOUBLE"} | set(NULLABLE)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_figure_is_never_a_number(bad: float, tmp_path: Path) -> None:
    _, (found,) = read_back(sweep([row(iops=1.0, p99_seconds=bad, iops_high=bad, seconds=bad)]), tmp_path)
    assert (found["p99_seconds"], found["iops_high"], found["seconds"], found["iops"]) == (None, None, None, 1.0)


def test_rows_of_zero_stay(tmp_path: Path) -> None:
    _, (found,) = read_back(sweep([row(iops=0.0)]), tmp_path)
    assert found["iops"] == 0.0


def test_text_that_is_no_utf8_is_written_out(tmp_path: Path) -> None:
    _, (found,) = read_back(sweep([row(computer="a\udcff\x1b[31m")]), tmp_path)
    assert found["computer"].isprintable()


def test_an_error_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cells.parquet"
    path.write_bytes(b"as it was")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lab.host.files.os.fsync", full)
    with pytest.raises(ResultError, match="No space left"):
        write_parquet(sweep([row()]), path)
    assert [each.name for each in tmp_path.iterdir()] == ["cells.parquet"]
    assert path.read_bytes() == b"as it was"


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot be made"):
        write_parquet(sweep([row()]), tmp_path / "file" / "cells.parquet")


def test_without_duckdb_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(RequirementMissing) as caught:
        write_parquet(sweep([row()]), tmp_path / "cells.parquet")
    assert "pip install 'raidlab[classroom]'" in caught.value.hint


def test_other_readers_see_the_same(tmp_path: Path) -> None:
    write_parquet(sweep([row("raid1", chunk_bytes=None), row("raid5")]), tmp_path / "cells.parquet")
    frame = pandas.read_parquet(tmp_path / "cells.parquet")
    assert list(frame.columns) == list(COLUMNS)
    assert list(frame["iops"]) == [100.0, 100.0]
    assert list(frame["chunk_bytes"].isna()) == [True, False]


def test_the_columns_are_documented() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The Parquet file: columns")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert {name.strip("`"): kind.strip() for name, kind, _, _ in lines} == COLUMNS
    assert tuple(name.strip("`") for name, *_ in lines) == tuple(COLUMNS)
    assert tuple(name.strip("`") for name, _, null, _ in lines if null.strip() != "–") == NULLABLE
