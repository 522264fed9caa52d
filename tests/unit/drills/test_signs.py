"""Signs of mistakes: each holds where it must and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lab.drills.pictures import MemberPicture
from lab.drills.signs import DrillEnd, make_sign
from lab.errors import SpecError

SEEN = MemberPicture(disk="disk01", uuid="a:b", created="Monday", events=10, data_offset_sectors=2048)
BEFORE = {
    "disk01": SEEN,
    "disk02": msgspec.structs.replace(SEEN, disk="disk02"),
    "disk03": MemberPicture(disk="disk03"),
}


def evidence(**changes: Any) -> DrillEnd:
    known: dict[str, Any] = {
        "before": BEFORE,
        "after": BEFORE,
        "changed": {},
        "saved_percent": 100.0,
        "touched_bytes": 0,
    }
    return DrillEnd(**{**known, **changes})


def holds(seen: DrillEnd, **written: Any) -> bool:
    return make_sign(written, where="test").holds(seen)


def with_superblock(disk: str, picture: MemberPicture) -> DrillEnd:
    return evidence(after={**BEFORE, disk: picture})


def test_a_superblock_is_the_same_another_or_gone() -> None:
    other = msgspec.structs.replace(SEEN, uuid="c:d")
    anew = msgspec.structs.replace(SEEN, created="Tuesday")
    gone = MemberPicture(disk="disk01")
    for picture, became in ((SEEN, "same"), (other, "other"), (anew, "other"), (gone, "gone")):
        seen = with_superblock("disk01", picture)
        for word in ("same", "other", "gone"):
            assert holds(seen, that="superblock", became=word, disks="disk01") is (word == became)
    assert holds(with_superblock("disk01", other), that="superblock", became="other")
    assert not holds(with_superblock("disk01", other), that="superblock", became="other", at_least=2)
    # A later state of the same superblock is the same one.
    assert holds(with_superblock("disk01", msgspec.structs.replace(SEEN, events=90)), that="superblock", became="same")


def test_a_blank_disk_that_got_a_superblock_is_of_another_array() -> None:
    assert holds(with_superblock("disk03", SEEN), that="superblock", became="other", disks="disk03")
    assert not holds(evidence(), that="superblock", became="gone", disks="disk03")
    assert not holds(evidence(), that="superblock", became="other")


def test_bytes_of_the_data_area_alone_count() -> None:
    first = 2048 * 512
    seen = evidence(changed={"disk01": [[0, 4096], [first - 512, first + 1024]]})
    assert holds(seen, that="rewritten", disk="disk01", at_least_bytes=1024)
    assert not holds(seen, that="rewritten", disk="disk01", at_least_bytes=1025)
    assert not holds(seen, that="rewritten", disk="disk02")


def test_what_is_in_the_array() -> None:
    array: Any = object()
    seen = evidence(array=array, members=("disk02",))
    assert holds(seen, that="in_array", disks="disk01,disk02")
    assert not holds(seen, that="in_array", disks="disk01,")
    assert holds(seen, that="in_array", disks="disk01", is_in=False)
    assert not holds(evidence(), that="in_array", disks="disk01", is_in=False)
    assert holds(seen, that="runs")
    assert holds(evidence(), that="runs", is_there=False)
    assert not holds(seen, that="on_overlays")
    assert holds(evidence(array=array, members=("disk02",), is_on_overlays=True), that="on_overlays")
    assert not holds(evidence(), that="on_overlays")


def test_figures_and_commands() -> None:
    seen = evidence(saved_percent=40.0, touched_bytes=512, commands=["mdadm --create /dev/md0", "ls"])
    assert holds(seen, that="saved", at_most_percent=40)
    assert not holds(seen, that="saved", at_most_percent=39.99)
    assert holds(seen, that="touched")
    assert not holds(evidence(), that="touched")
    assert holds(seen, that="typed", pattern=r"mdadm\b.*--create")
    assert not holds(seen, that="typed", pattern="^--create")


def test_a_sign_that_is_none_is_told_with_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        make_sign({"that": "superblok"}, where="drill x")
    assert "superblock" in caught.value.hint
    with pytest.raises(SpecError):
        make_sign({"that": "typed", "pattern": "("}, where="drill x")
    with pytest.raises(SpecError):
        make_sign({"that": "rewritten", "disk": "disk01", "at_leas_bytes": 3}, where="drill x")
