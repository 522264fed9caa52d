from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cli import context as cli_context
from lab.cli.context import Context
from lab.disks import DiskKind, Lab, LabDisk
from tests.unit.cli.superblocks import as_read
from tests.unit.fakes import FakeMachine, Scripted, as_machine

SIZE = 524_288_000
DISKS = tuple(
    LabDisk(name=f"disk0{number}", kind=DiskKind.FILE, node=f"/dev/ubd{letter}", size_bytes=SIZE)
    for number, letter in enumerate("abcde", start=1)
)
ReadBack = Callable[[], tuple[str, str]]


@pytest.fixture
def machine() -> FakeMachine:
    """Five blank disks."""
    fake = FakeMachine(dirs={"/sys/block": tuple(f"ubd{letter}" for letter in "abcde")})
    for letter in "abcde":
        fake.files[f"/sys/block/ubd{letter}/size"] = str(SIZE // 512)
        fake.files[f"/sys/block/ubd{letter}/dev"] = f"98:{ord(letter)}"
    fake.answers[("sh", "-c")] = Scripted(stdout=as_read([None] * 5))
    fake.answers[("wipefs", "--json")] = Scripted(stdout='{"signatures": []}')
    return fake


@pytest.fixture(autouse=True)
def lab_on(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every command opens a lab on the fake machine."""

    @contextmanager
    def open_fake(context: Context) -> Iterator[Lab]:
        context.narrator.listen(as_machine(machine))
        yield Lab(as_machine(machine), context.host, DISKS)

    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    monkeypatch.delenv("RAIDLAB_ON", raising=False)
    cli_context.use_opener(open_fake)
    yield
    cli_context.use_opener(cli_context.open_real_lab)
    cli_context.use_options(cli_context.Options())
