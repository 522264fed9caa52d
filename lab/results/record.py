"""Record of one run of an experiment: conditions, every repeat of every cell, rebuilds, integrity, timings.

Records never change once written. A change of meaning increases ``SCHEMA_VERSION``; new fields with defaults do not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from lab.gates.decoding import Figure, FormatVersion, PartCount, RepeatNumber, SizeBytes
from lab.workloads.fio_output import JobFigures

KIND = "raidlab-result"
SCHEMA_VERSION = 2
MOST_CELLS = 10_000
MOST_ARRAYS = 200
"""The largest experiment of the catalogue has 1,146 cells of 41 arrays; every pair of a record's arrays is compared."""
Word = Annotated[str, msgspec.Meta(max_length=300)]
"""A name. It is limited because the widest word of a column sets the width of a table."""
Line = Annotated[str, msgspec.Meta(max_length=4000)]
Lines = Annotated[tuple[Line, ...], msgspec.Meta(max_length=2 * MOST_CELLS)]


class RunStatus(StrEnum):
    """Whether a run is complete."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    """Interrupted or still running; the measured cells are stored and the run can be resumed."""


class DiskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One lab disk of the run."""

    name: Word
    path: Word
    kind: Word
    model: Word = ""
    size_bytes: SizeBytes
    write_cache: Word = ""
    """``write back``, ``write through``, or empty if unknown."""


class Conditions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hardware and software of a measurement, which must be equal in a comparison."""

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
    """Path under /sys or /proc -> value during the measurement."""
    depends_on: dict[Word, Word] = {}
    """In virtual time, kernel, programs and raidlab -> SHA-256: equal sums give equal figures."""

    @property
    def has_cpu_time(self) -> bool:
        """Whether CPU time is meaningful: a virtual clock does not advance while the processor works."""
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
    """The commands that built it."""
    details: dict[Word, Line] = {}
    """Output of mdadm and sysfs about it, verbatim."""
    content_sums: dict[Word, Word] = {}
    """Disk -> SHA-256 of its size and its non-blank pages, when the array was last stopped; in virtual time only."""


class CpuFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """CPU time of one cell over all CPUs and kernel threads, minus that of the idle machine."""

    cpu_seconds_total: Figure
    """Job, md's kernel threads and everything else, minus the idle baseline."""
    job_cpu_seconds: Figure | None = None
    md_thread_cpu_seconds: Figure
    cpu_microseconds_per_io: Figure | None = None
    cpu_seconds_per_gib: Figure | None = None
    idle_baseline_fraction: Figure
    """Busy fraction of all CPU time before the job."""
    steal_fraction: Figure | None = None


class SteadyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Steady-state check over five equal rounds of the measured interval; fractions are of the rounds' mean."""

    range_fraction: Figure
    """Largest minus smallest round."""
    slope_fraction: Figure
    """Absolute change of the best-fit line from the first round to the last."""
    is_steady: bool


class CellRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cell"):
    """One measured fio job: one array, workload, phase and repeat."""

    array: Word
    workload: Word
    phase: Word
    """State of the array: healthy, degraded, rebuilding, restored."""
    repeat: RepeatNumber
    order_index: SizeBytes
    """Position in the order of measurement."""
    started_utc: Word
    figures: JobFigures
    """In stored records ``raw_json`` is empty and its text is in ``raw_file``."""
    cpu: CpuFigures | None = None
    steady: SteadyFigures | None = None
    """None: too few I/Os or samples."""
    cache_events: Lines = ()
    job_text: str = ""
    file_bytes: SizeBytes | None = None
    addresses: Word = ""
    """Fingerprint of a random load's addresses (lab.workloads.fio_job); empty for others, and in older records."""
    waited_fraction: Figure | None = None
    """Fraction of the time in which the machine was runnable while the computer ran other work on its processor; None
    if unknown."""
    disturbed_before: SizeBytes = 0
    """Number of earlier measurements of it that were discarded because the computer ran other work."""
    predicted_iops: Figure | None = None
    prediction_reason: Line = ""
    stamps: Lines = ()
    raw_file: Word = ""

    @property
    def key(self) -> str:
        """Unique key of the cell in its record."""
        return f"{self.array}/{self.workload}/{self.phase}/{self.repeat}"


class PhaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a rebuild under load."""

    name: Word
    seconds: Figure


class RebuildRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rebuild"):
    """One rebuild, and the integrity of the data."""

    array: Word
    repeat: RepeatNumber
    rebuild_seconds: Figure
    predicted_seconds: Figure | None = None
    prediction_reason: Line = ""
    rebuilt_bytes: SizeBytes
    request_bytes: Figure | None = None
    """Mean request size at the members; None with a background load, or if not measured."""
    under_workload: Word = ""
    """Workload that ran during the rebuild; empty: none."""
    checksum_before: Word = ""
    checksum_after: Word = ""
    data_unchanged: bool | None = None
    """None: not checked."""
    phases: tuple[PhaseRecord, ...] = ()
    stamps: Lines = ()
    timeline_file: Word = ""
    """Path of its timeline in the result's folder (lab.results.timeline); empty: none was stored."""

    @property
    def key(self) -> str:
        """Unique key of the rebuild in its record."""
        return f"{self.array}/rebuild/{self.under_workload or 'idle'}/{self.repeat}"


class Timings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Wall time of the run by activity, in seconds of the client's computer."""

    fio_seconds: Figure = 0.0
    mkfs_seconds: Figure = 0.0
    mdadm_seconds: Figure = 0.0
    resync_seconds: Figure = 0.0
    other_seconds: Figure = 0.0
    total_seconds: Figure = 0.0
    simulated_seconds: dict[Word, Figure] = {}
    """In virtual time, by the machine's clock: ``fio``, ``mkfs``, ``mdadm``, ``resync``, ``other`` and ``total``."""


class ResultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one experiment."""

    kind: str = KIND
    schema_version: FormatVersion = SCHEMA_VERSION
    id: Word
    created_utc: Word
    """ISO 8601, such as ``2026-11-21T10:01:29Z``."""
    raidlab_version: Word
    experiment: Word
    experiment_toml: str
    """The complete file that was run."""
    seed: int | None = None
    """Overrides the seed of the file; None: the file's seed."""
    status: RunStatus = RunStatus.INCOMPLETE
    conditions: Conditions
    arrays: Annotated[tuple[ArrayRecord, ...], msgspec.Meta(max_length=MOST_ARRAYS)] = ()
    cells: Annotated[tuple[CellRecord, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    rebuilds: Annotated[tuple[RebuildRecord, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    timings: Timings = Timings()
    planned_cells: Lines = ()
    """Keys of all cells that the experiment requests."""
    resumed_after: Annotated[tuple[PartCount, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    """Number of stored cells and rebuilds each time the run was resumed."""
    stamps: Lines = ()
    """Names of rules and notes that lower trust in the whole result."""

    def __post_init__(self) -> None:
        # Records of version 0.1 have CPU figures in virtual time, of a single stray tick per cell.
        if not self.conditions.has_cpu_time and any(cell.cpu for cell in self.cells):
            cells = tuple(msgspec.structs.replace(cell, cpu=None) for cell in self.cells)
            msgspec.structs.force_setattr(self, "cells", cells)

    @property
    def done_keys(self) -> frozenset[str]:
        """Keys of the stored cells and rebuilds."""
        return frozenset([*(cell.key for cell in self.cells), *(rebuild.key for rebuild in self.rebuilds)])

    @property
    def files(self) -> tuple[str, ...]:
        """Further files of the result's folder: fio documents and timelines of rebuilds."""
        named = (*(cell.raw_file for cell in self.cells), *(rebuild.timeline_file for rebuild in self.rebuilds))
        return tuple(name for name in named if name)

    @property
    def missing_keys(self) -> tuple[str, ...]:
        """Keys of planned cells that are not yet measured, in planned order; a resumed run measures these."""
        done = self.done_keys
        return tuple(key for key in self.planned_cells if key not in done)


def encode_record(record: ResultRecord) -> bytes:
    """A record as the bytes of its file, indented for readers."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
