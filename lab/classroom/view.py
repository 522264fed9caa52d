"""The measurements of a class: the distribution of each student's speed-ups over the student's own disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.classroom.folder import Tell, open_class, silent
from lab.classroom.standing import ClassPractice, CopiedWork, practice_in
from lab.units import counted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One array and workload over the class: IOPS of each result divided by those of its own baseline."""

    experiment: str
    array: str
    workload: str
    direction: str
    baseline: str
    """The array that divides the others: the single disk, or the first array by name."""
    results: int
    lowest: float
    first_quartile: float
    median: float
    third_quartile: float
    highest: float
    values: tuple[float, ...]
    """The ratios of all results, in ascending order."""
    far: tuple[str, ...]
    """Files with an outlier: a modified z-score above 3.5, and a deviation of more than 5 %."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A workload that some results measured without the baseline, so that it gives no ratio."""

    experiment: str
    workload: str
    direction: str
    baseline: str
    results: int

    @property
    def words(self) -> str:
        return (
            f"left out: {self.workload}, {self.direction}, of {counted(self.results, 'result')}: not measured on "
            f"{self.baseline}, so there is nothing to divide by"
        )


@dataclass(frozen=True, slots=True)
class ClassView:
    """The measurements and the practice of a class."""

    files: int
    results: int
    problems: Mapping[str, str]
    """Bundles that are damaged in whole or in part -> the problem."""
    copies: tuple[CopiedWork, ...]
    """Identical measurements in bundles of different keys."""
    keys: Mapping[str, tuple[str, ...]]
    """Fingerprint of the key -> files that it signed."""
    rows: tuple[ClassRow, ...]
    left_out: tuple[LeftOut, ...]
    practice: ClassPractice
    measured: tuple[tuple[str, str], ...]
    """File and time of each result, in the order of the files."""


def view_class(folder: Path, cache: Path, *, tell: Tell = silent, processes: int | None = None) -> ClassView:
    """Evaluate the bundles of ``folder``. The arguments and errors are those of ``open_class``."""
    with open_class(folder, cache, tell=tell, processes=processes) as database:
        return view_of(database)


# ``unit`` is the array: ARRAY is an SQL keyword. The baseline of each result is its own single disk; in an experiment
# without one, the first array by name.
_BASELINES = """
WITH baselines AS (
  SELECT experiment, coalesce(min(unit) FILTER (is_single), min(unit)) AS baseline FROM medians GROUP BY experiment
)"""
_ROWS = f"""{_BASELINES}, ratios AS (
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
GROUP BY experiment, unit, workload, direction ORDER BY experiment, workload, direction, any_value(middle) DESC, unit
"""
_LEFT_OUT = f"""{_BASELINES}
SELECT experiment, workload, direction, any_value(baseline), count(DISTINCT (ours.file, ours.result))
FROM medians ours JOIN baselines USING (experiment)
WHERE unit <> baseline AND NOT EXISTS (
  SELECT * FROM medians base WHERE base.experiment = ours.experiment AND base.file = ours.file
    AND base.result = ours.result AND base.workload = ours.workload AND base.direction = ours.direction
    AND base.unit = baseline
)
GROUP BY experiment, workload, direction ORDER BY experiment, workload, direction
"""
_COPIES = """
WITH signed AS (
  SELECT file, key, print, experiment, digest FROM prints JOIN results USING (file, result) JOIN files USING (file)
)
SELECT any_value(experiment), list(DISTINCT file ORDER BY file) AS names, count(DISTINCT digest) > 1
FROM signed GROUP BY print HAVING count(DISTINCT key) > 1 ORDER BY names
"""
_FILES = "SELECT count(*) FROM files"
_RESULTS = "SELECT count(*) FROM results"
_MEASURED = "SELECT file, created_utc FROM results ORDER BY file, created_utc"
_PROBLEMS = "SELECT file, problem FROM files WHERE problem <> '' ORDER BY file"
_KEYS = "SELECT key, list(file ORDER BY file) FROM files WHERE key <> '' GROUP BY key ORDER BY key"


def view_of(database: DuckDBPyConnection) -> ClassView:
    """Evaluate tables with the structure of ``lab.classroom.folder.TABLES``."""

    def fetch(query: str) -> list[Any]:
        return database.execute(query).fetchall()

    rows = [_class_row(*each) for each in fetch(_ROWS)]
    return ClassView(
        files=fetch(_FILES)[0][0],
        results=fetch(_RESULTS)[0][0],
        problems=dict(fetch(_PROBLEMS)),
        copies=tuple(_copied(fetch(_COPIES))),
        keys={key: tuple(names) for key, names in fetch(_KEYS)},
        rows=tuple(rows),
        left_out=tuple(LeftOut(*each) for each in fetch(_LEFT_OUT)),
        practice=practice_in(database),
        measured=tuple(fetch(_MEASURED)),
    )


def _copied(groups: Iterable[tuple[str, Sequence[str], bool]]) -> Iterator[CopiedWork]:
    """One entry per set of files, regardless of the number of common fingerprints; subsets are dropped."""
    found: dict[tuple[str, frozenset[str]], bool] = {}
    for experiment, names, is_altered in groups:
        place = experiment, frozenset(names)
        found[place] = found.get(place, False) or is_altered
    for (experiment, files), is_altered in found.items():
        if not any(experiment == other and files < more for other, more in found):
            yield CopiedWork(experiment, tuple(sorted(files)), is_altered)


def _class_row(*columns: Any) -> ClassRow:
    """A row from the columns of ``_ROWS``, which have the order of the fields."""
    row = dict(zip((field.name for field in fields(ClassRow)), columns, strict=True))
    return ClassRow(**{**row, "values": tuple(row["values"]), "far": tuple(row["far"] or ())})
