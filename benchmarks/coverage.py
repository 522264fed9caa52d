"""How often the 95 % interval of a cell's repeats contains the true value, over cells of many levels, loads and depths.

Each cell is a level, a load and a queue depth on emulated drives of 7200 rpm. Its repeats are short runs, each with
different addresses. There are six of them, or as many as the rule of adaptive length requires. The true value comes
from a run that is fifty times as long, and has addresses of its own. The interval is the one that every table shows
(lab.results.statistics). A drive at a constant pace gives the same number of I/Os in every run. All repeats are then
the same count, and the interval is a point. A count does not include fractions of an I/O, so such an interval is
widened by one I/O to either side. The report says how many cells needed this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from benchmarks.support.report import StoredPoints, asked, finish, notice
from benchmarks.support.rig import drives
from benchmarks.support.windows import Run, measured_rates, settling_seconds
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, Lab, specs
from lab.results.statistics import Estimate, estimate, looks
from lab.units import MIB

LEVELS = {"raid0": 4, "raid1": 2, "raid4": 3, "raid5": 3, "raid6": 4, "raid10": 4}
LOADS = ("randread", "randwrite", "randrw")
DEPTHS = (1, 2, 4, 8, 16)
ADAPTIVE_DEPTHS = (2, 8)
"""Queue depths at which cells are measured until their interval is narrow."""
REPEATS, MOST_REPEATS, HALF_WIDTH = 6, 20, 0.05
LOOKS = looks(REPEATS, MOST_REPEATS)
SHORTEST_SECONDS = 0.5
TIMES_AS_LONG = 50
DISK_BYTES = 64 * MIB
BOUND = 0.93


@dataclass(frozen=True, slots=True)
class Options:
    on: str = "uml:?time=virtual"
    levels: tuple[str, ...] = tuple(LEVELS)
    depths: tuple[int, ...] = DEPTHS
    points: Annotated[Path | None, "a file of points, one per line; its points are not measured again"] = None
    minutes: Annotated[float, "time in minutes after which no measurement begins"] = 1e6


SMOKE = Options(levels=("raid0", "raid5"), depths=(1,))


@dataclass(frozen=True, slots=True)
class Point:
    level: str
    load: str
    depth: int
    repeats: tuple[float, ...]
    """I/Os per second. An adaptive cell has the maximum number of repeats."""
    truth: float

    @property
    def is_one_count(self) -> bool:
        """Whether all repeats have the same number of I/Os, so that the interval is a point."""
        return len(set(self.repeats[: self.interval().n])) == 1

    @property
    def is_adaptive(self) -> bool:
        return self.depth in ADAPTIVE_DEPTHS

    def interval(self) -> Estimate:
        """Return the interval that a table would show. In an adaptive cell, repeats after its last look are ignored."""
        if not self.is_adaptive:
            return estimate(self.repeats[:REPEATS])
        found = [estimate(self.repeats[: look.n], LOOKS) for look in LOOKS]
        return next((each for each in found if each.half_width_fraction <= HALF_WIDTH), found[-1])


def build(lab: Lab, levels: Sequence[str]) -> dict[str, str]:
    """Build every level on separate disks, and map levels to devices."""
    nodes = [disk.node for disk in lab.disks]
    devices = {}
    for number, level in enumerate(levels):
        own, nodes = tuple(nodes[: LEVELS[level]]), nodes[LEVELS[level] :]
        # Blank drives are consistent without a resync.
        spec = ArraySpec(level, own, name=f"md{number}", assume_clean=level != "raid0")
        lab.execute(spec.creation())
        devices[level] = spec.device
    return devices


def window_seconds(depth: int) -> float:
    """Return the window of a short run, which is long compared with the time that a queue takes to change members.

    With 16 in flight, this time is most of a second. Most shorter runs would show the full pace, and few would show an
    idle member. Their median would lie above the long run's mean, however many there were.
    """
    return max(SHORTEST_SECONDS, depth / 8)


def steps(depths: Sequence[int] = DEPTHS) -> list[tuple[str, int]]:
    """Return the loads and depths. Each is measured in one start of fio, on all levels side by side."""
    return [(load, depth) for load in LOADS for depth in depths]


def measured(lab: Lab, devices: dict[str, str], load: str, depth: int) -> Iterator[Point]:
    """Yield one point for each level. The levels share no disk and, in virtual time, no processor."""
    count = MOST_REPEATS if depth in ADAPTIVE_DEPTHS else REPEATS
    windows = [window_seconds(depth)] * count + [window_seconds(depth) * TIMES_AS_LONG]
    first_seed = 1 + 1_000_000 * steps().index((load, depth))
    runs = [
        Run(device, load, depth, settling_seconds(depth), window, first_seed + 1000 * n + place, place > 0)
        for n, window in enumerate(windows)
        for place, device in enumerate(devices.values())
    ]
    rates = measured_rates(lab, runs)
    for place, level in enumerate(devices):
        own = rates[place :: len(devices)]
        yield Point(level, load, depth, tuple(own[:-1]), own[-1])


def main() -> None:
    options = asked(SMOKE)
    found = StoredPoints(options.points, Point)
    planned = steps(options.depths)
    levels = options.levels
    wanted = [step for step in planned if step not in {(point.load, point.depth) for point in found}]
    disks = specs(sum(LEVELS[level] for level in levels), DiskKind.SPINDLE, size_bytes=DISK_BYTES, model="hdd-7200")
    if wanted:
        with drives(options.on, disks) as lab:
            devices = build(lab, levels)
            found.measure(wanted, options.minutes, lambda step: list(measured(lab, devices, *step)))
    report(found, options)


def report(found: Sequence[Point], options: Options) -> None:
    lines: list[dict[str, Any]] = []
    for point in found:
        each = point.interval()
        slack = 1 / window_seconds(point.depth) if point.is_one_count else 0.0
        lines.append(
            {
                "cell": f"{point.level}, {point.load}, depth {point.depth}",
                "rule": "adaptive" if point.is_adaptive else "fixed",
                "repeats": each.n,
                "median": round(each.median, 2),
                "interval": [round(each.low, 2), round(each.high, 2)],
                "truth": round(point.truth, 3),
                "is_one_count": point.is_one_count,
                "holds": each.low - slack <= point.truth <= each.high + slack,
                "holds_as_it_is": each.low <= point.truth <= each.high,
            }
        )
    for line in lines:
        notice(json.dumps(line))

    def share(lines: list[dict[str, Any]]) -> dict[str, object]:
        held = sum(bool(line["holds"]) for line in lines)
        return {"cells": len(lines), "held": held, "share": round(held / max(1, len(lines)), 4)}

    adaptive = [line for line in lines if line["rule"] == "adaptive"]
    uneven = [line for line in lines if not line["is_one_count"]]
    finish(
        f"share of cells whose 95 % interval contains the true value, from a run {TIMES_AS_LONG} times as long; "
        "the smaller of the shares of all cells and of the cells whose repeats differ",
        min(sum(bool(line["holds"]) for line in group) / len(group) for group in (lines, uneven)),
        ">=",
        BOUND,
        all=share(lines),
        adaptive=share(adaptive),
        adaptive_stopped_at={look.n: sum(line["repeats"] == look.n for line in adaptive) for look in LOOKS},
        fixed=share([line for line in lines if line["rule"] == "fixed"]),
        of_several_counts=share(uneven),
        of_one_count=share([line for line in lines if line["is_one_count"]]),
        held_without_the_allowance_of_one_io=sum(bool(line["holds_as_it_is"]) for line in lines),
        window_seconds={depth: window_seconds(depth) for depth in DEPTHS},
        on=options.on,
        lines=lines,
    )


if __name__ == "__main__":
    main()
