"""Results that somebody else, an accident or a killed command left: each is taken, or named, and stops no other."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import resource
import shutil
import signal
import zipfile
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

import lab.store
from lab.classroom.bundle import export_results, load_signer, read_bundle, write_bundle
from lab.errors import ResultError
from lab.gates.files import MOST_DOCUMENT_BYTES, MOST_RECORD_BYTES
from lab.results.record import encode_record
from lab.results.store import ResultStore, checked_id, find_results, import_results
from lab.units import GIB
from tests.unit.results.test_store import cell, draft

OLD, NEW = "20261121T100000Z-x", "20261122T100000Z-x"


def measure(store: ResultStore, record_id: str = OLD, created_utc: str = "2026-11-21T10:00:00Z") -> None:
    with store.begin(msgspec.structs.replace(draft(record_id), created_utc=created_utc)) as journal:
        journal.add(cell(0))
        journal.finish()


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    made = ResultStore(tmp_path / "state" / "results")
    measure(made)
    return made


@pytest.fixture
def other(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "other" / "results")


def bundle(file: Path, record_id: str, files: dict[str, bytes], **changes: object) -> Path:
    """What a stranger with a key of their own can make."""
    record = msgspec.structs.replace(draft(record_id), **changes)
    data = write_bundle(
        {record_id: {"record.json": encode_record(record), **files}}, load_signer(file.with_suffix(".pem"))
    )
    file.write_bytes(data)
    return file


ONE_DOCUMENT = {"cells": (msgspec.structs.replace(cell(0), raw_file="raw/0000.json.gz"),)}


def problems_of(store: ResultStore) -> dict[str, str]:
    return {each.id: each.problem for each in store.list()}


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MOST_RECORD_BYTES + 1)


def _unreadable(path: Path) -> None:
    path.parent.chmod(0)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "torn": lambda path: path.write_bytes(path.read_bytes()[:500]),
    "empty": lambda path: path.write_bytes(b""),
    "pipe": _fifo,
    "folder": _folder,
    "link": lambda path: _link(path, path.rename(path.parent.parent.parent / "r")),
    "dangling link": lambda path: _link(path, Path("/nowhere")),
    "link to a device": lambda path: _link(path, Path("/dev/zero")),
    "huge": _huge,
    "another's": lambda path: path.write_bytes(encode_record(draft("../../victim"))),
    "no text": lambda path: path.write_bytes(b"\xff\xfe" * 100),
}
if os.geteuid() != 0:
    DAMAGES["unreadable folder"] = _unreadable


@pytest.mark.parametrize("how", DAMAGES)
def test_a_bad_result_is_listed_with_its_problem_and_hides_no_other(how: str, store: ResultStore) -> None:
    measure(store, NEW)
    DAMAGES[how](store.root / NEW / "record.json")
    found = problems_of(store)
    assert list(found) == [OLD, NEW]
    assert found[NEW]
    assert not found[OLD]
    assert store.find("latest") == OLD
    with pytest.raises(ResultError):
        store.load(NEW)
    told = list(find_results([str(store.root)], store))
    assert sum(isinstance(each, str) for each in told) == 1
    assert len(told) == 2
    (store.root / NEW).chmod(0o700)


@pytest.mark.parametrize(
    "name", ["latest", "LATEST", "x.zip", "x.ZIP", "../x", ".x", "-x", "", "x/y", "x\n", "a" * 129]
)
def test_no_id_means_something_else(name: str, other: ResultStore, tmp_path: Path) -> None:
    with pytest.raises(ResultError):
        checked_id(name)
    with pytest.raises(ResultError):
        import_results(other, bundle(tmp_path / "b.zip", name, {}))
    assert other.list() == ()


@pytest.mark.parametrize("experiment", ["x.zip", "a" * 400, "...", "latest", "Ünï\x1b"])
def test_an_experiment_of_any_name_makes_an_id(experiment: str, other: ResultStore) -> None:
    assert checked_id(other.new_id(experiment))


@pytest.mark.parametrize("name", ["zzz", "20991231T000000Z-x"])
def test_latest_is_the_newest_that_was_measured_here(
    name: str, store: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    import_results(store, bundle(tmp_path / "b.zip", name, {}, created_utc="2099-01-01T00:00:00Z"))
    assert store.find("latest") == OLD
    assert [each.id for each in store.list()] == [OLD, name]
    assert [each.is_imported for each in store.list()] == [False, True]
    measure(store, "20261121T090000Z-later", "2026-11-22T10:00:00Z")
    assert store.find("latest") == "20261121T090000Z-later"
    import_results(other, tmp_path / "b.zip")
    with pytest.raises(ResultError, match="measured here") as told:
        other.find("latest")
    assert "write its id" in told.value.hint


def test_a_bomb_is_neither_taken_in_nor_looked_at(store: ResultStore, tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(MOST_DOCUMENT_BYTES + 1))
    file = bundle(tmp_path / "b.zip", NEW, {"raw/0000.json.gz": bomb}, **ONE_DOCUMENT)
    with pytest.raises(ResultError, match="larger than"):
        import_results(store, file)
    (told,) = find_results([str(file)], store)
    assert "larger than" in str(told)
    assert list(problems_of(store)) == [OLD]
    (store.root / OLD / "raw/0000.json.gz").write_bytes(bomb)
    with pytest.raises(ResultError, match="larger than"):
        store.raw_json(OLD, "raw/0000.json.gz")
    with pytest.raises(ResultError, match="larger than"):
        export_results(store, [OLD], tmp_path / "out.zip")


def _in_little_memory(work: Callable[[], object], said: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
    try:
        work()
    except ResultError as error:
        said.send(error.message)


@pytest.mark.parametrize("what", ["many entries", "one that inflates", "a bomb in a gzip"])
def test_a_hostile_bundle_needs_no_memory(what: str, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    if what == "many entries":
        with zipfile.ZipFile(file, "w") as archive:
            for number in range(100_000):
                archive.writestr(f"results/{number:020}", b"")
    elif what == "one that inflates":
        with (
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open("manifest.json", "w") as entry,
        ):
            for _ in range(1000):
                entry.write(bytes(2**20))
    else:
        bomb = gzip.compress(bytes(2**26)) * 20
        bundle(file, NEW, {"raw/0000.json.gz": bomb}, **ONE_DOCUMENT)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_in_little_memory, args=(partial(read_bundle, file), there))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert here.poll()
    said = here.recv()
    assert "b.zip" in said
    assert "larger than" in said


def with_flag(file: Path, flag: int) -> None:
    """Set a flag of every entry, in the table at the end (APPNOTE.TXT, 4.3.12) and before each file (4.3.7)."""
    data = bytearray(file.read_bytes())
    for sign, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = data.find(sign)
        while at >= 0:
            data[at + place] |= flag
            at = data.find(sign, at + 4)
    file.write_bytes(data)


@pytest.mark.parametrize("flag", [0x1, 0x20, 0x40])
def test_an_encrypted_bundle_is_named_and_the_others_are_told(flag: int, store: ResultStore, tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    export_results(store, [OLD], folder / "good.zip")
    shutil.copy(folder / "good.zip", folder / "bad.zip")
    with_flag(folder / "bad.zip", flag)
    with pytest.raises(ResultError, match="encrypted"):
        read_bundle(folder / "bad.zip")
    told = list(find_results([str(folder)], store))
    assert [isinstance(each, str) for each in told] == [True, False]


def without_document(file: Path) -> None:
    """Signed again by a stranger, a document of fio left out."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    gone = f"results/{OLD}/raw/0000.json.gz"
    manifest = json.loads(contents["manifest.json"])
    del contents[gone], manifest["sha256"][gone]
    signer = load_signer(file.with_suffix(".pem"))
    contents["manifest.json"] = json.dumps({**manifest, "public_key": signer.public_key}).encode()
    contents["manifest.sig"] = signer.sign(contents["manifest.json"])
    _rewrite(file, contents)


def with_edited_document(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents[f"results/{OLD}/raw/0000.json.gz"] = gzip.compress(b"{}")
    _rewrite(file, contents)


def _rewrite(file: Path, contents: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("change", [without_document, with_edited_document])
def test_what_is_not_imported_is_not_compared_either(
    change: Callable[[Path], None], store: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    file = tmp_path / "b.zip"
    export_results(store, [OLD], file)
    change(file)
    with pytest.raises(ResultError, match=r"lacks|checksum"):
        import_results(other, file)
    (told,) = find_results([str(file)], other)
    assert isinstance(told, str)


def test_documents_of_a_folder_are_looked_at_too(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret.gz"
    secret.write_bytes(gzip.compress(b'"secret"'))
    place = store.root / OLD / "raw" / "0000.json.gz"
    for target in (None, secret):
        place.write_bytes(b"no gzip") if target is None else _link(place, target)
        with pytest.raises(ResultError):
            import_results(other, store.root)
        (told,) = find_results([str(store.root)], other)
        assert isinstance(told, str)
    place.unlink()
    place.parent.rmdir()
    (tmp_path / "raw").mkdir()
    shutil.copy(secret, tmp_path / "raw" / "0000.json.gz")
    (store.root / OLD / "raw").symlink_to(tmp_path / "raw")
    with pytest.raises(ResultError):
        store.raw_json(OLD, "raw/0000.json.gz")


def test_what_a_killed_command_left_is_removed_and_told(store: ResultStore) -> None:
    measure(store, NEW)
    root = store.root
    (root / f".importing-{NEW}.4711" / "raw").mkdir(parents=True)
    (root / ".deleting-20200101T000000Z-y").mkdir()
    (root / f".deleting-{OLD}.4711" / "raw").mkdir(parents=True)
    (root / "20261123T100000Z-begun" / "raw").mkdir(parents=True)
    (root / "mine").mkdir()
    (root / "mine" / "notes.txt").write_text("kept")
    store.begin(draft("20261124T100000Z-broken")).close()
    (root / "20261124T100000Z-broken" / "raw" / ".0000.json.gz.4711.tmp").write_bytes(b"x")
    told = store.runs.remove_leftovers()
    assert len(told) == 5
    assert any("killed import" in each and NEW in each for each in told)
    assert sorted(path.name for path in root.iterdir() if path.name != ".changing") == sorted(
        [OLD, NEW, "20261124T100000Z-broken", "mine"]
    )
    assert not list((root / "20261124T100000Z-broken" / "raw").iterdir())
    assert store.runs.remove_leftovers() == []


def test_nothing_of_a_living_command_is_removed(store: ResultStore) -> None:
    part = store.root / f".importing-{NEW}.4711"
    part.mkdir()
    with store.runs.changing():
        assert store.runs.remove_leftovers() == []
        assert part.is_dir()
    with store.begin(draft(NEW)) as journal:
        temporary = journal.folder / ".draft.json.4711.tmp"
        temporary.write_bytes(b"")
        store.runs.remove_leftovers()
        assert temporary.exists()
        assert not part.exists()
    assert len(store.runs.remove_leftovers()) == 1


def _import_slowly(root: Path, file: Path, said: Connection) -> None:
    def wait(*_: object) -> None:
        said.send("importing")
        signal.pause()

    # In a process of its own, which is killed while it waits.
    vars(lab.store)["write_file"] = wait
    import_results(ResultStore(root), file)


def test_an_import_that_is_killed_leaves_nothing_to_the_next_command(
    store: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    file = tmp_path / "b.zip"
    export_results(store, [OLD], file)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_import_slowly, args=(other.root, file, there))
    process.start()
    assert here.recv() == "importing"
    assert other.runs.remove_leftovers() == []
    process.kill()
    process.join()
    assert len(other.runs.remove_leftovers()) == 1
    import_results(other, file)
    assert other.load(OLD) == store.load(OLD)
