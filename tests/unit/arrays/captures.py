"""Captured arrays as machines that unit tests can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.fakes import FakeClock, FakeMachine, Scripted

FOLDER = Path(__file__).with_name("data")


def labels() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(label: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((FOLDER / f"{label}.json").read_text())
    return record


def machine_with(label: str, clock: FakeClock | None = None) -> FakeMachine:
    """A machine with the captured array md0."""
    fake = FakeMachine(clock=clock or FakeClock())
    show(fake, label)
    return fake


def show(fake: FakeMachine, label: str) -> None:
    """Make the machine look as it did when ``label`` was captured."""
    record = load(label)
    fake.files = dict(record["files"])
    fake.dirs = {folder: tuple(names) for folder, names in record["entries"].items()} | {"/sys/block": ("md0", "ubda")}
    fake.answers[("mdadm", "--detail", "--export")] = Scripted(stdout=record["export"])
