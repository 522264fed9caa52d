"""The cells of a sweep: each possible combination of its axes, as an experiment.

Combinations that cannot work are left out before a machine is started: arrays that mdadm would refuse, and loads that
do not fit on the array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import parse_level
from lab.arrays.spec import Bitmap, ConsistencyPolicy
from lab.disks.kinds import DiskKind
from lab.errors import SpecError, WorkloadError
from lab.experiments.schedule import load_seconds
from lab.experiments.schema import FORMAT_VERSION, ArrayPlan, DiskPlan, Experiment, JobPlan, check
from lab.gates.decoding import parse_bytes
from lab.machine.embedded import DEFAULT_MEMORY_BYTES, MAX_UBD_DISKS
from lab.sweep.schema import INSTALLED, Sweep
from lab.units import KIB, human_bytes
from lab.workloads.fio_job import LEAST_SPACE_BYTES, JobTarget, PathKind, job_bytes
from lab.workloads.workload import AccessPattern, Workload

T = TypeVar("T")
CELL = "cell"
ARRAY = "array"
_TELL_EVERY = 250
_ARRAY = "md0"
"""The array's name in error messages; it is removed from them, since every machine has just this array."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One cell: its values on the axes, and the experiment that measures it."""

    place: Mapping[str, str | int]
    """Axis -> value, for the axes that the file names."""
    experiment: Experiment
    kernel: str
    """As written in the file; empty for the installed kernel."""

    @property
    def label(self) -> str:
        """Such as ``raid5, 6 members, chunk 64K, queue depth 4``."""
        words = {"level": "{}", "members": "{} members", "queue_depth": "queue depth {}", "workload": "{}"}
        return ", ".join(words.get(name, name + " {}").format(value) for name, value in self.place.items())


@dataclass(frozen=True, slots=True)
class Combinations:
    """All cells of a sweep, and the number of combinations that were left out."""

    cells: tuple[Combination, ...]
    impossible: Mapping[str, int]
    """Reason why combinations are impossible -> their number."""
    skipped: int
    same: int
    """Number of combinations that equal another cell, because an axis has no effect on them."""

    @property
    def virtual_seconds(self) -> float:
        """Total duration of the loads of all cells, in seconds of the machines' clocks."""
        return sum(map(load_seconds_of, self.cells))


def watched(each: Iterable[T], count: int, on_part: Callable[[float], None]) -> Iterator[T]:
    """The items of ``each``; now and then ``on_part`` is called with the share of ``count`` that is done, 0 to 1."""
    for number, one in enumerate(each):
        if number % _TELL_EVERY == 0:
            on_part(number / max(1, count))
        yield one


def load_seconds_of(cell: Combination) -> float:
    """Duration of a cell's loads with all repeats, in seconds of its machine's clock."""
    return sum(load_seconds(job.build()) for job in cell.experiment.jobs) * cell.experiment.repeats


def combinations(sweep: Sweep, on_part: Callable[[float], None] = lambda _: None) -> Combinations:
    """All cells, in the order of the axes; ``on_part`` receives the share that is done, 0 to 1.

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
            cell = Combination(place, _experiment(sweep, place), _kernel(place))
        except ValueError as error:
            raise SpecError(f"sweep '{sweep.id}': {error}", hint="change what it names") from None
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


def _kernel(place: Mapping[str, str | int]) -> str:
    kernel = str(place.get("kernel", ""))
    return "" if kernel == INSTALLED else kernel


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


class Possible:
    """Checks whether cells are possible. Results for arrays and loads are cached: many cells share a few of them."""

    def __init__(self) -> None:
        self._usable: dict[bytes, int | str] = {}
        self._loads: dict[bytes, tuple[Workload, ...] | str] = {}
        self._fits: dict[tuple[bytes, bytes], str] = {}

    def refusal(self, experiment: Experiment) -> str:
        """The reason why a cell is impossible, or an empty string. ``experiment`` has one array."""
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
    """The capacity of the array in bytes, or the reason why it cannot be created."""
    array, disks = experiment.arrays[0], experiment.disks
    told = f"{array.level} of {array.members} disk{'s' if array.members != 1 else ''}"
    chunk = f"chunk {human_bytes(array.chunk_bytes)} " if array.chunk_bytes else ""
    try:
        array.check(disks)
        stand_ins = array.stand_ins(disks)
        spec = array.spec(stand_ins)
        spec.creation(stand_ins, experiment.file_system)
        usable = spec.expected_bytes(stand_ins)
    except SpecError as error:
        # All disks are equal, so the message about the first disk is enough.
        why = error.message.removeprefix(f"array {_ARRAY}: ").partition("; disk02")[0]
        return f"{told}: {why.replace('disk01 has', f'for {chunk}a disk has')}"
    if disks.kind is DiskKind.FILE and array.members > MAX_UBD_DISKS:
        return f"{told}: the embedded kernel takes {MAX_UBD_DISKS} disks of kind file"
    if usable <= 0:
        return f"{told}: for {chunk}nothing is left for data on disks of {human_bytes(disks.size_bytes)}"
    return usable


def _workloads(experiment: Experiment) -> tuple[Workload, ...] | str:
    """The workloads, or the reason why they are invalid."""
    try:
        check(experiment)
        return tuple(job.build() for job in experiment.jobs)
    except SpecError as error:
        return error.message


def _misfit(experiment: Experiment, loads: tuple[Workload, ...], usable: int) -> str:
    """The reason why the loads do not fit on the array, or an empty string; file-system metadata is not counted."""
    array, is_raw = experiment.arrays[0], experiment.file_system is FileSystem.RAW
    place = JobTarget(f"/dev/{_ARRAY}", PathKind.DEVICE if is_raw else PathKind.DIRECTORY, usable)
    cache = (array.stripe_cache_pages or 0) * array.members * 4 * KIB
    told = f"{array.level} of {array.members} disks"
    for load in loads:
        try:
            room = job_bytes(load, place)
        except WorkloadError as error:
            return f"{told}: {error.message.partition(': ')[2]}"
        if load.trace and room < LEAST_SPACE_BYTES:
            return f"workload '{load.id}': a trace needs {human_bytes(LEAST_SPACE_BYTES)} to work on"
        # Buffers of requests in flight, and a bit per block with which fio avoids repeats (fio(1), norandommap).
        needed = cache + load.depth_total * load.block_bytes
        if load.pattern is AccessPattern.RANDOM and load.distribution == "random" and not load.recipe:
            needed += room * load.region_count // load.block_bytes // 8
        if needed > DEFAULT_MEMORY_BYTES:
            return (
                f"{told}: workload '{load.id}' takes {human_bytes(needed)} of memory with the stripe cache, and the "
                f"embedded kernel has {human_bytes(DEFAULT_MEMORY_BYTES)} in all"
            )
    return ""
