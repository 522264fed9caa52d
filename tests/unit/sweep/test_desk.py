"""The desk of sweeps, and their folders."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.errors import MachineBusy, ResultError, RunCancelled
from lab.experiments.sweeps import LatestCell, SweepProgress
from lab.machine import Host, parse_target
from lab.sweep.cells import PlannedCell, SweepStore, cell_store
from lab.sweep.grid import FailedCell
from lab.sweep.schema import built_in_names, find_sweep
from lab.sweep.service import LocalDesk, SweepRequest
from tests.unit.disks.machines import host_in


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_in(tmp_path / "state")


def desk(host: Host) -> LocalDesk:
    return LocalDesk(parse_target("uml:"), host)


def begun(host: Host) -> Any:
    sweep, text = find_sweep("chunks")
    cells = (PlannedCell(key="a" * 64, label="one"), PlannedCell(key="b" * 64, label="two"))
    return SweepStore(host).begin(sweep, text, cells, is_virtual_time=True)


def test_built_in_sweeps_are_listed_first_and_then_those_that_were_run(host: Host) -> None:
    assert [each.name for each in desk(host).entries()] == list(built_in_names())
    folder = begun(host)
    folder.report_progress(SweepProgress(done=0, planned=2, is_over=True))
    put(host, "a" * 64)
    entries = desk(host).entries()
    assert [each.name for each in entries] == [*built_in_names(), folder.id]
    assert entries[-1].state == "1 of 2, interrupted"
    assert "level: raid5" in entries[-1].axes
    # One that cannot be read does not hide the others.
    (folder.path / "sweep.json").write_text("{")
    assert [each.name for each in desk(host).entries()] == list(built_in_names())


def test_the_newest_run_of_the_same_file_is_found_by_either_name(host: Host) -> None:
    assert desk(host).newest_run("chunks") == ""
    folder = begun(host)
    assert desk(host).newest_run("chunks") == folder.id
    assert desk(host).newest_run(folder.id) == folder.id
    assert desk(host).newest_run("levels") == ""
    with pytest.raises(ResultError):
        desk(host).newest_run("nothing")


def test_a_run_in_the_other_time_is_not_resumed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begun(host)
    asked: list[bool] = []

    def planned(_sweep: object, _text: object, request: SweepRequest) -> None:
        asked.append(request.target.is_virtual_time)
        raise RunCancelled("seen")

    monkeypatch.setattr("lab.sweep.service.plan_sweep", planned)
    for text, name, found, is_virtual in (
        ("uml:", "chunks", folder.id, True),
        ("uml:?time=virtual", "chunks", folder.id, True),
        ("uml:?time=real", "chunks", "", False),
    ):
        other = LocalDesk(parse_target(text), host)
        assert other.newest_run(name) == found
        with pytest.raises(RunCancelled):
            other.work(name)
        assert asked.pop() is is_virtual


def test_a_running_sweep_is_distinguished_from_a_dead_one(host: Host) -> None:
    folder = begun(host)
    latest = (LatestCell(label="one", told="reads 5 IOPS"),)
    with folder.open():
        folder.report_progress(SweepProgress(done=1, planned=2, running=1, latest=latest))
        assert desk(host).going_run("chunks") == folder.id
        status = desk(host).status(folder.id)
        assert status.is_running
        assert status.tables == ()
        assert status.progress is not None
        assert status.progress.latest == latest
    # Its client was killed: it never reported its end, and its lock is free.
    assert desk(host).going_run("chunks") == ""
    assert not desk(host).status(folder.id).is_running


def put(host: Host, key: str) -> None:
    cell_store(host).add(key, b"looked for, not read")


def test_the_existing_cells_of_a_killed_sweep_are_counted(host: Host) -> None:
    folder = begun(host)
    with folder.open():
        assert folder.state_words() == ("", "running")
        folder.report_progress(SweepProgress(done=0, planned=2, running=1, left_seconds=60.0, client=7))
        put(host, "b" * 64)
        put(host, "c" * 64)  # another sweep's
        assert folder.current_progress() == folder.progress
        assert folder.state_words()[0] == "0 of 2"
    assert folder.state_words() == ("1 of 2", "interrupted")
    status = desk(host).status(folder.id).progress
    assert status == SweepProgress(done=1, planned=2, client=7)
    # A failed cell that another sweep has measured since no longer counts as failed.
    for key in "ab":
        folder.failures.append(FailedCell(cell=key * 64, label=key, message="it broke"))
    assert folder.state_words() == ("1 of 2", "1 failed")
    put(host, "a" * 64)
    assert folder.state_words() == ("2 of 2", "complete")
    # A sweep that reports that it is complete is not checked cell by cell.
    folder.report_progress(SweepProgress(done=2, planned=2, is_over=True))
    cell_store(host).path("a" * 64).unlink()
    assert folder.state_words() == ("2 of 2", "complete")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_cells_in_a_folder_that_cannot_be_read_are_not_stored(host: Host) -> None:
    put(host, "a" * 64)
    folder = cell_store(host).path("a" * 64).parent
    folder.chmod(0)
    try:
        assert cell_store(host).keys(["a" * 64]) == set()
    finally:
        folder.chmod(0o700)


def test_the_newest_run_of_the_same_id_is_found(host: Host) -> None:
    sweep, text = find_sweep("chunks")
    store = SweepStore(host)
    assert store.of_id(sweep.id) is None
    begun(host)
    second = begun(host)
    store.begin(msgspec.structs.replace(sweep, id=f"{sweep.id}-more"), text, (), is_virtual_time=True)
    found = store.of_id(sweep.id)
    assert found is not None
    assert found.id == second.id


def test_progress_of_an_earlier_raidlab_is_read(host: Host) -> None:
    folder = begun(host)
    (folder.path / "progress.json").write_text('{"done": 1, "planned": 2}')
    assert folder.progress is not None
    assert folder.progress.latest == ()


def test_a_reader_does_not_prevent_resuming_a_sweep(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begun(host)
    lock = os.open(folder.path / "lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_SH)
    monkeypatch.setattr("lab.store._POLL_SECONDS", 60.0)
    threading.Timer(0.1, os.close, [lock]).start()
    with folder.open():
        monkeypatch.setattr("lab.store._POLL_SECONDS", 0.1)
        again = SweepStore(host).find(folder.id).open()
        with pytest.raises(MachineBusy, match="another raidlab is writing"), again:
            pass


def test_a_folder_in_which_nothing_can_be_locked_is_not_taken_for_a_running_sweep(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begun(host)
    with folder.open():
        assert folder.is_running
        # Two readers may look at once; neither mistakes the other for the sweep.
        assert SweepStore(host).find(folder.id).is_running
    assert not folder.is_running

    def refused(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", refused)
        assert not folder.is_running
    monkeypatch.setattr("os.open", refused)
    assert not folder.is_running


def test_foreign_and_damaged_files_among_sweeps_hide_none_of_them(host: Host) -> None:
    folder, store = begun(host), SweepStore(host)
    for name in ("a b", ".hidden", "x\x1b[31m"):
        (folder.path.parent / name).mkdir()
        (folder.path.parent / name / "sweep.json").write_text("{}")
    assert store.ids() == (folder.id,)
    folder.failures.append(FailedCell(cell="a" * 64, label="one", message="it broke"))
    with (folder.path / "failed.jsonl").open("ab") as file:
        file.write(b'\xff\n{"cell": "b", "la')
    assert [each.label for each in folder.failed()] == ["one"]
    (folder.path / "progress.json").write_text('{"done": 1, "planned": 2, "left_seconds": 1e300}')
    assert folder.state_words() == ("0 of 2", "1 failed, interrupted")
    text = (folder.path / "sweep.json").read_text()
    (folder.path / "sweep.json").write_text(text.replace("a" * 64, "../" * 8))
    with pytest.raises(ResultError, match="is damaged"):
        folder.result()
    assert folder.state_words() == ("", "interrupted")
    root = folder.path.parent
    root.rename(root.with_name("elsewhere"))
    root.write_text("a file")
    assert store.ids() == ()
