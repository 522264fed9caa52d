"""Tables of results, of the studies, and of the findings of publications beside what was measured."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from msgspec.structs import replace

from lab.experiments.published import Basis, Published, PublishedFinding, Quantity, Relation, find_published
from lab.experiments.schema import find_experiment
from lab.report.tables import (
    Holds,
    compared_findings,
    csv_of,
    details_table,
    figure_lines,
    figures_table,
    findings_table,
    heading,
    integrity_text,
    interval_text,
    performance_table,
    ratio_table,
    rebuild_table,
    row_for,
    study_of,
    tables_of,
    timings_table,
)
from lab.results.record import ResultRecord, RunStatus
from lab.results.rows import READ, WRITE, rows
from lab.results.statistics import estimate
from lab.tables import Table
from tests.unit.report.records import load, repeated
from tests.unit.results import records
from tests.unit.results.records import cell, with_figures
from tests.unit.results.records import record as plain_record

ANTIOQUIA = load("antioquia-quick")
LOUWRENTIUS = load("louwrentius-quick")
LOUWRENTIUS_FIGURES = """\
Figures of louwrentius-quick

array   workload            phase    direction  IOPS  theory  ÷ theory  MB/s      p50      p99  CPU µs/IO  n
──────  ──────────────────  ───────  ─────────  ────  ──────  ────────  ────  ───────  ───────  ─────────  ─
raid5   rand-write-4k-qd32  healthy  write        88     113  0.78       0.4   342 ms   583 ms      871.2  1
single  rand-read-4k-qd4    healthy  read         75      75  0.99       0.3  53.2 ms  57.4 ms      279.7  1
  one repeat: no interval can be given
  one run is too few to say whether a figure differs from theory
"""


def test_figures_as_text() -> None:
    assert figures_table(LOUWRENTIUS).as_text().splitlines() == LOUWRENTIUS_FIGURES.splitlines()
    # Nothing is predicted here.
    assert "theory" not in [column.title for column in figures_table(ANTIOQUIA).columns]


def test_a_figure_off_theory_is_marked_with_the_likely_reason() -> None:
    table = figures_table(repeated(LOUWRENTIUS, (1.02, 0.98)))
    assert [row[6] for row in table.texts] == ["0.78 off-theory", "0.99"]
    (note,) = [note for note in table.notes if note.startswith("off-theory: ")]
    assert "raid5/rand-write-4k-qd32/healthy: 0.78 [0.77–0.80] of theory; likely: " in note


def test_in_virtual_time_no_cost_is_shown() -> None:
    conditions = replace(LOUWRENTIUS.conditions, is_virtual_time=True)
    record = replace(LOUWRENTIUS, conditions=conditions)
    assert all(cell.cpu for cell in LOUWRENTIUS.cells)
    assert "CPU" not in figures_table(record).as_text()
    assert [line[-1] for line in figure_lines(record)[1]] == ["", ""]


def test_a_prediction_of_a_mix_is_shared_out_among_its_directions() -> None:
    mixed = cell("raid5", "mix", 0, read_iops=70.0, write_iops=30.0, predicted_iops=120.0)
    assert [row.predicted_iops for row in rows(plain_record(cells=(mixed,)))] == pytest.approx([84.0, 36.0])


def test_intervals_only_where_there_are_several_repeats() -> None:
    table = figures_table(repeated(LOUWRENTIUS, (1.5, 0.5)))
    assert [row[4] for row in table.texts] == ["88 [44–132]", "75 [37–112]"]
    assert "at least 75.0%" in table.notes[0]
    assert interval_text(estimate([5.0])) == "5"
    assert interval_text(estimate([5.0, 7.0]), digits=1) == "6.0 [5.0–7.0]"
    assert interval_text(None) == "–"


def test_rows_follow_the_arrays_and_phases() -> None:
    degraded = [
        replace(cell, phase=phase, workload="x")
        for cell in ANTIOQUIA.cells
        if cell.array == "raid1" and cell.figures.reads
        for phase in ("restored", "rebuilding", "degraded")
    ]
    record = replace(ANTIOQUIA, cells=(*degraded, *ANTIOQUIA.cells))
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


def test_repeats_of_a_row_are_in_order() -> None:
    record = repeated(LOUWRENTIUS, (1.5, 0.5))
    backwards = replace(record, cells=record.cells[::-1])
    row = row_for(rows(backwards), "raid5", WRITE)
    assert row
    assert [cell.repeat for cell in row.cells] == [0, 1, 2]
    assert row_for(rows(record), "raid5", READ) is None


def test_rebuilds() -> None:
    table = rebuild_table(ANTIOQUIA)
    assert table
    assert table.texts == (
        ("raid1", "none", "2.2", "2.6", "238", "intact (1 of 1)", "1"),
        ("raid5", "none", "7.9", "2.5", "66", "intact (1 of 1)", "1"),
    )
    assert table.notes[0] == "predicted: 499 MiB at 195 MiB/s, set by md's sync_speed_max"
    assert rebuild_table(LOUWRENTIUS) is None


def test_a_rebuild_that_took_no_time_has_no_rate() -> None:
    table = rebuild_table(replace(ANTIOQUIA, rebuilds=(replace(ANTIOQUIA.rebuilds[0], rebuild_seconds=0.0),)))
    assert table
    assert table.texts[0][:5] == ("raid1", "none", "0.0", "2.6", "–")


@pytest.mark.parametrize(
    ("checks", "text"),
    [([True, False], "DAMAGED (1 of 2)"), ([None], "not checked"), ([None, True], "intact (1 of 1)")],
)
def test_one_changed_rebuild_is_damage_and_unchecked_data_are_not_intact(checks: list[bool | None], text: str) -> None:
    assert integrity_text([replace(ANTIOQUIA.rebuilds[0], data_unchanged=each) for each in checks]) == text


def test_rebuilds_under_different_loads_have_separate_rows() -> None:
    under = replace(ANTIOQUIA.rebuilds[0], under_workload="rand-mix-4k", predicted_seconds=None)
    table = rebuild_table(replace(ANTIOQUIA, rebuilds=(ANTIOQUIA.rebuilds[0], under)))
    assert table
    assert [row[:4] for row in table.texts] == [
        ("raid1", "none", "2.2", "2.6"),
        ("raid1", "rand-mix-4k", "2.2", "–"),
    ]


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
    newer = replace(ANTIOQUIA, experiment_toml='study = "antioquia"\nfrom_the_future = 1\n')
    assert study_of(newer) == "antioquia"
    for broken in ("", "= no TOML", "study = 5"):
        assert study_of(replace(ANTIOQUIA, experiment_toml=broken)) == ""


def test_csv_of_a_study_and_of_anything_else() -> None:
    assert csv_of(ANTIOQUIA) == (
        "RAID Level,Read IOPS,Write IOPS,Rebuild Time\n"
        "RAID 0,6364,8177,\n"
        "RAID 1,7135,6152,2.20\n"
        "RAID 5,8840,7278,7.90\n"
    )
    assert csv_of(replace(ANTIOQUIA, cells=(), rebuilds=())).splitlines()[1] == "RAID 0,,,"
    assert csv_of(LOUWRENTIUS) == (
        "array,workload,phase,direction,repeat,iops,bytes_per_second,"
        "p50_seconds,p95_seconds,p99_seconds,p999_seconds,predicted_iops,cpu_microseconds_per_io\n"
        "raid5,rand-write-4k-qd32,healthy,write,0,88.08,381363,0.341836,0.530579,0.583008,0.641729,112.781,871.212\n"
        "single,rand-read-4k-qd4,healthy,read,0,74.62,307674,0.0532152,0.0537395,0.0574095,0.0791675,75.188,279.72\n"
    )


def test_the_heading_counts_missing_cells() -> None:
    facts = "embedded kernel, Linux 6.1.176, mdadm 4.2, fio 3.33"
    assert heading(LOUWRENTIUS) == f"20261121T110101Z-louwrentius-quick: {facts}"
    cut = replace(LOUWRENTIUS, status=RunStatus.INCOMPLETE, cells=LOUWRENTIUS.cells[:1])
    assert heading(cut) == f"20261121T110101Z-louwrentius-quick, INCOMPLETE (1 cells missing): {facts}"
    assert [table.title for table in tables_of(replace(cut, cells=()))] == ["Time spent"]


def study_named(name: str) -> Published:
    found = find_published(name)
    assert found
    return found


@pytest.fixture(name="study")
def published_study() -> Published:
    return study_named("antioquia")


def column(table: Table, title: str) -> dict[str, str]:
    index = [each.heading for each in table.columns].index(title)
    return {row[0]: row[index] for row in table.texts}


def test_ratios_are_shown_beside_the_published_ones(study: Published) -> None:
    table = ratio_table(ANTIOQUIA, study)
    assert table.texts == (
        ("RAID 1 ÷ RAID 0", "2 against 2: equal", "1.12", "0.75", "0.75", "0.54"),
        ("RAID 5 ÷ RAID 0", "3 against 2: unequal", "1.39", "0.89", "1.15", "0.33"),
    )


def test_a_ratio_of_several_repeats_has_an_interval(study: Published) -> None:
    table = ratio_table(repeated(ANTIOQUIA, (1.1, 0.9)), study)
    # Every array drifts alike, so the ratio of each pair of repeats is the same.
    assert column(table, "reads")["RAID 1 ÷ RAID 0"] == "1.12 [1.12–1.12]"


def test_a_repeat_without_io_is_left_out_of_the_ratios_and_counted(study: Published) -> None:
    record = repeated(ANTIOQUIA, (1.0, 1.0))
    still = next(each for each in record.cells if each.array == "raid0" and each.figures.reads and each.repeat == 1)
    changed = tuple(with_figures(each, iops=0.0) if each is still else each for each in record.cells)
    table = ratio_table(replace(record, cells=changed), study)
    assert column(table, "reads") == column(ratio_table(record, study), "reads")
    assert table.notes[2:] == ("left out: 1 repeat (a ratio needs speeds above 0)",)
    assert not ratio_table(record, study).notes[2:]


def test_three_disks_are_the_fair_partner_of_raid_5(study: Published) -> None:
    fair = replace(ANTIOQUIA.arrays[0], name="raid0-3", members=("/dev/a", "/dev/b", "/dev/c"))
    table = ratio_table(replace(ANTIOQUIA, arrays=(*ANTIOQUIA.arrays, fair)), study)
    assert table.texts[-1][:3] == ("RAID 5 ÷ RAID 0 (3 disks)", "3 against 3: equal", "–")
    without_baseline = replace(ANTIOQUIA, arrays=ANTIOQUIA.arrays[1:])
    assert ratio_table(without_baseline, study).rows == ()


def test_details_beside_those_of_the_study(study: Published) -> None:
    table = details_table(ANTIOQUIA, study)
    assert table.notes == ("equal to the published table",)
    assert [each.heading for each in table.columns] == [
        *("", "RAID 0", "published", "RAID 1", "published", "RAID 5", "published")
    ]
    assert table.texts[1] == ("array size KiB", "1019904", "1019904", "510976", "510976", "1019904", "1019904")
    assert table.texts[2][:3] == ("used device KiB", "N/A", "N/A")
    raid5 = ANTIOQUIA.arrays[2]
    changed = replace(raid5, details=raid5.details | {"chunk_kib": "64"})
    table = details_table(replace(ANTIOQUIA, arrays=(*ANTIOQUIA.arrays[:2], changed)), study)
    assert table.notes == ("differs from the published table: RAID 5 chunk KiB",)


def test_performance_of_one_repeat_has_no_intervals(study: Published) -> None:
    table = performance_table(ANTIOQUIA, study)
    assert table.texts[0] == (
        *("RAID 0", "6.4k", "8.2k", "26.1", "33.5", "20.3 ms", "20.6 ms", "155", "122"),
        *("–", "no redundancy", "1", "82.9k", "81.0k"),
    )
    assert column(table, "rebuild s") == {"RAID 0": "–", "RAID 1": "2.2", "RAID 5": "7.9"}
    assert column(table, "data")["RAID 5"] == "intact (1 of 1)"
    assert table.notes[0] == "one repeat: no interval can be given"
    assert table.notes[1:] == study.remarks


def test_performance_of_several_repeats_has_intervals_with_their_coverage(study: Published) -> None:
    table = performance_table(repeated(ANTIOQUIA, (2.0, 0.5)), study)
    assert column(table, "read IOPS")["RAID 1"] == "7.1k [3.6k–14.3k]"
    assert column(table, "n")["RAID 1"] == "3"
    assert table.notes[0] == "median [interval of order statistics; it covers the true median with at least 75.0%]"


DRIFT = (1.1, 0.9, 1.02, 0.97, 1.05, 0.96)
STUDIES = ("adaptraid", "antioquia", "ilsistemista", "linnaeus", "louwrentius")


@pytest.fixture(name="record")
def seven_repeats() -> ResultRecord:
    text = find_experiment("antioquia-quick")[1]
    return repeated(replace(load("antioquia-quick"), experiment_toml=text), DRIFT)


def study(relation: Relation, ratio: float | None = None, **changes: object) -> Published:
    finding = PublishedFinding(
        says="so it is",
        array="raid1",
        beside="raid0",
        workload="rand-write-4k",
        direction="write",
        relation=relation,
        ratio=ratio,
        basis=Basis.MEASURED if ratio else Basis.IN_WORDS,
        difference="Because.",
    )
    return Published(title="A study", findings=(replace(finding, **changes),))


# In the record RAID 1 writes 0.75 times what RAID 0 writes, in every repeat.
@pytest.mark.parametrize(
    ("relation", "ratio", "holds"),
    [
        (Relation.LESS, None, Holds.YES),
        (Relation.LESS, 0.75, Holds.YES),
        (Relation.LESS, 0.5, Holds.ORDER_ONLY),
        (Relation.MORE, 1.5, Holds.NO),
        (Relation.SAME, None, Holds.NO),
    ],
)
def test_a_finding_beside_the_measured_ratio(
    record: ResultRecord, relation: Relation, ratio: float | None, holds: Holds
) -> None:
    (found,) = compared_findings(record, study(relation, ratio))
    assert found.measured
    assert found.measured.median == pytest.approx(0.752, abs=0.001)
    assert found.holds is holds


def test_one_repeat_is_inconclusive_and_shows_its_direction() -> None:
    single = load("antioquia-quick")
    (same,), (other,) = (compared_findings(single, study(way)) for way in (Relation.LESS, Relation.MORE))
    assert same.holds is other.holds is Holds.CANNOT_TELL
    assert same.points_there
    assert not other.points_there
    assert "too few" in same.reason
    (found,) = compared_findings(single, study(Relation.SAME, array="raid6"))
    assert (found.holds, found.measured) == (Holds.NOT_MEASURED, None)


def test_theory_gives_the_same_ratio_without_knowing_the_disks(record: ResultRecord) -> None:
    (found,) = compared_findings(record, study(Relation.LESS))
    assert found.theory is not None
    assert found.theory == pytest.approx(0.5, abs=0.1)
    (latency,) = compared_findings(record, study(Relation.MORE, quantity=Quantity.MEAN_LATENCY))
    assert latency.theory == pytest.approx(1 / found.theory)
    (cpu,) = compared_findings(record, study(Relation.MORE, quantity=Quantity.CPU_PER_GIB))
    assert cpu.theory is None


def test_an_explanation_is_shown_only_for_a_difference(record: ResultRecord) -> None:
    differing = findings_table(record, study(Relation.MORE))
    agreeing = findings_table(record, study(Relation.LESS))
    assert differing
    assert agreeing
    assert "possible reason for the difference in 'so it is': Because." in differing.notes
    assert not any("Because" in note for note in agreeing.notes)


@pytest.mark.parametrize("name", [*STUDIES, "adaptraid-quick"])
def test_every_finding_is_about_something_that_its_experiments_measure(name: str) -> None:
    published = study_named(name.removesuffix("-quick"))
    assert published.findings
    experiment, _ = find_experiment(name)
    for finding in published.findings:
        assert finding.difference.endswith(".")
        for array in (finding.array, finding.beside):
            assert experiment.array(array)
            if finding.quantity is Quantity.CAPACITY:
                continue
            jobs = {job.id: job for job in experiment.workloads_on(array)}
            assert finding.workload in jobs, f"{finding.says}: {array}"
            assert getattr(jobs[finding.workload], f"{finding.direction}s")


# Sizes as they were built by the embedded kernel: an eighth of the study's drives, less superblocks and labels.
BUILT = {"raid5-k4": 2046820352, "adapt5-k4": 2776629248, "onlyfast-k4": 1621622784}


@pytest.mark.parametrize(
    ("factor", "holds"), [(1.0, Holds.YES), (0.9, Holds.ORDER_ONLY), (0.7, Holds.NO), (None, Holds.NOT_MEASURED)]
)
def test_capacity_is_compared_by_sizes_of_arrays_without_repeats(factor: float | None, holds: Holds) -> None:
    record, text = load("antioquia-quick"), find_experiment("adaptraid-quick")[1]
    sizes = {**BUILT, "adapt5-k4": round(BUILT["adapt5-k4"] * factor)} if factor else {}
    arrays = tuple(replace(record.arrays[0], name=name, size_bytes=size) for name, size in sizes.items())
    published = study_named("adaptraid")
    found = compared_findings(replace(record, arrays=arrays, experiment_toml=text), published)[0]
    assert found.finding.quantity is Quantity.CAPACITY
    assert found.theory == pytest.approx(1.3684, abs=0.0001)
    assert found.holds is holds


def test_a_finding_is_about_a_load_or_about_capacity() -> None:
    with pytest.raises(ValueError, match="or the quantity 'capacity'"):
        study(Relation.MORE, quantity=Quantity.CAPACITY)
    with pytest.raises(ValueError, match="a workload and a direction"):
        study(Relation.MORE, workload="")


def test_drives_of_several_kinds_have_no_theory_of_one_pace() -> None:
    published = study_named("adaptraid")
    record = replace(load("antioquia-quick"), experiment_toml=find_experiment("adaptraid-quick")[1])
    loads = [each for each in compared_findings(record, published) if each.finding.workload]
    assert loads
    assert all(each.theory is None for each in loads)


def drawn(ratio: float, noise: float, draw: random.Random, repeats: int = 8) -> ResultRecord:
    """Two arrays, one of them ``ratio`` times as fast as the other, each repeat with noise of its own."""
    levels = {"raid0": 1000.0, "raid1": 1000.0 * ratio}
    cells = [
        records.cell(name, "rand-write-4k", repeat, write_iops=level * draw.lognormvariate(0, noise))
        for name, level in levels.items()
        for repeat in range(repeats)
    ]
    return records.record(cells=tuple(cells))


def test_the_order_may_be_known_and_closeness_unknown() -> None:
    noisy = drawn(0.5, 0.12, random.Random(1))
    (found,) = compared_findings(noisy, study(Relation.LESS, 0.5))
    assert found.holds is Holds.ORDER_AT_LEAST
    assert "do not show whether" in found.reason
    table = findings_table(noisy, study(Relation.LESS, 0.5))
    assert table
    assert "the order holds; closeness unknown" in table.rows[0]
    assert not any("Because" in note for note in table.notes)


def test_a_repeat_that_one_side_lost_pairs_with_none() -> None:
    whole = drawn(0.5, 0.0, random.Random(1))
    rising = [
        records.with_figures(cell, iops=cell.figures.sections[WRITE].iops * 2**cell.repeat)
        for cell in whole.cells
        if (cell.array, cell.repeat) not in {("raid0", 0), ("raid1", 7)}
    ]
    (found,) = compared_findings(replace(whole, cells=tuple(rising)), study(Relation.LESS, 0.5))
    assert found.measured
    assert found.measured.n == 6
    assert [found.measured.low, found.measured.high] == pytest.approx([0.5, 0.5])


def test_in_virtual_time_a_finding_on_cpu_cost_is_not_measured_with_a_reason(record: ResultRecord) -> None:
    asked = study(Relation.LESS, quantity=Quantity.CPU_PER_GIB)
    (in_real_time,) = compared_findings(record, asked)
    assert in_real_time.measured
    conditions = replace(record.conditions, is_virtual_time=True)
    (found,) = compared_findings(replace(record, conditions=conditions), asked)
    assert (found.holds, found.measured) == (Holds.NOT_MEASURED, None)
    assert "virtual time" in found.reason
    table = findings_table(replace(record, conditions=conditions), asked)
    assert table
    assert f"not measured: {found.reason}" in table.notes


@pytest.mark.parametrize("truth", [0.5, 0.54, 0.7])
def test_noise_never_makes_a_published_ratio_hold_more_often(truth: float) -> None:
    """A study says 0.5; the truth is 0.5, near the edge, or far off. With more noise it holds less often, or never."""
    shares = []
    for noise in (0.01, 0.06, 0.25):
        draw = random.Random(9)
        found = [compared_findings(drawn(truth, noise, draw), study(Relation.LESS, 0.5))[0].holds for _ in range(20)]
        shares.append(found.count(Holds.YES) / len(found))
    assert all(later <= earlier for earlier, later in pairwise(shares))
    assert shares[-1] == 0
    assert (shares[0] == 1) is (truth == 0.5)
    assert truth == 0.5 or max(shares) <= 0.05
