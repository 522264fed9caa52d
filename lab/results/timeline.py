"""Time series of an array's rebuild: columns of interval values on one time axis, and phases."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lab.errors import ResultError
from lab.gates.decoding import MOST_DISKS, Figure, FormatVersion
from lab.results.formats import decode_visible, refuse_newer
from lab.results.record import Word

FORMAT_VERSION = 1
MOST_SAMPLES = 500_000
"""A rebuild of two days, sampled three times a second."""
Column = Annotated[tuple[Figure | None, ...], msgspec.Meta(max_length=MOST_SAMPLES)]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A named interval of the time axis: healthy, degraded, rebuilding, restored."""

    name: Word
    start_seconds: Figure
    end_seconds: Figure


class MemberRates(msgspec.Struct, frozen=True, kw_only=True):
    """Throughput of one member, one value per time."""

    name: Word
    read_bytes_per_second: Column
    written_bytes_per_second: Column


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Each value is that of the interval that ends at its time; None at the start of a recording: no interval yet."""

    format_version: FormatVersion = FORMAT_VERSION
    seconds: Annotated[tuple[Figure, ...], msgspec.Meta(max_length=MOST_SAMPLES)]
    """Seconds since the first sample."""
    read_iops: Column
    """IOPS at the array, as its users see them."""
    write_iops: Column
    wait_seconds: Column
    """Mean time of the array's I/Os; None without I/O."""
    rebuilt_fraction: Column
    """None while md runs no rebuild."""
    busy_fraction: Column
    """Busy fraction of the machine's CPUs."""
    members: Annotated[tuple[MemberRates, ...], msgspec.Meta(max_length=MOST_DISKS)] = ()
    stretches: Annotated[tuple[Stretch, ...], msgspec.Meta(max_length=100)] = ()

    def __post_init__(self) -> None:
        columns = [self.read_iops, self.write_iops, self.wait_seconds, self.rebuilt_fraction, self.busy_fraction]
        for member in self.members:
            columns += [member.read_bytes_per_second, member.written_bytes_per_second]
        if any(len(column) != len(self.seconds) for column in columns):
            raise ValueError("columns of different lengths")


def encode_timeline(timeline: Timeline) -> str:
    """Encode for storage, rounded: the resolution of a sample's time is a thousandth."""
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
    """Raises ResultError if it is not a timeline, is damaged, or was written by a newer raidlab."""
    try:
        found = decode_visible(text.encode(), Timeline)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is no timeline: {error}", hint="restore it from a copy") from None
    refuse_newer(source, "timeline", found.format_version, FORMAT_VERSION)
    return found
