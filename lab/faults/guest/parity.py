"""Parity of RAID 5 and RAID 6 (H. P. Anvin, The mathematics of RAID-6)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

POLYNOMIAL = 0x11D
DOUBLES = bytes((value << 1 ^ (POLYNOMIAL if value & 0x80 else 0)) & 0xFF for value in range(256))


def double(data: bytes) -> bytes:
    """Multiply each byte by 2 in GF(2^8)."""
    return data.translate(DOUBLES)


def exclusive_or(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Return the bitwise exclusive or of pieces of equal length."""
    total = 0
    for piece in pieces:
        total ^= int.from_bytes(piece, "little")
    return total.to_bytes(len(pieces[0]), "little")


def syndrome(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Compute the Q parity of RAID 6, the sum of 2^i times data chunk i in GF(2^8), by Horner's rule."""
    q = bytes(len(pieces[0]))
    for piece in reversed(pieces):
        q = exclusive_or((double(q), piece))
    return q
