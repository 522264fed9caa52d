"""The tables of a sweep, from rows whose best, worst and surprising ones are known."""

from __future__ import annotations

import pytest

from lab.sweep.grid import (
    FailedCell,
    SweepGrid,
    extreme_table,
    is_off,
    missing_sentence,
    summary_tables,
    summary_text,
    surprise_table,
    surprises,
)
from tests.unit.sweep.made_sweeps import row, sweep

LEVELS = {"raid0": 400.0, "raid10": 390.0, "raid5": 100.0, "raid6": 66.0, "raid1": 50.0}


def test_the_summary_names_the_best_and_the_worst_of_each_workload() -> None:
    rows = [
        row(level, speed * factor, workload=workload)
        for workload, factor in (("a", 1.0), ("b", 10.0))
        for level, speed in LEVELS.items()
    ]
    best, surprising, sensitive = summary_tables(sweep(rows))
    assert [each[:5] for each in best.rows] == [
        ("a, reads", "best", "raid0", "400", "[396 – 404], n = 6"),
        ("a, reads", "worst", "raid1", "50", "[49.5 – 50.5], n = 6"),
        ("b, reads", "best", "raid0", "4,000", "[3,960 – 4,040], n = 6"),
        ("b, reads", "worst", "raid1", "500", "[495 – 505], n = 6"),
    ]
    assert (surprising.rows, surprising.notes) == ((), ("theory says nothing about these cells",))
    assert sensitive.texts[1] == ("a, reads", "5", "100% ×8", "–", "0%")
    assert all(table.as_text() and table.as_markdown() for table in (best, surprising, sensitive))


def test_best_and_worst_from_the_ends_and_none_twice() -> None:
    grid = SweepGrid(sweep(row(level, speed) for level, speed in LEVELS.items()))
    table = extreme_table(grid, grid.pairs[0], 5)
    assert [each[:2] for each in table.rows] == [
        ("best 1", "raid0"),
        ("best 2", "raid10"),
        ("worst 1", "raid1"),
        ("worst 2", "raid6"),
    ]


def test_cells_that_may_be_as_fast_as_the_best_are_counted() -> None:
    speeds = {"raid0": (400.0, 380.0), "raid10": (390.0, 370.0), "raid5": (100.0, 90.0)}
    rows = [row(name, speed, iops_low=low, iops_high=speed + 5) for name, (speed, low) in speeds.items()]
    grid = SweepGrid(sweep(rows))
    assert "the interval of 1 other cell reaches into" in extreme_table(grid, grid.pairs[0], 1).notes[1]
    once = SweepGrid(sweep(row(name, speed, repeats=1) for name, speed in LEVELS.items()))
    table = extreme_table(once, once.pairs[0], 1)
    assert len(table.notes) == 1
    assert table.rows[0][3] == "one repeat"


def test_one_cell_is_the_best_and_not_the_worst() -> None:
    assert [each[1] for each in summary_tables(sweep([row()]))[0].rows] == ["best"]


def test_nothing_measured_has_no_tables_and_says_so() -> None:
    assert summary_tables(sweep([])) == ()
    assert (
        summary_text(sweep([], planned=3))
        == "0 of 3 cells are measured; 'raidlab sweep s1 --resume' measures the others"
    )


def test_a_sweep_that_is_not_whole_says_so_first() -> None:
    three = [row(level) for level in ("raid0", "raid1", "raid5")]
    some = sweep(three, planned=20)
    said = "3 of 20 cells are measured; 'raidlab sweep s1 --resume' measures the others"
    assert summary_text(some).splitlines()[:2] == [said, ""]
    assert summary_text(some, is_markdown=True).splitlines()[:2] == [said, ""]
    assert summary_text(some, is_running=True).startswith("3 of 20 cells are measured; the sweep still runs\n\n")
    failed = [FailedCell(cell="f", label="raid6", message="it broke")]
    assert missing_sentence(sweep(three[:1], failed=failed)) == (
        "1 of 2 cells is measured, 1 could not be; 'raidlab sweep s1 --resume' measures the other"
    )
    assert missing_sentence(sweep(three)) == ""
    assert summary_text(sweep(three)).startswith("Best and worst cells")
    marked = summary_text(sweep(three, planned=20, id="a_b_c"), is_markdown=True)
    assert "sweep a\\_b\\_c --resume" in marked


def test_what_could_not_be_measured_is_told_also_where_nothing_was() -> None:
    failed = [FailedCell(cell=f"c{each}", label=f"raid5, {each} members", message="it\nbroke") for each in range(12)]
    (table,) = summary_tables(sweep([], failed=failed))
    assert (table.rows[0], len(table.rows)) == (("raid5, 0 members", "it broke"), 10)
    assert table.notes == ("and 2 more",)
    (table,) = summary_tables(sweep([row(iops=0.0)]))
    assert "0 [0 – 0] IOPS" in table.texts[0][0]
    assert len(summary_tables(sweep([row(), row("raid0", 0.0)], failed=failed))) == 5


@pytest.mark.parametrize(
    ("predicted", "low", "high", "is_far"),
    [
        (None, 99, 101, False),
        (109.0, 99, 101, False),  # measured / predicted is 0.917
        (112.0, 99, 101, True),
        (112.0, 80, 120, False),
        (92.0, 99, 101, False),  # 1.087
        (90.0, 99, 101, True),
    ],
)
def test_a_surprise_is_far_and_its_interval_is_too(
    predicted: float | None, low: float, high: float, is_far: bool
) -> None:
    assert is_off(row(iops=100.0, predicted_iops=predicted, iops_low=low, iops_high=high)) is is_far


def test_surprises_come_by_distance_either_way() -> None:
    predicted = {"raid0": 101.0, "raid1": 180.0, "raid5": 49.0, "raid6": 350.0}
    grid = SweepGrid(sweep(row(level, 100.0, predicted_iops=value) for level, value in predicted.items()))
    assert [grid.rows[each.number].level for each in surprises(grid)] == ["raid6", "raid5", "raid1"]
    table = surprise_table(grid, 2)
    assert [(each[1], each[-3], each[-2], each[-1]) for each in table.rows] == [
        ("raid6", "[99 – 101], n = 6", "350", "0.29"),
        ("raid5", "[99 – 101], n = 6", "49", "2.04"),
    ]
    assert table.notes == (
        "3 of 4 figures with a prediction lie more than 10% from it, and their interval does not hold it; "
        "the 2 farthest are shown",
    )
