"""What comes out of a machine into this computer's store: the trigger's own code, on archives as machines make them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.vm.computer import REPOSITORY

pytestmark = pytest.mark.vm

UNPACK = """
module Vagrant; module Errors; class VagrantError < StandardError; end; end; end
require "json"
load File.join(ARGV[0], "provision/vagrant/results.rb")
print JSON.generate(RaidlabResults.unpack(ARGV[1], ARGV[2], "raidlab2"))
"""


def bring(tmp_path: Path, files: dict[str, str], links: dict[str, str] | None = None) -> list[str]:
    """Pack a machine's results and unpack them into the store; returns the names that are new."""
    guest = tmp_path / "guest"
    subprocess.run(["rm", "-rf", guest, tmp_path / "unpacked"], check=True)
    for name, text in files.items():
        (guest / name).parent.mkdir(parents=True, exist_ok=True)
        (guest / name).write_text(text)
    for name, target in (links or {}).items():
        (guest / name).symlink_to(target)
    subprocess.run(["tar", "-C", guest, "-cf", tmp_path / "results.tar", "."], check=True)
    done = subprocess.run(
        ["ruby", "-e", UNPACK, REPOSITORY, tmp_path / "results.tar", tmp_path / "unpacked"],
        env={**os.environ, "RAIDLAB_STATE": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        check=True,
    )
    names: list[str] = json.loads(done.stdout)
    return names


def stored(tmp_path: Path, name: str) -> str:
    return (tmp_path / "state" / "results" / name).read_text()


def test_results_come_once(tmp_path: Path) -> None:
    files = {"a/record.json": "one", "a/raw/0001.json.gz": "x", "b/draft.json": "two", "junk/other": "three"}
    assert bring(tmp_path, files) == ["a", "b"]
    assert stored(tmp_path, "a/raw/0001.json.gz") == "x"
    assert not (tmp_path / "state/results/junk").exists()
    assert bring(tmp_path, files) == []


def test_a_result_of_another_machine_with_the_same_name_gets_a_suffix(tmp_path: Path) -> None:
    assert bring(tmp_path, {"a/record.json": "one"}) == ["a"]
    assert bring(tmp_path, {"a/record.json": "two"}) == ["a-raidlab2"]
    assert (stored(tmp_path, "a/record.json"), stored(tmp_path, "a-raidlab2/record.json")) == ("one", "two")


def test_an_unfinished_copy_is_replaced_by_a_longer_one(tmp_path: Path) -> None:
    bring(tmp_path, {"a/draft.json": "d", "a/cells.jsonl": "1\n2\n"})
    assert bring(tmp_path, {"a/draft.json": "d", "a/cells.jsonl": "1\n"}) == []
    assert bring(tmp_path, {"a/draft.json": "d", "a/cells.jsonl": "1\n2\n3\n"}) == ["a"]
    assert bring(tmp_path, {"a/record.json": "r"}) == ["a"]
    assert sorted(path.name for path in (tmp_path / "state/results/a").iterdir()) == ["record.json"]


def test_a_machine_cannot_place_links_on_this_computer(tmp_path: Path) -> None:
    files = {"a/record.json": "one", "b/record.json": "two"}
    assert bring(tmp_path, files, {"a/raw": "/etc", "c": "/etc"}) == ["b"]
    assert sorted(path.name for path in (tmp_path / "state/results").iterdir()) == ["b"]
