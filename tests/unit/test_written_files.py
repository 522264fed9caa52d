from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from lab.errors import ResultError
from lab.host.files import write_file


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # More than a pipe holds: the writer waits for its reader, which holds it open from both sides.
    data, read = os.urandom(300_000), bytearray()
    descriptor = os.open(pipe, os.O_RDWR)

    def drain() -> None:
        while len(read) < len(data):
            read.extend(os.read(descriptor, 65536))

    reader = threading.Thread(target=drain)
    reader.start()
    write_file(pipe, data)
    reader.join(10)
    os.close(descriptor)
    assert read == data
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_without_a_reader_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ResultError, match="cannot be written"):
        write_file(tmp_path / "pipe", b"data")


def test_a_terminal_is_written_to_and_not_replaced() -> None:
    ours, theirs = os.openpty()
    # Nobody, root included, can put a file into the folder of terminals: where this fails, nothing is harmed.
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
    monkeypatch.setattr(Path, "is_file", lambda path: path != disk)
    monkeypatch.setattr(Path, "is_block_device", lambda path: path == disk)
    with pytest.raises(ResultError, match="it is a disk"):
        write_file(disk, b"data")
    assert disk.read_bytes() == b"all that there was"
