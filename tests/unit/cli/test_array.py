from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from lab.cli.main import run
from tests.unit.arrays.captures import load
from tests.unit.cli.conftest import Typed
from tests.unit.cli.superblocks import READS, UUID, as_read, superblock
from tests.unit.fakes import FakeMachine, Scripted

CREATE = ["array", "create", "--on", "uml:", "--level", "raid5"]
CREATED = (
    "mdadm --create /dev/md0 --run --metadata=1.2 --homehost=any --level=raid5 --raid-devices=3 --chunk=64 "
    "--layout=left-symmetric --bitmap=none /dev/ubda /dev/ubdb /dev/ubdc\n"
)


@pytest.mark.parametrize("disks", ["disk01,disk02,disk03", "3"])
def test_a_plan_prints_the_commands_and_does_nothing(disks: str, machine: FakeMachine, typed: Typed) -> None:
    printed = typed(*CREATE, "--disks", disks, "--chunk", "64K", "--plan")
    assert printed.out == CREATED
    assert "# mdadm writes a superblock on every member" in printed.err
    assert typed(*CREATE, "--disks", disks, "--chunk", "64K", "--plan", "-q") == (CREATED, "")
    assert not any(argv[0] == "mdadm" for argv in machine.runs)
    # Named disks are not looked up on the machine.
    assert disks == "3" or machine.runs == []


def test_a_plan_names_its_spare_last(typed: Typed) -> None:
    planned = typed(*CREATE, "--disks", "disk01,disk02,disk03", "--spares", "disk04", "--plan", "-q").out
    assert planned.endswith(" --spare-devices=1 /dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd\n")


def test_a_plan_as_json_has_steps(typed: Typed) -> None:
    printed = typed(*CREATE, "--disks", "disk01,disk02,disk03", "--fs", "ext4", "--plan", "--json").out
    steps = json.loads(printed)["steps"]
    assert [step["argv"][0] for step in steps] == ["mdadm", "mkfs.ext4"]
    assert steps[0]["danger"] == "data"
    assert steps[0]["undo"] == ["mdadm", "--stop", "/dev/md0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--level", "raid55"], "unknown level 'raid55'"),
        (["--level", "raid5", "--disks", "disk01,disk01,disk02"], "named twice"),
        (["--level", "raid5", "--chunk", "much"], "chunk 'much' is not a size"),
        (["--level", "raid5", "--disks", "disk01,disk02,disk99"], "no lab disk 'disk99'"),
        (["--level", "raid5", "--fs", "ext5"], "no file system 'ext5'"),
        (["--level", "adapt5", "--utilisation", "all"], "'all' is not a number"),
        (["--level", "adapt5", "--spares", "1"], "--spares is not possible with level adapt5"),
        (["--level", "adapt5", "--policy", "ppl"], "--policy is not possible with level adapt5"),
        (["--level", "raid5", "--reference", "2"], "raid5 does not support --reference"),
    ],
)
def test_arrays_that_cannot_be_have_status_2(
    arguments: list[str], message: str, machine: FakeMachine, typed: Typed
) -> None:
    assert message in typed("--on", "uml:", "array", "create", *arguments, status=2).err
    assert not any(argv[0] in ("mdadm", "dmsetup") for argv in machine.runs)


def test_too_many_disks_are_not_free(typed: Typed) -> None:
    assert "6 disks were requested, but only 5 of 5 are free" in typed(*CREATE, "--disks", "6", status=1).err


def test_members_of_an_array_that_does_not_run_are_neither_free_nor_overwritten(
    machine: FakeMachine, typed: Typed
) -> None:
    machine.answers[READS] = Scripted(stdout=as_read([superblock(0, [0, 1, 2]), *[None] * 4]))
    printed = typed(*CREATE, "md1", "--disks", "disk01,disk02,disk03", status=1).err
    assert "was not started: 2 of 3 members are missing" in printed
    assert "disk01 belongs to array md0, which is not running" in printed
    machine.answers[READS] = Scripted(
        stdout=as_read([superblock(n, [0, 1, 2, 3], slots=4) if n < 2 else None for n in range(5)])
    )
    printed = typed(*CREATE, "md1", "--disks", "disk01,disk02,disk03", status=1).err
    assert "disk01, disk02 belong to array md0, which is not running" in printed
    left = [superblock(0, [0, 0xFFFE, 0xFFFE]), *(superblock(n, [0, 1, 2], events=5) for n in (1, 2)), None, None]
    machine.answers[READS] = Scripted(stdout=as_read(left))
    printed = typed(*CREATE, "md1", "--disks", "disk02,disk03,disk04", status=1).err
    assert "disk02, disk03 were members of array md0, and still contain its metadata" in printed
    assert "blank them with 'raidlab disks reset disk02 disk03'" in printed
    machine.answers[READS] = Scripted(stdout=as_read([superblock(0, [0, 1, 2]), *[None] * 4]))
    planned = typed(*CREATE, "--disks", "3", "--plan", "-q").out
    assert planned.startswith("mdadm --create /dev/md1 ")
    assert planned.endswith(" /dev/ubdb /dev/ubdc /dev/ubdd\n")


def test_a_bitmap_chunk_alone_asks_for_a_bitmap(typed: Typed) -> None:
    create = ["--on", "uml:", "-q", "array", "create", "--level", "raid1", "--disks", "disk01,disk02"]
    assert "--bitmap=internal --bitmap-chunk=64 " in typed(*create, "--bitmap-chunk", "64K", "--plan").out
    assert run([*create, "--bitmap", "none", "--bitmap-chunk", "64K", "--plan"]) == 2


def test_only_one_disk_can_be_the_journal(typed: Typed) -> None:
    create = ["--on", "uml:", "array", "create", "--level", "raid5", "--disks", "3", "--journal", "disk04,disk05"]
    assert "name one disk" in typed(*create, "--plan", status=2).err


@pytest.fixture
def raid5(machine: FakeMachine) -> FakeMachine:
    """A machine with a running RAID 5 that is in sync, as captured."""
    return running(machine, "raid5-checking")


def running(machine: FakeMachine, capture: str) -> FakeMachine:
    record = load(capture)
    machine.files |= record["files"]
    machine.dirs |= {folder: tuple(names) for folder, names in record["entries"].items()}
    machine.dirs["/sys/block"] = ("md0", *(f"ubd{letter}" for letter in "abcde"))
    machine.answers[("mdadm", "--detail", "--export")] = Scripted(stdout=record["export"])
    return machine


@pytest.mark.usefixtures("raid5")
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["stop", "md0"], ["mdadm --stop /dev/md0"]),
        (["fail", "md0", "disk02"], ["mdadm --manage /dev/md0 --fail /dev/ubdb"]),
        (["add", "md0", "disk05"], ["mdadm --manage /dev/md0 --add /dev/ubde"]),
        (["scrub", "md0"], ["sh -c 'echo check > /sys/block/md0/md/sync_action'"]),
        (
            ["speed", "md0", "--min", "1M", "--max", "10M"],
            [
                "sh -c 'echo 1024 > /sys/block/md0/md/sync_speed_min'",
                "sh -c 'echo 10240 > /sys/block/md0/md/sync_speed_max'",
            ],
        ),
        (["grow", "md0", "--size", "max"], ["mdadm --grow /dev/md0 --size=max"]),
    ],
)
def test_every_operation_can_be_printed(arguments: list[str], lines: list[str], typed: Typed) -> None:
    assert typed("--on", "uml:", "array", *arguments, "--plan", "--quiet").out.splitlines() == lines


@pytest.mark.usefixtures("raid5")
def test_a_setting_that_ends_with_the_command_says_so(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "labs" / "default").mkdir(parents=True)
    line = ("array", "speed", "md0", "--max", "10M")
    assert "the setting lasts only while the lab is open" in typed("--on", "uml:", *line).err
    assert "lasts" not in typed("--on", "uml:", *line, "--plan").err
    assert "lasts" not in typed("--on", "uml:", "array", "scrub", "md0", "--no-wait").err


@pytest.mark.usefixtures("raid5")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["array", "remove", "md0", "disk02"], "disk02 is in use in md0"),
        (["array", "fail", "md0", "disk05"], "/dev/ubde is not a member of md0"),
        (["array", "re-add", "md0", "disk05"], "disk05 has never been in md0"),
        (["array", "re-add", "md0", "disk02"], "disk02 is already in md0 (in sync), and has missed no writes"),
        (["array", "show", "md7"], "no array md7"),
        (["array", "create", "md0", "--level", "1", "--disks", "2"], "an array named md0 already exists"),
        (["array", "assemble", "md0"], "already running"),
        (["array", "add", "md0", "disk02"], "disk02 is already in md0 (in sync)"),
        (["array", "replace", "md0", "disk03", "disk03"], "disk03 is already in md0 (in sync)"),
        (["array", "grow", "md0", "--members", "disk02"], "disk02 is already in md0 (in sync)"),
        (["array", "pull", "md0", "disk02"], "disk02 cannot be pulled"),
        (["array", "pull", "md0", "disk05"], "/dev/ubde is not a member"),
        (["array", "corrupt", "md0", "disk05"], "/dev/ubde is not a member"),
        (["array", "verify", "md0"], "md0 contains no known data"),
        (["disks", "slow", "disk01", "slow"], "only the speed of emulated drives can be changed"),
        (["load", "rand-read-4k", "md7"], "no array md7"),
    ],
)
def test_what_the_state_does_not_allow_has_status_1(arguments: list[str], message: str, typed: Typed) -> None:
    printed = typed("--on", "uml:", *arguments, status=1).err
    assert message in printed
    assert "  next: " in printed
    assert "disks reset" not in printed, "which would be refused"


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["--members", "4"], 0, ["mdadm --grow /dev/md0 --raid-devices=4"]),
        (["--members", "5"], 0, ["mdadm --manage /dev/md0 --add /dev/ubde", "mdadm --grow /dev/md0 --raid-devices=5"]),
        (["--members", "disk04"], 0, ["mdadm --grow /dev/md0 --raid-devices=4"]),
        (["--members", "disk05"], 1, ["raidlab: md0 has the spare disk04, which md would use before an added disk"]),
    ],
)
def test_a_spare_joins_first_when_an_array_grows(
    machine: FakeMachine, typed: Typed, arguments: list[str], status: int, expected: list[str]
) -> None:
    running(machine, "raid5-bitmap-spare")
    # The array was captured during its first sync.
    machine.files |= {"/sys/block/md0/md/degraded": "0\n", "/sys/block/md0/md/sync_action": "idle\n"}
    printed = typed("--on", "uml:", "array", "grow", "md0", *arguments, "--plan", "--quiet", status=status)
    assert (printed.out or printed.err).splitlines()[: len(expected)] == expected
    assert len(printed.out.splitlines()) in (0, len(expected))


@pytest.mark.parametrize(
    ("capture", "arguments", "message", "hint"),
    [
        ("raid0", ["add", "md0", "disk05"], "md0 is raid0", "use an array with redundancy"),
        ("raid0", ["replace", "md0", "disk01", "disk05"], "md0 is raid0", "use an array with redundancy"),
        ("raid5-failed", ["grow", "md0", "--members", "disk05"], "md0 is degraded", "array add md0 DISK, then"),
        ("raid5-failed", ["replace", "md0", "disk01", "disk05"], "md0 is degraded", "array add md0 DISK, then"),
        ("raid5-rebuilding", ["grow", "md0", "--members", "disk05"], "md0 is degraded", "first: raidlab array wait"),
    ],
)
def test_no_disk_joins_an_array_that_md_would_rebuild_or_break_instead(
    machine: FakeMachine, typed: Typed, capture: str, arguments: list[str], message: str, hint: str
) -> None:
    running(machine, capture)
    printed = typed("--on", "uml:", "array", *arguments, "--plan", status=1).err
    assert message in printed
    assert hint in printed


def test_a_bitmap_is_added_where_there_is_none(raid5: FakeMachine, typed: Typed) -> None:
    raid5.files |= {"/sys/block/md0/md/bitmap/location": "none\n", "/sys/block/md0/md/sync_action": "idle\n"}
    planned = typed("--on", "uml:", "-q", "array", "bitmap", "md0", "internal", "--chunk", "64K", "--plan").out
    assert planned == "mdadm --grow /dev/md0 --bitmap=internal --bitmap-chunk=64\n"
    assert "md0 has no bitmap" in typed("--on", "uml:", "array", "bitmap", "md0", "none", status=1).err


@pytest.mark.usefixtures("raid5")
def test_show_is_text_and_json(typed: Typed) -> None:
    text = typed("--on", "uml:", "array", "show").out
    assert "survives            1 failed member\n" in text
    assert re.search(r"^uuid +[0-9a-f]{8}(:[0-9a-f]{8}){3}$", text, re.MULTILINE)
    (array,) = json.loads(typed("--on", "uml:", "array", "show", "--json").out)["arrays"]
    assert array["name"] == "md0"
    assert array["theory"]["write_penalty"] == 4
    assert [member["disk"] for member in array["members"]][:3] == ["disk01", "disk02", "disk03"]


def test_a_refused_command_does_not_wake_the_array(machine: FakeMachine, typed: Typed) -> None:
    running(machine, "raid5-failed")
    machine.files |= {"/sys/block/md0/md/array_state": "read-auto\n", "/sys/block/ubde/ro": "1\n"}
    add = ("--on", "local:", "array", "add", "md0", "disk05")
    assert "mdadm --readwrite /dev/md0" in typed(*add, "--plan", "--quiet").out
    assert "/dev/ubde: it is read-only" in typed(*add, status=1).err
    assert not [argv for argv in machine.runs if "--readwrite" in argv]


def test_the_cost_of_a_small_write_is_that_of_the_complete_array(machine: FakeMachine, typed: Typed) -> None:
    for label, is_noted in (("raid6-assume-clean", False), ("raid5-failed", True)):
        running(machine, label)
        lines = typed("--on", "uml:", "array", "show", "md0").out.splitlines()
        (line,) = [line for line in lines if line.startswith("small write")]
        sentence = "; this holds for the complete array, not while a member is missing or rebuilding"
        assert line.endswith(sentence) is is_noted


@pytest.mark.usefixtures("raid5")
def test_watch_stops_after_count(typed: Typed) -> None:
    (line,) = typed("--on", "uml:", "watch", "--count", "1", "--json").out.splitlines()
    assert json.loads(line)["arrays"][0]["name"] == "md0"


def test_unequal_disks_are_planned_without_a_machine(machine: FakeMachine, typed: Typed) -> None:
    create = ["array", "create", "--on", "uml:", "--level", "adapt5", "--disks", "disk01,disk02,disk03", "--plan"]
    printed = typed(*create)
    lines = printed.out.splitlines()
    assert "dmsetup --verifyudev create --concise <<'END'" in lines
    assert any(line.startswith("mdadm --create /dev/md100 --run") for line in lines)
    assert "# One device over all arrays" in printed.err
    assert machine.runs == []
    steps = json.loads(typed(*create, "--json").out)["steps"]
    assert steps[-2]["stdin_text"].startswith("0 ")


def test_the_capacity_of_unequal_disks_is_printed_without_a_machine(machine: FakeMachine, typed: Typed) -> None:
    printed = typed("array", "capacity", "--on", "uml:", "1T", "1T", "1T", "2T", "2T", "2T", "2T").out
    assert printed.startswith("7 disks, 11 TiB in all\n")
    assert "adapt5, full stripe of 6 chunks 9 TiB 82 % 2 never" in " ".join(printed.split())
    assert machine.runs == []
    systems = json.loads(typed("array", "capacity", "--on", "uml:", "--json", "1T", "1T", "2T").out)["systems"]
    assert [each["system"] for each in systems] == ["raid5", "onlyfast", "shr", "adapt5"]


OTHER = "11111111-2222-3333-4444-555555555555"
ON = ["--on", "local:"]
ALL = [*ON, "array", "assemble"]
MIRROR = "mdadm --assemble --run /dev/md0 /dev/ubda /dev/ubdb"


def mirror(name: str, **more: object) -> list[bytes]:
    return [superblock(each, [0, 1], level=1, slots=2, name=name, **more) for each in (0, 1)]  # type: ignore[arg-type]


def lies_there(machine: FakeMachine, first: list[bytes], second: list[bytes] | None = None) -> None:
    disks: list[bytes | None] = [*first, *(second or ())]
    machine.answers[READS] = Scripted(stdout=as_read([*disks, *[None] * (5 - len(disks))]))


@pytest.fixture
def stopped(machine: FakeMachine) -> FakeMachine:
    """A machine after a restart: a complete RAID 1 and a RAID 5 that lacks two of three members; neither runs."""
    lies_there(machine, mirror("any:0"), [superblock(0, [0, 1, 2], name="any:1", array=OTHER)])
    return machine


def started(machine: FakeMachine) -> list[str]:
    return [" ".join(argv) for argv in machine.runs if argv[:2] == ("mdadm", "--assemble")]


def test_without_a_name_what_can_be_started_is(stopped: FakeMachine, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(ALL) == 0
    assert started(stopped) == [MIRROR]
    assert "array md1" in capfd.readouterr().err


def test_an_array_that_md_does_not_start_is_reported_without_failing(stopped: FakeMachine, typed: Typed) -> None:
    stopped.answers[("mdadm", "--assemble")] = Scripted(status=1, stderr="mdadm: no such luck")
    printed = json.loads(typed(*ALL, "--json").out)
    assert printed["started"] == []
    assert sorted(each["name"] for each in printed["refused"]) == ["md0", "md1"]
    assert any("no such luck" in each["reason"] for each in printed["refused"])


def test_the_plan_for_all_does_nothing(stopped: FakeMachine, typed: Typed) -> None:
    assert typed(*ALL, "--plan").out == f"{MIRROR}\n"
    assert started(stopped) == []


def test_an_array_is_started_only_from_its_own_disks(stopped: FakeMachine, capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*ALL, "md0", "--disks", "disk02", "--plan"]) == 0
    assert run([*ALL, "md0", "--disks", "disk02,disk05", "--plan"]) != 0
    printed = capfd.readouterr()
    assert printed.out == "mdadm --assemble --run /dev/md0 /dev/ubdb\n"
    assert "disk05 does not belong to md0" in printed.err


def test_assemble_without_stopped_arrays_succeeds(stopped: FakeMachine, typed: Typed) -> None:
    stopped.answers[READS] = Scripted(stdout=as_read([None] * 5))
    assert "no array is stopped" in typed(*ALL).err


@pytest.mark.parametrize("word", ["nas:5", "any:xc", "home", UUID, UUID.replace("-", "")])
def test_a_foreign_array_is_started_and_destroyed_by_its_name_and_uuid(
    machine: FakeMachine, typed: Typed, word: str
) -> None:
    lies_there(machine, mirror("nas:5" if word.startswith(UUID[:8]) else word))
    planned = typed(*ON, "array", "assemble", word, "--plan").out
    assert planned == "mdadm --assemble --run /dev/md127 /dev/ubda /dev/ubdb\n"
    planned = typed(*ON, "array", "destroy", word, "--plan").out
    assert planned.splitlines() == [f"mdadm --zero-superblock /dev/ubd{letter}" for letter in "ab"]


@pytest.mark.parametrize("name", ["nas:5", "two words", "it's", "-v", "a\x1b[31m", ""])
def test_the_command_in_the_hint_is_accepted(machine: FakeMachine, typed: Typed, name: str) -> None:
    lies_there(machine, mirror(name))
    refused = typed(*ON, "array", "create", "--level", "1", "--disks", "disk01,disk03", status=1).err
    hint = re.search(r"'raidlab (array destroy .*?)', or choose", refused)
    assert hint
    assert len(typed(*ON, *shlex.split(hint[1]), "--plan").out.splitlines()) == 2


def test_of_two_with_one_name_the_hint_names_the_one_that_is_meant(machine: FakeMachine, typed: Typed) -> None:
    lies_there(machine, mirror("any:0", updated=200), mirror("any:0", array=OTHER, updated=100))
    refused = typed(*ON, "array", "create", "--level", "1", "--disks", "disk03,disk05", status=1).err
    assert f"'raidlab array destroy {OTHER}'" in refused
    assert "/dev/ubdc" in typed(*ON, "array", "destroy", OTHER, "--plan").out


def test_foreign_arrays_are_shown_only_in_lists_of_arrays_and_disks(machine: FakeMachine, typed: Typed) -> None:
    lies_there(machine, mirror("nas:5"))
    assert "nas" not in typed(*ON, "array", "create", "--level", "1", "--disks", "disk03,disk04", "--plan").err
    printed = typed(*ON, "disks")
    assert "nas:5 (not running)" in printed.out
    assert "nas" not in printed.err
    printed = typed(*ON, "array", "show")
    assert "nas:5: not running, its name" in printed.out
    assert "'raidlab array assemble nas:5' starts it" in printed.out
    assert "nas" not in printed.err
