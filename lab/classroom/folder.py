"""Provide the bundles of a folder as database tables, and read the practice in a bundle.

The content of a bundle is not trusted. It is decoded, its numbers are checked, and its strings are made printable
before any other code uses them. The rows of each bundle are cached in a database (duckdb), so that thousands of results
are evaluated in one query. Only new or changed bundles are read, by several processes in parallel.

Copied measurements are recognised by fingerprints, which are taken from the figures of some cells, from some of fio's
documents, and from the times in a result. Two independent measurements have no fingerprint in common, because latencies
are means of thousands of values in nanoseconds, and because the times include the measured duration of the whole run.
Therefore results with a common fingerprint are copies of one measurement, even if whitespace, names or all but one of
the figures were changed. In virtual time, equal figures are expected, so only the times count.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lab.classroom.bundle import DRILLS, LESSONS, SUFFIX, Bundle, fingerprint, read_bundle, read_practice
from lab.compare import baseline_ratios, healthy_medians
from lab.drills.case import OUTCOME_VERSION, DrillOutcome, DrillStore
from lab.drills.verdict import DrillVerdict
from lab.errors import LabError, RequirementMissing, ResultError
from lab.gates.files import make_own_folder
from lab.gates.text import is_name, shortened, visible, visible_name
from lab.host.clock import HostClock
from lab.host.files import ALONE, SHARED, locked, storage_error
from lab.host.pool import processors, spread
from lab.lessons.course import HINTS, is_lesson_name
from lab.lessons.engine import FORMAT_VERSION as PROGRESS_VERSION
from lab.lessons.engine import Progress
from lab.lessons.student import LessonStore
from lab.machine import Host
from lab.results.record import ResultRecord, decode_visible, refuse_newer
from lab.results.store import ResultFiles
from lab.units import MIB

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MOST_COUNT = 1_000_000
"""Maximum number of hints, resets or minutes. A million minutes are almost two years."""
_MOST_BYTES = 1 << 53
_MOST_PARTS = 1000
"""Maximum number of steps in a lesson, or mistakes in a drill."""
_LONGEST_WORD = 200
"""Maximum length of the titles, seeds and times that tables show."""
_ASK = "ask for a new export"
Kind = TypeVar("Kind", Progress, DrillOutcome)


def practice_of(host: Host) -> dict[str, bytes]:
    """Return the files with all lessons and drills done on this computer, by their paths in a bundle.

    Raises LessonError if the progress in a lesson is damaged, and ResultError if there is no practice.
    """
    store = LessonStore(host.state)
    found: dict[str, bytes] = {}
    for path in sorted((host.state.root / LESSONS).glob("*.json")):
        progress = store.progress(path.stem) if is_lesson_name(path.stem) else None
        if progress is not None:
            found[f"{LESSONS}/{path.name}"] = _text(progress)
    found |= {f"{DRILLS}/{outcome.id}.json": _text(outcome) for outcome in DrillStore(host).all()}
    if not found:
        raise ResultError(
            "there are no lessons or drills to hand in yet", hint="start one with 'raidlab lesson' or 'raidlab drill'"
        )
    return found


def _text(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def read_all(bundle: Bundle) -> Iterator[Progress | DrillOutcome | str]:
    """Yield each lesson and finished drill in a bundle, or an error message if it cannot be read."""
    for place, data in read_practice(bundle):
        folder, _, name = place.partition("/")
        stem = name.removesuffix(".json")
        source = f"{bundle.source}/{place}"
        try:
            yield decode_outcome(data, stem, source) if folder == DRILLS else decode_progress(data, stem, source)
        except LabError as error:
            yield error.message


def decode_outcome(data: bytes, outcome_id: str, source: str) -> DrillOutcome:
    """Decode a finished drill from a bundle. Raises ResultError if a value is invalid or the format is newer."""
    outcome = _decoded(data, DrillOutcome, source)
    refuse_newer(source, "drill", outcome.format_version, OUTCOME_VERSION)
    sizes = (outcome.touched_bytes, outcome.changed_bytes, outcome.gone_names)
    counts = (outcome.minutes, outcome.hints, outcome.resets, outcome.exam.attempt if outcome.exam else 0)
    is_good = (
        outcome.id == outcome_id
        and is_name(outcome.drill)
        and outcome.verdict in list(DrillVerdict)
        and outcome.is_sound
        and all(math.isfinite(count) and 0 <= count <= _MOST_COUNT for count in counts)
        and all(0 <= count < _MOST_BYTES for count in (*sizes, *outcome.blocks.values()))
        and len(outcome.mistakes) <= _MOST_PARTS
        and _are_short(*(mistake.id for mistake in outcome.mistakes))
        and _are_short(
            outcome.title, outcome.drill_file, outcome.seed, outcome.target, outcome.began_utc, outcome.ended_utc
        )
    )
    return _require(outcome, is_good, source)


def decode_progress(data: bytes, lesson_id: str, source: str) -> Progress:
    """Decode the progress in a lesson. Raises ResultError if a value is invalid or the format is newer."""
    progress = _decoded(data, Progress, source)
    refuse_newer(source, "lesson", progress.format_version, PROGRESS_VERSION)
    is_good = (
        progress.lesson == lesson_id
        and is_lesson_name(lesson_id)
        and len(progress.steps) <= _MOST_PARTS
        and all(0 <= done.hints <= HINTS for done in progress.steps.values())
        and _are_short(*progress.steps, progress.seed, progress.target, progress.began_utc)
        and all(
            _are_short(each.began_utc, each.done_utc, each.answer, each.reading) for each in progress.steps.values()
        )
    )
    return _require(progress, is_good, source)


def work_digest(work: Progress | DrillOutcome) -> str:
    """Return a hash of what was done and when. Copies have the same hash even if their figures were changed.

    Other work has a different hash, because the start and the end are recorded to the second and commands to a tenth of
    a second, and disks have random UUIDs.
    """
    if isinstance(work, Progress):
        seen: Mapping[str, Any] = {"lesson": work.lesson, "began": work.began_utc, "steps": work.steps}
        if not any(map(work.is_done, work.steps)):
            # A whole class may begin a lesson in the same second.
            seen = {**seen, "seed": work.seed}
    else:
        names = ("drill", "began_utc", "ended_utc", "commands", "before", "after", "changed")
        seen = {name: getattr(work, name) for name in names}
    return sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()


def _decoded(data: bytes, kind: type[Kind], source: str) -> Kind:
    try:
        return decode_visible(data, kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is damaged: {visible(shortened(str(error), 200))}", hint=_ASK) from None


def _require(value: Kind, is_good: bool, source: str) -> Kind:
    if is_good:
        return value
    raise ResultError(f"'{source}' has values that raidlab never writes", hint=_ASK)


def _are_short(*words: str) -> bool:
    return all(len(word) <= _LONGEST_WORD for word in words)


_CELLS, _DOCUMENTS = 12, 4
"""Number of cells and documents of each result that get a fingerprint. A class has thousands of results."""
_FEWEST_IOS = 100
"""Minimum number of I/Os in a cell with a fingerprint, because the mean of a few latencies may occur twice."""


def prints_of(record: ResultRecord, files: ResultFiles) -> Iterator[str]:
    """Yield the fingerprints of a result. ``files`` reads fio's documents. Unreadable documents are skipped."""
    times = [cell.started_utc for cell in record.cells]
    yield _digest("times", [record.created_utc, times, record.timings.total_seconds])
    if record.conditions.is_virtual_time:
        return
    # Select cells by a hash of their names, so that a copy with changed figures has fingerprints of the same cells.
    cells = sorted(record.cells, key=lambda cell: _digest("cell", [record.experiment, cell.key]))
    sections = [(cell, cell.figures.sections.values()) for cell in cells]
    telling = (each for each in sections if sum(section.total_ios for section in each[1]) >= _FEWEST_IOS)
    for cell, found in islice(telling, _CELLS):
        figures = [[each.iops, each.total_ios, each.mean_seconds, each.max_seconds, each.p99_seconds] for each in found]
        yield _digest("figures", [cell.key, figures])
    for cell in islice((cell for cell in cells if cell.raw_file), _DOCUMENTS):
        with suppress(LabError, msgspec.MsgspecError, UnicodeError, RecursionError):
            yield _digest("document", msgspec.json.decode(files.document(record.id, cell.raw_file)))


def _digest(what: str, value: Any) -> str:
    return sha256(msgspec.json.encode([what, value], order="deterministic")).hexdigest()[:32]


TEXT, NUMBER, WHOLE, TRUTH = "VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN"


@dataclass(frozen=True, slots=True)
class DrillTry:
    """One finished drill in one bundle."""

    key: str
    file: str
    outcome: str
    digest: str
    drill: str
    drill_file: str
    """The digest that lab.drills.schema.file_digest returned, or empty if the version of raidlab did not record it."""
    seed: str
    began_utc: str
    ended_utc: str
    verdict: str
    saved_percent: float
    minutes: float
    touched_bytes: int
    hints: int
    resets: int
    exam_attempt: int
    """The number of the attempt at an exam, or 0 for practice."""
    exam_over_minutes: float
    mistakes: tuple[str, ...]

    @property
    def what(self) -> str:
        return self.drill

    @property
    def figures(self) -> tuple[object, ...]:
        """The values of the grading sheet, which are equal in unmodified copies of the same work."""
        counts = (self.minutes, self.hints, self.resets, self.touched_bytes, self.exam_attempt, self.exam_over_minutes)
        return (self.verdict, self.saved_percent, *counts, self.seed, self.drill_file)


@dataclass(frozen=True, slots=True)
class LessonTry:
    """The progress in one lesson in one bundle."""

    key: str
    file: str
    lesson: str
    digest: str
    seed: str
    is_passed: bool
    steps_done: int
    last_done_utc: str
    """When the last step was done, or an empty string if no step has been done."""
    all_hints: tuple[str, ...]
    """Steps for which all hints were used."""
    by_lab: tuple[str, ...]
    """Steps that the lab carried out for the student."""

    @property
    def what(self) -> str:
        return self.lesson

    @property
    def figures(self) -> tuple[object, ...]:
        """The values of the grading sheet, which are equal in unmodified copies of the same work."""
        return (self.seed,)


_KINDS = {"str": TEXT, "float": NUMBER, "int": WHOLE, "bool": TRUTH, "tuple[str, ...]": TEXT}


def _columns(kind: type[DrillTry | LessonTry]) -> dict[str, str]:
    """Return the database types of the fields, except for the key, which is in ``files``."""
    return {each.name: _KINDS[str(each.type)] for each in fields(kind) if each.name != "key"}


FILES = "files"
TABLES = {
    "results": {"file": TEXT, "result": TEXT, "experiment": TEXT, "created_utc": TEXT, "digest": TEXT},
    "prints": {"file": TEXT, "result": TEXT, "print": TEXT},
    "ratios": {
        **dict.fromkeys(("file", "result", "experiment", "unit", "baseline", "workload", "direction"), TEXT),
        "ratio": NUMBER,
    },
    "outcomes": _columns(DrillTry),
    "lessons": _columns(LessonTry),
    FILES: {"file": TEXT, "bytes": WHOLE, "changed_ns": WHOLE, "key": TEXT, "problem": TEXT},
}
"""The columns of each table with their DuckDB types. Lists of steps and of mistakes are joined with commas.

``ratios`` contains what ``baseline_ratios`` returns for each result. A missing ratio is NULL.
"""
Rows = dict[str, list[tuple[object, ...]]]
CHECKS = 11
"""Version of the checks on bundles and of the tables. If it increases, all bundles are read and checked again."""
Stamped = tuple[Path, int, int]
"""A bundle with its size and its modification time in nanoseconds, both taken before the bundle was read."""


def read_rows(bundles: Iterable[Stamped]) -> Rows:
    """Return the rows of the bundles by table. If a bundle or a part of it is damaged, the table ``files`` says why."""
    found: Rows = defaultdict(list)
    for file, size, changed_ns in bundles:
        key, problem = _read(file, found)
        found[FILES].append((visible_name(file.name), size, changed_ns, key, problem))
    return found


def _read(file: Path, found: Rows) -> tuple[str, str]:
    """Add all readable rows of one bundle to ``found``, and return the fingerprint of its key and its problem."""
    try:
        bundle = read_bundle(file)
    except LabError as error:
        return "", visible(error.message)
    problems = []
    name = visible_name(file.name)
    try:
        for result_id, record in zip(bundle.ids, bundle.records(), strict=True):
            if isinstance(record, LabError):
                problems.append(record.message)
            elif medians := healthy_medians(record):
                # The digest is that of the content, so it does not depend on the formatting.
                what = (record.experiment, record.created_utc, _digest("record", record))
                found["results"].append((name, result_id, *map(_shown, what)))
                found["prints"] += [(name, result_id, each) for each in prints_of(record, bundle)]
                rows = baseline_ratios(record, medians)
                found["ratios"] += [(name, result_id, record.experiment, *pair, ratio) for pair, ratio in rows]
    except LabError as error:
        problems.append(error.message)
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
    return fingerprint(bundle.manifest.public_key), visible("; ".join(problems))


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) else value


def _outcome(work: DrillOutcome) -> tuple[object, ...]:
    """Return the columns of ``DrillTry`` after the file. Columns that are not set here are fields of the outcome."""
    own: dict[str, object] = {
        "outcome": work.id,
        "digest": work_digest(work),
        "exam_attempt": work.exam.attempt if work.exam else 0,
        "exam_over_minutes": work.exam.over_minutes if work.exam else 0.0,
        "mistakes": _joined(mistake.id for mistake in work.mistakes),
    }
    return tuple(own[name] if name in own else getattr(work, name) for name in list(TABLES["outcomes"])[1:])


def _joined(names: Iterable[str]) -> str:
    """Join the distinct names with commas. Commas in the names of a custom drill's mistakes are replaced."""
    return ",".join(dict.fromkeys(name.replace(",", ";") for name in names if name))


def _lesson(work: Progress) -> tuple[object, ...]:
    steps = work.steps.items()
    hinted = _joined(name for name, step in steps if step.hints >= HINTS)
    by_lab = _joined(name for name, step in steps if step.by_lab)
    done = sum(map(work.is_done, work.steps))
    last = max((step.done_utc for _, step in steps), default="")
    # Each step is added when the one before it is done (lab.lessons.engine).
    is_passed = 0 < done == len(work.steps)
    return work.lesson, work_digest(work), work.seed, is_passed, done, last, hinted, by_lab


_DATABASE, _LOCK = "class.duckdb", "lock"
_MEMORY = "400MiB"
"""Memory for queries. Python and its modules take 100 MiB more, and each process that reads bundles takes 50 MiB."""


def _is_new(database: DuckDBPyConnection) -> bool:
    return not database.execute("FROM duckdb_tables() WHERE table_name = ?", [FILES]).fetchall()


@contextmanager
def _transaction(database: DuckDBPyConnection) -> Iterator[None]:
    """Commit the changes made in the ``with`` block. After an error, closing the connection undoes them."""
    database.begin()
    yield
    database.commit()


def _forget(database: DuckDBPyConnection, names: Collection[str]) -> None:
    if names:
        with _transaction(database):
            for table in TABLES:
                database.execute(f"DELETE FROM {table} WHERE file IN (SELECT unnest($1))", [list(names)])


def _add(database: DuckDBPyConnection, rows: Rows) -> None:
    """Insert rows as one array per column, because thousands of single inserts would take a minute."""
    import numpy as np

    kinds: Mapping[str, Any] = {NUMBER: float, WHOLE: np.int64, TRUTH: bool}
    with _transaction(database):
        for table, found in rows.items():
            if found:
                columns = zip(TABLES[table].items(), zip(*found, strict=True), strict=True)
                batch = {name: np.array(values, dtype=kinds.get(kind, object)) for (name, kind), values in columns}
                database.register("batch", batch)
                database.execute(f"INSERT INTO {table} SELECT * FROM batch")
                database.unregister("batch")


@contextmanager
def held(place: Path, how: int, on_wait: Callable[[], object]) -> Iterator[None]:
    """Hold the lock of ``place``, shared or exclusive. If it is not free, ``on_wait`` is called. Raises OSError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(place / _LOCK, how))
        except BlockingIOError:
            on_wait()
            stack.enter_context(locked(place / _LOCK, how, waits=True))
        yield


MOST_PROCESSES = 4
"""Maximum number of processes that read bundles. With 50 MiB each, the total remains far below 1 GiB."""
_FEW, _FEW_BYTES = 64, 16 * MIB
"""One process reads up to this number of bundles, of up to this total size, faster than several processes can start."""
_AT_ONCE = 10
"""Number of bundles in one job of a process."""
_STORE_AFTER, _STORE_AFTER_SECONDS = 250, 5.0
"""Rows are written to the cache after this number of bundles or this many seconds, whichever comes first."""
OnProgress = Callable[[str, float], object]
"""A callback that takes the current activity and the share that is done, from 0 to 1."""


@contextmanager
def open_class(
    folder: Path, cache: Path, on_progress: OnProgress = lambda _what, _fraction: None
) -> Iterator[DuckDBPyConnection]:
    """Open the bundles of ``folder`` as tables. Unchanged bundles are taken from ``cache``.

    Raises RequirementMissing if duckdb is missing, and ResultError if ``folder`` does not exist or if the cache cannot
    be written.
    """
    try:
        import duckdb
    except ImportError:
        hint = "install it with: pip install 'raidlab[classroom]'"
        raise RequirementMissing("'raidlab class' needs duckdb", hint=hint) from None
    if not folder.is_dir():
        raise ResultError(f"there is no folder '{folder}'", hint="give the folder that contains the bundles")
    place = cache / sha256(f"{CHECKS} {visible(str(folder.resolve()))}".encode()).hexdigest()[:16]
    # Each process needs its own folder, because DuckDB uses the same file names in every process.
    settings: dict[str, Any] = {"memory_limit": _MEMORY, "temp_directory": str(place / f"spill-{os.getpid()}")}
    try:
        make_own_folder(place, "the folder for a class")
        with ExitStack() as stack:

            def opened(how: int) -> DuckDBPyConnection:
                stack.close()
                stack.enter_context(held(place, how, lambda: on_progress("another raidlab is reading this class", 0.0)))
                is_reader = how == SHARED and (place / _DATABASE).exists()
                name = str(place / _DATABASE) if is_reader or how == ALONE else ":memory:"
                connection: DuckDBPyConnection = duckdb.connect(name, read_only=is_reader, config=settings)
                return stack.enter_context(connection)

            database = opened(SHARED)
            if any(_changes(folder, database)) or _is_new(database):
                database = opened(ALONE)
                # Compare again, because the previous holder of the lock may have read the changes.
                outdated, new = _changes(folder, database)
                _bring_up_to_date(database, place, outdated, new, on_progress)
            yield database
    except duckdb.Error as error:
        if refused := _refusal(str(error)):
            raise storage_error(f"the contents of '{folder}' cannot be cached in '{place}'", refused) from None
        raise ResultError(f"the class in '{folder}' cannot be read: {error}", hint=f"delete '{place}'") from None
    except OSError as error:
        raise storage_error(f"'{place}' cannot be used", error) from error


def _refusal(text: str) -> OSError | None:
    """Return the system error that a message from DuckDB describes in words, or None."""
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
    return next((OSError(each, os.strerror(each)) for each in numbers if os.strerror(each) in text), None)


def _changes(folder: Path, database: DuckDBPyConnection) -> tuple[list[str], list[Stamped]]:
    """Return the cached bundles that were removed or changed, and the bundles to read, both sorted by name."""
    there: dict[str, Stamped] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(SUFFIX):
                # A name may contain bytes that are not UTF-8, which a text column cannot store.
                there[visible_name(entry.name)] = (Path(entry.path), *_stamp(entry))
    rows = [] if _is_new(database) else database.execute(f"SELECT file, bytes, changed_ns FROM {FILES}").fetchall()
    known = {name: (size, changed) for name, size, changed in rows}
    outdated = [name for name, stamp in known.items() if name not in there or there[name][1:] != stamp]
    return outdated, [there[name] for name in sorted(there) if known.get(name) != there[name][1:]]


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int]:
    """Return the size, and the time of the last change to the contents or the permissions.

    For a broken symbolic link, they are the link's own.
    """
    try:
        found = entry.stat()
    except OSError:
        found = entry.stat(follow_symlinks=False)
    return found.st_size, max(found.st_mtime_ns, found.st_ctime_ns)


def _bring_up_to_date(
    database: DuckDBPyConnection,
    place: Path,
    outdated: Sequence[str],
    new: Sequence[Stamped],
    on_progress: OnProgress,
) -> None:
    """Read changed bundles into the cache. The caller must hold the exclusive lock."""
    for left in place.glob("spill-*"):
        shutil.rmtree(left)
    for table, columns in TABLES.items():
        kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({kinds})")
    _forget(database, outdated)
    is_little = len(new) <= _FEW and sum(size for _, size, _ in new) <= _FEW_BYTES
    jobs = [new[first : first + _AT_ONCE] for first in range(0, len(new), _AT_ONCE)]
    helpers = 1 if is_little else min(processors(), MOST_PROCESSES, len(jobs))
    clock = HostClock()
    done, begun = 0, clock.monotonic_seconds()
    gathered: Rows = defaultdict(list)
    with spread(read_rows, jobs, helpers) as answers:
        for rows in answers:
            for table, found in rows.items():
                gathered[table] += found
            done += len(rows[FILES])
            if not is_little:
                on_progress(f"reading {len(new)} bundles", done / len(new))
            now = clock.monotonic_seconds()
            if len(gathered[FILES]) >= _STORE_AFTER or now - begun >= _STORE_AFTER_SECONDS:
                _add(database, gathered)
                gathered, begun = defaultdict(list), now
    _add(database, gathered)
