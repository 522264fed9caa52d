"""A disk drive's mechanical parameters, and what follows from them by arithmetic. drive/mechanics.h plays them through.

Seek time by distance after Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, 1994).
"""

from __future__ import annotations

import math

import msgspec

from lab.units import SECTOR_BYTES

MAX_ZONES = 32
_STEPS = 200


class Zone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A band of cylinders; zones are listed from the outside inwards."""

    share: float
    """Of the drive's cylinders."""
    sectors_per_track: int


class Mechanics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters as in data sheets: times in milliseconds, seek distances in the real drive's cylinders.

    Raises ValueError for values that no drive has.
    """

    rpm: float
    cylinders: int
    surfaces: int
    zones: tuple[Zone, ...]
    seek_short_a_ms: float
    seek_short_b_ms: float
    seek_short_cylinders: int
    """Shorter seeks take a + b √distance, longer ones the straight line a + b distance."""
    seek_long_a_ms: float
    seek_long_b_ms: float
    track_switch_ms: float
    overhead_ms: float
    """Of a command in the drive's electronics; a command that waits has it behind it when its turn comes."""
    interface_bytes_per_second: float = 300e6
    queue_depth: int = 1
    """Commands that the drive puts in the order that suits it, shortest access time first; 1: none."""
    read_ahead_bytes: int = 0
    write_cache_bytes: int = 0
    """Volatile: what is in it is lost with the power. 0: off."""

    def __post_init__(self) -> None:
        counts = (self.rpm, self.cylinders, self.surfaces, self.queue_depth, self.interface_bytes_per_second)
        if min(counts) <= 0 or not 0 < len(self.zones) <= MAX_ZONES:
            raise ValueError(
                f"rpm, cylinders, surfaces, queue_depth and interface must be above 0, zones 1 to {MAX_ZONES}"
            )
        if any(zone.share <= 0 or zone.sectors_per_track <= 0 for zone in self.zones):
            raise ValueError("a zone's share and sectors_per_track must be above 0")
        times = (self.seek_short_a_ms, self.seek_short_b_ms, self.seek_long_a_ms, self.seek_long_b_ms)
        sizes = (self.track_switch_ms, self.overhead_ms, self.read_ahead_bytes, self.write_cache_bytes)
        if min(*times, *sizes) < 0:
            raise ValueError("times and sizes cannot be negative")

    @property
    def revolution_seconds(self) -> float:
        """One turn."""
        return 60 / self.rpm

    def seek_seconds(self, cylinders: float) -> float:
        """Moving the arm over so many of the real drive's cylinders."""
        if cylinders <= 0:
            return 0.0
        if cylinders < self.seek_short_cylinders:
            return (self.seek_short_a_ms + self.seek_short_b_ms * math.sqrt(cylinders)) / 1000
        return (self.seek_long_a_ms + self.seek_long_b_ms * cylinders) / 1000

    @property
    def mean_random_seconds(self) -> float:
        """A small request at a random place, alone: overhead, mean seek, half a turn.

        The distance d between two random places, as a share of the stroke, has the density 2(1 - d).
        """
        points = [(index + 0.5) / _STEPS for index in range(_STEPS)]
        seek = sum(2 * (1 - point) * self.seek_seconds(point * self.cylinders) for point in points) / _STEPS
        return self.overhead_ms / 1000 + seek + self.revolution_seconds / 2

    def sequential_bytes_per_second(self, zone: Zone) -> float:
        """One long transfer in a zone: a turn and a switch for each track."""
        track, cylinder = self.track_switch_ms / 1000, max(self.track_switch_ms / 1000, self.seek_seconds(1))
        switch = ((self.surfaces - 1) * track + cylinder) / self.surfaces
        return zone.sectors_per_track * SECTOR_BYTES / (self.revolution_seconds + switch)

    @property
    def words(self) -> tuple[str, ...]:
        """As the drive's plugin for nbdkit takes it: see drive/plugin.c."""
        zones = ",".join(f"{zone.share:g}:{zone.sectors_per_track}" for zone in self.zones)
        words = [
            f"rpm={self.rpm:g}",
            f"cylinders={self.cylinders}",
            f"surfaces={self.surfaces}",
            f"zones={zones}",
            f"seek_short={self.seek_short_a_ms:g},{self.seek_short_b_ms:g},{self.seek_short_cylinders}",
            f"seek_long={self.seek_long_a_ms:g},{self.seek_long_b_ms:g}",
            f"track_switch={self.track_switch_ms:g}",
            f"overhead={self.overhead_ms:g}",
            f"interface={self.interface_bytes_per_second:.0f}",
            f"queue={self.queue_depth}",
        ]
        if self.read_ahead_bytes:
            words.append(f"read_ahead={self.read_ahead_bytes}")
        if self.write_cache_bytes:
            words.append(f"write_cache={self.write_cache_bytes}")
        return tuple(words)
