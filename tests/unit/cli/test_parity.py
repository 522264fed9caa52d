"""The commands that do what the app does, as far as a fake machine can tell."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from lab.cli.main import run
from lab.results.record import encode_record
from tests.unit.arrays.captures import load
from tests.unit.compare.test_compare import STEADY, changed, result, scaled
from tests.unit.fakes import FakeMachine, Scripted


@pytest.fixture
def raid5(machine: FakeMachine) -> FakeMachine:
    """A running RAID 5 without bitmap, in sync."""
    record = load("raid5-checking")
    machine.files |= record["files"]
    machine.files |= {"/sys/block/md0/md/bitmap/location": "none\n", "/sys/block/md0/md/sync_action": "idle\n"}
    machine.dirs |= {folder: tuple(names) for folder, names in record["entries"].items()}
    machine.dirs["/sys/block"] = ("md0", *(f"ubd{letter}" for letter in "abcde"))
    machine.answers[("mdadm", "--detail", "--export")] = Scripted(stdout=record["export"])
    return machine


@pytest.mark.usefixtures("raid5")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["bitmap", "md0", "internal", "--chunk", "64K"],
            "mdadm --grow /dev/md0 --bitmap=internal --bitmap-chunk=64",
        ),
        (["corrupt", "md0", "disk02"], "dd if=/dev/urandom of=/dev/ubdb bs=4096 "),
    ],
)
def test_plans_can_be_printed(arguments: list[str], line: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--on", "uml:", "-q", "array", *arguments, "--plan"]) == 0
    assert capfd.readouterr().out.startswith(line)


@pytest.mark.usefixtures("raid5")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["array", "pull", "md0", "disk02"], "disk02 cannot be pulled"),
        (["array", "pull", "md0", "disk05"], "/dev/ubde is not a member"),
        (["array", "corrupt", "md0", "disk05"], "/dev/ubde is not a member"),
        (["array", "verify", "md0"], "md0 carries no data mark"),
        (["array", "bitmap", "md0", "none"], "md0 has no bitmap"),
        (["disks", "slow", "disk01", "slow"], "only emulated drives have a pace"),
        (["load", "rand-read-4k", "md7"], "no array md7"),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(
    arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["--on", "uml:", *arguments]) == 1
    printed = capfd.readouterr().err
    assert said in printed
    assert "  next: " in printed


def test_a_bitmap_chunk_alone_asks_for_a_bitmap(capfd: pytest.CaptureFixture[str]) -> None:
    create = ["--on", "uml:", "-q", "array", "create", "--level", "raid1", "--disks", "disk01,disk02"]
    assert run([*create, "--bitmap-chunk", "64K", "--plan"]) == 0
    assert "--bitmap=internal --bitmap-chunk=64 " in capfd.readouterr().out
    assert run([*create, "--bitmap", "none", "--bitmap-chunk", "64K", "--plan"]) == 2


def test_workloads_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["workloads"]) == 0
    assert "rand-read-4k" in capfd.readouterr().out
    assert run(["--json", "workloads"]) == 0
    assert {each["id"] for each in json.loads(capfd.readouterr().out)} >= {"rand-read-4k", "verify-4k"}


def test_a_command_on_the_machine_passes_its_output_and_status_on(
    machine: FakeMachine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labs" / "default").mkdir(parents=True)
    machine.answers[("bash", "-c")] = Scripted(stdout="md0 : active\n", status=3)
    assert run(["--on", "uml:", "exec", "--", "cat", "/proc/mdstat"]) == 3
    assert capfd.readouterr().out == "md0 : active\n"
    (argv,) = [argv for argv in machine.runs if argv[0] == "bash"]
    assert argv[-1] == "cat /proc/mdstat"


@pytest.fixture
def two_results(tmp_path: Path) -> tuple[str, str]:
    first = msgspec.structs.replace(result(STEADY), id="20261121T100000Z-x")
    second = msgspec.structs.replace(result(scaled(2.0)), id="20261121T110000Z-x")
    for record in (first, second):
        folder = tmp_path / "results" / record.id
        folder.mkdir(parents=True)
        (folder / "record.json").write_bytes(encode_record(record))
    return first.id, second.id


def test_two_results_are_compared(two_results: tuple[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *two_results]) == 0
    assert capfd.readouterr().out.splitlines()[1].endswith("faster")
    assert run(["--json", "compare", *reversed(two_results)]) == 0
    (row,) = json.loads(capfd.readouterr().out)["rows"]
    assert row["outcome"] == "slower"
    assert row["ratio"]["median"] == pytest.approx(0.5)


def test_unlike_results_need_a_permission(
    two_results: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = msgspec.structs.replace(changed(kernel_release="6.8"), id="20261121T120000Z-x")
    folder = tmp_path / "results" / other.id
    folder.mkdir()
    (folder / "record.json").write_bytes(encode_record(other))
    assert run(["compare", two_results[0], "latest"]) == 1
    assert "kernel: '6.1.0' and '6.8' (--allow kernel)" in capfd.readouterr().err
    assert run(["compare", two_results[0], "latest", "--allow", "kernel"]) == 0
    assert "allowed: kernel" in capfd.readouterr().err


def test_results_go_out_and_come_back(
    two_results: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.zip"
    assert run(["export", *two_results, "--to", str(file)]) == 0
    assert run(["results", "import", str(file)]) == 0
    assert "already there" in capfd.readouterr().err
    assert run(["results", "delete", two_results[0]]) == 0
    assert run(["--json", "results", "import", str(file)]) == 0
    assert '"imported": [' in capfd.readouterr().out
    assert run(["results", "show", two_results[0]]) == 0
