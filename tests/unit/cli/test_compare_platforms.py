"""``raidlab compare`` for several machines, as the instructor types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.main import run
from lab.errors import ExitCode
from tests.unit.cli.conftest import Typed
from tests.unit.compare.platform_records import HDD, SSD, bundle, machine
from tests.unit.compare.test_platforms import SSD_WRITES, WRITES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    made = tmp_path / "bundles"
    made.mkdir()
    bundle(made / "hdd.zip", machine("hdd", HDD, WRITES), tmp_path / "key.pem")
    bundle(made / "ssd.zip", machine("ssd", SSD, SSD_WRITES, seed=1), tmp_path / "key.pem")
    return made


def test_two_bundles(folder: Path, typed: Typed) -> None:
    output = typed("compare", str(folder / "hdd.zip"), str(folder / "ssd.zip")).out
    assert "speed-up over one disk" in output
    assert "single is faster than raid5" in output
    assert "flips: slower" in output
    assert "A: ssh:hdd, physical\nB: ssh:ssd, physical\n" in output
    assert "of 12 conclusions on A, on B: carries over 10, flips 2" in output
    assert "carries over: faster" in output
    # Raw figures of two machines must never be shown side by side.
    assert "52000" not in output
    assert "IOPS" not in output


def test_a_missing_half_is_named(folder: Path, typed: Typed) -> None:
    (folder / "ssd.zip").unlink()
    refused = typed("compare", str(folder), status=ExitCode.FAILED).err
    assert "arm-missing: x was measured on ssh:hdd, physical only" in refused


def test_results_of_two_machines_in_the_store_point_to_ratios(folder: Path, typed: Typed) -> None:
    for name in ("hdd", "ssd"):
        assert run(["results", "import", str(folder / f"{name}.zip")]) == ExitCode.DONE
    first, second = "20261121T100000Z-hdd", "20261121T100001Z-ssd"
    assert "--platforms" in typed("compare", first, second, status=ExitCode.FAILED).err
    assert "speed-up" in typed("compare", "--platforms", first, second).out


def test_the_tables_fit_into_the_terminal(folder: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles = [str(folder / "hdd.zip"), str(folder / "ssd.zip")]
    for columns in (60, 80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        output = typed("compare", *bundles).out
        assert max(map(len, output.splitlines())) <= columns
        assert "flips: slower" in output
        assert "3.9" in output
    # A pipe has no width, so each row is one line, for tools.
    monkeypatch.delenv("COLUMNS")
    assert max(map(len, typed("compare", *bundles).out.splitlines())) > 80


def two(folder: Path, repeats: int) -> list[str]:
    """Write the bundles of two machines with equal disks, and return their paths."""
    for name, seed in (("one", 0), ("two", 1)):
        bundle(folder / f"{name}.zip", machine(name, HDD, HDD, repeats=repeats, seed=seed), folder / "key.pem")
    return [str(folder / "one.zip"), str(folder / "two.zip")]


@pytest.mark.parametrize(("repeats", "shown"), [(1, "(1 repeat)"), (5, "(5 repeats)"), (6, "[")])
def test_too_few_repeats_have_no_interval_and_a_note(tmp_path: Path, typed: Typed, repeats: int, shown: str) -> None:
    output = typed("compare", *two(tmp_path, repeats)).out
    ratios = [line for line in output.splitlines() if line.startswith("speed-up") and "raid0" in line]
    assert ratios
    assert all(line.count(shown) == 2 for line in ratios)
    assert ("too few repeats: this many repeats" in output) is (repeats < 6)
    assert all(("[" in line) is (repeats == 6) for line in ratios)


@pytest.mark.parametrize(("repeats", "is_enough"), [(1, False), (3, False), (4, True)])
def test_two_results_with_too_few_repeats_have_no_interval_and_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed, repeats: int, is_enough: bool
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    for seed in (0, 1):
        bundle(tmp_path / "a.zip", machine("a", HDD, HDD, repeats=repeats, seed=seed), tmp_path / "key.pem")
        assert run(["results", "import", str(tmp_path / "a.zip")]) == ExitCode.DONE
    lines = typed("compare", "20261121T100000Z-a", "20261121T100001Z-a").out.splitlines()
    rows = [line for line in lines if "IOPS" in line]
    assert rows
    assert all(("too few repeats" in line) is not is_enough for line in rows)
    assert all((" to " in line) is is_enough for line in rows)


def test_inconclusive_comparisons_are_one_line_with_the_reason(tmp_path: Path, typed: Typed) -> None:
    lines = [line for line in typed("compare", *two(tmp_path, 3)).out.splitlines() if "cannot tell" in line]
    assert sum("12 pairs of arrays" in line for line in lines) == 1
    assert sum("cannot tell (12)" in line for line in lines) == 1
    # The summary, the row and the reason.
    assert len(lines) == 3
