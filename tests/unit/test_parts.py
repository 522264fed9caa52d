"""Every part can be left out: its folder and its line are deleted, and the rest works on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.parts import FOLDERS, added
from lab.results.record import encode_record
from tests.surface import CATALOGUES
from tests.unit.report.records import load

REPOSITORY = Path(__file__).resolve().parents[2]
CREATE = ["--on", "uml:", "array", "create", "--disks", "disk01,disk02,disk03", "--plan", "--level"]
COMMANDS = (
    ["--help"],
    ["array", "--help"],
    [*CREATE, "raid5"],
    ["results"],
    ["results", "show", "--markdown"],
    ["report"],
    ["lint", "antioquia-quick"],
    ["run"],
    ["lesson", "list"],
    ["workloads"],
)
UNEQUAL = ([*CREATE, "adapt5"], ["run", "adaptraid-quick"], ["run", "volume.toml"])
"""What needs arrays of unequal disks: without them each is refused in a sentence."""
VOLUME = """
format_version = 2
id = "volume"
title = "A volume of unequal disks"
question = "Is it there?"
arrays = [{ id = "volume", level = "adapt5", members = 4 }]
jobs = [{ workload = "rand-read-4k" }]
"""
PROGRAM = """
import json, sys
from lab.cli.main import run
from lab.experiments.published import study_names
from lab.experiments.schema import built_in_names
from lab.lessons.course import built_in_course
from lab.parts import FOLDERS
from tests.surface import import_all
import_all("lab")
import_all("tui")
print(json.dumps([FOLDERS, sorted([*built_in_course().ids, *built_in_names(), *study_names()])]))
for words in json.loads(sys.argv[1]):
    print(words, run(words), flush=True)
"""
LINTER = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def in_copy(copy: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy), "RAIDLAB_STATE": str(copy / "state")}
    return subprocess.run(argv, cwd=copy, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("folder", FOLDERS)
def test_without_a_part(folder: str, tmp_path: Path) -> None:
    for tree in ("lab", "tui"):
        shutil.copytree(REPOSITORY / tree, tmp_path / tree, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    shutil.copy(REPOSITORY / "tests/surface.py", tmp_path / "tests")
    shutil.rmtree(tmp_path / folder.replace(".", "/"))
    table = tmp_path / "lab/parts.py"
    table.write_text(table.read_text().replace(f'    "{folder}",\n', ""))
    (tmp_path / "volume.toml").write_text(VOLUME)
    record = load("antioquia-quick")
    kept = tmp_path / "state" / "results" / record.id
    kept.mkdir(parents=True)
    (kept / "record.json").write_bytes(encode_record(record))

    refused = UNEQUAL if folder == "lab.adapt" else ()
    said = in_copy(tmp_path, sys.executable, "-c", PROGRAM, json.dumps([*COMMANDS, *refused]))
    folders, names = json.loads(said.stdout.splitlines()[0])
    assert set(folders) == {*FOLDERS} - {folder}, said.stderr
    assert set(names) == catalogued(tmp_path)
    statuses = [line.rpartition(" ")[2] for line in said.stdout.splitlines()[1:] if line.startswith("[")]
    assert statuses == ["0"] * len(COMMANDS) + ["2"] * len(refused), said.stderr
    if refused:
        assert said.stderr.count("unknown level 'adapt5'") == 2
        assert "there is no experiment 'adaptraid-quick'" in said.stderr
    linted = in_copy(tmp_path, sys.executable, "-c", LINTER, "--config", f"{REPOSITORY}/pyproject.toml", "--no-cache")
    assert linted.returncode == 0, linted.stdout


def catalogued(tree: Path) -> set[str]:
    """Lessons, experiments and studies of which there is a file."""
    folders = [folder for folder in CATALOGUES if folder.startswith(("lessons", "experiments"))]
    return {path.name.partition(".")[0] for each in folders for path in (tree / "lab").glob(f"**/{each}/*.toml")}


def test_a_place_that_no_part_adds_to() -> None:
    assert added("results in .zip") is not None
    assert added("results in .tar") is None
