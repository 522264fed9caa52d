"""Bugs that are planted in the oracle: each is one change of the program as it is."""

from __future__ import annotations

import pytest

from lab.errors import LabError, SpecError
from lab.machine.programs import program_files
from tests.kernel.oracle_controls import CONTROLS, OracleBug, all_controls, find_oracle_bug, oracle_bugs

FEWEST = 12
NAMES = [bug.name for bug in oracle_bugs()]


def test_there_are_enough_of_both_kinds() -> None:
    assert len(set(NAMES)) == len(NAMES) >= FEWEST
    assert {bug.found_by for bug in oracle_bugs()} == {"campaign", "controls"}


@pytest.mark.parametrize("name", NAMES)
def test_each_changes_one_text_of_the_program_and_leaves_it_a_program(name: str) -> None:
    bug = find_oracle_bug(name)
    files, changed = program_files(CONTROLS), program_files(CONTROLS, bug.change)
    assert changed.folder != files.folder
    (text,) = (text for path, text in changed.texts.items() if path.endswith(".py") and text != files.texts[path])
    compile(text, name, "exec")


def test_a_text_that_is_not_there_once_is_refused() -> None:
    for find in ("no such text", "def "):
        bug = OracleBug(name="x", title="x", found_by="controls", find=find, replace="")
        with pytest.raises(LabError):
            _ = bug.change


def test_a_name_that_is_none_gets_the_nearest() -> None:
    with pytest.raises(SpecError, match="fua-ignored"):
        find_oracle_bug("fua-ignore")


def test_a_control_tells_what_is_wrong_and_passes_what_is_right() -> None:
    lost = next(each for each in all_controls() if each.name == "a lost write")
    ((block, verdict),) = (lost.bad or {}).items()
    blocks = lost.history.shape.block_map().blocks
    right = {"kind": "check", "bad": [[block, verdict, [2], [13]]], "verdicts": {"intact": blocks - 1, verdict: 1}}
    assert lost.wrong([right]) == ""
    assert "0 blocks are reported" in lost.wrong([{**right, "bad": []}])
    assert "blocks are reported" in lost.wrong([{**right, "verdicts": {"intact": blocks - 2}}])
    assert "OSError" in lost.wrong([{"broke": "OSError"}])
