"""``raidlab report`` of a sweep: what is printed, written and refused; the Parquet file, read back by DuckDB."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.errors import RequirementMissing, ResultError
from lab.machine import Host
from lab.sweep.cells import PlannedCell, SweepFolder, SweepStore, cell_store
from lab.sweep.grid import CellRow, FailedCell, SweepResult
from lab.sweep.report import COLUMNS, NULLABLE, write_parquet
from lab.sweep.schema import decode_sweep
from lab.sweep.service import SweepOutcome, SweepPlan, SweepRequest
from tests.unit.cli.conftest import Typed
from tests.unit.cli.conftest import typed as typed
from tests.unit.sweep.made_sweeps import cell_file, row, sweep
from tests.unit.sweep.test_schema import FILE, HERE

KEYS = tuple(letter * 64 for letter in "abc")
ALLOW = ("--allow", "too-short-for-latency")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("lab.sweep.service.facts", lambda *_, **__: HERE)


def begun(text: str = FILE, rows: tuple[CellRow, ...] = (), failed: tuple[FailedCell, ...] = ()) -> SweepFolder:
    """A sweep of three cells in the state folder of this test; each row is a cell of its own."""
    host = Host.real()
    for key, measured in zip(KEYS, rows, strict=False):
        cell_store(host).add(key, cell_file(key, msgspec.structs.replace(measured, cell=key)))
    cells = tuple(PlannedCell(key=key, label=f"cell {key[0]}") for key in KEYS)
    folder = SweepStore(host).begin(decode_sweep(text, "test"), text, cells, is_virtual_time=True)
    for cell in failed:
        folder.failures.append(cell)
    return folder


MEASURED = (row("raid1"), row("raid5", 200.0), row("raid5", 0.0, queue_depth=8))
FAILED = (FailedCell(cell=KEYS[0], label="cell a", message="it broke", console="\x9b31m \x1b[31m panic"),)


def test_json_is_the_sweeps_own_document_without_escape_sequences(typed: Typed) -> None:
    folder = begun(rows=MEASURED[:2], failed=(msgspec.structs.replace(FAILED[0], cell=KEYS[2]),))
    output = typed("report", folder.id, "--json").out
    assert not {"\x9b", "\x1b"} & set(output)
    found = msgspec.json.decode(output, type=SweepResult)
    assert (found.id, found.planned, len(found.rows)) == (folder.id, 3, 2)
    assert found.axes["level"] == ("raid1", "raid5")
    assert found.failed[0].console == FAILED[0].console
    printed = typed("report", folder.id, "--json", "--format", "csv").out
    assert printed.startswith("cell,digest,level"), "a form that is named is printed as it is"


@pytest.mark.parametrize(
    ("rows", "failed"), [((), ()), ((), FAILED), (MEASURED[:1], FAILED), (MEASURED[2:], ()), (MEASURED, FAILED)]
)
def test_whatever_was_measured_there_is_a_report_in_every_form(
    rows: tuple[CellRow, ...], failed: tuple[FailedCell, ...], tmp_path: Path, typed: Typed
) -> None:
    folder = begun(rows=rows, failed=failed)
    for ending in ("html", "parquet", "csv", "md", "txt"):
        path = tmp_path / f"sweep.{ending}"
        typed("report", folder.id, "-o", str(path))
        assert path.stat().st_size
    for words in ([], ["--json"], ["--format", "csv"], ["--format", "markdown"]):
        assert typed("report", folder.id, *words).out.strip()
    typed("sweep", folder.id)


def test_a_report_has_one_sweep_and_nothing_beside_it(tmp_path: Path, typed: Typed) -> None:
    first, second = begun(), begun()
    for words in ([first.id, second.id], [first.id, "latest"], [first.id, "--faults", "latest"]):
        refused = typed("report", *words, "-o", str(tmp_path / "a.csv"), status=2).err
        assert "covers one sweep and nothing else" in refused
    assert not list(tmp_path.glob("*.csv"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, typed: Typed) -> None:
    refused = typed("report", begun().id, "-o", str(tmp_path / "none/sweep.html"), status=1).err
    assert f"there is no folder '{tmp_path}/none'" in refused


def test_a_report_of_an_incomplete_sweep_starts_with_the_missing_cells(tmp_path: Path, typed: Typed) -> None:
    folder = begun(rows=MEASURED[:2])
    sentence = f"2 of 3 cells are measured; 'raidlab sweep {folder.id} --resume' measures the other"
    for words in (["sweep", folder.id], ["report", folder.id], ["report", folder.id, "--format", "markdown"]):
        assert typed(*words).out.startswith(f"{sentence}\n\n"), words
    with folder.open():
        for words in (["sweep", folder.id], ["report", folder.id]):
            assert typed(*words).out.startswith("2 of 3 cells are measured; the sweep is still running\n\n"), words
    typed("report", folder.id, "-o", str(tmp_path / "sweep.html"))
    assert "3 cells planned, 2 measured, 0 failed, 1 not yet measured" in (tmp_path / "sweep.html").read_text()
    begun(rows=MEASURED[:2])
    assert typed("sweep").out.count("2 of 3  interrupted") == 2
    assert json.loads(typed("sweep", "--json").out)["runs"][0]["progress"]["done"] == 2


@pytest.mark.parametrize("name", ["unknown", "latest", ""])
def test_only_a_sweep_can_be_written_as_a_parquet_file(name: str, tmp_path: Path, typed: Typed) -> None:
    begun()
    output = typed("report", *filter(None, [name]), "-o", str(tmp_path / "x.parquet"), status=2).err
    reason = "there is no sweep 'unknown'" if name == "unknown" else "'latest' is a result, not a sweep"
    assert f"{reason}, and only a sweep can be written as .parquet" in output
    assert "choose one of the sweeps that 'raidlab sweep' lists, or write the result as .csv" in output
    assert not list(tmp_path.glob("*.parquet"))


def test_resuming_without_an_earlier_sweep_starts_a_new_one_with_a_notice(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[SweepFolder | None] = []

    def measured(_plan: object, _request: object, folder: SweepFolder | None) -> SweepOutcome:
        resumed.append(folder)
        return SweepOutcome(folder or begun(), 0, 0, ())

    monkeypatch.setattr("lab.sweep.command.run_sweep", measured)
    path = tmp_path / "my.toml"

    def notices(text: str, *words: str) -> str:
        path.write_text(text)
        return typed("sweep", str(path), *words, "--on", "uml:?time=virtual", *ALLOW).err

    assert "there is no earlier sweep of this file, so this is a new one" in notices(FILE, "--resume")
    newest = SweepStore(Host.real()).ids()[0]
    assert "this is a new" not in notices(f"# a remark\n{FILE}", "--resume")
    changed = FILE.replace("[2, 4]", "[2, 3, 4]")
    assert changed != FILE
    expected = f"{newest} was begun with a different version of this file, so this is a new sweep"
    assert expected in notices(changed, "--resume")
    assert "this is a new" not in notices(changed)
    assert [folder and folder.id for folder in resumed] == [None, newest, None, None]


def test_a_sweep_is_resumed_in_its_own_time(tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[tuple[bool, str]] = []

    def measured(plan: SweepPlan, request: SweepRequest, folder: SweepFolder | None) -> SweepOutcome:
        folder = folder or SweepStore(Host.real()).begin(
            plan.sweep, plan.text, (), is_virtual_time=plan.is_virtual_time
        )
        resumed.append((plan.is_virtual_time, folder.id))
        return SweepOutcome(folder, 0, 0, ())

    monkeypatch.setattr("lab.sweep.command.run_sweep", measured)
    path = tmp_path / "my.toml"
    path.write_text(FILE)

    def resumed_as(name: str, *on: str) -> tuple[bool, str]:
        typed("sweep", name, "--resume", *on, *ALLOW)
        return resumed[-1]

    real, virtual = ("--on", "uml:?time=real"), ("--on", "uml:?time=virtual")
    in_real, first = resumed_as(str(path), *real)
    in_virtual, second = resumed_as(str(path), *virtual)
    assert (in_real, in_virtual) == (False, True)
    assert first != second, "in the other time it is another sweep"
    assert resumed_as(first) == resumed_as(str(path), *real) == (False, first)
    assert resumed_as(second) == resumed_as(str(path)) == resumed_as(str(path), *virtual) == (True, second)
    output = typed("sweep", first, "--resume", *virtual, *ALLOW, status=2).err
    assert f"{first} was begun in real time, but uml:?time=virtual asks for virtual time" in output
    assert "continue with --on 'uml:?time=real'" in output


def test_a_sweep_that_was_run_is_planned_by_its_id(typed: Typed) -> None:
    planned = typed("--json", "sweep", begun().id, "--plan", "--on", "uml:?time=virtual", *ALLOW).out
    assert json.loads(planned)["estimated_worker_seconds"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["level"], "did you mean 'levels'"),
        (["--plan"], "--plan needs the name of a sweep"),
        *(
            (["levels", "--dashboard", place], "next: write HOST:PORT")
            for place in ("x:99999", "x:", ":8787", "8787", f"x:{'1' * 5000}", "x:\u0661", "x:-1")
        ),
    ],
)
def test_what_cannot_be_swept_is_refused(words: list[str], message: str, typed: Typed) -> None:
    begun()
    assert message in typed("sweep", *words, status=2).err


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


def test_written_rows_are_read_back(tmp_path: Path) -> None:
    rows = [
        row("raid1", 123.456, chunk_bytes=None, stamps="a\nb", predicted_iops=100.0),
        row("raid5", 1e6, computer="ünïcode", is_virtual_time=False, p99_seconds=0.25),
    ]
    types, found = read_back(sweep(rows), tmp_path)
    assert types == COLUMNS
    wanted = [{"sweep": "s1"} | {name: getattr(each, name) for name in CellRow.__struct_fields__} for each in rows]
    assert found == wanted


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
def test_an_invalid_figure_is_never_written_as_a_number(bad: float, tmp_path: Path) -> None:
    _, (found,) = read_back(sweep([row(iops=0.0, p99_seconds=bad, iops_high=bad, seconds=bad)]), tmp_path)
    assert (found["p99_seconds"], found["iops_high"], found["seconds"], found["iops"]) == (None, None, None, 0.0)


def test_text_that_is_not_utf8_is_escaped(tmp_path: Path) -> None:
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


def test_without_duckdb_the_error_names_the_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(RequirementMissing) as caught:
        write_parquet(sweep([row()]), tmp_path / "cells.parquet")
    assert "pip install 'raidlab[classroom]'" in caught.value.hint


def test_the_columns_are_documented() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## The Parquet file: columns")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert {name.strip("`"): kind.strip() for name, kind, _, _ in lines} == COLUMNS
    assert tuple(name.strip("`") for name, *_ in lines) == tuple(COLUMNS)
    assert tuple(name.strip("`") for name, _, null, _ in lines if null.strip() != "–") == NULLABLE
