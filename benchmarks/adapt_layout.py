"""Arithmetic of unequal arrays: the tables of nine disks of 1 and 2 TB. Seconds of CPU time."""

from __future__ import annotations

import time

from benchmarks.support.report import asked_one, finish
from lab.adapt.layout import COMFORTABLE_TARGETS, Composition, VolumeLayout, shortest_run
from lab.adapt.spec import piece_lines

TABLE_SECONDS_BOUND = 1.0
CHUNK_BYTES = 128 * 1024
TERABYTE_LINES = 10**12 // CHUNK_BYTES


def table(fast: int) -> tuple[int, float]:
    """Targets of the volume's table for nine disks, and the seconds to lay out volume and slices."""
    begin = time.process_time()
    composition = Composition.of([2 * TERABYTE_LINES] * fast + [TERABYTE_LINES] * (9 - fast))
    volume = VolumeLayout.of(composition, shortest_run(composition), piece_lines(composition))
    return len(volume.segments), time.process_time() - begin


def main() -> None:
    rounds = asked_one("rounds", 3, "of which the fastest counts", smoke=1)
    tables = {fast: min((table(fast) for _ in range(rounds)), key=lambda found: found[1]) for fast in range(10)}
    slowest = max(seconds for _, seconds in tables.values())
    longest = max(targets for targets, _ in tables.values())
    # One figure under one bound: each part as a share of what it may be.
    parts = {
        "table_seconds": slowest / TABLE_SECONDS_BOUND,
        "table_targets": longest / COMFORTABLE_TARGETS,
    }
    finish(
        "the worst of: tables of nine disks of 1 and 2 TB within 1 s and 65,536 targets",
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
