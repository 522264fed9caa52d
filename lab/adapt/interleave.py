"""In which order a volume uses its md arrays, and where each slice lies on its disk so that neighbours stay near.

Device mapper cannot repeat a pattern: a table has one target for each *segment*, a run of stripes of one array.
Segments are as short as the limit on targets allows; where each is one stripe, this is the pattern of the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.adapt.rule import AdaptLevel
from lab.adapt.windows import Composition, TierWindow

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
