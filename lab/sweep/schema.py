"""What a sweep's file says: an experiment, and the axes over which it goes. Each combination is a cell.

A cell is an experiment of its own with one array, and without name or title: two sweeps that have a cell in common
share what was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.arrays.level_names import parse_level
from lab.arrays.spec import Bitmap, ConsistencyPolicy
from lab.disks.drive_models import find_drive_model
from lab.disks.kinds import DEFAULT_SIZE_BYTES, DiskKind
from lab.errors import SpecError
from lab.experiments.array_plans import ArrayPlan, DiskPlan
from lab.experiments.schedule import load_seconds
from lab.experiments.schema import FORMAT_VERSION, Cache, Experiment, JobPlan, check
from lab.gates.names import Name
from lab.gates.numbers import (
    MOST_REPEATS,
    CacheEntries,
    DiskBytes,
    DiskCount,
    Hertz,
    JobCount,
    QueueDepth,
    RepeatCount,
    Seed,
    Share,
    parse_bytes,
)
from lab.parts import catalogue
from lab.results.record import Word
from lab.sweep.cluster import ClusterTables
from lab.tomlfile import decode_toml, toml_text, unknown_word
from lab.units import KIB
from lab.workloads.workload import find_workload

MOST_CELLS = 100_000
"""A month of the shortest on one processor."""
MOST_VALUES = 1000
BUILT_IN_FOLDER = Path(__file__).with_name("catalogue")
CELL = "cell"
ARRAY = "array"

_Values = Annotated[tuple[Word, ...], msgspec.Meta(max_length=MOST_VALUES)]


class Axes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The axes: for each that is named, all its values. The first varies slowest."""

    level: _Values
    members: Annotated[tuple[DiskCount, ...], msgspec.Meta(max_length=MOST_VALUES)]
    chunk: _Values = ()
    """Such as ``64K``. Levels without a chunk have one cell for all of them."""
    queue_depth: Annotated[tuple[QueueDepth, ...], msgspec.Meta(max_length=MOST_VALUES)] = ()
    jobs: Annotated[tuple[JobCount, ...], msgspec.Meta(max_length=MOST_VALUES)] = ()
    block: _Values = ()
    """Size of a request, such as ``4K``."""
    workload: _Values = ()
    """Of the catalogue, in place of the file's jobs."""
    drive: _Values = ()
    """Models of emulated drives."""
    kernel: _Values = ()
    """Embedded kernels: a version for which one was built here (build-uml.sh --source), or ``installed``."""

    @property
    def named(self) -> dict[str, tuple[str | int, ...]]:
        """Axis -> its values, of those that the file names."""
        return {name: values for name, values in msgspec.structs.asdict(self).items() if values}


class ArrayBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all arrays have in common."""

    layout: str | None = None
    bitmap: Bitmap = Bitmap.NONE
    consistency_policy: ConsistencyPolicy = ConsistencyPolicy.RESYNC
    assume_clean: bool = False
    stripe_cache_pages: CacheEntries | None = None


class DiskBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all disks have in common."""

    kind: DiskKind = DiskKind.SPINDLE
    size_bytes: DiskBytes = DEFAULT_SIZE_BYTES
    model: str = ""
    """Of emulated drives, where there is no axis ``drive``."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sweep. Raises ValueError (SpecError through lab.tomlfile) for parts that contradict each other."""

    format_version: int
    id: Name
    title: str
    question: str
    sweep: Axes
    skip: tuple[dict[str, Any], ...] = ()
    """Combinations to leave out: each table names values of some axes, and all must match."""
    array: ArrayBase = ArrayBase()
    disks: DiskBase = DiskBase()
    jobs: tuple[JobPlan, ...] = ()
    repeats: RepeatCount = 1
    most_repeats: Annotated[int, msgspec.Meta(ge=0, le=MOST_REPEATS)] = 0
    wanted_half_width: Share = 0.05
    seed: Seed = 1
    cache: Cache = Cache.COLD
    file_system: FileSystem = FileSystem.RAW
    sampling_hertz: Hertz = 4.0
    writes_files_first: bool = False
    cluster: ClusterTables = ClusterTables()

    def __post_init__(self) -> None:
        for complaint in _complaints(self):
            raise ValueError(f"sweep '{self.id}': {complaint}")


@dataclass(frozen=True, slots=True)
class Combination:
    """One cell: its place on the axes, and the experiment that measures it."""

    place: Mapping[str, str | int]
    """Axis -> value, of the axes that the file names."""
    experiment: Experiment
    kernel: str
    """As the file writes it; empty: the one that is installed."""

    @property
    def label(self) -> str:
        """Such as ``raid5, 6 members, chunk 64K, queue depth 4``."""
        words = {"level": "{}", "members": "{} members", "queue_depth": "queue depth {}", "workload": "{}"}
        return ", ".join(words.get(name, name + " {}").format(value) for name, value in self.place.items())


@dataclass(frozen=True, slots=True)
class Combinations:
    """All cells of a sweep."""

    cells: tuple[Combination, ...]
    impossible: Mapping[str, int]
    """Why some combinations cannot be -> how many."""
    skipped: int
    same: int
    """Combinations that are no cells of their own, since an axis means nothing there."""

    @property
    def virtual_seconds(self) -> float:
        """How long the loads of all cells run."""
        return sum(map(load_seconds_of, self.cells))


def load_seconds_of(cell: Combination) -> float:
    """How long the loads of a cell run, on its machine's clock."""
    return sum(load_seconds(job.build()) for job in cell.experiment.jobs) * cell.experiment.repeats


def find_sweep(name: str) -> tuple[Sweep, str]:
    """A sweep by name or path, and the text of its file.

    Raises SpecError for an unknown name (with the nearest) or a file that makes no sense as written.
    """
    known = built_in_names()
    if not name.endswith(".toml") and name not in known:
        raise unknown_word("sweep", name, known)
    path = Path(name) if name.endswith(".toml") else catalogue(BUILT_IN_FOLDER)[name]
    text = toml_text(path)
    return decode_sweep(text, str(path)), text


def decode_sweep(text: str, source: str) -> Sweep:
    """The sweep of a file's text. Raises SpecError."""
    found = decode_toml(text, Sweep, source=source)
    _check(found)
    return found


@cache
def built_in_names() -> tuple[str, ...]:
    """Names of the sweeps that come with raidlab."""
    return tuple(catalogue(BUILT_IN_FOLDER))


def combinations(sweep: Sweep) -> Combinations:
    """All cells, in the order of the axes. Raises SpecError if there is none."""
    cells: dict[tuple[bytes, str], Combination] = {}
    impossible: dict[str, int] = {}
    skipped = same = 0
    refused: dict[bytes, str] = {}
    for place in _places(sweep):
        if any(_matches(place, skip) for skip in sweep.skip):
            skipped += 1
            continue
        cell = Combination(place, _experiment(sweep, place), _kernel(place))
        key = (msgspec.json.encode(cell.experiment), cell.kernel)
        if key in cells:
            same += 1
            continue
        # What can be wrong with a combination is its array; that is looked at once for all loads on it.
        shape = msgspec.json.encode((cell.experiment.arrays, cell.experiment.disks))
        if shape not in refused:
            refused[shape] = _refusal(cell)
        if refused[shape]:
            impossible[refused[shape]] = impossible.get(refused[shape], 0) + 1
            continue
        cells[key] = cell
    if not cells:
        why = next(iter(impossible), "all of its combinations are skipped")
        raise SpecError(f"sweep '{sweep.id}' has no cells: {why}", hint="change its axes, or leave out [[skip]]")
    return Combinations(tuple(cells.values()), impossible, skipped, same)


def _places(sweep: Sweep) -> Iterator[dict[str, str | int]]:
    axes = sweep.sweep.named
    for values in itertools.product(*axes.values()):
        place = dict(zip(axes, values, strict=True))
        if "chunk" in place and not _level(str(place["level"])).has_chunk:
            del place["chunk"]
        yield place


def _matches(place: Mapping[str, str | int], skip: Mapping[str, Any]) -> bool:
    return all(place.get(name) in (value if isinstance(value, list) else [value]) for name, value in skip.items())


def _refusal(cell: Combination) -> str:
    """Why an array of this kind cannot be; empty: it can."""
    try:
        check(cell.experiment)
    except SpecError as error:
        array = cell.experiment.arrays[0]
        return f"{array.level} of {array.members} disks: {error.message}"
    return ""


def _kernel(place: Mapping[str, str | int]) -> str:
    kernel = str(place.get("kernel", ""))
    return "" if kernel == "installed" else kernel


_level = cache(parse_level)


def _experiment(sweep: Sweep, place: Mapping[str, Any]) -> Experiment:
    level = str(place["level"])
    chunk = parse_bytes(place["chunk"], what="chunk") if "chunk" in place else None
    base, disks = sweep.array, sweep.disks
    is_array = level != "single"
    array = ArrayPlan(
        id=ARRAY,
        level=level,
        members=place["members"],
        chunk_bytes=chunk,
        layout=base.layout,
        bitmap=base.bitmap if is_array else Bitmap.NONE,
        consistency_policy=base.consistency_policy if is_array else ConsistencyPolicy.RESYNC,
        assume_clean=base.assume_clean and is_array and _level(level).is_redundant,
        stripe_cache_pages=base.stripe_cache_pages,
    )
    changes: dict[str, Any] = {}
    if "queue_depth" in place:
        changes["queue_depth"] = place["queue_depth"]
    if "jobs" in place:
        changes["jobs"] = place["jobs"]
    if "block" in place:
        changes["block_bytes"] = parse_bytes(place["block"], what="block")
    jobs = sweep.jobs
    if "workload" in place:
        first = jobs[0] if jobs else JobPlan(workload="")
        jobs = (msgspec.structs.replace(first, workload=place["workload"], id=""),)
    return Experiment(
        format_version=FORMAT_VERSION,
        id=CELL,
        title="",
        question="",
        repeats=sweep.repeats,
        most_repeats=sweep.most_repeats,
        wanted_half_width=sweep.wanted_half_width,
        seed=sweep.seed,
        cache=sweep.cache,
        file_system=sweep.file_system,
        sampling_hertz=sweep.sampling_hertz,
        writes_files_first=sweep.writes_files_first,
        disks=DiskPlan(kind=disks.kind, size_bytes=disks.size_bytes, model=str(place.get("drive", disks.model))),
        arrays=(array,),
        jobs=tuple(msgspec.structs.replace(job, **changes) for job in jobs),
    )


def _complaints(sweep: Sweep) -> Iterator[str]:
    axes = sweep.sweep.named
    if sweep.format_version != FORMAT_VERSION:
        yield f"format_version must be {FORMAT_VERSION}"
    for name in ("level", "members"):
        if name not in axes:
            yield f"the axis {name} has no values"
    for name, values in axes.items():
        if len(set(values)) < len(values):
            yield f"the axis {name} has a value twice"
    if not sweep.jobs and "workload" not in axes:
        yield "it has neither jobs nor an axis workload"
    if "workload" in axes and len(sweep.jobs) > 1:
        yield "with an axis workload it can have one job, which all of them follow"
    if "drive" in axes and (sweep.disks.model or sweep.disks.kind is not DiskKind.SPINDLE):
        yield "an axis drive and [disks] with a model or another kind than spindle contradict each other"
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MOST_CELLS:
        yield f"it has {count:,} combinations, and {MOST_CELLS:,} are possible"
    if sweep.most_repeats and sweep.most_repeats < sweep.repeats:
        yield "most_repeats is below repeats"
    for skip in sweep.skip:
        for name, value in skip.items():
            if name not in axes:
                yield f"[[skip]] names '{name}', and its axes are {', '.join(axes)}"
            elif wrong := [each for each in (value if isinstance(value, list) else [value]) if each not in axes[name]]:
                yield f"[[skip]] names {name} {wrong[0]!r}, which that axis does not have"


def _check(sweep: Sweep) -> None:
    """Raises SpecError for a value that can be in no combination: each axis is looked at by itself."""
    axes = sweep.sweep
    for level in axes.level:
        _level(level)
    for text in (*axes.chunk, *axes.block):
        parse_bytes(text)
    for text in axes.chunk:
        size = parse_bytes(text, what="chunk")
        if size < 4 * KIB or size & (size - 1):
            raise SpecError(f"'{text}' cannot be a chunk", hint="take a power of two of 4K or more: mdadm(8), --chunk")
    for workload in axes.workload:
        find_workload(workload)
    for model in axes.drive or ((sweep.disks.model,) if sweep.disks.model else ()):
        find_drive_model(model)
    if sweep.disks.kind is DiskKind.SPINDLE and not axes.drive and not sweep.disks.model:
        raise SpecError(
            f"sweep '{sweep.id}' has emulated drives and names no model", hint="add an axis drive, or model to [disks]"
        )
    for job in sweep.jobs:
        if job.workload or not axes.workload:
            job.build()
