"""What a class measured: each student's speed-ups over the own disk, and how they are distributed."""

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
class LeftOut:
    """A workload that some results measured, and not on what its arrays are divided by."""

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
    """What a class measured, and how it practised."""

    files: int
    results: int
    problems: Mapping[str, str]
    """Bundles that cannot be used as a whole -> why."""
    copies: tuple[CopiedWork, ...]
    """The same measurement in bundles of different keys; of an experiment."""
    keys: Mapping[str, tuple[str, ...]]
    """Key that signed -> files."""
    rows: tuple[ClassRow, ...]
    left_out: tuple[LeftOut, ...]
    practice: ClassPractice
    measured: tuple[tuple[str, str], ...]
    """File and time of each result, in the order of the files."""


def view_class(folder: Path, cache: Path, *, tell: Tell = silent, processes: int | None = None) -> ClassView:
    """The bundles of ``folder``; what is known is kept in ``cache``. Arguments and errors are ``open_class``'s."""
    with open_class(folder, cache, tell=tell, processes=processes) as database:
        return view_of(database)


# ``unit`` is the array (a word of SQL). Each result's baseline is its own single disk; of an experiment without one,
# its first array by name.
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
    """What tables as those of ``lab.classroom.folder`` say."""

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
    """One for each set of files, however many prints they share; a set within a larger one adds nothing."""
    found: dict[tuple[str, frozenset[str]], bool] = {}
    for experiment, names, is_altered in groups:
        place = experiment, frozenset(names)
        found[place] = found.get(place, False) or is_altered
    for (experiment, files), is_altered in found.items():
        if not any(experiment == other and files < more for other, more in found):
            yield CopiedWork(experiment, tuple(sorted(files)), is_altered)


def _class_row(*columns: Any) -> ClassRow:
    """From the columns of ``_ROWS``, which stand in the order of the fields."""
    row = dict(zip((field.name for field in fields(ClassRow)), columns, strict=True))
    return ClassRow(**{**row, "values": tuple(row["values"]), "far": tuple(row["far"] or ())})
