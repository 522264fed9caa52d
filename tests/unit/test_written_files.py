from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.errors import ResultError
from lab.host import files
from lab.host.files import ALONE, advice, create_file, locked, open_to_append, take_byte, write_file
from tests.waiting import PATIENCE_SECONDS


def refusal(number: int) -> Callable[..., None]:
    """A system call that fails with this error."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


@pytest.mark.parametrize("is_named", [True, False])
def test_a_pipe_is_written_to_and_not_replaced_also_where_it_is_full(tmp_path: Path, is_named: bool) -> None:
    """By its name, and by its descriptor, which is non-blocking."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # The writer needs a reader; opening a named pipe for both directions does not wait for a writer.
    theirs, ours = (os.open(pipe, os.O_RDWR), -1) if is_named else os.pipe()
    if not is_named:
        os.set_blocking(ours, False)
    # More than a pipe holds.
    data, read = os.urandom(300_000), bytearray()

    def drain() -> None:
        while len(read) < len(data):
            read.extend(os.read(theirs, 65536))

    reader = threading.Thread(target=drain)
    reader.start()
    write_file(pipe if is_named else Path(f"/dev/fd/{ours}"), data)
    reader.join(PATIENCE_SECONDS)
    os.close(theirs)
    if not is_named:
        os.close(ours)
    assert read == data
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_without_a_reader_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ResultError, match="cannot be written"):
        write_file(tmp_path / "pipe", b"data")


def test_a_terminal_is_written_to_and_not_replaced() -> None:
    ours, theirs = os.openpty()
    # Nobody, root included, can put a file into the folder of terminals: if this fails, nothing is harmed.
    terminal = Path(os.ttyname(theirs))
    try:
        write_file(terminal, b"data")
        assert os.read(ours, 100) == b"data"
        assert stat.S_ISCHR(terminal.stat().st_mode)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_disk_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"all that there was")
    status = list(disk.stat())
    status[stat.ST_MODE] = stat.S_IFBLK | 0o660
    monkeypatch.setattr(Path, "stat", lambda *_, **__: os.stat_result(status))
    with pytest.raises(ResultError, match="it is a disk"):
        write_file(disk, b"data")
    assert disk.read_bytes() == b"all that there was"


@pytest.mark.parametrize("how", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_an_open_file_of_this_process_is_written_at_its_position(tmp_path: Path, how: str) -> None:
    """As with ``-o /dev/stdout >> file``."""
    file = tmp_path / "file"
    file.write_bytes(b"before ")
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    path = Path(how.format(descriptor))
    if how == "link":
        path = tmp_path / "stdout"
        path.symlink_to(f"/proc/self/fd/{descriptor}")
    write_file(path, b"data")
    os.close(descriptor)
    assert file.read_bytes() == b"before data"


def test_a_pipe_of_another_user_is_refused_though_it_has_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "all.zip")
    reader = os.open(tmp_path / "all.zip", os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(files, "_is_ours", lambda found: False)
    with pytest.raises(ResultError, match="a pipe of another user has this name"):
        write_file(tmp_path / "all.zip", b"data")
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_what_another_user_made_of_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "theirs")
    reader = os.open(tmp_path / "theirs", os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(files, "_is_ours", lambda found: not stat.S_ISLNK(found.st_mode))
    for target in (str(tmp_path / "theirs"), "/proc/self/fd/1", str(tmp_path / "nothing"), "all.zip"):
        path = tmp_path / "all.zip"
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        write_file(path, b"data")
        assert (path.is_symlink(), path.read_bytes()) == (False, b"data"), target
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_file_is_replaced_and_not_written_into(tmp_path: Path) -> None:
    """Also another user's file in a shared folder: the new file is mine, and theirs stays as it was."""
    (tmp_path / "all.zip").write_bytes(b"theirs")
    (tmp_path / "link").hardlink_to(tmp_path / "all.zip")
    theirs = os.open(tmp_path / "all.zip", os.O_RDWR)
    write_file(tmp_path / "all.zip", b"mine")
    os.pwrite(theirs, b"changed", 0)
    os.close(theirs)
    assert (tmp_path / "all.zip").read_bytes() == b"mine"
    assert (tmp_path / "link").read_bytes() == b"changed"


@pytest.mark.parametrize("trap", ["file", "pipe", "link"])
def test_a_temporary_file_that_already_exists_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    monkeypatch.setattr("lab.host.files.secrets.token_hex", lambda size: "0" * size)
    foreseen = tmp_path / ".all.zip.00000000.tmp"
    (tmp_path / "aim").write_bytes(b"as it was")
    if trap == "pipe":
        os.mkfifo(foreseen)
    elif trap == "link":
        foreseen.symlink_to("aim")
    else:
        foreseen.touch()
    with pytest.raises(ResultError, match="File exists"):
        write_file(tmp_path / "all.zip", b"data")
    assert not (tmp_path / "all.zip").exists()
    assert (tmp_path / "aim").read_bytes() == b"as it was"


def test_the_name_of_a_temporary_file_is_random_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set[str]()

    def look(*_: object) -> None:
        seen.update(each.name for each in tmp_path.iterdir())

    monkeypatch.setattr(os, "fsync", look)
    for _ in range(20):
        write_file(tmp_path / "x", b"data")
    assert len(seen) == 21
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_a_folder_that_is_exchanged_meanwhile_gets_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").mkdir()
    fsync = os.fsync

    def exchange(descriptor: int) -> None:
        if not (tmp_path / "away").exists():
            (tmp_path / "folder").rename(tmp_path / "away")
            (tmp_path / "other").rename(tmp_path / "folder")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", exchange)
    write_file(tmp_path / "folder" / "x", b"data")
    assert (tmp_path / "away" / "x").read_bytes() == b"data"
    assert [each.name for folder in ("away", "folder") for each in (tmp_path / folder).iterdir()] == ["x"]


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o002, 0o000])
def test_written_files_are_never_writable_by_others(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_file(tmp_path / "x", b"data")
        create_file(tmp_path / "y", b"data")
        os.close(open_to_append(tmp_path / "z"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o644 & ~umask
    assert {stat.S_IMODE((tmp_path / each).stat().st_mode) for each in "yz"} == {0o600}


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127])
def test_a_name_as_long_as_names_may_be(tmp_path: Path, name: str) -> None:
    write_file(tmp_path / name, b"data")
    assert (tmp_path / name).read_bytes() == b"data"


@pytest.mark.parametrize("number", [0, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_of_two_that_make_a_file_one_stays_also_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    if number:
        monkeypatch.setattr(os, "link", refusal(number))
    assert create_file(tmp_path / "key", b"first")
    assert not create_file(tmp_path / "key", b"second")
    assert (tmp_path / "key").read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_a_file_that_cannot_be_finished_without_hard_links_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def fill_up(descriptor: int, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_all", fill_up)
    monkeypatch.setattr(os, "link", refusal(errno.EPERM))
    with pytest.raises(OSError, match="No space"):
        create_file(tmp_path / "key", b"first")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("fcntl.flock", refusal(number))
    monkeypatch.setattr("fcntl.fcntl", refusal(number))
    with pytest.raises(OSError, match="does not support locks") as caught, locked(tmp_path / "lock", ALONE):
        pass
    assert str(tmp_path / "lock") in str(caught.value)
    assert "RAIDLAB_STATE" in advice(caught.value, "")
    with open(tmp_path / "lock", "rb") as file, pytest.raises(OSError, match="does not support locks"):
        take_byte(file.fileno(), 1, tmp_path / "lock")


def _with_new_file(path: Path, data: bytes) -> None:
    with files.new_file(path) as inner:
        inner.write_bytes(data)


WRITERS: dict[str, Callable[[Path, bytes], object]] = {
    "replace": files.replace_file,
    "replace, not durable": partial(files.replace_file, is_durable=False),
    "create": create_file,
    "create, without links": create_file,
    "new": _with_new_file,
}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("how", "call"),
    [(how, call) for how in WRITERS for call in ("close", "fsync") if "not durable" not in how or call == "close"],
)
def test_an_error_that_comes_after_the_write_is_an_error_and_nothing_is_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, call: str, number: int
) -> None:
    target, real = tmp_path / "record.json", getattr(os, call)
    before = [] if how.startswith("create") else [b"before"]
    for data in before:
        target.write_bytes(data)
    if how == "create, without links":
        monkeypatch.setattr(os, "link", refusal(errno.EPERM))

    def fail(descriptor: int) -> None:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        real(descriptor)
        if is_file:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        WRITERS[how](target, b"after")
    monkeypatch.undo()
    assert [each.read_bytes() for each in tmp_path.iterdir()] == before


def test_a_write_error_at_close_of_standard_output_fails_the_command(tmp_path: Path) -> None:
    code = """
import errno, os, sys
from lab.cli import main
from lab.host import files

def full(descriptor):
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

files.require_written = main.streams.require_written = full
sys.exit(main.run())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "workloads"],
        capture_output=True,
        text=True,
        env={**os.environ, "RAIDLAB_STATE": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 1
    assert "cannot write to standard output: Disk quota exceeded\n  next: your quota is used up" in done.stderr
