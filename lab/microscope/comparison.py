"""Evaluates one stripe: stored and computed parity, copies, the wrong member, and what md would do. Pure.

P is the exclusive-or of the data, Q their sum weighted by powers of 2 in the field of 256 elements, with the polynomial
0x11d (H. P. Anvin, "The mathematics of RAID-6"; the kernel's lib/raid6). md's procedures: handle_parity_checks5() and
handle_parity_checks6() in drivers/md/raid5.c, process_checks() in drivers/md/raid1.c, sync_request_write() in
drivers/md/raid10.c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from lab.arrays.geometry import RESYNC_BLOCK_SECTORS, ChunkKind, ParityRow, StripeCell
from lab.units import SECTOR_BYTES

POLYNOMIAL = 0x11D
_ORDER = 255


def _powers() -> tuple[int, ...]:
    found, value = [], 1
    for _ in range(_ORDER):
        found.append(value)
        value = value << 1 ^ (POLYNOMIAL if value & 0x80 else 0)
    return tuple(found)


POWERS = _powers()
"""The powers of 2."""
LOGARITHMS = {value: power for power, value in enumerate(POWERS)}


def times(left: int, right: int) -> int:
    """The product of two elements."""
    return POWERS[(LOGARITHMS[left] + LOGARITHMS[right]) % _ORDER] if left and right else 0


def inverse(value: int) -> int:
    """The multiplicative inverse of ``value``, which is not 0."""
    return POWERS[-LOGARITHMS[value] % _ORDER]


@cache
def _table(factor: int) -> bytes:
    return bytes(times(factor, value) for value in range(256))


def scaled(data: bytes, factor: int) -> bytes:
    """Every byte multiplied by ``factor``."""
    return data if factor == 1 else data.translate(_table(factor))


def added(parts: Iterable[bytes], length: int) -> bytes:
    """The sum of these parts, which is their exclusive-or; zeros if there are none."""
    total = 0
    for part in parts:
        total ^= int.from_bytes(part, "little")
    return total.to_bytes(length, "little")


def p_of(data: Iterable[bytes], length: int) -> bytes:
    """P, the first parity of a stripe."""
    return added(data, length)


def q_of(data: Mapping[int, bytes], length: int) -> bytes:
    """Q, the second parity; ``data`` maps the exponent of the weight 2**power to each part."""
    return added((scaled(part, POWERS[power % _ORDER]) for power, part in data.items()), length)


def one_from_q(q: bytes, others: Mapping[int, bytes], power: int) -> bytes:
    """The part with weight 2**power, from Q and all other data."""
    rest = added((q, q_of(others, len(q))), len(q))
    return scaled(rest, inverse(POWERS[power % _ORDER]))


def two_from_p_and_q(p: bytes, q: bytes, others: Mapping[int, bytes], powers: tuple[int, int]) -> tuple[bytes, bytes]:
    """The two parts with these exponents, from P, Q and all other data."""
    length = len(p)
    p_left = added((p, *others.values()), length)
    q_left = added((q, q_of(others, length)), length)
    first, second = (POWERS[power % _ORDER] for power in powers)
    # a + b = p_left and first a + second b = q_left, so a = (q_left + second p_left) / (first + second).
    one = scaled(added((q_left, scaled(p_left, second)), length), inverse(first ^ second))
    return one, added((p_left, one), length)


def differing(left: bytes, right: bytes) -> tuple[int, ...]:
    """Offsets at which two byte strings of the same length differ."""
    if left == right:
        return ()
    total = int.from_bytes(left, "little") ^ int.from_bytes(right, "little")
    return tuple(place for place, value in enumerate(total.to_bytes(len(left), "little")) if value)


def wrong_weight(p_difference: int, q_difference: int) -> int | None:
    """The exponent of the part that is wrong in this byte, from the differences of stored and computed P and Q.

    If only that part is wrong, by e, P differs by e and Q by 2**power times e. The result is below 255, or None if a
    difference is 0. The caller must check whether it is the exponent of a member.
    """
    if not p_difference or not q_difference:
        return None
    return (LOGARITHMS[q_difference] - LOGARITHMS[p_difference]) % _ORDER


PAGE_BYTES = 4096
"""The unit in which md processes each member of a parity array (RAID5_STRIPE_SIZE)."""


class StripeVerdict(StrEnum):
    """Whether a stripe is consistent."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNKNOWN = "nothing to compare"
    """Too many members are missing, or the level has no redundancy."""


@dataclass(frozen=True, slots=True)
class SeenCell:
    """One chunk, and its content on the member."""

    cell: StripeCell
    data: bytes | None
    """None: no member has it, or it could not be read."""
    computed: bytes | None = None
    """The content according to the rest of the stripe: parity from data, data from parity; for copies, the first one.
    """

    @property
    def differs(self) -> tuple[int, ...]:
        """Offsets of bytes that differ from the computed ones."""
        return () if self.data is None or self.computed is None else differing(self.data, self.computed)


@dataclass(frozen=True, slots=True)
class Blamed:
    """The chunk that the redundancy of the stripe identifies as wrong."""

    slot: int
    sector: int
    kind: ChunkKind
    bytes_wrong: tuple[int, ...]
    right: bytes
    """The correct content of the chunk."""
    reason: str


@dataclass(frozen=True, slots=True)
class StripeComparison:
    """The result of the evaluation."""

    verdict: StripeVerdict
    cells: tuple[SeenCell, ...]
    blamed: Blamed | None
    """None: no chunk is wrong, or it cannot be determined which one."""
    why_unknown: str
    """For an inconsistent stripe: why the wrong chunk cannot be determined."""
    mismatch_sectors: int
    """The number that a check would add to md/mismatch_cnt for these bytes."""
    repaired: Mapping[tuple[int, int], bytes]
    """What a repair would write: slot and sector of a chunk -> its complete content afterwards."""


def compare_parity(cells: Sequence[SeenCell], row: ParityRow) -> StripeComparison:
    """Evaluate a stripe of RAID 4, 5 or 6 from the content of its chunks, all of the same length."""
    by_slot = {seen.cell.slot: seen for seen in cells}
    held = {slot: seen.data for slot, seen in by_slot.items() if seen.data is not None}
    length = len(next(iter(held.values()), b""))
    data = filled_in(row, held, length)
    if data is None:
        # Too few chunks are left to compute the missing ones.
        return StripeComparison(StripeVerdict.UNKNOWN, tuple(cells), None, "", 0, {})
    parity = parities_of(row, data, length)
    lost_data = [slot for slot in row.data_slots if slot not in held]
    # Missing data are computed from P, or from Q if P is missing too. A parity used for that cannot be checked.
    used = [slot for slot in parity if slot in held][: len(lost_data)]
    is_enough = len(by_slot) - len(held) < len(parity)
    checked = [slot for slot in parity if slot in held and slot not in used] if is_enough else []
    computed = {slot: data[slot] for slot in lost_data} | {s: part for s, part in parity.items() if s not in used}
    judged = tuple(SeenCell(seen.cell, seen.data, computed.get(seen.cell.slot)) for seen in cells)
    if not checked:
        return StripeComparison(StripeVerdict.UNKNOWN, judged, None, "", 0, {})
    wrong = {seen.cell.slot: seen for seen in judged if seen.cell.slot in checked and seen.differs}
    if not wrong:
        return StripeComparison(StripeVerdict.AGREES, judged, None, "", 0, {})
    pages = {place // PAGE_BYTES for seen in wrong.values() for place in seen.differs}
    repaired = {(seen.cell.slot, seen.cell.sector): seen.computed or b"" for seen in wrong.values()}
    blamed, why = _blame_parity(row, by_slot, parity, has_lost=len(held) < len(by_slot))
    sectors = len(pages) * PAGE_BYTES // SECTOR_BYTES
    return StripeComparison(StripeVerdict.DIFFERS, judged, blamed, why, sectors, repaired)


def parities_of(row: ParityRow, data: Mapping[int, bytes], length: int) -> dict[int, bytes]:
    """The correct P and Q, by slot, from all data by slot."""
    found = {row.p_slot: p_of(data.values(), length)}
    if row.q_slot is not None:
        found[row.q_slot] = q_of({row.exponents[slot]: part for slot, part in data.items()}, length)
    return found


def filled_in(row: ParityRow, held: Mapping[int, bytes], length: int) -> dict[int, bytes] | None:
    """All data by slot, or None if too many are missing.

    Missing data are computed as md does: a single one from P if possible, otherwise from Q; two from both.
    """
    data = {slot: held[slot] for slot in row.data_slots if slot in held}
    missing = [slot for slot in row.data_slots if slot not in held]
    p, q = held.get(row.p_slot), None if row.q_slot is None else held.get(row.q_slot)
    weighed = {row.exponents[slot]: part for slot, part in data.items()}
    if not missing:
        return data
    if len(missing) == 1 and p is not None:
        return data | {missing[0]: p_of((p, *data.values()), length)}
    if len(missing) == 1 and q is not None:
        return data | {missing[0]: one_from_q(q, weighed, row.exponents[missing[0]])}
    if len(missing) == 2 and p is not None and q is not None:
        first, second = missing
        pair = two_from_p_and_q(p, q, weighed, (row.exponents[first], row.exponents[second]))
        return data | dict(zip(missing, pair, strict=True))
    return None


def _blame_parity(
    row: ParityRow, by_slot: Mapping[int, SeenCell], parity: Mapping[int, bytes], *, has_lost: bool
) -> tuple[Blamed | None, str]:
    if row.q_slot is None:
        return None, "one parity shows only that something is wrong"
    if has_lost:
        return None, "with a member missing, one parity is left, which shows only that something is wrong"
    stored = {slot: by_slot[slot].data or b"" for slot in (row.p_slot, row.q_slot)}
    bad = {slot: set(differing(stored[slot], parity[slot])) for slot in stored}
    p, q = row.p_slot, row.q_slot
    named: Counter[int | None] = Counter()
    by_power = {power % 255: slot for slot, power in row.exponents.items()}
    for place in sorted(bad[p] | bad[q]):
        if place not in bad[q]:
            named[p] += 1
        elif place not in bad[p]:
            named[q] += 1
        else:
            power = wrong_weight(stored[p][place] ^ parity[p][place], stored[q][place] ^ parity[q][place])
            named[by_power.get(-1 if power is None else power)] += 1
    if len(named) != 1 or None in named:
        return None, "P and Q name no single member: more than one is wrong"
    (slot,) = named
    assert slot is not None
    cell, wrong = by_slot[slot].cell, tuple(sorted(bad[p] | bad[q]))
    if slot in stored:
        kind, other = (ChunkKind.P, ChunkKind.Q) if slot == p else (ChunkKind.Q, ChunkKind.P)
        return Blamed(
            slot, cell.sector, kind, wrong, parity[slot], f"{other.value} fits the data, and only {kind.value} does not"
        ), ""
    data = bytearray(by_slot[slot].data or b"")
    for place in wrong:
        data[place] ^= stored[p][place] ^ parity[p][place]
    return Blamed(slot, cell.sector, ChunkKind.DATA, wrong, bytes(data), "P and Q both name it"), ""


def compare_copies(cells: Sequence[SeenCell], *, unit_sectors: int = RESYNC_BLOCK_SECTORS) -> StripeComparison:
    """Evaluate the copies of RAID 1 or 10. ``unit_sectors`` is the unit that md compares."""
    groups: dict[int, list[SeenCell]] = {}
    for seen in cells:
        groups.setdefault(seen.cell.number, []).append(seen)
    judged: dict[tuple[int, int], SeenCell] = {}
    repaired: dict[tuple[int, int], bytes] = {}
    sectors = compared = 0
    blames: list[Blamed] = []
    reasons: list[str] = []
    for group in groups.values():
        ordered = sorted(group, key=lambda seen: seen.cell.copy)
        first = next((seen.data for seen in ordered if seen.data is not None), None)
        there = [seen for seen in ordered if seen.data is not None]
        compared += len(there) > 1
        for seen in ordered:
            key = (seen.cell.slot, seen.cell.sector)
            judged[key] = SeenCell(seen.cell, seen.data, first)
            if wrong := judged[key].differs:
                repaired[key] = first or b""
                sectors += unit_sectors * len({place // (unit_sectors * SECTOR_BYTES) for place in wrong})
        if any(judged[seen.cell.slot, seen.cell.sector].differs for seen in there):
            blamed, why = _outvoted(there)
            blames += [blamed] if blamed else []
            reasons += [why] if why else []
    in_order = tuple(judged[seen.cell.slot, seen.cell.sector] for seen in cells)
    verdict = StripeVerdict.DIFFERS if repaired else StripeVerdict.AGREES if compared else StripeVerdict.UNKNOWN
    named = blames[0] if len(blames) == 1 and not reasons else None
    why = next(iter(reasons), "") or ("more than one member is wrong" if len(blames) > 1 else "")
    return StripeComparison(verdict, in_order, named, why, sectors, repaired)


def _outvoted(copies: Sequence[SeenCell]) -> tuple[Blamed | None, str]:
    """The one copy that differs from all others, which agree. md does not do this."""
    if len(copies) < 3:
        return None, "there are two copies and no third: that they differ is all that they can tell"
    counted = Counter(seen.data for seen in copies)
    (usual, votes), *others = counted.most_common()
    if votes != len(copies) - 1 or not others:
        return None, "no copy differs from all others"
    odd = next(seen for seen in copies if seen.data != usual)
    right = usual or b""
    wrong = differing(odd.data or b"", right)
    why = f"{votes} of {len(copies)} copies agree against it"
    return Blamed(odd.cell.slot, odd.cell.sector, odd.cell.kind, wrong, right, why), ""
