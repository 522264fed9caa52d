"""How long a class view of 10,000 results takes: bundles made from a result with six repeats of sixteen cells.

The first view unpacks every bundle and checks its signature; what counts is every later one, and the first is told.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import msgspec

from benchmarks.support.report import finish, private_state, spread
from lab.compare.classroom import view_class
from lab.results.bundle import write_bundle
from lab.results.record import ResultRecord, encode_record
from lab.results.signing import load_signer
from lab.results.store import decode_record

RECORDED = Path(__file__).parents[1] / "tests" / "unit" / "report" / "data" / "louwrentius-quick.json"
BUNDLES, RESULTS_EACH = 1000, 10
ROUNDS = 5
BOUND_SECONDS = 3.0


def students_result(recorded: ResultRecord, draw: random.Random, number: int) -> ResultRecord:
    """A recorded result with the noise of another computer."""
    cells = []
    for cell in recorded.cells:
        wave = draw.gauss(1.0, 0.03)
        changes = {
            name: msgspec.structs.replace(section, iops=section.iops * wave)
            for name in ("reads", "writes")
            if (section := getattr(cell.figures, name)) is not None
        }
        cells.append(
            msgspec.structs.replace(cell, figures=msgspec.structs.replace(cell.figures, **changes), raw_file="")
        )
    return msgspec.structs.replace(recorded, id=f"20261121T000000Z-{number:05d}", cells=tuple(cells))


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
            (folder / f"{bundle:04d}.zip").write_bytes(write_bundle(contents, signer, raidlab_version="1"))
        begin = time.monotonic()
        found = view_class(folder, state / "class")
        first_seconds = time.monotonic() - begin
        assert found.results == BUNDLES * RESULTS_EACH, found.problems
        taken = []
        for _ in range(ROUNDS):
            begin = time.monotonic()
            view_class(folder, state / "class")
            taken.append(time.monotonic() - begin)
    finish(
        "class_view",
        f"seconds for the view of {BUNDLES * RESULTS_EACH} results in {BUNDLES} bundles, greatest of {ROUNDS}",
        max(taken),
        BOUND_SECONDS,
        at_most=True,
        details={"seconds": spread(taken), "first_seconds": round(first_seconds, 2), "rows": len(found.rows)},
    )


if __name__ == "__main__":
    main()
