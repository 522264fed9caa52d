"""Where the number of a reading comes from, for each source: the student's own result, the lab, or a count."""

from __future__ import annotations

from typing import Any

import pytest

from lab.checks.catalogue import SOURCES, make_source
from lab.checks.readings import UNITS, Reading
from lab.checks.state import CheckedState, MarkSeen
from lab.errors import SpecError
from lab.results.record import RebuildRecord
from tests.unit.lessons.samples import array, lab_state
from tests.unit.lessons.test_checks import AGES, BAD, MIRROR, SPLIT, cell, deep, figures, measured, played, tried

ONE = measured(cell("a", 0, figures(300, 0.050)), cell("b", 0, figures(40, 0.200, pause=0.175)))
LARGE: dict[str, Any] = {"measure": "m", "array": "a", "drive_tb": 18.0}
REBUILT = RebuildRecord(array="a", repeat=0, rebuild_seconds=2.0, rebuilt_bytes=200 << 20)
MIXED = "1T 1T 1T 1T 1T 2T 2T 2T 2T"


def reading(unit: str = "", within_percent: float = 0.0, **written: Any) -> Reading:
    return Reading("?", unit, make_source(written, where="test"), within_percent)


FOUND: list[tuple[Reading, CheckedState, float]] = [
    (reading("TB", get="number", equals=12.5), lab_state(), 12.5),
    (reading("IOPS", get="result.figure", measure="m", of={"array": "a"}), ONE, 300.0),
    (reading("ms", get="result.figure", measure="m", of={"array": "a"}, figure="p50"), ONE, 50.0),
    (reading("KiB/s", get="result.figure", measure="m", of={"array": "a"}, figure="bandwidth"), ONE, 1200.0),
    (reading("IOPS", get="result.figure", measure="m", of={"array": "a"}), measured(*SPLIT), 200.0),
    # As measured: mean and median latency have no part in it.
    (reading(get="result.ratio", measure="m", of={"array": "a"}, to={"array": "b"}), ONE, 7.5),
    (reading("MiB", get="array.size"), lab_state(array()), 124.0),
    # Chunk 187 is the second of stripe 93, whose parity lies on slot 2: 93 chunks and 13 blocks behind the offset.
    (reading(get="block.place", block=3005, what="stripe"), lab_state(BAD), 93.0),
    (reading(get="block.place", block=3005, what="disk"), lab_state(BAD), 2.0),
    (reading(get="block.place", block=3005, what="parity-disk"), lab_state(BAD), 3.0),
    (reading("sectors", get="block.place", block=3005, what="sector"), lab_state(BAD), 14056.0),
    (reading(get="bad.block", disk="disk02"), lab_state(BAD), 3005.0),
    (reading("KiB", get="bad.bytes"), lab_state(BAD), 4.0),
    (reading("sectors", get="member.offset", disk="disk01"), lab_state(BAD), 2048.0),
    (
        reading(get="mark.first_unreadable"),
        lab_state(marks={"md0": MarkSeen("unreadable", "", ((8192, 4096), (65536, 4096)))}),
        8192.0,
    ),
    (reading(get="fault.figure", scenario=17, variant="b", fact="writes"), played(writes="3 12.5"), 12.5),
    (reading(get="fault.ratio", scenario=17, fact="writes", of="b", to="a"), played(writes="4 12"), 3.0),
    (reading(get="points.figure", configuration=MIRROR, judgement="kept"), tried(50, broken=1), 49.0),
    (reading("MiB", get="capacity", disks="32M 32M 32M 64M 64M", system="raid5"), lab_state(), 124.0),
    (reading(get="capacity", disks=MIXED, system="adapt5", figure="arrays"), lab_state(), 5.0),
    (reading(get="capacity", disks=MIXED, system="shr", figure="reads-percent"), lab_state(), 27.0),
    (reading(get="member.events", disk="disk02"), deep(superblocks=AGES), 23.0),
    (reading(get="member.events", disk="disk02", behind=True), deep(superblocks=AGES), 2.0),
    (reading(get="disk.minor", disk="disk02"), deep(minors={"disk02": 16}), 16.0),
    (reading("sectors", get="scrub.mismatches"), lab_state(array(mismatches=128)), 128.0),
    (reading("MiB/s", get="rebuild.rate", measure="m", array="a"), measured(rebuilds=(REBUILT,)), 100.0),
    # 18 TB at 100 MiB/s.
    (reading("h", get="rebuild.time", **LARGE), measured(rebuilds=(REBUILT,)), 47.6837),
    # MTTF 1 / 1.5 %: 66.67 years; squared, over 8 × 7 × 47.68 h.
    (
        reading("years", get="rebuild.mttdl", members=8, afr_percent=1.5, **LARGE),
        measured(rebuilds=(REBUILT,)),
        14_590.186,
    ),
    # 12 TB are 9.6e13 bits.
    (reading("%", get="read_error.chance", read_tb=12.0, exponent=14), lab_state(), 61.7107),
    (reading("%", get="read_error.chance", read_tb=12.0, exponent=15), lab_state(), 9.153598),
    # (m + (2 N - 1) f) / (N (N - 1) f^2): N = 6, f = -ln(1 - 1.57 %) a year, 1 / m = 72 + 12 + 39.25 h.
    (reading("years", get="fleet.figure", fleet="school", figure="mttdl"), lab_state(), 9490.566),
]


@pytest.mark.parametrize(("read", "at", "expected"), FOUND, ids=[str(each[0].source) for each in FOUND])
def test_the_right_number_is_found(read: Reading, at: CheckedState, expected: float) -> None:
    assert read.expected(at) == pytest.approx(expected, rel=1e-5)
    assert read.compare(f"{expected:.10g}", at).is_passed or read.within_percent == 0


@pytest.mark.parametrize(
    "read",
    [
        reading("IOPS", get="result.figure", measure="m", of={"array": "a"}),
        reading(get="result.ratio", measure="m", of={"array": "a"}, to={"array": "b"}),
        reading("MiB", get="array.size"),
        reading(get="block.place", block=1, what="disk"),
        reading(get="bad.block", disk="disk01"),
        reading(get="mark.first_unreadable"),
        reading(get="fault.figure", scenario=17, variant="a", fact="writes"),
        reading(get="points.figure", configuration=MIRROR, judgement="kept"),
        reading(get="member.events", disk="disk02"),
        reading(get="disk.minor", disk="disk02"),
        reading("sectors", get="scrub.mismatches"),
        reading("years", get="rebuild.mttdl", members=8, afr_percent=1.5, **LARGE),
    ],
    ids=str,
)
def test_without_a_result_or_an_array_there_is_nothing_to_read(read: Reading) -> None:
    assert read.expected(lab_state()) is None
    assert read.compare("5", lab_state()).said == "reading-nothing-there"


def test_a_part_that_was_not_measured_gives_no_ratio() -> None:
    read = reading(get="result.ratio", measure="m", of={"array": "a"}, to={"array": "c"})
    assert read.expected(ONE) is None


@pytest.mark.parametrize(("typed", "is_right"), [("50", True), ("50.5", True), ("49.4", False), ("50.6", False)])
def test_a_number_may_be_as_far_off_as_the_step_says(typed: str, is_right: bool) -> None:
    read = reading("ms", 1.0, get="result.figure", measure="m", of={"array": "a"}, figure="p50")
    assert read.compare(typed, ONE).is_passed is is_right


def test_a_unit_that_differs_by_a_prefix_or_by_bits_is_told() -> None:
    read = reading("KiB/s", 1.0, get="result.figure", measure="m", of={"array": "a"}, figure="bandwidth")
    for typed in ("1.17", "1228800", "9600"):
        assert read.compare(typed, ONE).said == "reading-other-unit", typed
    assert read.compare("2400", ONE).said == "reading-off-result"


def test_what_parts_read_is_checked_with_the_lesson() -> None:
    with pytest.raises(SpecError, match="'1X'"):
        make_source({"get": "capacity", "disks": "1T 1X", "system": "raid5"}, where="test")
    with pytest.raises(SpecError, match="no variant of school 'raid'"):
        make_source({"get": "fleet.figure", "fleet": "school", "figure": "nines", "variant": "raid"}, where="test")


def test_every_source_is_tested_and_says_what_it_is() -> None:
    assert {str(type(each[0].source).__struct_config__.tag) for each in FOUND} == set(SOURCES)
    for kind in SOURCES.values():
        assert (kind.__doc__ or "").strip().endswith(".")
    assert UNITS[""] == 1.0


def test_a_comma_before_three_digits_groups_thousands_as_the_lessons_print_them() -> None:
    read = reading(get="number", equals=82_900)
    assert [read.parse(text) for text in ("82,900", "82,9", "0,125")] == [82_900, 82.9, 0.125]


def test_a_number_that_was_kept_for_another_unit_is_asked_for_again() -> None:
    read = reading("TB", get="number", equals=12.5)
    assert read.compare("12 banana", lab_state()).said == "reading-not-given"
