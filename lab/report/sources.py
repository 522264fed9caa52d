"""What a report is made of: stored results, bundles, folders of either. One that is bad stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from lab.compare.figures import bad_repeats, is_speed
from lab.compare.loading import BUNDLE_SUFFIX, is_file_name
from lab.compare.platforms import platform_words
from lab.errors import LabError, ResultError
from lab.lint.result_checks import as_shown
from lab.results.bundle import Bundle, read_bundle
from lab.results.record import CellRecord, RebuildRecord, ResultRecord
from lab.results.store import ResultStore
from lab.results.timeline import Timeline, decode_timeline
from lab.workloads.fio_output import DirectionFigures

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Loaded:
    """One result, with nothing in it but figures that are numbers above 0."""

    record: ResultRecord
    source: str
    problems: tuple[str, ...]
    """What was left out of it, and what is missing."""
    read_file: Callable[[str], str]

    @property
    def machine(self) -> str:
        """``embedded, hdd-7200``."""
        return platform_words(self.record)

    def timeline(self, rebuild: RebuildRecord) -> Timeline | None:
        """Of a rebuild; None if none was kept. Raises ResultError if it cannot be read."""
        if not rebuild.timeline_file:
            return None
        source = f"{self.record.id}/{rebuild.timeline_file}"
        found = decode_timeline(self.read_file(rebuild.timeline_file), source=source)
        if self.record.conditions.has_cpu_time:
            return found
        return msgspec.structs.replace(found, busy_fraction=(None,) * len(found.seconds))


def each_result(names: Sequence[str], store: ResultStore) -> Iterator[Loaded | str]:
    """Every result that can be read, each once; for every other one a sentence that says why not."""
    seen: set[str] = set()
    for name in names:
        try:
            for found in _of_name(name, store):
                if isinstance(found, str):
                    yield found
                elif found.record.id not in seen:
                    seen.add(found.record.id)
                    yield found
        except LabError as error:
            yield error.message


def _of_name(name: str, store: ResultStore) -> Iterator[Loaded | str]:
    path = Path(name)
    if not is_file_name(name) and not (path.is_dir() and name not in store.ids()):
        yield _stored(store, store.find(name))
    elif path.suffix == BUNDLE_SUFFIX:
        yield from _bundled(path)
    elif path.is_dir() or path.is_file():
        yield from _of_folder(path if path.is_dir() else path.parent)
    else:
        raise ResultError(f"there is no '{name}'", hint="name a result, a bundle, or a folder of either")


def _of_folder(folder: Path) -> Iterator[Loaded | str]:
    """A result's own folder, or one that holds results, bundles, or both."""
    inner = ResultStore(folder)
    if folder.name in ResultStore(folder.parent).ids():
        yield _stored(ResultStore(folder.parent), folder.name)
        return
    bundles = sorted(folder.glob(f"*{BUNDLE_SUFFIX}"))
    ids = sorted(inner.ids())
    if not bundles and not ids:
        raise ResultError(f"there are neither results nor bundles in '{folder}'", hint="check the path")
    for result_id in ids:
        yield _or_problem(partial(_stored, inner, result_id))
    for bundle in bundles:
        try:
            yield from _bundled(bundle)
        except LabError as error:
            yield error.message


def _or_problem(load: Callable[[], Loaded]) -> Loaded | str:
    try:
        return load()
    except LabError as error:
        return error.message


def _stored(store: ResultStore, result_id: str) -> Loaded:
    return loaded(store.load(result_id), result_id, lambda name: store.raw_json(result_id, name))


def _bundled(path: Path) -> Iterator[Loaded | str]:
    bundle = read_bundle(path, with_raw=False)
    for result_id in bundle.results:
        yield _or_problem(partial(_of_bundle, bundle, result_id))


def _of_bundle(bundle: Bundle, result_id: str) -> Loaded:
    def read_file(name: str) -> str:
        import gzip

        # Read only now: a report on a class looks into none of them.
        files = read_bundle(bundle.file).results[result_id]
        try:
            return gzip.decompress(files[name]).decode()
        except (KeyError, OSError, EOFError, UnicodeError) as error:
            raise ResultError(f"'{bundle.file}' has no '{name}' that can be read: {error}") from None

    return loaded(bundle.record(result_id), str(bundle.file), read_file)


def loaded(record: ResultRecord, source: str, read_file: Callable[[str], str]) -> Loaded:
    """A record without what is no figure; what was left out is among its problems."""
    cells = tuple(cleaned for cell in record.cells if (cleaned := _cleaned(cell)))
    rebuilds = tuple(each for each in record.rebuilds if is_speed(each.rebuild_seconds) and each.rebuilt_bytes > 0)
    bad = [f"{each.key}: {each.rebuild_seconds:g} s, left out" for each in record.rebuilds if each not in rebuilds]
    clean = as_shown(msgspec.structs.replace(record, cells=cells, rebuilds=rebuilds))
    return Loaded(clean, source, (*_shortened(record), *bad), read_file)


def _shortened(record: ResultRecord) -> Iterator[str]:
    """Bad repeats one by one, but of many missing ones their number: a run that broke off lacks all the rest."""
    missing = record.missing_keys
    if len(missing) <= _MOST_NAMED:
        yield from bad_repeats(record)
        return
    yield from (problem for problem in bad_repeats(record) if not problem.endswith(": planned, not measured"))
    yield f"{len(missing)} of {len(record.planned_cells)} cells are planned, not measured: {missing[0]} and others"


def _cleaned(cell: CellRecord) -> CellRecord | None:
    reads, writes = _usable(cell.figures.reads), _usable(cell.figures.writes)
    if reads is None and writes is None:
        return None
    if (reads, writes) == (cell.figures.reads, cell.figures.writes):
        return cell
    return msgspec.structs.replace(cell, figures=msgspec.structs.replace(cell.figures, reads=reads, writes=writes))


def _usable(section: DirectionFigures | None) -> DirectionFigures | None:
    if section is None or not (is_speed(section.iops) and is_speed(section.bandwidth_bytes_per_second)):
        return None
    return section if is_speed(section.mean_seconds) else None
