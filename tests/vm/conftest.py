"""One private computer for the whole tier, on which one ``vagrant up`` does everything: baking takes minutes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.vm.computer import IMAGE, Computer, Done, private_computer

_figures: dict[str, float] = {}


@dataclass(slots=True)
class VirtualLab:
    """The machine that the tests share, and what its first start printed."""

    computer: Computer
    first_up: Done
    seconds: dict[str, float] = field(default_factory=lambda: _figures)

    def timed(self, name: str, *argv: str, **more: str) -> Done:
        begin = time.monotonic()
        done = self.computer.run(*argv, timeout=1200, env=more)
        self.seconds[name] = time.monotonic() - begin
        return done


@pytest.fixture(scope="session")
def computer() -> Iterator[Computer]:
    if os.geteuid() != 0:
        # The namespaces' bridge, firewall rules and mounts are root's.
        pytest.fail("the vm tests need root for namespaces of their own; next: sudo make test-vm", pytrace=False)
    with private_computer() as started:
        yield started


@pytest.fixture(scope="session")
def lab(computer: Computer) -> VirtualLab:
    """``vagrant up`` with nothing else done: it bakes, adds the box and starts the machine."""
    begin = time.monotonic()
    up = computer.run("vagrant", "up", timeout=2400)
    _figures["vagrant up with the bake"] = time.monotonic() - begin
    manifest = json.loads((computer.clone / "packer" / "output" / IMAGE / "manifest.json").read_text())
    _figures["of which the bake"] = float(manifest["bake_seconds"])
    return VirtualLab(computer, up)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures are information; no test asserts one."""
    if _figures:
        terminalreporter.write_sep("-", "seconds of the vm tier")
        for name, seconds in _figures.items():
            terminalreporter.write_line(f"{seconds:8.1f}  {name}")
