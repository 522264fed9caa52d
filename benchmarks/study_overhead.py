"""The wall time of ``raidlab run``, compared with the fio, mkfs, mdadm and resync times that it reports."""

from __future__ import annotations

import json

from benchmarks.support.report import SMALL_EXPERIMENT, asked_one, finish, private_state, run_raidlab

BOUND = 1.05


def main() -> None:
    experiment = asked_one(
        "experiment", "antioquia-quick", "a name or a file, as for 'raidlab run'", smoke=str(SMALL_EXPERIMENT)
    )
    with private_state():
        # In virtual time, fio's seconds pass in a fraction of a second, so all other time would look long.
        ended = run_raidlab("--on", "uml:?time=real", "--json", "run", experiment)
    timings = json.loads(ended.output)["timings"]
    parts = {name: timings[f"{name}_seconds"] for name in ("fio", "mkfs", "mdadm", "resync")}
    finish(
        f"wall time of {experiment} ÷ sum of its fio, mkfs, mdadm and resync times",
        ended.seconds / sum(parts.values()),
        "<=",
        BOUND,
        wall_seconds=round(ended.seconds, 2),
        **{f"{name}_seconds": round(part, 2) for name, part in parts.items()},
    )


if __name__ == "__main__":
    main()
