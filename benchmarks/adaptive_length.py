"""How much sooner a figure is found by short jobs that are repeated until its interval is narrow than by six long jobs.

Both ways measure RAID 5 on six drives of 7200 rpm. Six jobs of a minute easily give a 95 % interval of ±5 % of the
median, unless the computer has other work. The adaptive way stops as soon as its interval is that narrow. It must reach
±5 %, or at least the width that the six jobs reach. The time is that of fio and its warm-ups on the machine's clock. In
real time (--on uml:), it includes the starts of fio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from benchmarks.support.report import asked, finish, private_state
from benchmarks.support.rig import run_toml
from lab.results.record import ResultRecord
from lab.results.rows import rows

HALF_WIDTH = 0.05
BOUND = 0.25
HEAD = """
format_version = 2
id = "adaptive-length"
title = "RAID 5 on six drives"
question = "How long must be measured?"
seed = 4
file_system = "raw"
writes_files_first = false
disks = { kind = "spindle", model = "hdd-7200", size_bytes = "64M" }
arrays = [{ id = "raid5", level = "raid5", members = 6, assume_clean = true }]
"""
FIXED = """
jobs = [{{ workload = "rand-read-4k", queue_depth = 16, jobs = 1, runtime_seconds = {seconds}, warmup_seconds = 5.0 }}]
"""
ADAPTIVE = f"""
most_repeats = 30
wanted_half_width = {HALF_WIDTH}
jobs = [{{ workload = "rand-read-4k", queue_depth = 16, jobs = 1, runtime_seconds = 5.0, warmup_seconds = 2.0 }}]
"""


@dataclass(frozen=True, slots=True)
class Options:
    on: str = "uml:?time=virtual"
    seconds: Annotated[float, "duration of each of the six jobs"] = 60.0


SMOKE = Options(seconds=6.0)


def fio_seconds(record: ResultRecord) -> float:
    return record.timings.simulated_seconds.get("fio", record.timings.fio_seconds)


def main() -> None:
    options = asked(SMOKE)
    ways = (FIXED.format(seconds=options.seconds), ADAPTIVE)
    with private_state():
        fixed, adaptive = (run_toml(HEAD + text, options.on) for text in ways)
    found = [rows(record)[0].iops for record in (fixed, adaptive)]
    is_reached = found[1].half_width_fraction <= max(HALF_WIDTH, found[0].half_width_fraction)
    share = fio_seconds(adaptive) / fio_seconds(fixed)
    finish(
        f"time to an interval of ±{HALF_WIDTH:.0%}, as a part of that of six jobs of {options.seconds:g} s",
        share if is_reached else 1.0,
        "<=",
        BOUND,
        fixed={"iops": found[0].median, "half_width": found[0].half_width_fraction, "repeats": found[0].n},
        adaptive={"iops": found[1].median, "half_width": found[1].half_width_fraction, "repeats": found[1].n},
        seconds=[round(fio_seconds(record), 1) for record in (fixed, adaptive)],
        on=options.on,
    )


if __name__ == "__main__":
    main()
