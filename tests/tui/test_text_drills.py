"""Drills in the text mode: listed, gone on with, asked about, told in words. Made and saved: tests/kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest

from lab.drills.case import CaseRecord, DrillCase, DrillOutcome
from lab.drills.schema import find_drill, read_drill
from lab.plain_page import page_lines
from tests.tui.fake_lab import FakeLab
from tests.tui.talk import Talk
from tests.unit.drills.outcomes import put_outcome
from tui.text import words_wrapped

ID = "01-dropped-members"
OUTCOME = DrillOutcome(
    id=f"{ID}-1",
    drill=ID,
    title="Members dropped out",
    began_utc="2026-01-01T10:00:00Z",
    ended_utc="2026-01-01T10:20:00Z",
    verdict="partly lost",
    saved_percent=62.5,
    touched_bytes=0,
    was_committed=True,
    minutes=20,
    hints=1,
    resets=0,
    changed={"disk01": [[0, 4096]], "disk02": [[0, 512]]},
)


@pytest.fixture
def talk(fake_lab: FakeLab) -> Iterator[Talk]:
    made = Talk(fake_lab)
    yield made
    made.close()


@pytest.fixture
def in_drill(fake_lab: FakeLab) -> Iterator[Talk]:
    """The first drill was open when the program ended."""
    folder = fake_lab.host.state.lab_folder("default") / "drill"
    folder.mkdir(parents=True)
    record = CaseRecord(drill=ID, target="uml:", began_utc="2026-01-01T10:00:00Z", file_system_uuid="", blocks=9)
    (folder / "case.json").write_bytes(msgspec.json.encode(record))
    made = Talk(fake_lab)
    made.hear("is running.")
    made.look()
    yield made
    made.close()


def case_of(lab: FakeLab) -> DrillCase | None:
    return DrillCase.find(lab.host.state.lab_folder("default"))


def test_drills_are_listed_with_what_was_reached(talk: Talk, fake_lab: FakeLab) -> None:
    put_outcome(fake_lab.host, OUTCOME)
    talk.hear("is running.")
    talk.type("drill")
    heard = talk.hear("drill start 1 sets up the first.")
    assert "1: Members dropped out, one after the other (20 minutes). Partly lost, 62.5 % (1 attempt).\n" in heard
    assert "11: A second error during the rebuild (40 minutes). Not tried yet.\n" in heard


def test_without_a_drill_its_words_do_nothing(talk: Talk) -> None:
    talk.hear("is running.")
    talk.look()
    for word in ("status", "hint", "commit", "reset", "debrief", "leave"):
        talk.type(f"drill {word}")
        talk.hear("No drill is open in this lab.")
    talk.type("hint")
    talk.hear("hint is not possible now: no drill is open.")
    talk.type("drill start 99")
    talk.hear("problem: there is no drill '99'.")
    talk.type("drill debrief latest")
    talk.hear("problem: no drill has been ended yet")


def test_what_is_no_word_of_drills_is_explained(talk: Talk) -> None:
    talk.hear("is running.")
    for line in ("drill save", "drill start", "drill list --json", "drill hint 2", "drill start 'a"):
        talk.type(line)
        talk.hear("drill start 1     set one up on blank disks")


def test_a_drill_goes_on_and_its_words_need_no_other(in_drill: Talk, fake_lab: FakeLab) -> None:
    heard = in_drill.hear("! LINE runs LINE on the machine.")
    assert "Drill 1, Members dropped out, one after the other, continues.\n" in heard
    assert heard.count("next: ") == heard.count("next: Drill 1, 0 min: not committed.") == 1
    hints = read_drill(find_drill(ID)).hints
    for number, word in enumerate(("hint", "drill hint", "raidlab drill hint", "hint"), start=1):
        in_drill.type(word)
        in_drill.hear(f"Hint {number} of {len(hints)}.")
    in_drill.type("hint")
    in_drill.hear("There are no more hints.")
    in_drill.type("drill")
    heard = in_drill.hear("commands: 0.")
    assert "The file server was moved to another room." in heard
    assert "Hint 1 of 4." in heard
    assert "committed: not yet.\nwritten before commit: nothing.\n" in heard
    # The lab was never closed for any of it.
    assert fake_lab.opened == 1


def test_what_is_typed_for_the_machine_is_kept_with_the_drill(in_drill: Talk, fake_lab: FakeLab) -> None:
    in_drill.hear("continues.")
    in_drill.type("! cat /proc/mdstat")
    in_drill.hear("# cat /proc/mdstat")
    in_drill.wait(lambda: not in_drill.app.shell.running_line, "the line has ended")
    case = case_of(fake_lab)
    assert case is not None
    assert [command.line for command in case.commands()] == ["cat /proc/mdstat"]


def test_only_one_drill_is_open_and_it_can_be_left(in_drill: Talk, fake_lab: FakeLab) -> None:
    in_drill.hear("! LINE runs LINE on the machine.")
    in_drill.type("drill list")
    assert "1: Members dropped out, one after the other (20 minutes). Open now.\n" in in_drill.hear(
        "drill status shows"
    )
    in_drill.type("drill start 2")
    in_drill.hear("Drill 1 is open. drill debrief ends it, drill leave gives it up.")
    in_drill.type("leave")
    in_drill.hear("The drill is closed.")
    assert case_of(fake_lab) is None
    in_drill.type("")
    in_drill.hear("next: No array yet.")


def test_nothing_is_told_or_obeyed_while_a_disaster_is_made(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("is running.")
    talk.look()
    talk.app.drills.on_making(True)
    talk.hear("The drill is being set up.")
    fake_lab.show("raid5")
    talk.look()
    for line in ("", "log", "! cat /proc/mdstat", "raidlab array show"):
        talk.type(line)
        assert "md0" not in talk.hear("The drill is being set up.")
    assert not talk.app.shell.output
    talk.app.drills.on_making(False)
    talk.type("")
    talk.hear("md0: raid5")


def test_the_last_page_is_told_in_words_without_marks(talk: Talk, fake_lab: FakeLab) -> None:
    put_outcome(fake_lab.host, OUTCOME)
    talk.hear("is running.")
    talk.type("raidlab drill debrief latest")
    heard = talk.hear("is rebuilt from the others.")
    assert "Members dropped out: partly lost\n" in heard
    assert "data saved: 62.5 %" in heard
    # Each disk's strip stands on a line of its own.
    strips = [line.split() for line in heard.splitlines() if re.match(r" *disk.* differ$", line)]
    assert [(words[0], *words[2:]) for words in strips] == [
        ("disk01", "4", "KiB", "differ"),
        ("disk02", "512", "B", "differ"),
    ]
    assert not set("`*#") & set(heard)
    assert fake_lab.opened == 1


def test_a_page_has_no_frames_and_keeps_to_the_columns() -> None:
    page = "# A title\n\nSome **bold** words, and `mdadm --examine /dev/ubda` between them.\n\n- one\n- two\n"
    told = list(page_lines(page, 40))
    assert told[0] == "A title"
    assert " ".join(told[2:4]) == "Some bold words, and 'mdadm --examine /dev/ubda' between them."
    assert [line.strip(" •") for line in told[-2:]] == ["one", "two"]
    assert all(len(line) <= 40 for line in told)


def test_words_are_not_broken_between_lines() -> None:
    assert list(words_wrapped("drill     makes a disaster\n\nx", 16)) == ["drill     makes", "a disaster", "", "x"]
    assert list(words_wrapped("/dev/disk/by-id/long-name it", 10)) == ["/dev/disk/by-id/long-name", "it"]
