"""Arrays whose names are none of the lab's, or another's too: what raidlab calls them, its commands take."""

from __future__ import annotations

import re
import shlex

import pytest

from lab.cli.main import run
from tests.unit.cli.superblocks import READS, UUID, as_read, superblock
from tests.unit.fakes import FakeMachine, Scripted

OTHER = "11111111-2222-3333-4444-555555555555"
ON = ["--on", "local:"]


def mirror(name: str, **more: object) -> list[bytes]:
    return [superblock(each, [0, 1], level=1, slots=2, name=name, **more) for each in (0, 1)]  # type: ignore[arg-type]


def lies_there(machine: FakeMachine, first: list[bytes], second: list[bytes] | None = None) -> None:
    disks: list[bytes | None] = [*first, *(second or ())]
    machine.answers[READS] = Scripted(stdout=as_read([*disks, *[None] * (5 - len(disks))]))


@pytest.mark.parametrize("name", ["nas:5", "any:xc", "home"])
@pytest.mark.parametrize("word", ["{name}", UUID, UUID.replace("-", "")])
def test_a_foreign_array_is_started_and_destroyed_by_its_name(
    machine: FakeMachine, capfd: pytest.CaptureFixture[str], name: str, word: str
) -> None:
    lies_there(machine, mirror(name))
    assert run([*ON, "array", "assemble", word.format(name=name), "--plan"]) == 0
    assert capfd.readouterr().out == "mdadm --assemble --run /dev/md127 /dev/ubda /dev/ubdb\n"
    assert run([*ON, "array", "destroy", word.format(name=name), "--plan"]) == 0
    erased = [f"mdadm --zero-superblock /dev/ubd{letter}" for letter in "ab"]
    assert capfd.readouterr().out.splitlines() == erased


@pytest.mark.parametrize("name", ["nas:5", "two words", "it's", "-v", "a\x1b[31m", ""])
def test_the_command_in_the_hint_is_accepted(
    machine: FakeMachine, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    lies_there(machine, mirror(name))
    assert run([*ON, "array", "create", "--level", "1", "--disks", "disk01,disk03"]) == 1
    hint = re.search(r"'raidlab (array destroy .*?)', or choose", capfd.readouterr().err)
    assert hint
    assert run([*ON, *shlex.split(hint[1]), "--plan"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 2


def test_of_two_with_one_name_the_hint_names_the_one_that_is_meant(
    machine: FakeMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    lies_there(machine, mirror("any:0", updated=200), mirror("any:0", array=OTHER, updated=100))
    assert run([*ON, "array", "create", "--level", "1", "--disks", "disk03,disk05"]) == 1
    assert f"'raidlab array destroy {OTHER}'" in capfd.readouterr().err
    assert run([*ON, "array", "destroy", OTHER, "--plan"]) == 0
    assert "/dev/ubdc" in capfd.readouterr().out


def test_foreign_arrays_are_told_where_arrays_and_disks_are_listed_and_nowhere_else(
    machine: FakeMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    lies_there(machine, mirror("nas:5"))
    assert run([*ON, "array", "create", "--level", "1", "--disks", "disk03,disk04", "--plan"]) == 0
    assert "nas" not in capfd.readouterr().err
    assert run([*ON, "disks"]) == 0
    told = capfd.readouterr()
    assert "nas:5 (not running)" in told.out
    assert "nas" not in told.err
    assert run([*ON, "array", "show"]) == 0
    told = capfd.readouterr()
    assert "nas:5: not running, its name" in told.out
    assert "'raidlab array assemble nas:5' starts it" in told.out
    assert "nas" not in told.err


def test_what_names_no_array_is_no_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*ON, "array", "stop", "disk01"]) == 2
    assert "'disk01' is not an array name" in capfd.readouterr().err
