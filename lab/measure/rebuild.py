"""Measures and predicts rebuilds, and runs the lab's programs that read, mark and checksum data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from lab.arrays import operations
from lab.arrays.status import SyncAction, parse_count, read_array, wait_until_idle
from lab.disks import Lab
from lab.errors import ArrayError, CommandFailed
from lab.machine import GuestProgram, Machine
from lab.measure.job import BackgroundLoad, Measured
from lab.measure.samples import Rates, Recorder, Sample, busy_fraction, rates_between
from lab.results.record import MemberRates, Stretch, Timeline
from lab.theory.model import DiskRates, Prediction, rebuild_seconds
from lab.units import KIB

LONGEST_SECONDS = 24 * 3600.0
_HERE = Path(__file__).resolve().parent
SUM_DATA = GuestProgram(_HERE / "sum_program.py", "sum-data")
MARK_DATA = GuestProgram(_HERE / "mark_program.py", "mark-data")
READ_PLACES = GuestProgram(_HERE / "read_program.py", "read-places")


class DataVerdict(StrEnum):
    """The state of the data after a fault."""

    INTACT = "intact"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    """The array returns an error instead of data, so the loss is reported."""


@dataclass(frozen=True, slots=True)
class DataSum:
    """The checksum of a device or of files, as ``sha256:…``. ``digest`` is empty if reading failed."""

    digest: str
    error: str = ""


def sum_device(machine: Machine, device: str, length_bytes: int = 0, *, skip_bytes: int = 0) -> DataSum:
    """Compute the checksum of a block device, or of ``length_bytes`` after ``skip_bytes`` (multiples of 4 KiB)."""
    return _sum(machine, (device,), skip_bytes, length_bytes)


def sum_files(machine: Machine, folder: str) -> DataSum:
    """Compute the checksum of all files directly in a folder, in the order of their names. Subfolders are skipped."""
    names = machine.list_dirs([folder])[folder]
    return _sum(machine, [f"{folder}/{name}" for name in names], 0, 0)


def verdict(before: DataSum, after: DataSum) -> DataVerdict:
    """Compare two checksums of the same data."""
    if not after.digest or not before.digest:
        return DataVerdict.UNREADABLE
    return DataVerdict.INTACT if before.digest == after.digest else DataVerdict.CHANGED


def _sum(machine: Machine, paths: Sequence[str], skip_bytes: int, length_bytes: int) -> DataSum:
    arguments = (str(skip_bytes), str(length_bytes), *paths)
    try:
        digest, size = machine.call(SUM_DATA, arguments, timeout_seconds=LONGEST_SECONDS).split()
    except CommandFailed as error:
        return DataSum("", error.stderr_tail or "reading failed")
    return DataSum(f"sha256:{digest}") if size != "0" else DataSum("", "there are no data")


REBUILD_HERTZ = 10.0
_RECOVER = SyncAction.RECOVER.value


@dataclass(frozen=True, slots=True)
class RebuildMeasured:
    """The result of a rebuild."""

    rebuild_seconds: float
    rebuilt_bytes: int
    samples: tuple[Sample, ...]
    load: Measured | None = None
    request_bytes: float | None = None
    """Mean request size at the members during the rebuild; None with a background load, which adds its own requests."""


def fail_and_remove(lab: Lab, array: str, member: str) -> None:
    """Fail and remove a member. Raises ArrayError if the array is not degraded afterwards."""
    lab.execute(operations.fail(array, member))
    lab.execute(operations.remove(array, member))
    if not read_array(lab.machine, array).is_degraded:
        raise ArrayError(f"{array} is not degraded after {member} was removed", hint="see 'raidlab array show'")


def measure_rebuild(
    lab: Lab, array: str, member: str, members: Sequence[str], *, start_load: Callable[[], BackgroundLoad] | None = None
) -> RebuildMeasured:
    """Erase the removed member's superblock, add it as a new member, and sample the rebuild to its end.

    ``members`` are the kernel names to sample. ``start_load`` starts a background load before the member is added,
    since a small array may be rebuilt within a second; the load is stopped when the rebuild ends.
    """
    used_bytes = read_array(lab.machine, array).component_bytes or 0
    lab.execute(operations.zero_superblocks((member,)))
    found: Measured | None = None
    with Recorder(lab.machine, array, members, hertz=REBUILD_HERTZ) as recorder:
        load = start_load() if start_load else None
        try:
            if load:
                load.wait_until_busy()
            lab.execute(operations.add(array, member))
            wait_until_idle(lab.machine, array)
        finally:
            if load:
                found = load.stop(recorder.between)
    asked = None if start_load else mean_request_bytes(recorder.samples, members)
    return RebuildMeasured(sync_seconds(recorder.samples), used_bytes, recorder.samples, found, asked)


def mean_request_bytes(samples: Sequence[Sample], members: Sequence[str]) -> float | None:
    """Return the mean size of the I/Os on these disks from the first to the last sample, or None if there were none."""
    first, last = samples[0].disks, samples[-1].disks
    moved = [last[name].since(first[name]) for name in members if name in first and name in last]
    count = sum(each.reads + each.writes for each in moved)
    return sum(each.read_bytes + each.written_bytes for each in moved) / count if count > 0 else None


def sync_seconds(samples: Sequence[Sample]) -> float:
    """Return the duration of the rebuild in ``samples``.

    The start and the end are each taken to be midway between two samples, which halves the uncertainty.
    Raises ArrayError if no sample shows a rebuild, or if it did not end.
    """
    shown = [index for index, sample in enumerate(samples) if sample.sync_action == _RECOVER and sample.degraded_count]
    if not shown:
        raise ArrayError("no sample shows the rebuild, because it was too short", hint="use larger disks")
    first, last = shown[0], shown[-1]
    if last + 1 >= len(samples):
        raise ArrayError("the rebuild had not ended when sampling stopped", hint="wait for it to end")
    start = samples[max(0, first - 1)].time_seconds
    return (samples[last + 1].time_seconds + samples[last].time_seconds) / 2 - (start + samples[first].time_seconds) / 2


def predict_rebuild(lab: Lab, array: str, rates: DiskRates | None) -> Prediction | None:
    """Predict the duration of a rebuild without other load, or return None if the rates of a disk are missing."""
    status = read_array(lab.machine, array)
    if rates is None or status.component_bytes is None:
        return None
    path = f"/sys/block/{array}/md/sync_speed_max"
    limit = parse_count(lab.machine.read([path])[path] or "")
    disks, most = [rates] * status.raid_disks, None if limit is None else limit * KIB
    return rebuild_seconds(status.component_bytes, disks, sync_speed_max_bytes_per_second=most)


MOST_POINTS = 400
"""Maximum number of points in a timeline. Rates come from counters, so long intervals are as exact as short ones."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Consecutive samples and the name of their phase."""

    name: str
    samples: tuple[Sample, ...]


_Point = tuple[Sample | None, Sample]
"""The previous sample, which is None at the start of a recording, and a sample."""


def timeline_of(recordings: Sequence[Recording], array: str, members: Sequence[str]) -> Timeline | None:
    """Join the recordings on the machine's clock, or return None if no recording has two samples."""
    usable = [recording for recording in recordings if len(recording.samples) > 1]
    if not usable:
        return None
    step = math.ceil(sum(len(recording.samples) for recording in usable) / MOST_POINTS)
    points = [point for recording in usable for point in _points(recording.samples, step)]
    start = points[0][1].time_seconds
    whole = _rates(array, points)
    return Timeline(
        seconds=tuple(later.time_seconds - start for _, later in points),
        read_iops=tuple(rates.read_iops if rates else None for rates in whole),
        write_iops=tuple(rates.write_iops if rates else None for rates in whole),
        wait_seconds=tuple(rates.mean_wait_seconds if rates else None for rates in whole),
        rebuilt_fraction=tuple(_rebuilt(later) for _, later in points),
        busy_fraction=tuple(busy_fraction(earlier, later) if earlier else None for earlier, later in points),
        members=tuple(_member(name, points) for name in members),
        stretches=tuple(_stretches(usable, start)),
    )


def _points(samples: Sequence[Sample], step: int) -> Iterator[_Point]:
    chosen = [*samples[:-1:step], samples[-1]]
    yield None, chosen[0]
    yield from pairwise(chosen)


def _rates(device: str, points: Sequence[_Point]) -> list[Rates | None]:
    return [rates_between(earlier, later, device) if earlier else None for earlier, later in points]


def _rebuilt(sample: Sample) -> float | None:
    if sample.sync_action != _RECOVER or sample.sync_progress is None:
        return None
    return sample.sync_progress.fraction


def _member(name: str, points: Sequence[_Point]) -> MemberRates:
    rates = _rates(name, points)
    return MemberRates(
        name=name,
        read_bytes_per_second=tuple(each.read_bytes_per_second if each else None for each in rates),
        written_bytes_per_second=tuple(each.write_bytes_per_second if each else None for each in rates),
    )


def _stretches(recordings: Sequence[Recording], start: float) -> Iterator[Stretch]:
    """Yield the start and end of each recording. A rebuild is limited to the samples that show md's recovery."""
    for recording in recordings:
        samples = recording.samples
        shown = [sample.time_seconds for sample in samples if _rebuilt(sample) is not None]
        begin, end = (shown[0], shown[-1]) if shown else (samples[0].time_seconds, samples[-1].time_seconds)
        yield Stretch(name=recording.name, start_seconds=begin - start, end_seconds=end - start)
