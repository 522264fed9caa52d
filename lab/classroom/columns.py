"""A class: a folder of bundles as tables, so that thousands of results are one query. Needs duckdb.

What was read from each bundle is kept in Parquet files, one for each table, so a bundle is unpacked and its signature
checked once, and again only when its file changes.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.classroom.bundle import SUFFIX, Bundle, read_bundle
from lab.classroom.practice import is_passed, read_all, work_digest
from lab.compare.figures import HEALTHY, is_speed, singles
from lab.compare.platforms import platform_words
from lab.drills.case import DrillOutcome
from lab.errors import LabError, RequirementMissing, ResultError
from lab.gates.own import make_own_folder
from lab.gates.text import visible
from lab.host.files import storage_error
from lab.lessons.engine import Progress
from lab.lessons.schema import HINTS
from lab.results.leftovers import locked
from lab.results.store import RECORD_NAME

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEXT, _NUMBER, _WHOLE, _TRUTH = "VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN"
FILES = "files"
TABLES = {
    "figures": {
        "file": _TEXT,
        "result": _TEXT,
        "digest": _TEXT,
        "experiment": _TEXT,
        "platform": _TEXT,
        "unit": _TEXT,
        "is_single": _TRUTH,
        "workload": _TEXT,
        "direction": _TEXT,
        "iops": _NUMBER,
        "p99_seconds": _NUMBER,
        "cpu_microseconds_per_io": _NUMBER,
    },
    "outcomes": {
        "file": _TEXT,
        "outcome": _TEXT,
        "digest": _TEXT,
        "drill": _TEXT,
        "drill_file": _TEXT,
        "seed": _TEXT,
        "began_utc": _TEXT,
        "verdict": _TEXT,
        "saved_percent": _NUMBER,
        "minutes": _NUMBER,
        "touched_bytes": _WHOLE,
        "hints": _WHOLE,
        "resets": _WHOLE,
        "mistakes": _TEXT,
    },
    "lessons": {
        "file": _TEXT,
        "lesson": _TEXT,
        "digest": _TEXT,
        "seed": _TEXT,
        "is_passed": _TRUTH,
        "steps_done": _WHOLE,
        "all_hints": _TEXT,
        "by_lab": _TEXT,
    },
    FILES: {"file": _TEXT, "bytes": _WHOLE, "changed_ns": _WHOLE, "key": _TEXT, "problem": _TEXT},
}
"""Table -> its columns. Names of steps and mistakes stand with commas between them. What is known of the files comes
last: of files that are known, all else must be there."""
Rows = dict[str, list[tuple[object, ...]]]
_CHECKS = 4
"""Raised when bundles are checked in another way: what an earlier raidlab found good is looked at again."""


@contextmanager
def open_class(folder: Path, cache: Path) -> Iterator[DuckDBPyConnection]:
    """The bundles of ``folder`` as tables, read as far as they have changed; what is known is kept in ``cache``.

    Raises RequirementMissing without duckdb, ResultError for no folder, or a cache that cannot be written.
    """
    duckdb = _duckdb()
    if not folder.is_dir():
        raise ResultError(f"there is no folder '{folder}'", hint="give the folder that holds the bundles")
    place = cache / sha256(f"{_CHECKS} {visible(str(folder.resolve()))}".encode()).hexdigest()[:16]
    try:
        with duckdb.connect() as database:
            _bring_up_to_date(database, folder, place)
            yield database
    except duckdb.Error as error:
        raise ResultError(f"the class of '{folder}' cannot be read: {error}", hint=f"delete '{place}'") from None
    except OSError as error:
        raise storage_error(f"'{place}' cannot be used", error) from error


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise RequirementMissing(
            "a class view needs duckdb", hint="install it: pip install 'raidlab[classroom]'"
        ) from None
    return duckdb


def _bring_up_to_date(database: DuckDBPyConnection, folder: Path, place: Path) -> None:
    """All tables as the folder is now, in memory and in ``place``."""
    _load(database, place)
    # A name may have bytes that are no UTF-8, which no column takes.
    paths = {visible(path.name): path for path in folder.iterdir() if path.name.endswith(SUFFIX)}
    there = {name: _stamp(path) for name, path in paths.items()}
    known = {name: (size, changed) for name, size, changed in database.execute(_KNOWN).fetchall()}
    gone = [name for name, stamp in known.items() if there.get(name) != stamp]
    new = sorted(name for name, stamp in there.items() if known.get(name) != stamp)
    if not gone and not new:
        return
    for table in TABLES:
        database.execute(f"DELETE FROM {table} WHERE list_contains($names, file)", {"names": gone})
    found: Rows = {table: [] for table in TABLES}
    for name in new:
        key, problem = _read(paths[name], found)
        found[FILES].append((name, *there[name], key, problem))
    for table, rows in found.items():
        _append(database, table, rows)
    _keep(database, place)


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of change; of a link that leads nowhere its own."""
    found = path.stat() if path.exists() else path.lstat()
    return found.st_size, found.st_mtime_ns


_KNOWN = "SELECT file, bytes, changed_ns FROM files"


def _load(database: DuckDBPyConnection, place: Path) -> None:
    is_known = all((place / f"{table}.parquet").exists() for table in TABLES)
    for table, columns in TABLES.items():
        text = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        database.execute(f"CREATE TABLE {table} ({text})")
        if is_known:
            database.execute(
                f"INSERT INTO {table} SELECT {', '.join(columns)} FROM read_parquet($file)",
                {"file": str(place / f"{table}.parquet")},
            )


def _append(database: DuckDBPyConnection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Rows as columns: by the row, thousands of inserts would take a minute."""
    if not rows:
        return
    import numpy as np

    kinds: Mapping[str, Any] = {_NUMBER: float, _WHOLE: np.int64, _TRUTH: bool}
    by_column = zip(*rows, strict=True)
    batch = {
        name: np.array(values, dtype=kinds.get(kind, object))
        for (name, kind), values in zip(TABLES[table].items(), by_column, strict=True)
    }
    database.register("batch", batch)
    database.execute(f"INSERT INTO {table} SELECT * FROM batch")
    database.unregister("batch")


def _keep(database: DuckDBPyConnection, place: Path) -> None:
    make_own_folder(place, "the folder for a class")
    with locked(place / "lock", fcntl.LOCK_EX):
        # In the order of TABLES. A killed view's part is written over.
        for table in TABLES:
            part = place / f".{table}.parquet.tmp"
            database.execute(f"COPY {table} TO '{str(part).replace(chr(39), chr(39) * 2)}' (FORMAT parquet)")
            part.replace(place / f"{table}.parquet")


def _read(file: Path, found: Rows) -> tuple[str, str]:
    """Key and problem of one bundle; of what it holds, all that can be read is added to ``found``."""
    try:
        bundle = read_bundle(file)
    except LabError as error:
        return "", visible(error.message)
    problems = []
    for result_id in bundle.ids:
        try:
            found["figures"] += _figures(bundle, result_id)
        except LabError as error:
            problems.append(error.message)
    name = visible(file.name)
    try:
        for work in read_all(bundle):
            if isinstance(work, str):
                problems.append(work)
            elif isinstance(work, DrillOutcome):
                found["outcomes"].append((name, *map(_shown, _outcome(work))))
            else:
                found["lessons"].append((name, *map(_shown, _lesson(work))))
    except LabError as error:
        problems.append(error.message)
    return bundle.key_fingerprint, visible("; ".join(problems))


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) else value


def _outcome(work: DrillOutcome) -> tuple[object, ...]:
    mistakes = _joined(mistake.id for mistake in work.mistakes)
    what = (work.id, work_digest(work), work.drill, work.drill_file, work.seed, work.began_utc, work.verdict)
    return (*what, work.saved_percent, work.minutes, work.touched_bytes, work.hints, work.resets, mistakes)


def _joined(names: Iterable[str]) -> str:
    """Each once; a drill of somebody's own may call its mistakes anything."""
    return ",".join(dict.fromkeys(name.replace(",", ";") for name in names if name))


def _lesson(work: Progress) -> tuple[object, ...]:
    steps = work.steps.items()
    hinted = _joined(name for name, step in steps if step.hints >= HINTS)
    by_lab = _joined(name for name, step in steps if step.by_lab)
    done = sum(map(work.is_done, work.steps))
    return work.lesson, work_digest(work), work.seed, is_passed(work), done, hinted, by_lab


def _figures(bundle: Bundle, result_id: str) -> Iterator[tuple[object, ...]]:
    record = bundle.record(result_id)
    disks = singles(record)
    digest = bundle.manifest.sha256[f"results/{result_id}/{RECORD_NAME}"]
    common = (visible(bundle.source.name), result_id, digest, record.experiment, platform_words(record))
    for cell in record.cells:
        if cell.phase != HEALTHY:
            continue
        cost = cell.cpu.cpu_microseconds_per_io if cell.cpu else None
        for direction, section in (("read", cell.figures.reads), ("write", cell.figures.writes)):
            if section is not None and is_speed(section.iops):
                what = (cell.array, cell.array in disks, cell.workload, direction)
                yield (*common, *what, section.iops, section.p99_seconds, cost)
