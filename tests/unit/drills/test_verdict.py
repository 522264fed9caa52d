"""How the arrays of a drill are started before it is judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.arrays.status import ArrayState, ArrayStatus
from lab.drills import verdict
from tests.unit.fakes import FakeMachine
from tests.unit.lessons.samples import array, member


def desk_with(machine: FakeMachine, *arrays: ArrayStatus) -> Any:
    session = SimpleNamespace(machine=machine, rescan=lambda: None, statuses=lambda: arrays)
    return SimpleNamespace(session=session, disks=(), case=SimpleNamespace(record=SimpleNamespace(before={})))


@pytest.mark.parametrize(
    ("state", "added", "is_made_writable"),
    [
        (ArrayState.READ_AUTO, "spare", True),
        (ArrayState.READONLY, "spare", True),
        (ArrayState.CLEAN, "spare", False),
        (ArrayState.READ_AUTO, "in_sync", False),
    ],
)
def test_a_due_rebuild_begins_before_the_array_is_judged(
    monkeypatch: pytest.MonkeyPatch, state: ArrayState, added: str, is_made_writable: bool
) -> None:
    done: list[str] = []
    monkeypatch.setattr(verdict, "_is_drill_array", lambda *_: True)
    monkeypatch.setattr(verdict, "run_lines", lambda _, lines, __: done.append(lines))
    monkeypatch.setattr(verdict, "_examine_array", lambda *_: verdict._Saved(None, (), {}, 0.0, ()))
    members = (member("/dev/ubda", 0), member("/dev/ubdb", 1), member("/dev/ubdc", 2, added))
    machine = FakeMachine()
    verdict._examine_data(desk_with(machine, array(members=members, degraded=1, state=state)), "")
    assert (("mdadm", "--readwrite", "/dev/md0") in machine.runs) is is_made_writable
    assert done == ["settle /dev/md0"]
