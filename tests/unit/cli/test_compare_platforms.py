"""raidlab compare of several machines, as the instructor types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.cli.main import run
from lab.errors import ExitCode
from tests.unit.compare.platform_records import HDD, SSD, machine
from tests.unit.compare.test_platforms import SSD_WRITES, WRITES, bundle


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    made = tmp_path / "bundles"
    made.mkdir()
    bundle(made / "hdd.zip", machine("hdd", HDD, WRITES), tmp_path / "key.pem")
    bundle(made / "ssd.zip", machine("ssd", SSD, SSD_WRITES, seed=1), tmp_path / "key.pem")
    return made


def test_two_bundles(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(folder / "hdd.zip"), str(folder / "ssd.zip")]) == ExitCode.DONE
    said = capsys.readouterr().out
    assert "speed-up over one disk" in said
    assert "single is faster than raid5" in said
    assert "flips: slower" in said
    assert "of 12 conclusions, on ssh:ssd, physical: carries over 10, flips 2" in said
    assert "carries over: faster" in said
    # Raw figures of two machines are never side by side.
    assert "52000" not in said
    assert "IOPS" not in said


def test_an_edited_bundle_is_refused_and_the_others_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = (folder / "ssd.zip").read_bytes()
    (folder / "third.zip").write_bytes(data[:-900] + bytes([data[-900] ^ 1]) + data[-899:])
    assert run(["compare", str(folder), "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert any("third.zip" in problem for problem in found["problems"])
    assert len(found["experiments"]["x"]["platforms"]) == 2


def test_a_missing_half_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "ssd.zip").unlink()
    assert run(["compare", str(folder)]) == ExitCode.FAILED
    assert "arm-missing: x was measured on ssh:hdd, physical only" in capsys.readouterr().err


def test_results_of_two_machines_in_the_store_point_to_ratios(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("hdd", "ssd"):
        assert run(["results", "import", str(folder / f"{name}.zip")]) == ExitCode.DONE
    first, second = "20261121T100000Z-hdd", "20261121T100001Z-ssd"
    assert run(["compare", first, second]) == ExitCode.FAILED
    assert "--platforms" in capsys.readouterr().err
    assert run(["compare", "--platforms", first, second]) == ExitCode.DONE
    assert "speed-up" in capsys.readouterr().out
