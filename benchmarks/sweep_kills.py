"""A sweep of 200 cells with one worker and with two, and three times with something killed: time, and the same hashes.

Usage: sweep_kills.py [--depths N]        eight cells for each depth; 25 of them are 200 cells, half an hour
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support.report import finish
from tests.kernel.sweeps import Sweeps, digests, sweeps_in

DEPTHS = 25
MOST_SHARE = 0.6
VICTIMS = ("worker-0", "scheduler", "client")
ALLOWED = ("--allow", "too-short-for-latency")


def say(text: str) -> None:
    """To standard error."""
    print(text, file=sys.stderr, flush=True)


def swept(folder: Path, depths: int, workers: int) -> tuple[float, dict[str, str]]:
    """Seconds, and the digest of every cell."""
    sweeps = made(folder / f"workers-{workers}", depths)
    begin = time.monotonic()
    found = digests(sweeps.run("--cluster", f"local:{workers}", *ALLOWED))
    seconds = time.monotonic() - begin
    say(f"{workers} workers: {seconds:.0f} s")
    return seconds, found


def made(folder: Path, depths: int) -> Sweeps:
    """A state folder of its own."""
    folder.mkdir()
    return sweeps_in(folder, depths=tuple(range(1, depths + 1)), patience_seconds=3600.0)


def after_kill(folder: Path, depths: int, victim: str) -> tuple[dict[str, str], int]:
    """The digests after a kill in the middle and going on, and how many finished cells were measured again."""
    sweeps = made(folder / victim, depths)
    process = sweeps.start("--cluster", "local:2", *ALLOWED)
    sweeps.until(lambda: len(sweeps.files()) >= depths * 4 and sweeps.progress().get("processes"), process)
    sweeps.kill(victim, process)
    process.communicate()
    sweeps.until_gone()
    before = sweeps.files()
    found = sweeps.run("--cluster", "local:2", "--resume", *ALLOWED)
    after = sweeps.files()
    again = sum(after[key] != before[key] for key in before)
    say(f"{victim} killed: {len(before)} cells were there, {found['measured']} measured then, {again} again")
    return digests(found), again


def main() -> None:
    """Run all, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--depths", type=int, default=DEPTHS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raidlab-bench-") as name:
        folder = Path(name)
        one, first = swept(folder, options.depths, 1)
        two, second = swept(folder, options.depths, 2)
        killed = {victim: after_kill(folder, options.depths, victim) for victim in VICTIMS}
    is_same = second == first and all(found == first for found, _ in killed.values())
    again = sum(count for _, count in killed.values())
    share = two / one
    finish(
        "sweep_kills",
        "time with two workers ÷ time with one (9 if hashes differ, or a finished cell was measured again)",
        share if is_same and not again else 9.0,
        MOST_SHARE,
        at_most=True,
        details={
            "cells": len(first),
            "different_digests": len(set(first.values())),
            "are_hashes_the_same": is_same,
            "measured_again": again,
            "seconds_with_one": round(one, 1),
            "seconds_with_two": round(two, 1),
            "share": round(share, 3),
        },
    )


if __name__ == "__main__":
    main()
