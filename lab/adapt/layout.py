"""The layout of an array of unequal disks.

A tier is a range of rows on the disks that are large enough for it. A window is an md array over equal slices of some
disks of a tier. Segments define the order in which the volume uses the windows. On each disk, the placement puts parts
of slices that are used together next to each other.

Capacities of unequal disks are in data blocks, without metadata and without rounding to whole slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import groupby, pairwise
from math import gcd
from typing import NamedTuple

from lab.errors import SpecError


class AdaptLevel(StrEnum):
    """The rule for the stripe width in tiers with fewer disks, and for the order of the tiers."""

    ADAPT5 = "adapt5"
    """The stripe width divides the reference stripe, and the tiers are interleaved."""
    SHR = "shr"
    """The stripe spans the tier, and the tiers are concatenated."""


EQUAL_WITHIN = 0.01
"""Relative difference up to which disk sizes count as equal, because drives of the same nominal size can differ
slightly.
"""


@dataclass(frozen=True, slots=True)
class Tier:
    """A range of rows that exist on the same disks."""

    disks: tuple[int, ...]
    rows: int


def tiers(lines: Sequence[int]) -> tuple[Tier, ...]:
    """Divide disks into tiers of rows. ``lines`` is each disk's number of rows. The first tier is on all disks."""
    return tuple(
        Tier(tuple(disk for disk, own in enumerate(lines) if own > low), high - low)
        for low, high in pairwise(sorted({0, *lines}))
    )


def data_width(active: int, reference: int) -> int:
    """Return how many data blocks a stripe on ``active`` disks has: ``reference``'s largest divisor below ``active``.

    An aligned write of ``reference`` blocks then consists of whole stripes in every tier, so no parity update reads
    anything. Returns 0 if no stripe is possible.
    """
    return max((width for width in range(1, min(active - 1, reference) + 1) if reference % width == 0), default=0)


def reference_blocks(reference: int | None, disk_count: int) -> int:
    """Return the number of data blocks in the reference stripe, which spans all disks if ``reference`` is None.

    Raises SpecError if a stripe over all disks cannot have that many.
    """
    if reference is None:
        return disk_count - 1
    if not 1 <= reference < disk_count:
        raise SpecError(
            f"a reference stripe of {reference} blocks is not possible on {disk_count} disks",
            hint=f"choose 1 to {disk_count - 1}",
        )
    return reference


def usable_lines(capacities: Sequence[int], utilisation: Sequence[float | Fraction] | None = None) -> tuple[int, ...]:
    """Return the number of lines that each disk contributes.

    ``utilisation`` is the share of each disk that is used, relative to the other disks. It is above 0 and at most 1,
    and the largest share is exactly 1. By default, all disks are used in full, which gives the largest capacity. Raises
    SpecError if factors are invalid.
    """
    if utilisation is None:
        return tuple(capacities)
    factors = check_utilisation(utilisation, len(capacities))
    # The disk that is full first limits how often the pattern repeats.
    scale = min(Fraction(capacity) / factor for capacity, factor in zip(capacities, factors, strict=True))
    return tuple(int(scale * factor) for factor in factors)


def check_utilisation(utilisation: Sequence[float | Fraction], disk_count: int) -> tuple[Fraction, ...]:
    """Return the factors as fractions. Raises SpecError if they are invalid."""
    if len(utilisation) != disk_count:
        raise SpecError(
            f"{len(utilisation)} utilisation factors for {disk_count} disks", hint="write one for each disk, in order"
        )
    # Check before converting, because Fraction raises an error for NaN.
    if any(not 0 < each <= 1 for each in utilisation) or max(utilisation) != 1:
        raise SpecError(
            "utilisation factors must be above 0 and at most 1, and the largest must be 1",
            hint="write 1 for the disks to be used most, for example 1,1,0.5,0.5",
        )
    return tuple(Fraction(str(each)) if isinstance(each, float) else Fraction(each) for each in utilisation)


def level_out(lines: Sequence[int]) -> tuple[int, ...]:
    """Treat nearly equal disks as equal by using each only up to the smallest size within ``EQUAL_WITHIN``."""
    levelled: dict[int, int] = {}
    lowest = 0
    for own in sorted(set(lines)):
        if not lowest or own > lowest * (1 + EQUAL_WITHIN):
            lowest = own
        levelled[own] = lowest
    return tuple(levelled[own] for own in lines)


@dataclass(frozen=True, slots=True)
class TierWindow:
    """One md RAID 5. ``disks`` are in slot order, and each has a slice of ``lines`` lines."""

    number: int
    tier: int
    disks: tuple[int, ...]
    lines: int

    @property
    def width(self) -> int:
        return len(self.disks) - 1

    @property
    def blocks(self) -> int:
        return self.width * self.lines


@dataclass(frozen=True, slots=True)
class Composition:
    """All md arrays of a volume. ``lines`` is the number of lines of each disk."""

    rule: AdaptLevel
    lines: tuple[int, ...]
    reference: int
    windows: tuple[TierWindow, ...]

    @classmethod
    def of(
        cls, lines: Sequence[int], reference: int | None = None, rule: AdaptLevel = AdaptLevel.ADAPT5
    ) -> Composition:
        """Compose the arrays for disks of ``lines`` lines. Raises SpecError if ``reference`` does not fit on them."""
        wide = reference_blocks(reference, len(lines))
        windows: list[TierWindow] = []
        for number, tier in enumerate(tiers(lines)):
            for disks, slice_lines in _windows(tier, wide, rule):
                windows.append(TierWindow(len(windows), number, disks, slice_lines))
        return cls(rule, tuple(lines), wide, tuple(windows))

    @property
    def by_tier(self) -> tuple[tuple[TierWindow, ...], ...]:
        return tuple(tuple(tier) for _, tier in groupby(self.windows, lambda window: window.tier))

    @property
    def data_blocks(self) -> int:
        """Data blocks of the volume. With interleaved tiers, only whole reference stripes of each tier count."""
        totals = (sum(window.blocks for window in tier) for tier in self.by_tier)
        return sum(total - total % self.unit for total in totals)

    @property
    def unit(self) -> int:
        """Size in blocks of an aligned extent that always consists of whole stripes."""
        return self.reference if self.rule is AdaptLevel.ADAPT5 else 1

    def windows_on(self, disk: int) -> tuple[TierWindow, ...]:
        return tuple(window for window in self.windows if disk in window.disks)

    @property
    def most_slices(self) -> int:
        return max((len(self.windows_on(disk)) for disk in range(len(self.lines))), default=0)

    def lost_windows(self, failed: frozenset[int]) -> tuple[TierWindow, ...]:
        """Return the arrays that lose data if these disks fail, which are those in which more than one member fails."""
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


COMFORTABLE_TARGETS = 65_536
"""Limit for the length of a table, because longer tables take more memory, and more time to load."""


class Segment(NamedTuple):
    """A run of ``blocks`` data blocks from block ``start`` of the volume, mapped to ``window_start`` of a window."""

    start: int
    blocks: int
    window: int
    window_start: int


class Piece(NamedTuple):
    """A run of ``lines`` lines from line ``slice_start`` of a slice, mapped to line ``disk_start`` of the disk."""

    slice_start: int
    lines: int
    disk_start: int


Placement = dict[tuple[int, int], tuple[Piece, ...]]
"""The pieces of each slice, by (disk, window)."""


def segments(composition: Composition, stripes: int) -> tuple[Segment, ...]:
    """Return the segments of the volume, from its beginning to its end, in runs of ``stripes`` stripes.

    With interleaved tiers, all tiers are used evenly, the tier changes only between reference stripes, and the windows
    of a tier alternate. With the SHR-like rule, tiers are concatenated.
    """
    runs: Iterable[Run] = ((window.number, 0, window.blocks) for window in composition.windows)
    if composition.rule is not AdaptLevel.SHR:
        runs = _even(composition, stripes)
    joined: list[Segment] = []
    start = 0
    for window, window_start, blocks in runs:
        last = joined[-1] if joined else None
        if last and last.window == window and last.window_start + last.blocks == window_start:
            joined[-1] = Segment(last.start, last.blocks + blocks, window, last.window_start)
        else:
            joined.append(Segment(start, blocks, window, window_start))
        start += blocks
    return tuple(joined)


def shortest_run(composition: Composition, limit: int = COMFORTABLE_TARGETS) -> int:
    """Return the smallest run length, in stripes, with which a volume needs at most ``limit`` segments."""
    if composition.rule is AdaptLevel.SHR:
        return 1
    longest = max((window.lines for window in composition.windows), default=1)
    stripes = max(1, -(-sum(window.lines for window in composition.windows) // limit))
    while stripes < longest and sum(-(-window.lines // stripes) for window in composition.windows) > limit:
        stripes += 1
    return stripes


def placement(composition: Composition, order: Sequence[Segment], piece_lines: int) -> Placement:
    """Cut slices into pieces of ``piece_lines``, and place them on each disk in the order in which they are used."""
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
"""The window, the first block in the window, and the number of blocks."""


def _even(composition: Composition, stripes: int) -> Iterator[Run]:
    """Yield runs of whole reference stripes, each from the tier of which the smallest share has been used so far."""
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
    """Yield runs of a tier's windows in rotation, ``total`` blocks in all."""
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
    """A composition, and the order and placement of its parts. The device-mapper tables are computed from it."""

    composition: Composition
    run_stripes: int
    piece_lines: int
    segments: tuple[Segment, ...]
    placement: Placement

    @classmethod
    def of(cls, composition: Composition, run_stripes: int, piece_lines: int) -> VolumeLayout:
        """Return the layout of a volume with runs of ``run_stripes`` stripes and pieces of ``piece_lines`` lines."""
        order = segments(composition, run_stripes)
        return cls(composition, run_stripes, piece_lines, order, placement(composition, order, piece_lines))


class System(StrEnum):
    """The ways to make one redundant volume of unequal disks."""

    RAID5 = "raid5"
    """RAID 5 on all disks, each used up to the size of the smallest."""
    ONLY_FAST = "onlyfast"
    """RAID 5 on the largest disks only."""
    ADAPT5 = "adapt5"
    """A RAID 5 in each tier with a stripe width that divides the reference stripe, over rotating sets of disks."""
    SHR = "shr"
    """A RAID 5 in each tier over all of its disks, concatenated, as with partitions, mdadm and LVM."""


def capacity(rule: AdaptLevel, lines: Sequence[int], reference: int | None = None) -> Fraction:
    """Return the capacity, in data blocks, of disks with these numbers of lines, or 0 if the rule does not apply.

    ``reference`` is the reference stripe of adapt5, by default the widest. Raises SpecError if it does not fit on these
    disks.
    """
    if rule is AdaptLevel.SHR:
        return Fraction(sum(tier.rows * (len(tier.disks) - 1) for tier in tiers(lines)))
    wide = reference_blocks(reference, len(lines))
    sized = ((tier.rows * len(tier.disks), data_width(len(tier.disks), wide)) for tier in tiers(lines))
    return sum((Fraction(cells * width, width + 1) for cells, width in sized), Fraction(0))


def best_reference(lines: Sequence[int]) -> int:
    """Return the reference stripe with which adapt5 has the largest capacity, or the widest if there are several."""
    return max(range(1, len(lines)), key=lambda reference: (capacity(AdaptLevel.ADAPT5, lines, reference), reference))


def small_write_share(width: int, blocks: int) -> Fraction:
    """Return the share of writes that cover a stripe of ``width`` data blocks only in part, so that md reads first.

    Each write has ``blocks`` blocks and is aligned to its size. The alignment of writes to stripes repeats after
    ``width``.
    """
    ends = (number * blocks for number in range(width))
    return Fraction(sum(bool(end % width or (end + blocks) % width) for end in ends), width)
