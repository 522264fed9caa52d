from __future__ import annotations

import msgspec
import pytest

from lab.experiments.published import Published, find_published
from lab.report.tables import csv_text, details_table, performance_table, ratio_table, title_of
from lab.tables import Table
from tests.unit.report.records import load, repeated

RECORD = load("antioquia-quick")


@pytest.fixture(name="study")
def published_study() -> Published:
    found = find_published("antioquia")
    assert found
    return found


def column(table: Table, title: str) -> dict[str, str]:
    index = [each.heading for each in table.columns].index(title)
    return {row[0]: row[index] for row in table.texts}


@pytest.mark.parametrize(
    ("array", "title"), [("raid0", "RAID 0"), ("raid10", "RAID 10"), ("raid0-3", "RAID 0 (3 disks)")]
)
def test_titles(array: str, title: str) -> None:
    assert title_of(array) == title


def test_csv_has_the_studys_columns() -> None:
    assert csv_text(RECORD) == (
        "RAID Level,Read IOPS,Write IOPS,Rebuild Time\n"
        "RAID 0,6364,8177,\n"
        "RAID 1,7135,6152,2.20\n"
        "RAID 5,8840,7278,7.90\n"
    )


def test_csv_of_a_run_that_measured_nothing_yet() -> None:
    empty = msgspec.structs.replace(RECORD, cells=(), rebuilds=())
    assert csv_text(empty).splitlines()[1] == "RAID 0,,,"


def test_ratios_stand_beside_the_published_ones(study: Published) -> None:
    table = ratio_table(RECORD, study)
    assert table.texts == (
        ("RAID 1 ÷ RAID 0", "2 against 2: equal", "1.12", "0.75", "0.75", "0.54"),
        ("RAID 5 ÷ RAID 0", "3 against 2: unequal", "1.39", "0.89", "1.15", "0.33"),
    )


def test_a_ratio_of_several_repeats_has_an_interval(study: Published) -> None:
    table = ratio_table(repeated(RECORD, (1.1, 0.9)), study)
    # Every array drifts alike, so the ratio of each pair of repeats is the same.
    assert column(table, "reads")["RAID 1 ÷ RAID 0"] == "1.12 [1.12–1.12]"


def test_three_disks_are_the_fair_partner_of_raid_5(study: Published) -> None:
    fair = msgspec.structs.replace(RECORD.arrays[0], name="raid0-3", members=("/dev/a", "/dev/b", "/dev/c"))
    table = ratio_table(msgspec.structs.replace(RECORD, arrays=(*RECORD.arrays, fair)), study)
    assert table.texts[-1][:3] == ("RAID 5 ÷ RAID 0 (3 disks)", "3 against 3: equal", "–")


def test_ratios_without_the_baseline(study: Published) -> None:
    without = msgspec.structs.replace(RECORD, arrays=RECORD.arrays[1:])
    assert ratio_table(without, study).rows == ()


def test_details_equal_to_the_study(study: Published) -> None:
    table = details_table(RECORD, study)
    assert table.notes == ("equal to the published table",)
    assert [each.heading for each in table.columns] == [
        *("", "RAID 0", "published", "RAID 1", "published", "RAID 5", "published")
    ]
    assert table.texts[1] == ("array size KiB", "1019904", "1019904", "510976", "510976", "1019904", "1019904")
    assert table.texts[2][:3] == ("used device KiB", "N/A", "N/A")


def test_a_cell_that_differs_from_the_study_is_named(study: Published) -> None:
    raid5 = RECORD.arrays[2]
    changed = msgspec.structs.replace(raid5, details=raid5.details | {"chunk_kib": "64"})
    table = details_table(msgspec.structs.replace(RECORD, arrays=(*RECORD.arrays[:2], changed)), study)
    assert table.notes == ("differs from the published table: RAID 5 chunk KiB",)


def test_performance_of_one_repeat_has_no_intervals(study: Published) -> None:
    table = performance_table(RECORD, study)
    assert table.texts[0] == (
        *("RAID 0", "6.4k", "8.2k", "26.1", "33.5", "20.3 ms", "20.6 ms", "155", "122"),
        *("–", "no redundancy", "1", "82.9k", "81.0k"),
    )
    assert column(table, "rebuild s") == {"RAID 0": "–", "RAID 1": "2.2", "RAID 5": "7.9"}
    assert column(table, "data")["RAID 5"] == "intact (1 of 1)"
    assert table.notes[0] == "one repeat: no interval can be given"
    assert table.notes[1:] == study.remarks


def test_performance_of_several_repeats_has_intervals_and_says_what_they_cover(study: Published) -> None:
    table = performance_table(repeated(RECORD, (2.0, 0.5)), study)
    assert column(table, "read IOPS")["RAID 1"] == "7.1k [3.6k–14.3k]"
    assert column(table, "n")["RAID 1"] == "3"
    assert table.notes[0] == "median [interval of order statistics; it covers the true median with at least 75.0%]"
