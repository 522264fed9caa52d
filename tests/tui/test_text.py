"""The text mode: everything in lines, done with the same keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tui.fake_lab import FakeLab
from tests.tui.talk import Talk
from tests.unit.fakes import Scripted


@pytest.fixture
def talk(fake_lab: FakeLab) -> Iterator[Talk]:
    made = Talk(fake_lab)
    made.hear("The machine uml: is running.")
    yield made
    made.close()


def test_it_says_when_the_machine_runs_and_what_comes_next(talk: Talk) -> None:
    talk.look()
    talk.type("")
    heard = talk.hear("next: No array yet. b creates a RAID 5 to start with; build offers all choices.")
    assert "9 disks, 9 of them free." in heard
    assert "[b]" not in heard


def test_b_shows_the_commands_and_only_yes_runs_them(talk: Talk, fake_lab: FakeLab) -> None:
    talk.look()
    talk.type("b")
    talk.hear("Type yes to run it")
    talk.type("no")
    talk.hear("nothing was changed.")
    talk.type("b")
    talk.hear("mdadm --create /dev/md0")
    talk.hear("Type yes to run it")
    talk.type("?")
    talk.hear("yes runs exactly these commands.")
    assert not any(run[:2] == ("mdadm", "--create") for run in fake_lab.machine.runs)
    talk.type("yes")
    talk.hear("running: mdadm --create /dev/md0")
    talk.hear("done: Create md0")
    assert any(run[:2] == ("mdadm", "--create") for run in fake_lab.machine.runs)


def test_a_disk_is_selected_by_its_number_and_failed_with_f(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5-checking")
    talk.look()
    talk.type("2")
    talk.hear("selected: disk02: 500 MiB file, member in md0, slot 1.")
    talk.type("?")
    heard = talk.hear("help lists the rest.")
    for line in ("f or fail: Fail. Mark the selected disk", "build: Compose an array", "drill: Disasters", "b: "):
        assert line in heard
    talk.type("f")
    talk.hear("mdadm --manage /dev/md0 --fail /dev/ubdb")


def test_what_happens_is_told_when_it_happens(talk: Talk, fake_lab: FakeLab) -> None:
    talk.look()
    fake_lab.show("raid5")
    talk.look()
    talk.hear("md computes the parity of md0 (first sync).")
    fake_lab.finish_sync()
    talk.look()
    talk.hear("md0 is ready: any one disk may fail now.")


def test_a_menu_is_numbered(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5-checking")
    talk.look()
    talk.type("t")
    assert "1: 1 MiB/s. at most, for each member." in talk.hear("Type a number")
    talk.type("99")
    talk.hear("nothing was changed.")


def test_commands_are_typed_behind_an_exclamation_mark(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.machine.answers[("bash", "-c")] = Scripted(stdout="hello from the machine\n")
    talk.type("! cat /proc/mdstat")
    talk.hear("hello from the machine")


def test_a_lost_machine_is_told_and_restart_starts_it(talk: Talk, fake_lab: FakeLab) -> None:
    talk.look()
    fake_lab.lose()
    talk.hear("The machine is lost: the embedded kernel ended unexpectedly")
    talk.type("restart")
    talk.hear("The machine uml: is running.")


def test_an_array_is_put_together_choice_by_choice(talk: Talk, fake_lab: FakeLab) -> None:
    talk.look()
    talk.type("build")
    heard = talk.hear("b to build.")
    assert "1: Level: RAID 5 (stripes, parity rotates)." in heard
    assert "It survives the loss of: 1 disk." in heard
    talk.type("1")
    talk.hear("5: RAID 6.")
    talk.type("5")
    assert "It survives the loss of: 2 disks." in talk.hear("b to build.")
    talk.type("disks 2 3 nonsense")
    assert "nonsense is not free." in talk.hear("It cannot be built yet")
    talk.type("disks 2 3 4 disk05")
    talk.hear("b to build.")
    talk.type("b")
    talk.hear("Type yes to run it")
    talk.type("yes")
    talk.hear("done: Create md0")
    created = next(run for run in fake_lab.machine.runs if run[:2] == ("mdadm", "--create"))
    assert "--level=raid6" in created
    assert created[-4:] == ("/dev/ubdb", "/dev/ubdc", "/dev/ubdd", "/dev/ubde")


def test_what_is_no_choice_leaves_the_building(talk: Talk, fake_lab: FakeLab) -> None:
    talk.look()
    talk.type("build")
    talk.hear("b to build.")
    talk.type("")
    talk.hear("cancelled; nothing was built.")


def test_the_command_line_can_be_typed(talk: Talk, fake_lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    talk.look()
    talk.type("raidlab workloads")
    talk.hear("raidlab workloads: exited with status 0.")
    assert "rand-mix-4k" in capsys.readouterr().out
    assert talk.app.lab.is_open
    talk.type("raidlab results show 'no such")
    talk.hear("exited with status 2.")
    talk.type("lesson list")
    talk.hear("raidlab lesson list: exited with status 0.")
    assert fake_lab.opened == 1


@pytest.mark.parametrize("line", ["raidlab array fail md0 disk02", "array fail md0 disk02"])
def test_a_command_that_changes_arrays_acts_on_the_open_lab(talk: Talk, fake_lab: FakeLab, line: str) -> None:
    fake_lab.show("raid5-checking")
    talk.look()
    talk.type(line)
    talk.hear("mdadm --manage /dev/md0 --fail /dev/ubdb")
    talk.hear("Type yes to run it")
    talk.type("yes")
    talk.hear("done: ")
    assert ("mdadm", "--manage", "/dev/md0", "--fail", "/dev/ubdb") in fake_lab.machine.runs
    assert fake_lab.opened == 1


def test_waiting_for_an_array_holds_nothing_up(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5-checking")
    talk.look()
    talk.type("array wait md0")
    talk.hear("md0: the end of its check will be reported.")
    talk.type("array wait md7")
    talk.hear("md7 is not running.")
    fake_lab.finish_sync()
    talk.look()
    talk.type("array wait md0")
    talk.hear("md0 is idle.")
    talk.type("q")
    talk.wait(lambda: talk.status == [0], "the end")


def test_what_is_wrong_with_such_a_command_is_said_at_once(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    talk.look()
    talk.type("array scrub md0 polish")
    talk.hear("problem: there is no action 'polish'. next: known: check, repair, stop")
    talk.type("array fail md0 disk09")
    talk.hear("problem: ")
    talk.type("array create md1")
    talk.hear("'raidlab array create --help' shows its arguments and options")
    talk.type("array fial md0 disk01")
    talk.hear("did you mean 'raidlab array fail'?")
    assert fake_lab.opened == 1


def test_options_that_only_the_command_line_has_are_the_command_lines(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def run(argv: list[str]) -> int:
        seen.append(argv)
        return 0

    monkeypatch.setattr("lab.cli.main.run", run)
    talk.look()
    talk.type("array fail md0 disk02 --plan")
    talk.hear("exited with status 0.")
    assert seen == [["--on", "uml:", "array", "fail", "md0", "disk02", "--plan"]]


def test_a_command_that_opens_the_lab_gets_it_and_gives_it_back(
    talk: Talk, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[str], bool]] = []

    def run(argv: list[str]) -> int:
        seen.append((argv, talk.app.client.session is None))
        return 3

    monkeypatch.setattr("lab.cli.main.run", run)
    talk.look()
    talk.type("raidlab lesson show")
    talk.wait(lambda: talk.said.getvalue().count("The machine uml: is running.") == 2, "the lab is open again")
    talk.wait(lambda: "exited with status 3." in talk.said.getvalue(), "the status")
    assert seen == [(["--on", "uml:", "lesson", "show"], True)]
    assert fake_lab.opened == 2


@pytest.mark.parametrize("line", ["raidlab fleet", "raidlab sweep"])
def test_fleets_and_sweeps_leave_the_open_lab_as_it_is(talk: Talk, fake_lab: FakeLab, line: str) -> None:
    talk.type(line)
    talk.hear(f"{line}: exited with status 0.")
    assert fake_lab.opened == 1
    assert talk.app.lab.is_open


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("blah", "blah is not a command here; ? lists the commands."),
        ("m", "m is not possible now: there is no array yet."),
        ("f", "f is not possible now: disk01 is no working member of an array."),
        ("debrief", "debrief is not possible now: no drill is open."),
    ],
)
def test_a_word_that_does_nothing_says_why(talk: Talk, line: str, said: str) -> None:
    talk.look()
    talk.type("disk01")
    talk.type(line)
    talk.hear(said)


def test_an_answer_that_comes_before_its_question_is_for_that_question(talk: Talk, fake_lab: FakeLab) -> None:
    talk.look()
    talk.type("b")
    talk.type("yes")
    talk.hear("done: Create md0")
