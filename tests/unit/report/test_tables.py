from __future__ import annotations

import msgspec
import pytest

from lab.report.tables import (
    READ,
    WRITE,
    csv_of,
    figure_lines,
    figures_table,
    heading,
    integrity_text,
    interval_text,
    rebuild_table,
    row_for,
    rows,
    study_of,
    tables_of,
    timings_table,
)
from lab.results.record import RebuildRecord, RunStatus
from lab.results.statistics import estimate
from tests.unit.report.records import load, repeated
from tests.unit.results.records import cell
from tests.unit.results.records import record as plain_record

ANTIOQUIA = load("antioquia-quick")
LOUWRENTIUS = load("louwrentius-quick")


def test_figures_as_text() -> None:
    assert figures_table(LOUWRENTIUS).as_text().splitlines() == [
        "Figures of louwrentius-quick",
        "",
        "array   workload            phase    direction  IOPS  theory  ÷ theory  MB/s      p50      p99  CPU µs/IO  n",
        "──────  ──────────────────  ───────  ─────────  ────  ──────  ────────  ────  ───────  ───────  ─────────  ─",
        "raid5   rand-write-4k-qd32  healthy  write        88     113  0.78       0.4   342 ms   583 ms      871.2  1",
        "single  rand-read-4k-qd4    healthy  read         75      75  0.99       0.3  53.2 ms  57.4 ms      279.7  1",
        "  one repeat: no interval can be given",
        "  one run is too few to say whether a figure differs from theory",
    ]


def test_a_figure_off_theory_says_so_and_why() -> None:
    table = figures_table(repeated(LOUWRENTIUS, (1.02, 0.98)))
    assert [row[6] for row in table.texts] == ["0.78 off-theory", "0.99"]
    (note,) = [note for note in table.notes if note.startswith("off-theory: ")]
    assert "raid5/rand-write-4k-qd32/healthy: 0.78 [0.77–0.80] of theory; likely: " in note


def test_in_virtual_time_no_cost_is_shown() -> None:
    conditions = msgspec.structs.replace(LOUWRENTIUS.conditions, is_virtual_time=True)
    record = msgspec.structs.replace(LOUWRENTIUS, conditions=conditions)
    assert all(cell.cpu for cell in LOUWRENTIUS.cells)
    assert "CPU" not in figures_table(record).as_text()
    assert [line[-1] for line in figure_lines(record)[1]] == ["", ""]


def test_a_prediction_of_a_mix_is_shared_out_among_its_directions() -> None:
    mixed = cell("raid5", "mix", 0, read_iops=70.0, write_iops=30.0, predicted_iops=120.0)
    assert [row.predicted_iops for row in rows(plain_record(cells=(mixed,)))] == pytest.approx([84.0, 36.0])


def test_without_predictions_there_is_no_theory() -> None:
    assert "theory" not in [column.title for column in figures_table(ANTIOQUIA).columns]


def test_intervals_only_where_there_are_several_repeats() -> None:
    table = figures_table(repeated(LOUWRENTIUS, (1.5, 0.5)))
    assert [row[4] for row in table.texts] == ["88 [44–132]", "75 [37–112]"]
    assert "at least 75.0%" in table.notes[0]
    assert interval_text(estimate([5.0])) == "5"
    assert interval_text(estimate([5.0, 7.0]), digits=1) == "6.0 [5.0–7.0]"
    assert interval_text(None) == "–"


def test_rows_follow_the_arrays_and_phases() -> None:
    degraded = [
        msgspec.structs.replace(cell, phase=phase, workload="x")
        for cell in ANTIOQUIA.cells
        if cell.array == "raid1" and cell.figures.reads
        for phase in ("restored", "rebuilding", "degraded")
    ]
    record = msgspec.structs.replace(ANTIOQUIA, cells=(*degraded, *ANTIOQUIA.cells))
    found = [(row.array, row.direction, row.phase) for row in rows(record) if row.array != "raid5"]
    assert found == [
        ("raid0", "read", "healthy"),
        ("raid0", "write", "healthy"),
        ("raid1", "read", "healthy"),
        ("raid1", "read", "degraded"),
        ("raid1", "read", "rebuilding"),
        ("raid1", "read", "restored"),
        ("raid1", "write", "healthy"),
    ]


def test_repeats_of_a_row_stand_in_their_order() -> None:
    record = repeated(LOUWRENTIUS, (1.5, 0.5))
    backwards = msgspec.structs.replace(record, cells=record.cells[::-1])
    row = row_for(rows(backwards), "raid5", WRITE)
    assert row
    assert [cell.repeat for cell in row.cells] == [0, 1, 2]
    assert row_for(rows(record), "raid5", READ) is None


def damaged(repeat: int) -> RebuildRecord:
    return msgspec.structs.replace(ANTIOQUIA.rebuilds[1], repeat=repeat, data_unchanged=False)


def test_rebuilds() -> None:
    table = rebuild_table(ANTIOQUIA)
    assert table
    assert table.texts == (
        ("raid1", "nothing", "2.2", "2.6", "238", "intact (1 of 1)", "1"),
        ("raid5", "nothing", "7.9", "2.5", "66", "intact (1 of 1)", "1"),
    )
    assert table.notes[0] == "predicted: 499 MiB at 195 MiB/s, set by md's sync_speed_max"


def test_one_changed_rebuild_is_damage() -> None:
    table = rebuild_table(msgspec.structs.replace(ANTIOQUIA, rebuilds=(*ANTIOQUIA.rebuilds, damaged(1))))
    assert table
    assert [row[5] for row in table.texts] == ["intact (1 of 1)", "DAMAGED (1 of 2)"]


def test_what_was_not_checked_is_not_called_intact() -> None:
    unchecked = msgspec.structs.replace(ANTIOQUIA.rebuilds[0], data_unchanged=None)
    assert integrity_text([unchecked]) == "not checked"
    assert integrity_text([unchecked, ANTIOQUIA.rebuilds[0]]) == "intact (1 of 1)"


def test_rebuilds_under_different_loads_stand_apart() -> None:
    under = msgspec.structs.replace(ANTIOQUIA.rebuilds[0], under_workload="rand-mix-4k", predicted_seconds=None)
    table = rebuild_table(msgspec.structs.replace(ANTIOQUIA, rebuilds=(ANTIOQUIA.rebuilds[0], under)))
    assert table
    assert [row[:4] for row in table.texts] == [
        ("raid1", "nothing", "2.2", "2.6"),
        ("raid1", "rand-mix-4k", "2.2", "–"),
    ]


def test_no_rebuilds_no_table() -> None:
    assert rebuild_table(LOUWRENTIUS) is None


def test_time_spent_adds_up() -> None:
    seconds = [float(row[1]) for row in timings_table(ANTIOQUIA).texts]
    assert sum(seconds[:-1]) == pytest.approx(seconds[-1], abs=0.3)
    assert seconds[-1] == 99.5


def test_a_study_has_its_own_tables_and_others_the_general_ones() -> None:
    assert (study_of(ANTIOQUIA), study_of(LOUWRENTIUS)) == ("antioquia", "louwrentius")
    assert [table.title for table in tables_of(ANTIOQUIA)] == [
        "Array details (the study's Fig. 4)",
        "Performance (the study's Fig. 5, extended)",
        "Ratios between levels",
        "The study's findings, as ratios",
        "Rebuilds",
        "Time spent",
    ]
    assert [table.title for table in tables_of(LOUWRENTIUS)] == [
        "Figures of louwrentius-quick",
        "The study's findings, as ratios",
        "Time spent",
    ]


def test_an_experiment_with_keys_of_another_raidlab_keeps_its_study() -> None:
    newer = msgspec.structs.replace(ANTIOQUIA, experiment_toml='study = "antioquia"\nfrom_the_future = 1\n')
    assert study_of(newer) == "antioquia"
    for broken in ("", "= no TOML", "study = 5"):
        assert study_of(msgspec.structs.replace(ANTIOQUIA, experiment_toml=broken)) == ""


def test_csv_of_a_study_and_of_anything_else() -> None:
    assert csv_of(ANTIOQUIA).splitlines()[0] == "RAID Level,Read IOPS,Write IOPS,Rebuild Time"
    assert csv_of(LOUWRENTIUS) == (
        "array,workload,phase,direction,repeat,iops,bytes_per_second,"
        "p50_seconds,p95_seconds,p99_seconds,p999_seconds,predicted_iops,cpu_microseconds_per_io\n"
        "raid5,rand-write-4k-qd32,healthy,write,0,88.08,381363,0.341836,0.530579,0.583008,0.641729,112.781,871.212\n"
        "single,rand-read-4k-qd4,healthy,read,0,74.62,307674,0.0532152,0.0537395,0.0574095,0.0791675,75.188,279.72\n"
    )


def test_the_heading_says_what_is_missing() -> None:
    facts = "embedded kernel, Linux 6.1.176, mdadm 4.2, fio 3.33"
    assert heading(LOUWRENTIUS) == f"20261121T110101Z-louwrentius-quick: {facts}"
    cut = msgspec.structs.replace(LOUWRENTIUS, status=RunStatus.INCOMPLETE, cells=LOUWRENTIUS.cells[:1])
    assert heading(cut) == f"20261121T110101Z-louwrentius-quick, INCOMPLETE (1 cells missing): {facts}"
    assert [table.title for table in tables_of(msgspec.structs.replace(cut, cells=()))] == ["Time spent"]
