from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.cli import context as cli_context
from lab.cli.main import run
from lab.disks import Lab
from lab.machine import Host, Machine, Target
from tests.unit.disks.machines import Device, lab_disks, machine_of
from tests.unit.fakes import FakeMachine, as_machine

DISKS = lab_disks("abcde")


class Printed(NamedTuple):
    """What a command has printed."""

    out: str
    err: str


Typed = Callable[..., Printed]


@pytest.fixture
def machine() -> FakeMachine:
    """Five blank disks."""
    return machine_of(*(Device(f"ubd{letter}", number=f"98:{ord(letter)}") for letter in "abcde"))


@pytest.fixture(autouse=True)
def lab_on(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every command opens a lab on the fake machine."""

    @contextmanager
    def open_fake(
        _target: Target, host: Host, /, *, on_notice: Callable[[str], None], on_machine: Callable[[Machine], None]
    ) -> Iterator[Lab]:
        on_machine(as_machine(machine))
        yield Lab(as_machine(machine), host, DISKS)

    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    monkeypatch.delenv("RAIDLAB_ON", raising=False)
    cli_context.use_opener(open_fake)
    yield
    cli_context.use_opener(None)
    cli_context.use_options(cli_context.Options())


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str]) -> Typed:
    """``typed("disks", status=0)``: runs a command line, which must end with this status."""

    def type_line(*words: str, status: int = 0) -> Printed:
        capfd.readouterr()
        found = run(words)
        printed = Printed(*capfd.readouterr())
        assert found == status, printed.err
        return printed

    return type_line
