"""The messages about likely wrong numbers, for every reading of the course."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.arrays.status import ArrayStatus
from lab.checks.state import CheckedState, DeepState
from lab.faults.crash_points import PointJudgement
from lab.lessons.course import ReadyLesson, ReadyStep, built_in_course, words_in
from lab.lessons.engine import StepView, displayed
from tests.unit.lessons.samples import array, member, played, points, verified
from tests.unit.lessons.test_checks import superblock
from tests.unit.lessons.test_leaks import written
from tests.unit.lessons.untold import all_in_app, files_of, iops_of, measured_all, view_at

# Seed 1, Linux 6.1, mdadm 4.2, virtual time: 'raidlab fault run 17', 19, 15, 16 and 'raidlab fault points'.
OUTCOMES: dict[int, dict[str, dict[str, str]]] = {
    17: {
        "RAID 5, all members": {"points": "36", "refused": "0", "untouched_corrupt": "0"},
        "RAID 5, one lost": {"refused": "120", "untouched_corrupt": "47", "untouched_lost": "0"},
        "RAID 6, one lost": {"refused": "105", "untouched_corrupt": "37"},
        "RAID 6, two lost": {"refused": "30", "untouched_corrupt": "19"},
    },
    19: {
        "write-through, members lost": {"points": "120", "untouched_lost": "0"},
        "write-through, journal lost": {"points": "30", "untouched_lost": "18", "untouched_corrupt": "0"},
    },
    15: {
        "RAID 1, stopped": {"read_sectors": "139"},
        "RAID 1, crashed": {"read_sectors": "2187"},
    },
    16: {
        "crash, without": {"write_sectors": "8222"},
        "crash, with a bitmap": {"write_sectors": "270", "writes": "120"},
    },
}
JUDGED = {
    "raid1/resync/idle/mixed": {PointJudgement.KEPT: 40},
    "raid5/resync/idle/mixed": {
        PointJudgement.KEPT: 13,
        PointJudgement.MORE: 13,
        PointJudgement.EXEMPT: 14,
    },
}
FOUR = array(
    members=tuple(
        replace(member(f"/dev/ubd{letter}", slot), bad_blocks=((14056, 8),) if letter in "ab" else ())
        for slot, letter in enumerate("abcd")
    ),
    mismatch_sectors=128,
    raid_disks=4,
    size_bytes=186 << 20,
)


def state(lesson: ReadyLesson, *arrays: ArrayStatus) -> CheckedState:
    """A lab that has a value for every reading of the lesson."""
    nodes = {f"disk{number:02d}": f"/dev/ubd{letter}" for number, letter in enumerate("abcdefgh", 1)}
    events = {"disk01": 25, "disk02": 34, "disk03": 36, "disk04": 36}
    return CheckedState(
        arrays={each.name: each for each in arrays or (FOUR,)},
        nodes=nodes,
        marks={"md0": verified("unreadable", "", (8192, 4096))},
        results=measured_all(lesson),
        played={str(number): played(number, variants) for number, variants in OUTCOMES.items()},
        points={name: points(name, judged) for name, judged in JUDGED.items()},
        deep=DeepState(
            superblocks={disk: superblock(count) for disk, count in events.items()},
            minors={disk: 16 * (number - 1) for number, disk in enumerate(nodes, 1)},
        ),
    )


def view_of(lesson: ReadyLesson, step: ReadyStep, lab: CheckedState, folder: Path, typed: str) -> StepView:
    """The result for a typed number, after a prediction if the step asks for one."""
    answer = next(iter(step.ask.options)) if step.ask else ""
    return view_at(lesson, step.id, lab, folder, answer=answer, reading=typed)


Wrong = str | Callable[[float], float]
"""A typed number, or a function of the right one."""


def times(factor: float) -> Callable[[float], float]:
    return lambda right: factor * right


def inverse(right: float) -> float:
    return 1 / right


OTHER_UNIT, ROW, COLUMN = "reading-other-unit", "reading-other-row", "reading-other-column"
UPSIDE, ALONE, FIGURE, FACT = "reading-upside-down", "reading-not-divided", "reading-other-figure", "reading-other-fact"
OFF, OFF_RESULT = "reading-off", "reading-off-result"


def of_row(number: int, figure: str = "p50") -> str:
    """The figure of a row of a measured lesson, as the samples compute it; the first row is 1."""
    value = iops_of(number) if figure == "iops" else 13.1 * 1.17**number
    return f"{3 * value if figure == 'p99' else value:.6g}"


# Lesson, step -> typed number, and the key of the message or the id of a mistake in the lesson.
TABLE: dict[tuple[str, str], tuple[tuple[Wrong, str], ...]] = {
    ("01-what-a-disk-promises", "depth"): (
        (of_row(1), ROW),
        (of_row(2, "p99"), FIGURE),
        (times(1 / 1000), OTHER_UNIT),
        (times(1 / 8), OFF_RESULT),
    ),
    ("01-what-a-disk-promises", "promises"): (
        ("100", "bits"),
        ("800", "bytes"),
        ("12500000000000", OTHER_UNIT),
        ("11", OFF),
    ),
    ("04-parity", "room"): (("1110101", "without-parity"), ("10101", "inverted"), ("1001 1111", "parity-itself")),
    ("06-small-writes", "count"): (("200", "together"), ("20", "writes-alone"), ("50", "as-many"), ("400", OFF)),
    ("06-small-writes", "measure"): (
        (inverse, UPSIDE),
        (of_row(1, "iops"), ALONE),
        (of_row(3, "iops"), ALONE),
        ("4.0", OFF_RESULT),
    ),
    ("08-two-failures", "why"): (("48", "all-disks"), ("8", "one-disk"), ("32", "two-fewer"), ("40000", OTHER_UNIT)),
    ("12-choosing-a-level", "question"): (("95.1", "not-divided"), ("31700", OTHER_UNIT), ("41.45", OFF)),
    ("12-choosing-a-level", "measure"): ((inverse, UPSIDE), (of_row(2, "iops"), ALONE), ("2", OFF_RESULT)),
    ("13-two-new-disks", "room"): ((times(1048576), OTHER_UNIT), ("93", OFF), (times(1 / 1024), OTHER_UNIT)),
    ("13-two-new-disks", "tiers"): ((times(1024), OTHER_UNIT), ("128", OFF), ("160", OFF)),
    ("13-two-new-disks", "divisors"): (("0", ROW), ("100", ROW), ("33", OFF)),
    ("13-two-new-disks", "measure"): ((inverse, UPSIDE), (of_row(1, "iops"), ALONE), (of_row(2, "iops"), ALONE)),
    ("13-two-new-disks", "failure"): (("1", ROW), ("9", OFF), ("2", ROW)),
    ("14-where-a-block-lives", "build"): (("1", OTHER_UNIT), ("1048576", OTHER_UNIT), ("256", OTHER_UNIT)),
    ("14-where-a-block-lives", "stripe"): (("46", "all-disks"), ("187", "chunk"), ("13", "block-by-disks")),
    ("14-where-a-block-lives", "parity"): (("4", "data-disk"), ("1", "slot"), ("3", OFF)),
    ("14-where-a-block-lives", "sector"): (("8040", "no-offset"), ("24040", "of-the-array"), ("1261", OTHER_UNIT)),
    ("14-where-a-block-lives", "back"): (("14056", "reading-list-sector"), ("1757", OFF), ("93", OFF)),
    ("14-where-a-block-lives", "file"): (("2", OTHER_UNIT), ("16", OTHER_UNIT), ("8", OTHER_UNIT)),
    ("15-the-write-hole", "by-hand"): (("11001010", "fitting"), ("101100", "new-parity"), ("1111000", OFF)),
    ("15-the-write-hole", "seen"): (("120", "refused"), ("37", ROW), ("19", ROW), ("0", ROW)),
    ("15-the-write-hole", "price"): ((inverse, UPSIDE), (of_row(1, "iops"), ALONE), (of_row(2, "iops"), ALONE)),
    ("15-the-write-hole", "journal"): (("0", ROW), ("30", FACT), ("120", OFF_RESULT)),
    ("16-an-unreadable-sector", "count"): (("0.32", "one-disk"), ("1.28", "all-four"), ("0.12", "bytes")),
    ("16-an-unreadable-sector", "real"): (("1", "one"), ("36", OFF), ("40", OFF)),
    ("16-an-unreadable-sector", "lost"): (("4", "one-list"), ("8192", OTHER_UNIT), ("16", OTHER_UNIT)),
    ("17-the-power-cut", "fsync"): (("77", "answered"), ("80", "next-fsync"), ("5", "the-others")),
    ("17-the-power-cut", "mirror"): (("0", ROW), ("20", OFF_RESULT), ("39", OFF_RESULT)),
    ("17-the-power-cut", "parity"): (("13", "kept"), ("0", ROW), ("40", "reading-all-of-them")),
    ("17-the-power-cut", "restart"): ((inverse, "upside-down"), ("2187", ALONE), ("139", ALONE)),
    ("17-the-power-cut", "bitmap"): ((inverse, "upside-down"), ("8222", ALONE), ("270", ALONE)),
    ("18-time-limits", "two-clocks"): (("110", "whole"), ("30", "kernel"), ("80000", OTHER_UNIT)),
    ("18-time-limits", "scterc"): (("7", "seconds"), ("7000", "milliseconds"), ("0.7", OFF)),
    ("19-will-not-assemble", "examine"): (("25", "count-itself"), ("2", "the-other"), ("36", "highest")),
    ("20-ailing-but-alive", "find"): (("16", ROW), ("32", ROW), ("98", OFF)),
    ("21-operating-an-array", "scrub"): (("64", OTHER_UNIT), ("16", OTHER_UNIT), ("65536", OTHER_UNIT)),
    ("22-arithmetic-of-reliability", "measure"): (
        (times(1024), OTHER_UNIT),
        (times(1048576), OTHER_UNIT),
        ("93", OFF_RESULT),
    ),
    ("22-arithmetic-of-reliability", "large"): (
        (times(3600), OTHER_UNIT),
        (times(60), OTHER_UNIT),
        (times(1 / 24), OTHER_UNIT),
    ),
    ("22-arithmetic-of-reliability", "mttdl"): (
        (times(1 / 8766), "hours"),
        (times(7), "once"),
        (times(0.015), "not-squared"),
        (times(8766), OTHER_UNIT),
    ),
    ("22-arithmetic-of-reliability", "sectors"): (
        ("5.82", "bytes"),
        ("48", "expected"),
        ("0.381", OTHER_UNIT),
        ("99.2", "desktop"),
    ),
    ("23-sequential-and-random", "two-speeds"): (("80", "iops"), ("320", OTHER_UNIT), ("120", "in-order")),
    ("23-sequential-and-random", "predict"): (("8", "no-penalty"), ("7", "full-stripes"), ("4", "two-writes")),
    ("23-sequential-and-random", "in-order"): ((inverse, UPSIDE), ("4", OFF_RESULT), (times(2), OFF_RESULT)),
    ("23-sequential-and-random", "at-random"): ((inverse, UPSIDE), (of_row(8, "iops"), ALONE), ("2.5", OFF_RESULT)),
    ("24-scrub-and-the-years", "as-it-is"): ((times(1 / 100), OTHER_UNIT), ("5", OFF), ("40", COLUMN)),
    ("24-scrub-and-the-years", "never"): ((times(1 / 100), OTHER_UNIT), ("5", OFF), ("2", OFF)),
    ("24-scrub-and-the-years", "oftener"): ((times(1 / 100), OTHER_UNIT), ("5", OFF), ("2", OFF)),
    ("24-scrub-and-the-years", "shelf"): ((lambda right: right + 1, OFF), ("1", OFF), ("9", OFF)),
    ("24-scrub-and-the-years", "mttdl"): ((times(1 / 2), OFF), ("1", OFF), ("10", OFF)),
}


KNOWN_HERE_ALONE = ("fleet.", "fault.", "points.")
"""Sources whose numbers test_leaks.py does not know."""
ALL_OF_THEM = ("17-the-power-cut", "mirror")
"""The number is the count of all crash points, which the step shows for another reason."""


@pytest.mark.parametrize(("place", "wrong"), [(place, wrong) for place, many in TABLE.items() for wrong in many])
def test_a_likely_wrong_number_gets_the_hint_that_fits(
    place: tuple[str, str], wrong: tuple[Wrong, str], tmp_path: Path
) -> None:
    lesson = files_of(place[0]).ready("")
    step, lab = lesson.step(place[1]), state(lesson)
    assert step.read is not None
    right = step.read.expected(lab)
    assert right is not None
    number, message = wrong
    typed = number if isinstance(number, str) else f"{number(right):.10g}"
    view = view_of(lesson, step, lab, tmp_path, typed)
    outcome = view.checks[-1].outcome
    assert outcome is not None
    assert not outcome.is_passed, f"{typed} passes for {right}"
    keys = {outcome.key, view.mistake.id if view.mistake else ""}
    assert message in keys, (typed, right, keys)
    plan = files_of(place[0]).lesson.step(place[1])
    if plan and plan.read and plan.read.value["get"].startswith(KNOWN_HERE_ALONE) and place != ALL_OF_THEM:
        assert not written(all_in_app(lesson, step, lab, tmp_path), step, right)
    # The message must not contain the right number.
    shown = displayed(words_in("en"), view)
    told = f"{right:.4g}"
    assert len(told) < 3 or told not in shown.checks[-1].found.replace(typed, ""), "the right number is not told"


RATIOS = [
    (files.lesson.id, step.id)
    for files in built_in_course().lessons
    for step in files.lesson.steps
    if step.read is not None and step.read.value["get"].endswith(".ratio")
]


def _as_found(number: int) -> float:
    """A latency that is almost inversely proportional to the IOPS, as in a queue of constant length (Little's law)."""
    return 4.0 / iops_of(number) * 1.01**number


@pytest.mark.parametrize("latency", [None, _as_found])
@pytest.mark.parametrize("digits", [".10g", "#.3g", "#.2g"])
@pytest.mark.parametrize("place", RATIOS)
def test_a_ratio_upside_down_is_called_that_however_it_is_rounded(
    place: tuple[str, str], digits: str, latency: Callable[[int], float] | None, tmp_path: Path
) -> None:
    lesson = files_of(place[0]).ready("")
    step, lab = lesson.step(place[1]), state(lesson)
    lab = replace(lab, results=measured_all(lesson, latency=latency)) if latency else lab
    assert step.read is not None
    right = step.read.expected(lab)
    assert right
    typed = f"{1 / right:{digits}}".removesuffix(".")
    view = view_of(lesson, step, lab, tmp_path, typed)
    found = displayed(words_in("en"), view).checks[-1].found
    assert "is the inverse ratio: divide" in found
    if view.mistake:
        assert view.mistake.id == "upside-down"


def test_a_ratio_upside_down_that_was_rounded_is_not_taken_for_that_of_the_latencies(tmp_path: Path) -> None:
    lesson = files_of("15-the-write-hole").ready("")
    found = measured_all(lesson, iops=lambda number: 300 / 1.245**number, latency=lambda number: 1.2**number)
    view = view_at(lesson, "price", replace(state(lesson), results=found), tmp_path, answer="fewer", reading="1.2")
    assert "is the inverse ratio: divide" in displayed(words_in("en"), view).checks[-1].found


def test_the_ratio_of_another_figure_is_called_that(tmp_path: Path) -> None:
    lesson = files_of("15-the-write-hole").ready("")
    # The ratio of these latencies is 2, unlike any other ratio.
    lab = replace(state(lesson), results=measured_all(lesson, latency=lambda number: 2.0**number))
    view = view_at(lesson, "price", lab, tmp_path, answer="fewer", reading="2")
    found = displayed(words_in("en"), view).checks[-1].found
    assert found == "2 is the ratio of a different figure, the median latency. Use the IOPS instead"


def test_every_reading_of_the_course_is_in_the_table() -> None:
    asked = {
        (files.lesson.id, step.id)
        for files in built_in_course().lessons
        for step in files.lesson.steps
        if step.read is not None
    }
    assert set(TABLE) == asked
    assert all(len(many) >= 3 for many in TABLE.values())
