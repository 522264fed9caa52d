"""The composition of an array that consists of several, for display: its places, arrays and slices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.arrays.preview import SliceRow
    from lab.arrays.status import ArrayStatus, MemberStatus


class SliceState(StrEnum):
    """State of a slice."""

    WORKING = "working"
    MISSING = "missing"
    """Absent; reads are reconstructed from the other members."""
    REBUILDING = "rebuilding"
    LOST = "lost"
    """Its array has lost data."""


@dataclass(frozen=True, slots=True)
class InnerArray:
    """One inner array; ``array`` is None while it does not run."""

    width: str
    """Data and parity of a stripe: ``4+1``."""
    array: ArrayStatus | None
    is_lost: bool
    is_degraded: bool

    @property
    def name(self) -> str:
        """Its md name; empty while it does not run."""
        return self.array.name if self.array else ""


@dataclass(frozen=True, slots=True)
class Inside:
    """The whole composition."""

    places: tuple[MemberStatus, ...]
    """Every disk that it should have; a missing disk has no device."""
    arrays: tuple[InnerArray, ...]
    rows: tuple[SliceRow, ...]
    states: tuple[tuple[SliceState | None, ...], ...]
    """States of the slices of each row; None where a disk has none."""
