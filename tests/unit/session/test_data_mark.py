"""Known data on a bare array, and the area of loads before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.session.data_mark import load_target, read_marks, write_mark
from lab.units import SECTOR_BYTES
from tests.unit.arrays.captures import machine_with
from tests.unit.disks.machines import Device, add, lab_disks
from tests.unit.fakes import Scripted
from tests.unit.session.looks import session_on


def test_loads_end_before_the_mark_of_an_array_that_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    machine = machine_with("raid5")
    add(machine, Device("md0", number="9:0", size_bytes=int(machine.files["/sys/block/md0/size"] or "") * SECTOR_BYTES))
    machine.answers[("agent:mark-data",)] = Scripted(stdout='{"changed": [], "unreadable": []}')
    session = session_on(machine, lab_disks("abc"), "local:")
    mark = write_mark(session, "md0")
    machine.files["/sys/block/md0/size"] = str(3 * int(machine.files["/sys/block/md0/size"] or ""))
    assert load_target(session, "md0").available_bytes == mark.start_bytes
    assert write_mark(session, "md0").start_bytes > mark.start_bytes, "a new mark is at the new end"
    assert len(read_marks(session)) == 1
