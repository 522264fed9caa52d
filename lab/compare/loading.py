"""Results to be compared, from the store, from bundles, and from folders of bundles. One that is bad stops no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.compare.platforms import Platform, platform_of
from lab.errors import LabError, ResultError
from lab.results.bundle import read_bundle
from lab.results.store import ResultStore

BUNDLE_SUFFIX = ".zip"


def is_file_name(name: str) -> bool:
    """Whether a word names a bundle or a folder, and no stored result."""
    return name.endswith(BUNDLE_SUFFIX) or "/" in name


def load_platforms(names: Sequence[str], store: ResultStore) -> tuple[tuple[Platform, ...], tuple[str, ...]]:
    """Every result that can be read, and what is wrong with the others, a sentence each."""
    platforms: list[Platform] = []
    problems: list[str] = []
    for name in names:
        try:
            sources = list(_sources(name))
        except LabError as error:
            problems.append(error.message)
            continue
        for source in sources:
            try:
                platforms += _platforms(source, store)
            except LabError as error:
                problems.append(error.message)
    return tuple(platforms), tuple(problems)


def _sources(name: str) -> Iterator[str]:
    path = Path(name)
    if is_file_name(name) and path.is_dir():
        files = sorted(path.glob(f"*{BUNDLE_SUFFIX}"))
        if not files:
            raise ResultError(f"there are no bundles in '{name}'", hint="'raidlab export' makes them")
        yield from map(str, files)
    else:
        yield name


def _platforms(source: str, store: ResultStore) -> list[Platform]:
    if not is_file_name(source):
        return [platform_of(store.load(source))]
    bundle = read_bundle(Path(source), with_raw=False)
    return [platform_of(bundle.record(result_id)) for result_id in bundle.results]
