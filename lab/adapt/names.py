"""Names of volumes, of their slices, and of the md arrays inside them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lab.disks.inventory import MAPPER
from lab.errors import SpecError

_VOLUME = re.compile(r"adapt(?:0|[1-9]\d?)")
_SLICE = re.compile(r"(adapt\d+)-d(\d+)w(\d+)")
FIRST_INNER_NUMBER = 100
"""Arrays inside volumes are md100 and so on, out of the way of those that users number from md0."""


def names_volume(name: str) -> bool:
    """Whether this names a volume of unequal disks, such as adapt0."""
    return bool(_VOLUME.fullmatch(name))


def require_volume_name(name: str) -> str:
    """``name`` itself; raises SpecError unless it is one that the lab uses."""
    if not names_volume(name):
        raise SpecError(f"'{name}' is not the name of a volume", hint="write adapt and a number below 100: adapt0")
    return name


def volume_device(name: str) -> str:
    """``/dev/mapper/adapt0`` for ``adapt0``."""
    return f"{MAPPER}{require_volume_name(name)}"


def slice_name(name: str, disk: int, window: int) -> str:
    """The slice of disk ``disk`` that is a member of window ``window``: ``adapt0-d03w01``."""
    return f"{name}-d{disk:02d}w{window:02d}"


def slice_device(name: str, disk: int, window: int) -> str:
    """Its node."""
    return f"{MAPPER}{slice_name(name, disk, window)}"


def parse_slice_name(text: str) -> tuple[str, int, int] | None:
    """Volume, disk and window; None for anything else."""
    match = _SLICE.fullmatch(text)
    return (match[1], int(match[2]), int(match[3])) if match else None


def inner_names(taken: Collection[str]) -> Iterator[str]:
    """Names for the arrays inside a volume. Raises SpecError when none is left."""
    for number in range(FIRST_INNER_NUMBER, 1000):
        if f"md{number}" not in taken:
            yield f"md{number}"
    raise SpecError("no md name is left for the arrays inside the volume", hint="stop other volumes first")
