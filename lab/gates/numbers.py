"""Numbers from outside.

The promise: a number that the lab works with is finite and bounded, so nothing that it stands for (a wait, a loop,
memory, a device) is without end, and whoever wrote another is told the bound.

The types are for fields of Structs and for options of the command line alike: msgspec checks them while it decodes,
``checked`` anywhere else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec

from lab.errors import LabError, SpecError
from lab.gates.decoding import convert
from lab.gates.text import shortened

N = TypeVar("N", int, float)

_TIB = 1024**4
MOST_BYTES = 2**63 - 1
"""As far as the kernel counts (loff_t)."""
MOST_DISK_BYTES = 16 * _TIB
"""The largest file of ext4 with blocks of 4 KiB (ext4(5)); no larger disk can be made of one."""
MOST_DISKS = 64
"""How many loop and nbd devices the lab asks their drivers for."""
MOST_REPEATS = 200
"""More than any question of a laboratory wants, and few enough for exact tests."""
MOST_SECONDS = 7 * 24 * 3600
_MOST_DIGITS = 19
_MOST_TOLD = 2**53
"""Sectors of so many are still bytes that 64 bits hold."""
_WIDEST = 10**20
_SUFFIXES = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": _TIB}
_SIZE = re.compile(r"([0-9]+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)

SizeBytes = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
DiskBytes = Annotated[int, msgspec.Meta(ge=1024**2, le=MOST_DISK_BYTES)]
BlockBytes = Annotated[int, msgspec.Meta(ge=512, le=256 * 1024**2, multiple_of=512)]
"""Of one request of a load."""
DiskCount = Annotated[int, msgspec.Meta(ge=1, le=MOST_DISKS)]
SpareCount = Annotated[int, msgspec.Meta(ge=0, le=MOST_DISKS)]
JobCount = Annotated[int, msgspec.Meta(ge=1, le=256)]
QueueDepth = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)]
SecondsOrZero = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
Hertz = Annotated[float, msgspec.Meta(ge=0.01, le=20)]
SpeedKibPerSecond = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""What md takes for a speed limit: it keeps an int (drivers/md/md.c)."""
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
PortOrAny = Annotated[int, msgspec.Meta(ge=0, le=65535)]
ProcessId = Annotated[int, msgspec.Meta(ge=2, le=2**22)]
"""Of a process that may be ended: never 1 or less, which would be init or a whole set (kill(2)); pid_max (proc(5))."""
RepeatCount = Annotated[int, msgspec.Meta(ge=1, le=MOST_REPEATS)]
CacheEntries = Annotated[int, msgspec.Meta(ge=17, le=32768)]
"""Of md's stripe cache, in pages for each member (raid5_set_cache_size in drivers/md/raid5.c)."""
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=60_000)]
"""Of one request, or of a part of it."""
Rate = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
PartCount = Annotated[int, msgspec.Meta(ge=1, le=10**7)]
"""Of a drive: cylinders, sectors of a track."""
PointCount = Annotated[int, msgspec.Meta(ge=1, le=10**7)]
"""Of crash points, and of the operations that they are taken from."""
ReadPercent = Annotated[int, msgspec.Meta(ge=1, le=99)]
"""Of a mix, which has some of both."""
LookCount = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Figure = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
"""What somebody says to have measured, in whatever unit: ratios of two and sums of many stay finite."""
RepeatNumber = Annotated[int, msgspec.Meta(ge=0, lt=1000)]
"""Which repeat of a measurement; what is told of them (lab.results.ratios) takes the square of their number."""
Margin = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


def whole(text: str, what: str = "") -> int:
    """A whole number as it was typed. Raises SpecError for other text, and for one of more than 19 digits.

    Python by itself refuses more than 4,300 digits with an error of its own (sys.set_int_max_str_digits).
    """
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise SpecError(
            f"{what} '{shortened(text)}' is not a whole number".lstrip(), hint="write digits alone, such as 4"
        )
    if len(text.strip()) > _MOST_DIGITS:
        raise SpecError(
            f"{what} '{shortened(text)}' is too large".lstrip(), hint=f"write at most {_MOST_DIGITS} digits"
        )
    return int(text)


def told(text: str | None, what: str) -> int:
    """A count in a machine's file, below 2**53; 0 for a file that is not there or empty. Raises LabError for any other.

    The kernel of another computer, or a command in the embedded one, may have put anything where sysfs was.
    """
    return _told(text, what, int)


def told_seconds(text: str | None, what: str) -> float:
    """As ``told``, of a time."""
    return _told(text, what, float)


def _told(text: str | None, what: str, kind: Callable[[str], N]) -> N:
    stripped = (text or "").strip()
    with suppress(ValueError):
        found = kind(stripped or "0")
        if 0 <= found < _MOST_TOLD:
            return found
    raise LabError(
        f"{what} on the machine says '{shortened(stripped)}', which is no number that can be there",
        hint="look at that file there: what is mounted over /sys or /proc may be in the way",
    )


def digits(text: str) -> int | None:
    """The number that is written in digits alone, 19 at most; None for any other text."""
    return int(text) if re.fullmatch(f"[0-9]{{1,{_MOST_DIGITS}}}", text) else None


def real(text: str, what: str = "") -> float:
    """A number with or without a decimal point as it was typed, finite or not. Raises SpecError for other text."""
    try:
        # Python also takes digits of other scripts, and 1_000.
        return float(text if text.isascii() and "_" not in text else "")
    except ValueError:
        told = f"{what} '{shortened(text)}' is not a number".lstrip()
        raise SpecError(told, hint="write digits and one dot, such as 1.5") from None


def parse_bytes(text: str | int, *, what: str = "size") -> int:
    """Read ``500M``, ``64 KiB`` or a whole number of bytes; suffixes are powers of 1024, as in mdadm and fio.

    Raises SpecError for anything else, and for more than ``MOST_BYTES``.
    """
    if isinstance(text, int):
        return checked(text, SizeBytes, what)
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise SpecError(
            f"{what} '{shortened(text)}' is not a size", hint="write a whole number with K, M, G or T, such as 500M"
        )
    return checked(whole(match[1], what) * _SUFFIXES[match[2].upper()], SizeBytes, what)


def checked(value: N, kind: Any, what: str) -> N:
    """``value``, if it is within one of the types above. Raises SpecError with the bound."""
    try:
        return convert(value, kind)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        told = shown(value)
        raise SpecError(f"{what} {told} is not possible", hint=f"write {_range(kind)}") from None


def shown(value: float) -> str:
    """A number that was refused, as far as it can be printed."""
    if value != value or abs(value) < _WIDEST:
        return f"{value:,}"
    return "inf" if value in (math.inf, -math.inf) else "of this size"


def bounds(kind: Any) -> str:
    """In words, what a number may be that is one of the types above, or None; empty for another type."""
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Annotated and get_args(each)[0] in (int, float):
            return _range(each)
    return ""


def _range(kind: Any) -> str:
    meta = kind.__metadata__[0]
    low = f"{meta.ge:,} or more" if meta.ge is not None else f"more than {meta.gt:,}"
    high = f"{meta.le:,} at most" if meta.le is not None else f"less than {meta.lt:,}"
    unit = f", in steps of {meta.multiple_of:,}" if meta.multiple_of else ""
    return f"{low}, {high}{unit}"
