"""The store: nothing finished is lost, nothing half-written is taken for whole, and refusals say what to do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from lab.classroom.bundle import export_results
from lab.errors import ResultError
from lab.host.signals import Interrupted
from lab.results.record import (
    CellRecord,
    MemberRates,
    RebuildRecord,
    ResultRecord,
    RunStatus,
    Timeline,
    Timings,
    decode_timeline,
    encode_record,
    encode_timeline,
)
from lab.results.store import ResultNotStored, ResultStore, decode_record, import_results
from lab.store import Journal
from lab.workloads.fio_output import LiveFeed
from tests.unit.results import records
from tests.unit.results.records import rebuild, record

RAW = Path(__file__).parents[1] / "workloads" / "data" / "mix.stdout"


def draft(record_id: str = "20261121T100000Z-x") -> ResultRecord:
    """A result of the embedded kernel that has been begun."""
    conditions = replace(
        records.CONDITIONS, target="uml:", is_embedded=True, tunables={"/sys/block/md0/md/sync_speed_max": "200000"}
    )
    planned = ("md0/rand-mix-4k/healthy/0", "md0/rand-mix-4k/healthy/1")
    return record(record_id, conditions=conditions, planned_cells=planned, status=RunStatus.INCOMPLETE)


def cell(repeat: int = 0) -> CellRecord:
    feed = LiveFeed()
    list(feed.intervals([RAW.read_text()]))
    return records.cell("md0", "rand-mix-4k", repeat, figures=feed.figures())


REBUILD = RebuildRecord(
    array="md0", repeat=0, rebuild_seconds=9.5, predicted_seconds=10, rebuilt_bytes=5, data_unchanged=True
)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "results")


def test_a_run_from_begin_to_load(store: ResultStore) -> None:
    with store.begin(draft()) as journal:
        stored = journal.add(cell())
        journal.add(REBUILD)
        assert store.load("latest").status is RunStatus.INCOMPLETE
        final = journal.finish(replace(journal.record, timings=Timings(fio_seconds=3), stamps=("too-few-repeats",)))
    loaded = store.load("20261121")
    assert loaded == final
    assert loaded.cells == (stored,)
    assert loaded.rebuilds == (REBUILD,)
    assert loaded.stamps == ("too-few-repeats",)
    assert loaded.status is RunStatus.COMPLETE
    assert isinstance(stored, CellRecord)
    assert store.raw_json(loaded.id, stored.raw_file) == cell().figures.raw_json
    assert sorted(path.name for path in (store.root / loaded.id).iterdir()) == ["lock", "raw", "record.json"]
    with pytest.raises(ResultError, match="is complete"):
        store.resume("latest")


def test_only_an_incomplete_result_of_this_computer_can_be_resumed(store: ResultStore, tmp_path: Path) -> None:
    with store.begin(draft("20261121T100000Z-x")) as journal:
        journal.add(cell())
        journal.finish(status=RunStatus.INCOMPLETE)
    with store.begin(draft("20261122T100000Z-x")) as journal:
        journal.add(cell())
        journal.finish()
    assert store.incomplete("latest").id == "20261121T100000Z-x", "a newer one is complete"
    with pytest.raises(ResultError, match="'20261122T100000Z-x' is complete"):
        store.incomplete("20261122")
    other = ResultStore(tmp_path / "other" / "results")
    export_results(store, ["20261121T100000Z-x"], tmp_path / "x.zip")
    import_results(other, tmp_path / "x.zip")
    with pytest.raises(ResultError, match="was imported"):
        other.incomplete("20261121")
    with pytest.raises(ResultError, match="no result can be resumed"):
        other.incomplete("latest")


def test_the_newest_that_can_be_resumed_is_neither_empty_nor_being_written(store: ResultStore) -> None:
    for day in (21, 22, 23):
        with store.begin(draft(f"202611{day}T100000Z-x")) as journal:
            if day != 22:
                journal.add(cell())
    with store.resume("20261123"):
        assert store.incomplete("latest").id == "20261121T100000Z-x"
    assert store.incomplete("latest").id == "20261123T100000Z-x"


def test_a_cell_counts_if_a_signal_comes_just_after_it_was_stored(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append(journal: Journal[CellRecord], entry: CellRecord) -> None:
        whole(journal, entry)
        raise Interrupted(2)

    whole = Journal.append
    with store.begin(draft()) as journal:
        monkeypatch.setattr(Journal, "append", append)
        with pytest.raises(Interrupted):
            journal.add(cell())
        assert len(journal.record.done_keys) == 1


def test_two_runs_begun_in_the_same_second_have_separate_results(store: ResultStore) -> None:
    with store.begin(draft()) as first, store.begin(draft()) as second:
        second.add(cell())
        first.finish()
    assert (first.record.id, second.record.id) == (draft().id, f"{draft().id}-2")
    assert (len(store.load(first.record.id).cells), len(store.load(second.record.id).cells)) == (0, 1)


def test_an_interrupted_run_resumes_where_it_stopped(store: ResultStore) -> None:
    with store.begin(draft()) as journal:
        journal.add(cell(0))
    path = store.root / draft().id / "cells.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"cell","array":"md0","wor')
    assert len(store.load("latest").cells) == 1
    with store.resume("latest") as journal:
        assert journal.record.missing_keys == ("md0/rand-mix-4k/healthy/1",)
        journal.add(cell(1))
        journal.finish()
    assert store.load("latest").missing_keys == ()
    assert [each.raw_file for each in store.load("latest").cells] == ["raw/0000.json.gz", "raw/0001.json.gz"]


def test_a_run_stored_as_incomplete_can_be_resumed(store: ResultStore) -> None:
    with store.begin(draft()):
        pass
    with store.resume("latest") as journal:
        journal.add(cell(0))
        journal.finish(status=RunStatus.INCOMPLETE)
    assert store.load("latest").resumed_after == (), "it was interrupted before its first cell"
    with store.resume("latest") as journal:
        journal.add(cell(1))
    assert len(store.load("latest").cells) == 2
    assert store.load("latest").resumed_after == (1,)
    with store.resume("latest") as journal:
        journal.finish()
    assert store.load("latest").resumed_after == (1, 2)


def test_newer_and_foreign_records() -> None:
    data = json.loads(encode_record(draft()))
    with pytest.raises(ResultError, match="format 3") as caught:
        decode_record(json.dumps(data | {"schema_version": 3, "cells": "new shape"}).encode(), source="r")
    assert "newer raidlab" in caught.value.hint
    with pytest.raises(ResultError, match="not a raidlab result"):
        decode_record(b'{"kind": "other"}', source="r")


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"1", b"null", DEEP, b'{"x":' + DEEP, b"\xff"], ids=lambda data: repr(data[:6])
)
def test_other_bytes_are_a_damaged_record(data: bytes) -> None:
    with pytest.raises(ResultError, match="damaged"):
        decode_record(data, source="r")


@pytest.mark.parametrize("name", ["fsync", "open"])
def test_on_a_full_or_read_only_disk_the_final_record_can_be_saved_elsewhere(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    number, word = (28, "No space left") if name == "fsync" else (30, "Read-only")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with store.begin(draft()) as journal:
        journal.add(REBUILD)
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(ResultError, match=word):
                journal.add(replace(REBUILD, repeat=1))
            assert journal.record.rebuilds == (REBUILD,)
            with pytest.raises(ResultNotStored, match=word) as caught:
                journal.finish()
            with pytest.raises(ResultError, match=word):
                store.begin(draft("20261122T000000Z-y"))
    assert "saved elsewhere" in caught.value.hint
    saved = decode_record(caught.value.payload, source="bytes")
    assert (saved.status, saved.rebuilds) == (RunStatus.COMPLETE, (REBUILD,))
    assert [each.id for each in store.list()] == [draft().id]
    assert store.load("latest").rebuilds == (REBUILD,)
    assert store.load("latest").status is RunStatus.INCOMPLETE
    assert not list((store.root / draft().id).glob(".*"))


def test_a_record_of_virtual_time_has_no_cpu_account_even_if_its_file_has() -> None:
    made = record(cells=(records.cell("raid5", "w", 0, read_iops=1.0, cpu_microseconds=56.8),))
    assert made.cells[0].cpu
    value = msgspec.to_builtins(made)
    value["conditions"]["is_virtual_time"] = True
    read = decode_record(msgspec.json.encode(value), source="old")
    assert not read.conditions.has_cpu_time
    assert read.cells == (replace(made.cells[0], cpu=None),)


def test_a_result_beside_one_of_its_name_has_the_name_of_its_folder(store: ResultStore) -> None:
    """As results come out of virtual machines; a folder with any other name is rejected."""
    with store.begin(draft()) as journal:
        journal.add(cell())
        journal.finish()
    first = store.root / "20261121T100000Z-x"
    shutil.copytree(first, store.root / f"{first.name}-raidlab2")
    shutil.copytree(first, store.root / "another")
    brought = store.load(f"{first.name}-raidlab2")
    assert brought.id == f"{first.name}-raidlab2"
    assert brought.cells == store.load(first.name).cells
    with pytest.raises(ResultError, match="another result"):
        store.load("another")


TIMELINE = Timeline(
    seconds=(0.0, 0.1),
    read_iops=(None, 75.25),
    write_iops=(None, 0.0),
    wait_seconds=(None, 0.013123),
    rebuilt_fraction=(0.0, 0.5),
    busy_fraction=(None, 0.25),
    members=(MemberRates(name="ubda", read_bytes_per_second=(None, 1e6), written_bytes_per_second=(None, 0.0)),),
)


def test_a_rebuild_is_stored_with_its_timeline_and_a_bundle_carries_it(tmp_path: Path) -> None:
    store, other = (ResultStore(tmp_path / name / "results") for name in "ab")
    with store.begin(record()) as journal:
        journal.add(rebuild("raid1", 0, 3.0), timeline=TIMELINE)
        journal.finish()
    export_results(store, ["latest"], tmp_path / "x.zip")
    import_results(other, tmp_path / "x.zip")
    for each in (store, other):
        (result_id,) = each.ids()
        (stored,) = each.load(result_id).rebuilds
        assert decode_timeline(each.raw_json(result_id, stored.timeline_file), source="x") == TIMELINE


@pytest.mark.parametrize(
    "text", ["", "{", '{"seconds": [0.0]}', encode_timeline(TIMELINE).replace("0.1", "0.1,0.2", 1), "[1]"]
)
def test_an_invalid_or_newer_timeline_is_refused(text: str) -> None:
    with pytest.raises(ResultError, match="'x' is not a timeline"):
        decode_timeline(text, source="x")
    with pytest.raises(ResultError, match="this raidlab supports formats up to 1"):
        decode_timeline(encode_timeline(TIMELINE).replace('"format_version":1', '"format_version":2'), source="x")
