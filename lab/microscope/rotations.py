"""Which member has P, Q and each piece of data in a row, for every parity layout that md knows. Pure, without tables.

Layouts go by md's numbers (ALGORITHM_* in drivers/md/raid5.h); the places are those of raid5_compute_sector() in
drivers/md/raid5.c. ``lab.arrays.stripes`` lists the first rows of an array by name; here one row is asked for, and
from a member back to the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.arrays.level_names import ROTATION_NUMBERS

PARITY_FIRST, PARITY_LAST = 4, 5
RAID5_LAYOUTS: Mapping[int, str] = {number: word for number, word in ROTATION_NUMBERS.items() if number <= PARITY_LAST}
RAID6_LAYOUTS: Mapping[int, str] = {
    **ROTATION_NUMBERS,
    8: "ddf-zero-restart",
    9: "ddf-N-restart",
    10: "ddf-N-continue",
}
"""md's number -> mdadm's word (r6layout in mdadm's maps.c). Those that end in -6 are a RAID 5 and one member for Q."""

_DDF = (8, 9, 10)
_DDF_N_RESTART, _DDF_N_CONTINUE = 9, 10
_SIX = 16
_GOING_LEFT = (0, 2, 9, 10)
_SYMMETRIC = (2, 3, 10)


@dataclass(frozen=True, slots=True)
class ParityRow:
    """One row of a parity array: slots of P and Q, and from the order of the data to slots and back."""

    layout: int
    raid_disks: int
    p_slot: int
    q_slot: int | None

    @property
    def _turning(self) -> int:
        """How many members the data go round on."""
        return self.raid_disks - 1 if self.layout >= _SIX else self.raid_disks

    @property
    def _is_symmetric(self) -> bool:
        return self.layout % _SIX in _SYMMETRIC

    @property
    def _behind_p(self) -> int:
        """How far behind P the first data lie in a symmetric layout: behind Q, where that comes next."""
        return 1 if self.q_slot is None or self.layout == _DDF_N_CONTINUE or self.layout >= _SIX else 2

    @property
    def data_count(self) -> int:
        """Pieces of data in the row."""
        return self.raid_disks - (1 if self.q_slot is None else 2)

    @property
    def _parity_slots(self) -> tuple[int, ...]:
        return tuple(sorted(slot for slot in (self.p_slot, self.q_slot) if slot is not None))

    def data_slot(self, index: int) -> int:
        """The slot of the row's first, second, … piece of data."""
        if self._is_symmetric:
            return (self.p_slot + self._behind_p + index) % self._turning
        slot = index
        for taken in self._parity_slots:
            slot += slot >= taken
        return slot

    def data_index(self, slot: int) -> int | None:
        """Which piece of data lies in a slot; None for P and Q."""
        if slot in self._parity_slots:
            return None
        if self._is_symmetric:
            return (slot - self.p_slot - self._behind_p) % self._turning
        return slot - sum(taken < slot for taken in self._parity_slots)

    @property
    def data_slots(self) -> tuple[int, ...]:
        """All of them, in the order of the data."""
        return tuple(self.data_slot(index) for index in range(self.data_count))

    @property
    def exponents(self) -> dict[int, int]:
        """Slot of data -> the power of 2 by which Q weighs it.

        md counts the data from the slot behind Q (raid6_d0() in drivers/md/raid5.c); in the DDF layouts from slot 0,
        and P and Q are counted too (raid6_idx_to_slot()).
        """
        if self.layout in _DDF:
            return {slot: slot for slot in self.data_slots}
        first = 0 if self.q_slot is None else self.q_slot + 1
        around = ((first + step) % self.raid_disks for step in range(self.raid_disks))
        return {slot: power for power, slot in enumerate(slot for slot in around if slot not in self._parity_slots)}


def parity_row(layout: int, raid_disks: int, row: int, *, has_q: bool) -> ParityRow:
    """The row's places. ``layout`` is one of ``RAID5_LAYOUTS``, or with ``has_q`` of ``RAID6_LAYOUTS``.

    RAID 4 is ``PARITY_LAST``.
    """
    p = _p_slot(layout, raid_disks, row, has_q=has_q)
    return ParityRow(layout, raid_disks, p, _q_slot(layout, raid_disks, p) if has_q else None)


def _p_slot(layout: int, raid_disks: int, row: int, *, has_q: bool) -> int:
    turning = raid_disks - 1 if layout >= _SIX else raid_disks
    base = layout % _SIX
    if base == PARITY_FIRST:
        return 0
    if base == PARITY_LAST:
        return raid_disks - (2 if has_q else 1)
    if base in _GOING_LEFT:
        return turning - 1 - (row + (layout == _DDF_N_RESTART)) % turning
    return row % turning


def _q_slot(layout: int, raid_disks: int, p_slot: int) -> int:
    if layout >= _SIX:
        return raid_disks - 1
    return (p_slot + (-1 if layout == _DDF_N_CONTINUE else 1)) % raid_disks
