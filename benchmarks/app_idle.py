"""CPU time of an app that shows a healthy array and does nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from benchmarks.support.report import asked, finish, private_state
from benchmarks.support.terminal import app_in_terminal, load_average

BOUND_FRACTION = 0.03


@dataclass(frozen=True, slots=True)
class Options:
    seconds: Annotated[float, "for which the app is watched"] = 60.0
    quiet_seconds: Annotated[float, "until then, with the array in sync"] = 12.0


SMOKE = Options(seconds=2.0, quiet_seconds=1.0)


def main() -> None:
    """Build a RAID 5 by its key, wait until it is in sync, and measure."""
    options = asked(SMOKE)
    with private_state() as state, app_in_terminal(state) as app:
        app.look_until(lambda text: b"Nothing is built yet" in text, "the lab is open")
        app.type(b"b")
        app.look_until(lambda text: b"mdadm --create" in text, "the plan")
        app.look(0.5)
        app.type(b"r")
        app.look_until(lambda text: b"writes known data on md0" in text, "an array in sync")
        app.look(options.quiet_seconds)
        before, begin, painted = app.cpu_seconds(), time.monotonic(), len(app.painted)
        app.look(options.seconds)
        elapsed = time.monotonic() - begin
        used = {who: (value - before[who]) / elapsed for who, value in app.cpu_seconds().items()}
        painted_bytes = sum(len(data) for _, data in app.painted[painted:])
    finish(
        "app_idle",
        "part of a core that an idle app takes with its machine: its process, the embedded kernel, the supervisor",
        sum(used.values()),
        BOUND_FRACTION,
        at_most=True,
        details={
            **{f"{who}_fraction": round(value, 4) for who, value in used.items()},
            "painted_bytes_per_second": round(painted_bytes / elapsed),
            "seconds": options.seconds,
            "load_average": load_average(),
        },
    )


if __name__ == "__main__":
    main()
