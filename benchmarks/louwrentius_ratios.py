"""The orders and ratios of the louwrentius study on six emulated drives, with intervals from repeats.

The loads are random 4 KiB I/Os on the bare arrays. At queue depth 4, as in the study, they show the orders. At 64,
where the members are busy, they show the ratios of the study's theory, 225 : 112.5 : 75. Each repeat has different
addresses, and goes through the levels in a different order.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from benchmarks.support.report import StoredPoints, asked, finish, rewrite
from benchmarks.support.rig import OneArray, drives, measure
from lab.disks import DiskKind, specs
from lab.results.statistics import Estimate, RatioTest
from lab.units import MIB

LEVELS = ("raid0", "raid10", "raid5", "raid6")
CELLS = (("read", 4), ("write", 4), ("write", 64))
DEPTHS = (4, 64)
DISKS = 6
DISK_BYTES = 128 * MIB
EQUAL = 0.07
"""Reads of RAID 0, 5 and 6 count as equal within this share."""
MARK = "louwrentius"


@dataclass(frozen=True, slots=True)
class Options:
    on: str = "uml:?time=virtual"
    seconds: float = 45.0
    repeats: int = 6
    depths: tuple[int, ...] = DEPTHS
    table: Annotated[Path | None, "a document whose table is replaced"] = None
    points: Annotated[Path | None, "a file of cells, one per line; its cells are not measured again"] = None
    minutes: Annotated[float, "time in minutes after which no measurement begins"] = 1e6


SMOKE = Options(seconds=1.0, repeats=1, depths=(4,))


@dataclass(frozen=True, slots=True)
class Cell:
    repeat: int
    level: str
    direction: str
    depth: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio of two levels, and the limits between which its whole interval must lie."""

    text: str
    above: str
    below: str
    direction: str
    depth: int
    at_least: float
    at_most: float


CLAIMS = (
    Claim("reads: RAID 10 ahead of RAID 0", "raid10", "raid0", "read", 4, 1.0, 2.0),
    Claim("reads: RAID 5 like RAID 0", "raid5", "raid0", "read", 4, 1 - EQUAL, 1 + EQUAL),
    Claim("reads: RAID 6 like RAID 0", "raid6", "raid0", "read", 4, 1 - EQUAL, 1 + EQUAL),
    Claim("writes: RAID 0 ahead of RAID 10", "raid0", "raid10", "write", 4, 1.0, 10.0),
    Claim("writes: RAID 10 ahead of RAID 5", "raid10", "raid5", "write", 4, 1.0, 10.0),
    Claim("writes: RAID 5 ahead of RAID 6", "raid5", "raid6", "write", 4, 1.0, 10.0),
    Claim("all busy: RAID 10 to RAID 5 like 225 to 112.5", "raid10", "raid5", "write", 64, 1.9, 2.1),
    Claim("all busy: RAID 5 to RAID 6 like 112.5 to 75", "raid5", "raid6", "write", 64, 1.4, 1.6),
)


def planned(repeats: int, depths: Collection[int]) -> list[Cell]:
    found = []
    for repeat in range(repeats):
        order = list(LEVELS)
        random.Random(repeat).shuffle(order)
        found += [
            Cell(repeat, level, direction, depth) for level in order for direction, depth in CELLS if depth in depths
        ]
    return found


def iops(array: OneArray, cell: Cell, seconds: float) -> float:
    spec = array.of(cell.level, DISKS, assume_clean=cell.level != "raid0")
    seed = 100 * cell.repeat + cell.depth
    return measure(array.lab, spec.device, cell.direction, cell.depth, seconds=seconds, seed=seed).iops


def ratio(claim: Claim, found: Mapping[Cell, float]) -> Estimate:
    """Return the claim's ratio with its interval, from paired repeats."""

    def values(level: str) -> dict[int, float]:
        cells = [cell for cell in found if (cell.level, cell.direction, cell.depth) == (level, *kind)]
        return {cell.repeat: found[cell] for cell in cells}

    kind = (claim.direction, claim.depth)
    return RatioTest.paired(values(claim.above), values(claim.below)).ratio


def holds(claim: Claim, estimate: Estimate) -> bool:
    return claim.at_least < estimate.low and estimate.high < claim.at_most


def markdown(estimates: Mapping[Claim, Estimate], repeats: int, options: Options) -> str:
    """Return the table of docs/theory.md."""
    lines = [
        f"{repeats} repeats of {options.seconds:g} s in random order, `{options.on}`; Hodges-Lehmann ratio with its "
        f"interval of {100 * min(each.coverage for each in estimates.values()):.0f} %.",
        "",
        "| claim | queue depth | ratio | interval | |",
        "|---|---|---|---|---|",
    ]
    for claim, each in estimates.items():
        verdict = "holds" if holds(claim, each) else "does not hold"
        lines.append(
            f"| {claim.text} | {claim.depth} | {each.median:.3f} | {each.low:.3f} to {each.high:.3f} | {verdict} |"
        )
    return "\n".join(lines)


def main() -> None:
    options = asked(SMOKE)
    wanted = planned(options.repeats, options.depths)
    points = StoredPoints(options.points, tuple[Cell, float])
    missing = [cell for cell in wanted if cell not in dict(points)]
    if missing:
        disks = specs(DISKS, DiskKind.SPINDLE, size_bytes=DISK_BYTES, model="hdd-7200")
        with drives(options.on, disks) as lab:
            array = OneArray(lab)
            points.measure(missing, options.minutes, lambda cell: [(cell, iops(array, cell, options.seconds))])
    found = dict(points)
    estimates = {claim: ratio(claim, found) for claim in CLAIMS if claim.depth in options.depths}
    if options.table:
        rewrite(options.table, MARK, markdown(estimates, options.repeats, options))
    finish(
        "share of the study's orders and ratios that hold with their whole interval",
        sum(holds(claim, each) for claim, each in estimates.items()) / len(estimates),
        ">=",
        1.0,
        **{claim.text: [each.median, each.low, each.high] for claim, each in estimates.items()},
    )


if __name__ == "__main__":
    main()
