"""How much the app's memory grows over the snapshots and screen updates of two hours, which are made in less time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from benchmarks.support.report import asked, finish, notice, private_state
from benchmarks.support.terminal import DOWN, ENTER, UP, AppInTerminal, app_in_terminal
from lab.units import MIB
from tui.client import HERTZ

FAST_HERTZ = 64.0
BOUND_BYTES = 20 * MIB
LONGEST_SECONDS = 3000.0
FAST_APP = "from benchmarks.support.fast_app import main; main()"


@dataclass(frozen=True, slots=True)
class Options:
    seconds: Annotated[float, "duration of a session, whose snapshots are taken in less time"] = 7200.0
    first_looks: Annotated[int, "snapshots before measuring, so that all that a session needs is loaded"] = 100


SMOKE = Options(seconds=2.0, first_looks=1)


def counts(file: Path) -> tuple[int, int]:
    try:
        snapshots, shows = file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0, 0
    return int(snapshots), int(shows)


def wait_for_snapshots(app: AppInTerminal, file: Path, count: int) -> tuple[int, int]:
    """Wait for ``count`` snapshots, and move the cursor meanwhile, as a user who watches does."""
    end = time.monotonic() + LONGEST_SECONDS
    number = 0
    while counts(file)[0] < count and time.monotonic() < end:
        app.read(2.0)
        # The painted output is of no further use, and would accumulate here.
        app.painted.clear()
        app.type(UP if number % 2 else DOWN)
        number += 1
        if number % 30 == 0:
            notice(f"{counts(file)[0]} snapshots, {app.rss_bytes() / MIB:.1f} MiB")
    return counts(file)


def main() -> None:
    options = asked(SMOKE)
    expected = max(1, int(options.seconds * HERTZ))
    with private_state() as state:
        file = state / "counts"
        with app_in_terminal(state, (str(FAST_HERTZ), str(file)), command=FAST_APP) as app:
            app.build_array()
            app.type(b"w")
            app.read(1.5)
            app.type(ENTER)
            app.read(10.0)
            before = wait_for_snapshots(app, file, counts(file)[0] + options.first_looks)
            first = app.rss_bytes()
            after = wait_for_snapshots(app, file, before[0] + expected)
            last = app.rss_bytes()
    snapshots, shows = after[0] - before[0], after[1] - before[1]
    finish(
        f"bytes by which the app grows in as many snapshots as {options.seconds:g} s have, with an array under load",
        last - first,
        "<=",
        BOUND_BYTES,
        looks=snapshots,
        shows=shows,
        wanted_looks=expected,
        first_mib=round(first / MIB, 1),
        last_mib=round(last / MIB, 1),
    )


if __name__ == "__main__":
    main()
