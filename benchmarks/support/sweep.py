"""A sweep with known speeds. Each cell's speed is the product of one factor for each of its axes, with noise."""

from __future__ import annotations

import hashlib
import random
from itertools import product

from lab.sweep.grid import CellRow, FailedCell, SweepResult

LEVELS = {"raid0": (1.0, 1.0), "raid10": (1.0, 0.5), "raid5": (0.95, 0.28), "raid6": (0.93, 0.18), "raid1": (0.9, 0.4)}
MEMBERS = (4, 5, 6, 8, 12)
CHUNKS = (16384, 65536, 131072, 262144, 524288)
DEPTHS = (1, 4, 16, 32, 64)
DRIVES = {"hdd-7200": 75.0, "ssd-sata": 9000.0}
WORKLOADS = {"rand-read-4k": 4096, "rand-write-4k": 4096, "rand-mixed-8k": 8192, "seq-read-1m": 1048576}
AXES: dict[str, tuple[str | int, ...]] = {
    "level": tuple(LEVELS),
    "members": MEMBERS,
    "chunk": ("16K", "64K", "128K", "256K", "512K"),
    "queue_depth": DEPTHS,
    "drive": tuple(DRIVES),
    "workload": tuple(WORKLOADS),
}
CONSOLE = (
    "md/raid:md0: device vdb operational as raid disk 0\nmd: md0: recovery done.\nKernel panic - not syncing: made up"
)


def made_sweep(*, failed: int = 3, repeats: int = 3, seed: int = 1) -> SweepResult:
    """Return 5,000 cells, minus failed ones. Mixes have reads and writes. RAID 1 has chunks, to fill the whole grid."""
    draw = random.Random(seed)
    cells = list(product(LEVELS, MEMBERS, CHUNKS, DEPTHS, DRIVES, WORKLOADS))
    lost = set(draw.sample(range(len(cells)), failed))
    rows: list[CellRow] = []
    for number, cell in enumerate(cells):
        if number not in lost:
            rows += _rows(number, cell, repeats, draw)
    labels = (", ".join(map(str, cells[number])) for number in sorted(lost))
    return SweepResult(
        id="20261125T100000Z-made",
        title="Made up: which level for which load?",
        question="How do chunk size, number of drives and queue depth change the speed of each level?",
        created_utc="2026-11-25T10:00:00Z",
        toml='format_version = 1\n[axes]\nlevel = ["raid0", "raid10"]\n',
        axes=AXES,
        planned=len(cells),
        rows=tuple(rows),
        failed=tuple(
            FailedCell(cell=f"{n:064x}", label=label, message="the embedded kernel panicked", console=CONSOLE)
            for n, label in enumerate(labels)
        ),
    )


def _rows(number: int, cell: tuple[str, int, int, int, str, str], repeats: int, draw: random.Random) -> list[CellRow]:
    level, members, chunk, depth, drive, workload = cell
    directions = ("read", "write") if "mixed" in workload else ("write",) if "write" in workload else ("read",)
    block = WORKLOADS[workload]
    made = []
    for direction in directions:
        share = LEVELS[level][direction == "write"]
        busy = min(members, depth) if "rand" in workload else members
        predicted = DRIVES[drive] * share * busy * (1 + 0.05 * CHUNKS.index(chunk)) / (1 if block < 10**6 else 12)
        # One in a hundred is far from its expected value.
        off = draw.choice((0.4, 0.7, 1.6)) if draw.random() < 0.01 else 1.0
        iops = predicted * off * draw.uniform(0.97, 1.03)
        width = iops * draw.uniform(0.005, 0.03)
        made.append(
            CellRow(
                cell=hashlib.sha256(f"cell {number}".encode()).hexdigest(),
                digest=hashlib.sha256(f"digest {number}".encode()).hexdigest(),
                level=level,
                members=members,
                chunk_bytes=chunk,
                drive=drive,
                kernel="",
                workload=workload,
                direction=direction,
                block_bytes=block,
                queue_depth=depth,
                jobs=1,
                repeats=repeats,
                iops=iops,
                iops_low=iops - width,
                iops_high=iops + width,
                bytes_per_second=iops * block,
                mean_seconds=depth / iops,
                p99_seconds=3.1 * depth / iops,
                predicted_iops=predicted,
                is_virtual_time=True,
                computer=f"node{number % 8}",
                measured_utc=f"2026-11-25T10:{number % 60:02d}:00Z",
                seconds=draw.uniform(3, 9),
                stamps="fewer-than-six: 3 repeats" if repeats < 6 else "",
            )
        )
    return made
