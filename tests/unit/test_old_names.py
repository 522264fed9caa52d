"""Files of earlier versions are read as what they mean today."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from lab.disks.lab import lab_folder
from lab.experiments.schema import Experiment
from lab.lessons.course import built_in_course, draw
from lab.lessons.student import LessonStore
from lab.machine import Host
from lab.results.record import encode_record
from lab.results.store import decode_record
from lab.tomlfile import as_meant, decode_toml
from tests.unit.experiments.experiments import ARRAYS, HEAD, JOBS
from tests.unit.results.records import record

DISKS = '[disks]\nkind = "spindle"\n{key} = "hdd-7200"\nsize_bytes = "64M"\n'
NEW = "\n".join((HEAD, "repeats = 6", DISKS.format(key="model"), ARRAYS, JOBS))
OLD = NEW.replace("format_version = 2", "format_version = 1").replace("model =", "personality =")
BEGAN = {"began_utc": "2026-11-21T10:00:00Z"}


def test_an_experiment_of_version_1_is_the_same_experiment() -> None:
    assert decode_toml(OLD, Experiment).disks == decode_toml(NEW, Experiment).disks
    assert as_meant(OLD) == as_meant(NEW)
    assert as_meant(NEW.replace("repeats = 6", "repeats = 7")) != as_meant(OLD)
    titled = NEW.replace("[[arrays]]", '[[arrays]]\ntitle = "A title"')
    assert as_meant(titled.replace('title = "', 'title = "Reworded: ')) == as_meant(NEW)
    assert as_meant("no = TOML = at all") == "no = TOML = at all"


def test_a_result_of_version_1_keeps_the_models_of_its_drives() -> None:
    made = record()
    tree = msgspec.json.decode(encode_record(made))
    tree["schema_version"] = 1
    for disk in tree["conditions"]["disks"]:
        disk["personality"] = "hdd-7200"
        disk.pop("model", None)
    found = decode_record(json.dumps(tree).encode(), source="old")
    assert found.conditions.disks
    assert {disk.model for disk in found.conditions.disks} == {"hdd-7200"}


def test_a_list_of_disks_from_before_keeps_their_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    (tmp_path / "labs" / "old").mkdir(parents=True)
    listed = [{"name": "disk01", "kind": "spindle", "size_bytes": 1 << 26, "personality": "hdd-10k"}]
    (tmp_path / "labs" / "old" / "lab.json").write_text(json.dumps(listed))
    with lab_folder(Host.real("tests").state, "old") as folder:
        assert [spec.model for spec in folder.specs] == ["hdd-10k"]


def test_finished_steps_with_old_names_stay_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    name = "11-scrub-and-silent-corruption"
    (tmp_path / "lessons").mkdir()
    steps = {"scrub": BEGAN, "mend": {**BEGAN, "done_utc": "2026-11-21T10:09:00Z", "answer": "mends"}}
    (tmp_path / "lessons" / f"{name}.json").write_text(json.dumps({"lesson": name, **BEGAN, "steps": steps}))
    store = LessonStore(Host.real("tests").state)
    progress = store.progress(name)
    assert progress is not None
    assert progress.is_done("repair")
    assert progress.in_step("repair").answer == "repairs"
    store.store_progress(progress)
    assert json.loads((tmp_path / "lessons" / f"{name}.json").read_text())["format_version"] == 2
    assert store.progress(name) == progress


@pytest.mark.parametrize(("seed", "purpose"), [("anna", "archive"), ("eve", "database"), ("1", "archive")])
def test_a_seed_gives_the_variant_that_it_always_gave(seed: str, purpose: str) -> None:
    lesson = built_in_course().find("12-choosing-a-level").lesson
    assert draw(lesson, seed)["purpose"] == purpose
