"""Results: measured values beside predictions, processors as limits, and repeats on one sequence of addresses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from lab.lint.experiment_checks import (
    BesideTheory,
    as_shown,
    beside_theory,
    busy_fraction,
    lint_result,
    processor_bound,
    rebuilds_beside_theory,
    same_addresses,
    shown_stamps,
)
from lab.results.record import CellRecord, Conditions, CpuFigures, DiskRecord, ResultRecord
from tests.unit.results.records import CONDITIONS, cell, rebuild, record, with_figures

DRIVES = replace(
    CONDITIONS,
    is_embedded=True,
    cpu_count=1,
    disks=(DiskRecord(name="disk01", path="/dev/nbd0", kind="spindle", model="hdd-7200", size_bytes=2**26),),
)
FILES = replace(DRIVES, disks=(DiskRecord(name="disk01", path="/dev/ubdb", kind="file", size_bytes=2**26),))
JOB = "[global]\ntime_based=1\nruntime=30000ms\n[x]\nrw=randwrite\n"


def cpu(microseconds_per_io: float, *, md_share: float = 0.1) -> CpuFigures:
    return CpuFigures(
        cpu_seconds_total=10.0,
        md_thread_cpu_seconds=10.0 * md_share,
        cpu_microseconds_per_io=microseconds_per_io,
        idle_baseline_fraction=0.0,
    )


def made(iops: tuple[float, ...], conditions: Conditions = DRIVES, **changes: Any) -> ResultRecord:
    """One array for which theory predicts 100 writes per second."""
    changes = {"predicted_iops": 100.0, "job_text": JOB, **changes}
    cells = (cell("raid5", "w", repeat, write_iops=value, **changes) for repeat, value in enumerate(iops))
    return record(cells=tuple(cells), conditions=conditions)


def only(found: ResultRecord) -> BesideTheory:
    (each,) = beside_theory(found)
    return each


@pytest.mark.parametrize(
    ("iops", "is_off"),
    [
        ((94.0, 94.9), True),
        ((94.0, 95.0), False),
        ((80.0, 130.0), False),
        ((105.0, 107.0), False),
        ((105.1, 107.0), True),
        ((50.0,), False),
    ],
)
def test_off_is_an_interval_wholly_more_than_five_per_cent_away(iops: tuple[float, ...], is_off: bool) -> None:
    assert only(made(iops)).is_off is is_off


def test_both_directions_of_a_mix_are_one_figure() -> None:
    mixed = [cell("raid5", "mix", n, read_iops=70.0, write_iops=30.0 + n, predicted_iops=100.0) for n in range(3)]
    assert only(record(cells=tuple(mixed), conditions=DRIVES)).share.median == pytest.approx(1.01)


def test_each_repeat_is_compared_with_its_own_prediction() -> None:
    cells = [cell("raid5", "w", n, write_iops=value, predicted_iops=value) for n, value in enumerate((50.0, 100.0))]
    assert only(record(cells=tuple(cells))).share.high == 1.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0])
def test_invalid_speeds_are_not_compared(bad: float) -> None:
    (good,) = made((90.0,)).cells
    assert beside_theory(record(cells=(with_figures(good, iops=bad),))) == ()
    assert beside_theory(made((90.0,), predicted_iops=bad)) == ()


# 80 I/Os per second of 12 ms each keep one processor busy for 96 % of the time.
@pytest.mark.parametrize(
    ("changes", "used", "named"),
    [
        ({}, cpu(12_000.0), "the machine's processor, busy 96% of the time"),
        ({}, cpu(1_000.0), ""),
        ({"cpu_count": 8}, cpu(24_000.0, md_share=0.5), "md's kernel thread, which kept a processor busy 96%"),
        ({"is_virtual_time": True}, cpu(12_000.0), ""),
    ],
)
def test_a_processor_is_named_where_it_was_busy(changes: dict[str, Any], used: CpuFigures, named: str) -> None:
    found = only(made((80.0, 80.0), replace(DRIVES, **changes), cpu=used))
    assert ("processor" in found.words) is bool(named)
    assert found.limiters[0].startswith(named)


def test_the_drain_is_computed_from_the_time_that_fio_counted() -> None:
    # The figures cover 30 s; the job asked for less.
    ramped = JOB.replace("30000", "24000") + "ramp_time=500ms\n"
    (drain,) = only(made((80.0, 80.0), job_text=ramped)).limiters
    assert drain == "the drain of the queue: 24.00 s of load are counted over 30.00 s, which by itself gives 0.80"
    # Without a ramp, the I/Os of the drain are counted too.
    (drain,) = only(made((80.0, 80.0), job_text=JOB.replace("30000", "24000"))).limiters
    assert drain == "the drain of the queue: 24.00 s of load are counted over 30.00 s"
    assert only(made((80.0, 80.0))).limiters == ("something that the model leaves out",)
    assert "drain" not in only(made((120.0, 120.0), job_text=JOB.replace("30000", "24000"))).words


@pytest.mark.parametrize(
    ("changes", "iops", "words"),
    [
        ({"job_text": JOB.replace("randwrite", "write")}, 80.0, "how requests are merged"),
        ({"stamps": ("io-not-on-members: x: y; needed: z",)}, 130.0, "a cache: fio moved more than the members did"),
        ({}, 130.0, "requests that were merged, or answered without a drive"),
        ({"stamps": ("unsteady: x: y; needed: z",)}, 80.0, "disturbed runs (unsteady)"),
        ({"stamps": ("too-short-for-latency: x: y; needed: z",)}, 80.0, "too short for the latency"),
    ],
)
def test_other_evidence(changes: dict[str, Any], iops: float, words: str) -> None:
    assert words in only(made((iops, iops), **changes)).words


def test_mechanics_are_named_only_for_known_drives_with_mechanics() -> None:
    def on(model: str) -> str:
        (disk,) = DRIVES.disks
        disks = (replace(disk, model=model),)
        return only(made((80.0, 80.0), replace(DRIVES, disks=disks))).words

    assert "the drives' mechanics" in on("sata-7200")
    assert "mechanics" not in on("hdd-7200")
    assert "mechanics" not in on("of-another-computer")


def test_the_lint_and_the_shown_result_report_off_theory() -> None:
    found = made((80.0, 80.0))
    assert "off-theory" in {finding.rule_id for finding in lint_result(found)}
    stamps = as_shown(found).stamps
    # An old record without fingerprints: both repeats have the same job.
    assert [stamp.partition(":")[0] for stamp in stamps[:2]] == ["same-addresses", "off-theory"]
    assert stamps[1].startswith("off-theory: raid5/w/healthy: 0.80 [0.80–0.80] of theory; likely: ")
    assert as_shown(as_shown(found)) == as_shown(found)


def test_stored_stamps_are_shown_unless_current_rules_replace_them() -> None:
    old = ("simulated-origin: machine: x; needed: compare ratios", "unsteady: a: b; needed: c")
    on_files = replace(made((80.0, 80.0), FILES), stamps=old)
    stamps = shown_stamps(on_files)
    assert stamps[-1] == old[1]
    assert not any("compare ratios" in stamp for stamp in stamps)
    assert shown_stamps(record(stamps=old)) == old


def bound(*microseconds: float, conditions: Conditions = FILES) -> ResultRecord:
    cells: list[CellRecord] = [
        cell(f"raid{n}", "w", 0, write_iops=8_000.0, cpu=cpu(value)) for n, value in enumerate(microseconds)
    ]
    return record(cells=tuple(cells), conditions=conditions)


def test_on_files_a_processor_bound_is_the_first_stamp() -> None:
    found = bound(121.0, 123.0, 60.0)
    (seen,) = processor_bound(found)
    assert (
        seen.observed == "busy 97% of the time in the median of 3 cells (less while waiting for the host: raid2/w 48%)"
    )
    assert shown_stamps(found)[0].startswith("processor-bound: ")
    assert busy_fraction(found.cells[0], FILES) == pytest.approx(0.968)


@pytest.mark.parametrize(
    "found",
    [
        bound(121.0, conditions=DRIVES),
        bound(121.0, conditions=CONDITIONS),
        bound(121.0, conditions=replace(FILES, is_virtual_time=True)),
        bound(30.0, 40.0),
        made((80.0,), FILES),
    ],
    ids=["emulated drives", "another machine", "virtual time", "an idle processor", "no account"],
)
def test_otherwise_it_is_not(found: ResultRecord) -> None:
    assert list(processor_bound(found)) == []


@pytest.mark.parametrize(
    ("seconds", "changes", "likely"),
    [
        ((1.0, 1.04), {}, None),
        ((2.0,), {}, None),
        ((2.0, 2.1), {"request_bytes": 140 * 1024.0}, "md requests 140 KiB at a time on average"),
        ((2.0, 2.1), {"request_bytes": 2.0**20}, "something that the model leaves out"),
        ((2.0, 2.1), {"under_workload": "rand-read-4k"}, "the load during the rebuild"),
        ((0.5, 0.6), {"request_bytes": 4096.0}, "a cache below the machine"),
    ],
)
def test_a_rebuild_is_beside_theory_too(
    seconds: tuple[float, ...], changes: dict[str, Any], likely: str | None
) -> None:
    rebuilds = [rebuild("raid5", repeat, value) for repeat, value in enumerate(seconds)]
    asked = tuple(replace(each, predicted_seconds=1.0, **changes) for each in rebuilds)
    (found,) = rebuilds_beside_theory(record(rebuilds=asked))
    assert found.name == f"raid5/rebuild/{changes.get('under_workload', 'idle')}"
    assert found.is_off is bool(likely)
    assert found.limiters == () if likely is None else found.limiters[0].startswith(likely)
    assert ("off-theory" in {finding.rule_id for finding in lint_result(record(rebuilds=asked))}) is bool(likely)


@pytest.mark.parametrize("figures", [(1.0, 0.0), (0.0, 1.0), (1e9, 1e-9)])
def test_a_rebuild_of_no_sense_is_beside_nothing(figures: tuple[float, float]) -> None:
    predicted, took = figures
    found = replace(rebuild("raid5", 0, took), predicted_seconds=predicted)
    assert rebuilds_beside_theory(record(rebuilds=(found,))) == ()


def test_a_resumed_run_has_a_stamp() -> None:
    virtual = replace(CONDITIONS, is_virtual_time=True)
    stamps = shown_stamps(record(conditions=virtual, resumed_after=(14,)))
    assert "resumed" in {stamp.partition(":")[0] for stamp in stamps}
    assert "resumed" not in {stamp.partition(":")[0] for stamp in shown_stamps(record(conditions=virtual))}


BEFORE = "[global]\nrandrepeat=1\nrandseed={seed}\n[x]\nrw=randread\nbs=4096\nnumjobs={jobs}\n"


def with_job(repeat: int, text: str, *, fio: str = "fio-3.33", addresses: str = "") -> CellRecord:
    measured = cell("a", "w", repeat, read_iops=1.0, job_text=text, addresses=addresses)
    return replace(measured, figures=replace(measured.figures, fio_version=fio))


def before(repeat: int, *, jobs: int = 1, fio: str = "fio-3.33") -> CellRecord:
    return with_job(repeat, BEFORE.format(seed=20_260 + repeat, jobs=jobs), fio=fio)


NEW = BEFORE.replace("randrepeat=1", "randrepeat=0")


@pytest.mark.parametrize(
    ("cells", "observed"),
    [
        ([before(n) for n in range(3)], "3 repeats on one sequence of addresses"),
        ([before(n, jobs=4) for n in range(2)], "1 of 4 jobs on one sequence of addresses in all 2 repeats"),
        # These versions of fio heed the seed.
        ([before(n, fio="fio-3.35") for n in range(2)], None),
        ([before(n, fio="fio-3.41") for n in range(2)], None),
        # New results have fingerprints.
        ([with_job(n, NEW.format(seed=n, jobs=1), addresses=f"{n:x}") for n in range(3)], None),
        (
            [with_job(n, NEW.format(seed=7, jobs=1), addresses="7") for n in range(3)],
            "3 repeats on one sequence of addresses",
        ),
        ([before(0)], None),
        ([with_job(n, "[x]\nrw=read\nbs=1m\n") for n in range(3)], None),
        ([with_job(n, "") for n in range(3)], None),
    ],
)
def test_repeats_on_one_sequence_of_addresses_are_found(cells: list[CellRecord], observed: str | None) -> None:
    assert [seen.observed for seen in same_addresses(record(cells=tuple(cells)))] == ([observed] if observed else [])
