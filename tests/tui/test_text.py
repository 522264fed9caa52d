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
    yield made
    made.close()


def test_it_says_when_the_machine_runs_and_what_comes_next(talk: Talk) -> None:
    talk.hear("The machine uml: runs.")
    talk.look()
    talk.type("")
    heard = talk.hear("next: Nothing is built yet. b builds a good first RAID 5; build lets you choose.")
    assert "9 disks, 9 of them free." in heard
    assert "[b]" not in heard


def test_b_shows_the_commands_and_yes_runs_them(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("runs.")
    talk.look()
    talk.type("b")
    talk.hear("mdadm --create /dev/md0")
    talk.hear("Type yes to run it")
    assert not any(run[:2] == ("mdadm", "--create") for run in fake_lab.machine.runs)
    talk.type("yes")
    talk.hear("running: mdadm --create /dev/md0")
    talk.hear("done: Create md0")
    assert any(run[:2] == ("mdadm", "--create") for run in fake_lab.machine.runs)


def test_anything_but_yes_leaves_it(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("runs.")
    talk.look()
    talk.type("b")
    talk.hear("Type yes to run it")
    talk.type("no")
    talk.hear("left as it was.")
    assert not any(run[:2] == ("mdadm", "--create") for run in fake_lab.machine.runs)


def test_a_disk_is_selected_by_its_number_and_failed_with_f(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5-checking")
    talk.hear("runs.")
    talk.look()
    talk.type("2")
    talk.hear("selected: disk02: 500 MiB file, member in md0, slot 1.")
    talk.type("?")
    assert "f: Fail." in talk.hear("help explains the rest.")
    talk.type("f")
    talk.hear("mdadm --manage /dev/md0 --fail /dev/ubdb")


def test_what_happens_is_told_when_it_happens(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("runs.")
    talk.look()
    fake_lab.show("raid5")
    talk.look()
    talk.hear("md computes the parity of md0 (first sync).")
    fake_lab.finish_sync()
    talk.look()
    talk.hear("md0 is ready: any one disk may fail now.")


def test_a_menu_is_numbered(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5-checking")
    talk.hear("runs.")
    talk.look()
    talk.type("t")
    assert "1: 1 MiB/s. at most, for each member." in talk.hear("Type a number")
    talk.type("99")
    talk.hear("left as it was.")


def test_commands_are_typed_behind_an_exclamation_mark(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("runs.")
    fake_lab.machine.answers[("bash", "-c")] = Scripted(stdout="hello from the machine\n")
    talk.type("! cat /proc/mdstat")
    talk.hear("hello from the machine")


def test_a_lost_machine_is_told_and_restart_starts_it(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("runs.")
    talk.look()
    fake_lab.lose()
    talk.hear("The machine is lost: the embedded kernel ended unexpectedly")
    talk.type("restart")
    talk.hear("The machine uml: runs.")


def test_an_array_is_put_together_choice_by_choice(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("runs.")
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
    talk.hear("runs.")
    talk.look()
    talk.type("build")
    talk.hear("b to build.")
    talk.type("")
    talk.hear("left; nothing was built.")


def test_the_command_line_can_be_typed(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    talk.hear("runs.")
    talk.look()
    talk.type("raidlab workloads")
    talk.hear("raidlab workloads: ended with status 0.")
    assert "rand-mix-4k" in capsys.readouterr().out
    assert talk.app.lab.is_open
    talk.type("raidlab results show 'no such")
    talk.hear("ended with status 2.")


def test_a_command_that_opens_the_lab_gets_it_and_gives_it_back(
    talk: Talk, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[str], bool]] = []

    def run(argv: list[str]) -> int:
        seen.append((argv, talk.app.client.session is None))
        return 3

    monkeypatch.setattr("lab.cli.main.run", run)
    talk.hear("runs.")
    talk.look()
    talk.type("raidlab lesson list")
    talk.wait(lambda: talk.said.getvalue().count("The machine uml: runs.") == 2, "the lab is open again")
    talk.wait(lambda: "ended with status 3." in talk.said.getvalue(), "the status")
    assert seen == [(["--on", "uml:", "lesson", "list"], True)]
    assert fake_lab.opened == 2


def test_q_leaves(talk: Talk) -> None:
    talk.hear("runs.")
    talk.type("q")
    talk.wait(lambda: talk.status == [0], "the end")


@pytest.mark.parametrize("line", ["raidlab fleet", "raidlab sweep"])
def test_fleets_and_sweeps_leave_the_open_lab_as_it_is(talk: Talk, fake_lab: FakeLab, line: str) -> None:
    talk.hear("runs.")
    talk.type(line)
    talk.hear(f"{line}: ended with status 0.")
    assert fake_lab.opened == 1
    assert talk.app.lab.is_open
