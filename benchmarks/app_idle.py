"""The CPU time of an app that shows a healthy array and does nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from benchmarks.support.report import asked, finish, private_state
from benchmarks.support.terminal import app_in_terminal

BOUND_FRACTION = 0.03


@dataclass(frozen=True, slots=True)
class Options:
    seconds: Annotated[float, "time for which the app is watched"] = 60.0
    quiet_seconds: Annotated[float, "time before that, with the array in sync"] = 12.0


SMOKE = Options(seconds=2.0, quiet_seconds=1.0)


def main() -> None:
    options = asked(SMOKE)
    with private_state() as state, app_in_terminal(state) as app:
        app.build_array()
        app.read(options.quiet_seconds)
        before, begin, painted = app.cpu_seconds(), time.monotonic(), len(app.painted)
        app.read(options.seconds)
        elapsed = time.monotonic() - begin
        used = app.cpus_busy(before, elapsed)
        painted_bytes = sum(len(data) for _, data in app.painted[painted:])
    finish(
        "share of a core that an idle app and its machine take: its process, the embedded kernel, the supervisor",
        sum(used.values()),
        "<=",
        BOUND_FRACTION,
        **{f"{process}_fraction": round(value, 4) for process, value in used.items()},
        painted_bytes_per_second=round(painted_bytes / elapsed),
        seconds=options.seconds,
    )


if __name__ == "__main__":
    main()
