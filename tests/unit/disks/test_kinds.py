from __future__ import annotations

import re
from typing import Any

import pytest

from lab.disks.kinds import (
    TRANSPORT_MILLISECONDS,
    DiskKind,
    DiskSpec,
    all_drive_models,
    check_specs,
    find_drive_model,
    specs,
    with_full_names,
)
from lab.errors import SpecError
from lab.gates.decoding import MOST_DISK_BYTES, MOST_DISKS
from lab.tomlfile import known_word
from lab.units import KIB, MIB
from tests.unit.disks.machines import lab_disks


@pytest.mark.parametrize("word", ["loop", " Loop ", "LOOP"])
def test_a_kind_is_known_by_its_name_and_another_word_names_the_nearest(word: str) -> None:
    assert known_word(DiskKind, word, "kind of disk") is DiskKind.LOOP
    with pytest.raises(SpecError, match=r"\n  next: did you mean 'spindle'\?$"):
        known_word(DiskKind, "spindel", "kind of disk")


@pytest.mark.parametrize(
    ("kind", "more", "message", "hint"),
    [
        (DiskKind.FILE, {"size_bytes": MIB}, "", ""),
        (DiskKind.FILE, {"size_bytes": MIB - 512}, f"disk01: a size of {MIB - 512:,} bytes", "multiple of 512 bytes"),
        (DiskKind.FILE, {"size_bytes": MIB + 512}, "", ""),
        (DiskKind.FILE, {"size_bytes": MIB + 511}, f"disk01: a size of {MIB + 511:,} bytes", "multiple of 512 bytes"),
        (DiskKind.RAM, {"size_bytes": MIB + KIB}, "", ""),
        (DiskKind.RAM, {"size_bytes": MIB + 512}, f"disk01: a size of {MIB + 512:,} bytes", "multiple of 1024 bytes"),
        (DiskKind.SPINDLE, {"model": "hdd-7200"}, "", ""),
        (DiskKind.SPINDLE, {"model": "hdd-720"}, "no drive model 'hdd-720'", "did you mean 'hdd-7200'?"),
        (DiskKind.PHYSICAL, {"backing": "/dev/sdb"}, "", ""),
        (DiskKind.PHYSICAL, {"backing": "sdb"}, "needs its path", ""),
        (DiskKind.PHYSICAL, {"backing": ""}, "needs its path", ""),
        *(
            (kind, {"model": "hdd-7200", "backing": "/dev/sdx"}, f"a {kind} disk has no drive model", "")
            for kind in DiskKind
            if kind is not DiskKind.SPINDLE
        ),
    ],
)
def test_what_a_disk_may_be(kind: DiskKind, more: dict[str, Any], message: str, hint: str) -> None:
    spec = DiskSpec(name="disk01", kind=kind, **more)
    if not message:
        spec.validate()
        return
    with pytest.raises(SpecError, match=f"{message}.*\n.*{re.escape(hint)}"):
        spec.validate()


def test_several_disks_are_numbered_and_checked() -> None:
    made = specs(3, DiskKind.LOOP, size_bytes=MIB, first=9)
    assert [spec.name for spec in made] == ["disk09", "disk10", "disk11"]
    assert {(spec.kind, spec.size_bytes) for spec in made} == {(DiskKind.LOOP, MIB)}
    with pytest.raises(SpecError, match="count 0 is not possible"):
        specs(0, DiskKind.LOOP)
    with pytest.raises(SpecError, match="not possible"):
        specs(2, DiskKind.LOOP, size_bytes=100)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/x", "a b", "-a", "a\x1b[2J", "a" * 65, "ä", "a\n"])
def test_unsafe_disk_names_are_rejected(name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name of a disk"):
        DiskSpec(name=name, kind=DiskKind.FILE).validate()


def test_disks_that_a_lab_cannot_have_together() -> None:
    check_specs(specs(MOST_DISKS, DiskKind.LOOP))
    with pytest.raises(SpecError, match=r"65 disks are too many.*\n.*at most 64"):
        check_specs(specs(MOST_DISKS, DiskKind.LOOP), ["disk99"])
    with pytest.raises(SpecError, match="several disks are named disk01"):
        check_specs([*specs(2, DiskKind.FILE), *specs(1, DiskKind.FILE)])
    with pytest.raises(SpecError, match="1M to 16T"):
        check_specs([DiskSpec(name="disk01", kind=DiskKind.FILE, size_bytes=MOST_DISK_BYTES + 512)])


@pytest.mark.parametrize("name", [name for name, each in all_drive_models().items() if not each.mechanics])
def test_a_drive_model_answers_in_its_time_with_the_transport(name: str) -> None:
    model = find_drive_model(name)
    answer = model.delay_milliseconds + TRANSPORT_MILLISECONDS
    # A solid-state drive is faster than the transport, so no time is left to wait.
    expected = max(model.service_milliseconds, TRANSPORT_MILLISECONDS)
    # nbdkit before 1.40 accepts only whole milliseconds.
    assert answer == pytest.approx(expected, abs=0.5)
    assert model.iops == pytest.approx(model.concurrent_requests * 1000 / model.service_milliseconds)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fail /dev/ubdb in md0", "Fail disk02 (/dev/ubdb) in md0"),
        ("Pull disk02", "Pull disk02 (/dev/ubdb)"),
        ("Fail disk02 (/dev/ubdb) in md0", "Fail disk02 (/dev/ubdb) in md0"),
        ("Replace /dev/ubda by /dev/ubdb in md0", "Replace disk01 (/dev/ubda) by disk02 (/dev/ubdb) in md0"),
        ("Make disk01, disk02, /dev/ubdc blank", "Make disk01, disk02, disk03 blank"),
        ("Add /dev/ubdb1 to /dev/md0", "Add /dev/ubdb1 to /dev/md0"),
    ],
)
def test_a_title_has_each_disk_by_both_of_its_names(text: str, expected: str) -> None:
    assert with_full_names(text, lab_disks("abc"), most=2) == expected
    assert with_full_names(expected, lab_disks("abc"), most=2) == expected


def test_a_sentence_keeps_names_and_explains_nodes() -> None:
    assert with_full_names("disk01, from /dev/ubda.", lab_disks("abc")) == "disk01, from disk01 (/dev/ubda)."
    assert with_full_names("nothing", []) == "nothing"
