"""The time and memory that a report on 1,000 stored results takes, each with 48 cells and six rebuilds.

The report is measured in a separate process, from its start to the written HTML file, because a user waits for this.
"""

from __future__ import annotations

import json
import random

import msgspec

from benchmarks.class_view import RECORDED, students_result
from benchmarks.support.report import asked_one, finish, private_state, run_raidlab, spread
from lab.results.record import RebuildRecord, encode_record
from lab.results.store import RECORD_NAME, decode_record
from lab.units import MIB

ROUNDS = 3
BOUND_SECONDS, BOUND_MIB = 5.0, 300.0


def main() -> None:
    count = asked_one("results", 1000, "number of results in the report", smoke=6)
    recorded = decode_record(RECORDED.read_bytes(), source=str(RECORDED))
    draw = random.Random(1)
    with private_state() as state:
        for number in range(count):
            made = students_result(recorded, draw, number)
            rebuilds = tuple(
                RebuildRecord(array="raid5", repeat=n, rebuild_seconds=draw.uniform(9, 11), rebuilt_bytes=10**8)
                for n in range(6)
            )
            folder = state / "results" / made.id
            folder.mkdir(parents=True)
            (folder / RECORD_NAME).write_bytes(encode_record(msgspec.structs.replace(made, rebuilds=rebuilds)))
        page = state / "report.html"
        words = ("--json", "--quiet", "report", str(state / "results"), "--output", str(page))
        made_pages = [run_raidlab(*words) for _ in range(ROUNDS)]
        assert len(json.loads(made_pages[0].output)["results"]) == count
        megabytes = page.stat().st_size / 1e6
    cpus = [each.cpu_seconds for each in made_pages]
    mib = max(each.peak_bytes for each in made_pages) / MIB
    finish(
        f"CPU seconds for an HTML report of {count} results, greatest of {ROUNDS}; inf: above {BOUND_MIB:g} MiB",
        max(cpus) if mib <= BOUND_MIB else float("inf"),
        "<=",
        BOUND_SECONDS,
        cpu_seconds=spread(cpus),
        wall_seconds=spread([each.seconds for each in made_pages]),
        peak_mib=round(mib, 1),
        bound_mib=BOUND_MIB,
        page_megabytes=round(megabytes, 2),
    )


if __name__ == "__main__":
    main()
