"""The repeated pattern of AdaptRaid5: which disk and line hold each logical block, and where its parity is.

This is the layout as the paper has it, block by block; ``lab.adapt.layout`` builds the same out of md arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import gcd, lcm
from typing import NamedTuple

from lab.adapt.layout import Tier, check_reference, data_width, default_reference, tiers
from lab.errors import SpecError


class Address(NamedTuple):
    """Where a logical block is, and the parity of its stripe."""

    disk: int
    line: int
    parity_disk: int
    parity_line: int


@dataclass(frozen=True, slots=True)
class Stripe:
    """One stripe of the pattern: its data disks in logical order, its parity disk, and the line on each of them."""

    data: tuple[int, ...]
    parity: int
    data_lines: tuple[int, ...]
    parity_line: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """One repeat: ``lines[i]`` lines of disk ``i``, ``reference`` data blocks to each aligned unit.

    ``table`` has an entry for each data block: disk, line, number of its stripe.
    """

    lines: tuple[int, ...]
    reference: int
    stripes: tuple[Stripe, ...]
    table: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, lines: Sequence[int], reference: int | None = None, *, spread_holes: bool = True) -> Pattern:
        """Lay out one repeat on disks that give ``lines`` to it.

        Without ``spread_holes`` the cells that a short stripe leaves free stay empty: what the divisor rule would cost.
        Raises SpecError for a reference stripe that the disks cannot hold.
        """
        wide = check_reference(default_reference(len(lines)) if reference is None else reference, len(lines))
        queues = [list(_units(tier, wide, spread_holes=spread_holes)) for tier in tiers(lines)]
        cells = chain.from_iterable(_interleaved(queues))
        stripes, table = _placed(cells, len(lines))
        return cls(tuple(lines), wide, stripes, table)

    @property
    def data_blocks(self) -> int:
        """Data blocks of one repeat."""
        return len(self.table)

    @property
    def cells_used(self) -> int:
        """Cells with data or parity."""
        return len(self.table) + len(self.stripes)

    def repeats(self, capacities: Sequence[int]) -> int:
        """How often the pattern fits on disks of ``capacities`` lines: until the first disk is full."""
        return min((capacity // own for capacity, own in zip(capacities, self.lines, strict=True) if own), default=0)

    def capacity_blocks(self, capacities: Sequence[int]) -> int:
        """Data blocks on disks of ``capacities`` lines."""
        return self.repeats(capacities) * self.data_blocks

    def locate(self, block: int) -> Address:
        """Where logical ``block`` is. Constant time. Raises SpecError below 0 and on a pattern without data."""
        if block < 0 or not self.table:
            raise SpecError(f"there is no block {block}", hint="blocks are counted from 0")
        repeat, offset = divmod(block, len(self.table))
        disk, line, number = self.table[offset]
        stripe = self.stripes[number]
        return Address(
            disk,
            repeat * self.lines[disk] + line,
            stripe.parity,
            repeat * self.lines[stripe.parity] + stripe.parity_line,
        )


Cells = tuple[tuple[int, ...], int]
"""Data disks in order, and the parity disk."""


def _units(tier: Tier, reference: int, *, spread_holes: bool) -> Iterator[list[Cells]]:
    """The tier's stripes, bundled so that each bundle holds ``reference`` data blocks; an incomplete one is dropped."""
    width = data_width(len(tier.disks), reference)
    if not width:
        return
    stripes = _spread(tier.disks, tier.rows, width) if spread_holes else _with_holes(tier, width)
    together = reference // width
    for start in range(0, len(stripes) - together + 1, together):
        yield stripes[start : start + together]


def _spread(disks: Sequence[int], rows: int, width: int) -> list[Cells]:
    """Stripes one after the other round the disks, so that holes fall on all disks in turn and are filled.

    No disk gets more than ``rows`` cells. Parity turns through the cells and shifts once more each time the start
    repeats: turning alone would leave it on some disks wherever the disk count and the width share a factor.
    """
    active, cells = len(disks), width + 1
    cycle = active // gcd(active, cells)
    stripes = []
    for number in range(rows * active // cells):
        used = [disks[(number * cells + cell) % active] for cell in range(cells)]
        parity = (width - (number % cycle + number // cycle)) % cells
        stripes.append(((*used[parity + 1 :], *used[:parity]), used[parity]))
    return stripes


def _with_holes(tier: Tier, width: int) -> list[Cells]:
    """One stripe for each row, starting one disk further each time."""
    active = len(tier.disks)
    rows = (tuple(tier.disks[(row + cell) % active] for cell in range(active)) for row in range(tier.rows))
    return [stripe for row in rows for stripe in _spread(row[: width + 1], 1, width)]


def _interleaved(queues: Sequence[Sequence[list[Cells]]]) -> Iterator[list[Cells]]:
    """Units of all tiers, each tier spread evenly from the front of the pattern to its end."""
    common = lcm(*(len(queue) for queue in queues if queue)) if any(queues) else 1
    order = sorted(
        ((2 * index + 1) * (common // len(queue)), tier, index)
        for tier, queue in enumerate(queues)
        for index in range(len(queue))
    )
    return (queues[tier][index] for _, tier, index in order)


def _placed(stripes: Iterator[Cells], disk_count: int) -> tuple[tuple[Stripe, ...], tuple[tuple[int, int, int], ...]]:
    """Give each cell the next free line of its disk, so that logical neighbours are near on every disk."""
    free = [0] * disk_count
    placed: list[Stripe] = []
    table: list[tuple[int, int, int]] = []
    for data, parity in stripes:
        lines = tuple(free[disk] for disk in data)
        table += [(disk, line, len(placed)) for disk, line in zip(data, lines, strict=True)]
        placed.append(Stripe(data, parity, lines, free[parity]))
        for disk in (*data, parity):
            free[disk] += 1
    return tuple(placed), tuple(table)
