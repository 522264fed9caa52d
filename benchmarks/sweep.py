"""What a sweep costs in addition to its cells: Dask's overhead, planning and resuming 10,000 cells, two workers' gain.

The overhead is measured on real cells of about two seconds with one worker. It is the time from the first cell's start
to the last one's end, compared with the sum of the cells' own times. Then two workers measure the same number of
similar cells. For resuming, the store contains 10,000 cells as a sweep leaves them, which are copies of one real cell's
file with different keys, and the command resumes their sweep.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from benchmarks.support.report import asked, finish, private_state, run_raidlab
from lab.gates.decoding import decode_json
from lab.machine import Host, parse_target
from lab.sweep.cells import CellDone, cell_store, unpacked_cell
from lab.sweep.cluster import parse_cluster
from lab.sweep.schema import find_sweep
from lab.sweep.service import SweepPlan, SweepRequest, plan_sweep, run_sweep

MOST_OVERHEAD = 0.05
MOST_SHARE = 0.6
"""Share of the time that one worker takes for the same number of cells."""
CELLS_A_DEPTH = 500
MOST_SECONDS, MOST_BYTES = 10.0, 500 << 20
FILE = """\
format_version = 2
id = "bench-{name}"
title = "A benchmark"
question = "What does it cost?"
[disks]
kind = "spindle"
size_bytes = "16M"
[array]
assume_clean = true
[[jobs]]
workload = "rand-read-4k"
runtime_seconds = 3.0
warmup_seconds = 1.5
[sweep]
level = ["raid0", "raid5", "raid6", "raid10"]
members = {members}
chunk = {chunks}
queue_depth = {depths}
drive = ["hdd-10k"]
"""


@dataclass(frozen=True, slots=True)
class Options:
    cells: Annotated[int, "number of cells for the overhead"] = 20
    planned: Annotated[int, "number of cells to plan, in steps of 500"] = 10_000


SMOKE = Options(cells=4, planned=500)


def sweep_file(folder: Path, name: str, members: list[int], chunks: list[str], depths: list[int]) -> Path:
    text = FILE.format(name=name, members=members, chunks=json.dumps(chunks), depths=depths)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def planned(path: Path, workers: int, *rules: str) -> tuple[SweepPlan, SweepRequest]:
    cluster, allowed = parse_cluster(f"local:{workers}"), frozenset(rules)
    request = SweepRequest(parse_target("uml:"), Host.real("benchmark"), cluster, allowed_rules=allowed)
    return plan_sweep(*find_sweep(str(path)), request), request


def measured(folder: Path, count: int, chunk: str, workers: int) -> list[tuple[float, float]]:
    """Let ``workers`` measure cells with this chunk. Return when each was stored, in order, and how long it took."""
    path = sweep_file(folder, f"chunk-{chunk.lower()}", [4], [chunk], list(range(1, (count + 4) // 4 + 1)))
    plan, request = planned(path, workers)
    outcome = run_sweep(plan, request)
    assert outcome.measured == len(plan.tasks)
    store = cell_store(request.host)
    return sorted(
        (store.path(task.key).stat().st_mtime, done.seconds)
        for task in plan.tasks
        if (done := store.load(task.key)) is not None
    )


def overhead(folder: Path, count: int) -> tuple[dict[str, float], dict[str, object]]:
    """Return the time between cells as a share of the cells' own, and two workers' time as a share of one worker's."""
    finished, by_two = measured(folder, count, "64K", 1), measured(folder, count, "128K", 2)
    # The first cell of a worker also loads modules, so it is not part of the measurement.
    own = sum(seconds for _, seconds in finished[1:])
    wall = finished[-1][0] - finished[0][0]
    two = by_two[-1][0] - by_two[1][0]
    # With two workers, two cells are excluded, so the single worker has one more cell to measure.
    share = two / (len(by_two) - 2) / (wall / (len(finished) - 1))
    return {"overhead": round(wall / own - 1, 4), "share_of_two_workers": round(share, 4)}, {
        "cells": len(finished) - 1,
        "own_seconds": round(own, 2),
        "wall_seconds": round(wall, 2),
        "two_workers_seconds": round(two, 2),
        "seconds_a_cell": round(own / (len(finished) - 1), 2),
    }


def fill(plan: SweepPlan, host: Host, like: bytes) -> None:
    """Put every cell of a plan into the store, as if it had been measured."""
    head, _, record = gzip.decompress(like).partition(b"\n")
    done = decode_json(head, CellDone)
    store = cell_store(host)
    for task in plan.tasks:
        rows = tuple(msgspec.structs.replace(row, cell=task.key) for row in done.rows)
        line = msgspec.json.encode(msgspec.structs.replace(done, key=task.key, rows=rows))
        path = store.path(task.key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(gzip.compress(line + b"\n" + record, compresslevel=1, mtime=0))


def many(folder: Path, like: bytes, count: int) -> dict[str, object]:
    """Plan ``count`` cells, none of which is stored. Then resume a sweep whose cells are all stored."""
    members, chunks = list(range(4, 29)), ["16K", "32K", "64K", "128K", "256K"]
    path = sweep_file(folder, "many", members, chunks, list(range(1, count // CELLS_A_DEPTH + 1)))
    rule = "too-short-for-latency"
    words = ("--json", "--quiet", "sweep", str(path), "--allow", rule)
    only_planned = run_raidlab(*words, "--plan")
    cells = json.loads(only_planned.output)["cells"]
    assert len(cells) == count, len(cells)
    plan, request = planned(path, 1, rule)
    fill(plan, request.host, like)
    run_sweep(*planned(path, 1, rule))
    resumed = run_raidlab(*words, "--resume")
    result = json.loads(resumed.output)
    assert (result["reused"], result["measured"]) == (count, 0), result
    return {
        "plan_seconds": round(only_planned.seconds, 2),
        "plan_bytes": only_planned.peak_bytes,
        "resume_seconds": round(resumed.seconds, 2),
        "resume_bytes": resumed.peak_bytes,
    }


def main() -> None:
    options = asked(SMOKE)
    count = max(1, options.planned // CELLS_A_DEPTH) * CELLS_A_DEPTH
    with private_state() as folder:
        parts, figures = overhead(folder, options.cells)
        like = next((folder / "sweeps/cells").glob("*/*.cell")).read_bytes()
        assert unpacked_cell(like, "a cell").rows
        found = many(folder, like, count)
    seconds = max(float(str(found["plan_seconds"])), float(str(found["resume_seconds"])))
    peak = max(int(str(found["plan_bytes"])), int(str(found["resume_bytes"])))
    finish(
        "the worst of: Dask's overhead ÷ 5 %, time with two workers ÷ time with one ÷ 0.6, "
        f"seconds for {count} cells planned or resumed ÷ 10, their memory ÷ 500 MiB",
        max(
            parts["overhead"] / MOST_OVERHEAD,
            parts["share_of_two_workers"] / MOST_SHARE,
            seconds / MOST_SECONDS,
            peak / MOST_BYTES,
        ),
        "<=",
        1.0,
        **{**parts, **figures, "cells_planned": count, **found},
    )


if __name__ == "__main__":
    main()
