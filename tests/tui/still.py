"""A client that opens no machine: the test sets the state of the lab."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from textual.message import Message

from lab.arrays.discovery import BroughtUp
from tests.tui.fake_lab import DISKS
from tests.unit.fakes import FACTS
from tui.client import LabClient
from tui.state import SessionOpened


class StillClient(LabClient):
    """Opens at once, and stores submitted jobs instead of running them."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        super().__init__("uml:", post)
        self.jobs: list[Future[Any]] = []

    def start(self) -> None:
        self._post(SessionOpened(FACTS, DISKS, BroughtUp((), (), ())))

    def submit(self, work: Callable[..., Any]) -> Future[Any]:
        self.jobs.append(Future())
        return self.jobs[-1]

    def close(self) -> None:
        return
