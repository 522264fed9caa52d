"""The record of one run (conditions, every repeat of every cell, rebuilds, integrity, timings), and its timelines.

Records never change once written. ``SCHEMA_VERSION`` increases when the meaning of a field changes, but not when a
field with a default is added. Two results of one experiment in virtual time have the same ``digest``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec

from lab.errors import ResultError
from lab.gates.decoding import (
    MOST_DISKS,
    Figure,
    FormatVersion,
    PartCount,
    RepeatNumber,
    SizeBytes,
    convert,
    decode_json,
)
from lab.gates.text import visible
from lab.units import MIB
from lab.workloads.fio_output import JobFigures

KIND = "raidlab-result"
HEALTHY, DEGRADED, REBUILDING, RESTORED = PHASES = ("healthy", "degraded", "rebuilding", "restored")
"""The states of an array in which a cell is measured."""
SCHEMA_VERSION = 2
MOST_CELLS = 10_000
MOST_ARRAYS = 200
"""Limits, because every pair of arrays is compared. The largest built-in experiment has 1,146 cells on 41 arrays."""
Word = Annotated[str, msgspec.Meta(max_length=300)]
"""A name. Its length is limited because the widest word of a column sets the width of a table."""
Line = Annotated[str, msgspec.Meta(max_length=4000)]
Lines = Annotated[tuple[Line, ...], msgspec.Meta(max_length=2 * MOST_CELLS)]
_SEQUENTIAL = re.compile(r"^rw=(read|write)\s*$", re.MULTILINE)


class RunStatus(StrEnum):
    """Whether a run is complete."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    """The run was interrupted, or is still in progress. The measured cells are stored, and the run can be resumed."""


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
    """The hardware and software of a measurement, which must be the same in all results of a comparison."""

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
    """Values under /sys and /proc during the measurement, by path."""
    depends_on: dict[Word, Word] = {}
    """SHA-256 of the kernel, the programs and raidlab, in virtual time only, where equal sums mean equal figures."""

    @property
    def is_stock(self) -> bool:
        """Whether raidlab started a stock kernel in QEMU."""
        return self.is_embedded and self.target.startswith("qemu:")

    @property
    def has_cpu_time(self) -> bool:
        """Whether CPU time is meaningful. A virtual clock does not advance while the processor works."""
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
    """The commands that built the array."""
    details: dict[Word, Line] = {}
    """What mdadm and sysfs report about the array, verbatim."""
    content_sums: dict[Word, Word] = {}
    """The SHA-256 of each disk's size and non-blank pages when the array was last stopped, in virtual time only."""


class CpuFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The CPU time of one cell over all CPUs and kernel threads, minus that of the idle machine."""

    cpu_seconds_total: Figure
    """The CPU time of the job, md's kernel threads and everything else, minus the idle baseline."""
    job_cpu_seconds: Figure | None = None
    """A field that occurs only in results of earlier versions, whose digests cover it."""
    md_thread_cpu_seconds: Figure
    cpu_microseconds_per_io: Figure | None = None
    cpu_seconds_per_gib: Figure | None = None
    idle_baseline_fraction: Figure
    """Fraction of all CPU time before the job in which the CPUs were busy."""
    steal_fraction: Figure | None = None


class SteadyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A steady-state check over five equal slices of the measured interval, in fractions of the slices' mean."""

    range_fraction: Figure
    """The difference between the largest and the smallest slice."""
    slope_fraction: Figure
    """The absolute value by which the best-fit line changes from the first slice to the last."""
    is_steady: bool


class CellRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cell"):
    """One measured fio job, on one array, with one workload, phase and repeat."""

    array: Word
    workload: Word
    phase: Word
    """State of the array: one of ``PHASES``."""
    repeat: RepeatNumber
    order_index: SizeBytes
    """Position in the order of measurement."""
    started_utc: Word
    figures: JobFigures
    """The figures. In stored records their ``raw_json`` is empty, and ``raw_file`` is the name of the file with it."""
    cpu: CpuFigures | None = None
    steady: SteadyFigures | None = None
    """The steady-state check, or None if there were too few I/Os or samples."""
    cache_events: Lines = ()
    job_text: str = ""
    file_bytes: SizeBytes | None = None
    addresses: Word = ""
    """Fingerprint of a random load's addresses (lab.workloads.jobs), empty for other loads and in older records."""
    waited_fraction: Figure | None = None
    """Fraction of the time in which the machine was runnable but its processor did other work, or None if unknown."""
    disturbed_before: SizeBytes = 0
    """Number of earlier measurements of this cell that were discarded because the computer was doing other work."""
    predicted_iops: Figure | None = None
    prediction_reason: Line = ""
    stamps: Lines = ()
    raw_file: Word = ""

    @property
    def key(self) -> str:
        return f"{self.array}/{self.workload}/{self.phase}/{self.repeat}"

    @property
    def is_sequential(self) -> bool:
        return _SEQUENTIAL.search(self.job_text) is not None


class PhaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of a rebuild under load."""

    name: Word
    seconds: Figure


class RebuildRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rebuild"):
    """One rebuild, and whether the data were intact."""

    array: Word
    repeat: RepeatNumber
    rebuild_seconds: Figure
    predicted_seconds: Figure | None = None
    prediction_reason: Line = ""
    rebuilt_bytes: SizeBytes
    request_bytes: Figure | None = None
    """Mean request size at the members, or None if there was a background load or the size was not measured."""
    under_workload: Word = ""
    """The workload that ran during the rebuild, or an empty string if there was none."""
    checksum_before: Word = ""
    checksum_after: Word = ""
    data_unchanged: bool | None = None
    """Whether the data were intact, or None if they were not checked."""
    phases: tuple[PhaseRecord, ...] = ()
    stamps: Lines = ()
    timeline_file: Word = ""
    """Path of the rebuild's timeline in the result's folder, or an empty string if none was stored."""

    @property
    def key(self) -> str:
        return f"{self.array}/rebuild/{self.under_workload or 'idle'}/{self.repeat}"


class Timings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The wall-clock time of the run by activity, in seconds on the client's clock."""

    fio_seconds: Figure = 0.0
    mkfs_seconds: Figure = 0.0
    mdadm_seconds: Figure = 0.0
    resync_seconds: Figure = 0.0
    other_seconds: Figure = 0.0
    total_seconds: Figure = 0.0
    simulated_seconds: dict[Word, Figure] = {}
    """Times on the virtual clock, if any: ``fio``, ``mkfs``, ``mdadm``, ``resync``, ``other`` and ``total``."""


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
    seed: int | None = None
    """The seed that replaces the one in the file, or None to keep that one."""
    status: RunStatus = RunStatus.INCOMPLETE
    conditions: Conditions
    arrays: Annotated[tuple[ArrayRecord, ...], msgspec.Meta(max_length=MOST_ARRAYS)] = ()
    cells: Annotated[tuple[CellRecord, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    rebuilds: Annotated[tuple[RebuildRecord, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    timings: Timings = Timings()
    planned_cells: Lines = ()
    """Keys of all cells that the experiment requests."""
    resumed_after: Annotated[tuple[PartCount, ...], msgspec.Meta(max_length=MOST_CELLS)] = ()
    """How many cells and rebuilds had been stored, for each time that the run was resumed."""
    stamps: Lines = ()
    """Names of violated rules, and notes, which reduce the trust in the whole result."""

    def __post_init__(self) -> None:
        # Records of version 0.1 contain CPU figures in virtual time, each of which comes from a single stray tick.
        if not self.conditions.has_cpu_time and any(cell.cpu for cell in self.cells):
            cells = tuple(msgspec.structs.replace(cell, cpu=None) for cell in self.cells)
            msgspec.structs.force_setattr(self, "cells", cells)

    @property
    def done_keys(self) -> frozenset[str]:
        return frozenset([*(cell.key for cell in self.cells), *(rebuild.key for rebuild in self.rebuilds)])

    @property
    def files(self) -> tuple[str, ...]:
        """The other files in the result's folder, which are fio documents and timelines of rebuilds."""
        named = (*(cell.raw_file for cell in self.cells), *(rebuild.timeline_file for rebuild in self.rebuilds))
        return tuple(name for name in named if name)

    @property
    def missing_keys(self) -> tuple[str, ...]:
        """The keys of the planned cells that a resumed run would still have to measure, in the planned order."""
        done = self.done_keys
        return tuple(key for key in self.planned_cells if key not in done)


def encode_record(record: ResultRecord) -> bytes:
    """Return the bytes of the record's file, indented for human readers."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


_ESCAPES = (rb"\u", rb"\b", rb"\f", rb"\r", b"\x7f")
_MOST_CHANGED_BYTES = 4 * MIB
"""Limit for files of earlier versions, because they are decoded to a tree, which takes fifty times their size."""
_OF_MANY_LINES = frozenset({"experiment_toml", "job_text", "raw_json"})
Kind = TypeVar("Kind")


def refuse_newer(source: object, what: str, version: int, known: int) -> None:
    """Raise ResultError if the format of a file is newer than ``known``, the newest that this version supports."""
    if version > known:
        raise ResultError(
            f"'{source}' has {what} format {version}; this raidlab supports formats up to {known}",
            hint="install a newer raidlab to read it",
        )


def decode_visible(data: bytes, kind: type[Kind], change: Callable[[Any], Any] | None = None) -> Kind:
    """Decode JSON to ``kind``, and make control characters visible (lab.gates.text), so that all text can be printed.

    If ``change`` is given, it is first applied to the decoded tree. Raises msgspec's errors.
    """
    if change is not None:
        if len(data) > _MOST_CHANGED_BYTES:
            raise msgspec.ValidationError("too large for its format")
        return convert(change(_visible(msgspec.json.decode(data))), kind)
    # Decode to the type first, because this drops unknown fields of any size.
    found = decode_json(data, kind)
    # Separate searches take a tenth of the time of one regular expression.
    if data.isascii() and not any(escape in data for escape in _ESCAPES):
        # This is the usual case: the text cannot contain control characters other than line feeds and tabs.
        return found
    return convert(_visible(msgspec.to_builtins(found)), kind)


def _visible(value: Any, *, lines: bool = False) -> Any:
    if isinstance(value, str):
        return visible(value, lines=lines)
    if isinstance(value, list | tuple):
        return [_visible(each) for each in value]
    if isinstance(value, dict):
        return {visible(key): _visible(each, lines=key in _OF_MANY_LINES) for key, each in value.items()}
    return value


FORMAT_VERSION = 1
MOST_SAMPLES = 500_000
"""The number of samples in a rebuild of two days that is sampled three times a second."""
Column = Annotated[tuple[Figure | None, ...], msgspec.Meta(max_length=MOST_SAMPLES)]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """An interval of the time axis, named healthy, degraded, rebuilding or restored."""

    name: Word
    start_seconds: Figure
    end_seconds: Figure


class MemberRates(msgspec.Struct, frozen=True, kw_only=True):
    """The throughput of one member, with one value for each time."""

    name: Word
    read_bytes_per_second: Column
    written_bytes_per_second: Column


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The samples taken during one rebuild.

    Each value covers the interval that ends at its time. The first value is None.
    """

    format_version: FormatVersion = FORMAT_VERSION
    seconds: Annotated[tuple[Figure, ...], msgspec.Meta(max_length=MOST_SAMPLES)]
    """Seconds since the first sample."""
    read_iops: Column
    """IOPS at the array, as its users see them."""
    write_iops: Column
    wait_seconds: Column
    """Mean time that the array's I/Os took, or None if there were none."""
    rebuilt_fraction: Column
    """The fraction of the member that has been rebuilt, or None while md runs no rebuild."""
    busy_fraction: Column
    """Busy fraction of the machine's CPUs."""
    members: Annotated[tuple[MemberRates, ...], msgspec.Meta(max_length=MOST_DISKS)] = ()
    stretches: Annotated[tuple[Stretch, ...], msgspec.Meta(max_length=100)] = ()

    def __post_init__(self) -> None:
        columns = [self.read_iops, self.write_iops, self.wait_seconds, self.rebuilt_fraction, self.busy_fraction]
        for member in self.members:
            columns += [member.read_bytes_per_second, member.written_bytes_per_second]
        if any(len(column) != len(self.seconds) for column in columns):
            raise ValueError("its columns have different lengths")


def encode_timeline(timeline: Timeline) -> str:
    """Encode a timeline for storage, with times rounded to a thousandth of a second."""
    return msgspec.json.encode(_rounded(msgspec.to_builtins(timeline))).decode()


def _rounded(value: object) -> object:
    match value:
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
        case float():
            return round(value, 6 if abs(value) < 10 else 2)
    return value


def decode_timeline(text: str, *, source: str) -> Timeline:
    """Decode a stored timeline. Raises ResultError if it is damaged, or was written by a newer raidlab."""
    try:
        found = decode_visible(text.encode(), Timeline)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is not a timeline: {error}", hint="restore it from a copy") from None
    refuse_newer(source, "timeline", found.format_version, FORMAT_VERSION)
    return found


_CHANCE = frozenset({"id", "created_utc", "started_utc", "cpu_model"})
"""Fields with names and dates of the run, and with the computer's processor, which does not affect virtual time."""
_COMPUTERS = frozenset(
    {"fio_seconds", "mkfs_seconds", "mdadm_seconds", "resync_seconds", "other_seconds", "total_seconds"}
)
"""The fields of the timings that are in the computer's own time."""


def _measured_part(record: ResultRecord) -> dict[str, Any]:
    """Return the reproducible part of a record, without names, dates and the computer's own time."""
    part: dict[str, Any] = _without(msgspec.to_builtins(record), _CHANCE)
    part["timings"] = _without(part["timings"], _COMPUTERS)
    return part


def digest(record: ResultRecord) -> str:
    """Return the SHA-256 of the measured part, in hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(_measured_part(record), order="deterministic")).hexdigest()


def differences(first: ResultRecord, second: ResultRecord) -> Iterator[str]:
    """Yield a line for each value that differs, with its path in the record and both values."""
    yield from _differences("", _measured_part(first), _measured_part(second))


def _without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list | tuple) else value


def _differences(place: str, first: Any, second: Any) -> Iterator[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in dict.fromkeys((*first, *second)):
            yield from _differences(f"{place}.{name}" if place else name, first.get(name), second.get(name))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from _differences(f"{place}[{number}]", one, other)
    elif first != second:
        yield f"{place}: {_short(first)} and {_short(second)}"


def _short(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{len(value)} entries"
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
