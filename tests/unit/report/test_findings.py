from __future__ import annotations

import random
from itertools import pairwise

import msgspec
import pytest

from lab.experiments.published import Basis, Published, PublishedFinding, Quantity, Relation, find_published
from lab.experiments.schema import built_in_names, find_experiment
from lab.report.tables import Holds, compared_findings, findings_table
from lab.results.record import ResultRecord
from tests.unit.report.records import load, repeated
from tests.unit.results import records

DRIFT = (1.1, 0.9, 1.02, 0.97, 1.05, 0.96)
STUDIES = ("adaptraid", "antioquia", "ilsistemista", "linnaeus", "louwrentius")


@pytest.fixture(name="record")
def seven_repeats() -> ResultRecord:
    text = find_experiment("antioquia-quick")[1]
    return repeated(msgspec.structs.replace(load("antioquia-quick"), experiment_toml=text), DRIFT)


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
    return Published(title="A study", findings=(msgspec.structs.replace(finding, **changes),))


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


def test_one_repeat_cannot_tell_and_says_which_way_it_points() -> None:
    single = load("antioquia-quick")
    (same,), (other,) = (compared_findings(single, study(way)) for way in (Relation.LESS, Relation.MORE))
    assert same.holds is other.holds is Holds.CANNOT_TELL
    assert same.points_there
    assert not other.points_there
    assert "too few" in same.reason


def test_what_was_not_measured_is_said_to_be_so(record: ResultRecord) -> None:
    (found,) = compared_findings(record, study(Relation.SAME, array="raid6"))
    assert (found.holds, found.measured) == (Holds.NOT_MEASURED, None)


def test_theory_gives_the_same_ratio_without_knowing_the_disks(record: ResultRecord) -> None:
    (found,) = compared_findings(record, study(Relation.LESS))
    assert found.theory is not None
    assert found.theory == pytest.approx(0.5, abs=0.1)
    (latency,) = compared_findings(record, study(Relation.MORE, quantity=Quantity.MEAN_LATENCY))
    assert latency.theory == pytest.approx(1 / found.theory)
    (cpu,) = compared_findings(record, study(Relation.MORE, quantity=Quantity.CPU_PER_GIB))
    assert cpu.theory is None


def test_an_explanation_stands_under_what_differs_only(record: ResultRecord) -> None:
    differing = findings_table(record, study(Relation.MORE))
    agreeing = findings_table(record, study(Relation.LESS))
    assert differing
    assert agreeing
    assert "so it is: why it may be different here: Because." in differing.notes
    assert not any("Because" in note for note in agreeing.notes)


@pytest.mark.parametrize("name", STUDIES)
def test_every_finding_is_about_something_that_its_experiments_measure(name: str) -> None:
    published = find_published(name)
    assert published
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


def test_each_study_has_its_three_forms() -> None:
    wanted = {f"{name}{form}" for name in STUDIES for form in ("", "-quick", "-as-published")}
    assert wanted <= set(built_in_names())


def test_the_short_form_of_the_adaptraid_study_measures_every_finding() -> None:
    published = find_published("adaptraid")
    assert published
    experiment, _ = find_experiment("adaptraid-quick")
    for finding in published.findings:
        for array in (finding.array, finding.beside):
            assert experiment.array(array)
            jobs = {job.id for job in experiment.workloads_on(array)}
            assert finding.quantity is Quantity.CAPACITY or finding.workload in jobs, f"{finding.says}: {array}"


# Sizes as they were built by the embedded kernel: an eighth of the study's drives, less superblocks and labels.
BUILT = {"raid5-k4": 2046820352, "adapt5-k4": 2776629248, "onlyfast-k4": 1621622784}


@pytest.mark.parametrize(
    ("factor", "holds"), [(1.0, Holds.YES), (0.9, Holds.ORDER_ONLY), (0.7, Holds.NO), (None, Holds.NOT_MEASURED)]
)
def test_capacity_is_told_by_the_sizes_of_the_arrays_and_needs_no_repeats(factor: float | None, holds: Holds) -> None:
    record, text = load("antioquia-quick"), find_experiment("adaptraid-quick")[1]
    sizes = {**BUILT, "adapt5-k4": round(BUILT["adapt5-k4"] * factor)} if factor else {}
    arrays = tuple(
        msgspec.structs.replace(record.arrays[0], name=name, size_bytes=size) for name, size in sizes.items()
    )
    published = find_published("adaptraid")
    assert published
    found = compared_findings(msgspec.structs.replace(record, arrays=arrays, experiment_toml=text), published)[0]
    assert found.finding.quantity is Quantity.CAPACITY
    assert found.theory == pytest.approx(1.3684, abs=0.0001)
    assert found.holds is holds


def test_a_finding_is_about_a_load_or_about_capacity() -> None:
    with pytest.raises(ValueError, match="or quantity 'capacity'"):
        study(Relation.MORE, quantity=Quantity.CAPACITY)
    with pytest.raises(ValueError, match="a workload and a direction"):
        study(Relation.MORE, workload="")


def test_drives_of_several_kinds_have_no_theory_of_one_pace() -> None:
    published = find_published("adaptraid")
    assert published
    record = msgspec.structs.replace(load("antioquia-quick"), experiment_toml=find_experiment("adaptraid-quick")[1])
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


@pytest.mark.parametrize("truth", [0.5, 0.54, 0.7])
def test_noise_is_no_help_for_a_published_ratio_to_hold(truth: float) -> None:
    """Of a study that says 0.5: true, near the edge, and far off; with more noise each holds more seldom, or never."""
    shares = []
    for noise in (0.01, 0.03, 0.06, 0.12, 0.25):
        draw = random.Random(9)
        found = [compared_findings(drawn(truth, noise, draw), study(Relation.LESS, 0.5))[0].holds for _ in range(20)]
        shares.append(found.count(Holds.YES) / len(found))
    assert all(later <= earlier for earlier, later in pairwise(shares))
    assert shares[-1] == 0
    assert (shares[0] == 1) is (truth == 0.5)
    assert truth == 0.5 or max(shares) <= 0.05


def test_the_order_may_be_known_and_nearness_not() -> None:
    noisy = drawn(0.5, 0.12, random.Random(1))
    (found,) = compared_findings(noisy, study(Relation.LESS, 0.5))
    assert found.holds is Holds.ORDER_AT_LEAST
    assert "neither" in found.reason
    table = findings_table(noisy, study(Relation.LESS, 0.5))
    assert table
    assert "the order holds; closeness unknown" in table.rows[0]
    assert not any("Because" in note for note in table.notes)


def test_a_repeat_that_one_side_lost_pairs_with_none() -> None:
    whole = drawn(0.5, 0.0, random.Random(1))
    rising = [
        msgspec.structs.replace(
            cell,
            figures=msgspec.structs.replace(
                cell.figures, writes=records.direction(cell.figures.writes.iops * 2**cell.repeat)
            ),
        )
        for cell in whole.cells
        if cell.figures.writes and (cell.array, cell.repeat) not in {("raid0", 0), ("raid1", 7)}
    ]
    (found,) = compared_findings(msgspec.structs.replace(whole, cells=tuple(rising)), study(Relation.LESS, 0.5))
    assert found.measured
    assert found.measured.n == 6
    assert [found.measured.low, found.measured.high] == pytest.approx([0.5, 0.5])


def test_in_virtual_time_a_finding_on_cpu_cost_is_not_measured_and_says_why(record: ResultRecord) -> None:
    asked = study(Relation.LESS, quantity=Quantity.CPU_PER_GIB)
    (in_real_time,) = compared_findings(record, asked)
    assert in_real_time.measured
    conditions = msgspec.structs.replace(record.conditions, is_virtual_time=True)
    (found,) = compared_findings(msgspec.structs.replace(record, conditions=conditions), asked)
    assert (found.holds, found.measured) == (Holds.NOT_MEASURED, None)
    assert "virtual time" in found.reason
    table = findings_table(msgspec.structs.replace(record, conditions=conditions), asked)
    assert table
    assert f"not measured: {found.reason}" in table.notes
