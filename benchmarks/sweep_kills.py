"""A sweep of 200 cells with one worker and with two, and three times with something killed: time, and the same hashes.

Usage: sweep_kills.py [--depths N] [--only VICTIM] [--clusters]

Eight cells for each depth; 25 of them are 200 cells, half an hour. ``--clusters``: the same on a Slurm and over ssh, of
the tests' own, undisturbed and with the client killed; another half hour, as an ordinary user.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.support.report import finish, say
from tests.cluster.places import on_slurm, over_ssh
from tests.cluster.slurm_rig import slurm_rig
from tests.cluster.ssh_rig import ssh_rig
from tests.kernel.sweeps import Sweeps, digests, sweeps_in

DEPTHS = 25
PATIENCE_SECONDS = 3600.0
MOST_SHARE = 0.6
VICTIMS = ("worker-0", "scheduler", "client")
ALLOWED = ("--allow", "too-short-for-latency")


def swept(folder: Path, depths: int, workers: int) -> tuple[float, dict[str, str]]:
    """Seconds, and the digest of every cell."""
    sweeps = made(folder / f"workers-{workers}", depths)
    begin = time.monotonic()
    found = digests(sweeps.run("--cluster", f"local:{workers}", *ALLOWED))
    seconds = time.monotonic() - begin
    say(f"workers: {workers}, {seconds:.0f} s")
    return seconds, found


def made(folder: Path, depths: int) -> Sweeps:
    """A state folder of its own."""
    folder.mkdir()
    return sweeps_in(folder, depths=tuple(range(1, depths + 1)), patience_seconds=PATIENCE_SECONDS)


def after_kill(sweeps: Sweeps, depths: int, victim: str, cluster: str) -> tuple[dict[str, str], int]:
    """The digests after a kill in the middle and going on, and how many finished cells were measured again."""
    process = sweeps.start("--cluster", cluster, *ALLOWED)
    sweeps.until(lambda: len(sweeps.files()) >= depths * 4 and sweeps.progress().get("processes"), process)
    sweeps.kill(victim, process)
    process.communicate()
    sweeps.until_gone()
    before = sweeps.files()
    found = sweeps.run("--cluster", cluster, "--resume", *ALLOWED)
    after = sweeps.files()
    again = sum(after[key] != before[key] for key in before)
    say(f"{cluster}, {victim} killed: {len(before)} cells were there, {found['measured']} measured then, {again} again")
    return digests(found), again


def on_clusters(folder: Path, depths: int) -> Iterator[tuple[dict[str, str], int]]:
    """On Slurm and over ssh: what a sweep gives, and what one gives whose client was killed."""
    length: dict[str, Any] = {"depths": tuple(range(1, depths + 1)), "patience_seconds": PATIENCE_SECONDS}
    with slurm_rig() as slurm, ssh_rig() as servers:
        places: dict[str, Callable[[Path], Sweeps]] = {
            "slurm": lambda inside: on_slurm(inside, slurm, **length),
            "ssh:node1,node2": lambda inside: over_ssh(inside, servers, **length),
        }
        for number, (cluster, place) in enumerate(places.items()):
            for name in ("undisturbed", "killed"):
                (folder / f"{name}-{number}").mkdir()
            begin = time.monotonic()
            yield digests(place(folder / f"undisturbed-{number}").run("--cluster", cluster, *ALLOWED)), 0
            say(f"{cluster}: {time.monotonic() - begin:.0f} s")
            yield after_kill(place(folder / f"killed-{number}"), depths, "client", cluster)


def main() -> None:
    """Run all, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--depths", type=int, default=DEPTHS)
    parser.add_argument("--only", choices=VICTIMS, action="append", help="who is killed")
    parser.add_argument("--clusters", action="store_true")
    options = parser.parse_args()
    victims = options.only or VICTIMS
    with tempfile.TemporaryDirectory(prefix="raidlab-bench-") as name:
        folder = Path(name)
        one, first = swept(folder, options.depths, 1)
        two, second = swept(folder, options.depths, 2)
        others = [after_kill(made(folder / each, options.depths), options.depths, each, "local:2") for each in victims]
        others += list(on_clusters(folder, options.depths)) if options.clusters else []
    is_same = second == first and all(found == first for found, _ in others)
    again = sum(count for _, count in others)
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
            "runs_compared": 2 + len(others),
            "are_hashes_the_same": is_same,
            "measured_again": again,
            "seconds_with_one": round(one, 1),
            "seconds_with_two": round(two, 1),
            "share": round(share, 3),
        },
    )


if __name__ == "__main__":
    main()
