from __future__ import annotations

import json

import pytest

from lab.cli.main import run
from tests.unit.cli.superblocks import READS, as_read, superblock
from tests.unit.fakes import FakeMachine, Scripted

OTHER = "11111111-2222-3333-4444-555555555555"
ALL = ["--on", "local:", "array", "assemble"]
MIRROR = "mdadm --assemble --run /dev/md0 /dev/ubda /dev/ubdb"


@pytest.fixture
def machine(machine: FakeMachine) -> FakeMachine:
    """After a restart: a whole RAID 1 and a RAID 5 of which two of three members are gone; neither runs."""
    mirror = [superblock(each, [0, 1], level=1, slots=2) for each in (0, 1)]
    broken = superblock(0, [0, 1, 2], name="any:1", array=OTHER)
    machine.answers[READS] = Scripted(stdout=as_read([*mirror, broken, None, None]))
    return machine


def started(machine: FakeMachine) -> list[str]:
    return [" ".join(argv) for argv in machine.runs if argv[:2] == ("mdadm", "--assemble")]


def test_without_a_name_what_can_be_started_is(machine: FakeMachine, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(ALL) == 0
    assert started(machine) == [MIRROR]
    assert "array md1" in capfd.readouterr().err


def test_one_that_md_does_not_start_is_told_and_no_failure(
    machine: FakeMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.answers[("mdadm", "--assemble")] = Scripted(status=1, stderr="mdadm: no such luck")
    assert run([*ALL, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["started"] == []
    assert sorted(each["name"] for each in told["refused"]) == ["md0", "md1"]
    assert any("no such luck" in each["reason"] for each in told["refused"])


def test_the_plan_for_all_does_nothing(machine: FakeMachine, capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*ALL, "--plan"]) == 0
    assert capfd.readouterr().out == f"{MIRROR}\n"
    assert started(machine) == []


def test_nothing_to_start_is_no_failure(machine: FakeMachine, capfd: pytest.CaptureFixture[str]) -> None:
    machine.answers[READS] = Scripted(stdout=as_read([None] * 5))
    assert run(ALL) == 0
    assert "no array is stopped" in capfd.readouterr().err


def test_force_needs_a_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*ALL, "--force"]) == 2
    assert "--force needs the name" in capfd.readouterr().err
