"""Many short runs of random 4 KiB loads in one start of fio, each counted in a window in which its queue is full.

In virtual time, a start of fio costs seconds of this computer's time, so the runs are sections of one job. Each has
different addresses (randrepeat=0 with a seed, because fio before 3.36 otherwise ignores the seed). Every I/O is logged
with the time of its completion, and those in the window are counted. The window begins after the ramp and ends when fio
stops issuing I/Os, so that it contains neither the filling nor the draining of the queue. Emulated drives answer at
regular intervals from the beginning of the run. If every window began at the same time, all would contain the same
fraction of an interval. Therefore the beginning of each window is random.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from lab.disks import Lab

_MILLISECONDS = 1000
_LONGEST_DELAY_SECONDS = 0.2
"""Many times the time between two completions of a drive."""
READ_SHARE_PERCENT = 70

# The arguments are the beginning and the end of each section's window in ms. The name of a log contains its section
# (from 0) and its number in fio (from 1). A line of a log begins with the time of a completion in ms since the
# section's start.
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
    """The value of fio's rw."""
    depth: int
    ramp_seconds: float
    window_seconds: float
    seed: int
    runs_beside: bool = False
    """Whether the run begins together with the previous section, on a different device, instead of after it."""


def settling_seconds(depth: int) -> float:
    """Return the time after which the start no longer affects an array of emulated drives with 75 I/Os per second.

    It is not enough that the queue is full. At first, the requests are spread evenly over the members, which makes the
    array too fast. With 32 in flight, it was 3 to 5 % too fast in the half second after 1.2 s, and even more for parity
    writes.
    """
    return 0.5 + depth * 0.15


def measured_rates(lab: Lab, runs: Sequence[Run]) -> list[float]:
    """Return the I/Os per second of each run, in the order of ``runs``."""
    lines = ["[global]", "ioengine=libaio", "direct=1", "bs=4k", "time_based", "thread", "randrepeat=0"]
    lines += [f"rwmixread={READ_SHARE_PERCENT}", "disable_slat=1", "disable_clat=1"]
    if lab.machine.facts.is_virtual_time:
        lines.append("clocksource=clock_gettime")
    bounds: list[str] = []
    for number, run in enumerate(runs):
        # The times are whole milliseconds, as in the log.
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
