"""What workers of real pools are told to do in tests: each takes bytes and gives bytes."""

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
    """Notes which process was asked."""
    folder = Path(payload.decode())
    (folder / f"{os.getpid()}").touch()
    error = LabError("it cannot be done", hint="leave it")
    error.console = "its last words"
    raise error


def lacks_on_one(payload: bytes) -> bytes:
    """The first process that is asked has not what it takes, ever."""
    place = Path(payload.decode()) / "unfit"
    try:
        place.open("x").write(str(os.getpid()))
    except FileExistsError:
        if place.read_text() != str(os.getpid()):
            return b"done"
    raise ToolMissing("no kernel here", hint="build it")


def sleeps(payload: bytes) -> bytes:
    """Until it is awakened."""
    wait_until((Path(payload.decode()) / "awake").exists)
    return b"done"


def dies_once(payload: bytes) -> bytes:
    """The first process that is asked is gone."""
    try:
        (Path(payload.decode()) / "died").open("x").close()
    except FileExistsError:
        return b"done"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def dies(_: bytes) -> bytes:
    """So is every one."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def no_worker(*_: object, **__: object) -> None:
    """In place of the class of a worker."""
    raise OSError("no such thing")


def worker_after_one(folder: Path, *arguments: Any, **options: Any) -> QuietWorker:
    """The first process that makes a worker is gone before there is one."""
    dies_once(str(folder).encode())
    return QuietWorker(*arguments, **options)
