"""What happened over time while an array was rebuilt: columns of interval values on one time axis, and phases."""

from __future__ import annotations

import msgspec

from lab.errors import ResultError
from lab.results.formats import refuse_newer

FORMAT_VERSION = 1


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time axis with a name: healthy, degraded, rebuilding, restored."""

    name: str
    start_seconds: float
    end_seconds: float


class MemberRates(msgspec.Struct, frozen=True, kw_only=True):
    """What one member moved, a value for every time."""

    name: str
    read_bytes_per_second: tuple[float | None, ...]
    written_bytes_per_second: tuple[float | None, ...]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Each value is of the interval that ends at its time; None at the start of every recording: no interval yet."""

    format_version: int = FORMAT_VERSION
    seconds: tuple[float, ...]
    """Since the first sample."""
    read_iops: tuple[float | None, ...]
    """Of the array, as whoever uses it sees them."""
    write_iops: tuple[float | None, ...]
    wait_seconds: tuple[float | None, ...]
    """Mean time of the array's I/Os; None without I/O."""
    rebuilt_fraction: tuple[float | None, ...]
    """None while md rebuilds nothing."""
    busy_fraction: tuple[float | None, ...]
    """Of the machine's CPUs."""
    members: tuple[MemberRates, ...] = ()
    stretches: tuple[Stretch, ...] = ()

    def __post_init__(self) -> None:
        columns = [self.read_iops, self.write_iops, self.wait_seconds, self.rebuilt_fraction, self.busy_fraction]
        for member in self.members:
            columns += [member.read_bytes_per_second, member.written_bytes_per_second]
        if any(len(column) != len(self.seconds) for column in columns):
            raise ValueError("columns of different lengths")


def encode_timeline(timeline: Timeline) -> str:
    """As it is stored: a thousandth is as fine as a sample's time is."""
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
    """Raises ResultError if it is none, is damaged, or was written by a newer raidlab."""
    try:
        found = msgspec.json.decode(text, type=Timeline)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is no timeline: {error}", hint="restore it from a copy") from None
    refuse_newer(source, "timeline", found.format_version, FORMAT_VERSION)
    return found
