"""Many short runs of random 4 KiB loads in one start of fio, each counted over a window in which it is in full flight.

A start of fio costs seconds of the computer in virtual time, so the runs are sections of one job. Each has addresses of
its own (randrepeat=0 with a seed; before 3.36 fio ignores the seed otherwise). Every I/O is logged with the time of its
answer, and those of the window are counted: from the end of the ramp to the moment when fio stops asking, so that
neither the filling nor the draining of the queue is in it. Emulated drives answer in step, and all of them began with
the run: were every window opened at the same moment, all would hold the same odd part of an answer. So it is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from lab.disks import Lab

_MILLISECONDS = 1000
_LONGEST_DELAY_SECONDS = 0.2
"""Many times that between two answers of a drive."""
READ_SHARE_PERCENT = 70

# $1 the number of sections; then, for each, its ramp and its end in ms. Logs are named after their section (from 0) and
# its number in fio (from 1); a line begins with the time of an answer in ms since the start of the section.
_SCRIPT = """
set -e
folder=$(mktemp -d); cd "$folder"
fio --output=fio.json --output-format=json - || { cat fio.json; exit 1; }
number=0
while [ $# -gt 0 ]; do
  log=run${number}_lat.$((number+1)).log
  awk -F, -v from="$1" -v to="$2" '$1 >= from && $1 < to { n++ } END { print n + 0 }' "$log"
  shift 2; number=$((number+1))
done
cd /; rm -r "$folder"
"""


@dataclass(frozen=True, slots=True)
class Run:
    device: str
    load: str
    """As fio's rw."""
    depth: int
    ramp_seconds: float
    window_seconds: float
    seed: int
    runs_beside: bool = False
    """Whether it begins with the section before it, on another device, instead of after it."""


def settling_seconds(depth: int) -> float:
    """After so long an array of emulated drives of 75 I/Os a second has forgotten how it began.

    Not only must the queue be full: it begins evenly spread over the members, and while it does the array is too fast.
    With 32 in flight it was 3 to 5 % too fast over half a second after 1.2 s, parity writes even more.
    """
    return 0.5 + depth * 0.15


def measured_rates(lab: Lab, runs: Sequence[Run]) -> list[float]:
    """I/Os a second of each run, in their order."""
    lines = ["[global]", "ioengine=libaio", "direct=1", "bs=4k", "time_based", "thread", "randrepeat=0"]
    lines += [f"rwmixread={READ_SHARE_PERCENT}", "disable_slat=1", "disable_clat=1"]
    if lab.machine.facts.is_virtual_time:
        lines.append("clocksource=clock_gettime")
    bounds: list[str] = []
    for number, run in enumerate(runs):
        # A whole number of milliseconds, as the log has them.
        delay = random.Random(run.seed).uniform(0, _LONGEST_DELAY_SECONDS)
        begin = round((run.ramp_seconds + delay) * _MILLISECONDS)
        end = begin + round(run.window_seconds * _MILLISECONDS)
        lines += [f"[run{number}]", f"filename={run.device}", f"rw={run.load}", f"iodepth={run.depth}"]
        lines += [f"randseed={run.seed}", f"runtime={end}ms", f"write_lat_log=run{number}"]
        if not run.runs_beside:
            lines.append("stonewall")
        bounds += [str(begin), str(end)]
    job = "\n".join(lines) + "\n"
    result = lab.machine.run(("sh", "-c", _SCRIPT, "measure", *bounds), stdin_text=job, timeout_seconds=7200)
    counts = [int(line) for line in result.stdout.split()]
    return [count / run.window_seconds for count, run in zip(counts, runs, strict=True)]
