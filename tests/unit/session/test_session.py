"""An open lab: what it knows after a plan, the verbs of its arrays, the versions that some need, and known data."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lab.adapt.kind import Volume
from lab.arrays.kinds import MdArray, cannot_do_without
from lab.arrays.spec import ArraySpec
from lab.arrays.status import SyncAction
from lab.errors import ArrayError, CommandFailed, ResultError, UnfitVersion
from lab.machine import Machine
from lab.plans import Danger, Plan, Step
from lab.session.breaking import corrupt
from lab.session.data_mark import load_target, read_marks, write_mark
from lab.session.session import LabSession, NeededKernel, NeededMdadm, Shell, require_kernel, require_mdadm
from lab.units import SECTOR_BYTES
from tests.unit.arrays.captures import machine_with
from tests.unit.cli.superblocks import READS, as_read, superblock
from tests.unit.disks.machines import Device, add, lab_disks, machine_of
from tests.unit.fakes import FakeMachine, Scripted
from tests.unit.session.looks import captured, session_on

WRITES = Plan("Change a disk", (Step(("change",), "Why.", writes_devices=("/dev/ubda",)),))


@pytest.fixture
def machine() -> FakeMachine:
    fake = machine_of(*(Device(f"ubd{letter}", number=f"98:{ord(letter)}") for letter in "ab"))
    mirror = [superblock(each, [0, 1], level=1, slots=2) for each in (0, 1)]
    fake.answers[READS] = Scripted(stdout=as_read(mirror))
    return fake


@pytest.fixture
def reported() -> list[list[str]]:
    """Names of the stopped arrays, each time that the session reported what it had found."""
    return []


@pytest.fixture
def session(
    machine: FakeMachine, reported: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LabSession:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))

    def hear(session: LabSession) -> None:
        reported.append([array.name for array in session.found.stopped])

    return session_on(machine, lab_disks("ab"), "local:", on_found=hear)


@pytest.mark.parametrize("status", [0, 1])
def test_after_a_plan_even_a_failed_one_the_disks_are_read_again_and_reported(
    machine: FakeMachine, session: LabSession, reported: list[list[str]], status: int
) -> None:
    machine.answers[("change",)] = Scripted(status=status, stderr="no")
    assert session.found.all == ()
    expected: AbstractContextManager[object] = pytest.raises(CommandFailed) if status else nullcontext()
    with expected:
        session.run(WRITES)
    assert [array.name for array in session.found.stopped] == ["md0"]
    assert reported == [["md0"]]


def test_a_plan_without_steps_changes_nothing(
    machine: FakeMachine, session: LabSession, reported: list[list[str]]
) -> None:
    session.run(Plan("Use md0"))
    assert machine.runs == []
    assert reported == []


def test_a_name_leads_to_the_kind_of_array_that_has_such_names(session: LabSession) -> None:
    assert isinstance(session.array("md0"), MdArray)
    assert isinstance(session.array("adapt0"), Volume)


@pytest.mark.parametrize("name", ["md0", "adapt0"])
def test_verbs_of_a_missing_array_raise_an_error(session: LabSession, name: str) -> None:
    array = session.array(name)
    for verb in (array.status, array.stop, lambda: array.add("disk01"), lambda: array.scrub("check")):
        with pytest.raises(ArrayError, match="no array"):
            verb()


def test_a_plan_for_an_array_whose_name_was_taken_in_the_meantime_is_refused(session: LabSession) -> None:
    session.rescan()
    spec = ArraySpec("raid1", ("/dev/ubda", "/dev/ubdb"), name="md0")
    with pytest.raises(ArrayError, match="an array named md0 already exists"):
        session.creation(spec)


def test_a_stopped_array_is_reported_with_the_command_that_starts_it(session: LabSession) -> None:
    session.rescan()
    with pytest.raises(ArrayError, match="array md0 is stopped") as caught:
        session.array("md0").status()
    assert "raidlab array assemble md0" in caught.value.hint
    assert session.array("md0").assemble().lines() == ["mdadm --assemble --run /dev/md0 /dev/ubda /dev/ubdb"]
    assert session.array("md0").assemble(disks=["disk02"]).lines() == ["mdadm --assemble --run /dev/md0 /dev/ubdb"]


def test_only_disks_that_hold_something_lose_data_when_all_are_made_blank(
    machine: FakeMachine, session: LabSession
) -> None:
    mirror = machine.answers[READS]
    machine.answers[READS] = Scripted(stdout=as_read([None, None]))
    assert not session.reset_all().destroys_data
    machine.answers[("wipefs", "--json")] = Scripted(stdout='{"signatures": [{"device": "ubdb", "type": "ext4"}]}')
    blank, signed = session.reset_all().steps
    assert (blank.danger, signed.danger) == (Danger.NONE, Danger.DATA)
    # An array's members, whether it runs or not.
    machine.answers[READS] = mirror
    session.run(WRITES)
    assert [step.danger for step in session.reset_all().steps] == [Danger.DATA, Danger.DATA]


def test_a_disk_is_refused_with_a_way_to_insist_and_during_a_sync_to_wait() -> None:
    idle = replace(captured("raid5-rebuilding"), sync_action=SyncAction.IDLE)
    refusal = cannot_do_without((idle,), "disk02", forced="fail")
    assert refusal.message == "array md0 cannot run without disk02: its data would be lost"
    assert refusal.hint == "use --break-array to fail it anyway"
    refusal = cannot_do_without((captured("raid5-rebuilding"),), "disk02", forced="pull")
    assert "cannot run without disk02 yet" in refusal.message
    assert "raidlab array wait md0" in refusal.hint
    assert "use --break-array to pull it" in refusal.hint


OLDER = NeededKernel(before="7.0", why="the rebuild never ends")
NEEDED = NeededMdadm(mdadm="4.5", from_kernel="6.8", why="the disk is refused")


def versions(kernel: str, mdadm: str) -> Machine:
    """A machine with these versions."""
    version = SimpleNamespace(stdout="", stderr=f"mdadm - v{mdadm} - 2024-11-07\n")
    facts = SimpleNamespace(kernel_release=kernel, target="uml:")
    return cast("Machine", SimpleNamespace(facts=facts, run=lambda *_, **__: version))


@pytest.mark.parametrize(
    ("kernel", "mdadm", "fits"),
    [
        *(("6.1.176", "4.2", True), ("6.12.95-raidlab", "4.5", True), ("7.2.12", "4.10", True)),
        *(("6.12.95", "4.4", False), ("7.2.12", "4.2", False), ("6.8.0", "4.4", False)),
    ],
)
def test_an_mdadm_that_is_too_old_is_reported_with_the_required_version(kernel: str, mdadm: str, fits: bool) -> None:
    if fits:
        require_mdadm(versions(kernel, mdadm), NEEDED, "drill 8")
        return
    with pytest.raises(UnfitVersion, match=r"drill 8 needs mdadm 4\.5 or later on Linux 6\.8 and later") as caught:
        require_mdadm(versions(kernel, mdadm), NEEDED, "drill 8")
    assert mdadm in caught.value.message


@pytest.mark.parametrize("kernel", ["7.0.0", "7.2.13-raidlab-vt", "10.1"])
def test_a_kernel_that_is_too_new_is_named_with_what_goes_wrong(kernel: str) -> None:
    for fits in ("6.1.176", "6.12.95-raidlab-vt", "6.19.0"):
        require_kernel(versions(fits, "4.2"), OLDER, "drill 11")
    with pytest.raises(UnfitVersion, match=r"drill 11 needs a kernel before Linux 7\.0, .*never ends") as caught:
        require_kernel(versions(kernel, "4.6"), OLDER, "drill 11")
    assert kernel in caught.value.message
    # Without a requirement, nothing is asked.
    require_mdadm(versions(kernel, "3.0"), None, "drill 1")
    require_kernel(versions(kernel, "3.0"), None, "drill 1")


def test_a_line_that_cannot_be_noted_neither_runs_nor_blocks_the_shell(
    machine: FakeMachine, session: LabSession
) -> None:
    def note(_: str) -> None:
        raise ResultError("the disk is full", hint="free some space")

    shell = Shell(session)
    session.on_typed = note
    with pytest.raises(ResultError):
        shell.run("true")
    session.on_typed = lambda _: None
    assert shell.run("true").status == 0


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


def test_a_member_whose_data_begin_with_its_device_can_be_corrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    machine = machine_with("raid5")
    # Superblocks of versions 1.0 and 0.90 are at the end.
    machine.files["/sys/block/md0/md/dev-ubda/offset"] = "0\n"
    (step,) = corrupt(session_on(machine, lab_disks("abc"), "local:"), "md0", "disk01").steps
    middle = 509952 * 1024 // 2
    assert {"of=/dev/ubda", f"seek={middle // 4096}"} <= set(step.argv)
