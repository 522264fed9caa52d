"""The catalogue: every entry is sound, and unknown names get help."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.workloads.workload import BUILT_IN_FOLDER, Workload, all_workloads, find_workload, load_folder

GOOD = """
id = "mine"
title = "Mine"
shows = "Something."
direction = "read"
pattern = "random"
block_bytes = "8K"
"""


def test_each_file_is_named_after_its_id() -> None:
    assert {path.stem for path in BUILT_IN_FOLDER.glob("*.toml")} == set(all_workloads())


def test_the_studies_find_their_workloads() -> None:
    wanted = {
        "rand-read-4k",
        "rand-write-4k",
        "rand-mix-4k",
        "seq-read-1m",
        "seq-write-1m",
        "seq-read-2m",
        "seq-write-2m",
    }
    assert wanted | {"verify-4k", "antioquia-literal"} <= set(all_workloads())
    assert find_workload("rand-mix-4k").read_percent == 70
    assert find_workload("rand-read-4k").depth_total == 16
    # Of a recipe's sections fio tells the block of the last one only, and requests of a trace differ.
    sizes = [find_workload(name).request_bytes for name in ("rand-read-4k", "antioquia-literal", "trace-server")]
    assert sizes == [4096, None, None]


@pytest.mark.parametrize("workload", all_workloads().values(), ids=lambda each: each.id)
def test_every_entry_measures_past_the_cache_and_says_what_for(workload: Workload) -> None:
    assert workload.direct or workload.recipe
    assert workload.random_data or workload.recipe
    assert workload.shows.endswith(".")
    assert workload.reads or workload.writes


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(SpecError, match="there is no workload 'rand-raed-4k'") as caught:
        find_workload("rand-raed-4k")
    assert caught.value.hint == "did you mean 'rand-read-4k'?"


def test_a_user_file_by_path_and_by_folder(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert find_workload(str(path)).block_bytes == 8192
    assert load_folder(tmp_path) == {"mine": find_workload(str(path))}
    (tmp_path / "twin.toml").write_text(GOOD)
    with pytest.raises(SpecError, match="another file has too"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("queue_depth = 4\nengine = 'psync'", "depth-without-async"),
        ("runtime_seconds = 1.0", "runtime-short"),
        ("read_percent = 50", "a mix, and nothing else"),
        ("verify = 'reread'", "go together"),
        ("jobs = 0", "jobs: 0 is not possible: write 1 or more, 256 at most"),
        ("file_bytes = 512", "below one block"),
        ("quue_depth = 1", "did you mean 'queue_depth'"),
        ("engine = 5", "engine: Expected `str`"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(GOOD + line + "\n")
    with pytest.raises(SpecError, match=complaint):
        find_workload(str(path))
