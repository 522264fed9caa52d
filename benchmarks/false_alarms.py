"""How often the same configuration is called different, and how often a drive that is 10 % slower is noticed.

Usage: false_alarms.py [--on TARGET] [--pairs N] [--seconds S] [--minutes M] [--keep FILE]

Two arrays of two spindles each: one of drives with 20 ms, one with 22 ms. For each pair twenty runs on the first array,
twenty more on the same array, and twenty on the slower one, in an order drawn at random; each run is a start of its own
with other addresses. The verdicts are those of every table: rank test, 95 % interval, margin of 5 %. Runs this short
differ by four percent, so six of them could tell a slow-down of ten in every second pair only (and say so); twenty is
what an experiment of adaptive length goes up to.
On the kernel with virtual time (the default) other work on the computer adds no noise: what is left is that of the
addresses, the smallest that runs of this length have, so differences are not drowned. --on uml: shows real time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, pstdev

from benchmarks.support.report import finish, private_state
from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, Lab, open_lab
from lab.disks.kinds import DiskSpec
from lab.machine import Host, parse_target
from lab.results.statistics import ratio_of_medians
from lab.results.verdicts import Outcome, judge
from lab.units import MIB

REPEATS = 20
PAIRS_AT_ONCE = 1
PERSONALITIES = {"pace-a": 20.4, "pace-b": 22.4}
"""Milliseconds with those of the transport; the delays are 20 and 22."""
FALSE_ALARM_BOUND, FOUND_BOUND = 0.05, 0.95
DIFFERENT = (Outcome.FASTER, Outcome.SLOWER)


@dataclass(frozen=True, slots=True)
class Trio:
    """The runs of each."""

    first: tuple[float, ...]
    again: tuple[float, ...]
    slower: tuple[float, ...]


def personalities(folder: Path) -> None:
    """Two drives of the user's own, where the lab looks for them."""
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    place = folder / "raidlab" / "personalities"
    place.mkdir(parents=True)
    for name, milliseconds in PERSONALITIES.items():
        text = f'title = "a drive of {milliseconds} ms"\nservice_milliseconds = {milliseconds}\n'
        (place / f"{name}.toml").write_text(text)


def disks() -> list[DiskSpec]:
    """Two of each pace."""
    names = [name for name in PERSONALITIES for _ in range(2)]
    return [
        DiskSpec(name=f"disk{n:02d}", kind=DiskKind.SPINDLE, size_bytes=64 * MIB, personality=name)
        for n, name in enumerate(names, start=1)
    ]


def build(lab: Lab) -> tuple[str, str]:
    """The two arrays."""
    nodes = [disk.node for disk in lab.disks]
    specs = [ArraySpec("raid0", tuple(nodes[2 * n : 2 * n + 2]), name=f"md{n}") for n in range(2)]
    for spec in specs:
        lab.execute(operations.create(spec))
    return specs[0].device, specs[1].device


def trios(lab: Lab, count: int, seconds: float, draw: random.Random, end: float) -> Iterator[Trio]:
    """``count`` of them, some for each start of fio, whose sections run one after another."""
    fast, slow = build(lab)
    done = 0
    while done < count and time.monotonic() < end:
        batch = min(PAIRS_AT_ONCE, count - done)
        order: list[tuple[int, int]] = []
        for number in range(batch):
            runs = [(number, kind) for kind in range(3) for _ in range(REPEATS)]
            draw.shuffle(runs)
            order += runs
        devices = [slow if kind == 2 else fast for _, kind in order]
        measured = run_all(lab, devices, seconds, draw.randrange(1 << 30))
        values: dict[tuple[int, int], list[float]] = {}
        for place, iops in zip(order, measured, strict=True):
            values.setdefault(place, []).append(iops)
        for number in range(batch):
            yield Trio(*(tuple(values[number, kind]) for kind in range(3)))
        done += batch


def run_all(lab: Lab, devices: Sequence[str], seconds: float, seed: int) -> list[float]:
    """IOPS of one run on each device, in this order."""
    lines = ["[global]", "ioengine=libaio", "direct=1", "bs=4k", "rw=randread", "iodepth=16", "time_based", "stonewall"]
    lines += [f"runtime={seconds:g}", "randrepeat=0"]
    if lab.machine.facts.is_virtual_time:
        lines.append("clocksource=clock_gettime")
    for number, device in enumerate(devices):
        lines += [f"[run{number}]", f"filename={device}", f"randseed={seed + number}"]
    result = lab.machine.run(
        ("fio", "--output-format=json", "-"), stdin_text="\n".join(lines) + "\n", timeout_seconds=3600
    )
    jobs = json.loads(result.stdout[result.stdout.index("{") :])["jobs"]
    # Counted I/Os over the time that they took: fio's own rate is rounded at its edges.
    return [job["read"]["total_ios"] / (job["read"]["runtime"] / 1000) for job in jobs]


def main() -> None:
    """Measure, judge, count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--on", default="uml:?time=virtual")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.25)
    parser.add_argument("--keep", type=Path, help="a file of pairs, one a line; what it has is not measured again")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no more pairs after this time")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    found = measured_before(options.keep)
    with private_state() as state:
        personalities(state / "config")
        with open_lab(parse_target(options.on), Host.real("benchmark"), wanted=disks()) as lab:
            for trio in trios(lab, options.pairs - len(found), options.seconds, random.Random(1 + len(found)), end):
                found.append(trio)
                if options.keep:
                    with options.keep.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(trio)) + "\n")
                print(f"{len(found)} of {options.pairs} pairs", file=sys.stderr, flush=True)
    report(found, options)


def measured_before(path: Path | None) -> list[Trio]:
    """What an earlier run left in its file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
    return [Trio(**{name: tuple(values) for name, values in json.loads(line).items()}) for line in lines]


def report(found: Sequence[Trio], options: argparse.Namespace) -> None:
    """The share of false alarms with its binomial interval, and that of slow-downs found."""
    from scipy import stats

    same = [judge(ratio_of_medians(each.again, each.first)).outcome for each in found]
    slower = [judge(ratio_of_medians(each.slower, each.first)).outcome for each in found]
    alarms = sum(outcome in DIFFERENT for outcome in same)
    interval = stats.binomtest(alarms, len(found)).proportion_ci()
    share_found = slower.count(Outcome.SLOWER) / len(found)
    if share_found < FOUND_BOUND:
        print(f"a 10 % slow-down was found in {share_found:.1%}, and {FOUND_BOUND:.0%} are wanted", file=sys.stderr)
    noise = [pstdev(each.first) / median(each.first) for each in found]
    finish(
        "false_alarms",
        f"share of {len(found)} equal pairs called different: lower end of its 95 % interval; "
        f"and a slow-down of 10 % must be found in {FOUND_BOUND:.0%}",
        float(interval.low) if share_found >= FOUND_BOUND else 1.0,
        FALSE_ALARM_BOUND,
        at_most=True,
        details={
            "false_alarms": alarms,
            "false_alarm_interval": [round(float(interval.low), 4), round(float(interval.high), 4)],
            "pairs": len(found),
            "slow_downs_found": round(share_found, 4),
            "same": {str(outcome): same.count(outcome) for outcome in Outcome},
            "slower": {str(outcome): slower.count(outcome) for outcome in Outcome},
            "repeats": REPEATS,
            "seconds_a_run": options.seconds,
            "noise_of_a_run": round(median(noise), 4),
            "true_ratio": round(median(median(each.slower) / median(each.first) for each in found), 4),
            "on": options.on,
        },
    )


if __name__ == "__main__":
    main()
