"""What is kept of one run of an experiment: conditions, every repeat of every cell, rebuilds, integrity, timings.

Records never change once written. A change of meaning raises ``SCHEMA_VERSION``; new fields with defaults do not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from lab.gates.numbers import Figure, PartCount, RepeatNumber, SizeBytes
from lab.workloads.fio_output import JobFigures

KIND = "raidlab-result"
SCHEMA_VERSION = 2
MOST_CELLS = 10_000
MOST_ARRAYS = 200
"""The largest experiment of the catalogue has 1,146 cells of 41 arrays; each two arrays of a record are compared."""
Word = Annotated[str, msgspec.Meta(max_length=300)]
"""What names something. A table is as wide as its widest word in every row."""
Line = Annotated[str, msgspec.Meta(max_length=4000)]
Lines = Annotated[tuple[Line, ...], msgspec.Meta(max_length=2 * MOST_CELLS)]


class RunStatus(StrEnum):
    """How far a run came."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    """Interrupted or still going; what was measured is there and can be resumed."""


class DiskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One lab disk that took part."""

    name: Word
    path: Word
    kind: Word
    model: Word = ""
    size_bytes: SizeBytes
    write_cache: Word = ""
    """``write back``, ``write through`` or empty: not known."""


class Conditions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where and with what was measured: what a comparison must find equal."""

    target: Word
    host_name: Word
    kernel_release: Word
    architecture: Word
    cpu_model: Word = ""
    cpu_count: SizeBytes
    memory_bytes: SizeBytes
    is_embedded: bool
    is_virtual_time: bool = False
    mdadm_version: Word
    fio_version: Word
    nbdkit_version: Word = ""
    disks: tuple[DiskRecord, ...] = ()
    host_cache_notes: Lines = ()
    tunables: dict[Word, Line] = {}
    """Path under /sys or /proc -> value while measuring."""
    depends_on: dict[Word, Word] = {}
    """In virtual time, kernel, programs and raidlab -> SHA-256: who has the same gets the same figures."""

    @property
    def has_cpu_time(self) -> bool:
        """Whether CPU time means anything: a virtual clock stands still while the processor works."""
        return not self.is_virtual_time


class ArrayRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One array as it was built."""

    name: Word
    level: Word
    layout: Word = ""
    members: Lines
    spares: Lines = ()
    chunk_bytes: SizeBytes | None = None
    size_bytes: SizeBytes
    used_device_bytes: SizeBytes | None = None
    consistency_policy: Word = ""
    file_system: Word = ""
    commands: Lines = ()
    """The lines that built it."""
    details: dict[Word, Line] = {}
    """What mdadm and sysfs say of it, word for word."""
    content_sums: dict[Word, Word] = {}
    """Disk -> SHA-256 of its size and of its pages that are not blank, when the array was stopped for the last time; in
    virtual time alone."""


class CpuFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """CPU time of one cell over all CPUs and kernel threads, without what the machine uses when idle."""

    cpu_seconds_total: Figure
    """Job, md's kernel threads and everything else, minus the idle baseline."""
    job_cpu_seconds: Figure | None = None
    md_thread_cpu_seconds: Figure
    cpu_microseconds_per_io: Figure | None = None
    cpu_seconds_per_gib: Figure | None = None
    idle_baseline_fraction: Figure
    """Part of all CPU time that was busy before the job."""
    steal_fraction: Figure | None = None


class SteadyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the measured stretch was steady, over five equal rounds of it; fractions are of the rounds' mean."""

    range_fraction: Figure
    """Greatest minus smallest round."""
    slope_fraction: Figure
    """What the best-fit line rises or falls by, from the first round to the last."""
    is_steady: bool


class CellRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cell"):
    """One measured start of fio: one array, workload, phase and repeat."""

    array: Word
    workload: Word
    phase: Word
    """State of the array: healthy, degraded, rebuilding, restored."""
    repeat: RepeatNumber
    order_index: SizeBytes
    """Place in the order in which cells were measured."""
    started_utc: Word
    figures: JobFigures
    """In stored records ``raw_json`` is empty here and lies in ``raw_file``."""
    cpu: CpuFigures | None = None
    steady: SteadyFigures | None = None
    """None: too few I/Os or samples to tell."""
    cache_events: Lines = ()
    job_text: str = ""
    file_bytes: SizeBytes | None = None
    addresses: Word = ""
    """Fingerprint of a random load's addresses (lab.workloads.addresses); empty for others, and in older records."""
    waited_fraction: Figure | None = None
    """Part of the time in which the machine could have run and the computer gave its processor to others; None where
    that cannot be told."""
    disturbed_before: SizeBytes = 0
    """How often it was measured before and thrown away, because the computer did something else meanwhile."""
    predicted_iops: Figure | None = None
    prediction_reason: Line = ""
    stamps: Lines = ()
    raw_file: Word = ""

    @property
    def key(self) -> str:
        """What makes the cell unique in its record."""
        return f"{self.array}/{self.workload}/{self.phase}/{self.repeat}"


class PhaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of a rebuild."""

    name: Word
    seconds: Figure


class RebuildRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rebuild"):
    """One rebuild, and whether the data lived through it."""

    array: Word
    repeat: RepeatNumber
    rebuild_seconds: Figure
    predicted_seconds: Figure | None = None
    prediction_reason: Line = ""
    rebuilt_bytes: SizeBytes
    request_bytes: Figure | None = None
    """Mean size of what the members were asked for; None where a load was beside it, or nobody looked."""
    under_workload: Word = ""
    """Workload that ran meanwhile; empty: none."""
    checksum_before: Word = ""
    checksum_after: Word = ""
    data_unchanged: bool | None = None
    """None: not checked."""
    phases: tuple[PhaseRecord, ...] = ()
    stamps: Lines = ()
    timeline_file: Word = ""
    """Where in the result's folder its timeline lies (lab.results.timeline); empty: none was kept."""

    @property
    def key(self) -> str:
        """What makes the rebuild unique in its record."""
        return f"{self.array}/rebuild/{self.under_workload or 'idle'}/{self.repeat}"


class Timings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Wall time of the run by what it was spent on, in seconds of the client's computer."""

    fio_seconds: Figure = 0.0
    mkfs_seconds: Figure = 0.0
    mdadm_seconds: Figure = 0.0
    resync_seconds: Figure = 0.0
    other_seconds: Figure = 0.0
    total_seconds: Figure = 0.0
    simulated_seconds: dict[Word, Figure] = {}
    """In virtual time, of the machine's clock: on ``fio``, ``mkfs``, ``mdadm``, ``resync``, ``other`` and ``total``."""


class ResultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one experiment."""

    kind: str = KIND
    schema_version: int = SCHEMA_VERSION
    id: Word
    created_utc: Word
    """ISO 8601, such as ``2026-11-21T10:01:29Z``."""
    raidlab_version: Word
    experiment: Word
    experiment_toml: str
    """The whole file, as it was run."""
    seed: int | None = None
    """In place of the file's; None: the file's."""
    status: RunStatus = RunStatus.INCOMPLETE
    conditions: Conditions
    arrays: Annotated[tuple[ArrayRecord, ...], msgspec.Meta(max_length=MOST_ARRAYS)] = ()
    cells: Annotated[tuple[CellRecord, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    rebuilds: Annotated[tuple[RebuildRecord, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    timings: Timings = Timings()
    planned_cells: Lines = ()
    """Keys of all cells that the experiment asks for."""
    resumed_after: Annotated[tuple[PartCount, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    """How many cells and rebuilds were there each time when it was gone on with."""
    stamps: Lines = ()
    """Names of rules and notes that lower trust in the whole result."""

    def __post_init__(self) -> None:
        # Records of version 0.1 have an account of a virtual clock: the stray tick of a whole cell.
        if not self.conditions.has_cpu_time and any(cell.cpu for cell in self.cells):
            cells = tuple(msgspec.structs.replace(cell, cpu=None) for cell in self.cells)
            msgspec.structs.force_setattr(self, "cells", cells)

    @property
    def done_keys(self) -> frozenset[str]:
        """Keys of the cells and rebuilds that are there."""
        return frozenset([*(cell.key for cell in self.cells), *(rebuild.key for rebuild in self.rebuilds)])

    @property
    def files(self) -> tuple[str, ...]:
        """What else belongs into the result's folder: documents of fio, timelines of rebuilds."""
        named = (*(cell.raw_file for cell in self.cells), *(rebuild.timeline_file for rebuild in self.rebuilds))
        return tuple(name for name in named if name)

    @property
    def missing_keys(self) -> tuple[str, ...]:
        """Planned and not yet measured, in planned order: what a resumed run does."""
        done = self.done_keys
        return tuple(key for key in self.planned_cells if key not in done)


def encode_record(record: ResultRecord) -> bytes:
    """A record as the bytes of its file, laid out for people too."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
