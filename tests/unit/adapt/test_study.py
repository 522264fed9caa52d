"""The AdaptRaid study's tables and claims, with results made for each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from lab.adapt.study import Claim, ClaimVerdict, Measurements, capacity_table, claims, tables, trace_table
from lab.experiments.published import find_published
from lab.report.tables import tables_of
from lab.results.record import ArrayRecord, CellRecord, DiskRecord, ResultRecord
from tests.unit.results import records

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002)
Rate = Callable[[str, int, str], float | None]


def paper(system: str, k: int, workload: str) -> float | None:
    """I/Os per second that satisfy every claim, None if the system has no such array."""
    if system == "onlyfast" and not 2 <= k <= 8:
        return None
    if workload == "r2048":
        return {"raid5": 28.0 if k < 9 else 42.0, "onlyfast": 6.0 * k, "adapt5": 26.0 + 2.0 * k}[system]
    if workload in ("w8", "r8"):
        gap = 0.1 if workload == "w8" else 0.03
        return {"raid5": 100.0, "onlyfast": 100.0 * (1 - gap), "adapt5": 100.0 * (1 + gap)}[system]
    growth = {"raid5": 39.0 if k < 9 else 60.0, "adapt5": 39.0 + 2.4 * max(0, k - 1)}
    return growth[system] if system in growth else {2: 12, 3: 22, 4: 20, 5: 38, 6: 21, 7: 24, 8: 25}[k] * 1.0


def study(
    rate: Rate = paper,
    workloads: tuple[str, ...] = ("w8", "w256", "w1024", "w2048", "r8", "r2048"),
    *,
    repeats: int = 6,
) -> ResultRecord:
    cells, arrays = [], []
    for system in ("raid5", "onlyfast", "adapt5"):
        for k in range(10):
            if rate(system, k, "w1024") is None:
                continue
            name = f"{system}-k{k}"
            size = {
                "raid5": 8.0 if k < 9 else 16.0,
                "onlyfast": 2.0 * (k - 1),
                "adapt5": 8.0 + 0.9 * max(0, k - 1) if k < 9 else 16.0,
            }
            arrays.append(
                ArrayRecord(name=name, level="raid5", members=("a",) * 9, size_bytes=int(size[system] * 2**30))
            )
            for workload in workloads:
                for repeat in range(repeats):
                    noise = NOISE[(repeat + len(system)) % 6]
                    iops = (rate(system, k, workload) or 1.0) * noise
                    is_read = workload.startswith("r")
                    figures = {"read_iops": iops} if is_read else {"write_iops": iops}
                    cells.append(records.cell(name, workload, repeat, **figures))
    disks = tuple(
        DiskRecord(name=f"{pool}01", path="/dev/x", kind="spindle", size_bytes=size)
        for pool, size in (("fast", 542375936), ("slow", 257624064))
    )
    conditions = replace(records.CONDITIONS, disks=disks)
    return records.record(
        cells=tuple(cells), arrays=tuple(arrays), conditions=conditions, experiment_toml='study = "adaptraid"\n'
    )


def claim(record: ResultRecord, number: str) -> Claim:
    return next(each for each in claims(Measurements(record)) if each.number == number)


@pytest.fixture(scope="module")
def agreeing() -> ResultRecord:
    return study()


def test_agreeing_claims_hold_and_unmeasured_ones_are_missing(agreeing: ResultRecord) -> None:
    verdicts = {each.number: each.verdict for each in claims(Measurements(agreeing))}
    missing = {number for number, verdict in verdicts.items() if verdict is ClaimVerdict.MISSING}
    assert missing == {"C12", "C13"}
    # In these results small writes of 256 KiB are as fast as full ones, so AdaptRaid5 is far above OnlyFast.
    assert {number for number, verdict in verdicts.items() if verdict is ClaimVerdict.HOLDS} == set(verdicts) - missing


@pytest.mark.parametrize(
    ("number", "system", "k", "factor", "message"),
    [
        ("C3", "raid5", 6, 1.3, "W1024 k=6 ÷ k=0: 1.30"),
        ("C4", "onlyfast", 4, 2.0, "W1024 k=4 ÷ k=3: 1.82"),
        ("C5", "adapt5", 5, 0.8, "W1024 k=5 ÷ k=4: 0.8"),
        ("C6", "adapt5", 3, 0.7, "W1024 ÷ RAID 5 k=3: 0.7"),
        ("C6", "adapt5", 1, 1.5, "W1024 ÷ RAID 5 k=1: 1.50"),
        ("C7", "onlyfast", 5, 2.0, "W1024 ÷ OnlyFast k=5: 0.64"),
    ],
)
def test_a_failed_claim_shows_where_and_by_how_much(
    number: str, system: str, k: int, factor: float, message: str
) -> None:
    def changed(where: str, count: int, workload: str) -> float | None:
        rate = paper(where, count, workload)
        return rate * factor if rate and (where, count) == (system, k) else rate

    found = claim(study(changed, ("w1024",), repeats=11), number)
    assert found.verdict is ClaimVerdict.FAILS
    assert message in found.evidence
    # With so many comparisons, chance alone would explain this too often for so few repeats.
    unsure = claim(study(changed, ("w1024",)), number)
    assert unsure.verdict is ClaimVerdict.UNCLEAR
    assert message in unsure.evidence
    assert "repeats, but there are only 6" in unsure.evidence


def test_only_a_failed_claim_has_an_explanation() -> None:
    def flat(system: str, k: int, workload: str) -> float | None:
        return 35.0 if system == "adapt5" else paper(system, k, workload)

    published = find_published("adaptraid")
    assert published
    notes = tables(study(flat, ("w1024",)), published)[-1].notes
    assert f"possible reason for the difference in C6: {published.explanations['C6']}" in notes
    assert not any(note.startswith("C3:") for note in notes)


def test_every_claim_that_needs_one_has_an_explanation(agreeing: ResultRecord) -> None:
    published = find_published("adaptraid")
    assert published
    # C1 and C2 are exact, and C3 is a property of RAID 5.
    assert published.explanations.keys() == {each.number for each in claims(Measurements(agreeing))} - {
        "C1",
        "C2",
        "C3",
    }


def test_an_interval_on_both_sides_of_a_claim_is_unclear() -> None:
    def close(system: str, k: int, workload: str) -> float | None:
        return 40.0 if k < 9 and (system != "onlyfast" or k >= 2) else None

    found = claim(study(close, ("w1024",)), "C6")
    assert found.verdict is ClaimVerdict.UNCLEAR
    assert "k=2: 1.00 [" in found.evidence


def test_one_repeat_leaves_claims_unclear(agreeing: ResultRecord) -> None:
    single = replace(agreeing, cells=tuple(cell for cell in agreeing.cells if cell.repeat == 0))
    assert {each.verdict for each in claims(Measurements(single)) if each.number in ("C5", "C7", "C8", "C10")} == {
        ClaimVerdict.UNCLEAR
    }


def test_capacities_are_those_of_the_devices(agreeing: ResultRecord) -> None:
    rows = {row[0]: row for row in capacity_table(Measurements(agreeing)).rows}
    assert rows["4"] == ("4", "8 GiB", "6 GiB", "10.7 GiB", "1.34")
    smaller = tuple(
        replace(array, size_bytes=2**30) if array.name == "adapt5-k4" else array for array in agreeing.arrays
    )
    found = claim(replace(agreeing, arrays=smaller), "C1")
    assert found.verdict is ClaimVerdict.FAILS
    assert found.evidence.startswith("raid5 k=4: 0.125; onlyfast k=4: 0.167;")


def test_a_result_of_the_study_shows_one_table_for_each_figure(agreeing: ResultRecord) -> None:
    found = tables_of(agreeing)
    titles = [table.title for table in found]
    assert titles[0] == "Capacity (the study's Fig. 6)"
    assert [title.split(":")[0] for title in titles[1:7]] == ["W8", "W256", "W1024", "W2048", "R8", "R2048"]
    assert titles[7] == "The study's claims"
    full = found[3]
    assert full.rows[4][0] == "4"
    # What AdaptRaid5 is to RAID 5 and to OnlyFast.
    assert full.texts[4][4].startswith("1.18 [")
    assert full.texts[4][5].startswith("2.31 [")


def test_traces_are_compared_by_their_mean_times_and_called_synthetic() -> None:
    def timed(name: str, repeat: int, seconds: float) -> CellRecord:
        cell = records.cell(name, "trace", repeat, read_iops=20.0, write_iops=25.0)
        assert cell.figures.reads
        assert cell.figures.writes
        reads = replace(cell.figures.reads, mean_seconds=seconds * NOISE[repeat])
        writes = replace(cell.figures.writes, mean_seconds=2 * seconds * NOISE[repeat])
        return replace(cell, figures=replace(cell.figures, reads=reads, writes=writes))

    times = {"raid5-k5": 0.02, "onlyfast-k5": 0.03, "adapt5-k5": 0.01, "adapt5-k5-s30": 0.012, "adapt5-k5-s70": 0.011}
    # An array that does not belong to the study.
    times["raid10"] = 0.001
    record = records.record(
        cells=tuple(timed(name, repeat, seconds) for name, seconds in times.items() for repeat in range(6)),
        arrays=tuple(ArrayRecord(name=name, level="x", members=("a",) * 9, size_bytes=2**30) for name in times),
    )
    table = trace_table(Measurements(record))
    assert table
    assert "synthetic" in table.title
    assert [row[2] for row in table.rows] == ["by size", "0.3", "0.7", "–", "–"]
    assert claim(record, "C12").verdict is ClaimVerdict.HOLDS
    swept = claim(record, "C13")
    assert swept.verdict is ClaimVerdict.FAILS
    assert "read time k=5, .70 ÷ .30: 0.92" in swept.evidence
