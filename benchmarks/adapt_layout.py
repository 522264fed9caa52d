"""Arithmetic of unequal arrays: look-ups a second, and the tables of nine disks of 1 and 2 TB. Seconds of CPU time."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.support.report import finish, spread
from lab.adapt.interleave import COMFORTABLE_TARGETS, Volume, shortest_run
from lab.adapt.lookup import Lookup
from lab.adapt.pattern import Pattern
from lab.adapt.spec import piece_lines
from lab.adapt.windows import Composition

LOOK_UPS = 1_000_000
ROUNDS = 9
LOOK_UPS_BOUND = 5e6
TABLE_SECONDS_BOUND = 1.0
CHUNK_BYTES = 128 * 1024
TERABYTE_LINES = 10**12 // CHUNK_BYTES


def look_ups_per_second() -> list[float]:
    """Random blocks of an array of 4 fast and 5 slow disks, with the pattern of the paper's drives."""
    lookup = Lookup(Pattern.of([228] * 4 + [108] * 5))
    blocks = np.random.default_rng(1).integers(0, 10**9, LOOK_UPS)
    rates = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        lookup.locate(blocks)
        rates.append(LOOK_UPS / (time.process_time() - begin))
    return rates


def table(fast: int) -> tuple[int, float]:
    """Targets of the volume's table for nine disks, and the seconds to lay out volume and slices."""
    begin = time.process_time()
    composition = Composition.of([2 * TERABYTE_LINES] * fast + [TERABYTE_LINES] * (9 - fast))
    volume = Volume.of(composition, shortest_run(composition), piece_lines(composition))
    return len(volume.segments), time.process_time() - begin


def main() -> None:
    """Measure both, and fail if either bound is not kept."""
    rates = look_ups_per_second()
    tables = {fast: min((table(fast) for _ in range(3)), key=lambda found: found[1]) for fast in range(10)}
    slowest = max(seconds for _, seconds in tables.values())
    longest = max(targets for targets, _ in tables.values())
    # One figure under one bound: each part as a share of what it may be.
    parts = {
        "look_ups": LOOK_UPS_BOUND / sorted(rates)[ROUNDS // 2],
        "table_seconds": slowest / TABLE_SECONDS_BOUND,
        "table_targets": longest / COMFORTABLE_TARGETS,
    }
    finish(
        "adapt_layout",
        "the worst of: 5 million look-ups a second, tables of nine disks of 1 and 2 TB within 1 s and 65,536 targets",
        max(parts.values()),
        1.0,
        at_most=True,
        details={
            "million_look_ups_per_second": spread([rate / 1e6 for rate in rates]),
            "tables": {
                f"{fast} fast": {"targets": targets, "seconds": round(seconds, 3)}
                for fast, (targets, seconds) in tables.items()
            },
        },
    )


if __name__ == "__main__":
    main()
