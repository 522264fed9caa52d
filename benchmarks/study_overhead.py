"""The wall time of ``raidlab run``, compared with the fio, mkfs, mdadm and resync times that it reports."""

from __future__ import annotations

import json
import subprocess
import time

from benchmarks.support.report import RAIDLAB, SMALL_EXPERIMENT, asked_one, finish, private_state

BOUND = 1.05


def main() -> None:
    experiment = asked_one(
        "experiment", "antioquia-quick", "a name or a file, as for 'raidlab run'", smoke=str(SMALL_EXPERIMENT)
    )
    argv = [
        *RAIDLAB,
        "--on",
        # In virtual time, fio's seconds pass in a fraction of a second, so all other time would look long.
        "uml:?time=real",
        "--json",
        "run",
        experiment,
    ]
    begin = time.monotonic()
    with private_state():
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    wall_seconds = time.monotonic() - begin
    if done.returncode != 0:
        raise SystemExit("the study failed")
    timings = json.loads(done.stdout)["timings"]
    parts = {name: timings[f"{name}_seconds"] for name in ("fio", "mkfs", "mdadm", "resync")}
    finish(
        f"wall time of {experiment} ÷ sum of its fio, mkfs, mdadm and resync times",
        wall_seconds / sum(parts.values()),
        "<=",
        BOUND,
        wall_seconds=round(wall_seconds, 2),
        **{f"{name}_seconds": round(part, 2) for name, part in parts.items()},
    )


if __name__ == "__main__":
    main()
