"""Files of fleets, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.cli.main import run
from lab.errors import ResultError, SpecError
from lab.fleet.model import FleetSpec, ScrubKind, changed, fleet_names, fleet_spec, fleet_tree, model_of, variants
from lab.fleet.run import BLOCK_TRIALS, blocks_of, local_spreader, lost_in_drills, measured_in, run_model, what_if
from lab.results.record import encode_record
from lab.results.store import RECORD_NAME, ResultStore, measured_rebuilds
from tests.unit.classroom.students import hand_in
from tests.unit.results.records import rebuild
from tests.unit.results.records import record as result

SMALL = """
format_version = 2
id = "small"
title = "Two small arrays"
arrays = 2
level = "raid5"
members = 4
disk_tb = 4.0
failures = { afr_percent = 20.0 }
rebuild = { hours = [100.0, 200.0] }
run = { trials = 2000, method = "plain" }

[[compare]]
id = "raid6"
set = { level = "raid6", "run.method" = "biased" }
"""


def no_results(name: str, _array: str | None) -> tuple[float, ...]:
    raise AssertionError(name)


def spec_of(**changes: Any) -> FleetSpec:
    return fleet_spec(fleet_tree("school"), "school", {key.replace("__", "."): each for key, each in changes.items()})


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", fleet_names())
def test_built_in_fleets_are_sound(name: str) -> None:
    spec = fleet_spec(fleet_tree(name), name)
    assert spec.id == name
    assert spec.source
    for _, each in variants(fleet_tree(name), spec):
        model_of(each, no_results, lambda _folder: 0.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"members": 2}, "raid5 has at least 3 members"),
        ({"failures": {}}, "failures has no distribution"),
        ({"rebuild__constant_hours": 3.0}, "rebuild has constant_hours and hours"),
        ({"scrub__interval_hours": 10.0}, "longer than its interval"),
        ({"scrub__intervall_hours": 10.0}, "did you mean 'interval_hours'"),
        ({"level": "raid10", "members": 5}, "consists of pairs"),
        ({"parities": 6}, "hold no data"),
        ({"people__wrong_disk": 1.5}, "write 0 or more, 1 at most"),
        ({"years": 0.0}, "years"),
        ({"title__en": "x"}, "not a key of a fleet"),
    ],
)
def test_what_is_no_fleet_is_refused_with_a_hint(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(**changes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("level", "members", "layout"),
    [
        ("raid0", 4, (1, 4, 0, 4.0)),
        ("raid1", 3, (1, 3, 2, 1.0)),
        ("raid5", 5, (1, 5, 1, 4.0)),
        ("raid6", 8, (1, 8, 2, 6.0)),
        ("raid10", 8, (4, 2, 1, 4.0)),
    ],
)
def test_levels_are_groups_that_survive_failures(level: str, members: int, layout: tuple[int, int, int, float]) -> None:
    assert spec_of(level=level, members=members).layout() == layout


def test_a_fleet_becomes_a_model() -> None:
    model = model_of(spec_of(), no_results, lambda _folder: 0.0)
    assert model.usable_bytes == 5 * 16e12
    assert model.rebuild.values_hours == (30.0, 34.0, 41.0, 52.0)
    assert model.scrub.kind is ScrubKind.PERIODIC
    # Of drives with this life 1.57 % fail within a year.
    year = 1.0
    assert 1 - 2.718281828459045 ** (-year * 8766 / model.life.scale_hours) == pytest.approx(0.0157)


def test_rebuilds_come_from_a_stored_result(tmp_path: Path) -> None:
    rebuilds = (rebuild("raid6", 0, 10.0, 2 * 10**9), rebuild("raid6", 1, 20.0, 2 * 10**9), rebuild("raid5", 0, 5.0))
    record = result(rebuilds=rebuilds)
    (tmp_path / record.id).mkdir()
    (tmp_path / record.id / "record.json").write_bytes(encode_record(record))
    store = ResultStore(tmp_path)
    tree = changed(fleet_tree("school"), {"rebuild": {"result": record.id, "array": "raid6"}, "disk_tb": 18.0})
    model = model_of(fleet_spec(tree, "mine"), measured_in(store), lambda _folder: 0.0)
    # 18 TB at 200 and at 100 MB a second.
    assert model.rebuild.values_hours == (25.0, 50.0)
    with pytest.raises(ResultError, match="no rebuild of 'raid1'"):
        measured_in(store)(record.id, "raid1")


def test_the_share_of_a_class_takes_the_place_of_a_number(tmp_path: Path) -> None:
    asked: list[str] = []

    def share(folder: str) -> float:
        asked.append(folder)
        return 0.25

    model = model_of(spec_of(people__class_folder="bundles"), no_results, share)
    assert (model.loses_data, asked) == (0.25, ["bundles"])
    (tmp_path / "class").mkdir()
    truth = hand_in(tmp_path / "class", honest=12, copied=0, changed=0)
    assert lost_in_drills(str(tmp_path / "class")) == pytest.approx(1 - truth.first_saved / 12)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultError):
        lost_in_drills(str(tmp_path / "empty"))


def test_blocks_are_the_same_however_many_share_them() -> None:
    assert [each.trials for each in blocks_of(2 * BLOCK_TRIALS + 7)] == [BLOCK_TRIALS, BLOCK_TRIALS, 7]
    model = model_of(spec_of(), no_results, lambda _folder: 0.0)
    alone, together = (run_model(model, 2 * BLOCK_TRIALS + 100, local_spreader(each)) for each in (1, 2))
    assert msgspec.json.encode(alone) == msgspec.json.encode(together)


def test_what_if_answers_for_every_level() -> None:
    for level, members in (("raid0", 2), ("raid1", 2), ("raid5", 5), ("raid6", 8), ("raid10", 4)):
        found = what_if(
            arrays=4,
            level=level,
            members=members,
            disk_tb=16.0,
            afr_percent=1.5,
            rebuild_hours=40.0,
            scrub_interval_hours=730.0,
        )
        assert 0 < found.loss_chance_per_array_year.value < 1
        interval = found.loss_chance_per_array_year
        assert interval.low < interval.value < interval.high


def test_the_command_shows_variants_beside_each_other(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["-q", "fleet", str(small), "--workers", "1"]
    assert run([*words, "--scrub", "168", "--set", "sectors.defects_per_hour=1e-4"]) == 0
    text = capfd.readouterr().out
    own = "scrub.interval_hours = 168, sectors.defects_per_hour = 0.0001"
    assert [line.split("  ")[0] for line in text.splitlines() if line.startswith(("as it is", "raid6", own))] == [
        "as it is",
        "raid6",
        own,
    ] * 3
    # Never MTTDL alone: it has its reason beside it.
    assert "MTTDL is a mean over endless time" in text


def test_json_has_models_and_figures(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "-q", "fleet", str(small), "--seed", "7", "--trials", "500"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["fleet"]["id"] == "small"
    for name, is_biased in (("as it is", False), ("raid6", True)):
        variant = told["variants"][name]
        assert variant["model"]["seed"] == 7
        assert variant["figures"]["trials"] == 500
        assert variant["figures"]["is_biased"] is is_biased
        assert sum(variant["figures"]["cause_losses"].values()) == pytest.approx(1)


def test_without_a_file_the_fleets_are_listed(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()[1:]] == list(fleet_names())
    assert run(["-q", "fleet", "scool"]) == 2
    assert "did you mean 'school'?" in capfd.readouterr().err
    assert run(["-q", "fleet", str(small), "--set", "members"]) == 2
    assert "sets no key" in capfd.readouterr().err


def test_rebuilds_of_stored_results_are_listed_by_array_and_load(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    rebuilds = (rebuild("raid5", 0, 2.0, 200), rebuild("raid5", 1, 2.0, 400), rebuild("raid5", 2, 1.0, 300))
    under = msgspec.structs.replace(rebuild("raid5", 0, 4.0, 200), under_workload="rand-read-4k")
    stored = result("20261121T100000Z-x", rebuilds=(*rebuilds, under))
    (tmp_path / stored.id).mkdir()
    (tmp_path / stored.id / RECORD_NAME).write_bytes(encode_record(stored))
    (tmp_path / "20261121T110000Z-x").mkdir()
    (tmp_path / "20261121T110000Z-x" / RECORD_NAME).write_text("{")
    found = measured_rebuilds(store)
    assert [(each.result, each.array, each.under_workload, each.bytes_per_second, each.count) for each in found] == [
        (stored.id, "raid5", "", 200.0, 3),
        (stored.id, "raid5", "rand-read-4k", 50.0, 1),
    ]
