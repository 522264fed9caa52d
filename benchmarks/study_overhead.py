"""Wall time of ``raidlab run``, against the fio, mkfs, mdadm and resync times that it reports.

Usage: study_overhead.py [--experiment NAME]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time

from benchmarks.support.report import finish, private_state
from lab.host.python import isolated_python

BOUND = 1.05


def main() -> None:
    """Run the study as a user does, and compare the outer wall time with the inner account."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiment", default="antioquia-quick", help="a name or a file, as raidlab run takes it")
    options = parser.parse_args()
    argv = [
        *isolated_python("-c", "from lab.cli.main import main; main()"),
        "--on",
        # In virtual time fio's seconds pass in a fraction of them, and all else would look large beside that.
        "uml:?time=real",
        "--json",
        "run",
        options.experiment,
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
        "study_overhead",
        f"wall time of {options.experiment} ÷ sum of its fio, mkfs, mdadm and resync times",
        wall_seconds / sum(parts.values()),
        BOUND,
        at_most=True,
        details={
            "wall_seconds": round(wall_seconds, 2),
            **{f"{name}_seconds": round(part, 2) for name, part in parts.items()},
        },
    )


if __name__ == "__main__":
    main()
