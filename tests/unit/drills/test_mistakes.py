"""The checks that recognise the mistakes of drills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lab.checks.catalogue import SuperblockIs, make_check
from lab.checks.state import CheckedState, DrillEnd, MemberPicture
from lab.drills.schema import catalogue, read_drill, ready
from lab.drills.verdict import recognised
from lab.errors import SpecError

SEEN = MemberPicture(
    disk="disk01", uuid="a:b", created="Monday", events=10, data_offset_sectors=2048, device_uuid="of disk01"
)
BEFORE = {
    "disk01": SEEN,
    "disk02": msgspec.structs.replace(SEEN, disk="disk02", device_uuid="of disk02"),
    "disk03": MemberPicture(disk="disk03"),
}


def evidence(**changes: Any) -> DrillEnd:
    untouched: dict[str, Any] = {"before": BEFORE, "after": BEFORE, "changed": {}, "saved_percent": 100.0}
    return DrillEnd(**{**untouched, "touched_bytes": 0, **changes})


def holds(seen: DrillEnd, **written: Any) -> bool:
    return make_check(written, where="test", in_drill=True).evaluate(CheckedState(drill=seen)).is_passed


def with_superblock(disk: str, picture: MemberPicture) -> DrillEnd:
    return evidence(after={**BEFORE, disk: picture})


def test_superblocks_are_counted_among_the_members_of_the_data() -> None:
    other = msgspec.structs.replace(SEEN, uuid="c:d")
    assert holds(with_superblock("disk01", other), that="superblock", became="other")
    assert not holds(with_superblock("disk01", other), that="superblock", became="other", at_least=2)
    # Without names, only members of the array with the data count.
    assert not holds(with_superblock("disk03", other), that="superblock", became="other")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"same", "untouched"}),
        ({"events": 90}, {"same", "written", "used"}),
        ({"device_uuid": "another"}, {"same", "new", "used"}),
        ({"uuid": "c:d"}, {"other"}),
        ({"created": "Tuesday"}, {"other"}),
        ({"uuid": ""}, {"gone"}),
        ({"device_uuid": "of disk02", "events": 11}, {"copy"}),
    ],
)
def test_what_became_of_a_superblock(changes: dict[str, Any], expected: set[str]) -> None:
    seen = with_superblock("disk01", msgspec.structs.replace(SEEN, **changes))
    assert {word for word in SuperblockIs if holds(seen, that="superblock", became=word, disks="disk01")} == expected


def test_a_blank_disk_that_got_a_superblock_is_of_another_array_or_a_copy() -> None:
    made = with_superblock("disk03", msgspec.structs.replace(SEEN, disk="disk03", device_uuid="its own"))
    assert holds(made, that="superblock", became="other", disks="disk03")
    copied = with_superblock("disk03", msgspec.structs.replace(SEEN, disk="disk03"))
    assert not holds(copied, that="superblock", became="other", disks="disk03")
    assert holds(copied, that="superblock", became="copy", disks="disk03")
    assert not holds(evidence(), that="superblock", became="gone", disks="disk03")
    assert not holds(evidence(), that="superblock", became="other")


def test_members_are_matched_by_uuid_without_names() -> None:
    gone = with_superblock("disk01", MemberPicture(disk="disk01"))
    assert holds(gone, that="superblock", became="gone")
    assert not holds(replace(gone, data_uuid="of another array"), that="superblock", became="gone")
    assert holds(replace(gone, data_uuid="a:b"), that="superblock", became="gone")


def test_a_spare_has_no_place_that_could_be_wrong() -> None:
    def is_wrong_role(role: str) -> bool:
        seen = with_superblock("disk01", msgspec.structs.replace(SEEN, role=role))
        return holds(seen, that="superblock_says", disks="disk01", key="role", value="Active device 0", is_so=False)

    assert is_wrong_role("Active device 1")
    assert not is_wrong_role("Active device 0")
    assert not is_wrong_role("spare")


@pytest.mark.parametrize(
    ("what", "data", "parity"), [("data", True, False), ("parity", False, True), ("any", True, True)]
)
def test_damage_is_counted_separately_for_data_and_parity(what: str, data: bool, parity: bool) -> None:
    assert not holds(evidence(), that="damaged", what=what)
    assert holds(evidence(), that="damaged", what=what, is_so=False)
    assert holds(evidence(damaged_data=1), that="damaged", what=what) is data
    assert holds(evidence(damaged_parity=1), that="damaged", what=what) is parity


def test_bytes_of_the_data_area_alone_count() -> None:
    first = 2048 * 512
    seen = evidence(changed={"disk01": [[0, 4096], [first - 512, first + 1024]]})
    assert holds(seen, that="rewritten", disk="disk01", at_least_bytes=1024)
    assert not holds(seen, that="rewritten", disk="disk01", at_least_bytes=1025)
    assert not holds(seen, that="rewritten", disk="disk02")
    assert holds(seen, that="rewritten", disk="disk02", is_so=False)


def test_checks_of_membership_and_of_a_running_array() -> None:
    seen = evidence(has_array=True, members=("disk02",))
    assert holds(seen, that="in_array", disks="disk01,disk02")
    assert not holds(seen, that="in_array", disks="disk01,")
    assert holds(seen, that="in_array", disks="disk01", is_in=False)
    assert not holds(evidence(), that="in_array", disks="disk01", is_in=False)
    assert holds(seen, that="runs")
    assert holds(evidence(), that="runs", is_there=False)
    assert not holds(seen, that="on_overlays")
    assert holds(evidence(has_array=True, members=("disk02",), is_on_overlays=True), that="on_overlays")
    assert not holds(evidence(), that="on_overlays")


def test_figures() -> None:
    seen = evidence(saved_percent=40.0, touched_bytes=512)
    assert holds(seen, that="saved", at_most_percent=40)
    assert not holds(seen, that="saved", at_most_percent=39.99)
    assert holds(seen, that="touched")
    assert not holds(evidence(), that="touched")


def test_an_unknown_check_is_rejected_with_the_nearest_name() -> None:
    with pytest.raises(SpecError) as caught:
        make_check({"that": "superblok"}, where="drill x", in_drill=True)
    assert "superblock" in caught.value.hint
    with pytest.raises(SpecError, match="did you mean 'at_least_bytes'"):
        make_check({"that": "rewritten", "disk": "disk01", "at_leas_bytes": 3}, where="drill x", in_drill=True)


@pytest.mark.parametrize(
    ("changes", "rewritten", "mistakes"),
    [
        ({"chunk": "512K"}, False, {"chunk-guessed", "garbled-trusted"}),
        ({"chunk": "512K"}, True, {"chunk-guessed"}),
        ({}, False, {"garbled-trusted"}),
        ({}, True, set()),
    ],
)
def test_mistakes_that_no_wrong_way_of_the_drill_makes(
    changes: dict[str, Any], rewritten: bool, mistakes: set[str]
) -> None:
    """All other mistakes are made on real arrays: tests/kernel/test_drill_proofs.py."""
    path = catalogue()["10-created-over"]
    variants = (ready(read_drill(path), path, seed) for seed in "abcdefgh")
    drill = next(each for each in variants if each.values["level"] == "6")
    values = {name: str(value) for name, value in drill.values.items()}
    offset = int(values["offset"])
    before = {disk: msgspec.structs.replace(SEEN, disk=disk, device_uuid=disk) for disk in values["members"].split(",")}
    made = {"uuid": "c:d", "data_offset_sectors": offset, "chunk": f"{values['chunk']}K", **changes}
    places = [values[name] for name in ("first", "second", "third", "fourth")]
    after = {
        disk: msgspec.structs.replace(before[disk], role=f"Active device {place}", **made)
        for place, disk in enumerate(places)
    }
    garbled = values["garbled"]
    end = evidence(
        before=before,
        after=after,
        has_array=True,
        members=tuple(places),
        saved_percent=40.0,
        changed={garbled: [[2048 * 512, 4096 * 512]]} if rewritten else {},
    )
    made_here = {"chunk-guessed", "garbled-trusted", "by-default", "order-guessed", "repaired-a-guess"}
    assert {each.id for each in recognised(drill, end)} & made_here == mistakes


def test_several_ways_to_make_one_mistake_count_each() -> None:
    path = catalogue()["01-dropped-members"]
    drill = read_drill(path)
    twice = msgspec.structs.replace(drill, mistakes=drill.mistakes[:1] * 2)
    assert [mistake.id for mistake, _ in ready(twice, path).mistakes][:2] == [drill.mistakes[0].id] * 2
