"""The format of experiment files, which define disks, arrays, jobs and rebuilds.

Parsing is strict. An unknown key is an error, whose message names the nearest valid key.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import kind_of_level, kinds
from lab.arrays.levels import level_with_layout
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy, Spec
from lab.disks.kinds import DEFAULT_SIZE_BYTES, DiskKind, DiskSpec, LabDisk
from lab.errors import SpecError
from lab.gates.decoding import (
    MOST_DISKS,
    MOST_REPEATS,
    MOST_SECONDS,
    BlockBytes,
    CacheEntries,
    DiskBytes,
    DiskCount,
    FormatVersion,
    Hertz,
    JobCount,
    Name,
    NameOrNone,
    QueueDepth,
    RepeatCount,
    Seconds,
    SecondsOrZero,
    Seed,
    Share,
    SizeBytes,
    SpareCount,
    SpeedKibPerSecond,
)
from lab.plugins import catalogue
from lab.results.statistics import DEFAULT_REPEATS
from lab.tomlfile import decode_toml, file_of, toml_text, unknown_word
from lab.workloads.workload import Workload, changed, find_workload


class Sharing(StrEnum):
    """Whether each array has its own disks."""

    SEPARATE = "separate"
    """All arrays exist at the same time, so their measurements can alternate."""
    SHARED = "shared"
    """One set of disks; the arrays are built, measured and stopped one after the other."""


class DiskPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A set of equal disks, for arrays on several kinds of disks. Pool ``fast`` consists of ``fast01`` and so on."""

    id: Name
    count: DiskCount
    size_bytes: DiskBytes
    model: str = ""


class DiskPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The disks of the arrays, either as many equal disks as they need, or pools from which the arrays take disks."""

    kind: DiskKind = DiskKind.FILE
    size_bytes: DiskBytes = DEFAULT_SIZE_BYTES
    model: str = ""
    sharing: Sharing = Sharing.SEPARATE
    pools: tuple[DiskPool, ...] = ()

    def pool_specs(self) -> tuple[DiskSpec, ...]:
        return tuple(
            DiskSpec(name=f"{pool.id}{number:02d}", kind=self.kind, size_bytes=pool.size_bytes, model=pool.model)
            for pool in self.pools
            for number in range(1, pool.count + 1)
        )


class ArrayPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One array."""

    id: Name
    level: str
    """A level as accepted by ``raidlab array create``, including ``adapt5`` and ``shr``."""
    members: SpareCount = 0
    """Number of disks if all are equal."""
    take: dict[str, DiskCount] = {}
    """The number of disks to take from each pool, in this order."""
    title: str = ""
    chunk_bytes: SizeBytes | None = None
    layout: str | None = None
    bitmap: Bitmap = Bitmap.NONE
    consistency_policy: ConsistencyPolicy = ConsistencyPolicy.RESYNC
    assume_clean: bool = False
    """Skip the first resync. This is correct only for blank disks; lab disks are blank when an experiment starts."""
    reference: DiskCount | None = None
    """Data chunks of the full stripe of a volume (adapt5, shr)."""
    utilisation: dict[str, Share] = {}
    """For a volume, the used fraction of each pool's disks, relative to the most used ones. If empty, all are full."""
    stripe_cache_pages: CacheEntries | None = None
    """Stripe cache size of each md array with parity, in pages per member; md's default is 256."""

    @property
    def is_volume(self) -> bool:
        """Whether the array consists of several md arrays."""
        return kind_of_level(self.level) is not kinds()[0]

    @property
    def disk_count(self) -> int:
        return sum(self.take.values()) if self.take else self.members

    def disk_names(self) -> tuple[str, ...]:
        return tuple(f"{pool}{number:02d}" for pool, count in self.take.items() for number in range(1, count + 1))

    @property
    def label(self) -> str:
        return self.title or self.id

    def spec(self, disks: tuple[LabDisk, ...], number: int = 0) -> Spec:
        """Return the spec of the array on these disks, with the name that its kind gives to this number."""
        kind = kind_of_level(self.level)
        factors = tuple(self.utilisation.get(pool, 1.0) for pool, count in self.take.items() for _ in range(count))
        return kind.spec(
            ArraySpec(
                level=self.level,
                members=tuple(disk.node for disk in disks),
                name=kind.name(number),
                chunk_bytes=self.chunk_bytes,
                layout=self.layout,
                bitmap=self.bitmap,
                consistency_policy=self.consistency_policy,
                assume_clean=self.assume_clean,
                reference=self.reference,
                utilisation=factors if self.utilisation else None,
            ),
            disks,
        )

    def check(self, disks: DiskPlan) -> None:
        """Raises SpecError if the level, the number of members or the disks are invalid."""
        if self.take and not disks.pools:
            raise SpecError(
                f"array '{self.id}' takes disks from pools, but no pools are defined", hint="add [[disks.pools]]"
            )
        counts = {pool.id: pool.count for pool in disks.pools}
        for pool, count in self.take.items():
            if not 0 < count <= counts.get(pool, 0):
                have = ", ".join(f"{name} has {number}" for name, number in counts.items())
                raise SpecError(
                    f"array '{self.id}' takes {count} disks from pool '{pool}', but {have}", hint="take fewer"
                )
        for pool in self.utilisation:
            if pool not in self.take:
                raise SpecError(
                    f"array '{self.id}' sets the utilisation of pool '{pool}', but takes no disks from it",
                    hint="add the pool to 'take'",
                )
        chosen = self.stand_ins(disks)
        spec = self.spec(chosen)
        spec.validate()
        spec.expected_bytes(chosen)

    def stand_ins(self, disks: DiskPlan) -> tuple[LabDisk, ...]:
        """Return placeholder disks with the sizes of the disks that the array will have."""
        sizes = {spec.name: spec.size_bytes for spec in disks.pool_specs()}
        names = self.disk_names() or tuple(f"disk{number + 1:02d}" for number in range(self.members))
        return tuple(
            LabDisk(name=name, kind=disks.kind, node=f"/dev/{name}", size_bytes=sizes.get(name, disks.size_bytes))
            for name in names
        )


FORMAT_VERSION = 2
FORMAT_VERSIONS = range(1, FORMAT_VERSION + 1)
"""Supported versions; lab.tomlfile lists the names that have changed since earlier versions."""
MOST_MEASUREMENTS = 20_000
"""A few days of the shortest measurements."""
BUILT_IN_FOLDER = Path(__file__).with_name("catalogue")


class Order(StrEnum):
    """Order in which cells are measured."""

    INTERLEAVED = "interleaved"
    """Every repeat visits all cells once, in a new random order from the experiment's seed."""
    LISTED = "listed"
    """Cells are in the order of the file, and all repeats of a cell follow each other."""


class Cache(StrEnum):
    """The state of the caches before each cell."""

    COLD = "cold"
    WARM = "warm"


class JobPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workload from the catalogue, optionally with changes such as a different depth, which require their own id."""

    workload: str
    id: str = ""
    block_bytes: BlockBytes | None = None
    queue_depth: QueueDepth | None = None
    jobs: JobCount | None = None
    runtime_seconds: Seconds | None = None
    warmup_seconds: SecondsOrZero | None = None
    file_bytes: SizeBytes | None = None
    arrays: tuple[str, ...] = ()
    """The arrays on which the job runs; empty for all arrays."""

    def build(self) -> Workload:
        changes = {
            name: value
            for name in ("block_bytes", "queue_depth", "jobs", "runtime_seconds", "warmup_seconds", "file_bytes")
            if (value := getattr(self, name)) is not None
        }
        workload = find_workload(self.workload)
        return changed(workload, id=self.id or self.workload, **changes)


class RebuildPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rebuilds that follow all jobs. In each repeat a different member of each array fails and is rebuilt."""

    arrays: tuple[str, ...]
    under: JobPlan | None = None
    """A load that runs in all four phases (healthy, degraded, rebuilding, restored); None to rebuild idle arrays."""
    repeats: RepeatCount | None = None
    """Number of rebuilds, if fewer than the jobs' repeats, since a rebuild takes a long time."""
    minimum_speed_kib_per_second: SpeedKibPerSecond | None = None
    """md's sync_speed_min during the rebuild; without it a load can delay a rebuild for as long as it runs."""


class MeasurementPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that experiments and sweeps share."""

    format_version: FormatVersion
    id: Name
    title: str
    question: str
    repeats: RepeatCount = DEFAULT_REPEATS
    most_repeats: Annotated[int, msgspec.Meta(ge=0, le=MOST_REPEATS)] = 0
    """If this is above ``repeats``, cells with a wide interval get more repeats, up to this number."""
    wanted_half_width: Share = 0.05
    """The wanted precision, as half the width of the median's interval divided by the median."""
    seed: Seed = 1
    """Seed of the order and, combined with the number of the repeat, of the addresses."""
    cache: Cache = Cache.COLD
    file_system: FileSystem = FileSystem.EXT4
    sampling_hertz: Hertz = 4.0
    writes_files_first: bool = True
    """Write all files before measuring, so that reads do not hit unallocated space. Emulated drives do not need it."""
    jobs: tuple[JobPlan, ...] = ()

    @property
    def job_ids(self) -> list[str]:
        return [job.id or job.workload for job in self.jobs]

    def shared_complaints(self) -> Iterator[str]:
        if self.most_repeats and self.most_repeats < self.repeats:
            yield "most_repeats is below repeats"
        if len(set(self.job_ids)) < len(self.jobs):
            yield "two jobs have the same id: give one a different id"


class Experiment(MeasurementPlan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One experiment. Raises ValueError (SpecError through lab.tomlfile) if its parts are inconsistent."""

    why: str = ""
    """Reason for the method, in one sentence that is printed before the run and above its figures."""
    study: NameOrNone = ""
    """Study whose published figures are shown beside the measured ones."""
    order: Order = Order.INTERLEAVED
    rounds_per_build: RepeatCount = 1
    """With shared disks, the number of repeats measured on an array before the next array replaces it.

    A higher number builds arrays less often, but drift then affects some arrays more than others, so it should stay
    below ``repeats``.
    """
    disks: DiskPlan = DiskPlan()
    arrays: tuple[ArrayPlan, ...]
    jobs: tuple[JobPlan, ...]
    rebuild: RebuildPlan | None = None
    keeps_going: bool = False
    """Continue after a cell that cannot be measured, and note the reason. Meant for recipes with known defects."""
    publication: NameOrNone = ""
    """Study that published this recipe (lab/publications/texts); the lint names its defects."""
    defects: tuple[str, ...] = ()
    """Other deliberate defects of this recipe, one sentence each."""

    def __post_init__(self) -> None:
        for complaint in _complaints(self):
            raise ValueError(f"experiment '{self.id}': {complaint}")

    def workloads_on(self, array_id: str) -> tuple[Workload, ...]:
        return tuple(job.build() for job in self.jobs if not job.arrays or array_id in job.arrays)

    @property
    def rounds(self) -> int:
        """Maximum number of repeats of a cell."""
        return max(self.repeats, self.most_repeats)

    @property
    def measurement_count(self) -> int:
        """Maximum number of measurements, computed without listing them."""
        jobs = sum(len(job.arrays or self.arrays) for job in self.jobs) * self.rounds
        # A rebuild under load counts as five: itself and its load in four phases.
        rebuilds = len(self.rebuild.arrays) * (self.rebuild.repeats or self.repeats) if self.rebuild else 0
        return jobs + rebuilds * 5

    @property
    def disk_count(self) -> int:
        if self.disks.pools:
            return sum(pool.count for pool in self.disks.pools)
        members = [array.disk_count for array in self.arrays] or [0]
        return sum(members) if self.disks.sharing is Sharing.SEPARATE else max(members)

    @property
    def disk_specs(self) -> tuple[DiskSpec, ...]:
        if self.disks.pools:
            return self.disks.pool_specs()
        plan = self.disks
        return tuple(
            DiskSpec(name=f"disk{number + 1:02d}", kind=plan.kind, size_bytes=plan.size_bytes, model=plan.model)
            for number in range(self.disk_count)
        )

    def array(self, array_id: str) -> ArrayPlan:
        """Find an array by its id. Raises SpecError, which suggests the nearest id, if the id is unknown."""
        for array in self.arrays:
            if array.id == array_id:
                return array
        raise unknown_word("array of this experiment", array_id, [array.id for array in self.arrays])


def seeded(experiment: Experiment, seed: int | None) -> Experiment:
    """Replace the experiment's seed, which changes its addresses and order; None leaves it unchanged."""
    return experiment if seed is None else msgspec.structs.replace(experiment, seed=seed)


def _complaints(experiment: Experiment) -> Iterator[str]:
    ids = [array.id for array in experiment.arrays]
    is_shared, rebuild = experiment.disks.sharing is Sharing.SHARED, experiment.rebuild
    if experiment.format_version not in FORMAT_VERSIONS:
        yield f"format_version must be {FORMAT_VERSION}"
    if not experiment.why.isprintable() or len(experiment.why) > 400:
        yield "why must be one printable line of at most 400 characters"
    yield from experiment.shared_complaints()
    if rebuild and rebuild.repeats is not None and not 1 <= rebuild.repeats <= experiment.repeats:
        yield "rebuild.repeats must be between 1 and the repeats of the jobs"
    if experiment.rounds_per_build > 1 and not is_shared:
        yield "rounds_per_build needs sharing 'shared', since separate arrays are built only once"
    if not 0 < experiment.wanted_half_width < 1:
        yield "wanted_half_width must be above 0 and below 1, such as 0.05"
    if not experiment.arrays:
        yield "it has no arrays"
    if not experiment.jobs and not rebuild:
        yield "it has neither jobs nor a rebuild"
    if experiment.disks.pools and not is_shared:
        yield "pools need sharing 'shared'"
    if experiment.disk_count > MOST_DISKS:
        yield f"it needs {experiment.disk_count} disks, but at most {MOST_DISKS} are possible"
    if experiment.measurement_count > MOST_MEASUREMENTS:
        yield f"it has {experiment.measurement_count:,} measurements, but at most {MOST_MEASUREMENTS:,} are possible"
    if len(set(ids)) < len(ids):
        yield "two arrays have the same id"
    # Both would be stored as ARRAY/ID/healthy/REPEAT, and the later one would replace the earlier one.
    if rebuild and rebuild.under and (rebuild.under.id or rebuild.under.workload) in experiment.job_ids:
        yield "the rebuild's load needs an id that no job has"
    named = (*(rebuild.arrays if rebuild else ()), *(name for job in experiment.jobs for name in job.arrays))
    for name in named:
        if name not in ids:
            yield f"it refers to an array '{name}', but its arrays are {', '.join(ids)}"


def check(experiment: Experiment) -> None:
    """Raises SpecError, before the run starts, if levels, member counts, workloads or disks are invalid."""
    for spec in experiment.disk_specs if experiment.disks.pools else experiment.disk_specs[:1]:
        spec.validate()
    for array in experiment.arrays:
        array.check(experiment.disks)
    for name in experiment.rebuild.arrays if experiment.rebuild else ():
        plan = experiment.array(name)
        if plan.is_volume:
            raise SpecError(
                f"array '{name}' of experiment '{experiment.id}' is a volume of several arrays, but only rebuilds "
                "of single arrays are measured",
                hint="omit it from [rebuild]",
            )
        level = level_with_layout(plan.level, plan.layout)
        if not level.is_redundant:
            raise SpecError(
                f"array '{name}' of experiment '{experiment.id}' cannot be rebuilt: {level.name} has no redundancy",
                hint="name arrays of level 1, 4, 5, 6 or 10 in [rebuild]",
            )
    seconds = 0.0
    for job in experiment.jobs:
        seconds += _seconds(job.build()) * len(job.arrays or experiment.arrays) * experiment.rounds
    if experiment.rebuild and experiment.rebuild.under:
        repeats = experiment.rebuild.repeats or experiment.repeats
        seconds += _seconds(experiment.rebuild.under.build()) * len(experiment.rebuild.arrays) * repeats * 3
    if seconds > MOST_SECONDS:
        raise SpecError(
            f"experiment '{experiment.id}' would measure for {seconds / 3600:,.0f} hours",
            hint=f"choose fewer repeats or shorter runs; the limit is {MOST_SECONDS // 3600} hours",
        )


def _seconds(workload: Workload) -> float:
    return workload.warmup_seconds + workload.runtime_seconds


@cache
def built_in_names() -> tuple[str, ...]:
    """Return the names of the built-in experiments."""
    return tuple(catalogue(BUILT_IN_FOLDER))


def find_experiment(name: str) -> tuple[Experiment, str]:
    """Return the experiment with this name or path, and the text of its file. Raises SpecError if there is none."""
    path = file_of("experiment", name, BUILT_IN_FOLDER)
    text = toml_text(path)
    experiment = decode_toml(text, Experiment, source=str(path))
    check(experiment)
    return experiment, text
