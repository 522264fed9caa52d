"""A sweep's results: what varies, which rows can be shown, the axes' shares of the variance, and tables."""

from __future__ import annotations

import math
from itertools import product

import msgspec
import pytest

from lab.sweep.grid import (
    NOWHERE,
    CellRow,
    FailedCell,
    Sensitivity,
    SweepGrid,
    chosen_axes,
    extreme_table,
    fixed_values,
    is_off,
    missing_sentence,
    ranked_axes,
    sensitivities,
    summary_tables,
    summary_text,
    surprise_table,
)
from tests.unit.sweep.made_sweeps import row, sweep


def test_axes_are_those_of_the_file_with_numbers_by_size_and_words_in_its_order() -> None:
    rows = [row(level, members=members) for members in (8, 4) for level in ("raid6", "raid0")]
    grid = SweepGrid(sweep(rows, axes={"members": (8, 4), "level": ("raid0", "raid6"), "jobs": (1,)}))
    assert [(axis.name, axis.labels) for axis in grid.axes] == [("members", ("4", "8")), ("level", ("raid0", "raid6"))]
    assert grid.axes[0].codes == (1, 1, 0, 0)
    assert grid.axes[0].words == ("4 members", "8 members")


@pytest.mark.parametrize("name", ["chunk", "chunk_bytes"])
def test_a_chunk_is_labelled_as_a_size_and_a_level_without_one_has_no_place(name: str) -> None:
    rows = [row(chunk_bytes=65536), row(chunk_bytes=4096), row("raid1", chunk_bytes=None)]
    (chunk, _) = SweepGrid(sweep(rows, axes={name: ("64K", "4K"), "level": ("raid5", "raid1")})).axes
    assert (chunk.name, chunk.labels, chunk.codes) == ("chunk", ("4 KiB", "64 KiB"), (1, 0, NOWHERE))
    assert chunk.is_doubling
    assert chunk.label(2) == "–"


def test_a_single_chunk_size_is_not_an_axis() -> None:
    assert [axis.name for axis in SweepGrid(sweep([row(), row("raid1", chunk_bytes=None)])).axes] == ["level"]


def test_what_follows_from_an_axis_is_no_axis_and_what_varies_beside_it_is_one() -> None:
    rows = [
        row(workload=workload, block_bytes=block, queue_depth=depth)
        for workload, block in (("a", 4096), ("b", 8192))
        for depth in (1, 3)
    ]
    axes = SweepGrid(sweep(rows)).axes
    assert [axis.name for axis in axes] == ["workload", "queue_depth"]
    assert not axes[1].is_doubling


def test_an_axis_that_no_figure_knows_is_named() -> None:
    assert "axis 'weather'" in SweepGrid(sweep([row()], axes={"weather": ("rain", "sun")})).problems[0]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("field", ["iops", "iops_low", "iops_high", "bytes_per_second"])
def test_a_row_without_a_speed_is_left_out_and_named(field: str, bad: float) -> None:
    grid = SweepGrid(sweep([row("raid0"), msgspec.structs.replace(row("raid5", cell="c1"), **{field: bad})]))
    assert [each.level for each in grid.rows] == ["raid0"]
    assert len(grid.problems) == 1
    assert grid.problems[0].startswith("cell c1, rand-read-4k, reads: ")
    assert grid.result.measured == 2


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("field", ["mean_seconds", "p99_seconds", "predicted_iops"])
def test_another_invalid_figure_becomes_none(field: str, bad: float) -> None:
    (kept,) = SweepGrid(sweep([msgspec.structs.replace(row(), **{field: bad})])).rows
    assert getattr(kept, field) is None
    assert kept.iops == 100.0


def test_numbers_go_along_x_levels_are_lines_and_the_rest_small_charts() -> None:
    rows = [
        row(level, members=members, chunk_bytes=chunk, queue_depth=depth, drive=drive, workload=workload)
        for level in ("raid0", "raid5")
        for members in (4, 6, 8)
        for chunk in (4096, 8192)
        for depth in (1, 2, 4)
        for drive in ("", "hdd")
        for workload in ("a", "b")
    ]
    assert chosen_axes(SweepGrid(sweep(rows))) == {
        "x": "queue_depth",
        "lines": "level",
        "columns": "members",
        "rows": "chunk",
    }


def test_few_axes_leave_places_empty() -> None:
    assert chosen_axes(SweepGrid(sweep([row()]))) == {"x": "", "lines": "", "columns": "", "rows": ""}
    levels = [row("raid0"), row("raid5")]
    assert chosen_axes(SweepGrid(sweep(levels))) == {"x": "level", "lines": "", "columns": "", "rows": ""}
    workloads = [row(workload="a"), row(workload="b")]
    assert chosen_axes(SweepGrid(sweep(workloads)))["x"] == "workload"


def test_values_common_to_all_rows_are_listed() -> None:
    found = dict(fixed_values(SweepGrid(sweep([row("raid0"), row("raid5")]))))
    assert found["chunk"] == "64 KiB"
    assert found["drive"] == "plain files"
    assert "level" not in found


LEVEL, MEMBERS, DEPTH = (0.0, 0.3), (0.0, 0.5, 1.3), (0.0, 0.2, 0.9, 2.0)


def population_variance(values: tuple[float, ...]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def additive() -> list[CellRow]:
    """Every combination; the logarithm of a speed is the sum of one effect of each axis."""
    return [
        row(
            ("raid0", "raid5")[level],
            100 * math.exp(LEVEL[level] + MEMBERS[members] + DEPTH[depth]),
            members=4 + members,
            queue_depth=2**depth,
        )
        for level, members, depth in product(range(2), range(3), range(4))
    ]


def shares(found: Sensitivity) -> dict[str, float]:
    return {each.axis: each.share for each in found.effects}


def test_shares_are_the_variances_of_the_effects() -> None:
    (found,) = sensitivities(SweepGrid(sweep(additive())))
    variances = {"level": LEVEL, "members": MEMBERS, "queue_depth": DEPTH}
    total = sum(map(population_variance, variances.values()))
    assert shares(found) == pytest.approx(
        {name: population_variance(effect) / total for name, effect in variances.items()}
    )
    assert found.together == pytest.approx(1.0)
    assert [each.factor for each in found.effects] == pytest.approx([math.exp(each) for each in (0.3, 1.3, 2.0)])


def test_an_interaction_alone_is_not_a_main_effect() -> None:
    """Each level is fast with a different number of members: neither axis alone says anything."""
    fast = {("raid0", 4), ("raid5", 8)}
    rows = [
        row(level, 200.0 if (level, n) in fast else 50.0, members=n) for level in ("raid0", "raid5") for n in (4, 8)
    ]
    (found,) = sensitivities(SweepGrid(sweep(rows)))
    assert shares(found) == pytest.approx({"level": 0.0, "members": 0.0})
    assert found.together == pytest.approx(0.0)


def test_missing_combinations_do_not_hide_that_effects_multiply() -> None:
    rows = [each for place, each in enumerate(additive()) if place % 5]
    (found,) = sensitivities(SweepGrid(sweep(rows)))
    assert found.together == pytest.approx(1.0)
    assert all(0 <= share <= 1 for share in shares(found).values())


def test_two_axes_that_go_together_share_what_they_explain() -> None:
    rows = [row(iops=100.0 * n, members=n, queue_depth=n) for n in (2, 4, 8)]
    axes = {"members": (2, 4, 8), "queue_depth": (2, 4, 8)}
    (found,) = sensitivities(SweepGrid(sweep(rows, axes=axes)))
    assert shares(found) == pytest.approx({"members": 1.0, "queue_depth": 1.0})
    assert found.together == pytest.approx(1.0)


def test_workloads_and_directions_are_not_mixed() -> None:
    """Which workload is faster says nothing about the axes: workloads are kept apart, and reads and writes too."""
    rows = [
        row(level, speed * factor, workload=workload, direction=direction)
        for level, factor in (("raid0", 1.0), ("raid5", 2.0))
        for workload, direction, speed in (("a", "read", 10.0), ("b", "read", 1e5), ("b", "write", 1.0))
    ]
    found = {each.title: shares(each) for each in sensitivities(SweepGrid(sweep(rows)))}
    assert list(found) == ["all workloads, reads", "all workloads, writes", "a, reads", "b, reads", "b, writes"]
    assert found["a, reads"] == pytest.approx({"level": 1.0})
    assert found["all workloads, reads"]["workload"] > 0.9
    assert found["all workloads, writes"] == pytest.approx({"level": 1.0})


def test_equal_speeds_have_no_shares() -> None:
    (found,) = sensitivities(SweepGrid(sweep([row("raid0", 77.7), row("raid5", 77.7), row("raid6", 77.7)])))
    assert (found.effects, found.together) == ((), None)
    assert sensitivities(SweepGrid(sweep([row()])))[0].together is None
    assert sensitivities(SweepGrid(sweep([]))) == ()


def test_a_level_without_chunks_is_a_separate_group() -> None:
    rows = [row(iops=100.0, chunk_bytes=4096), row(iops=100.0, chunk_bytes=8192), row("raid1", 400.0, chunk_bytes=None)]
    (found,) = sensitivities(SweepGrid(sweep(rows)))
    # RAID 1 is four times as fast as either chunk, and the two chunks are equally fast.
    assert {each.axis: each.factor for each in found.effects} == pytest.approx({"level": 4.0, "chunk": 4.0})


def test_axes_come_by_what_they_explain_within_workloads() -> None:
    assert [axis.name for axis in ranked_axes(SweepGrid(sweep(additive())))] == ["queue_depth", "members", "level"]


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
    assert (surprising.rows, surprising.notes) == ((), ("there is no prediction for these cells",))
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
    (best,) = summary_tables(sweep([row(bytes_per_second=999.7e6)]))[0].rows
    assert (best[1], best[4]) == ("best", "1,000")


def test_a_sweep_without_measurements_has_a_sentence_and_no_tables() -> None:
    assert summary_tables(sweep([])) == ()
    assert (
        summary_text(sweep([], planned=3))
        == "0 of 3 cells are measured; 'raidlab sweep s1 --resume' measures the others"
    )


def test_an_incomplete_sweep_starts_with_the_missing_cells() -> None:
    three = [row(level) for level in ("raid0", "raid1", "raid5")]
    failed = [FailedCell(cell="f", label="raid6", message="it broke")]
    assert missing_sentence(sweep(three[:1], failed=failed)) == (
        "1 of 2 cells is measured, 1 could not be; 'raidlab sweep s1 --resume' measures the other"
    )
    assert missing_sentence(sweep(three)) == ""
    assert summary_text(sweep(three)).startswith("Best and worst cells")
    marked = summary_text(sweep(three, planned=20, id="a_b_c"), is_markdown=True)
    assert "sweep a\\_b\\_c --resume" in marked


def test_failed_cells_are_listed_even_if_nothing_was_measured() -> None:
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
    assert [each[1] for each in surprise_table(grid, 9).rows] == ["raid6", "raid5", "raid1"]
    table = surprise_table(grid, 2)
    assert [(each[1], each[-3], each[-2], each[-1]) for each in table.rows] == [
        ("raid6", "[99 – 101], n = 6", "350", "0.29"),
        ("raid5", "[99 – 101], n = 6", "49", "2.04"),
    ]
    assert table.notes == (
        "3 of 4 figures with a prediction lie more than 10% from it, and their interval does not contain it; "
        "the 2 farthest are shown",
    )
