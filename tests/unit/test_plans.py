from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from lab.plans import Danger, Plan, Step, write_file_step
from tests.waiting import PATIENCE_SECONDS

FIRST, SECOND, THIRD = (Step((word, "a b"), f"Why {word}.") for word in ("first", "second", "third"))


def test_lines_can_be_typed() -> None:
    plan = Plan("Test", (FIRST, Step(("echo", "it's", "$HOME"), "Why.")))
    assert plan.lines()[0] == "first 'a b'"
    assert [tuple(shlex.split(line)) for line in plan.lines()] == [step.argv for step in plan.steps]


def test_ending_an_array_is_not_a_loss_of_data() -> None:
    ending = Step(("mdadm",), "Why.", danger=Danger.ARRAY)
    assert Plan("Test", (FIRST, ending)).ends_array
    assert not Plan("Test", (FIRST, ending)).destroys_data
    both = Plan("Test", (ending, FIRST, Step(("rm",), "Why.", danger=Danger.DATA)))
    assert both.destroys_data
    assert not both.ends_array


def test_on_blank_disks_nothing_is_lost() -> None:
    plan = Plan("Test", (Step(("mkfs",), "Why.", danger=Danger.DATA, writes_devices=("/dev/ubda",)),))
    assert not plan.on_blank_disks().destroys_data
    assert plan.on_blank_disks().lines() == plan.lines()


@pytest.mark.parametrize("text", ["check", "1000", "it's $HOME; `id`"])
def test_a_value_is_written_verbatim(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a file"
    subprocess.run(write_file_step(str(path), text, "Why.").argv, check=True, timeout=PATIENCE_SECONDS)
    assert path.read_text() == f"{text}\n"


def test_standard_input_is_shown_as_a_here_document_that_can_be_typed() -> None:
    step = Step(("cat",), "Why.", stdin_text="one $HOME\ntwo\n")
    done = subprocess.run(
        ["sh", "-c", step.shell_line()], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout == step.stdin_text


def test_of_a_long_standard_input_the_beginning_is_shown() -> None:
    line = Step(("cat",), "Why.", stdin_text="x" * 500 + "\n" + "row\n" * 99).shell_line()
    assert line.splitlines()[-2:] == ["... 89 more lines", "END"]
    assert len(line) < 400
