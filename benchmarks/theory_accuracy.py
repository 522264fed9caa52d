"""Predicted against measured: every level, reads and writes, four queue depths, healthy and degraded, on six spindles.

Usage: theory_accuracy.py [--on TARGET] [--seconds N] [--levels raid5,raid6] [--depths 1,4] [--table docs/theory.md]

A bare spindle at queue depth 1 gives the service time; everything else is predicted from it. I/Os are counted by the
array's own statistics over a stretch in the middle of one run of fio, since fio leaves out I/Os that were in flight
when its warm-up ended. On the kernel with virtual time (the default) no other work on the computer can disturb.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.support.report import finish, private_state
from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, Lab, open_lab, specs
from lab.machine import Host, parse_target
from lab.theory.model import DiskRates, predict_load
from lab.units import MIB
from lab.workloads.workload import Direction, Pattern, Workload

MEMBERS = {"single": 1, "raid0": 6, "raid1": 2, "raid4": 6, "raid5": 6, "raid6": 6, "raid10": 6}
FAILURES = {"raid1": 1, "raid4": 1, "raid5": 1, "raid6": 2, "raid10": 1}
DEPTHS = (1, 4, 16, 64)
DISK_BYTES = 128 * MIB
BOUND = 0.05
SETTLE_SECONDS = 3
BEGIN, END = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"


@dataclass(frozen=True, slots=True)
class Point:
    """One measured cell; latencies in seconds."""

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


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of fio showed."""

    iops: float
    mean_seconds: float
    p95_seconds: float


class Rig:
    """Six spindles of a lab, and one array at a time on the first of them."""

    def __init__(self, lab: Lab, seconds: int) -> None:
        self.lab = lab
        self.seconds = seconds
        self.nodes = tuple(disk.node for disk in lab.disks)

    def counted(self, device: str, direction: str) -> tuple[float, int]:
        """The machine's uptime, and I/Os done (Documentation/block/stat.rst)."""
        path = f"/sys/block/{device.removeprefix('/dev/')}/stat"
        texts = self.lab.machine.read(["/proc/uptime", path])
        column = 0 if direction == "read" else 4
        return float((texts["/proc/uptime"] or "").split()[0]), int((texts[path] or "").split()[column])

    def measure(self, device: str, direction: str, depth: int) -> Measured:
        """A stretch of ``seconds`` in the middle of a run of fio."""
        # The last I/O of the warm-up has long been answered when counting starts.
        settle = SETTLE_SECONDS + depth // 10
        argv = ["fio", "--name=point", f"--filename={device}", "--ioengine=libaio", "--direct=1", "--bs=4k"]
        argv += [f"--rw=rand{direction}", f"--iodepth={depth}", f"--runtime={self.seconds + settle + 2}"]
        argv += ["--time_based", f"--ramp_time={settle}", "--output-format=json", "--lat_percentiles=1"]
        argv += ["--percentile_list=95", "--random_generator=tausworthe64", f"--randseed={1000 + depth}"]
        if self.lab.machine.facts.is_virtual_time:
            argv.append("--clocksource=clock_gettime")
        fio = self.lab.machine.stream(argv)
        self.wait_until_steady(device, direction)
        self.sleep(settle)
        begin, before = self.counted(device, direction)
        self.sleep(self.seconds)
        end, after = self.counted(device, direction)
        for _ in fio.chunks():
            pass
        latency = json.loads(fio.result().stdout)["jobs"][0][direction]["lat_ns"]
        p95 = latency["percentile"]["95.000000"]
        return Measured((after - before) / (end - begin), latency["mean"] / 1e9, p95 / 1e9)

    def wait_until_steady(self, device: str, direction: str) -> None:
        """Until several looks in a row find new I/Os: one alone may be somebody who reads the superblock."""
        risen, last = 0, self.counted(device, direction)[1]
        while risen < 4:
            self.sleep(0.25)
            now = self.counted(device, direction)[1]
            risen, last = (risen + 1 if now > last else 0), now

    def sleep(self, seconds: float) -> None:
        """On the machine's own clock."""
        self.lab.machine.run(("sleep", str(seconds)), timeout_seconds=3600)


def points(rig: Rig, levels: list[str], depths: list[int], rates: DiskRates) -> Iterator[Point]:
    """All cells, level after level, each on an array made afresh."""
    for level in levels:
        spec = ArraySpec(level, rig.nodes[: MEMBERS[level]], assume_clean=level in FAILURES)
        rig.lab.execute(operations.create(spec))
        for failed in range(FAILURES.get(level, 0) + 1):
            if failed:
                rig.lab.execute(operations.fail(spec.name, rig.nodes[failed - 1]))
            for direction in ("read", "write"):
                for depth in depths:
                    point = one_point(rig, spec, failed, direction, depth, rates)
                    print(json.dumps(asdict(point)), file=sys.stderr, flush=True)
                    yield point
        rig.lab.execute(operations.destroy(spec))


def one_point(rig: Rig, spec: ArraySpec, failed: int, direction: str, depth: int, rates: DiskRates) -> Point:
    """Predict and measure."""
    members = len(spec.members)
    workload = Workload(
        id="point",
        title="",
        shows="",
        direction=Direction(direction),
        pattern=Pattern.RANDOM,
        block_bytes=4096,
        queue_depth=depth,
    )
    working = spec.raid.capacity_bytes(members, DISK_BYTES - MIB)
    predicted = predict_load(
        spec.raid, [rates] * members, workload, failed=frozenset(range(failed)), working_bytes=working
    )
    measured = rig.measure(spec.device, direction, depth)
    return Point(
        level=spec.level,
        members=members,
        failed=failed,
        direction=direction,
        depth=depth,
        predicted_iops=round(predicted.iops, 2),
        measured_iops=round(measured.iops, 2),
        ratio=round(predicted.iops / measured.iops, 4),
        predicted_mean_seconds=round(predicted.mean_seconds, 6),
        measured_mean_seconds=round(measured.mean_seconds, 6),
        predicted_p95_seconds=round(predicted.p95_seconds or 0.0, 6),
        measured_p95_seconds=round(measured.p95_seconds, 6),
        reason=predicted.reason,
    )


def markdown(found: list[Point], service_seconds: float, target: str, seconds: int) -> str:
    """The table of docs/theory.md."""
    depths = sorted({point.depth for point in found})
    heads = " | ".join(f"QD {depth}: predicted / measured (ratio)" for depth in depths)
    lines = [
        f"Service time {service_seconds * 1000:.2f} ms, measured on one spindle at queue depth 1; `{target}`, "
        f"{seconds} s a cell. IOPS.",
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


def rewrite(path: Path, table: str) -> None:
    """Put the table between the two marks of a document."""
    text = path.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path} has no '{BEGIN}' and '{END}'")
    path.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


def main() -> None:
    """Measure, report, and write the table if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--on", default="uml:?time=virtual")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--levels", default=",".join(MEMBERS))
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    disks = specs(max(MEMBERS.values()), DiskKind.SPINDLE, size_bytes=DISK_BYTES, personality="hdd-7200")
    with private_state(), open_lab(parse_target(options.on), Host.real("benchmark"), wanted=disks) as lab:
        rig = Rig(lab, options.seconds)
        alone = rig.measure(rig.nodes[0], "read", 1).iops
        rates = DiskRates(alone, alone, 0.0, 0.0)
        depths = [int(word) for word in options.depths.split(",")]
        found = list(points(rig, options.levels.split(","), depths, rates))
    if options.table:
        rewrite(options.table, markdown(found, 1 / alone, options.on, options.seconds))
    finish(
        "theory_accuracy",
        "largest deviation of predicted from measured IOPS over all cells",
        max(abs(point.ratio - 1) for point in found),
        BOUND,
        at_most=True,
        details={"service_seconds": 1 / alone, "points": [asdict(point) for point in found]},
    )


if __name__ == "__main__":
    main()
