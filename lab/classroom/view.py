"""A class: a folder of bundles as columns, so that thousands of results are one query. Needs duckdb.

What was read from each bundle is kept in two Parquet files, so a bundle is unpacked and its signature checked once,
and again only when its file changes.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.classroom.bundle import SUFFIX, Bundle, read_bundle
from lab.compare.figures import HEALTHY, is_speed, singles
from lab.compare.platforms import platform_words
from lab.errors import LabError, RequirementMissing, ResultError
from lab.gates.own import make_own_folder
from lab.gates.text import visible
from lab.host.files import storage_error
from lab.results.leftovers import locked
from lab.results.store import RECORD_NAME

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEXT, _NUMBER, _WHOLE = "VARCHAR", "DOUBLE", "BIGINT"
FILE_COLUMNS = {"file": _TEXT, "bytes": _WHOLE, "changed_ns": _WHOLE, "key": _TEXT, "problem": _TEXT}
FIGURE_COLUMNS = {
    "file": _TEXT,
    "result": _TEXT,
    "digest": _TEXT,
    "experiment": _TEXT,
    "platform": _TEXT,
    "unit": _TEXT,
    "is_single": "BOOLEAN",
    "workload": _TEXT,
    "direction": _TEXT,
    "iops": _NUMBER,
    "p99_seconds": _NUMBER,
    "cpu_microseconds_per_io": _NUMBER,
}
_CHECKS = 2
"""Raised when bundles are checked in another way: what an earlier raidlab found good is looked at again."""
_FILES, _FIGURES = "files.parquet", "figures.parquet"


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One array and workload over the whole class: every result's IOPS over those of its own baseline."""

    experiment: str
    array: str
    workload: str
    direction: str
    baseline: str
    """The array that each is divided by: the single disk, where there is one."""
    results: int
    lowest: float
    first_quartile: float
    median: float
    third_quartile: float
    highest: float
    values: tuple[float, ...]
    """Of every result, sorted."""
    far: tuple[str, ...]
    """Files whose value is far from the others (modified z-score above 3.5, and 5 %)."""


@dataclass(frozen=True, slots=True)
class ClassView:
    """What a class measured."""

    files: int
    results: int
    problems: tuple[str, ...]
    """Bundles that cannot be used, and why."""
    copies: tuple[tuple[str, ...], ...]
    """Files that hold the very same measurement."""
    keys: Mapping[str, tuple[str, ...]]
    """Key that signed -> files."""
    rows: tuple[ClassRow, ...]


def view_class(folder: Path, cache: Path) -> ClassView:
    """The bundles of ``folder``, read as far as they have changed; what is known of them is kept in ``cache``.

    Raises RequirementMissing without duckdb, ResultError for no folder, or a cache that cannot be written.
    """
    duckdb = _duckdb()
    if not folder.is_dir():
        raise ResultError(f"there is no folder '{folder}'", hint="give the folder that holds the bundles")
    place = cache / sha256(f"{_CHECKS} {visible(str(folder.resolve()))}".encode()).hexdigest()[:16]
    try:
        with duckdb.connect() as database:
            _bring_up_to_date(database, folder, place)
            return _view(database)
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
    """Tables ``files`` and ``figures`` as the folder is now, in memory and in ``place``."""
    _load(database, place)
    # A name may have bytes that are no UTF-8, which no column takes.
    paths = {visible(path.name): path for path in folder.iterdir() if path.name.endswith(SUFFIX)}
    there = {name: _stamp(path) for name, path in paths.items()}
    known = {name: (size, changed) for name, size, changed in database.execute(_KNOWN).fetchall()}
    gone = [name for name, stamp in known.items() if there.get(name) != stamp]
    new = sorted(name for name, stamp in there.items() if known.get(name) != stamp)
    if not gone and not new:
        return
    for table in ("files", "figures"):
        database.execute(f"DELETE FROM {table} WHERE list_contains($names, file)", {"names": gone})
    files: list[tuple[object, ...]] = []
    figures: list[tuple[object, ...]] = []
    for name in new:
        key, problem, rows = _read(paths[name])
        files.append((name, *there[name], key, problem))
        figures += rows
    _append(database, "files", FILE_COLUMNS, files)
    _append(database, "figures", FIGURE_COLUMNS, figures)
    _keep(database, place)


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of change; of a link that leads nowhere its own."""
    found = path.stat() if path.exists() else path.lstat()
    return found.st_size, found.st_mtime_ns


_KNOWN = "SELECT file, bytes, changed_ns FROM files"


def _load(database: DuckDBPyConnection, place: Path) -> None:
    for table, columns, name in (("files", FILE_COLUMNS, _FILES), ("figures", FIGURE_COLUMNS, _FIGURES)):
        text = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        database.execute(f"CREATE TABLE {table} ({text})")
        if (place / _FILES).exists() and (place / _FIGURES).exists():
            database.execute(
                f"INSERT INTO {table} SELECT {', '.join(columns)} FROM read_parquet($file)", {"file": str(place / name)}
            )


def _append(
    database: DuckDBPyConnection, table: str, columns: Mapping[str, str], rows: Sequence[tuple[object, ...]]
) -> None:
    """Rows as columns: by the row, thousands of inserts would take a minute."""
    if not rows:
        return
    import numpy as np

    kinds = {_NUMBER: float, _WHOLE: np.int64, "BOOLEAN": bool}
    by_column = zip(*rows, strict=True)
    batch = {
        name: np.array(values, dtype=kinds.get(kind, object))
        for (name, kind), values in zip(columns.items(), by_column, strict=True)
    }
    database.register("batch", batch)
    database.execute(f"INSERT INTO {table} SELECT * FROM batch")
    database.unregister("batch")


def _keep(database: DuckDBPyConnection, place: Path) -> None:
    make_own_folder(place, "the folder for a class")
    with locked(place / "lock", fcntl.LOCK_EX):
        # Figures first: of files that are known, the figures must be there. A killed view's part is written over.
        for table, name in (("figures", _FIGURES), ("files", _FILES)):
            part = place / f".{name}.tmp"
            database.execute(f"COPY {table} TO '{str(part).replace(chr(39), chr(39) * 2)}' (FORMAT parquet)")
            part.replace(place / name)


def _read(file: Path) -> tuple[str, str, list[tuple[object, ...]]]:
    """Key, problem and figures of one bundle; of its results, those that can be read."""
    try:
        bundle = read_bundle(file)
    except LabError as error:
        return "", visible(error.message), []
    rows: list[tuple[object, ...]] = []
    problems = []
    for result_id in bundle.ids:
        try:
            rows += _figures(bundle, result_id)
        except LabError as error:
            problems.append(error.message)
    return bundle.key_fingerprint, visible("; ".join(problems)), rows


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


# ``unit`` is the array (a word of SQL). Each result's baseline is its own single disk; of an experiment without one,
# its first array by name.
_ROWS = """
WITH medians AS (
  SELECT experiment, file, result, unit, bool_or(is_single) AS is_single, workload, direction, median(iops) AS iops
  FROM figures GROUP BY ALL
), baselines AS (
  SELECT experiment, coalesce(min(unit) FILTER (is_single), min(unit)) AS baseline FROM medians GROUP BY experiment
), ratios AS (
  SELECT ours.experiment, ours.file, ours.unit, ours.workload, ours.direction, baseline, ours.iops / base.iops AS ratio
  FROM medians ours JOIN baselines USING (experiment)
  JOIN medians base ON base.experiment = ours.experiment AND base.file = ours.file AND base.result = ours.result
    AND base.workload = ours.workload AND base.direction = ours.direction AND base.unit = baseline
  WHERE ours.unit <> baseline
), middles AS (
  SELECT experiment, unit, workload, direction, median(ratio) AS middle, mad(ratio) AS spread FROM ratios GROUP BY ALL
)
SELECT experiment, unit, workload, direction, any_value(baseline), count(*),
  min(ratio), quantile_cont(ratio, 0.25), any_value(middle), quantile_cont(ratio, 0.75), max(ratio),
  list(ratio ORDER BY ratio),
  list(file ORDER BY file) FILTER (abs(ratio - middle) > greatest(3.5 * spread / 0.6745, 0.05 * middle))
FROM ratios JOIN middles USING (experiment, unit, workload, direction)
GROUP BY experiment, unit, workload, direction ORDER BY experiment, workload, direction, any_value(middle) DESC
"""
_COPIES = """
SELECT list(DISTINCT file ORDER BY file) FROM figures GROUP BY digest HAVING count(DISTINCT file) > 1 ORDER BY 1
"""
_FILES_AND_PROBLEMS = "SELECT count(*), list(problem ORDER BY file) FILTER (problem <> '') FROM files"
_RESULTS = "SELECT count(DISTINCT (file, result)) FROM figures"
_KEYS = "SELECT key, list(file ORDER BY file) FROM files WHERE key <> '' GROUP BY key ORDER BY key"


def _view(database: DuckDBPyConnection) -> ClassView:
    def fetch(query: str) -> list[Any]:
        return database.execute(query).fetchall()

    files, problems = fetch(_FILES_AND_PROBLEMS)[0]
    rows = [_class_row(*each) for each in fetch(_ROWS)]
    return ClassView(
        files=files,
        results=fetch(_RESULTS)[0][0],
        problems=tuple(problems or ()),
        copies=tuple(tuple(names) for (names,) in fetch(_COPIES)),
        keys={key: tuple(names) for key, names in fetch(_KEYS)},
        rows=tuple(rows),
    )


def _class_row(*columns: Any) -> ClassRow:
    """From the columns of ``_ROWS``, which stand in the order of the fields."""
    row = dict(zip((field.name for field in fields(ClassRow)), columns, strict=True))
    return ClassRow(**{**row, "values": tuple(row["values"]), "far": tuple(row["far"] or ())})
