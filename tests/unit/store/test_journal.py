"""Journals: what was appended is there, whatever ended the writer."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError, ResultError
from lab.store import Journal


class Entry(msgspec.Struct, frozen=True):
    number: int
    text: str = ""


def journal(folder: Path, *, skips_damaged: bool = False) -> Journal[Entry]:
    return Journal(folder / "x.jsonl", Entry, skips_damaged=skips_damaged)


def test_entries_come_back_in_order(tmp_path: Path) -> None:
    entries = [Entry(number, "line\nend") for number in range(3)]
    assert journal(tmp_path).read() == []
    for entry in entries:
        journal(tmp_path).append(entry)
    assert journal(tmp_path).read() == entries
    journal(tmp_path).remove()
    journal(tmp_path).remove()
    assert journal(tmp_path).read() == []


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
    folder = tmp_path_factory.mktemp("torn")
    for number in range(3):
        journal(folder).append(Entry(number, "some text"))
    path = folder / "x.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: min(cut, len(whole))])
    before = journal(folder).read()
    assert before == [Entry(number, "some text") for number in range(path.read_bytes().count(b"\n"))]
    journal(folder).repair()
    journal(folder).append(Entry(9))
    assert journal(folder).read() == [*before, Entry(9)]


def test_a_damaged_line_is_named_or_left_out(tmp_path: Path) -> None:
    journal(tmp_path).append(Entry(1))
    (tmp_path / "x.jsonl").write_bytes(b"{}\n\xff\n" + (tmp_path / "x.jsonl").read_bytes())
    with pytest.raises(ResultError, match="line 1 is damaged") as caught:
        journal(tmp_path).read()
    assert caught.value.hint
    assert journal(tmp_path, skips_damaged=True).read() == [Entry(1)]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal(tmp_path).append(Entry(1))
    whole = (tmp_path / "x.jsonl").read_bytes()

    def half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:5])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lab.host.files.write_all", half)
        with pytest.raises(ResultError, match="no entry can be stored") as caught:
            journal(tmp_path).append(Entry(2))
    assert "free some space" in caught.value.hint
    assert (tmp_path / "x.jsonl").read_bytes() == whole
    journal(tmp_path).append(Entry(3))
    assert journal(tmp_path).read() == [Entry(1), Entry(3)]


def test_what_is_not_our_own_file_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b'{"number":1}\n')
    (tmp_path / "x.jsonl").symlink_to(target)
    for use in (journal(tmp_path).read, journal(tmp_path).repair, lambda: journal(tmp_path).append(Entry(1))):
        with pytest.raises(LabError):
            use()
    assert target.read_bytes() == b'{"number":1}\n'
