"""The machine of the kernel tests: a stock kernel with ``pytest --on qemu:``, otherwise the embedded kernel."""

from __future__ import annotations

import json
import os
import signal
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.machine import Host, parse_target
from lab.machine.state_folder import KERNEL_RECORD
from lab.machine.target import Target, TargetKind

VARIABLE = "RAIDLAB_TEST_MACHINE"
"""The value of ``--on``, for the workers and for programs that tests start."""


def kernel_target(options: str = "") -> Target:
    """The machine under test with further options, such as ``name=crash``."""
    text = os.environ.get(VARIABLE, "uml:")
    joint = "&" if "?" in text else "?"
    return parse_target(f"{text}{joint}{options}" if options else text)


def real_time_target() -> Target:
    """The machine under test in real time, for commands that would otherwise choose virtual time where possible."""
    target = kernel_target()
    return target.with_option("time", "real") if target.kind is TargetKind.UML else target


def quick_target() -> Target:
    """The machine under test, in virtual time where possible: the results are the same, but come sooner."""
    target = kernel_target()
    return target.with_option("time", "virtual") if target.kind is TargetKind.UML else target


def quick_marks() -> tuple[pytest.MarkDecorator, ...]:
    """Marks for tests on ``quick_target()``."""
    return (pytest.mark.virtual_time,) if kernel_target().kind is TargetKind.UML else ()


def disk_name(number: int) -> str:
    """Return the kernel's name of a lab disk of the machine under test, counted from 0, such as ``ubda``."""
    stem = {TargetKind.UML: "ubd", TargetKind.QEMU: "vd"}[kernel_target().kind]
    return f"{stem}{string.ascii_lowercase[number]}"


def host_at(root: Path) -> Host:
    host = Host.real("tests")
    return replace(host, state=host.state.elsewhere(root))


def record_of(root: Path) -> dict[str, Any]:
    (path,) = (root / "machines").glob(f"*/{KERNEL_RECORD}")
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def kill_kernel(root: Path) -> None:
    """Kill the machine's kernel, as if its power had failed; its disks keep their data."""
    os.killpg(record_of(root)["kernel_group"], signal.SIGKILL)
