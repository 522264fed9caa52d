"""Tasks for workers of real pools; each takes bytes and returns bytes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from lab.errors import LabError, ToolMissing
from lab.sweep.node import QuietWorker
from tests.waiting import wait_until


def echo(payload: bytes) -> bytes:
    return payload + b" " + str(os.getpid()).encode()


def fails(payload: bytes) -> bytes:
    """Records which process ran it, then fails."""
    folder = Path(payload.decode())
    (folder / f"{os.getpid()}").touch()
    error = LabError("it cannot be done", hint="leave it")
    error.console = "its last words"
    raise error


def lacks_on_one(payload: bytes) -> bytes:
    """The first process that is asked permanently lacks a tool."""
    place = Path(payload.decode()) / "unfit"
    try:
        place.open("x").write(str(os.getpid()))
    except FileExistsError:
        if place.read_text() != str(os.getpid()):
            return b"done"
    raise ToolMissing("no kernel here", hint="build it")


def sleeps(payload: bytes) -> bytes:
    """Waits until the file ``awake`` exists."""
    wait_until((Path(payload.decode()) / "awake").exists)
    return b"done"


def meets(payload: bytes) -> bytes:
    """Waits until two processes run it, and returns this one's id."""
    folder = Path(payload.decode())
    (folder / f"{os.getpid()}").touch()
    wait_until(lambda: len(list(folder.iterdir())) == 2)
    return str(os.getpid()).encode()


def dies_once(payload: bytes) -> bytes:
    """Kills the first process that runs it."""
    try:
        (Path(payload.decode()) / "died").open("x").close()
    except FileExistsError:
        return b"done"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def dies(_: bytes) -> bytes:
    """Kills every process that runs it."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def no_worker(*_: object, **__: object) -> None:
    """Replaces the class of a worker, and fails."""
    raise OSError("no such thing")


def worker_after_one(folder: Path, *arguments: Any, **options: Any) -> QuietWorker:
    """The first process that makes a worker is killed before the worker exists."""
    dies_once(str(folder).encode())
    return QuietWorker(*arguments, **options)
