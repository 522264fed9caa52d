"""Processes of this computer that the client ends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import pytest

from lab.host.processes import HostProcesses

SLEEPING = ("sleep", "1000")
# It starts others, each in a session of its own, until it is killed.
FORKING = ("sh", "-c", "while :; do setsid --fork sleep 1000; done")


@pytest.fixture
def started() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(started: ExitStack, argv: tuple[str, ...], *, writes: Path | None = None, reads: Path | None = None) -> int:
    """Returns its process's id."""
    stdin: IO[str] | int = started.enter_context(reads.open()) if reads else subprocess.DEVNULL
    stdout: IO[str] | int = started.enter_context(writes.open("a")) if writes else subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL)
    started.callback(process.wait)
    started.callback(process.kill)
    return process.pid


def holders(name: str) -> set[int]:
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/1"):
        with suppress(OSError):
            if str(descriptor.readlink()).removesuffix(" (deleted)") == name:
                found.add(int(descriptor.parts[2]))
    return found


def test_all_that_write_below_a_folder_are_killed_until_none_is_left(started: ExitStack, tmp_path: Path) -> None:
    folder = tmp_path / "machine"
    (folder / "deep").mkdir(parents=True)
    log, own, other = folder / "deep" / "log", folder / "own", tmp_path / "machine-2"
    forking = start(started, FORKING, writes=log)
    reader = start(started, SLEEPING, reads=log)
    spared, beside = start(started, SLEEPING, writes=own), start(started, SLEEPING, writes=other)
    looking = start(started, SLEEPING, writes=folder / "lock")
    assert forking in holders(str(log))
    log.unlink()
    HostProcesses().kill_writers(folder, but="lock", spared=[spared])
    assert holders(str(log)) == set()
    assert (holders(str(own)), holders(str(other))) == ({spared}, {beside})
    for process in (reader, looking):
        assert Path(f"/proc/{process}/stat").read_text("ascii").split()[2] not in "ZX"
