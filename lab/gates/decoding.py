"""Typed, bounded values from outside: numbers, JSON and TOML.

The gate guarantees that every number that the lab uses is finite and bounded. The same is therefore true of each wait,
loop, allocation or device size that depends on a number. Any TOML text is read or rejected in a fraction of a second.
Errors state the bound.

The types are for fields of Structs and for command line options. msgspec checks them while decoding, and ``checked``
checks them everywhere else. A lock serialises the first use of each type, because msgspec (0.22.0) publishes its
analysis of a Struct before the analysis is complete. A second thread that decoded the type at that moment would cause a
segmentation fault.

tomllib itself sets no bounds. Its run time is quadratic in the number of dots in a key, it raises RecursionError for
deeply nested brackets, and int() raises ValueError for more than 4,300 digits.
"""

from __future__ import annotations

import math
import re
import threading
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec

from lab.errors import LabError, ResultError, SpecError
from lab.gates.files import MOST_OWN_BYTES, read_plain
from lab.gates.text import MOST_NAME_CHARACTERS, NAME, shortened
from lab.units import KIB, human_bytes

T = TypeVar("T")

Name = Annotated[str, msgspec.Meta(pattern=rf"^{NAME.pattern}\Z", max_length=MOST_NAME_CHARACTERS)]
"""A name that is a field of a file."""
NameOrNone = Annotated[str, msgspec.Meta(pattern=rf"^({NAME.pattern})?\Z", max_length=MOST_NAME_CHARACTERS)]
"""A name, or an empty string for none."""
Names = Annotated[str, msgspec.Meta(pattern=rf"^({NAME.pattern}(,{NAME.pattern})*)?\Z", max_length=1000)]
"""Names separated by commas, such as ``disk01,disk02``."""

_FIRST_USE = threading.Lock()
_known: set[Any] = set()


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON. Raises msgspec.DecodeError if the JSON is invalid, or ValidationError if it is not a ``kind``."""
    _know(kind)
    return msgspec.json.decode(data, type=kind)


def convert(tree: Any, kind: type[T]) -> T:
    """Convert a tree of dicts, lists and plain values to ``kind``. Raises msgspec.ValidationError."""
    _know(kind)
    return msgspec.convert(tree, kind)


def _know(kind: Any) -> None:
    if kind in _known:
        return
    with _FIRST_USE:
        # Creating a decoder analyses the type and all types that it contains.
        msgspec.json.Decoder(kind)
        _known.add(kind)


N = TypeVar("N", int, float)

_TIB = 1024**4
MOST_BYTES = 2**63 - 1
"""The largest value of the kernel's loff_t."""
MOST_DISK_BYTES = 16 * _TIB
"""The size of the largest file on ext4 with blocks of 4 KiB (ext4(5)), which limits the size of a disk in a file."""
MOST_DISKS = 64
"""The number of loop and nbd devices that the lab requests from their drivers."""
MOST_REPEATS = 200
"""Maximum number of repeats, which is more than an experiment needs, and few enough for exact tests."""
MOST_SECONDS = 7 * 24 * 3600
_MOST_DIGITS = 19
_MAX_COUNT = 2**53
"""A limit for counts. The size in bytes of this many sectors still fits in 64 bits."""
_WIDEST = 10**20
_SUFFIXES = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": _TIB}
_SIZE = re.compile(r"([0-9]+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)

FormatVersion = Annotated[int, msgspec.Meta(ge=0, le=10**6)]
"""Version of a stored file, bounded to keep messages short. It is 0 for files that are older than version numbers."""
SizeBytes = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
DiskBytes = Annotated[int, msgspec.Meta(ge=1024**2, le=MOST_DISK_BYTES)]
BlockBytes = Annotated[int, msgspec.Meta(ge=512, le=256 * 1024**2, multiple_of=512)]
"""Size of one request of a load."""
DiskCount = Annotated[int, msgspec.Meta(ge=1, le=MOST_DISKS)]
SpareCount = Annotated[int, msgspec.Meta(ge=0, le=MOST_DISKS)]
JobCount = Annotated[int, msgspec.Meta(ge=1, le=256)]
QueueDepth = Annotated[int, msgspec.Meta(ge=1, le=4096)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)]
SecondsOrZero = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
Hertz = Annotated[float, msgspec.Meta(ge=0.01, le=20)]
SpeedKibPerSecond = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""The range of md's speed limits, which md stores as int (drivers/md/md.c)."""
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
PortOrAny = Annotated[int, msgspec.Meta(ge=0, le=65535)]
ProcessId = Annotated[int, msgspec.Meta(ge=2, le=2**22)]
"""ID of a process to kill. It is at least 2, because 1 is init and smaller numbers mean groups (kill(2)), and at most
pid_max (proc(5))."""
RepeatCount = Annotated[int, msgspec.Meta(ge=1, le=MOST_REPEATS)]
CacheEntries = Annotated[int, msgspec.Meta(ge=17, le=32768)]
"""Size of md's stripe cache, in pages for each member (raid5_set_cache_size in drivers/md/raid5.c)."""
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=60_000)]
"""Duration of one request, or of a part of it."""
Rate = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
PartCount = Annotated[int, msgspec.Meta(ge=1, le=10**7)]
"""Number of parts of a drive, such as cylinders, or sectors per track."""
PointCount = Annotated[int, msgspec.Meta(ge=1, le=10**7)]
"""Number of crash points, or of the operations that they are chosen from."""
ReadPercent = Annotated[int, msgspec.Meta(ge=1, le=99)]
"""Percentage of reads in a mix, which contains both reads and writes."""
LookCount = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Figure = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
"""A figure from outside, in any unit, bounded so that the sum of many figures stays finite."""
RepeatNumber = Annotated[int, msgspec.Meta(ge=0, lt=1000)]
"""Index of a repeat, bounded because statistics on repeats (lab.results.statistics) take quadratic time."""
Margin = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


def whole(text: str, what: str = "") -> int:
    """Parse a whole number of at most 19 digits. Raises SpecError for any other text."""
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise SpecError(
            f"{what} '{shortened(text)}' is not a whole number".lstrip(), hint="write only digits, such as 4"
        )
    if len(text.strip()) > _MOST_DIGITS:
        raise SpecError(
            f"{what} '{shortened(text)}' is too large".lstrip(), hint=f"write at most {_MOST_DIGITS} digits"
        )
    return int(text)


def read_count(text: str | None, what: str) -> int:
    """Parse a count below 2**53 from a machine's file. None and empty text count as 0. Raises LabError."""
    return _number_in(text, what, int)


def read_seconds(text: str | None, what: str) -> float:
    """Parse a time in seconds the way ``read_count`` does."""
    return _number_in(text, what, float)


def _number_in(text: str | None, what: str, kind: Callable[[str], N]) -> N:
    stripped = (text or "").strip()
    with suppress(ValueError):
        found = kind(stripped or "0")
        if 0 <= found < _MAX_COUNT:
            return found
    raise LabError(
        f"{what} on the machine contains '{shortened(stripped)}', which is not a valid number",
        hint="check that file on the machine, because something may be mounted over /sys or /proc",
    )


def digits(text: str) -> int | None:
    """Return the value of a string of at most 19 decimal digits, or None for any other text."""
    return int(text) if re.fullmatch(f"[0-9]{{1,{_MOST_DIGITS}}}", text) else None


def version_numbers(text: str) -> tuple[int, int]:
    """Return the first two numbers in text such as ``6.12.95-cloud`` or ``mdadm - v4.2``, or else (0, 0)."""
    found = re.search(r"(?<![0-9])([0-9]{1,4})\.([0-9]{1,4})(?![0-9])", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def real(text: str, what: str = "") -> float:
    """Parse infinity, NaN, or a number with or without a decimal point. Raises SpecError for other text."""
    try:
        # float() by itself also accepts 1_000, and digits of other scripts.
        return float(text if text.isascii() and "_" not in text else "")
    except ValueError:
        message = f"{what} '{shortened(text)}' is not a number".lstrip()
        raise SpecError(message, hint="write digits and one dot, such as 1.5") from None


def parse_bytes(text: str | int, *, what: str = "size") -> int:
    """Parse ``500M``, ``64 KiB`` or a number of bytes, with powers of 1024 as in mdadm and fio. Raises SpecError."""
    if isinstance(text, int):
        return checked(text, SizeBytes, what)
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise SpecError(
            f"{what} '{shortened(text)}' is not a size", hint="write a whole number with K, M, G or T, such as 500M"
        )
    return checked(whole(match[1], what) * _SUFFIXES[match[2].upper()], SizeBytes, what)


def checked(value: N, kind: Any, what: str) -> N:
    """Return ``value`` if it is valid for ``kind``, which is one of the types above. Raises SpecError otherwise."""
    try:
        return convert(value, kind)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        value_text = shown(value)
        raise SpecError(f"{what} {value_text} is not possible", hint=f"write {_range(kind)}") from None


def shown(value: float) -> str:
    """Return a rejected number in printable form."""
    if value != value or abs(value) < _WIDEST:
        return f"{value:,}"
    return "inf" if value in (math.inf, -math.inf) else "of this size"


def bounds(kind: Any) -> str:
    """Describe the valid range of one of the types above or of its union with None. Return "" for any other type."""
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Annotated and get_args(each)[0] in (int, float):
            return _range(each)
    return ""


def _range(kind: Any) -> str:
    meta = kind.__metadata__[0]
    low = f"{meta.ge:,} or more" if meta.ge is not None else f"more than {meta.gt:,}"
    high = f"at most {meta.le:,}" if meta.le is not None else f"less than {meta.lt:,}"
    unit = f", in steps of {meta.multiple_of:,}" if meta.multiple_of else ""
    return f"{low}, and {high}{unit}"


MOST_TOML_BYTES = 256 * KIB
"""Maximum size of a TOML file, more than ten times that of the longest lesson."""
MOST_DEPTH = 32
MOST_ENTRIES = 1000
"""Maximum number of entries in one table or list."""
_LONGEST_WORD = 256
# Strings and comments, as TOML 1.0 delimits them. An unterminated one extends to the end of its line or of the text.
# Every alternative that has begun also matches, so no text is scanned twice.
_UNSTRUCTURED = re.compile(
    r'"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*(?:"{3,5}|\\?\Z)'
    r"|'{3}(?:[^']|'{1,2}(?!'))*(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*(?:"|\\?(?=\n)|\\?\Z)'
    r"|'[^'\n]*(?:'|(?=\n)|\Z)"
    r"|\#[^\n]*",
    re.DOTALL,
)
_BETWEEN_WORDS = re.compile(r"[=,\[\]{}\n]")


def parse_toml(text: str, *, source: str = "TOML text") -> dict[str, Any]:
    """Parse TOML within the bounds above. ``source`` identifies the text in errors. Raises SpecError."""
    if len(text) > MOST_TOML_BYTES:
        raise _refused(source, f"is larger than {human_bytes(MOST_TOML_BYTES)}", "check that this is the right file")
    _require_shallow(_UNSTRUCTURED.sub('""', text), source)
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(source, f"is not TOML: {shortened(str(error), 200)}", "fix the line named above") from None
    _require_few(tree, source)
    return tree


def _require_shallow(structure: str, source: str) -> None:
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", structure):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_DEPTH:
            raise _too_deep(source)
    for word in _BETWEEN_WORDS.split(structure):
        if word.count(".") > MOST_DEPTH:
            raise _too_deep(source)
        if len(word.strip()) > _LONGEST_WORD:
            problem = f"contains a word of {len(word.strip()):,} characters: {shortened(word.strip())}"
            raise _refused(source, problem, f"write numbers and keys of at most {_LONGEST_WORD} characters")


def _require_few(tree: dict[str, Any], source: str) -> None:
    level: list[Any] = [tree]
    for _ in range(MOST_DEPTH + 1):
        below: list[Any] = []
        for node in level:
            if len(node) > MOST_ENTRIES:
                some = ", ".join(shortened(str(each)) for each in list(node)[:3])
                problem = f"contains a table or list of {len(node):,} entries: {some} and so on"
                raise _refused(source, problem, f"write at most {MOST_ENTRIES:,}")
            inner = node.values() if isinstance(node, dict) else node
            below += [each for each in inner if isinstance(each, dict | list)]
        level = below
    if level:
        raise _too_deep(source)


def _too_deep(source: str) -> SpecError:
    return _refused(
        source, f"nests tables or lists more than {MOST_DEPTH} deep", "use fewer brackets, or fewer dots in keys"
    )


def _refused(source: str, problem: str, hint: str) -> SpecError:
    return SpecError(f"'{shortened(source, 200)}' {problem}", hint=hint)


def read_own_json(
    path: Path,
    kind: type[T],
    *,
    converted: Callable[[Any], Any] = lambda tree: tree,
    most_bytes: int = MOST_OWN_BYTES,
    error: type[LabError] = ResultError,
) -> T:
    """Read one of the lab's JSON files and convert it with ``converted``. Raises ``error`` or FileNotFoundError."""
    try:
        data = read_plain(path, most_bytes, is_own=True, error=error)
        return decoded_json(data, kind, converted=converted)
    except FileNotFoundError:
        raise
    except OSError as failure:
        raise error(f"'{path}' cannot be read: {failure.strerror}", hint="give yourself read permission") from None
    except ValueError as failure:
        raise error(f"'{path}' is damaged: {failure}", hint="move it elsewhere; the lab creates a new one") from None


def decoded_json(data: bytes | str, kind: type[T], *, converted: Callable[[Any], Any] = lambda tree: tree) -> T:
    """Decode JSON. Raises ValueError if the JSON is invalid, nested too deeply, or not a ``kind``."""
    try:
        return convert(converted(msgspec.json.decode(data)), kind)
    except (msgspec.MsgspecError, RecursionError) as failure:
        raise ValueError(str(failure)) from None
