"""How the arrays of a drill are started before it is judged."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.arrays.status import ArrayState, ArrayStatus
from lab.checks.state import MemberPicture
from lab.drills import desk, verbs, verdict
from tests.unit.fakes import FakeMachine
from tests.unit.lessons.samples import array, member


def test_one_lost_block_is_visible() -> None:
    assert [desk.percent_of(count, 99_999) for count in (99_999, 99_998, 0)] == [100.0, 99.99, 0.0]
    assert desk.percent_of(0, 0) == 0.0


def test_every_verdict_has_its_text() -> None:
    assert {*verdict.drill_words().verdicts} == {*verdict.DrillVerdict}


def test_requests_from_inside_the_machine_are_words_of_verbs() -> None:
    program = Path(verdict.__file__).with_name("guest") / "drill.sh"
    (asked,) = re.findall(r"^  (status .*)\) ;;$", program.read_text(encoding="utf-8"), re.MULTILINE)
    assert asked.split(" | ") == [*verbs._TYPED]
    assert [word for word, verb in verbs._TYPED.items() if verb.short_name() != word] == ["end"]


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
    verdict._examine_data(desk_with(machine, array(members=members, degraded_count=1, state=state)), "")
    assert (("mdadm", "--readwrite", "/dev/md0") in machine.runs) is is_made_writable
    assert done == ["settle /dev/md0"]


@pytest.mark.parametrize(("asked", "name"), [("", "md90"), ("md0", "md0"), ("md1", "")])
def test_a_repaired_array_is_started_under_the_requested_name(
    monkeypatch: pytest.MonkeyPatch, asked: str, name: str
) -> None:
    machine = FakeMachine()

    def is_found(_: Any, found: str, wanted: str) -> bool:
        return wanted in ("", found) and found != "md1"

    def statuses() -> tuple[ArrayStatus, ...]:
        started = [argv[4].removeprefix("/dev/") for argv in machine.runs if "--assemble" in argv]
        return tuple(array(name=each) for each in ("md1", *started))

    monkeypatch.setattr(verdict, "_is_drill_array", is_found)
    monkeypatch.setattr(verdict, "examine_members", lambda *_: {"disk01": MemberPicture(disk="disk01", uuid="u")})
    found = desk_with(machine)
    found.session.statuses = statuses
    machine.files["/proc/mdstat"] = ""
    assert verdict._start_what_was_repaired(found, asked) == ""
    made_writable = [argv[2] for argv in machine.runs if "--readwrite" in argv]
    assert made_writable == ([f"/dev/{name}"] if name else [])
    assert not [argv for argv in machine.runs if "--stop" in argv]
