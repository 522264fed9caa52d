"""The time and memory that a class view of 100,000 results takes, in bundles of ten results with 48 cells each.

The first view unpacks every bundle and checks its signature, in as many processes as there are processors. Every later
view only looks for bundles that have changed. Each view runs in a separate process. Making the bundles is not measured.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from benchmarks.support.report import asked_one, finish, private_state
from benchmarks.support.report import spread as spread_of
from lab.classroom.bundle import load_signer, write_bundle
from lab.host.pool import processors, spread
from lab.host.processes import isolated_python
from lab.results.record import SCHEMA_VERSION, CellRecord, ResultRecord, encode_record
from lab.results.store import decode_record
from tests.cluster.keeper import descendants_of

RECORDED = Path(__file__).parents[1] / "tests" / "unit" / "report" / "data" / "louwrentius-quick.json"
ARRAYS = {"single": 1.0, "raid0": 3.9, "raid1": 1.8, "raid5": 2.9}
BUNDLES, RESULTS_EACH = 10_000, 10
ROUNDS = 5
FIRST_SECONDS, LATER_SECONDS, MOST_MIB = 300.0, 2.0, 1024.0
SAMPLE_SECONDS = 0.1


def students_result(recorded: ResultRecord, draw: random.Random, number: int) -> ResultRecord:
    """Return a result with four arrays, two workloads and six repeats, made from recorded cells with noise."""
    cells = [
        noisy(cell, draw, array, speed_up, repeat)
        for array, speed_up in ARRAYS.items()
        for cell in recorded.cells[:2]
        for repeat in range(6)
    ]
    arrays = tuple(msgspec.structs.replace(recorded.arrays[0], name=name, level=name) for name in ARRAYS)
    name = f"20261121T000000Z-{number:05d}"
    # A decoded older record has today's fields, and is written in today's format.
    now = msgspec.structs.replace(recorded, schema_version=SCHEMA_VERSION, id=name, planned_cells=())
    return msgspec.structs.replace(now, arrays=arrays, cells=tuple(cells))


def noisy(cell: CellRecord, draw: random.Random, array: str, speed_up: float, repeat: int) -> CellRecord:
    factor = speed_up * draw.gauss(1.0, 0.03)
    changes = {
        name: msgspec.structs.replace(section, iops=section.iops * factor)
        for name in ("reads", "writes")
        if (section := getattr(cell.figures, name)) is not None
    }
    figures = msgspec.structs.replace(cell.figures, **changes)
    return msgspec.structs.replace(cell, array=array, repeat=repeat, figures=figures, raw_file="")


def made(jobs: tuple[Path, range]) -> None:
    folder, numbers = jobs
    recorded = decode_record(RECORDED.read_bytes(), source=str(RECORDED))
    signer = load_signer(folder.parent / "key.pem")
    for bundle in numbers:
        draw = random.Random(bundle)
        results = [students_result(recorded, draw, bundle * RESULTS_EACH + n) for n in range(RESULTS_EACH)]
        contents = {each.id: {"record.json": encode_record(each)} for each in results}
        (folder / f"{bundle:05d}.zip").write_bytes(write_bundle(contents, signer))


VIEW_PROGRAM = """if True:
    import json, resource, sys, time
    from pathlib import Path
    begin = time.monotonic()
    from lab.classroom.view import view_class
    found = view_class(Path(sys.argv[1]), Path(sys.argv[2]))
    wall = time.monotonic() - begin
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in used)
    assert not found.problems, found.problems
    print(json.dumps({"wall": wall, "cpu": cpu, "results": found.results, "rows": len(found.rows)}))
"""


def measured_view(folder: Path, cache: Path) -> dict[str, float]:
    """Measure one view in a separate process. Return seconds, and its peak proportional memory including helpers."""
    argv = list(isolated_python("-c", VIEW_PROGRAM, str(folder), str(cache)))
    peak = 0.0
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as viewer:
        while viewer.poll() is None:
            peak = max(peak, sum(map(own_mib, {viewer.pid, *descendants_of(viewer.pid)})))
            time.sleep(SAMPLE_SECONDS)
        assert viewer.stdout
        assert viewer.returncode == 0
        return {**json.loads(viewer.stdout.read()), "peak_mib": peak}


def own_mib(process: int) -> float:
    """Return the proportional set size, which counts shared memory only once (proc_pid_smaps(5))."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    wanted = asked_one("results", BUNDLES * RESULTS_EACH, "number of results, in bundles of ten", smoke=20)
    bundles = max(1, wanted // RESULTS_EACH)
    with private_state() as state:
        folder = state / "bundles"
        folder.mkdir()
        load_signer(state / "key.pem")
        jobs = [(folder, range(first, min(first + 50, bundles))) for first in range(0, bundles, 50)]
        with spread(made, jobs, processors()) as making:
            for _ in making:
                pass
        first = measured_view(folder, state / "class")
        assert first["results"] == bundles * RESULTS_EACH, first
        later = [measured_view(folder, state / "class") for _ in range(ROUNDS)]
        made((folder, range(bundles, bundles + 1)))
        more = measured_view(folder, state / "class")
        assert more["results"] == first["results"] + RESULTS_EACH, more
    peak = max(each["peak_mib"] for each in (first, more, *later))
    shares = {
        "first_seconds": first["wall"] / FIRST_SECONDS,
        "later_seconds": max(each["wall"] for each in later) / LATER_SECONDS,
        "peak_mib": peak / MOST_MIB,
    }
    finish(
        f"{bundles * RESULTS_EACH} results in {bundles} bundles: greatest share of a bound",
        max(shares.values()),
        "<=",
        1.0,
        processors=processors(),
        first=rounded(first) | {"bound_seconds": FIRST_SECONDS},
        later_wall_seconds=spread_of([each["wall"] for each in later]) | {"bound": LATER_SECONDS},
        later_cpu_seconds=spread_of([each["cpu"] for each in later]),
        one_bundle_more=rounded(more),
        peak_mib=round(peak),
        shares_of_bounds=rounded(shares),
    )


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in values.items()}


if __name__ == "__main__":
    main()
