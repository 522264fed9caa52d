"""What mdadm --examine says of a member."""

from __future__ import annotations

from pathlib import Path

from lab.checks.state import freshest_events, parse_examine

CAPTURES = Path(__file__).with_name("captures")


def captured(name: str) -> str:
    return (CAPTURES / f"examine-{name}.txt").read_text(encoding="utf-8")


def test_metadata_of_version_1_2() -> None:
    picture = parse_examine("disk01", captured("1.2"))
    assert picture.has_superblock
    assert (picture.level, picture.devices, picture.role, picture.state) == ("raid5", 3, "Active device 0", "clean")
    assert (picture.events, picture.data_offset_sectors) == (18, 2048)
    assert (picture.chunk, picture.layout) == ("64K", "left-symmetric")
    assert picture.uuid == "1114ddd0:c1cb7c90:3fd34e0c:1fe08cd6"
    assert picture.created == "Tue Nov 24 17:35:57 2026"


def test_metadata_of_version_0_90() -> None:
    picture = parse_examine("disk04", captured("0.90"))
    assert picture.uuid == "0feec018:cf4ba7c7:21d546d2:7da2707b"
    assert (picture.level, picture.devices, picture.events) == ("raid1", 2, 7)


def test_a_disk_without_a_superblock_says_so() -> None:
    picture = parse_examine("disk06", "mdadm: No md superblock detected on /dev/ubdf.\n")
    assert not picture.has_superblock
    assert picture.note == "mdadm: No md superblock detected on /dev/ubdf."
    assert parse_examine("disk06", "").note == "nothing"


def test_what_is_no_answer_of_mdadm_is_made_harmless() -> None:
    picture = parse_examine(
        "disk01", "Array UUID : \x1b[31mred\nEvents : 99999999999999999999999999\nData Offset : x\n"
    )
    assert "\x1b" not in picture.uuid
    assert picture.data_offset_sectors == 0


def test_what_stands_in_a_name_forges_no_line_but_by_a_line_feed() -> None:
    name = "\r     Raid Level : raid0\x0b     Events : 9\x85     Device Role : spare"
    text = captured("1.2").replace("Name : ", f"Name : {name}")
    picture = parse_examine("disk01", text)
    assert (picture.level, picture.role, picture.events) == ("raid5", "Active device 0", 18)


def test_the_freshest() -> None:
    picture = parse_examine("disk01", captured("1.2"))
    assert freshest_events({"disk01": picture, "disk02": parse_examine("disk02", "")}) == 18
    assert freshest_events({}) == 0
