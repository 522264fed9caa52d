"""Predicted IOPS compared with measured IOPS on six spindles, for all levels, both directions and four queue depths.

The arrays are measured both healthy and degraded. A bare spindle at queue depth 1 gives the service time, from which
everything else is predicted. On the kernel with virtual time (the default), no other work on the computer can disturb
the measurement. With --points, a run that was stopped continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from benchmarks.support.report import StoredPoints, asked, finish, rewrite
from benchmarks.support.rig import Measured, OneArray, drives, measure
from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, Lab, specs
from lab.theory.model import DiskRates, predict_load
from lab.units import MIB
from lab.workloads.workload import AccessPattern, Direction, Workload

MEMBERS = {"single": 1, "raid0": 6, "raid1": 2, "raid4": 6, "raid5": 6, "raid6": 6, "raid10": 6}
FAILURES = {"raid1": 1, "raid4": 1, "raid5": 1, "raid6": 2, "raid10": 1}
DEPTHS = (1, 4, 16, 64)
DISK_BYTES = 128 * MIB
BOUND = 0.03


@dataclass(frozen=True, slots=True)
class Options:
    on: str = "uml:?time=virtual"
    seconds: float = 120.0
    levels: tuple[str, ...] = tuple(MEMBERS)
    depths: tuple[int, ...] = DEPTHS
    table: Annotated[Path | None, "a document whose table is replaced"] = None
    points: Annotated[Path | None, "a file of points, one per line; its points are not measured again"] = None
    minutes: Annotated[float, "time in minutes after which no measurement begins"] = 1e6


SMOKE = Options(seconds=2.0, levels=("raid0",), depths=(1,))


@dataclass(frozen=True, slots=True)
class Cell:
    level: str
    failed: int
    direction: str
    depth: int


@dataclass(frozen=True, slots=True)
class Point:
    """One measured cell. Latencies are in seconds."""

    level: str
    members: int
    failed: int
    direction: str
    depth: int
    predicted_iops: float
    measured_iops: float
    ratio: float
    predicted_mean_seconds: float
    measured_mean_seconds: float
    predicted_p95_seconds: float
    measured_p95_seconds: float
    reason: str

    @property
    def cell(self) -> Cell:
        return Cell(self.level, self.failed, self.direction, self.depth)


def cells(levels: Sequence[str], depths: Sequence[int]) -> list[Cell]:
    """Return the cells in the order in which they can be measured, level by level and by number of failed members."""
    return [
        Cell(level, failed, direction, depth)
        for level in levels
        for failed in range(FAILURES.get(level, 0) + 1)
        for direction in ("read", "write")
        for depth in depths
    ]


class Rig:
    """Six spindles of a lab. There is one array at a time, on the first of them."""

    def __init__(self, lab: Lab, seconds: float) -> None:
        self.lab, self.seconds = lab, seconds
        self._array = OneArray(lab)
        self._failed: set[tuple[str, str]] = set()
        """The level and node of each member that has failed."""
        alone = measure(lab, lab.disks[0].node, "read", 1, seconds=seconds, seed=1).iops
        self.rates = DiskRates(alone, alone, 0.0, 0.0)

    def point(self, cell: Cell) -> Point:
        spec = self._array.of(cell.level, MEMBERS[cell.level], assume_clean=cell.level in FAILURES)
        for node in spec.members[: cell.failed]:
            if (spec.level, node) not in self._failed:
                self.lab.execute(operations.fail(spec.name, node))
                self._failed.add((spec.level, node))
        seed = 1000 + cell.depth
        measured = measure(self.lab, spec.device, cell.direction, cell.depth, seconds=self.seconds, seed=seed)
        return compared(cell, spec, self.rates, measured)


def compared(cell: Cell, spec: ArraySpec, rates: DiskRates, measured: Measured) -> Point:
    members = len(spec.members)
    workload = Workload(
        id="point",
        title="",
        shows="",
        direction=Direction(cell.direction),
        pattern=AccessPattern.RANDOM,
        block_bytes=4096,
        queue_depth=cell.depth,
    )
    working = spec.raid.capacity_bytes(members, DISK_BYTES - MIB)
    predicted = predict_load(
        spec.raid, [rates] * members, workload, failed=frozenset(range(cell.failed)), working_bytes=working
    )
    return Point(
        level=spec.level,
        members=members,
        failed=cell.failed,
        direction=cell.direction,
        depth=cell.depth,
        predicted_iops=round(predicted.iops, 2),
        measured_iops=round(measured.iops, 2),
        ratio=round(predicted.iops / measured.iops, 4),
        predicted_mean_seconds=round(predicted.mean_seconds, 6),
        measured_mean_seconds=round(measured.mean_seconds, 6),
        predicted_p95_seconds=round(predicted.p95_seconds or 0.0, 6),
        measured_p95_seconds=round(measured.p95_seconds, 6),
        reason=predicted.reason,
    )


def markdown(found: list[Point], target: str, seconds: float) -> str:
    """Return the table of docs/theory.md."""
    depths = sorted({point.depth for point in found})
    heads = " | ".join(f"QD {depth}: predicted / measured (ratio)" for depth in depths)
    lines = [
        f"Random 4 KiB, IOPS; `{target}`, {seconds:g} s of the machine's time per cell. Largest deviation "
        f"{100 * max(abs(point.ratio - 1) for point in found):.1f} %.",
        "",
        f"| level | members | failed | | {heads} |",
        "|---" * (4 + len(depths)) + "|",
    ]
    rows = dict.fromkeys((point.level, point.members, point.failed, point.direction) for point in found)
    for row in rows:
        cells = [p for p in found if (p.level, p.members, p.failed, p.direction) == row]
        texts = [f"{p.predicted_iops:.1f} / {p.measured_iops:.1f} ({p.ratio:.3f})" for p in cells]
        lines.append(f"| {row[0]} | {row[1]} | {row[2]} | {row[3]} | {' | '.join(texts)} |")
    return "\n".join(lines)


def main() -> None:
    options = asked(SMOKE)
    wanted = cells(options.levels, options.depths)
    stored = StoredPoints(options.points, Point)
    missing = [cell for cell in wanted if cell not in {point.cell for point in stored}]
    if missing:
        disks = specs(max(MEMBERS.values()), DiskKind.SPINDLE, size_bytes=DISK_BYTES, model="hdd-7200")
        with drives(options.on, disks) as lab:
            rig = Rig(lab, options.seconds)
            stored.measure(missing, options.minutes, lambda cell: [rig.point(cell)])
    found = {point.cell: point for point in stored}
    points = [found[cell] for cell in wanted]
    if options.table:
        rewrite(options.table, "accuracy", markdown(points, options.on, options.seconds))
    finish(
        "largest deviation of predicted from measured IOPS over all cells",
        max(abs(point.ratio - 1) for point in points),
        "<=",
        BOUND,
        points=[asdict(point) for point in points],
    )


if __name__ == "__main__":
    main()
