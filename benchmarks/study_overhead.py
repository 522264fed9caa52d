"""Wall time of ``raidlab run``, against the fio, mkfs, mdadm and resync times that it reports."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from typing import Annotated

from benchmarks.support.report import SMALL_EXPERIMENT, asked, finish, private_state
from lab.host.processes import isolated_python

BOUND = 1.05


@dataclass(frozen=True, slots=True)
class Options:
    experiment: Annotated[str, "a name or a file, as raidlab run takes it"] = "antioquia-quick"


SMOKE = Options(experiment=str(SMALL_EXPERIMENT))


def main() -> None:
    """Run the study as a user does, and compare the outer wall time with the inner account."""
    options = asked(SMOKE)
    argv = [
        *isolated_python("-c", "import sys; from lab.cli.main import run; sys.exit(run())"),
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
