"""``raidlab report``: its formats, its inputs, and damaged results."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.classroom.bundle import export_results
from lab.cli.main import run
from lab.errors import ExitCode
from lab.faults.scenario_run import FaultVerdict, ScenarioOutcome, begun_run
from lab.machine import Host
from lab.results.record import ResultRecord
from lab.results.store import ResultStore
from tests.unit.cli.conftest import Typed
from tests.unit.cli.test_results import put
from tests.unit.compare.platform_records import HDD, SSD, machine
from tests.unit.report.records import load
from tests.unit.results.records import array, cell, record

Stored = Callable[..., ResultStore]


@pytest.fixture
def store(tmp_path: Path) -> Stored:
    def make(*records: ResultRecord) -> ResultStore:
        for each in records:
            put(tmp_path, replace(each, cells=tuple(replace(one, raw_file="") for one in each.cells)))
        return ResultStore(tmp_path / "results")

    return make


ONE = record(arrays=(array("raid5", "raid5", 3),), cells=(cell("raid5", "x", 0, read_iops=105.0),))


def test_the_latest_result_is_reported_as_text(store: Stored, typed: Typed) -> None:
    store(ONE)
    output = typed("report").out
    assert output.startswith("Report on x\n")
    assert "105" in output


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("a.html", "<!DOCTYPE html>"), ("a.md", "# Report on x"), ("a.csv", "array,workload,"), ("a.txt", "Report on x")],
)
def test_the_files_ending_chooses_the_form(
    store: Stored, tmp_path: Path, name: str, beginning: str, capfd: pytest.CaptureFixture[str]
) -> None:
    store(ONE)
    assert run(["report", "latest", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text().startswith(beginning)
    assert capfd.readouterr().out.startswith(f"{tmp_path / name}: 1 result")


def test_an_ending_that_is_none_is_refused(store: Stored, tmp_path: Path, typed: Typed) -> None:
    store(ONE)
    output = str(tmp_path / "a.pdf")
    assert "a report cannot be written as .pdf" in typed("report", "latest", "-o", output, status=2).err
    assert run(["report", "latest", "-o", str(tmp_path / "a.pdf"), "--format", "html"]) == 0
    assert (tmp_path / "a.pdf").exists()


def test_the_study_has_its_own_columns(store: Stored, typed: Typed) -> None:
    store(load("antioquia-quick"))
    assert typed("report", "--format", "csv").out.startswith("RAID Level,Read IOPS,Write IOPS,Rebuild Time\n")


def test_several_results_are_one_csv_with_a_line_for_every_repeat(store: Stored, typed: Typed) -> None:
    store(machine("a", HDD, HDD), machine("b", SSD, SSD, seed=1))
    assert run(["report", "--format", "csv", "2026"]) == 1, "the beginning of two ids"
    printed = typed("report", "--format", "csv", "20261121T100000", "20261121T100001").out
    lines = list(csv.DictReader(io.StringIO(printed)))
    assert len(lines) == 2 * (2 * 4 * 6 + 6)
    assert {line["result"] for line in lines} == {"20261121T100000Z-a", "20261121T100001Z-b"}


def test_bundles_folders_and_ids_count_once_each(store: Stored, tmp_path: Path, typed: Typed) -> None:
    kept = store(ONE)
    folder = tmp_path / "handed-in"
    folder.mkdir()
    export_results(kept, ["latest"], folder / "a.zip")
    (folder / "b.zip").write_bytes((folder / "a.zip").read_bytes()[:-30])
    names = [str(folder), str(folder / "a.zip"), str(kept.root), str(kept.root / ONE.id), "latest"]
    found = json.loads(typed("--json", "report", *names, "-o", str(tmp_path / "r.html")).out)
    assert found["results"] == [ONE.id]
    assert "b.zip' is not a raidlab export, or is damaged" in " ".join(found["problems"])


def test_a_damaged_result_is_named_and_the_others_reported(store: Stored, tmp_path: Path, typed: Typed) -> None:
    kept = store(ONE, machine("a", HDD, HDD), machine("b", HDD, HDD, seed=1))
    for name, (old, new) in {
        "20261121T100000Z-a": ('"iops": 100', '"iops": NaN'),
        "20261121T100001Z-b": ("}", ""),
    }.items():
        path = kept.root / name / "record.json"
        path.write_text(path.read_text().replace(old, new, 1))
    output = typed("report", str(kept.root), "-o", str(tmp_path / "r.html"))
    assert output.err.count("is damaged") == 2
    assert "1 result," in output.out
    page = (tmp_path / "r.html").read_text()
    assert "20261121T100001Z-b/record.json&#39; is damaged" in page


def test_a_report_without_results_fails_with_the_reason(store: Stored, tmp_path: Path, typed: Typed) -> None:
    store(ONE)
    assert "there is no result 'nothing'" in typed("report", "nothing", status=1).err
    assert run(["report", str(tmp_path / "none.zip")]) == 1
    assert not (tmp_path / "r.html").exists()


def test_results_that_share_nothing_are_named_and_reported(store: Stored, typed: Typed) -> None:
    other = record("20261121T100009Z-x", cells=(cell("raid0", "y", 0, read_iops=5.0),))
    store(ONE, other)
    output = typed("report", ONE.id, other.id)
    assert "x: nothing can be compared" in output.err
    assert "105" in output.out


def test_verdicts_on_faults_are_reported_with_results_and_alone(store: Stored, tmp_path: Path, typed: Typed) -> None:
    assert "there is no run of scenarios in" in typed("report", "--faults", "latest", status=ExitCode.FAILED).err
    with begun_run(Host.real("tests"), "uml:", 3, ["fail-one"]) as journal:
        journal.add(
            ScenarioOutcome(
                number=1, id="fail-one", title="One fails", model="m", must=("it holds",), sources=("md(4)",),
                verdict=FaultVerdict.AS_EXPECTED, variants=(),
            )
        )  # fmt: skip
    alone = typed("report", "--faults", "latest").out
    assert run(["report", "--faults", "latest", "--format", "csv"]) == ExitCode.USAGE
    assert "One fails" in alone
    assert alone.startswith("Report on faults\n")
    assert alone.count("Faults: run ") == 1
    store(ONE)
    assert run(["report", "latest", "--faults", "latest", "-o", str(tmp_path / "a.html")]) == 0
    page = (tmp_path / "a.html").read_text()
    assert "One fails" in page
    assert "105" in page
