"""The CPU time of the arithmetic of unequal arrays, for the tables of nine disks of 1 and 2 TB."""

from __future__ import annotations

import time

from benchmarks.support.report import asked_one, finish
from lab.adapt.layout import COMFORTABLE_TARGETS, Composition, VolumeLayout, shortest_run
from lab.adapt.spec import piece_lines

TABLE_SECONDS_BOUND = 1.0
CHUNK_BYTES = 128 * 1024
TERABYTE_LINES = 10**12 // CHUNK_BYTES


def table(fast: int) -> tuple[int, float]:
    """Return the number of targets in the volume's table for nine disks, and the seconds that the layout takes."""
    begin = time.process_time()
    composition = Composition.of([2 * TERABYTE_LINES] * fast + [TERABYTE_LINES] * (9 - fast))
    volume = VolumeLayout.of(composition, shortest_run(composition), piece_lines(composition))
    return len(volume.segments), time.process_time() - begin


def main() -> None:
    rounds = asked_one("rounds", 3, "number of rounds, of which the fastest counts", smoke=1)
    tables = {fast: min((table(fast) for _ in range(rounds)), key=lambda found: found[1]) for fast in range(10)}
    slowest = max(seconds for _, seconds in tables.values())
    longest = max(targets for targets, _ in tables.values())
    # There is one figure with one bound, so each part is divided by its own limit.
    parts = {
        "table_seconds": slowest / TABLE_SECONDS_BOUND,
        "table_targets": longest / COMFORTABLE_TARGETS,
    }
    finish(
        "tables of nine disks of 1 and 2 TB: the larger of their seconds ÷ 1 s and their targets ÷ 65,536",
        max(parts.values()),
        "<=",
        1.0,
        tables={
            f"{fast} fast": {"targets": targets, "seconds": round(seconds, 3)}
            for fast, (targets, seconds) in tables.items()
        },
    )


if __name__ == "__main__":
    main()
