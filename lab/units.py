"""Human-readable sizes, durations and rates. Input is parsed by ``lab.gates.decoding``."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECTOR_BYTES = 512


def format_bytes(count: int) -> str:
    """Return the size in the largest power of 1024 that divides it, so that the text parses to the same number."""
    for suffix, unit in (("T", 1024 * GIB), ("G", GIB), ("M", MIB), ("K", KIB)):
        if count and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)


def human_bytes(count: float) -> str:
    """Return the size rounded to three significant digits, for example ``1.95 GiB``."""
    for suffix, unit in (("TiB", 1024 * GIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= unit:
            return f"{_three_digits(count / unit)} {suffix}"
    return f"{count:.0f} B"


def _three_digits(value: float) -> str:
    # From 1000 on, three significant digits would need an exponent.
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def counted(number: int, thing: str) -> str:
    """Return the number with its noun, for example ``1 cell`` or ``1,200 cells``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def human_seconds(seconds: float) -> str:
    """Return the duration as text, for example ``850 µs``, ``13.3 ms``, ``4.2 s`` or ``3:05 min``."""
    if seconds >= 60:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    for suffix, unit in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        # If the bound were exactly one unit, 0.9999 ms would be written as 1000 µs.
        if seconds >= 0.9995 * unit:
            return f"{_three_digits(seconds / unit)} {suffix}"
    return f"{seconds * 1e9:.0f} ns"


def human_rate(per_second: float) -> str:
    """Return an IOPS figure as text, for example ``75``, ``1.2k`` or ``82.9k``."""
    if per_second >= 1000:
        return f"{per_second / 1000:.1f}k"
    return f"{per_second:.0f}"
