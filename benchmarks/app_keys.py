"""Time from a key press to its effect in a terminal, while four arrays rebuild and fio runs on nine members."""

from __future__ import annotations

import random
import statistics
import time

from benchmarks.support.report import asked_one, finish, private_state, spread
from benchmarks.support.terminal import DOWN, ENTER, UP, AppInTerminal, app_in_terminal
from lab.disks import DiskKind, specs
from lab.disks.lab import lab_folder
from lab.machine import Host
from lab.units import MIB

BOUND_SECONDS = 0.05
SEED = 5
MEMBERS = 9
MIRRORS = 3
SYNC_KIB_PER_SECOND = 300
# This is one line that can be typed, because the machine does not see this computer's temporary files.
LINE = (
    'c="mdadm --create --run --homehost=any --bitmap=none"; '
    "$c /dev/md0 --level=5 --raid-devices=9 --chunk=64 /dev/ubd[a-i]; "
    "n=1; for p in jk lm no; do $c /dev/md$n --level=1 --raid-devices=2 /dev/ubd[$p]; n=$((n+1)); done; "
    f"for f in /sys/block/md?/md/sync_speed_m[ai]?; do echo {SYNC_KIB_PER_SECOND} > $f; done"
)


def build(app: AppInTerminal) -> None:
    """Type a command on the Commands screen that builds four slowly syncing arrays. Then start a load by its key."""
    app.read_until(lambda text: b"Nothing is built yet" in text, "the lab is open")
    since = len(app.painted)
    app.type(b"5")
    app.read_until(lambda text: b"Commands" in text, "the screen Commands", since)
    app.read(1.0)
    app.type(LINE.encode())
    app.read(0.5)
    app.type(ENTER)
    app.read(4.0)
    since = len(app.painted)
    # Escape would go to the shell, but F12 leaves the terminal.
    app.type(b"\x1b[24~")
    app.read(0.5)
    app.type(b"1")
    app.read_until(lambda text: b" Rack " in text and b"md3" in text, "the Lab screen with four arrays", since)
    app.read(1.0)
    app.type(b"w")
    app.read(1.0)
    app.type(ENTER)
    app.read_until(lambda text: b"p99" in text, "the load", since)
    app.read(8.0)


def main() -> None:
    rounds = asked_one("rounds", 300, "number of keys to press", smoke=3)
    rng = random.Random(SEED)
    seconds = []
    with private_state() as state:
        with lab_folder(Host.real("benchmark").state, "default") as folder:
            folder.save(specs(MEMBERS + 2 * MIRRORS, DiskKind.FILE, size_bytes=96 * MIB))
        with app_in_terminal(state) as app:
            build(app)
            before = app.cpu_seconds()
            begin = app.painted[-1][0]
            for number in range(rounds):
                since = len(app.painted)
                typed = time.monotonic()
                app.type(UP if number % 2 else DOWN)
                seconds.append(app.cursor_seconds(typed, since))
                app.read(rng.uniform(0.05, 0.35))
            used = app.cpus_busy(before, app.painted[-1][0] - begin)
    ordered = sorted(seconds)
    finish(
        "seconds from a key to its effect in the terminal, p99, while four arrays rebuild and fio runs on nine members",
        ordered[int(0.99 * (rounds - 1))],
        "<=",
        BOUND_SECONDS,
        keys=rounds,
        seconds=spread(seconds),
        p90_seconds=round(ordered[int(0.9 * (rounds - 1))], 4),
        mean_seconds=round(statistics.mean(seconds), 4),
        cpus_busy={process: round(value, 3) for process, value in used.items()},
    )


if __name__ == "__main__":
    main()
