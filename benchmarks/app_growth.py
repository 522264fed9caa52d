"""How much the app grows in a session of two hours: as many looks and shows, in less time."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from benchmarks.support.report import asked, finish, private_state
from benchmarks.support.terminal import DOWN, ENTER, UP, AppInTerminal, load_average
from lab.units import MIB
from tui.app import Settings, save_settings
from tui.client import HERTZ

FAST_HERTZ = 64.0
BOUND_BYTES = 20 * MIB
LONGEST_SECONDS = 3000.0
FAST_APP = "from benchmarks.support.fast_app import main; main()"


@dataclass(frozen=True, slots=True)
class Options:
    seconds: Annotated[float, "of a session, whose looks are made in less time"] = 7200.0
    first_looks: Annotated[int, "before it is counted: then all that a session needs has been loaded"] = 100


SMOKE = Options(seconds=2.0, first_looks=1)


def counts(file: Path) -> tuple[int, int]:
    """Looks and shows so far."""
    try:
        looks, shows = file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0, 0
    return int(looks), int(shows)


def wait_for_looks(app: AppInTerminal, file: Path, wanted: int) -> tuple[int, int]:
    """Use the app meanwhile, as somebody does who watches: move the cursor."""
    end = time.monotonic() + LONGEST_SECONDS
    number = 0
    while counts(file)[0] < wanted and time.monotonic() < end:
        app.look(2.0)
        # What was painted is of no further use, and would grow here.
        app.painted.clear()
        app.type(UP if number % 2 else DOWN)
        number += 1
        if number % 30 == 0:
            print(f"{counts(file)[0]} looks, {app.rss_bytes() / MIB:.1f} MiB", file=sys.stderr)
    return counts(file)


def main() -> None:
    """Build a RAID 5, load it, and watch."""
    options = asked(SMOKE)
    wanted = max(1, int(options.seconds * HERTZ))
    with private_state() as state:
        save_settings(state / "app.json", Settings(was_welcomed=True))
        file = state / "counts"
        app = AppInTerminal((str(FAST_HERTZ), str(file)), command=FAST_APP)
        try:
            app.look_until(lambda text: b"Nothing is built yet" in text, "the lab is open")
            app.type(b"b")
            app.look_until(lambda text: b"mdadm --create" in text, "the plan")
            app.look(0.5)
            app.type(b"r")
            app.look_until(lambda text: b"writes known data on md0" in text, "an array in sync")
            app.type(b"w")
            app.look(1.5)
            app.type(ENTER)
            app.look(10.0)
            before = wait_for_looks(app, file, counts(file)[0] + options.first_looks)
            first = app.rss_bytes()
            after = wait_for_looks(app, file, before[0] + wanted)
            last = app.rss_bytes()
        finally:
            app.close()
    looks, shows = after[0] - before[0], after[1] - before[1]
    finish(
        "app_growth",
        f"bytes that the app grows by in as many looks as {options.seconds:g} s have, an array under load on screen",
        last - first,
        BOUND_BYTES,
        at_most=True,
        details={
            "looks": looks,
            "shows": shows,
            "wanted_looks": wanted,
            "first_mib": round(first / MIB, 1),
            "last_mib": round(last / MIB, 1),
            "load_average": load_average(),
        },
    )


if __name__ == "__main__":
    main()
