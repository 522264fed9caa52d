"""Results from outside: exports are complete or do not exist; a bad one is named and stops no other."""

from __future__ import annotations

import gzip
import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.classroom.bundle import KEY_NAME, export_results, load_signer, public_key_of, read_bundle, write_bundle
from lab.errors import ResultError
from lab.gates.files import MOST_DOCUMENT_BYTES, MOST_RECORD_BYTES
from lab.results.record import encode_record
from lab.results.store import ResultStore, checked_id, find_results, import_results, new_id
from lab.units import GIB
from tests.unit.results.test_store import cell, draft

OLD, NEW = "20261121T100000Z-x", "20261122T100000Z-x"
RECORD, DOCUMENT = f"results/{OLD}/record.json", f"results/{OLD}/raw/0000.json.gz"


def measure(
    store: ResultStore, record_id: str = OLD, created_utc: str = "2026-11-21T10:00:00Z", *, cells: int = 1
) -> None:
    with store.begin(replace(draft(record_id), created_utc=created_utc)) as journal:
        for repeat in range(cells):
            journal.add(cell(repeat))
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
    """A bundle as strangers with a key of their own can make it."""
    record = replace(draft(record_id), **changes)
    data = write_bundle(
        {record_id: {"record.json": encode_record(record), **files}}, load_signer(file.with_suffix(".pem"))
    )
    file.write_bytes(data)
    return file


ONE_DOCUMENT = {"cells": (replace(cell(0), raw_file="raw/0000.json.gz"),)}


def refuse(store: ResultStore, file: Path, because: str) -> None:
    with pytest.raises(ResultError, match=because):
        import_results(store, file)


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


DAMAGES: dict[str, Callable[[Path], object]] = {
    "torn": lambda path: path.write_bytes(path.read_bytes()[:500]),
    "empty": lambda path: path.write_bytes(b""),
    "pipe": _fifo,
    "folder": _folder,
    "link": lambda path: _link(path, path.rename(path.parent.parent.parent / "r")),
    "dangling link": lambda path: _link(path, Path("/nowhere")),
    "link to a device": lambda path: _link(path, Path("/dev/zero")),
    "huge": lambda path: os.truncate(path, MOST_RECORD_BYTES + 1),
    "another's": lambda path: path.write_bytes(encode_record(draft("../../victim"))),
    "no text": lambda path: path.write_bytes(b"\xff\xfe" * 100),
}
if os.geteuid() != 0:
    DAMAGES["unreadable folder"] = lambda path: path.parent.chmod(0)


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
    result = list(find_results([str(store.root)], store))
    assert sum(isinstance(each, str) for each in result) == 1
    assert len(result) == 2
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
def test_an_experiment_of_any_name_makes_an_id(experiment: str) -> None:
    assert checked_id(new_id(experiment, datetime(2026, 11, 21, tzinfo=UTC)))


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
    with pytest.raises(ResultError, match="measured here") as caught:
        other.find("latest")
    assert "give an id" in caught.value.hint


def test_a_compression_bomb_in_the_store_is_neither_read_nor_exported(store: ResultStore, tmp_path: Path) -> None:
    (store.root / OLD / "raw/0000.json.gz").write_bytes(gzip.compress(bytes(MOST_DOCUMENT_BYTES + 1)))
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


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("a large directory", "its directory is too large"),
        ("one that inflates", "manifest.json is too large"),
        ("a bomb in a gzip", "larger than 32 MiB unpacked"),
    ],
)
def test_a_hostile_bundle_needs_no_memory(what: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    if what == "a large directory":
        put(file, {f"results/{number:030000}": b"" for number in range(200)})
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
    answer = here.recv()
    assert "b.zip" in answer
    assert reason in answer


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
def test_a_bad_bundle_is_reported_and_the_others_are_listed(flag: int, store: ResultStore, tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    export_results(store, [OLD], folder / "good.zip")
    shutil.copy(folder / "good.zip", folder / "bad.zip")
    with_flag(folder / "bad.zip", flag)
    (folder / "torn.zip").write_bytes((folder / "good.zip").read_bytes()[:500])
    bundle(folder / "newer.zip", NEW, {}, schema_version=99)
    with pytest.raises(ResultError, match="encrypted"):
        read_bundle(folder / "bad.zip")
    found = list(find_results([str(folder), "missing-result"], store))
    assert [isinstance(each, str) for each in found] == [True, False, True, True, True]
    assert any("result format 99" in str(each) for each in found)


def test_documents_of_a_folder_are_checked_too(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret.gz"
    secret.write_bytes(gzip.compress(b'"secret"'))
    place = store.root / OLD / "raw" / "0000.json.gz"
    for target in (None, secret):
        place.write_bytes(b"no gzip") if target is None else _link(place, target)
        with pytest.raises(ResultError):
            import_results(other, store.root)
        (found,) = find_results([str(store.root)], other)
        assert isinstance(found, str)
    place.unlink()
    place.parent.rmdir()
    (tmp_path / "raw").mkdir()
    shutil.copy(secret, tmp_path / "raw" / "0000.json.gz")
    (store.root / OLD / "raw").symlink_to(tmp_path / "raw")
    with pytest.raises(ResultError):
        store.raw_json(OLD, "raw/0000.json.gz")


@pytest.fixture
def two(tmp_path: Path) -> ResultStore:
    """One complete result with two documents of fio, and one that broke off."""
    made = ResultStore(tmp_path / "here")
    measure(made, cells=2)
    with made.begin(draft("20261121T110000Z-x")) as journal:
        journal.add(cell(0))
    return made


def export(two: ResultStore, tmp_path: Path, *names: str) -> Path:
    file = tmp_path / "results.zip"
    export_results(two, names or ("20261121T10",), file)
    return file


def test_a_result_comes_back_word_for_word(two: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    new, known = import_results(other, export(two, tmp_path, "20261121T10", "20261121T11"))
    assert new == ("20261121T100000Z-x", "20261121T110000Z-x")
    assert known == ()
    for name in new:
        record = other.load(name)
        assert record == two.load(name)
        for each in record.cells:
            assert other.raw_json(name, each.raw_file) == two.raw_json(name, each.raw_file) != ""


def test_a_second_export_is_the_same_and_a_second_import_changes_nothing(
    two: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    file = export(two, tmp_path)
    first = file.read_bytes()
    assert export(two, tmp_path).read_bytes() == first
    import_results(other, file)
    assert import_results(other, file) == ((), ("20261121T100000Z-x",))


def test_another_result_with_the_same_id_is_not_overwritten(
    two: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    measure(other, cells=0)
    before = other.load("latest")
    refuse(other, export(two, tmp_path), "a different result")
    assert other.load("latest") == before


def test_folders_copied_from_another_computer_are_imported(two: ResultStore, other: ResultStore) -> None:
    assert import_results(other, two.root)[0] == ("20261121T100000Z-x", "20261121T110000Z-x")
    shutil.rmtree(other.root)
    assert import_results(other, two.root / "20261121T110000Z-x")[0] == ("20261121T110000Z-x",)


def contents_of(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put(file: Path, contents: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def rewrite(file: Path, change: str, data: bytes) -> None:
    """Replace one file of the archive."""
    put(file, {**contents_of(file), change: data})


def manifest_with(file: Path, **changes: object) -> bytes:
    return json.dumps({**json.loads(contents_of(file)["manifest.json"]), **changes}).encode()


@pytest.mark.parametrize(
    "place", ["results/x/../../../evil", "/etc/passwd", "results/x/raw/../../y", "results/x/other.txt", "record.json"]
)
def test_places_outside_a_result_are_refused(place: str, two: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    file = export(two, tmp_path)
    resign(file, two, {place: b"x"}, sha256={place: hashlib.sha256(b"x").hexdigest()})
    refuse(other, file, "does not belong to a result")


def test_a_newer_format_and_strange_files_are_refused(two: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    file = export(two, tmp_path)
    rewrite(file, "manifest.json", manifest_with(file, format_version=99))
    refuse(other, file, "export format 99")
    rewrite(file, "manifest.json", manifest_with(file, kind="holiday-pictures"))
    refuse(other, file, "not a raidlab export")
    for name, data in (("a.zip", b"PK\x03\x04 torn"), ("b.zip", b""), ("c.json", b"{}")):
        (tmp_path / name).write_bytes(data)
        refuse(other, tmp_path / name, "not a raidlab export")
    refuse(other, tmp_path / "nowhere.zip", "cannot be read")


def resign(file: Path, two: ResultStore, contents: dict[str, bytes], **changes: object) -> None:
    """What someone with a key can make: only these files, and a signed manifest."""
    manifest = manifest_with(file, **changes)
    put(
        file,
        {**contents, "manifest.json": manifest, "manifest.sig": load_signer(two.root.parent / KEY_NAME).sign(manifest)},
    )


def edited(file: Path) -> bytes:
    return contents_of(file)[RECORD].replace(b'"uml:"', b'"UML:"')


def edit(file: Path) -> None:
    rewrite(file, RECORD, edited(file))


def edit_a_document(file: Path) -> None:
    rewrite(file, DOCUMENT, gzip.compress(b"{}"))


def leave_out_a_document(file: Path) -> None:
    """Signed again by a stranger."""
    contents = contents_of(file)
    manifest = json.loads(contents["manifest.json"])
    del contents[DOCUMENT], manifest["sha256"][DOCUMENT]
    signer = load_signer(file.with_suffix(".pem"))
    contents["manifest.json"] = json.dumps({**manifest, "public_key": public_key_of(signer)}).encode()
    contents["manifest.sig"] = signer.sign(contents["manifest.json"])
    put(file, contents)


def edit_with_its_checksum(file: Path) -> None:
    sums = json.loads(contents_of(file)["manifest.json"])["sha256"]
    sums[RECORD] = hashlib.sha256(edited(file)).hexdigest()
    edit(file)
    rewrite(file, "manifest.json", manifest_with(file, sha256=sums))


def sign_with_another_key(file: Path) -> None:
    stranger = load_signer(file.parent / "stranger" / "key.pem")
    rewrite(file, "manifest.sig", stranger.sign(contents_of(file)["manifest.json"]))


def unsign(file: Path) -> None:
    put(file, {name: data for name, data in contents_of(file).items() if name != "manifest.sig"})


def unsign_as_an_old_format(file: Path) -> None:
    unsign(file)
    rewrite(file, "manifest.json", manifest_with(file, format_version=1))


def slip_in_a_file(file: Path) -> None:
    rewrite(file, f"results/{OLD}/raw/0099.json.gz", b"x")


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (edit, f"checksum of {RECORD} is wrong"),
        (edit_a_document, "checksum of .*gz is wrong"),
        (leave_out_a_document, "lacks raw/0000"),
        (edit_with_its_checksum, "was edited: its signature does not match"),
        (sign_with_another_key, "signature does not match"),
        (unsign, "signature is missing"),
        (unsign_as_an_old_format, "is not signed"),
        (slip_in_a_file, "was edited: it also contains results/20261121T100000Z-x/raw/0099"),
    ],
)
def test_a_changed_bundle_is_noticed_and_nothing_is_stored(
    change: Callable[[Path], None], because: str, two: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    file = export(two, tmp_path)
    change(file)
    refuse(other, file, because)
    assert not other.root.exists()
    (found,) = find_results([str(file)], other)
    assert isinstance(found, str), "it is not compared either"


def test_a_key_is_made_once_and_private_and_a_damaged_one_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key.pem"
    first = load_signer(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert public_key_of(load_signer(path)) == public_key_of(first)
    path.chmod(0o644)
    with pytest.raises(ResultError, match="other users can read") as caught:
        load_signer(path)
    assert "chmod 600" in caught.value.hint
    path.write_text("no key")
    path.chmod(0o600)
    with pytest.raises(ResultError, match="is not a raidlab key"):
        load_signer(path)


def test_a_truncated_file_stores_nothing(two: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    data = export(two, tmp_path).read_bytes()
    for length in range(0, len(data), max(1, len(data) // 40)):
        (tmp_path / "torn.zip").write_bytes(data[:length])
        with pytest.raises(ResultError):
            import_results(other, tmp_path / "torn.zip")
    assert not other.root.exists()
