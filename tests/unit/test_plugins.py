"""Plugins: how they are found, and that the rest works without them, after their folders have been deleted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.errors import LabError
from lab.plugins import Plugin, entry_points, extension, extensions, plugins
from lab.results.record import encode_record
from lab.results.store import ResultFormat
from lab.theory.extension import FleetLosses
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
"""What needs arrays of unequal disks: without them each is refused with a sentence."""
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
from lab.plugins import plugins
from tests.surface import import_all
import_all("lab")
import_all("tui")
print(json.dumps([len(plugins()), sorted([*built_in_course().ids, *built_in_names(), *study_names()])]))
for words in json.loads(sys.argv[1]):
    print(words, run(words), flush=True)
"""
LINTER = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def copy_packages(folder: Path) -> None:
    """Including compiled files, but without temporary ones that another process is about to rename."""
    for tree in ("lab", "tui"):
        shutil.copytree(REPOSITORY / tree, folder / tree, ignore=shutil.ignore_patterns("*.pyc.*"))


def in_copy(copy: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy), "RAIDLAB_STATE": str(copy / "state")}
    return subprocess.run(argv, cwd=copy, env=environment, capture_output=True, text=True, check=False)


OWN = sorted(place.rpartition(".plugin:")[0] for place in entry_points().values() if place.startswith("lab."))


@pytest.mark.parametrize("left_out", [OWN, *(pytest.param([each], marks=pytest.mark.wide) for each in OWN)], ids=str)
def test_without_plugins(left_out: list[str], tmp_path: Path) -> None:
    copy_packages(tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(REPOSITORY / "tests/surface.py", tmp_path / "tests")
    for package in left_out:
        shutil.rmtree(tmp_path / package.replace(".", "/"))
    if left_out == OWN:
        linted = in_copy(
            tmp_path, sys.executable, "-c", LINTER, "--config", f"{REPOSITORY}/pyproject.toml", "--no-cache"
        )
        assert linted.returncode == 0, linted.stdout
    (tmp_path / "volume.toml").write_text(VOLUME)
    record = load("antioquia-quick")
    kept = tmp_path / "state" / "results" / record.id
    kept.mkdir(parents=True)
    (kept / "record.json").write_bytes(encode_record(record))

    refused = UNEQUAL if "lab.adapt" in left_out else ()
    output = in_copy(tmp_path, sys.executable, "-c", PROGRAM, json.dumps([*COMMANDS, *refused]))
    count, names = json.loads(output.stdout.splitlines()[0])
    assert count == len(entry_points()) - len(left_out), output.stderr
    assert set(names) == catalogued(tmp_path)
    statuses = [line.rpartition(" ")[2] for line in output.stdout.splitlines()[1:] if line.startswith("[")]
    assert statuses == ["0"] * len(COMMANDS) + ["2"] * len(refused), output.stderr
    if refused:
        assert output.stderr.count("unknown level 'adapt5'") == 2
        assert "there is no experiment 'adaptraid-quick'" in output.stderr


def catalogued(tree: Path) -> set[str]:
    folders = [folder for folder in CATALOGUES if folder.startswith(("lessons", "experiments"))]
    return {path.name.partition(".")[0] for each in folders for path in (tree / "lab").glob(f"**/{each}/*.toml")}


def test_without_the_app() -> None:
    # As if the package were not there: an editable installation always has it.
    code = (
        "import sys; sys.modules['tui'] = None; from lab.cli.main import run; print(*(int(run(each)) for each in {}))"
    )
    argv = [sys.executable, "-c", code.format([[], ["serve"], ["workloads"]])]
    output = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert output.stdout.splitlines()[-1] == "0 3 0", output.stderr
    assert "the app is not installed" in output.stderr


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path with a distribution that has one plugin, ``another``."""
    metadata = tmp_path / "another-1.0.dist-info"
    metadata.mkdir()
    text = (
        "[console_scripts]\nadapt = not.this:one\n\n[raidlab.plugins]\nanother = another_plugin:PLUGIN\n\n[z]\na = b\n"
    )
    (metadata / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.cache_clear()
    yield tmp_path
    plugins.cache_clear()
    sys.modules.pop("another_plugin", None)


def test_the_installed_metadata_are_those_of_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert entry_points() == project["entry-points"]["raidlab.plugins"], "next: make setup-test"


def test_entry_points_are_read_as_python_reads_them(installed: Path) -> None:
    own = distribution("raidlab").entry_points.select(group="raidlab.plugins")
    assert entry_points() == {"another": "another_plugin:PLUGIN", **{each.name: each.value for each in own}}


def test_another_distribution_may_add_a_plugin(installed: Path) -> None:
    (installed / "another_plugin.py").write_text("from lab.plugins import Plugin\nPLUGIN = Plugin()\n")
    assert Plugin() in plugins()


@pytest.mark.parametrize("text", ["PLUGIN = 5\n", "\n", "import there_is_no_such_module\n"])
def test_a_plugin_that_cannot_be_used_is_named(text: str, installed: Path) -> None:
    (installed / "another_plugin.py").write_text(text)
    with pytest.raises(LabError, match="plugin 'another' cannot be used"):
        plugins()


def test_a_plugin_that_is_not_there_adds_nothing(installed: Path) -> None:
    assert len(plugins()) == len(entry_points()) - 1


def test_an_outdated_installation_without_plugins_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.plugins.entry_points", dict)
    plugins.cache_clear()
    with pytest.raises(LabError, match=r"has no plugins\n.*make lab"):
        plugins()


def test_additions_are_found_by_their_class() -> None:
    class Unknown(NamedTuple):
        """Nothing adds one."""

    assert [each.suffix for each in extensions(ResultFormat)] == [".zip"]
    assert extension(FleetLosses) is not None
    assert extension(Unknown) is None
