"""What varies over a sweep, and which rows can be shown."""

from __future__ import annotations

import math

import msgspec
import pytest

from lab.sweep.grid import NOWHERE, SweepGrid, chosen_axes, fixed_values
from tests.unit.sweep.made_sweeps import row, sweep


def test_axes_are_those_of_the_file_with_numbers_by_size_and_words_in_its_order() -> None:
    rows = [row(level, members=members) for members in (8, 4) for level in ("raid6", "raid0")]
    grid = SweepGrid(sweep(rows, axes={"members": (8, 4), "level": ("raid0", "raid6"), "jobs": (1,)}))
    assert [(axis.name, axis.labels) for axis in grid.axes] == [("members", ("4", "8")), ("level", ("raid0", "raid6"))]
    assert grid.axes[0].codes == (1, 1, 0, 0)
    assert grid.axes[0].words == ("4 members", "8 members")


@pytest.mark.parametrize("name", ["chunk", "chunk_bytes"])
def test_a_chunk_is_told_as_a_size_and_a_level_without_one_is_nowhere(name: str) -> None:
    rows = [row(chunk_bytes=65536), row(chunk_bytes=4096), row("raid1", chunk_bytes=None)]
    (chunk, _) = SweepGrid(sweep(rows, axes={name: ("64K", "4K"), "level": ("raid5", "raid1")})).axes
    assert (chunk.name, chunk.labels, chunk.codes) == ("chunk", ("4 KiB", "64 KiB"), (1, 0, NOWHERE))
    assert chunk.is_doubling
    assert chunk.label(2) == "–"


def test_one_chunk_and_none_is_no_axis() -> None:
    assert [axis.name for axis in SweepGrid(sweep([row(), row("raid1", chunk_bytes=None)])).axes] == ["level"]


def test_what_follows_from_an_axis_is_none_and_what_varies_beside_it_is_one() -> None:
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
    assert grid.measured == 2


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("field", ["mean_seconds", "p99_seconds", "predicted_iops"])
def test_another_figure_that_is_none_is_none(field: str, bad: float) -> None:
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


def test_what_all_rows_share_is_told() -> None:
    told = dict(fixed_values(SweepGrid(sweep([row("raid0"), row("raid5")]))))
    assert told["chunk"] == "64 KiB"
    assert told["drive"] == "plain files"
    assert "level" not in told
