"""The parity of RAID 5 and RAID 6 (H. P. Anvin, "The mathematics of RAID-6"; the kernel's lib/raid6).

P is the exclusive or of the data. Q is their sum, weighted by powers of 2, in the field of 256 elements with the
polynomial 0x11d. Programs on machines use this module too, so it imports only the standard library of Python 3.9.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Part = bytes | memoryview

POLYNOMIAL = 0x11D
ORDER = 255


def _powers() -> tuple[int, ...]:
    found, value = [], 1
    for _ in range(ORDER):
        found.append(value)
        value = value << 1 ^ (POLYNOMIAL if value & 0x80 else 0)
    return tuple(found)


POWERS = _powers()
LOGARITHMS = {value: power for power, value in enumerate(POWERS)}


def _inverse(value: int) -> int:
    """Return the multiplicative inverse of ``value``, which must not be 0."""
    return POWERS[-LOGARITHMS[value] % ORDER]


@cache
def _products(factor: int) -> bytes:
    return bytes(POWERS[(LOGARITHMS[factor] + LOGARITHMS[value]) % ORDER] if value else 0 for value in range(256))


def scaled(data: bytes, factor: int) -> bytes:
    """Multiply every byte by ``factor``, which must not be 0."""
    return data if factor == 1 else data.translate(_products(factor))


def exclusive_or(parts: Iterable[Part], length: int) -> bytes:
    """Return the exclusive or of these parts, or zeros if there are none. For all data of a stripe, the result is P."""
    total = 0
    for part in parts:
        total ^= int.from_bytes(part, "little")
    return total.to_bytes(length, "little")


def q_of(data: Mapping[int, Part], length: int) -> bytes:
    """Return Q, the second parity. ``data`` maps a power to the part whose weight is 2**power."""
    q = bytes(length)
    # Horner's rule, because multiplication by 2 needs only one table.
    for power in range(max(data, default=0), -1, -1):
        q = exclusive_or((scaled(q, 2), data.get(power, b"")), length)
    return q


def one_from_q(q: bytes, others: Mapping[int, bytes], power: int) -> bytes:
    """Compute the part with weight 2**power from Q and all other data."""
    rest = exclusive_or((q, q_of(others, len(q))), len(q))
    return scaled(rest, _inverse(POWERS[power % ORDER]))


def two_from_p_and_q(p: bytes, q: bytes, others: Mapping[int, bytes], powers: tuple[int, int]) -> tuple[bytes, bytes]:
    """Compute two lost parts, with the weights 2**power, from P, Q and ``others``, the other data by their powers."""
    length = len(p)
    p_left = exclusive_or((p, *others.values()), length)
    q_left = exclusive_or((q, q_of(others, length)), length)
    first, second = (POWERS[power % ORDER] for power in powers)
    # a + b = p_left and first a + second b = q_left, so a = (q_left + second p_left) / (first + second).
    one = scaled(exclusive_or((q_left, scaled(p_left, second)), length), _inverse(first ^ second))
    return one, exclusive_or((p_left, one), length)
