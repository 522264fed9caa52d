"""A class's bundles as one table: only good ones count, once each, and what is known is not read again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from lab.classroom.bundle import Bundle, read_bundle
from lab.classroom.command import box
from lab.classroom.view import ClassRow, view_class
from lab.cli.main import run
from lab.errors import ExitCode, RequirementMissing, ResultError
from tests.unit.compare.platform_records import HDD, machine, scaled
from tests.unit.compare.test_platforms import WRITES, bundle

FACTORS = (0.98, 0.99, 1.0, 1.01, 1.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five students; RAID 0 reads 3.9 times as fast as their own disk, 2 % up or down."""
    made = tmp_path / "class"
    made.mkdir()
    for number, factor in enumerate(FACTORS):
        record = machine(f"s{number}", scaled(HDD, raid0=factor), WRITES, seed=number)
        bundle(made / f"s{number}.zip", record, tmp_path / f"key{number}.pem")
    return made


def row_of(rows: tuple[ClassRow, ...], array: str = "raid0") -> ClassRow:
    (row,) = [row for row in rows if (row.array, row.workload) == (array, "rand-read-4k")]
    return row


def test_every_student_counts_once_against_the_own_disk(folder: Path, tmp_path: Path) -> None:
    found = view_class(folder, tmp_path / "cache")
    row = row_of(found.rows)
    assert (found.files, found.results, found.problems, found.copies) == (5, 5, {}, ())
    assert len(found.keys) == 5
    assert row.baseline == "single"
    assert row.results == 5
    assert row.median == pytest.approx(3.9)
    assert list(row.values) == pytest.approx([3.9 * factor for factor in FACTORS])
    assert (row.lowest, row.highest) == (row.values[0], row.values[-1])
    assert row.first_quartile == pytest.approx(3.9 * 0.99)
    assert row.far == ()


def test_edited_truncated_and_newer_bundles_are_named_and_left_out(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "s0.zip").read_bytes()
    (folder / "s1.zip").write_bytes(whole[:1000])
    (folder / "s2.zip").write_bytes(whole[:600] + bytes([whole[600] ^ 1]) + whole[601:])
    newer = msgspec.structs.replace(machine("n", HDD, WRITES), schema_version=99)
    bundle(folder / "s3.zip", newer, tmp_path / "key3.pem")
    found = view_class(folder, tmp_path / "cache")
    assert row_of(found.rows).results == 2
    assert list(found.problems) == ["s1.zip", "s2.zip", "s3.zip"]
    assert all(name in problem for name, problem in found.problems.items())


def test_a_copied_measurement_is_found(folder: Path, tmp_path: Path) -> None:
    record = machine("s0", scaled(HDD, raid0=FACTORS[0]), WRITES, seed=0)
    bundle(folder / "copy.zip", record, tmp_path / "key9.pem")
    assert view_class(folder, tmp_path / "cache").copies == (("copy.zip", "s0.zip"),)


def test_a_value_far_from_the_others_is_named(folder: Path, tmp_path: Path) -> None:
    odd = machine("odd", scaled(HDD, raid0=0.4), WRITES, seed=5)
    bundle(folder / "odd.zip", odd, tmp_path / "key5.pem")
    assert row_of(view_class(folder, tmp_path / "cache").rows).far == ("odd.zip",)


def test_only_what_changed_is_read_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = view_class(folder, tmp_path / "cache")
    read: list[str] = []

    def note(file: Path) -> Bundle:
        read.append(file.name)
        return read_bundle(file)

    monkeypatch.setattr("lab.classroom.columns.read_bundle", note)
    assert view_class(folder, tmp_path / "cache") == before
    assert read == []
    changed = machine("s0", scaled(HDD, raid0=1.03), WRITES, seed=0)
    bundle(folder / "s0.zip", changed, tmp_path / "key0.pem")
    os.utime(folder / "s0.zip", ns=(1, 1))
    (folder / "s4.zip").unlink()
    after = view_class(folder, tmp_path / "cache")
    assert read == ["s0.zip"]
    assert after.files == 4
    assert row_of(after.rows).highest == pytest.approx(3.9 * 1.03)


def test_without_a_single_disk_the_first_array_is_the_measure(tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    reads = {name: value for name, value in HDD.items() if name != "single"}
    record = machine("a", {**reads, "single": 1}, {**WRITES})
    cells = tuple(each for each in record.cells if each.array != "single")
    bundle(folder / "a.zip", msgspec.structs.replace(record, cells=cells), tmp_path / "key.pem")
    row = row_of(view_class(folder, tmp_path / "cache").rows, "raid5")
    assert row.baseline == "raid0"
    assert row.median == pytest.approx(290 / 390)


def test_what_is_no_file_or_has_an_odd_name_is_named_and_stops_no_other(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe.zip")
    (folder / "nowhere.zip").symlink_to(tmp_path / "nothing")
    (folder / "folder.zip").mkdir()
    (folder / os.fsdecode(b"\xff.zip")).write_bytes(b"no bundle")
    found = view_class(folder, tmp_path / "cache")
    assert found.results == 5
    assert len(found.problems) == 4


def test_an_empty_folder_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert view_class(tmp_path / "empty", tmp_path / "cache").rows == ()
    with pytest.raises(ResultError, match="no folder"):
        view_class(tmp_path / "nowhere", tmp_path / "cache")


def test_a_damaged_cache_says_what_to_delete(folder: Path, tmp_path: Path) -> None:
    view_class(folder, tmp_path / "cache")
    for file in (tmp_path / "cache").rglob("*.parquet"):
        file.write_bytes(b"damaged")
    with pytest.raises(ResultError) as caught:
        view_class(folder, tmp_path / "cache")
    assert "delete '" in caught.value.hint


def test_without_duckdb_it_says_how_to_get_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(RequirementMissing) as caught:
        view_class(folder, tmp_path / "cache")
    assert "raidlab[classroom]" in caught.value.hint


def test_a_box_plot_in_a_line() -> None:
    row = ClassRow("x", "a", "w", "read", "single", 5, 1.0, 2.0, 2.5, 3.0, 4.0, (), ())
    assert box(row, 4.0, width=8) == "  ──█┃█─"


def test_the_command_shows_one_table_and_the_distribution(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    (folder / "bad.zip").write_bytes(b"no bundle")
    assert run(["class", str(folder)]) == ExitCode.DONE
    said = capsys.readouterr()
    assert "5 results in 6 bundles, signed by 5 keys" in said.out
    assert "raid0 ÷ single" in said.out
    assert "┃" in said.out
    assert "bad.zip" in said.err
    assert run(["class", str(folder), "--json"]) == ExitCode.DONE
    assert '"baseline": "single"' in capsys.readouterr().out
