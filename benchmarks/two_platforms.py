"""Which conclusions carry over between two platforms with different disks, and which must flip.

The embedded kernel represents two machines, one with drives of 7200 rpm and one with solid-state drives. RAID 0 writes
faster than RAID 5 on both. RAID 5 on six drives of 7200 rpm writes faster than one of them (six times 75 I/Os, four for
each write). On solid-state drives, the parity work on one processor is slower than a drive that serves sixteen I/Os at
once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from benchmarks.support.report import asked, finish, private_state
from benchmarks.support.rig import run_toml
from lab.compare import Conclusion, PlatformMeasure, Transfer, compare_platforms, platform_of
from lab.results.record import ResultRecord, encode_record

DRIVE_MODELS = ("hdd-7200", "ssd")
EXPERIMENT = """
format_version = 2
id = "two-platforms"
title = "RAID 0 and 5 compared with one disk, random 4K writes at queue depth 16"
question = "Is RAID 5 faster than one of its disks?"
repeats = REPEATS
seed = 3
file_system = "raw"
writes_files_first = false

[disks]
kind = "spindle"
model = "DRIVE_MODEL"
size_bytes = "24M"

[[arrays]]
id = "single"
level = "single"
members = 1

[[arrays]]
id = "raid0"
level = "raid0"
members = 6

[[arrays]]
id = "raid5"
level = "raid5"
members = 6
assume_clean = true

[[jobs]]
workload = "rand-write-4k"
queue_depth = 16
jobs = 1
runtime_seconds = 2.0
warmup_seconds = 0.8
"""
EXPECTED = {("raid0", "raid5"): Transfer.CARRIES_OVER, ("raid5", "single"): Transfer.FLIPS}


@dataclass(frozen=True, slots=True)
class Options:
    on: str = "uml:"
    repeats: int = 6
    keep: Annotated[Path | None, "folder to which the two records are written"] = None


SMOKE = Options(on="uml:?time=real", repeats=1)


def measured(model: str, options: Options) -> ResultRecord:
    text = EXPERIMENT.replace("DRIVE_MODEL", model).replace("REPEATS", str(options.repeats))
    return run_toml(text, options.on)


def matches(conclusion: Conclusion) -> bool:
    """Whether a conclusion turned out as it must. True if nothing is required of it."""
    expected = EXPECTED.get((conclusion.faster, conclusion.slower))
    return expected is None or conclusion.transfers[0] is expected


def main() -> None:
    options = asked(SMOKE)
    with private_state():
        records = [measured(model, options) for model in DRIVE_MODELS]
    if options.keep:
        for model, record in zip(DRIVE_MODELS, records, strict=True):
            (options.keep / f"two-platforms-{model}.json").write_bytes(encode_record(record))
    found = compare_platforms([platform_of(record) for record in records])
    judged = [each for each in found.conclusions if (each.faster, each.slower) in EXPECTED]
    finish(
        "conclusions that turned out as they must on the other platform",
        sum(matches(each) for each in judged),
        ">=",
        len(EXPECTED),
        conclusions=[
            f"{each.faster} {each.verdicts[0].outcome} than {each.slower}: {each.transfers[0]}"
            for each in found.conclusions
        ],
        speed_up={
            row.what: [None if value is None else round(value.median, 2) for value in row.values]
            for row in found.rows
            if row.measure is PlatformMeasure.SPEED_UP
        },
    )


if __name__ == "__main__":
    main()
