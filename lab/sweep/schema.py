"""The file of a sweep: an experiment and the axes over which it varies. Each combination of values is one cell.

A cell is an experiment with one array and without an id or title of its own, so two sweeps with the same cell share its
result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import parse_level
from lab.arrays.spec import Bitmap, ConsistencyPolicy
from lab.disks.drive_models import find_drive_model
from lab.disks.kinds import DEFAULT_SIZE_BYTES, DiskKind
from lab.errors import SpecError
from lab.experiments.schema import FORMAT_VERSION, Cache, JobPlan
from lab.gates.decoding import (
    MOST_REPEATS,
    BlockBytes,
    CacheEntries,
    DiskBytes,
    DiskCount,
    FormatVersion,
    Hertz,
    JobCount,
    QueueDepth,
    RepeatCount,
    Seed,
    Share,
    checked,
    parse_bytes,
)
from lab.gates.text import Name, shortened
from lab.plugins import catalogue
from lab.results.record import Word
from lab.sweep.cluster import ClusterTables
from lab.tomlfile import decode_toml, toml_text, unknown_word
from lab.units import KIB, format_bytes
from lab.workloads.workload import find_workload

MOST_CELLS = 100_000
"""With the shortest cells, about a month on one processor."""
MOST_VALUES = 1000
BUILT_IN_FOLDER = Path(__file__).with_name("catalogue")
INSTALLED = "installed"
_KERNEL_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*(-[a-z0-9]+)?")

_Values = Annotated[tuple[Word, ...], msgspec.Meta(max_length=MOST_VALUES)]


class Axes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of each axis that the file names; the first axis varies slowest."""

    level: _Values
    """In any spelling that ``parse_level`` accepts, normalised to ``LevelName``."""
    members: Annotated[tuple[DiskCount, ...], msgspec.Meta(max_length=MOST_VALUES)]
    chunk: _Values = ()
    """Such as ``64K``; ``64KiB`` and ``65536`` are normalised to it. Levels without a chunk have one cell in all."""
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
        # Two spellings of one value would be two cells, and be measured twice.
        for name in _IN_ONE_SPELLING:
            values = tuple(in_one_spelling(name, value) for value in getattr(self, name))
            msgspec.structs.force_setattr(self, name, values)

    @property
    def named(self) -> dict[str, tuple[str | int, ...]]:
        """Axis -> values, for the axes that the file names."""
        return {name: values for name, values in msgspec.structs.asdict(self).items() if values}


def in_one_spelling(axis: str, value: Any) -> Any:
    """The value in its normalised spelling. Raises SpecError for a value that is invalid on the axis."""
    return _IN_ONE_SPELLING[axis](value) if axis in _IN_ONE_SPELLING and isinstance(value, str) else value


def _kernel_word(text: str) -> str:
    """The value, if it is valid; it is checked because hints contain it in shell commands."""
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
    """Model of emulated drives, if there is no axis ``drive``."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sweep. Raises ValueError (SpecError through lab.tomlfile) for fields that contradict each other."""

    format_version: FormatVersion
    id: Name
    title: str
    question: str
    sweep: Axes
    skip: tuple[dict[str, Any], ...] = ()
    """Combinations to skip: each table gives values of some axes; combinations that match all of them are skipped."""
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
        spelled = tuple({name: _spelled(name, value) for name, value in skip.items()} for skip in self.skip)
        msgspec.structs.force_setattr(self, "skip", spelled)
        for complaint in _complaints(self):
            raise ValueError(f"sweep '{self.id}': {complaint}")

    @property
    def combination_count(self) -> int:
        """Number of combinations, including impossible and skipped ones."""
        return math.prod(map(len, self.sweep.named.values()))


def find_sweep(name: str) -> tuple[Sweep, str]:
    """A sweep by name or path, and the text of its file.

    Raises SpecError for an unknown name, with the closest known name as hint, and for an invalid file.
    """
    known = built_in_names()
    if not name.endswith(".toml") and name not in known:
        raise unknown_word("sweep", name, known)
    path = Path(name) if name.endswith(".toml") else catalogue(BUILT_IN_FOLDER)[name]
    text = toml_text(path)
    return decode_sweep(text, str(path)), text


def decode_sweep(text: str, source: str) -> Sweep:
    """Parse the text of a sweep's file; ``source`` names it in messages. Raises SpecError."""
    found = decode_toml(text, Sweep, source=source)
    _check(found)
    return found


@cache
def built_in_names() -> tuple[str, ...]:
    """The names of the built-in sweeps."""
    return tuple(catalogue(BUILT_IN_FOLDER))


def _spelled(name: str, value: Any) -> Any:
    return [in_one_spelling(name, each) for each in value] if isinstance(value, list) else in_one_spelling(name, value)


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
    if sweep.disks.kind in (DiskKind.VIRTIO, DiskKind.PHYSICAL):
        yield f"the machine of a cell has no disks of kind {sweep.disks.kind}: take spindle, file, loop or ram"
    if sweep.combination_count > MOST_CELLS:
        yield f"it has {sweep.combination_count:,} combinations, and {MOST_CELLS:,} are possible"
    if sweep.most_repeats and sweep.most_repeats < sweep.repeats:
        yield "most_repeats is below repeats"
    yield from _load_complaints(sweep)
    for skip in sweep.skip:
        if not skip:
            yield "a [[skip]] that names no axis would leave out everything"
        for name, value in skip.items():
            said = value if isinstance(value, list) else [value]
            if name not in axes:
                yield f"[[skip]] names '{shortened(name)}', and its axes are {', '.join(axes)}"
            elif not said:
                yield f"[[skip]] names no value of {name}"
            elif wrong := [each for each in said if each not in axes[name]]:
                yield f"[[skip]] names {name} {shortened(repr(wrong[0]))}, which that axis does not have"


def _load_complaints(sweep: Sweep) -> Iterator[str]:
    names = [job.id or job.workload for job in sweep.jobs]
    if len(set(names)) < len(names):
        yield "two jobs have the same id: give one an id of its own"
    if any(job.arrays for job in sweep.jobs):
        yield "a job names arrays, and a cell has one, on which all jobs run"
    # The key of a cell does not cover a workload file, which may change or differ on a worker.
    for name in (*sweep.sweep.workload, *(job.workload for job in sweep.jobs)):
        if name.endswith(".toml"):
            yield f"'{shortened(name)}' is a file, and the loads of a sweep are of the catalogue"


def _check(sweep: Sweep) -> None:
    """Check each axis by itself. Raises SpecError for a value that is possible in no combination."""
    axes = sweep.sweep
    for text in axes.block:
        checked(parse_bytes(text), BlockBytes, "block")
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
