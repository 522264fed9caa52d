"""How long a class view of 10,000 results takes: bundles made from a result with six repeats of eight cells.

The first view unpacks every bundle and checks its signature; what counts is every later one, and the first is told.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import msgspec

from benchmarks.support.report import finish, private_state, spread
from lab.classroom.bundle import load_signer, write_bundle
from lab.classroom.view import view_class
from lab.results.record import SCHEMA_VERSION, CellRecord, ResultRecord, encode_record
from lab.results.store import decode_record

RECORDED = Path(__file__).parents[1] / "tests" / "unit" / "report" / "data" / "louwrentius-quick.json"
ARRAYS = {"single": 1.0, "raid0": 3.9, "raid1": 1.8, "raid5": 2.9}
BUNDLES, RESULTS_EACH = 1000, 10
ROUNDS = 5
BOUND_SECONDS = 3.0


def students_result(recorded: ResultRecord, draw: random.Random, number: int) -> ResultRecord:
    """Four arrays, two workloads, six repeats, each a recorded cell with noise, as another computer would have it."""
    cells = [
        noisy(cell, draw, array, speed_up, repeat)
        for array, speed_up in ARRAYS.items()
        for cell in recorded.cells[:2]
        for repeat in range(6)
    ]
    arrays = tuple(msgspec.structs.replace(recorded.arrays[0], name=name, level=name) for name in ARRAYS)
    name = f"20261121T000000Z-{number:05d}"
    # Decoded, an older record has today's fields, and is written in today's format.
    now = msgspec.structs.replace(recorded, schema_version=SCHEMA_VERSION, id=name, planned_cells=())
    return msgspec.structs.replace(now, arrays=arrays, cells=tuple(cells))


def noisy(cell: CellRecord, draw: random.Random, array: str, speed_up: float, repeat: int) -> CellRecord:
    """The cell as if it had been measured on that array."""
    factor = speed_up * draw.gauss(1.0, 0.03)
    changes = {
        name: msgspec.structs.replace(section, iops=section.iops * factor)
        for name in ("reads", "writes")
        if (section := getattr(cell.figures, name)) is not None
    }
    figures = msgspec.structs.replace(cell.figures, **changes)
    return msgspec.structs.replace(cell, array=array, repeat=repeat, figures=figures, raw_file="")


def main() -> None:
    """Make a class, look at it, and look again."""
    recorded = decode_record(RECORDED.read_bytes(), source=str(RECORDED))
    draw = random.Random(1)
    with private_state() as state:
        folder = state / "bundles"
        folder.mkdir()
        signer = load_signer(state / "key.pem")
        for bundle in range(BUNDLES):
            results = [students_result(recorded, draw, bundle * RESULTS_EACH + n) for n in range(RESULTS_EACH)]
            contents = {each.id: {"record.json": encode_record(each)} for each in results}
            (folder / f"{bundle:04d}.zip").write_bytes(write_bundle(contents, signer))
        begin = time.monotonic()
        found = view_class(folder, state / "class")
        first_seconds = time.monotonic() - begin
        assert found.results == BUNDLES * RESULTS_EACH, found.problems
        taken, walls = [], []
        for _ in range(ROUNDS):
            begin, wall = time.process_time(), time.monotonic()
            view_class(folder, state / "class")
            taken.append(time.process_time() - begin)
            walls.append(time.monotonic() - wall)
    finish(
        "class_view",
        f"CPU seconds for the view of {BUNDLES * RESULTS_EACH} results in {BUNDLES} bundles, greatest of {ROUNDS}",
        max(taken),
        BOUND_SECONDS,
        at_most=True,
        details={
            "cpu_seconds": spread(taken),
            "wall_seconds": spread(walls),
            "first_seconds": round(first_seconds, 2),
            "rows": len(found.rows),
        },
    )


if __name__ == "__main__":
    main()
