from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.cli import context as cli_context
from lab.cli.main import run
from tests.unit.disks.machines import Device, lab_disks, machine_of, opener_of
from tests.unit.fakes import FakeMachine

DISKS = lab_disks("abcde")


class Printed(NamedTuple):
    """The output of a command."""

    out: str
    err: str


Typed = Callable[..., Printed]


@pytest.fixture
def machine() -> FakeMachine:
    """A machine with five blank disks."""
    return machine_of(*(Device(f"ubd{letter}", number=f"98:{ord(letter)}") for letter in "abcde"))


@pytest.fixture(autouse=True)
def lab_on(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every command opens a lab on the fake machine."""
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    monkeypatch.delenv("RAIDLAB_ON", raising=False)
    cli_context.OPENER.set(opener_of(machine, DISKS))
    yield
    cli_context.OPENER.set(None)
    cli_context.OPTIONS.set(cli_context.Options())


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str]) -> Typed:
    """``typed("disks", status=0)`` runs a command line, which must end with this status."""

    def type_line(*words: str, status: int = 0) -> Printed:
        capfd.readouterr()
        found = run(words)
        printed = Printed(*capfd.readouterr())
        assert found == status, printed.err
        return printed

    return type_line
