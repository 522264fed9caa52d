"""Run folders: ids, locks, deletion, and what killed commands left; journals, whatever ended their writers."""

from __future__ import annotations

import errno
import multiprocessing
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError, MachineBusy, ResultError
from lab.host.files import ALONE, locked
from lab.store import LATEST, LOCK_NAME, Journal, RecordFile, RecordFiles, RunFolders, stem

NOW = datetime(2026, 11, 21, 10, 1, 29, tzinfo=UTC)


class Header(msgspec.Struct, frozen=True):
    id: str
    format_version: int = 1


def folders(root: Path) -> RunFolders:
    return RunFolders(root / "runs", "run", ("run.json",), begin_hint="begin one", list_hint="list them")


def begun(runs: RunFolders, word: str = "") -> str:
    with runs.changing():
        run_id = runs.create(stem(NOW, word)).name
    runs.write_header(Header(run_id), run_id)
    return run_id


def _create(root: Path, count: int) -> list[str]:
    return [begun(folders(root)) for _ in range(count)]


def test_processes_started_in_the_same_second_have_separate_runs(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:
        made = [name for names in pool.starmap(_create, [(tmp_path, 5)] * 3) for name in names]
    assert len(set(made)) == 15
    assert set(made) == set(folders(tmp_path).ids())
    assert folders(tmp_path).headers(Header, 1).keys() == set(made)


def test_ids_contain_time_and_title(tmp_path: Path) -> None:
    assert stem(NOW) == "20261121T100129Z"
    assert stem(NOW, "Antioquia quick!") == "20261121T100129Z-antioquia-quick"
    assert stem(NOW, "é" * 300) == "20261121T100129Z"
    assert len(stem(NOW, "x" * 300)) < 128
    runs = folders(tmp_path)
    assert (begun(runs), begun(runs), begun(runs, "b")) == (stem(NOW), f"{stem(NOW)}-2", stem(NOW, "b"))


def test_a_run_is_found_by_id_by_a_unique_beginning_and_as_the_latest(tmp_path: Path) -> None:
    runs = folders(tmp_path)
    with pytest.raises(ResultError, match=r"there is no run in.*\n  next: begin one$"):
        runs.find(LATEST)
    first, second = begun(runs, "a"), begun(runs, "b")
    assert runs.find(first) == first
    assert runs.find(second[:-1] + "b") == second
    assert runs.find(LATEST) == second
    with pytest.raises(ResultError, match="matches 2 runs"):
        runs.find("2026")
    for word in ("zzz", "", "../runs", "x\0y", "a" * 5000):
        with pytest.raises(ResultError) as caught:
            runs.find(word)
        assert len(str(caught.value)) < 500
        assert caught.value.hint in ("list them", "give a longer part of the id")
    with pytest.raises(ResultError):
        runs.path("../x")


def test_a_held_run_is_neither_opened_nor_deleted_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.store._POLL_SECONDS", 0.1)
    runs = folders(tmp_path)
    run_id = begun(runs)
    assert not runs.is_held(run_id)
    with runs.held(run_id):
        assert runs.is_held(run_id)
        with pytest.raises(MachineBusy, match="another raidlab is writing"), runs.held(run_id):
            pass
        with pytest.raises(MachineBusy):
            runs.delete(run_id)
    runs.delete(run_id)
    assert runs.ids() == ()


def test_a_damaged_header_hides_no_other(tmp_path: Path) -> None:
    runs = folders(tmp_path)
    good, bad = begun(runs, "good"), begun(runs, "bad")
    (runs.path(bad) / "run.json").write_bytes(b"{")
    assert set(runs.ids()) == {good, bad}
    assert list(runs.headers(Header, 1)) == [good]
    with pytest.raises(ResultError, match="damaged"):
        runs.read_header(bad, Header)


@pytest.mark.parametrize("header", [Header("another"), Header("20261121T100129Z", format_version=2)])
def test_a_header_with_another_id_or_format_hides_no_other(tmp_path: Path, header: Header) -> None:
    runs = folders(tmp_path)
    bad, good = begun(runs), begun(runs, "good")
    runs.write_header(header, bad)
    assert list(runs.headers(Header, 1)) == [good]
    with pytest.raises(ResultError, match="a different format version, or its name is not the id of its run"):
        runs.good_header(bad, Header, 1)


def test_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    runs = folders(tmp_path)
    runs.put("x", [("run.json", b'{"id":"x"}'), ("raw/1", b"old")])

    def broken() -> object:
        yield "run.json", b"{}"
        raise ResultError("it broke off")

    for replaces in (False, True):
        with pytest.raises(ResultError, match="broke off"):
            runs.put("x", broken(), replaces=replaces)  # type: ignore[arg-type]
    with pytest.raises(ResultError, match="cannot be stored"):
        runs.put("x", [("run.json", b"{}")])
    assert (runs.path("x") / "raw" / "1").read_bytes() == b"old"
    runs.put("x", [("run.json", b'{"id":"x"}')], replaces=True)
    assert not (runs.path("x") / "raw").exists()
    assert sorted(path.name for path in runs.root.iterdir()) == [".changing", "x"]


def test_a_directory_in_place_of_a_lock_is_held_by_nobody_and_leaves_no_descriptor_open(tmp_path: Path) -> None:
    runs = folders(tmp_path)
    (runs.path("run-1") / LOCK_NAME).mkdir(parents=True)
    descriptors = Path("/proc/self/fd")
    before = len([*descriptors.iterdir()])
    assert [runs.is_held("run-1") for _ in range(3)] == [False] * 3
    assert len([*descriptors.iterdir()]) == before


def test_leftovers_of_killed_commands_are_removed_unless_a_lock_is_held(tmp_path: Path) -> None:
    runs = folders(tmp_path)
    kept = begun(runs, "kept")
    for name in (".importing-a.1", ".deleting-b.1", f".replacing-{kept}.1", ".replacing-gone.1", "mine"):
        (runs.root / name).mkdir()
    (runs.root / ".replacing-gone.1" / "run.json").write_bytes(b'{"id":"gone"}')
    runs.create(stem(NOW, "empty"))
    (runs.path(kept) / ".run.json.0123456789abcdef.tmp").write_bytes(b"")
    with runs.changing():
        assert runs.remove_leftovers() == []
    with runs.held(kept):
        assert len(runs.remove_leftovers()) == 5
        assert (runs.path(kept) / ".run.json.0123456789abcdef.tmp").exists()
    assert len(runs.remove_leftovers()) == 1
    assert sorted(path.name for path in runs.root.iterdir()) == sorted([".changing", kept, "gone", "mine"])
    with locked(runs.root / ".changing", ALONE):
        assert runs.remove_leftovers() == []


def test_a_folder_with_only_a_lock_is_removed_unless_the_lock_is_held_or_cannot_be_tried(tmp_path: Path) -> None:
    runs = folders(tmp_path)
    with runs.begin(stem(NOW)) as folder:
        assert [path.name for path in folder.iterdir()] == ["lock"]
        assert runs.remove_leftovers() == []
        assert folder.is_dir()
    other = runs.create(stem(NOW, "other"))
    (other / "lock").symlink_to(tmp_path)
    assert runs.remove_leftovers() == [f"removed the empty folder of run '{folder.name}'"]
    assert [path.name for path in runs.root.iterdir() if path.is_dir()] == [other.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_is_unreadable_or_writable_by_others_is_rejected(tmp_path: Path) -> None:
    runs = folders(tmp_path)
    begun(runs)
    runs.root.chmod(0)
    try:
        with pytest.raises(ResultError, match="cannot be read"):
            runs.ids()
    finally:
        runs.root.chmod(0o777)
    with pytest.raises(LabError, match="other users may write"):
        begun(runs)


def test_single_records_have_unique_ids(tmp_path: Path) -> None:
    files = RecordFiles(tmp_path / "files", "record", Header)
    assert [files.add("x", Header).id for _ in range(3)] == ["x", "x-2", "x-3"]
    files.add("y", Header, folder="inner")
    (tmp_path / "files" / "x-3.json").write_bytes(b"{")
    assert dict(files.read()) == {"x": Header("x"), "x-2": Header("x-2")}
    assert dict(files.read("*/*")) == {"y": Header("y")}
    with pytest.raises(LabError):
        files.add("../z", Header)


def test_a_file_is_replaced_and_removed_and_a_damaged_one_is_named_or_left_out(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "x.json", Header, LabError)
    assert (file.read(), file.read_or(0)) == (None, 0)
    file.replace(Header("a"))
    assert file.path.read_bytes() == b'{"id":"a","format_version":1}'
    assert file.read() == file.read_or(0) == Header("a")
    RecordFile(file.path, Header, indent=1).replace(Header("b", 2))
    assert file.path.read_bytes() == b'{\n "id": "b",\n "format_version": 2\n}'
    file.path.write_bytes(b"{")
    with pytest.raises(LabError, match=r"x\.json' is damaged"):
        file.read()
    assert file.read_or(0) == 0
    file.replace(None)
    file.replace(None)
    assert file.read() is None


class Entry(msgspec.Struct, frozen=True):
    number: int
    text: str = ""


def journal(folder: Path, *, skips_damaged: bool = False, is_durable: bool = True) -> Journal[Entry]:
    return Journal(folder / "x.jsonl", Entry, skips_damaged=skips_damaged, is_durable=is_durable)


def test_entries_come_back_in_order(tmp_path: Path) -> None:
    entries = [Entry(number, "line\nend") for number in range(3)]
    assert journal(tmp_path).read() == []
    for entry in entries:
        journal(tmp_path).append(entry)
    assert journal(tmp_path).read() == entries


def test_each_entry_and_the_name_of_the_file_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    journal(tmp_path).append(Entry(1))
    journal(tmp_path).append(Entry(2))
    assert synced == ["x.jsonl", tmp_path.name, "x.jsonl"]


@given(cut=st.integers(min_value=0, max_value=200))
def test_wherever_the_last_line_is_torn_the_others_are_read_and_appended_to(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    torn = journal(tmp_path_factory.mktemp("torn"), is_durable=False)
    for number in range(3):
        torn.append(Entry(number, "some text"))
    whole = torn.path.read_bytes()
    torn.path.write_bytes(whole[: min(cut, len(whole))])
    before = torn.read()
    assert before == [Entry(number, "some text") for number in range(torn.path.read_bytes().count(b"\n"))]
    torn.repair()
    torn.append(Entry(9))
    assert torn.read() == [*before, Entry(9)]


def test_a_damaged_line_is_named_or_left_out(tmp_path: Path) -> None:
    journal(tmp_path).append(Entry(1))
    (tmp_path / "x.jsonl").write_bytes(b"{}\n\xff\n" + (tmp_path / "x.jsonl").read_bytes())
    with pytest.raises(ResultError, match=r"line 1 is damaged.*\n  next: "):
        journal(tmp_path).read()
    assert journal(tmp_path, skips_damaged=True).read() == [Entry(1)]


def test_a_full_disk_leaves_existing_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal(tmp_path).append(Entry(1))
    whole = (tmp_path / "x.jsonl").read_bytes()

    def half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:5])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lab.store.write_all", half)
        with pytest.raises(ResultError, match=r"no entry can be stored.*\n.*free some space"):
            journal(tmp_path).append(Entry(2))
    assert (tmp_path / "x.jsonl").read_bytes() == whole
    journal(tmp_path).append(Entry(3))
    assert journal(tmp_path).read() == [Entry(1), Entry(3)]


@pytest.mark.parametrize(("call", "is_durable"), [("close", True), ("close", False), ("fsync", True)])
def test_an_error_that_comes_after_the_write_leaves_existing_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, is_durable: bool
) -> None:
    journal(tmp_path).append(Entry(1))
    real = getattr(os, call)

    def fail(descriptor: int) -> None:
        real(descriptor)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(ResultError, match=r"Disk quota exceeded\n.*your quota is used up"):
            journal(tmp_path, is_durable=is_durable).append(Entry(2))
    assert journal(tmp_path).read() == [Entry(1)]


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b'{"number":1}\n')
    (tmp_path / "x.jsonl").symlink_to(target)
    for use in (journal(tmp_path).read, journal(tmp_path).repair, lambda: journal(tmp_path).append(Entry(1))):
        with pytest.raises(LabError):
            use()
    assert target.read_bytes() == b'{"number":1}\n'
