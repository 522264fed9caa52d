"""Wall time of ``raidlab run antioquia-quick``, against the fio, mkfs, mdadm and resync times that it reports."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from benchmarks.support.report import finish, private_state

BOUND = 1.05


def main() -> None:
    """Run the study as a user does, and compare the outer wall time with the inner account."""
    argv = [
        sys.executable,
        "-c",
        "from lab.cli.main import main; main()",
        "--on",
        "uml:",
        "--json",
        "run",
        "antioquia-quick",
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
        "wall time of antioquia-quick ÷ sum of its fio, mkfs, mdadm and resync times",
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
