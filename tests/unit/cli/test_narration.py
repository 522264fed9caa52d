"""What is told of commands that ran, and of pages that go into a pipe."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.cli.context import Narrator
from lab.cli.lesson import say
from lab.machine.api import CommandResult
from lab.plans import Plan, Step

DISKS = [f"/dev/ubd{letter}" for letter in "abcdefghi"]


def told(
    capsys: pytest.CaptureFixture[str], commands: Sequence[tuple[str, ...]], *, failing: int = -1, verbose: bool = False
) -> list[str]:
    narrator = Narrator(quiet=False, verbose=verbose)
    narrator.announce(Plan.of("x", [Step(argv, "why") for argv in commands]))
    for number, argv in enumerate(commands):
        status = int(number == failing)
        ran = CommandResult(argv, status, "", "", duration_seconds=0.5, started_seconds=0)
        narrator._on_command(ran)
        if status:
            break
    return capsys.readouterr().err.splitlines()


def test_commands_that_differ_in_their_disk_alone_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    blank = [("blkdiscard", "--force", disk) for disk in DISKS]
    lines = told(capsys, [("mdadm", "--stop", "/dev/md0"), *blank, ("true",)])
    assert lines == [
        "$ mdadm --stop /dev/md0  (0.50 s)",
        "$ blkdiscard --force /dev/ubda … /dev/ubdi  (9 commands, 4.50 s)",
        "$ true  (0.50 s)",
    ]


def test_a_few_commands_and_all_of_them_when_asked_are_told_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    blank = [("blkdiscard", disk) for disk in DISKS]
    assert len(told(capsys, blank[:3])) == 3
    assert len(told(capsys, blank, verbose=True)) == 9


def test_one_that_fails_is_told_by_itself_behind_those_that_ran(capsys: pytest.CaptureFixture[str]) -> None:
    blank = [("blkdiscard", disk) for disk in DISKS]
    assert told(capsys, blank, failing=2) == [
        "$ blkdiscard /dev/ubda /dev/ubdb  (2 commands, 1.00 s)",
        "$ blkdiscard /dev/ubdc  (status 1, 0.50 s)",
    ]
    assert told(capsys, blank, failing=0) == ["$ blkdiscard /dev/ubda  (status 1, 0.50 s)"]


def test_a_page_in_a_pipe_has_no_marks(capsys: pytest.CaptureFixture[str]) -> None:
    say("# A title\n\nIt is **lost**: type `mdadm`.\n\n```\n# dmesg\n```\n\n- one\n- two\n")
    page = capsys.readouterr().out
    assert "A title" in page
    assert "It is lost: type 'mdadm'." in page
    assert not {"`", "*"} & {*page}
