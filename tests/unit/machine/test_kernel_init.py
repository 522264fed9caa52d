"""The parts of the embedded kernel's init that run without a kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.machine import kernel_init


@pytest.fixture
def fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The computer's fio (3 bytes, mtime 5 s) and replacement libraries built for it."""
    program, folder = tmp_path / "program", tmp_path / "it's" / "fio"
    folder.mkdir(parents=True)
    (folder / "for").write_text("3 5\n")
    program.write_text("fio")
    os.utime(program, (5, 5))
    monkeypatch.setattr(kernel_init, "FIO", str(program))
    return program


def environment(fio: Path) -> str:
    return kernel_init.fio_environment(str(fio.parent / "it's" / "quick_clock.so"))


def test_fio_gets_the_preload_and_libraries_built_for_it_in_virtual_time(fio: Path) -> None:
    folder = f"'{fio.parent}/it'\\''s"
    assert environment(fio) == f"LD_PRELOAD={folder}/quick_clock.so' LD_LIBRARY_PATH={folder}/fio' "
    assert kernel_init.fio_environment("") == ""


@pytest.mark.parametrize("change", ["size", "time", "absent"])
def test_another_fio_loads_all_that_it_asks_for(fio: Path, change: str) -> None:
    if change == "size":
        fio.write_text("fios")
    if change == "time":
        os.utime(fio, (6, 6))
    if change == "absent":
        (fio.parent / "it's" / "fio" / "for").unlink()
    assert "LD_LIBRARY_PATH" not in environment(fio)


def test_the_clients_port_is_awaited_until_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (console := tmp_path / "vport1p0").mkdir()
    (console / "name").write_text("console\n")
    port = tmp_path / "vport2p1"
    steps: Iterator[Callable[[], object]] = iter([port.mkdir, lambda: (port / "name").write_text("raidlab\n")])
    monkeypatch.setattr(kernel_init, "PORTS", str(tmp_path))
    monkeypatch.setattr("lab.machine.kernel_init.time.sleep", lambda _: next(steps)())
    assert kernel_init.virtio_port() == "/dev/vport2p1"
