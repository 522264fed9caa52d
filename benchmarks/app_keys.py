"""Key press to painted, in a terminal, while four arrays rebuild and fio runs on nine members."""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path

from benchmarks.support.report import finish, private_state, spread
from benchmarks.support.terminal import DOWN, ENTER, UP, AppInTerminal, app_in_terminal, load_average
from lab.disks import DiskKind, specs
from lab.disks.lab_files import lab_folder
from lab.machine import Host
from lab.units import MIB

KEYS = 300
BOUND_SECONDS = 0.05
SEED = 5
MEMBERS = 9
MIRRORS = 3
SYNC_KIB_PER_SECOND = 300
SCRIPT = """set -e
create="mdadm --create --run --quiet --homehost=any --bitmap=none"
$create /dev/md0 --level=5 --raid-devices=9 --chunk=64 {striped}
{mirrors}
for array in md0 md1 md2 md3; do
  for limit in min max; do echo {speed} > /sys/block/$array/md/sync_speed_$limit; done
done
"""


def letters(first: int, count: int) -> str:
    """Device nodes of file disks."""
    return " ".join(f"/dev/ubd{chr(ord('a') + number)}" for number in range(first, first + count))


def build(app: AppInTerminal, folder: Path) -> None:
    """Four arrays that are slowly made redundant, typed by hand on the screen Commands; then a load by its key."""
    mirrors = "\n".join(
        f"$create /dev/md{number + 1} --level=1 --raid-devices=2 {letters(MEMBERS + 2 * number, 2)}"
        for number in range(MIRRORS)
    )
    script = folder / "build.sh"
    script.write_text(SCRIPT.format(striped=letters(0, MEMBERS), mirrors=mirrors, speed=SYNC_KIB_PER_SECOND))
    app.look_until(lambda text: b"Nothing is built yet" in text, "the lab is open")
    since = len(app.painted)
    app.type(b"5")
    app.look_until(lambda text: b"Commands" in text, "the screen Commands", since)
    app.look(1.0)
    app.type(f"sh {script}".encode())
    app.look(0.5)
    app.type(ENTER)
    app.look(4.0)
    since = len(app.painted)
    app.type(b"\x1b")
    app.look(0.5)
    app.type(b"1")
    app.look_until(lambda text: b" Rack " in text and b"md3" in text, "the Lab screen with four arrays", since)
    app.look(1.0)
    app.type(b"w")
    app.look(1.0)
    app.type(ENTER)
    app.look_until(lambda text: b"p99" in text, "the load", since)
    app.look(8.0)


def main() -> None:
    """Move the rack's cursor at random moments and wait each time until it is seen to have moved."""
    rng = random.Random(SEED)
    seconds = []
    with private_state() as state:
        with lab_folder(Host.real("benchmark").state, "default") as folder:
            folder.save(specs(MEMBERS + 2 * MIRRORS, DiskKind.FILE, size_bytes=96 * MIB))
        with app_in_terminal(state) as app:
            build(app, state)
            before = app.cpu_seconds()
            begin = app.painted[-1][0]
            for number in range(KEYS):
                since = len(app.painted)
                typed = app.type(UP if number % 2 else DOWN)
                taken, _ = app.cursor_seconds(typed, since)
                seconds.append(taken)
                app.look(rng.uniform(0.05, 0.35))
            elapsed = app.painted[-1][0] - begin
            used = {who: (value - before[who]) / elapsed for who, value in app.cpu_seconds().items()}
    ordered = sorted(seconds)
    print(f"{KEYS} keys", file=sys.stderr)
    finish(
        "app_keys",
        "seconds from a key to its effect on the terminal, p99, while four arrays rebuild and fio runs on nine members",
        ordered[int(0.99 * (KEYS - 1))],
        BOUND_SECONDS,
        at_most=True,
        details={
            "keys": KEYS,
            "seconds": spread(seconds),
            "p90_seconds": round(ordered[int(0.9 * (KEYS - 1))], 4),
            "mean_seconds": round(statistics.mean(seconds), 4),
            "cpus_busy": {who: round(value, 3) for who, value in used.items()},
            "load_average": load_average(),
        },
    )


if __name__ == "__main__":
    main()
