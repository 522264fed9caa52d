"""Every promise of the list, one test each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hardening import disks, guests, process, stored, written  # noqa: F401 - each adds its own
from tests.hardening.workbench import PROMISES, Bench, Promise


@pytest.mark.wide
@pytest.mark.parametrize(
    "promise",
    [pytest.param(each, id=each.says, marks=[pytest.mark.kernel] if each.needs_machine else []) for each in PROMISES],
)
def test_promise(promise: Promise, tmp_path: Path) -> None:
    promise.check(Bench(tmp_path))
