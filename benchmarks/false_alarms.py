"""How often two equal configurations are called different, and how often a drive that is 10 % slower is noticed.

There are two arrays of two spindles each, one with drives of 20 ms and one with drives of 22 ms. Each trio consists of
runs on the first array, the same number of further runs on it, and the same number on the slower array, in random
order. Each run has different addresses, and is counted while its queue is full. The verdicts are those of every table,
from rank tests with a margin of 5 %. Short runs differ by a few percent, so the verdicts are reported for several
numbers of repeats up to twenty, to show how many are needed. On the kernel with virtual time (the default), other work
on the computer adds no noise. Only the noise of the addresses is left, which is the smallest that runs of this length
can have. --on uml: measures in real time.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Annotated, Any

from benchmarks.support.report import StoredPoints, asked, finish, notice, private_state
from benchmarks.support.windows import Run, measured_rates
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, DiskSpec, Lab, open_lab, specs
from lab.machine import Host, parse_target
from lab.results.statistics import Asked, RatioOutcome, RatioTest, judge_family
from lab.units import MIB

MOST_REPEATS = 20
COUNTS = (6, 8, 10, 12, 16, 20)
DEPTH = 4
RAMP_SECONDS = 0.4
DRIVE_MODELS = {"pace-a": 20.4, "pace-b": 22.4}
"""Milliseconds, including those of the transport. The delays are 20 and 22."""
FALSE_ALARM_BOUND, FOUND_BOUND = 0.05, 0.95
DIFFERENT = (RatioOutcome.FASTER, RatioOutcome.SLOWER)


@dataclass(frozen=True, slots=True)
class Options:
    on: str = "uml:?time=virtual"
    trios: int = 60
    seconds: Annotated[float, "duration of each run"] = 0.8
    keep: Annotated[Path | None, "a file of trios, one per line; its trios are not measured again"] = None
    minutes: Annotated[float, "time in minutes after which no measurement begins"] = 1e6


SMOKE = Options(trios=1, seconds=0.1)


@dataclass(frozen=True, slots=True)
class Trio:
    """The I/Os per second of the runs on the first array, of more runs on it, and of those on the slower array."""

    first: tuple[float, ...]
    again: tuple[float, ...]
    slower: tuple[float, ...]


def models(folder: Path) -> None:
    """Store two drive models where the lab looks for the user's own."""
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    place = folder / "raidlab" / "drive-models"
    place.mkdir(parents=True)
    for name, milliseconds in DRIVE_MODELS.items():
        text = f'title = "a drive of {milliseconds} ms"\nservice_milliseconds = {milliseconds}\n'
        (place / f"{name}.toml").write_text(text)


def disks() -> list[DiskSpec]:
    slow, slower = (
        specs(2, DiskKind.SPINDLE, size_bytes=64 * MIB, model=name, first=first)
        for name, first in zip(DRIVE_MODELS, (1, 3), strict=True)
    )
    return [*slow, *slower]


def build(lab: Lab) -> tuple[str, str]:
    nodes = [disk.node for disk in lab.disks]
    fast, slow = (ArraySpec("raid0", tuple(nodes[2 * n : 2 * n + 2]), name=f"md{n}") for n in range(2))
    lab.execute(fast.creation() + slow.creation())
    return fast.device, slow.device


def trio(lab: Lab, fast: str, slow: str, number: int, seconds: float) -> Trio:
    """Measure a trio in one start of fio, whose sections run one after another."""
    draw = random.Random(number)
    order = [kind for kind in range(3) for _ in range(MOST_REPEATS)]
    draw.shuffle(order)
    seeds = draw.sample(range(1 << 30), len(order))
    runs = [
        Run(slow if kind == 2 else fast, "randread", DEPTH, RAMP_SECONDS, seconds, seed)
        for kind, seed in zip(order, seeds, strict=True)
    ]
    rates = measured_rates(lab, runs)
    return Trio(*(tuple(rate for rate, of in zip(rates, order, strict=True) if of == kind) for kind in range(3)))


def main() -> None:
    options = asked(SMOKE)
    found = StoredPoints(options.keep, Trio)
    if len(found) < options.trios:
        with private_state() as state:
            models(state / "config")
            with open_lab(parse_target(options.on), Host.real("benchmark"), wanted=disks()) as lab:
                arrays, wanted = build(lab), range(len(found), options.trios)
                found.measure(wanted, options.minutes, lambda number: [trio(lab, *arrays, number, options.seconds)])
    report(found, options)


def judged(trios: Sequence[Trio], repeats: int) -> dict[str, Any]:
    """Return the verdicts on the first ``repeats`` of each, and the share of false alarms with a binomial interval."""
    from scipy import stats

    def outcomes(name: str) -> list[RatioOutcome]:
        pairs = [(getattr(trio, name)[:repeats], trio.first[:repeats]) for trio in trios]
        tests = [RatioTest.paired(dict(enumerate(a)), dict(enumerate(b))) for a, b in pairs]
        return [judge_family([Asked(test)])[0].outcome for test in tests]

    same, slower = outcomes("again"), outcomes("slower")
    alarms = sum(outcome in DIFFERENT for outcome in same)
    interval = stats.binomtest(alarms, len(trios)).proportion_ci()
    return {
        "repeats": repeats,
        "same": {str(outcome): same.count(outcome) for outcome in RatioOutcome},
        "slower": {str(outcome): slower.count(outcome) for outcome in RatioOutcome},
        "false_alarms": round(alarms / len(trios), 4),
        "false_alarm_interval": (round(float(interval.low), 4), round(float(interval.high), 4)),
        "found": round(slower.count(RatioOutcome.SLOWER) / len(trios), 4),
    }


def report(found: Sequence[Trio], options: Options) -> None:
    by_count = [judged(found, count) for count in COUNTS]
    enough = next((each for each in by_count if each["found"] >= FOUND_BOUND), None)
    if enough is None:
        notice(f"a 10 % slow-down was not found in {FOUND_BOUND:.0%} of the trios with {COUNTS[-1]} repeats")
    noise = [pstdev(each.first) / fmean(each.first) for each in found]
    finish(
        f"share of {len(found)} equal pairs called different, with as many repeats as find a slow-down of 10 % in "
        f"{FOUND_BOUND:.0%} of cases",
        enough["false_alarms"] if enough else 1.0,
        "<=",
        FALSE_ALARM_BOUND,
        trios=len(found),
        repeats_that_find_the_slower=enough["repeats"] if enough else None,
        by_repeats=by_count,
        seconds_a_run=options.seconds,
        noise_of_a_run=round(median(noise), 4),
        true_ratio=round(fmean(fmean(each.slower) / fmean(each.first) for each in found), 4),
        on=options.on,
    )


if __name__ == "__main__":
    main()
