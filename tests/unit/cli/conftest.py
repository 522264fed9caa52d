from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cli import context as cli_context
from lab.disks import Lab
from lab.machine import Host, Machine, Target
from tests.unit.cli.superblocks import READS, as_read
from tests.unit.disks.machines import SIZE, lab_disks
from tests.unit.fakes import FakeMachine, Scripted, as_machine

DISKS = lab_disks("abcde")
ReadBack = Callable[[], tuple[str, str]]


@pytest.fixture
def machine() -> FakeMachine:
    """Five blank disks."""
    fake = FakeMachine(dirs={"/sys/block": tuple(f"ubd{letter}" for letter in "abcde")})
    for letter in "abcde":
        fake.files[f"/sys/block/ubd{letter}/size"] = str(SIZE // 512)
        fake.files[f"/sys/block/ubd{letter}/dev"] = f"98:{ord(letter)}"
    fake.answers[READS] = Scripted(stdout=as_read([None] * 5))
    fake.answers[("wipefs", "--json")] = Scripted(stdout='{"signatures": []}')
    return fake


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
