"""Exports: whole or not at all, both ways."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from lab.classroom.bundle import export_results, load_signer, read_bundle, signer_of
from lab.errors import ResultError
from lab.results.store import ResultStore, import_results
from tests.unit.results.test_store import cell, draft


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """One complete result with two documents of fio, and one that broke off."""
    made = ResultStore(tmp_path / "here")
    with made.begin(draft("20261121T100000Z-x")) as journal:
        journal.add(cell(0))
        journal.add(cell(1))
        journal.finish()
    with made.begin(draft("20261121T110000Z-x")) as journal:
        journal.add(cell(0))
    return made


@pytest.fixture
def other(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "there")


def export(store: ResultStore, tmp_path: Path, *names: str) -> Path:
    file = tmp_path / "results.zip"
    export_results(store, names or ("20261121T10",), file)
    return file


def test_a_result_comes_back_word_for_word(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    new, known = import_results(other, export(store, tmp_path, "20261121T10", "20261121T11"))
    assert new == ("20261121T100000Z-x", "20261121T110000Z-x")
    assert known == ()
    for name in new:
        record = other.load(name)
        assert record == store.load(name)
        for each in record.cells:
            assert other.raw_json(name, each.raw_file) == store.raw_json(name, each.raw_file) != ""


def test_taking_it_in_twice_changes_nothing(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    file = export(store, tmp_path)
    import_results(other, file)
    assert import_results(other, file) == ((), ("20261121T100000Z-x",))


def test_the_same_results_make_the_same_file(store: ResultStore, tmp_path: Path) -> None:
    first = export(store, tmp_path).read_bytes()
    assert export(store, tmp_path).read_bytes() == first


def test_another_result_of_the_same_id_is_kept(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    with other.begin(draft("20261121T100000Z-x")) as journal:
        journal.finish()
    before = other.load("latest")
    with pytest.raises(ResultError, match="there is another result"):
        import_results(other, export(store, tmp_path))
    assert other.load("latest") == before


def test_folders_copied_from_another_computer_are_taken_in(store: ResultStore, other: ResultStore) -> None:
    assert import_results(other, store.root)[0] == ("20261121T100000Z-x", "20261121T110000Z-x")
    shutil.rmtree(other.root)
    assert import_results(other, store.root / "20261121T110000Z-x")[0] == ("20261121T110000Z-x",)


def rewrite(file: Path, change: str, data: bytes) -> None:
    """Put another content under one name of the archive."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents[change] = data
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def manifest_with(file: Path, **changes: object) -> bytes:
    with zipfile.ZipFile(file) as archive:
        return json.dumps({**json.loads(archive.read("manifest.json")), **changes}).encode()


def test_a_changed_byte_is_noticed_and_nothing_is_stored(
    store: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    file = export(store, tmp_path)
    place = "results/20261121T100000Z-x/record.json"
    with zipfile.ZipFile(file) as archive:
        data = archive.read(place)
    rewrite(file, place, data.replace(b'"uml:"', b'"UML:"'))
    with pytest.raises(ResultError, match=f"checksum of {place} is wrong"):
        import_results(other, file)
    assert not other.root.exists()


@pytest.mark.parametrize(
    "place", ["results/x/../../../evil", "/etc/passwd", "results/x/raw/../../y", "results/x/other.txt", "record.json"]
)
def test_places_outside_a_result_are_refused(
    place: str, store: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    file = export(store, tmp_path)
    resign(file, store, {place: b"x"}, sha256={place: hashlib.sha256(b"x").hexdigest()})
    with pytest.raises(ResultError, match="belongs to no result"):
        import_results(other, file)


def test_a_newer_format_and_strange_files_are_refused(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    file = export(store, tmp_path)
    rewrite(file, "manifest.json", manifest_with(file, format_version=99))
    with pytest.raises(ResultError, match="export format 99"):
        import_results(other, file)
    rewrite(file, "manifest.json", manifest_with(file, kind="holiday-pictures"))
    with pytest.raises(ResultError, match="not a raidlab export"):
        import_results(other, file)
    for name, data in (("a.zip", b"PK\x03\x04 torn"), ("b.zip", b""), ("c.json", b"{}")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ResultError, match="not a raidlab export"):
            import_results(other, tmp_path / name)
    with pytest.raises(ResultError, match="cannot be read"):
        import_results(other, tmp_path / "nowhere.zip")


def resign(file: Path, store: ResultStore, contents: dict[str, bytes], **changes: object) -> None:
    """What someone with a key may make: these files only, and a manifest that is signed."""
    manifest = manifest_with(file, **changes)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        archive.writestr("manifest.json", manifest)
        archive.writestr("manifest.sig", signer_of(store).sign(manifest))


RECORD = "results/20261121T100000Z-x/record.json"


def test_an_edit_is_found_even_with_its_checksum_put_right(
    store: ResultStore, other: ResultStore, tmp_path: Path
) -> None:
    file = export(store, tmp_path)
    with zipfile.ZipFile(file) as archive:
        edited = archive.read(RECORD).replace(b'"uml:"', b'"UML:"')
        sums = json.loads(archive.read("manifest.json"))["sha256"]
    rewrite(file, RECORD, edited)
    sums[RECORD] = hashlib.sha256(edited).hexdigest()
    rewrite(file, "manifest.json", manifest_with(file, sha256=sums))
    with pytest.raises(ResultError, match="was edited: its signature does not match"):
        import_results(other, file)


def test_a_signature_of_another_key_does_not_fit(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    file = export(store, tmp_path)
    with zipfile.ZipFile(file) as archive:
        manifest = archive.read("manifest.json")
    rewrite(file, "manifest.sig", load_signer(tmp_path / "stranger" / "key.pem").sign(manifest))
    with pytest.raises(ResultError, match="signature does not match"):
        import_results(other, file)


def test_without_a_signature_nothing_is_taken_in(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    file = export(store, tmp_path)
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist() if name != "manifest.sig"}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with pytest.raises(ResultError, match="signature is gone"):
        import_results(other, file)
    rewrite(file, "manifest.json", manifest_with(file, format_version=1))
    with pytest.raises(ResultError, match="is not signed"):
        import_results(other, file)


def test_a_file_that_was_slipped_in_is_found(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    file = export(store, tmp_path)
    rewrite(file, "results/20261121T100000Z-x/raw/0099.json.gz", b"x")
    with pytest.raises(ResultError, match="was edited: results/20261121T100000Z-x/raw/0099"):
        import_results(other, file)


def test_a_record_is_read_from_a_bundle(store: ResultStore, tmp_path: Path) -> None:
    bundle = read_bundle(export(store, tmp_path))
    assert bundle.record("20261121T100000Z-x") == store.load("20261121T100000Z-x")
    assert bundle.key_fingerprint.count("-") == 3


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key.pem"
    first = load_signer(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_signer(path).public_key == first.public_key
    path.chmod(0o644)
    with pytest.raises(ResultError, match="others may read") as caught:
        load_signer(path)
    assert "chmod 600" in caught.value.hint


def test_a_damaged_key_is_told(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text("no key")
    path.chmod(0o600)
    with pytest.raises(ResultError, match="is not a raidlab key"):
        load_signer(path)


def test_a_truncated_file_stores_nothing(store: ResultStore, other: ResultStore, tmp_path: Path) -> None:
    data = export(store, tmp_path).read_bytes()
    for length in range(0, len(data), max(1, len(data) // 40)):
        (tmp_path / "torn.zip").write_bytes(data[:length])
        with pytest.raises(ResultError):
            import_results(other, tmp_path / "torn.zip")
    assert not other.root.exists()
