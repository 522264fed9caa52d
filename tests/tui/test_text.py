"""The text mode: everything is printed as lines, and works with the same keys."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import msgspec
import pytest
from cyclopts import App

from lab.cli.app import make_app
from lab.drills.case import CaseRecord, DrillCase, ExamTerms
from lab.drills.schema import find_drill, read_drill
from lab.plain_page import page_lines
from tests.tui.fake_lab import FakeLab
from tests.tui.talk import Talk
from tests.unit.drills.outcomes import ID, OUTCOME, put_outcome
from tests.unit.fakes import Scripted
from tests.waiting import PATIENCE_SECONDS
from tui.text import _WITHOUT_MACHINE, _chooses_target, needs_machine, words_wrapped


def test_the_start_of_the_machine_and_the_next_step_are_printed(talk: Talk) -> None:
    heard = talk.ask("", "next: No array yet. b creates a RAID 5 to start with; build offers all choices.")
    assert "9 disks, 9 of them free." in heard
    assert "[b]" not in heard


def test_b_shows_the_commands_and_only_yes_runs_them(talk: Talk, fake_lab: FakeLab) -> None:
    talk.ask("b", "Type yes to run it")
    talk.ask("no", "nothing was changed.")
    talk.ask("b", "mdadm --create /dev/md0")
    talk.hear("Type yes to run it")
    talk.ask("?", "yes runs exactly these commands.")
    assert not any(run[:2] == ("mdadm", "--create") for run in fake_lab.machine.runs)
    talk.ask("yes", "running: mdadm --create /dev/md0")
    talk.hear("done: Create md0")
    assert any(run[:2] == ("mdadm", "--create") for run in fake_lab.machine.runs)


@pytest.mark.app(shows="raid5-checking")
def test_a_disk_is_selected_by_its_number_and_failed_with_f(talk: Talk) -> None:
    talk.ask("2", "selected: disk02: 500 MiB file, member in md0, slot 1.")
    heard = talk.ask("?", "disk09: ")
    for line in ("f or fail: Fail. Mark the selected disk", "build: Compose an array", "drill: Disasters", "b: "):
        assert line in heard
    talk.ask("f", "mdadm --manage /dev/md0 --fail /dev/ubdb")


def test_events_are_printed_when_they_happen(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    talk.look()
    talk.hear("md computes the parity of md0 (first sync).")
    fake_lab.finish_sync()
    talk.look()
    talk.hear("md0 is ready: any one disk may fail now.")


@pytest.mark.app(shows="raid5-checking")
def test_a_menu_is_numbered(talk: Talk) -> None:
    assert "1: 1 MiB/s. at most, for each member." in talk.ask("t", "Type a number")
    talk.ask("99", "nothing was changed.")


def test_commands_are_typed_behind_an_exclamation_mark(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.machine.answers[("bash", "-c")] = Scripted(stdout="hello from the machine\n")
    talk.ask("! cat /proc/mdstat", "hello from the machine")


def test_a_lost_machine_is_reported_and_restart_starts_it(talk: Talk, fake_lab: FakeLab) -> None:
    fake_lab.lose()
    talk.hear("The machine is lost: the embedded kernel ended unexpectedly")
    talk.ask("restart", "The machine uml: is running.")


def test_an_array_is_put_together_choice_by_choice(talk: Talk, fake_lab: FakeLab) -> None:
    talk.ask("build", "b to build.")
    talk.ask("", "cancelled; nothing was built.")
    heard = talk.ask("build", "b to build.")
    assert "1: Level: RAID 5 (stripes, parity rotates)." in heard
    assert "It survives the loss of: 1 disk." in heard
    talk.ask("1", "5: RAID 6.")
    assert "It survives the loss of: 2 disks." in talk.ask("5", "b to build.")
    assert "nonsense is not free." in talk.ask("disks 2 3 nonsense", "It cannot be built yet")
    talk.ask("disks 2 3 4 disk05", "b to build.")
    talk.ask("b", "Type yes to run it")
    talk.ask("yes", "done: Create md0")
    created = next(run for run in fake_lab.machine.runs if run[:2] == ("mdadm", "--create"))
    assert "--level=raid6" in created
    assert created[-4:] == ("/dev/ubdb", "/dev/ubdc", "/dev/ubdd", "/dev/ubde")


def test_the_command_line_can_be_typed(talk: Talk, fake_lab: FakeLab, capsys: pytest.CaptureFixture[str]) -> None:
    talk.ask("raidlab workloads", "raidlab workloads: exited with status 0.")
    assert "rand-mix-4k" in capsys.readouterr().out
    talk.ask("raidlab results show 'no such", "exited with status 2.")
    for line in ("lesson list", "raidlab fleet", "raidlab sweep", "raidlab lesson"):
        talk.ask(line, f"{line}: exited with status 0.")
    assert talk.app.lab.is_open
    assert fake_lab.opened == 1


@pytest.mark.app(shows="raid5-checking")
def test_a_command_that_changes_arrays_acts_on_the_open_lab(talk: Talk, fake_lab: FakeLab) -> None:
    for line, answer, end in (
        ("raidlab array fail md0 disk02", "no", "nothing was changed."),
        ("array fail md0 disk02", "yes", "done: "),
    ):
        talk.ask(line, "mdadm --manage /dev/md0 --fail /dev/ubdb")
        talk.hear("Type yes to run it")
        talk.ask(answer, end)
    assert ("mdadm", "--manage", "/dev/md0", "--fail", "/dev/ubdb") in fake_lab.machine.runs
    assert fake_lab.opened == 1


@pytest.mark.app(shows="raid5-checking")
def test_waiting_for_an_array_holds_nothing_up(talk: Talk, fake_lab: FakeLab) -> None:
    talk.ask("array wait md0", "md0: the end of its check will be reported.")
    talk.ask("array wait md7", "md7 is not running.")
    fake_lab.finish_sync()
    talk.look()
    talk.ask("array wait md0", "md0 is idle.")
    talk.type("q")
    talk.wait(lambda: talk.status == [0], "the end")


@pytest.mark.app(shows="raid5")
def test_an_invalid_command_is_rejected_at_once(talk: Talk, fake_lab: FakeLab) -> None:
    talk.ask("array scrub md0 polish", "problem: there is no action 'polish'. next: known: check, repair, stop")
    talk.ask("array fail md0 disk09", "problem: ")
    talk.ask("array create md1", "'raidlab array create --help' shows its arguments and options")
    talk.ask("array fial md0 disk01", "did you mean 'raidlab array fail'?")
    assert fake_lab.opened == 1


def test_q_says_which_command_it_ends(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def run(argv: list[str]) -> int:
        return int(not may_end.wait(PATIENCE_SECONDS))

    monkeypatch.setattr("lab.cli.main.run", run)
    talk.type("raidlab results")
    talk.ask("raidlab workloads", "not run: the previous raidlab command is still running.")
    talk.ask("q", "raidlab results was still running, and was ended.")
    may_end.set()


NEEDING_MACHINE = {
    "array": "add assemble bad-block bitmap capacity corrupt create destroy fail grow inspect map mark plug-in pull "
    "re-add remove replace scrub show speed stop verify wait",
    "disks": "add calibrate plug-in power-cut pull remove reset slow",
    "drill": "clear commit debrief leave reset start verify",
    "fault": "campaign points replay run",
    "findings": "run",
    "lesson": "answer check do measure reset start verify",
}
"""Commands that open the machine, or start one on some targets only. Six more have no subcommands (see below)."""


def commands_of(app: App) -> Iterator[str]:
    """All commands of raidlab, without those that only have subcommands."""
    for name in app:
        if not name.startswith("-"):
            below = [f"{name} {each}" for each in commands_of(app[name])]
            yield from below or [name]


def test_the_machine_is_known_to_be_needed_or_not_for_every_command() -> None:
    needing = {f"{group} {name}" for group, names in NEEDING_MACHINE.items() for name in names.split()}
    needing |= {"exec", "load", "md-tests", "run", "shell", "watch"}
    known = set(commands_of(make_app()))
    # A new command belongs in NEEDING_MACHINE here or in _WITHOUT_MACHINE in tui/text.py.
    assert {line for line in known if needs_machine([*line.split(), "x"])} == needing
    assert {word for word in _WITHOUT_MACHINE if not any(f"{line} ".startswith(f"{word} ") for line in known)} == set()


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("", False),
        ("--json --quiet", False),
        ("--json report latest -o x.html", False),
        ("run", False),
        ("run antioquia", True),
        ("run --resume=latest", True),
        ("lesson", False),
        ("lesson do", True),
        ("array create --help", False),
        ("exec ls --help", True),
        ("disks", True),
    ],
)
def test_options_and_missing_words_are_considered(words: str, needs: bool) -> None:
    assert needs_machine(words.split()) is needs


@pytest.mark.parametrize(
    ("words", "target", "chooses"),
    [
        ("array show", "uml:", False),
        ("run antioquia", "uml:", False),
        ("run --resume latest", "uml:?name=class", True),
        ("--json run --resume=latest", "qemu:", True),
        ("run --resume latest", "ssh:lab1", False),
        ("run --resume latest", "uml:?kernel=/home/me/linux", False),
        ("-q sweep levels", "qemu:", True),
        ("lesson do --on uml:", "ssh:lab1", True),
        ("array show --on=uml:?name=other", "uml:", True),
        ("exec -- program --on x", "ssh:lab1", False),
    ],
)
def test_a_command_that_chooses_its_target_gets_no_other(words: str, target: str, chooses: bool) -> None:
    assert _chooses_target(words.split(), target) is chooses


def test_what_needs_a_process_of_its_own_is_refused(
    talk: Talk, fake_lab: FakeLab, capfd: pytest.CaptureFixture[str]
) -> None:
    for words, message in (
        ("raidlab serve", "'raidlab serve' does not run within the text mode"),
        ("raidlab --text", "the text mode is already running here"),
    ):
        talk.ask(words, f"{words}: exited with status 1.")
        assert f"raidlab: {message}\n  next: run it in another terminal" in capfd.readouterr().err
    assert fake_lab.opened == 1


@pytest.mark.parametrize("words", ["lesson check", "array fail md0 disk02 --plan"])
def test_what_only_the_command_line_can_do_gets_the_lab_and_gives_it_back(
    talk: Talk, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    seen: list[tuple[list[str], bool]] = []

    def run(argv: list[str]) -> int:
        seen.append((argv, talk.app.client.session is None))
        return 3

    monkeypatch.setattr("lab.cli.main.run", run)
    talk.type(words)
    talk.wait(lambda: talk.output.getvalue().count("The machine uml: is running.") == 2, "the lab is open again")
    talk.wait(lambda: "exited with status 3." in talk.output.getvalue(), "the status")
    assert seen == [(["--on", "uml:", *words.split()], True)]
    assert fake_lab.opened == 2


def test_a_command_without_effect_is_rejected_with_the_reason(talk: Talk) -> None:
    talk.type("disk01")
    for line, message in (
        ("blah", "blah is not a command here; ? lists the commands."),
        ("m", "m is not possible now: there is no array yet."),
        ("f", "f is not possible now: disk01 is not a working member of an array."),
        ("debrief", "debrief is not possible now: no drill is open."),
    ):
        talk.ask(line, message)


def test_an_answer_that_comes_before_its_question_is_for_that_question(talk: Talk) -> None:
    talk.type("b")
    talk.ask("yes", "done: Create md0")


BEGAN = "2026-01-01T10:00:00Z"


def store_drill(lab: FakeLab, exam: ExamTerms | None = None) -> None:
    folder = lab.host.state.lab_folder("default") / "drill"
    folder.mkdir(parents=True)
    record = CaseRecord(drill=ID, target="uml:", began_utc=BEGAN, file_system_uuid="", blocks=9, exam=exam)
    (folder / "case.json").write_bytes(msgspec.json.encode(record))


@pytest.fixture
def open_drill(fake_lab: FakeLab) -> None:
    """The first drill was open when the program ended."""
    store_drill(fake_lab)


@pytest.fixture
def open_exam(fake_lab: FakeLab) -> None:
    """An exam in the first drill was open when the program ended."""
    store_drill(fake_lab, ExamTerms(minutes=45, first_utc=BEGAN))


def case_of(lab: FakeLab) -> DrillCase | None:
    return DrillCase.find(lab.host.state.lab_folder("default"))


def test_drills_are_listed_with_their_outcomes(talk: Talk, fake_lab: FakeLab) -> None:
    put_outcome(fake_lab.host, OUTCOME)
    heard = talk.ask("drill", "drill start 1 sets up the first.")
    assert "1: Members dropped out, one after the other (20 minutes). Partly lost, 62.5 % (1 attempt).\n" in heard
    assert "11: A second error during the rebuild (40 minutes). Not tried yet.\n" in heard


def test_drill_commands_without_a_drill_report_why_and_invalid_ones_print_the_help(talk: Talk) -> None:
    for word in ("status", "hint", "commit", "reset", "debrief", "leave"):
        talk.ask(f"drill {word}", "problem: no drill is open in this lab.")
    talk.ask("drill start 99", "problem: there is no drill '99'.")
    talk.ask("drill debrief latest", "problem: no drill has been completed yet")
    for line in ("drill save", "drill start", "drill list --json", "drill hint 2", "drill start 'a"):
        talk.ask(line, "drill start: Create a disaster on the lab's disks")


@pytest.mark.usefixtures("open_drill")
def test_an_open_drill_continues_and_its_commands_work_with_or_without_prefix(talk: Talk, fake_lab: FakeLab) -> None:
    heard = talk.hear("! LINE runs LINE on the machine.")
    assert "Drill 1, Members dropped out, one after the other, continues.\n" in heard
    assert heard.count("next: ") == heard.count("next: Drill 1, 0 min: not committed.") == 1
    hints = read_drill(find_drill(ID)).hints
    for number, word in enumerate(("hint", "drill hint", "raidlab drill hint", "hint"), start=1):
        talk.ask(word, f"Hint {number} of {len(hints)}.")
    talk.hear("that is the last hint.")
    assert f"Hint {len(hints)} of {len(hints)}." in talk.ask("hint", "that is the last hint.")
    heard = talk.ask("drill", "commands               0.")
    assert "The file server was moved to another room." in heard
    assert "Hint 1 of 4." in heard
    assert "committed              not yet\nwritten before commit  nothing\n" in heard
    # The lab was not closed for any of this.
    assert fake_lab.opened == 1


@pytest.mark.usefixtures("open_drill")
def test_commands_for_the_machine_are_stored_with_the_drill(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("continues.")
    talk.ask("! cat /proc/mdstat", "# cat /proc/mdstat")
    talk.wait(lambda: not talk.app.shell.running_line, "the line has ended")
    case = case_of(fake_lab)
    assert case is not None
    assert [command.line for command in case.commands()] == ["cat /proc/mdstat"]


@pytest.mark.usefixtures("open_drill")
def test_only_one_drill_is_open_and_it_can_be_left(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("! LINE runs LINE on the machine.")
    heard = talk.ask("drill list", "drill status shows")
    assert "1: Members dropped out, one after the other (20 minutes). Open now.\n" in heard
    talk.ask("drill start 2", f"problem: drill {ID} is open in this lab. next: 'raidlab drill debrief' ends it")
    talk.ask("leave", "the drill is closed;")
    assert case_of(fake_lab) is None
    talk.ask("", "next: No array yet.")


@pytest.mark.usefixtures("open_exam")
def test_practice_does_not_replace_an_open_exam(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("! LINE runs LINE on the machine.")
    heard = talk.ask("drill start 1 --again", "'raidlab drill debrief' ends it")
    assert f"problem: an exam in {ID} is open in this lab" in heard
    case = case_of(fake_lab)
    assert case is not None
    assert case.record.exam is not None


def test_nothing_is_printed_or_executed_while_a_drill_is_set_up(talk: Talk, fake_lab: FakeLab) -> None:
    talk.app.drills.on_making(True)
    talk.hear("The drill is being set up.")
    fake_lab.show("raid5")
    talk.look()
    for line in ("", "log", "! cat /proc/mdstat", "raidlab array show"):
        assert "md0" not in talk.ask(line, "The drill is being set up.")
    assert "# cat" not in talk.output.getvalue()
    talk.app.drills.on_making(False)
    talk.ask("", "md0: raid5")


def test_the_debriefing_is_printed_without_markup(talk: Talk, fake_lab: FakeLab) -> None:
    put_outcome(fake_lab.host, OUTCOME)
    heard = talk.ask("raidlab drill debrief latest", "from the others.")
    assert "Members dropped out: partly lost\n" in heard
    assert "data saved: 62.5 %" in heard
    # Each disk's strip is on its own line.
    strips = [line.split() for line in heard.splitlines() if re.match(r" *disk.* differ$", line)]
    assert [(words[0], *words[2:]) for words in strips] == [
        ("disk01", "4", "KiB", "differ"),
        ("disk02", "512", "B", "differ"),
    ]
    assert not set("`*#") & set(heard)
    assert fake_lab.opened == 1


def test_a_page_has_no_frames_and_keeps_to_the_columns() -> None:
    page = "# A title\n\nSome **bold** words, and `mdadm --examine /dev/ubda` between them.\n\n- one\n- two\n"
    found = list(page_lines(page, 40))
    assert found[0] == "A title"
    assert " ".join(found[2:4]) == "Some bold words, and 'mdadm --examine /dev/ubda' between them."
    assert [line.strip(" •") for line in found[-2:]] == ["one", "two"]
    assert all(len(line) <= 40 for line in found)


def test_words_are_not_broken_between_lines() -> None:
    assert list(words_wrapped("drill     makes a disaster\n\nx", 16)) == ["drill     makes", "a disaster", "", "x"]
    assert list(words_wrapped("/dev/disk/by-id/long-name it", 10)) == ["/dev/disk/by-id/long-name", "it"]
