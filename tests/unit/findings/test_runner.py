"""Runs of findings' scripts on a machine, and when the machine is replaced."""

from __future__ import annotations

import pytest

from lab.errors import CommandTimedOut, MachineLost, ToolMissing
from lab.findings.record import Outcome, Script
from lab.findings.runner import ScriptMachine
from tests.unit.fakes import FakeMachine, Scripted, as_machine

SCRIPT = Script("a.sh", "exit 0", 2)
NODES = ("/dev/vda", "/dev/vdb", "/dev/vdc")
RUN = ("bash", "-c", SCRIPT.text, SCRIPT.name)
DMSETUP = (
    "Udev is running and DM_DISABLE_UDEV environment variable is set. "
    "Bypassing udev, device-mapper library will manage device nodes in device directory."
)
START_RO = "/sys/module/md_mod/parameters/start_ro"


def a_machine(answer: Scripted, *, left: tuple[str, ...] = ()) -> FakeMachine:
    return FakeMachine(
        files={START_RO: "0"},
        dirs={"/sys/block": ("vda", *left)},
        answers={RUN: answer, ("mdadm", "--version"): Scripted(stderr="mdadm - v4.4 - 2024-11-07\n")},
    )


@pytest.mark.parametrize(
    ("answer", "outcome", "message"),
    [
        (Scripted("one\nlost 3\n"), Outcome.REPRODUCED, "lost 3"),
        (Scripted("lost 0\n", status=1, stderr="noise"), Outcome.REFUTED, "lost 0"),
        (Scripted("begun\n", status=2, stderr="in use\n"), Outcome.UNTRIED, "in use"),
        (Scripted("begun\n", status=127), Outcome.UNTRIED, "begun"),
        (Scripted("begun\n", status=2, stderr=f"too late\n{DMSETUP}\n{DMSETUP}\n"), Outcome.UNTRIED, "too late"),
    ],
)
def test_the_exit_status_is_the_outcome(answer: Scripted, outcome: Outcome, message: str) -> None:
    fake = a_machine(answer)
    cell, is_reusable = ScriptMachine(as_machine(fake), NODES).run(SCRIPT, 0, 60.0)
    assert [(run.outcome, run.said) for run in cell.runs] == [(outcome, message)]
    assert is_reusable
    assert cell.mdadm_version == "4.4"
    assert (*RUN, "/dev/vda", "/dev/vdb") in fake.runs


def test_runs_alternate_read_only_starts_and_pairs_of_runs_alternate_udev() -> None:
    fake = a_machine(Scripted())
    machine = ScriptMachine(as_machine(fake), NODES)
    runs = [machine.run(SCRIPT, number, 60.0)[0].runs[0] for number in range(5)]
    assert [run.starts_read_only for run in runs] == [True, False, True, False, True]
    assert [run.has_udev for run in runs] == [False, False, True, True, False]
    assert [text for path, text in fake.writes if path == START_RO] == ["1", "0", "1", "0", "1"]
    assert [argv for argv in fake.runs if "udevadm" in argv] == [("udevadm", "control", "--exit")]


def raising(error: Exception) -> Scripted:
    def fail() -> None:
        raise error

    return Scripted(act=fail)


PANIC = "the kernel crashed: Kernel panic"


@pytest.mark.parametrize(
    ("answer", "left", "outcome", "message"),
    [
        (Scripted(status=2), ("md119",), Outcome.UNTRIED, ""),
        (Scripted(status=2), ("dm-0",), Outcome.UNTRIED, ""),
        (raising(CommandTimedOut("a.sh", hint="")), (), Outcome.HUNG, "not finished after 60 s"),
        (raising(MachineLost(PANIC, hint="")), (), Outcome.LOST, PANIC),
    ],
)
def test_a_machine_that_hangs_crashed_or_has_an_array_or_a_layer_left_is_replaced(
    answer: Scripted, left: tuple[str, ...], outcome: Outcome, message: str
) -> None:
    fake = a_machine(answer, left=left)
    cell, is_reusable = ScriptMachine(as_machine(fake), NODES).run(SCRIPT, 0, 60.0)
    assert [(run.outcome, run.said) for run in cell.runs] == [(outcome, message)]
    assert not is_reusable


def test_a_machine_that_cannot_be_prepared_is_no_result_of_the_script() -> None:
    fake = a_machine(Scripted())
    fake.answers[("sh", "-c")] = raising(CommandTimedOut("sh", hint=""))
    with pytest.raises(CommandTimedOut):
        ScriptMachine(as_machine(fake), NODES).run(SCRIPT, 0, 60.0)
    fake.answers[("sh", "-c")] = Scripted(status=1)
    with pytest.raises(ToolMissing, match="udev"):
        ScriptMachine(as_machine(fake), NODES).run(SCRIPT, 2, 60.0)
