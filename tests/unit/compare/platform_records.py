"""Results of machines that measured the same experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from lab.classroom.bundle import load_signer, write_bundle
from lab.results.record import ResultRecord, encode_record
from tests.unit.results.records import CONDITIONS, array, cell, rebuild, record, with_figures

WAVES = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)
HDD = {"single": 100, "raid0": 390, "raid1": 180, "raid5": 290}
SSD = {"single": 20_000, "raid0": 70_000, "raid1": 38_000, "raid5": 52_000}
MEMBERS = {"single": 1, "raid0": 4, "raid1": 2, "raid5": 4}


def machine(
    name: str,
    reads: Mapping[str, float],
    writes: Mapping[str, float],
    *,
    embedded: bool = False,
    repeats: int = 6,
    experiment: str = "x",
    seed: int = 0,
) -> ResultRecord:
    """A result with these read and write IOPS, with repeats up to one per cent higher or lower."""
    waves = [*WAVES[seed % 6 :], *WAVES[: seed % 6]][:repeats]
    cells = []
    for level in reads:
        for repeat, wave in enumerate(waves):
            cells.append(
                cell(level, "rand-read-4k", repeat, read_iops=reads[level] * wave, cpu_microseconds=5.0 * wave)
            )
            cells.append(cell(level, "rand-write-4k", repeat, write_iops=writes[level] * wave, cpu_microseconds=20.0))
    for repeat, wave in enumerate(waves):
        made = cell("single", "seq-write-1m", repeat, write_iops=reads["single"] * wave)
        cells.append(replace(made, job_text="[global]\nrw=write\n"))
    return record(
        f"20261121T10000{seed}Z-{name}",
        experiment=experiment,
        arrays=tuple(array(level, level, MEMBERS[level]) for level in reads),
        cells=tuple(cells),
        rebuilds=tuple(rebuild("raid5", repeat, 10.0 * wave) for repeat, wave in enumerate(waves)),
        conditions=replace(CONDITIONS, host_name=name, target=f"ssh:{name}", is_embedded=embedded),
    )


def measured_by(record: ResultRecord, student: int) -> ResultRecord:
    """The same speeds as measured by another student: no two students have the same latencies and times."""
    cells = tuple(with_figures(each, mean_seconds=0.01 + 1e-9 * (student + 1)) for each in record.cells)
    timings = replace(record.timings, total_seconds=300.0 + 0.001 * student)
    return replace(record, cells=cells, timings=timings)


def scaled(values: Mapping[str, float], **factors: float) -> dict[str, float]:
    return {name: value * factors.get(name, 1.0) for name, value in values.items()}


def bundle(path: Path, record: ResultRecord, key: Path) -> Path:
    path.write_bytes(write_bundle({record.id: {"record.json": encode_record(record)}}, load_signer(key)))
    return path
