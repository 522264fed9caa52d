"""The command on the embedded kernel: each call is its own process, and the lab persists from one to the next."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from lab.disks import DiskKind, specs
from lab.disks.lab import lab_folder
from lab.units import MIB
from tests.kernel.kill import PATIENCE_SECONDS, Ended, Place
from tests.kernel.place import disk_name, host_at, kernel_target
from tests.kernel.rig import file_disks

pytestmark = pytest.mark.kernel
TARGET = kernel_target("name=cli").text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A lab of its own with disks of 32 MiB, so that a sync takes only a moment."""
    found = Place(tmp_path_factory.mktemp("cli"), TARGET)
    with lab_folder(host_at(found.state).state, "cli") as folder:
        folder.save((*file_disks(7, 32), *specs(1, DiskKind.FILE, size_bytes=MIB, first=8)))
    return found


def raidlab(place: Place, *arguments: str, status: int = 0) -> Ended:
    ended = place.run(arguments)
    assert ended.status == status, ended.stderr
    return ended


def test_a_file_is_reported_as_outside_only_if_the_machine_has_none(place: Place) -> None:
    assert Path("/mnt").is_dir()
    output = raidlab(place, "exec", "--", "ls", "/mnt", "/mnt/none", status=2)
    assert "No such file" in output.stdout
    assert "on this computer" not in output.stderr, "the machine has a folder /mnt as well"
    outside = place.root / "outside"
    outside.touch()
    output = raidlab(place, "exec", "--", "ls", str(outside), status=2)
    assert f"'{outside}' is on this computer, but the machine sees only" in output.stderr


def test_an_array_lives_from_command_to_command(place: Place) -> None:
    created = raidlab(place, "--json", "array", "create", "--level", "raid5", "--disks", "3", "--wait")
    assert "$ mdadm --create /dev/md0" in created.stderr
    array = json.loads(created.stdout)["array"]
    assert array["degraded_count"] == 0
    assert [member["disk"] for member in array["members"]] == ["disk01", "disk02", "disk03"]

    raidlab(place, "array", "fail", "md0", "disk02")
    # The array is degraded when it returns, without the disk that failed.
    array = json.loads(raidlab(place, "--json", "array", "show", "md0").stdout)
    assert array["degraded_count"] == 1
    assert [member["disk"] for member in array["members"]] == ["disk01", "disk03"]
    assert "disk02 has already left md0" in raidlab(place, "array", "remove", "md0", "disk02").stderr
    assert "3 of 3 in sync" in raidlab(place, "array", "add", "md0", "disk02").stdout

    raidlab(place, "array", "stop", "md0")
    assert "md0: not running, stopped" in raidlab(place, "array", "show").stdout
    assert "md0: raid5" in raidlab(place, "array", "assemble", "md0").stdout


def test_a_signed_disk_is_refused_until_it_is_reset(place: Place) -> None:
    subprocess.run(
        ["/usr/sbin/mkfs.ext4", "-q", "-F", str(place.state / "labs/cli/disks/disk05.img")], check=True, timeout=30
    )
    create = ("array", "create", "--level", "raid1", "--disks", "disk05,disk06", "--assume-clean")
    assert f"disk05 (/dev/{disk_name(4)}) carries ext4" in raidlab(place, *create, status=1).stderr
    raidlab(place, "disks", "reset", "disk05")
    assert "md1" in raidlab(place, *create).stdout


def test_only_one_command_has_the_lab(place: Place) -> None:
    # A shell starts background jobs with SIGINT ignored, and child processes inherit that.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    watching = place.start(("watch",))
    signal.signal(signal.SIGINT, handler)
    try:
        assert watching.stdout is not None
        watching.stdout.readline()
        second = raidlab(place, "array", "show", status=1)
        assert f"is open in 'raidlab --on {TARGET} watch'" in second.stderr
    finally:
        # SIGTERM would set a deadline, after which the command ends without its last message.
        watching.send_signal(signal.SIGINT)
        _, output = watching.communicate(timeout=PATIENCE_SECONDS)
    assert watching.returncode == 128 + signal.SIGINT
    assert "everything is closed" in output
    assert [entry for entry in (place.state / "machines").iterdir() if not entry.name.startswith(".")] == []


def test_disks_come_and_go(place: Place) -> None:
    assert raidlab(place, "disks", "add", "--kind", "file", "--size", "40M").stdout == "added: disk09\n"
    assert "blank" in raidlab(place, "disks", "add", "--kind", "spindle", "--size", "20M").stderr
    disks = {disk["name"]: disk for disk in json.loads((place.state / "labs/cli/lab.json").read_text())}
    assert disks["disk09"]["size_bytes"] == 40 << 20
    assert disks["disk10"]["model"] == "hdd-7200"
    raidlab(place, "disks", "remove", "disk09", "disk10")
    assert not (place.state / "labs/cli/disks/disk09.img").exists()
