"""P and Q of RAID 6, and the wrong member: arithmetic in the field of 256 elements. Pure.

P is the exclusive-or of the data, Q their sum weighted by powers of 2, with the polynomial 0x11d (H. P. Anvin, "The
mathematics of RAID-6"; lib/raid6 of the kernel).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

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
