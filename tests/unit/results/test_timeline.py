"""Timelines beside a record: stored with a rebuild, exported with it, and refused when they are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.classroom.bundle import export_results
from lab.errors import ResultError
from lab.results.record import MemberRates, Timeline, decode_timeline, encode_timeline
from lab.results.store import ResultStore, import_results
from tests.unit.results.records import rebuild, record

TIMELINE = Timeline(
    seconds=(0.0, 0.1),
    read_iops=(None, 75.25),
    write_iops=(None, 0.0),
    wait_seconds=(None, 0.013123),
    rebuilt_fraction=(0.0, 0.5),
    busy_fraction=(None, 0.25),
    members=(MemberRates(name="ubda", read_bytes_per_second=(None, 1e6), written_bytes_per_second=(None, 0.0)),),
)


def store_with_a_rebuild(root: Path) -> ResultStore:
    store = ResultStore(root)
    with store.begin(record()) as journal:
        journal.add(rebuild("raid1", 0, 3.0), timeline=TIMELINE)
        journal.finish()
    return store


def test_a_rebuild_is_stored_with_its_timeline(tmp_path: Path) -> None:
    store = store_with_a_rebuild(tmp_path)
    (stored,) = store.load("latest").rebuilds
    found = decode_timeline(store.raw_json(store.find("latest"), stored.timeline_file), source="x")
    assert found == TIMELINE


def test_a_bundle_carries_timelines(tmp_path: Path) -> None:
    store, other = store_with_a_rebuild(tmp_path / "a" / "results"), ResultStore(tmp_path / "b" / "results")
    export_results(store, ["latest"], tmp_path / "x.zip")
    import_results(other, tmp_path / "x.zip")
    (result_id,) = other.ids()
    (name,) = other.load(result_id).files
    assert decode_timeline(other.raw_json(result_id, name), source="x") == TIMELINE


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"seconds": [0.0]}', encode_timeline(TIMELINE).replace("0.1", "0.1,0.2", 1), "[1]"],
)
def test_what_is_no_timeline_is_refused(text: str) -> None:
    with pytest.raises(ResultError, match="'x' is not a timeline"):
        decode_timeline(text, source="x")


def test_a_newer_timeline_is_refused() -> None:
    with pytest.raises(ResultError, match="this raidlab reads up to 1"):
        decode_timeline(encode_timeline(TIMELINE).replace('"format_version":1', '"format_version":2'), source="x")
