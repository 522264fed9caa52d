"""A sweep's file and its cells. Each cell is an experiment for a possible combination of the values on the axes.

Combinations that cannot work are left out before a machine is started. These are arrays that mdadm would refuse, and
loads that do not fit on the array.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import parse_level
from lab.arrays.spec import Bitmap, ConsistencyPolicy
from lab.disks.kinds import DEFAULT_SIZE_BYTES, DiskKind, find_drive_model
from lab.errors import SpecError, WorkloadError
from lab.experiments.schema import FORMAT_VERSION, ArrayPlan, DiskPlan, Experiment, JobPlan, MeasurementPlan, check
from lab.gates.decoding import (
    BlockBytes,
    CacheEntries,
    DiskBytes,
    DiskCount,
    JobCount,
    QueueDepth,
    RepeatCount,
    checked,
    parse_bytes,
)
from lab.gates.text import shortened
from lab.machine.embedded import DEFAULT_MEMORY_BYTES, MAX_UBD_DISKS
from lab.plugins import catalogue
from lab.results.record import Word
from lab.sweep.cluster import ClusterTables
from lab.tomlfile import decode_toml, file_of, toml_text
from lab.units import KIB, counted, format_bytes, human_bytes
from lab.workloads.jobs import LEAST_SPACE_BYTES, JobTarget, PathKind, job_bytes
from lab.workloads.workload import AccessPattern, Workload, find_workload

MOST_CELLS = 100_000
"""The maximum number of cells. With the shortest cells, a sweep of this size takes about a month on one processor."""
MOST_VALUES = 1000
BUILT_IN_FOLDER = Path(__file__).with_name("catalogue")
INSTALLED = "installed"
_KERNEL_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*(-[a-z0-9]+)?")

_Values = Annotated[tuple[Word, ...], msgspec.Meta(max_length=MOST_VALUES)]


class Axes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of each axis that the file names. The first axis varies slowest."""

    level: _Values
    """Levels in any spelling that ``parse_level`` accepts, normalised to ``LevelName``."""
    members: Annotated[tuple[DiskCount, ...], msgspec.Meta(max_length=MOST_VALUES)]
    chunk: _Values = ()
    """Sizes in any spelling, normalised to the form ``64K``. A level without chunks has one cell for all of them."""
    queue_depth: Annotated[tuple[QueueDepth, ...], msgspec.Meta(max_length=MOST_VALUES)] = ()
    jobs: Annotated[tuple[JobCount, ...], msgspec.Meta(max_length=MOST_VALUES)] = ()
    block: _Values = ()
    """Size of a request, such as ``4K``, normalised like ``chunk``."""
    workload: _Values = ()
    """Names in the catalogue, used in place of the file's jobs."""
    drive: _Values = ()
    """Models of emulated drives."""
    kernel: _Values = ()
    """Embedded kernels: a version that was built on this computer (build-uml.sh --source), a path, or ``installed``."""

    def __post_init__(self) -> None:
        # Two spellings of one value would be two cells, and both would be measured.
        for name in _IN_ONE_SPELLING:
            values = tuple(_in_one_spelling(name, value) for value in getattr(self, name))
            msgspec.structs.force_setattr(self, name, values)

    @property
    def named(self) -> dict[str, tuple[str | int, ...]]:
        """The values of each axis that the file names."""
        return {name: values for name, values in msgspec.structs.asdict(self).items() if values}


def _in_one_spelling(axis: str, value: Any) -> Any:
    """Normalise the spelling of a value or of a list of values. Raises SpecError if one is invalid for the axis."""
    if isinstance(value, list):
        return [_in_one_spelling(axis, each) for each in value]
    return _IN_ONE_SPELLING[axis](value) if axis in _IN_ONE_SPELLING and isinstance(value, str) else value


def _kernel_word(text: str) -> str:
    """Return the value if it is valid. This is checked because hints contain the value in shell commands."""
    is_path = text.startswith("/") and text.isprintable()
    if text == INSTALLED or is_path or _KERNEL_VERSION.fullmatch(text):
        return text
    raise SpecError(
        f"kernel '{shortened(text)}' is neither a version such as 6.12, nor an absolute path, nor '{INSTALLED}'",
        hint="write one of these",
    )


_IN_ONE_SPELLING: dict[str, Callable[[str], str]] = {
    "level": lambda text: parse_level(text).name.value,
    "chunk": lambda text: format_bytes(parse_bytes(text, what="chunk")),
    "block": lambda text: format_bytes(parse_bytes(text, what="block")),
    "kernel": _kernel_word,
}


class ArrayBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that all arrays of a sweep share."""

    layout: str | None = None
    bitmap: Bitmap = Bitmap.NONE
    consistency_policy: ConsistencyPolicy = ConsistencyPolicy.RESYNC
    assume_clean: bool = False
    stripe_cache_pages: CacheEntries | None = None


class DiskBase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that all disks of a sweep share."""

    kind: DiskKind = DiskKind.SPINDLE
    size_bytes: DiskBytes = DEFAULT_SIZE_BYTES
    model: str = ""
    """Model of emulated drives, if there is no ``drive`` axis."""


class Sweep(MeasurementPlan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sweep. Raises ValueError (which lab.tomlfile turns into SpecError) if fields contradict each other."""

    sweep: Axes
    skip: tuple[dict[str, Any], ...] = ()
    """Combinations to skip. Each table gives values of some axes, and a combination that matches all is skipped."""
    array: ArrayBase = ArrayBase()
    disks: DiskBase = DiskBase()
    repeats: RepeatCount = 1
    file_system: FileSystem = FileSystem.RAW
    writes_files_first: bool = False
    cluster: ClusterTables = ClusterTables()

    def __post_init__(self) -> None:
        spelled = tuple({name: _in_one_spelling(name, value) for name, value in skip.items()} for skip in self.skip)
        msgspec.structs.force_setattr(self, "skip", spelled)
        for complaint in _complaints(self):
            raise ValueError(f"sweep '{self.id}': {complaint}")

    @property
    def combination_count(self) -> int:
        """Number of combinations, including impossible and skipped ones."""
        return math.prod(map(len, self.sweep.named.values()))


def find_sweep(name: str) -> tuple[Sweep, str]:
    """Find a sweep by name or path, and return it with the text of its file.

    Raises SpecError if the name is unknown, with the nearest known name in its hint, or if the file is invalid.
    """
    path = file_of("sweep", name, BUILT_IN_FOLDER)
    text = toml_text(path)
    return decode_sweep(text, str(path)), text


def decode_sweep(text: str, source: str) -> Sweep:
    """Parse the text of a sweep's file, which messages call ``source``. Raises SpecError."""
    found = decode_toml(text, Sweep, source=source)
    _check(found)
    return found


@cache
def built_in_names() -> tuple[str, ...]:
    """Return the names of the built-in sweeps."""
    return tuple(catalogue(BUILT_IN_FOLDER))


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
        yield "it has neither jobs nor a workload axis"
    if "workload" in axes and len(sweep.jobs) > 1:
        yield "with a workload axis it can have only one job, which applies to all workloads"
    if "drive" in axes and (sweep.disks.model or sweep.disks.kind is not DiskKind.SPINDLE):
        yield "a drive axis and [disks] with a model or a kind other than spindle contradict each other"
    if sweep.disks.kind in (DiskKind.VIRTIO, DiskKind.PHYSICAL):
        yield f"the machine of a cell has no disks of kind {sweep.disks.kind}: use spindle, file, loop or ram"
    if sweep.combination_count > MOST_CELLS:
        yield f"it has {sweep.combination_count:,} combinations, but at most {MOST_CELLS:,} are allowed"
    yield from sweep.shared_complaints()
    if any(job.arrays for job in sweep.jobs):
        yield "a job names arrays, but a cell has only one, on which all jobs run"
    # The key of a cell does not cover a workload's file, which may change or may be different on a worker.
    for name in (*sweep.sweep.workload, *(job.workload for job in sweep.jobs)):
        if name.endswith(".toml"):
            yield f"'{shortened(name)}' is a file, but a sweep's loads come from the catalogue"
    for skip in sweep.skip:
        if not skip:
            yield "a [[skip]] that names no axis would skip everything"
        for name, value in skip.items():
            skipped = value if isinstance(value, list) else [value]
            if name not in axes:
                yield f"[[skip]] names '{shortened(name)}', but the axes are {', '.join(axes)}"
            elif not skipped:
                yield f"[[skip]] names no value of {name}"
            elif wrong := [each for each in skipped if each not in axes[name]]:
                yield f"[[skip]] names {name} {shortened(repr(wrong[0]))}, which that axis does not have"


def _check(sweep: Sweep) -> None:
    """Check each axis by itself. Raises SpecError if a value is invalid in every combination."""
    axes = sweep.sweep
    for text in axes.block:
        checked(parse_bytes(text), BlockBytes, "block")
    for text in axes.chunk:
        size = parse_bytes(text, what="chunk")
        if size < 4 * KIB or size & (size - 1):
            raise SpecError(
                f"'{text}' is not a chunk size", hint="use a power of two of 4K or more (mdadm(8), --chunk)"
            )
    for workload in axes.workload:
        find_workload(workload)
    for model in axes.drive or ((sweep.disks.model,) if sweep.disks.model else ()):
        find_drive_model(model)
    if sweep.disks.kind is DiskKind.SPINDLE and not axes.drive and not sweep.disks.model:
        raise SpecError(
            f"sweep '{sweep.id}' has emulated drives but names no model", hint="add a drive axis, or a model to [disks]"
        )
    for job in sweep.jobs:
        if job.workload or not axes.workload:
            job.build()


T = TypeVar("T")
CELL = "cell"
ARRAY = "array"
_REPORT_EVERY = 250
_ARRAY = "md0"
"""The array's name in error messages. It is removed from them, because every machine has only this array."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One cell, with its values on the axes and the experiment that measures it."""

    place: Mapping[str, str | int]
    """The cell's value on each axis that the file names."""
    experiment: Experiment
    kernel: str
    """The kernel as written in the file, or an empty string for the installed kernel."""

    @property
    def label(self) -> str:
        words = {"level": "{}", "members": "{} members", "queue_depth": "queue depth {}", "workload": "{}"}
        return ", ".join(words.get(name, name + " {}").format(value) for name, value in self.place.items())


@dataclass(frozen=True, slots=True)
class Combinations:
    """All cells of a sweep, and the number of combinations that were left out."""

    cells: tuple[Combination, ...]
    impossible: Mapping[str, int]
    """The number of impossible combinations for each reason."""
    skipped: int
    same: int
    """Number of combinations that give the same cell as another one, because an axis has no effect on them."""


def watched(each: Iterable[T], count: int, on_part: Callable[[float], None]) -> Iterator[T]:
    """Yield the items of ``each``, and regularly call ``on_part`` with the fraction of ``count`` that is done."""
    for number, one in enumerate(each):
        if number % _REPORT_EVERY == 0:
            on_part(number / max(1, count))
        yield one


def combinations(sweep: Sweep, on_part: Callable[[float], None] = lambda _: None) -> Combinations:
    """Return all cells in the order of the axes. ``on_part`` receives the share that is done, from 0 to 1.

    Raises SpecError if no combination is possible, or if the values contradict each other.
    """
    cells: dict[tuple[bytes, str], Combination] = {}
    impossible: dict[str, int] = {}
    skipped = same = 0
    possible = Possible()
    for place in watched(_places(sweep), sweep.combination_count, on_part):
        if any(_matches(place, skip) for skip in sweep.skip):
            skipped += 1
            continue
        try:
            kernel = str(place.get("kernel", INSTALLED))
            cell = Combination(place, _experiment(sweep, place), "" if kernel == INSTALLED else kernel)
        except ValueError as error:
            raise SpecError(f"sweep '{sweep.id}': {error}", hint="change the values that the message names") from None
        key = (msgspec.json.encode(cell.experiment), cell.kernel)
        if key in cells:
            same += 1
            continue
        if why := possible.refusal(cell.experiment):
            impossible[why] = impossible.get(why, 0) + 1
            continue
        cells[key] = cell
    if not cells:
        why = next(iter(impossible), "all of its combinations are skipped")
        raise SpecError(f"sweep '{sweep.id}' has no cells: {why}", hint="change its axes, or remove [[skip]]")
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
        stripe_cache_pages=base.stripe_cache_pages if _level(level).parity_members else None,
    )
    changes = {name: place[name] for name in ("queue_depth", "jobs") if name in place}
    if "block" in place:
        changes["block_bytes"] = parse_bytes(place["block"], what="block")
    jobs = sweep.jobs
    if "workload" in place:
        first = jobs[0] if jobs else JobPlan(workload="")
        jobs = (msgspec.structs.replace(first, workload=place["workload"], id=""),)
    shared = {name: getattr(sweep, name) for name in MeasurementPlan.__struct_fields__}
    shared |= {"id": CELL, "title": "", "question": ""}
    shared["jobs"] = tuple(msgspec.structs.replace(job, **changes) for job in jobs)
    plan = DiskPlan(kind=disks.kind, size_bytes=disks.size_bytes, model=str(place.get("drive", disks.model)))
    return Experiment(**shared, disks=plan, arrays=(array,))


class Possible:
    """Checks whether cells are possible. Results for arrays and loads are cached, because many cells share them."""

    def __init__(self) -> None:
        self._usable: dict[bytes, int | str] = {}
        self._loads: dict[bytes, tuple[Workload, ...] | str] = {}
        self._fits: dict[tuple[bytes, bytes], str] = {}

    def refusal(self, experiment: Experiment) -> str:
        """Return the reason why a cell is impossible, or an empty string. ``experiment`` has one array."""
        shape = msgspec.json.encode((experiment.arrays, experiment.disks))
        if shape not in self._usable:
            self._usable[shape] = _usable_bytes(experiment)
        usable = self._usable[shape]
        if isinstance(usable, str):
            return usable
        jobs = msgspec.json.encode(experiment.jobs)
        if jobs not in self._loads:
            self._loads[jobs] = _workloads(experiment)
        loads = self._loads[jobs]
        if isinstance(loads, str):
            return loads
        if (shape, jobs) not in self._fits:
            self._fits[shape, jobs] = _misfit(experiment, loads, usable)
        return self._fits[shape, jobs]


def _usable_bytes(experiment: Experiment) -> int | str:
    """Return the capacity of the array in bytes, or the reason why it cannot be created."""
    array, disks = experiment.arrays[0], experiment.disks
    label = f"{array.level} of {counted(array.members, 'disk')}"
    chunk = f"with chunk {human_bytes(array.chunk_bytes)} " if array.chunk_bytes else ""
    try:
        array.check(disks)
        stand_ins = array.stand_ins(disks)
        spec = array.spec(stand_ins)
        spec.creation(stand_ins, experiment.file_system)
        usable = spec.expected_bytes(stand_ins)
    except SpecError as error:
        # All disks are equal, so the message about the first disk is enough.
        why = error.message.removeprefix(f"array {_ARRAY}: ").partition("; disk02")[0]
        return f"{label}: {why.replace('disk01 has', f'{chunk}a disk has')}"
    if disks.kind is DiskKind.FILE and array.members > MAX_UBD_DISKS:
        return f"{label}: the embedded kernel accepts at most {MAX_UBD_DISKS} disks of kind file"
    if usable <= 0:
        return f"{label}: {chunk}nothing is left for data on disks of {human_bytes(disks.size_bytes)}"
    return usable


def _workloads(experiment: Experiment) -> tuple[Workload, ...] | str:
    """Return the workloads, or the reason why they are invalid."""
    try:
        check(experiment)
        return tuple(job.build() for job in experiment.jobs)
    except SpecError as error:
        return error.message


def _misfit(experiment: Experiment, loads: tuple[Workload, ...], usable: int) -> str:
    """Return why the loads do not fit on the array, or an empty string. File-system metadata is not counted."""
    array, is_raw = experiment.arrays[0], experiment.file_system is FileSystem.RAW
    place = JobTarget(f"/dev/{_ARRAY}", PathKind.DEVICE if is_raw else PathKind.DIRECTORY, usable)
    cache = (array.stripe_cache_pages or 0) * array.members * 4 * KIB
    label = f"{array.level} of {array.members} disks"
    for load in loads:
        try:
            room = job_bytes(load, place)
        except WorkloadError as error:
            return f"{label}: {error.message.partition(': ')[2]}"
        if load.trace and room < LEAST_SPACE_BYTES:
            return f"workload '{load.id}': a trace needs {human_bytes(LEAST_SPACE_BYTES)} to work on"
        # Buffers of requests in flight, and a bit per block with which fio avoids repeats (fio(1), norandommap).
        needed = cache + load.depth_total * load.block_bytes
        if load.pattern is AccessPattern.RANDOM and load.distribution == "random" and not load.recipe:
            needed += room * load.region_count // load.block_bytes // 8
        if needed > DEFAULT_MEMORY_BYTES:
            amounts = needed, DEFAULT_MEMORY_BYTES
            takes, has = map(human_bytes, amounts)
            if takes == has:
                takes, has = (f"{amount:,} bytes" for amount in amounts)
            return (
                f"{label}: workload '{load.id}' takes {takes} of memory with the stripe cache, but the "
                f"embedded kernel has only {has}"
            )
    return ""
