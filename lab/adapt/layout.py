"""The layout of an array of unequal disks.

Tiers say how many of their disks one stripe may use. Windows are md arrays over equal slices of some of a tier's disks.
The interleaving is the order in which a volume uses them, and places slices that are used together next to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from lab.errors import SpecError


class AdaptLevel(StrEnum):
    """How wide stripes are in a tier of fewer disks, and in which order tiers are used."""

    ADAPT5 = "adapt5"
    """Widths divide the reference stripe, and tiers are interleaved."""
    SHR = "shr"
    """As wide as the tier, and tiers one behind the other."""


EQUAL_WITHIN = 0.01
"""Disks whose sizes differ by less count as equal: drives of one nominal size never agree to the last sector."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Rows in which the same disks are active."""

    disks: tuple[int, ...]
    rows: int


def tiers(lines: Sequence[int]) -> tuple[Tier, ...]:
    """Cut disks of ``lines`` into bands: first the rows that all disks have, last those of the largest alone."""
    found = []
    low = 0
    for high in sorted(set(lines)):
        if high > low:
            found.append(Tier(tuple(disk for disk, own in enumerate(lines) if own > low), high - low))
            low = high
    return tuple(found)


def data_width(active: int, reference: int) -> int:
    """Data blocks of a stripe on ``active`` disks: the largest divisor of ``reference`` that leaves a disk for parity.

    So an aligned write of ``reference`` blocks is whole stripes in every tier, and no parity needs anything read.
    0 where a stripe is not possible.
    """
    return max((width for width in range(1, min(active - 1, reference) + 1) if reference % width == 0), default=0)


def default_reference(disk_count: int) -> int:
    """Data blocks of a stripe over all disks."""
    return disk_count - 1


def check_reference(reference: int, disk_count: int) -> int:
    """``reference`` itself. Raises SpecError unless a stripe over all disks can hold that many data blocks."""
    if not 1 <= reference < disk_count:
        raise SpecError(
            f"a reference stripe of {reference} blocks is not possible on {disk_count} disks",
            hint=f"choose 1 to {disk_count - 1}",
        )
    return reference


def usable_lines(capacities: Sequence[int], utilisation: Sequence[float | Fraction] | None = None) -> tuple[int, ...]:
    """Lines that each disk contributes in all.

    ``utilisation`` says how much of each disk is used relative to the others: above 0, at most 1, the largest 1.
    Left out, every disk is used whole, which gives the largest capacity. Raises SpecError for anything else.
    """
    if utilisation is None:
        return tuple(capacities)
    factors = check_utilisation(utilisation, len(capacities))
    # The disk that is full first decides how long the pattern can be repeated.
    scale = min(Fraction(capacity) / factor for capacity, factor in zip(capacities, factors, strict=True))
    return tuple(int(scale * factor) for factor in factors)


def check_utilisation(utilisation: Sequence[float | Fraction], disk_count: int) -> tuple[Fraction, ...]:
    """The factors as exact numbers. Raises SpecError where they cannot be meant."""
    if len(utilisation) != disk_count:
        raise SpecError(
            f"{len(utilisation)} utilisation factors for {disk_count} disks", hint="write one for each disk, in order"
        )
    # No fraction is made of what is none: of NaN there is none.
    if any(not 0 < each <= 1 for each in utilisation) or max(utilisation) != 1:
        raise SpecError(
            "utilisation factors must be above 0 and at most 1, the largest being 1",
            hint="write 1 for the disks that are to be used most, such as 1,1,0.5,0.5",
        )
    return tuple(Fraction(str(each)) if isinstance(each, float) else Fraction(each) for each in utilisation)


def level_out(lines: Sequence[int]) -> tuple[int, ...]:
    """Nearly equal disks made equal: each is used as far as the smallest within ``EQUAL_WITHIN``."""
    kept: dict[int, int] = {}
    lowest = 0
    for own in sorted(set(lines)):
        if not lowest or own > lowest * (1 + EQUAL_WITHIN):
            lowest = own
        kept[own] = lowest
    return tuple(kept[own] for own in lines)


@dataclass(frozen=True, slots=True)
class TierWindow:
    """One md RAID 5: ``disks`` in slot order, each with a slice of ``lines`` lines."""

    number: int
    tier: int
    disks: tuple[int, ...]
    lines: int

    @property
    def width(self) -> int:
        """Data blocks of a stripe."""
        return len(self.disks) - 1

    @property
    def blocks(self) -> int:
        """Data blocks of the array."""
        return self.width * self.lines


@dataclass(frozen=True, slots=True)
class Composition:
    """All md arrays of a volume. ``lines`` are the lines that each disk offers."""

    rule: AdaptLevel
    lines: tuple[int, ...]
    reference: int
    windows: tuple[TierWindow, ...]

    @classmethod
    def of(
        cls, lines: Sequence[int], reference: int | None = None, rule: AdaptLevel = AdaptLevel.ADAPT5
    ) -> Composition:
        """The arrays for disks of ``lines``. Raises SpecError for a reference stripe that the disks cannot hold."""
        wide = check_reference(default_reference(len(lines)) if reference is None else reference, len(lines))
        windows: list[TierWindow] = []
        for number, tier in enumerate(tiers(lines)):
            for disks, slice_lines in _windows(tier, wide, rule):
                windows.append(TierWindow(len(windows), number, disks, slice_lines))
        return cls(rule, tuple(lines), wide, tuple(windows))

    @property
    def by_tier(self) -> tuple[tuple[TierWindow, ...], ...]:
        """The windows of each tier that has any."""
        numbers = dict.fromkeys(window.tier for window in self.windows)
        return tuple(tuple(window for window in self.windows if window.tier == tier) for tier in numbers)

    @property
    def data_blocks(self) -> int:
        """Data blocks of the volume: of each tier whole reference stripes only, unless tiers are concatenated."""
        totals = (sum(window.blocks for window in tier) for tier in self.by_tier)
        return sum(total - total % self.unit for total in totals)

    @property
    def unit(self) -> int:
        """Blocks of the extents that are whole stripes wherever they lie, at multiples of their size."""
        return self.reference if self.rule is AdaptLevel.ADAPT5 else 1

    def windows_on(self, disk: int) -> tuple[TierWindow, ...]:
        """The arrays that have a slice on a disk."""
        return tuple(window for window in self.windows if disk in window.disks)

    @property
    def most_slices(self) -> int:
        """Slices on the disk that has most."""
        return max((len(self.windows_on(disk)) for disk in range(len(self.lines))), default=0)

    def lost_windows(self, failed: frozenset[int]) -> tuple[TierWindow, ...]:
        """The arrays that lose data when these disks are gone: a RAID 5 survives one."""
        return tuple(window for window in self.windows if len(failed.intersection(window.disks)) > 1)


def _windows(tier: Tier, reference: int, rule: AdaptLevel) -> Iterator[tuple[tuple[int, ...], int]]:
    active = len(tier.disks)
    width = data_width(active, reference) if rule is AdaptLevel.ADAPT5 else active - 1
    if not width:
        return
    cells = width + 1
    common = gcd(active, cells)
    slice_lines = tier.rows // (cells // common)
    if not slice_lines:
        return
    for number in range(active // common):
        yield tuple(tier.disks[(number * cells + cell) % active] for cell in range(cells)), slice_lines


MAXIMUM_TARGETS = 1_048_576
"""DM_MAX_TARGETS of Linux since 2024 (drivers/md/dm-core.h): no table may be longer."""

COMFORTABLE_TARGETS = 65_536
"""Long tables take memory and time to load."""


class Segment(NamedTuple):
    """``blocks`` data blocks of the volume from ``start``, which are those of a window from ``window_start``."""

    start: int
    blocks: int
    window: int
    window_start: int


class Piece(NamedTuple):
    """``lines`` lines of a slice from ``slice_start``, which are those of the disk from ``disk_start``."""

    slice_start: int
    lines: int
    disk_start: int


Placement = dict[tuple[int, int], tuple[Piece, ...]]
"""(disk, window) -> where that slice lies."""


def segments(composition: Composition, stripes: int) -> tuple[Segment, ...]:
    """The volume from front to end: runs of ``stripes`` stripes, from the windows of each tier in turn.

    Tiers are used evenly, and change only between reference stripes; or one behind the other, as the rule says.
    """
    emitted = _concatenated(composition) if composition.rule is AdaptLevel.SHR else _even(composition, stripes)
    joined: list[Segment] = []
    start = 0
    for window, window_start, blocks in emitted:
        last = joined[-1] if joined else None
        if last and last.window == window and last.window_start + last.blocks == window_start:
            joined[-1] = Segment(last.start, last.blocks + blocks, window, last.window_start)
        else:
            joined.append(Segment(start, blocks, window, window_start))
        start += blocks
    return tuple(joined)


def shortest_run(composition: Composition, limit: int = COMFORTABLE_TARGETS) -> int:
    """Stripes of one array in a row: the fewest for which a volume needs at most ``limit`` segments."""
    if composition.rule is AdaptLevel.SHR:
        return 1
    longest = max((window.lines for window in composition.windows), default=1)
    stripes = max(1, -(-sum(window.lines for window in composition.windows) // limit))
    while stripes < longest and sum(-(-window.lines // stripes) for window in composition.windows) > limit:
        stripes += 1
    return stripes


def placement(composition: Composition, order: Sequence[Segment], piece_lines: int) -> Placement:
    """Cut slices into pieces of ``piece_lines``, laid on each disk in the order in which the volume uses them."""
    free = [0] * len(composition.lines)
    placed = [0] * len(composition.windows)
    pieces: dict[tuple[int, int], list[Piece]] = {
        (disk, window.number): [] for window in composition.windows for disk in window.disks
    }

    def place(window: TierWindow, until: int) -> None:
        done = placed[window.number]
        while done < until:
            lines = min(piece_lines, window.lines - done)
            for disk in window.disks:
                _append(pieces[disk, window.number], Piece(done, lines, free[disk]))
                free[disk] += lines
            done += lines
        placed[window.number] = done

    widths = [window.width for window in composition.windows]
    for segment in order:
        needed = (segment.window_start + segment.blocks) // widths[segment.window]
        if needed > placed[segment.window]:
            place(composition.windows[segment.window], needed)
    for window in composition.windows:
        place(window, window.lines)
    return {key: tuple(found) for key, found in pieces.items()}


def _append(pieces: list[Piece], piece: Piece) -> None:
    last = pieces[-1] if pieces else None
    if last and last.disk_start + last.lines == piece.disk_start:
        pieces[-1] = Piece(last.slice_start, last.lines + piece.lines, last.disk_start)
    else:
        pieces.append(piece)


Run = tuple[int, int, int]
"""Window, its first block, blocks."""


def _concatenated(composition: Composition) -> Iterator[Run]:
    for window in composition.windows:
        yield window.number, 0, window.blocks


def _even(composition: Composition, stripes: int) -> Iterator[Run]:
    """From the tier that is most behind, until a whole number of reference stripes is complete; and again."""
    queues, totals = [], []
    for windows in composition.by_tier:
        total = sum(window.blocks for window in windows)
        total -= total % composition.reference
        if total:
            queues.append(_in_turn(windows, stripes, total))
            totals.append(total)
    done = [0] * len(queues)
    while True:
        left = [tier for tier in range(len(queues)) if done[tier] < totals[tier]]
        if not left:
            return
        behind = left[0]
        for tier in left[1:]:
            if done[tier] * totals[behind] < done[behind] * totals[tier]:
                behind = tier
        for run in queues[behind]:
            yield run
            done[behind] += run[2]
            if done[behind] % composition.reference == 0:
                break


def _in_turn(windows: Sequence[TierWindow], stripes: int, total: int) -> Iterator[Run]:
    """Runs of a tier's windows, one window after the other, ``total`` blocks in all."""
    width, lines = windows[0].width, windows[0].lines
    left = total
    for row in range(0, lines, stripes):
        blocks = min(stripes, lines - row) * width
        for window in windows:
            if not left:
                return
            run = min(blocks, left)
            yield window.number, row * width, run
            left -= run


@dataclass(frozen=True, slots=True)
class VolumeLayout:
    """A composition with its order and its places: everything that the device-mapper tables need."""

    composition: Composition
    run_stripes: int
    piece_lines: int
    segments: tuple[Segment, ...]
    placement: Placement

    @classmethod
    def of(cls, composition: Composition, run_stripes: int, piece_lines: int) -> VolumeLayout:
        """Lay out a volume whose segments are ``run_stripes`` stripes and whose slices have ``piece_lines`` pieces."""
        order = segments(composition, run_stripes)
        return cls(composition, run_stripes, piece_lines, order, placement(composition, order, piece_lines))
