"""A drill in the folder of its lab: what other programs note is kept, and there is a way out of a damaged one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.drills.case import CaseRecord, DrillCase, DrillOutcome, forget_drill
from lab.drills.debriefing import debriefing
from lab.drills.schema import find_drill, read_drill, ready
from lab.errors import DrillError, SpecError


def opened(lab_folder: Path) -> DrillCase:
    path = find_drill("1")
    record = CaseRecord(drill=path.stem, target="uml:", began_utc="", file_system_uuid="x", blocks=10)
    (lab_folder / "drill").mkdir(parents=True, exist_ok=True)
    case = DrillCase(lab_folder / "drill", record, ready(read_drill(path), path))
    case.change()
    return case


def test_a_hint_that_another_program_noted_is_kept(tmp_path: Path) -> None:
    case = opened(tmp_path)
    other = DrillCase.find(tmp_path)
    assert other is not None
    assert [other.hint()[0], other.hint()[0]] == [1, 2]
    case.change(open_seconds=5.0)
    assert case.hint()[0] == 3
    found = DrillCase.find(tmp_path)
    assert found is not None
    assert (found.record.hints, found.record.open_seconds) == (3, 5.0)


@pytest.mark.parametrize("text", ["", "{", '{"drill": "no-such-drill", "target": "", "began_utc": ""}'])
def test_a_damaged_one_can_be_left(tmp_path: Path, text: str) -> None:
    case = opened(tmp_path)
    (case.folder / "case.json").write_text(text)
    with pytest.raises(DrillError) as caught:
        DrillCase.find(tmp_path)
    assert "drill leave" in caught.value.hint
    assert forget_drill(tmp_path)
    assert DrillCase.find(tmp_path) is None
    assert not forget_drill(tmp_path)


def test_one_whose_file_is_gone_can_be_left(tmp_path: Path) -> None:
    opened(tmp_path).change(drill=str(tmp_path / "gone.toml"))
    with pytest.raises(DrillError) as caught:
        DrillCase.find(tmp_path)
    assert "drill leave" in caught.value.hint


@pytest.mark.parametrize(
    "damage", [{"saved_percent": -4.0}, {"changed": {"disk01": []}}, {"changed": {"disk01": [[0, 0]]}}]
)
def test_an_outcome_that_raidlab_cannot_have_written_is_none(damage: dict[str, Any]) -> None:
    sound = DrillOutcome(
        id="x", drill="x", title="x", began_utc="", ended_utc="", verdict="saved", saved_percent=100.0, touched_bytes=0,
        was_committed=True, minutes=1.0, hints=0, resets=0, changed={"disk01": [[0, 512]]},
    )  # fmt: skip
    assert sound.is_sound
    assert not msgspec.structs.replace(sound, **damage).is_sound
    assert "# x: a word" in debriefing(msgspec.structs.replace(sound, verdict="a word"), None)


@pytest.mark.parametrize("seed", ["x" * 101, " ", "a\nb", "\x1b[2J", " anna"])
def test_what_is_no_seed_is_refused_at_the_start(seed: str) -> None:
    path = find_drill("1")
    with pytest.raises(SpecError, match="is no seed"):
        ready(read_drill(path), path, seed)
