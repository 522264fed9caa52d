"""The lab's own files and folders belong to this user alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.errors import LabError, ResultError
from lab.gates.decoding import read_own_json
from lab.gates.files import MOST_OWN_BYTES, check_own_folder, make_own_folder


@pytest.fixture(autouse=True)
def wide_open() -> Iterator[None]:
    """Without a umask, modes depend on the gate alone."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_created_folders_are_private_from_the_first_missing_one_on(tmp_path: Path) -> None:
    root = tmp_path / "share" / "state"
    make_own_folder(root / "labs" / "default", "it", root=root)
    made = [root.parent, root, root / "labs", root / "labs" / "default"]
    assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700] * 4


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
@pytest.mark.parametrize("level", ["", "labs", "labs/default"])
def test_a_folder_in_which_others_may_write_is_refused(tmp_path: Path, mode: int, level: str) -> None:
    folder = tmp_path / "state" / "labs" / "default"
    make_own_folder(folder, "it", root=tmp_path / "state")
    (tmp_path / "state" / level).chmod(mode)
    with pytest.raises(
        LabError, match=f"other users may write to it .*\n.*chmod -R go-w '{tmp_path / 'state' / level}'"
    ):
        make_own_folder(folder, "it", root=tmp_path / "state")
    (tmp_path / "state" / level).chmod(0o755)
    make_own_folder(folder, "it", root=tmp_path / "state")


def test_a_folder_of_another_user_is_refused_and_roots_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = 1000 if os.geteuid() == 0 else os.geteuid()
    tmp_path.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(tmp_path, owner, owner)
        with pytest.raises(LabError, match="belongs to another user"):
            check_own_folder(tmp_path, "it")
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(
        LabError, match=rf"it {tmp_path} belongs to another user \(number {owner}\)\n.*RAIDLAB_STATE=FOLDER"
    ):
        check_own_folder(tmp_path, "it")
    check_own_folder(Path("/usr"), "it")


def test_only_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "state").symlink_to("real")
    make_own_folder(tmp_path / "state" / "labs", "it", root=tmp_path / "state")
    (tmp_path / "real" / "labs" / "x").symlink_to(tmp_path)
    with pytest.raises(LabError, match="x is a link"):
        make_own_folder(tmp_path / "state" / "labs" / "x", "it", root=tmp_path / "state")
    (tmp_path / "lost").symlink_to("nowhere")
    with pytest.raises(LabError, match="lost is a link to a missing folder"):
        make_own_folder(tmp_path / "lost", "it")
    assert not (tmp_path / "nowhere").exists()


def link(path: Path) -> None:
    path.with_name("other").write_text("1")
    path.symlink_to("other")


def twin(path: Path) -> None:
    path.with_name("other").write_text("1")
    path.hardlink_to(path.with_name("other"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (link, "is a link to another file"),
        (twin, "a hard link"),
        (os.mkfifo, "is a pipe"),
        (Path.mkdir, "is a folder"),
        (lambda path: os.truncate(os.open(path, os.O_WRONLY | os.O_CREAT), MOST_OWN_BYTES + 1), "is larger than 4 MiB"),
        (lambda path: path.write_text("[" * 100_000), "is damaged"),
        (lambda path: path.write_bytes(b'"\xff"'), "is damaged"),
        (lambda path: path.write_text("9" * 5000), "is damaged"),
        (lambda path: path.write_text('"text"'), "is damaged"),
        (lambda path: path.write_text(""), "is damaged"),
    ],
)
def test_a_note_that_is_not_the_labs_own_or_damaged_is_one_error(
    tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    make(tmp_path / "note.json")
    with pytest.raises(ResultError, match=words) as caught:
        read_own_json(tmp_path / "note.json", int)
    assert "note.json" in caught.value.message
    assert "move it elsewhere" in caught.value.hint or "check the path" in caught.value.hint


def test_a_note_is_read_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text('{"old": 1}')
    found = read_own_json(tmp_path / "note.json", dict[str, int], converted=lambda tree: {"new": tree["old"]})
    assert found == {"new": 1}
    with pytest.raises(FileNotFoundError):
        read_own_json(tmp_path / "other.json", int)
