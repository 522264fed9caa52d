from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from lab import __version__
from lab.arrays.discovery import BroughtUp
from lab.cli import app as cli_app
from lab.cli import context as cli_context
from lab.cli.app import COMMANDS
from lab.cli.context import Narrator
from lab.cli.lesson import print_page
from lab.cli.main import run
from lab.disks import DiskKind, Lab
from lab.errors import ExitCode, LabError, MachineLost, ToolMissing
from lab.host.signals import Interrupted
from lab.machine import Host, Target
from lab.machine.api import CommandResult
from lab.plans import Plan, Step
from tests.unit.cli.conftest import Typed
from tests.unit.disks.machines import Device, add, lab_disk
from tests.unit.fakes import FakeMachine, as_machine

REPOSITORY = Path(__file__).resolve().parents[3]


def fail_with(error: BaseException) -> None:
    def broken(*_: object, **_more: object) -> AbstractContextManager[Lab]:
        raise error

    cli_context.OPENER.set(broken)


def loaded_by(*arguments: str) -> set[str]:
    """The modules that are loaded when a command line ends."""
    code = (
        "import sys\nfrom lab.cli.main import run\n"
        f"status = run({list(arguments)!r})\nprint('LOADED', *sys.modules)\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    _, mark, names = done.stdout.rpartition("LOADED")
    assert mark
    return set(names.split())


def test_every_command_that_can_be_loaded_is_listed() -> None:
    loaded = re.findall(r'^        case "(\w+)":$', Path(cli_app.__file__).read_text(encoding="utf-8"), re.MULTILINE)
    assert loaded == [*COMMANDS]


def test_version_loads_next_to_nothing(typed: Typed) -> None:
    assert typed("--version").out == f"{__version__}\n"
    assert not loaded_by("--version") & {"rich", "cyclopts", "msgspec", "textual", "lab.machine"}


def test_a_plan_loads_nothing_that_renders() -> None:
    loaded = loaded_by("array", "create", "--level", "raid5", "--disks", "disk01,disk02,disk03", "--plan")
    assert "lab.actions.arrays" in loaded
    heavy = {
        *("rich", "textual", "numpy", "tui.app", "lab.doctor", "lab.adapt.study", "lab.sweep.cluster"),
        *("lab.cli.load", "lab.cli.results"),
    }
    assert not loaded & heavy


@pytest.mark.parametrize(
    "line",
    [
        *(f"run antioquia --plan --seed {number}" for number in ("1.5", "2.0", "three", "1e3")),
        "array create --level adapt5 --disks disk01,disk02,disk03 --plan --reference 1.5",
        "disks add --kind loop --count 1.5",
        "watch --count 1.5",
        "serve --port 1.5",
    ],
)
def test_numbers_that_are_not_whole_are_refused_and_not_rounded(line: str, typed: Typed) -> None:
    fail_with(AssertionError("nothing is opened"))
    *_, option, number = line.split()
    printed = typed(*line.split(), status=2)
    assert f"for {option}: '{number}' is not a whole number" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LabError("no"), 1),
        (ToolMissing("no mdadm"), 3),
        (MachineLost("gone"), 4),
        (Interrupted(2), 130),
        (Interrupted(15), 143),
        (Interrupted(1), 129),
    ],
)
def test_errors_have_their_status(error: BaseException, status: int, typed: Typed) -> None:
    fail_with(error)
    printed = typed("--on", "uml:", "disks", status=status)
    assert printed.out == ""
    assert printed.err.startswith("raidlab: ")


def test_an_error_is_printed_with_its_hint_and_as_json(typed: Typed) -> None:
    fail_with(LabError("it broke", hint="fix it"))
    printed = typed("disks", "--json", "--on", "uml:", status=1)
    assert printed.err == "raidlab: it broke\n  next: fix it\n"
    assert json.loads(printed.out) == {
        "error": {"kind": "LabError", "message": "it broke", "hint": "fix it", "exit_status": 1}
    }


def test_a_bug_leaves_its_traceback_in_a_file(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fail_with(ZeroDivisionError("oh"))
    printed = typed("--on", "uml:", "disks", status=1).err
    assert "ZeroDivisionError: oh" in printed
    assert "Traceback" not in printed
    (file,) = tmp_path.glob("*.traceback")
    assert "ZeroDivisionError" in file.read_text()


@pytest.mark.parametrize("arguments", [["--json", "--on", "uml:", "disks"], ["disks", "--on", "uml:", "--json"]])
def test_global_options_are_accepted_before_and_after_the_command(arguments: list[str], typed: Typed) -> None:
    assert [disk["name"] for disk in json.loads(typed(*arguments).out)["disks"]][:2] == ["disk01", "disk02"]


def test_the_target_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    monkeypatch.setenv("RAIDLAB_ON", "nowhere:")
    assert "'nowhere:' is not a target" in typed("disks", status=2).err


def test_help_names_all_commands(typed: Typed) -> None:
    printed = typed("--help").out
    for word in (*COMMANDS, "--on", "--json"):
        assert word in printed


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(each, marks=pytest.mark.wide) for each in ("zsh", "fish"))])
def test_completion_is_a_script(shell: str, typed: Typed) -> None:
    assert "raidlab" in typed("completion", shell).out


def test_a_physical_disk_is_typed_twice(machine: FakeMachine, capfd: pytest.CaptureFixture[str]) -> None:
    for confirm in ([], ["--confirm", "/dev/sdy"]):
        assert run(["--on", "local:", "disks", "add", "/dev/sdx", "--kind", "physical", *confirm]) == 1
    assert machine.runs == []
    assert "/dev/sdx cannot be added to the lab" in capfd.readouterr().err


def test_disks_of_an_earlier_command_are_detached(machine: FakeMachine) -> None:
    loop = lab_disk("disk01", "/dev/loop3", DiskKind.LOOP, backing="/var/lib/raidlab/disks/disk01.img")
    add(machine, Device("loop3"))

    @contextmanager
    def open_fake(_target: Target, host: Host, /, **_: object) -> Iterator[Lab]:
        yield Lab(as_machine(machine), host, [loop])

    cli_context.OPENER.set(open_fake)
    assert run(["--on", "local:", "disks", "remove", "disk01"]) == 0
    assert machine.runs[-2:] == [("losetup", "--detach", "/dev/loop3"), ("rm", "-f", loop.backing)]


@pytest.mark.parametrize(("target", "is_looked_for"), [("uml:", False), ("local:", True)])
def test_arrays_that_may_run_are_looked_for_before_all_disks_are_blanked(
    target: str, is_looked_for: bool, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    looked: list[Lab] = []

    def look(lab: Lab, *_: object, **__: object) -> BroughtUp:
        looked.append(lab)
        return BroughtUp()

    monkeypatch.setattr("lab.session.session.bring_up", look)
    # Every session looks again after the plan.
    monkeypatch.setattr("lab.session.session.LabSession.run", lambda *_, **__: None)
    typed("--on", target, "disks", "reset", "--all")
    assert bool(looked) == is_looked_for


def test_disks_of_the_embedded_lab_change_without_a_machine(machine: FakeMachine, tmp_path: Path, typed: Typed) -> None:
    assert typed("--on", "uml:", "disks", "add", "--kind", "file", "--count", "2").out == "added: disk10, disk11\n"
    assert run(["--on", "uml:", "disks", "add", "--kind", "file", "--count", "6"]) == 2
    assert run(["--on", "uml:", "disks", "remove", "disk10", "disk99"]) == 2
    assert run(["--on", "uml:", "disks", "remove", "disk10"]) == 0
    names = [disk["name"] for disk in json.loads((tmp_path / "labs/default/lab.json").read_text())]
    assert names == [*(f"disk0{number}" for number in range(1, 10)), "disk11"]
    assert machine.runs == []


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("results list", "'raidlab results' lists by default, so 'list' is not needed", "write: raidlab results"),
        ("disks ls", "'raidlab disks' lists by default, so 'ls' is not needed", "write: raidlab disks"),
        ("workloads list", "'raidlab workloads' lists by default, so 'list' is not needed", "write: raidlab workloads"),
        ("reslts", "there is no command 'raidlab reslts'", "did you mean 'raidlab results'?"),
        ("array shwo", "there is no command 'raidlab array shwo'", "did you mean 'raidlab array show'?"),
        ("drill lst", "there is no command 'raidlab drill lst'", "did you mean 'raidlab drill list'?"),
        ("results shwo latest", "there is no command 'raidlab results shwo'", "did you mean 'raidlab results show'?"),
        ("results show a b c", "'raidlab results show' does not accept 'b', 'c'", "leave that out"),
        ("doctor now", "'raidlab doctor' does not accept 'now'", "'raidlab doctor --help'"),
        ("lint --explan x", "Did you mean --explain", "'raidlab lint --help'"),
        ("xyzzy", "there is no command 'raidlab xyzzy'", "known: array"),
        ("array create", "--level", "'raidlab array create --help'"),
        ("array create --level raid5 --nonsense", "--nonsense", "'raidlab array create --help'"),
        ("array show --count x", "--count", "'raidlab array show --help'"),
        ("--on umm: disks", "'umm:' is not a target", ""),
        ("array stop disk01", "'disk01' is not an array name", ""),
        ("disks add --kind floppy", "floppy", ""),
        ("disks add --kind physical", "needs a path", ""),
        ("disks remove", "no disk was specified", "'raidlab disks' lists them"),
        ("fault points raid5 --cut x", "--cut needs exactly one configuration", "give its full name"),
        ("fault points raid5/ppl/idle/mixed --cut x", "'x' is not a crash point", "copy it exactly"),
    ],
)
def test_usage_errors_have_status_2_and_a_next_step(line: str, message: str, hint: str, typed: Typed) -> None:
    printed = typed(*line.split(), status=ExitCode.USAGE)
    assert printed.out == ""
    output, _, following = printed.err.partition("\n  next: ")
    assert following
    assert message in output
    assert hint in following
    assert "Unused Tokens" not in output


DISKS = [f"/dev/ubd{letter}" for letter in "abcdefghi"]


def narrated(
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
    lines = narrated(capsys, [("mdadm", "--stop", "/dev/md0"), *blank, ("true",)])
    assert lines == [
        "$ mdadm --stop /dev/md0  (0.50 s)",
        "$ blkdiscard --force /dev/ubda … /dev/ubdi  (9 commands, 4.50 s)",
        "$ true  (0.50 s)",
    ]


def test_few_commands_or_all_with_verbose_are_printed_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    blank = [("blkdiscard", disk) for disk in DISKS]
    assert len(narrated(capsys, blank[:3])) == 3
    assert len(narrated(capsys, blank, verbose=True)) == 9


def test_a_failed_command_is_printed_separately_after_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    blank = [("blkdiscard", disk) for disk in DISKS]
    assert narrated(capsys, blank, failing=2) == [
        "$ blkdiscard /dev/ubda /dev/ubdb  (2 commands, 1.00 s)",
        "$ blkdiscard /dev/ubdc  (status 1, 0.50 s)",
    ]
    assert narrated(capsys, blank, failing=0) == ["$ blkdiscard /dev/ubda  (status 1, 0.50 s)"]


def test_a_page_in_a_pipe_has_no_marks(capsys: pytest.CaptureFixture[str]) -> None:
    print_page("# A title\n\nIt is **lost**: type `mdadm`.\n\n```\n# dmesg\n```\n\n- one\n- two\n")
    page = capsys.readouterr().out
    assert "A title" in page
    assert "It is lost: type 'mdadm'." in page
    assert not {"`", "*"} & {*page}
