"""``raidlab array map`` and ``raidlab array inspect`` on a made-up array."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cli import context as cli_context
from lab.cli.array import hex_text
from lab.cli.main import run
from tests.unit.cli.superblocks import READS, as_read
from tests.unit.disks.machines import opener_of
from tests.unit.fakes import FakeMachine, Scripted
from tests.unit.microscope.arrays import CHUNK_SECTORS, DISKS, Members, parity_array

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def raid6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeMachine, Members]]:
    """Five members; every command opens a lab on them."""
    _, machine, members = parity_array("raid6", 5)
    machine.answers[READS] = Scripted(stdout=as_read([None] * len(DISKS)))
    machine.dirs["/sys/block"] = ("md0", *(disk.kernel_name for disk in DISKS))
    machine.files |= {f"/sys/block/{disk.kernel_name}/size": "2048\n" for disk in DISKS}
    machine.files |= {f"/sys/block/{disk.kernel_name}/dev": f"98:{place}\n" for place, disk in enumerate(DISKS)}
    machine.files["/sys/block/md0/dev"] = "9:0\n"
    machine.dirs["/sys/block/md0/slaves"] = tuple(disk.kernel_name for disk in DISKS[:5])

    (tmp_path / "labs" / "default").mkdir(parents=True)
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    monkeypatch.delenv("RAIDLAB_ON", raising=False)
    cli_context.OPENER.set(opener_of(machine, DISKS))
    yield machine, members
    cli_context.OPENER.set(None)
    cli_context.OPTIONS.set(cli_context.Options())


Raid6 = tuple[FakeMachine, Members]


def printed_by(capfd: Captured, *words: str) -> str:
    assert run(["--on", "uml:", "-q", "array", *words]) == 0
    return capfd.readouterr().out


def value(capfd: Captured, *words: str) -> dict[str, Any]:
    assert run(["--on", "uml:", "-q", "--json", "array", *words]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


@pytest.mark.usefixtures("raid6")
def test_a_block_is_shown_with_its_parity(capfd: Captured) -> None:
    text = printed_by(capfd, "map", "md0", "--block", "4")
    assert "md0: raid6 left-symmetric, 5 members, chunk 4 KiB" in text
    assert "block 4 of 4 KiB, sectors 32 to 39 of the array; chunk 4, byte 0 of it; stripe 1" in text
    found = value(capfd, "map", "md0", "--sector", "33")
    assert (found["block"], found["chunk_offset_bytes"]) == (4, 512)
    assert [place["kind"] for place in found["parities"]] == ["P", "Q"]


@pytest.mark.usefixtures("raid6")
def test_a_sector_of_a_member_is_shown(capfd: Captured) -> None:
    assert "P of stripe 0: over blocks 0, 1, 2" in printed_by(
        capfd, "map", "md0", "--member", "disk05", "--sector", "128"
    )
    assert ": superblock" in printed_by(capfd, "map", "md0", "--member", "disk05", "--sector", "8")
    found = value(capfd, "map", "md0", "--member", "disk02", "--sector", "130")
    assert (found["area"], found["sectors"], found["blocks"]) == ("data", [2], [0])


def test_a_file_is_shown_with_its_extents(raid6: Raid6, capfd: Captured) -> None:
    machine, _ = raid6
    extents = {"device": "9:0", "bytes": 5000, "extents": [[0, 16384, 4096, 0], [4096, 0, 4096, 0x806]]}
    machine.answers[("agent:file-extents", "/mnt/x")] = Scripted(stdout=json.dumps(extents))
    text = printed_by(capfd, "map", "md0", "--file", "/mnt/x")
    assert "/mnt/x: 4.88 KiB (5000 bytes)" in text
    assert "not placed yet, still in memory, reserved, nothing written so far" in text
    found = value(capfd, "map", "md0", "--file", "/mnt/x")
    assert [each["start"] and each["start"]["block"] for each in found["extents"]] == [4, None]
    extents["device"] = "8:1"
    machine.answers[("agent:file-extents", "/mnt/x")] = Scripted(stdout=json.dumps(extents))
    assert run(["--on", "uml:", "array", "map", "md0", "--file", "/mnt/x"]) == 1
    assert "/mnt/x is not on md0, but on the device 8:1" in capfd.readouterr().err


def test_a_file_on_a_file_system_that_is_not_mounted_is_mounted_for_it(raid6: Raid6, capfd: Captured) -> None:
    machine, _ = raid6
    signature = '{"signatures":[{"device":"md0","offset":"0x438","type":"ext4"}]}'
    machine.answers[("wipefs", "--json", "/dev/md0")] = Scripted(stdout=signature)
    answer = {"device": "9:0", "bytes": 1, "extents": [[0, 0, 4096, 1]]}
    machine.answers[("agent:file-extents", "/run/raidlab/mnt/md0/a")] = Scripted(stdout=json.dumps(answer))
    assert "/run/raidlab/mnt/md0/a" in printed_by(capfd, "map", "md0", "--file", "a")
    mounts = [argv for argv in machine.runs if argv[0] in ("mount", "umount")]
    assert mounts[0][:5] == ("mount", "-t", "ext4", "-o", "ro,noload")
    assert mounts[-1] == ("umount", "/run/raidlab/mnt/md0")


@pytest.mark.usefixtures("raid6")
def test_a_stripe_is_shown_with_computed_parity(capfd: Captured) -> None:
    text = printed_by(capfd, "inspect", "md0", "--stripe", "1", "--bytes", "4", "--offset", "8")
    assert "P computed" in text
    assert "Q computed" in text
    assert text.rstrip().endswith("Data and parity agree.")
    assert "  8  " in text
    assert printed_by(capfd, "inspect", "md0", "--block", "4", "--bytes", "4", "--offset", "8") == text


def test_a_wrong_byte_is_shown_and_named(raid6: Raid6, capfd: Captured) -> None:
    raid6[1].flip(0, CHUNK_SECTORS, 100)
    text = printed_by(capfd, "inspect", "md0", "--stripe", "1")
    assert "disk01 is wrong: P and Q both identify it." in text
    assert "DIFFERS in 1" in text
    assert " 96 " in text
    assert ">" in text
    found = value(capfd, "inspect", "md0", "--stripe", "1", "--bytes", "16")
    assert (found["verdict"], found["blamed"], found["mismatch_sectors"]) == ("differs", "disk01", 8)
    assert found["offset"] == 96
    assert all(len(cell["hex"]) == 32 for cell in found["cells"])


def test_bytes_are_aligned_whichever_is_marked() -> None:
    assert [hex_text(b"\x01\x02", 8, frozenset(wrong)) for wrong in ([], [8], [9])] == [" 01 02", ">01 02", " 01>02"]


def test_a_flip_is_planned_past_the_guard(raid6: Raid6, capfd: Captured) -> None:
    machine, _ = raid6
    text = printed_by(capfd, "inspect", "md0", "--stripe", "1", "--flip", "disk01:7", "--plan")
    assert text.splitlines()[0] == "blockdev --flushbufs /dev/ubda"
    assert "dd of=/dev/ubda bs=1 seek=69639" in text
    assert not any(argv[0] == "blockdev" for argv in machine.runs)
    found = value(capfd, "inspect", "md0", "--stripe", "1", "--flip", "disk01:7", "--plan")
    assert [step["danger"] for step in found["steps"]] == ["none", "data", "none", "none"]
    printed_by(capfd, "inspect", "md0", "--stripe", "1", "--flip", "disk01:7")
    assert any("seek=69639" in argv[-1] for argv in machine.runs if argv[0] == "sh")


@pytest.mark.usefixtures("raid6")
def test_a_write_and_a_crash_are_stepped_through(capfd: Captured) -> None:
    text = printed_by(capfd, "inspect", "md0", "--step-write", "0")
    assert "A write of block 0, in stripe 0: reconstruct-write." in text
    assert "disk05" in text
    assert value(capfd, "inspect", "md0", "--step-write", "0")["way"] == "reconstruct-write"
    text = printed_by(capfd, "inspect", "md0", "--step-crash", "0")
    assert "WRITE HOLE" in text
    assert "without disk05" in text
    assert len(value(capfd, "inspect", "md0", "--step-crash", "0")["states"]) == 8
    text = printed_by(capfd, "inspect", "md0", "--step-write", "0", "--really", "--plan")
    assert "dd if=/dev/md0 of=/dev/md0 skip=0" in text


def test_a_block_of_a_mounted_array_is_not_written(raid6: Raid6, capfd: Captured) -> None:
    machine, _ = raid6
    machine.files["/proc/self/mountinfo"] = "1 1 9:0 / /mnt rw - ext4 /dev/md0 rw\n"
    assert run(["--on", "uml:", "array", "inspect", "md0", "--step-write", "0", "--really"]) == 1
    assert "md0 is in use by /mnt" in capfd.readouterr().err


@pytest.mark.usefixtures("raid6")
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["map", "md0"], 2, "specify exactly one block, sector or file"),
        (["map", "md0", "--block", "1", "--file", "x"], 2, "specify exactly one block, sector or file"),
        (["map", "md0", "--member", "disk01"], 2, "specify exactly one block, sector or file"),
        (["map", "md0", "--block", "x"], 2, "block 'x' is not a whole number"),
        (["map", "md0", "--block", "48"], 1, "md0 has no sector 384"),
        (["map", "md0", "--file", "x"], 1, "md0 has no file system"),
        (["map", "md0", "--member", "disk08", "--sector", "1"], 1, "/dev/ubdh is not a member of md0"),
        (["map", "md7", "--block", "1"], 1, "no running array md7"),
        (["inspect", "md0"], 2, "specify exactly one stripe to inspect"),
        (["inspect", "md0", "--stripe", "1", "--step-write", "1"], 2, "specify exactly one stripe to inspect"),
        (["inspect", "md0", "--stripe", "1", "--really"], 2, "--really needs a write to carry out"),
        (["inspect", "md0", "--stripe", "1", "--plan"], 2, "this command changes nothing"),
        (["inspect", "md0", "--stripe", "1", "--bytes", "0"], 2, "0 bytes cannot be shown"),
        (["inspect", "md0", "--stripe", "1", "--offset", "4096"], 2, "byte 4096 is beyond the end of a chunk"),
        (["inspect", "md0", "--stripe", "99"], 1, "there is no stripe 99"),
        (["inspect", "md0", "--stripe", "1", "--flip", "disk01"], 2, "byte 'disk01' is not a whole number"),
        (["inspect", "md0", "--stripe", "1", "--flip", "disk01:5000"], 1, "byte 5000 lies outside stripe 1 on disk01"),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(words: list[str], status: int, message: str, capfd: Captured) -> None:
    assert run(["--on", "uml:", "array", *words]) == status
    printed = capfd.readouterr().err
    assert message in printed
    assert "  next: " in printed
